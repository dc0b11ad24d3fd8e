"""``dejacue locate``: from a history or a video to windows, a table, a report."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

from dejacue.cli import encoding
from dejacue.cli.tables import as_text, console, diagnostics_table, retrieval_table
from dejacue.errors import DejaCueError, InputError, MissingExtra
from dejacue.method.coordinates import check_pair
from dejacue.method.durations import SCHEDULES, as_durations
from dejacue.method.locate import evidence, locate
from dejacue.method.plan import Plan, as_readout
from dejacue.method.view import Readout
from dejacue.records import History, Retrieval, Vocabulary, Window
from dejacue.sources.documents import named
from dejacue.sources.encoders import Encoder, encode_vocabulary
from dejacue.sources.files import read_history, read_vocabulary
from dejacue.sources.npz import write_bytes, write_text

References = Mapping[str, Sequence[Window]]


@dataclass(frozen=True)
class Settings:
    """How to locate."""

    coordinates: str
    readout: Readout
    smoothing: int
    top: int
    diagnostics: bool
    engine: str

    def check(self) -> None:
        """Refuses before anything is read."""
        Plan.of(
            self.coordinates, self.readout, self.smoothing, self.top, self.diagnostics, self.engine
        )


@dataclass(frozen=True)
class Words:
    """Where the vocabulary is and how it is encoded if it is words only."""

    path: Path
    prompts: str | None = None
    encoder: str | None = None
    backend: str | None = None
    precision: str | None = None
    device: str | None = None

    def load(self, name: str) -> Encoder:
        return encoding.load(name, self.backend, self.precision, self.device)

    def vocabulary(self, encoder: Encoder | None, history: History | None = None) -> Vocabulary:
        """With features: those of the file, or those of the encoder."""
        words = self.path.suffix.lower() != ".npz"
        found = read_vocabulary(self.path, prompts=None if words else self.prompts)
        if found.features is not None:
            return found
        if encoder is None:
            assert history is not None
            with named(str(self.path)):
                encoder = self.load(self.encoder or encoding.encoder_for(history))
        if encoder.name == "mini":
            self._warn(found, encoder)
        return encode_vocabulary(found, encoder, prompts=self.prompts or "ensemble")

    def _warn(self, found: Vocabulary, encoder: Any) -> None:
        strange = [word for text in found.descriptions for word in encoder.words.strange(text)]
        if strange:
            names = ", ".join(dict.fromkeys(strange))
            note = f"note: words that mini does not know: {names}"
            console(stderr=True).print(escape(note), soft_wrap=True)


def readout_from(name: str, durations: str | None, norm: str | None, runs: str | None) -> Readout:
    """The named readout with the options that the user gave."""
    readout = as_readout(name)
    given: dict[str, Any] = {"durations": durations, "norm": norm, "runs": runs}
    given = {key: value for key, value in given.items() if value is not None}
    known = {field.name for field in fields(readout)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise InputError(f"--{key} does not apply to the readout {name}")
    if "durations" in given and given["durations"] not in SCHEDULES:
        given["durations"] = _lengths(given["durations"])
    return replace(readout, **given) if given else readout  # type: ignore[type-var]


def _lengths(text: str) -> Any:
    parts = [part.strip() for part in text.split(",")]
    try:
        return tuple(int(part) for part in parts if part)
    except ValueError:
        return as_durations(text)  # not a list of numbers: suggests the nearest schedule


def run(
    footage: encoding.Footage, words: Words, settings: Settings, format: str | None,
    output: Path | None, plot: Path | None, references: Path | None, cut: bool,
) -> None:  # fmt: skip
    settings.check()
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"{plot}: the plot is a PNG picture; give a name that ends in .png")
    truth = _references(references)
    if footage.video.suffix.lower() == ".npz":
        if footage.masks is not None:
            raise InputError(f"{footage.video}: is a history, which needs no --masks")
        if cut:
            raise InputError(f"{footage.video}: is a history; clips are cut from a video")
        history = read_history(footage.video)
        _one(history, footage.video, words, settings, format, output, plot, truth)
    else:
        _from_video(footage, words, settings, format, output, plot, truth, cut)


def _references(path: Path | None) -> dict[str, References]:
    """By history; a file of a single one serves any."""
    if path is None:
        return {}
    from dejacue.sources.results import read_references

    return {reference.history_id: reference.states for reference in read_references(path)}


def _of(truth: Mapping[str, References], history: History) -> References | None:
    own = next(iter(truth.values())) if len(truth) == 1 else truth.get(history.id)
    if own is None or not sampled(history):
        return own
    return {state: _in_samples(windows, history) for state, windows in own.items()}


def sampled(history: History) -> bool:
    """Whether its frames are not those of the file."""
    source = history.source_frames
    return source is not None and bool((source != history.frames).any())


def _in_samples(windows: Sequence[Window], history: History) -> list[Window]:
    """References count the frames of the file; here they are found among the observed samples."""
    found = []
    assert history.source_frames is not None
    for window in windows:
        first = int(np.searchsorted(history.source_frames, window.start))
        last = int(np.searchsorted(history.source_frames, window.end, side="right")) - 1
        if first <= last:
            found.append(Window(int(history.frames[first]), int(history.frames[last])))
    return found


def located(
    history: History, vocabulary: Vocabulary, settings: Settings, names: tuple[object, object]
) -> Retrieval:
    with named(f"{names[0]} with {names[1]}"):
        check_pair(history, vocabulary)
    with named(str(names[0])):
        return locate(
            history, vocabulary, coordinates=settings.coordinates, readout=settings.readout,
            smoothing=settings.smoothing, top=settings.top, diagnostics=settings.diagnostics,
            engine=settings.engine,
        )  # fmt: skip


def _one(
    history: History, path: Path, words: Words, settings: Settings, format: str | None,
    output: Path | None, plot: Path | None, truth: Mapping[str, References],
) -> None:  # fmt: skip
    vocabulary = words.vocabulary(None, history)
    retrieval = located(history, vocabulary, settings, (path, words.path))
    own = _of(truth, history)
    if plot is not None:
        _plot(plot, history, vocabulary, retrieval, settings, own)
    if output is not None and not output.suffix and (output.is_dir() or not output.exists()):
        _report(output, history, vocabulary, retrieval, settings, own, {}, str(history.id))
        output = None
        format = format or "table"
    show(retrieval, settings, format, output, own)


def show(
    retrieval: Retrieval, settings: Settings, format: str | None, output: Path | None,
    references: References | None = None,
) -> None:  # fmt: skip
    if format is None:
        suffix = output.suffix.lower() if output else ""
        format = {".json": "json", ".csv": "csv"}.get(suffix, "table")
    if format == "table":
        known = {s: tuple(w) for s, w in references.items()} if references else None
        tables = [retrieval_table(retrieval, known)]
        tables += [diagnostics_table(retrieval)] if settings.diagnostics else []
        if output is None:
            console().print(*tables, sep="\n")
        else:
            write_text(output, as_text(*tables))
    else:
        text = retrieval.to_json() + "\n" if format == "json" else as_csv(retrieval)
        if output is None:
            typer.echo(text, nl=False)
        else:
            write_text(output, text)
    for note in retrieval.notes:
        console(stderr=True).print(escape(f"note: {note}"), soft_wrap=True)


def _plot(
    path: Path, history: History, vocabulary: Vocabulary, retrieval: Retrieval,
    settings: Settings, references: References | None,
) -> None:  # fmt: skip
    from dejacue.report.plots import evidence_figure, save_png

    save_png(
        path, evidence_figure(history, _seen(history, vocabulary, settings), retrieval, references)
    )


def _seen(history: History, vocabulary: Vocabulary, settings: Settings) -> Any:
    return evidence(
        history, vocabulary, coordinates=settings.coordinates, smoothing=settings.smoothing,
        engine=settings.engine,
    )  # fmt: skip


def _from_video(
    footage: encoding.Footage, words: Words, settings: Settings, format: str | None,
    output: Path | None, plot: Path | None, truth: Mapping[str, References], cut: bool,
) -> None:  # fmt: skip
    footage.open()  # what is wrong with the input is said before a model is loaded
    if output is not None and output.suffix:
        raise InputError(f"{output}: a video gives several files; give a folder with --output")
    folder = output or Path("out") / encoding.safe(footage.video.stem)
    read_vocabulary(words.path)
    encoder = words.load(words.encoder or "siglip2")
    vocabulary = words.vocabulary(encoder)
    made, pictures = encoding.histories(footage, encoder, folder)
    for name, history in made.items():
        retrieval = located(history, vocabulary, settings, (footage.video, words.path))
        own = _of(truth, history)
        place = folder if len(made) == 1 else folder / encoding.safe(name)
        _report(place, history, vocabulary, retrieval, settings, own, pictures, str(footage.video))
        if plot is not None:
            _plot(plot, history, vocabulary, retrieval, settings, own)
        show(retrieval, settings, format, None, own)
        if cut:
            from dejacue.cli.cutting import cut as write_clips

            write_clips(place, footage, history, retrieval)
        if sampled(history):
            note = "note: frames count what was sampled; seconds, clips and references do not"
            console(stderr=True).print(note, soft_wrap=True)
        console(stderr=True).print(escape(f"report: {place / 'report.html'}"), soft_wrap=True)


def _report(
    folder: Path, history: History, vocabulary: Vocabulary, retrieval: Retrieval,
    settings: Settings, references: References | None, pictures: Mapping[int, bytes], video: str,
) -> None:  # fmt: skip
    """Everything a reader or another tool may want, in one folder."""
    from dejacue.report.exports import EXPORTS
    from dejacue.report.page import report_page

    page = report_page(
        history, _seen(history, vocabulary, settings), retrieval, references=references,
        thumbnails=list(pictures.items()), video=video,
    )  # fmt: skip
    write_text(folder / "report.html", page)
    _plot(folder / "evidence.png", history, vocabulary, retrieval, settings, references)
    write_text(folder / "retrieval.json", retrieval.to_json() + "\n")
    write_text(folder / "retrieval.csv", as_csv(retrieval))
    shutil.rmtree(folder / "clips", ignore_errors=True)  # of an earlier run
    for export in EXPORTS.values():
        path = folder / f"retrieval{export.suffix}"
        path.unlink(missing_ok=True)
        if export.timed and history.times_s is None:
            continue
        try:
            data = export(retrieval, history)
        except MissingExtra:
            continue
        except DejaCueError as error:
            note = f"note: no {export.suffix}: {error}"
            console(stderr=True).print(escape(note), soft_wrap=True)
            continue
        write_bytes(path, data)


def as_csv(retrieval: Retrieval) -> str:
    stream = io.StringIO()
    rows = retrieval.to_rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
