"""``dejacue locate``: from a history or a video to windows, a table, a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.markup import escape

from dejacue.cli import encoding, tracking
from dejacue.cli.reporting import References, write_plot, write_report
from dejacue.cli.settings import Settings
from dejacue.cli.tables import (
    as_text,
    console,
    diagnostics_table,
    note,
    retrieval_table,
    show_tables,
)
from dejacue.errors import InputError
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import check_pair
from dejacue.method.locate import locate
from dejacue.method.occurrences import occurrences
from dejacue.records import History, Moment, Retrieval, Vocabulary
from dejacue.records.retrieval import sampled
from dejacue.report.exports import as_csv, as_json
from dejacue.sources.atomic import check_place, write_text
from dejacue.sources.documents import named
from dejacue.sources.encoders import Encoder, encode_vocabulary
from dejacue.sources.files import read_history, read_vocabulary
from dejacue.sources.tracks import read_notes
from dejacue.sources.video import Video

FILES = (".json", ".csv", ".txt")
NEARLY = 1e-6  # of a cosine
CLOSE = 0.5  # of the best score: what an alternative reaches
STILL = (
    "all frames look the same to the encoder, so which of them are found is arbitrary; is it a "
    "still picture, or are the masks those of the background?"
)
SAMPLED = "frames count what was sampled; source frames, seconds, clips and references do not"
NO_TIMES = "images have no times, so there are no seconds and no .vtt; --rate 25 would give them"


@dataclass(frozen=True)
class Wanted:
    """What is to be shown and written."""

    format: str | None = None
    output: Path | None = None
    plot: Path | None = None
    references: Path | None = None
    cut: bool = False


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

    @property
    def encoded(self) -> bool:
        """Whether the file holds features."""
        return self.path.suffix.lower() == ".npz"

    def encoder_of(self, history: History) -> Encoder | None:
        """The one that words are encoded with to go with a history; none for features."""
        if self.encoded:
            return None
        read_vocabulary(self.path)  # what is wrong with it is said before a model is loaded
        with named(str(self.path)):
            return self.load(self.encoder or encoding.encoder_for(history))

    def vocabulary(self, encoder: Encoder | None) -> Vocabulary:
        """With features: those of the file, or those of the encoder."""
        found = read_vocabulary(self.path, prompts=self.prompts if self.encoded else None)
        if found.features is not None:
            return found
        assert encoder is not None
        if encoder.name == "mini":
            self._warn(found, encoder)
        return encode_vocabulary(found, encoder, prompts=self.prompts or "ensemble")

    def _warn(self, found: Vocabulary, encoder: Any) -> None:
        strange = [
            word for text in found.descriptions for word in encoder.words.unknown_words(text)
        ]
        if strange:
            note(f"words that mini does not know: {', '.join(dict.fromkeys(strange))}")


def run(
    footage: encoding.Footage, words: Words, settings: Settings, wanted: Wanted,
    clicks: tracking.Clicks | None = None, following: tracking.Following | None = None,
) -> None:  # fmt: skip
    settings.check()
    plot = wanted.plot
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"{plot}: the plot is a PNG picture; give a name that ends in .png")
    truth = _references(wanted.references)
    if footage.video.suffix.lower() == ".npz":
        if footage.masks is not None or clicks:
            raise InputError(f"{footage.video}: is a history, which needs no masks and no boxes")
        if wanted.cut:
            raise InputError(f"{footage.video}: is a history; clips are cut from a video")
        _one(read_history(footage.video), footage.video, words, settings, wanted, truth)
        return
    if clicks and footage.masks is not None:
        raise InputError("masks are given, and a box or click as well; leave one of them out")
    prompts = (clicks, following or tracking.Following()) if clicks else None
    _from_video(footage, words, settings, wanted, truth, prompts)


def _followed(
    footage: encoding.Footage, folder: Path, clicks: tracking.Clicks, following: tracking.Following
) -> encoding.Footage:
    """Masks made from boxes and clicks, in the folder of the report."""
    masks = tracking.follow(footage.open_video(), clicks, following, folder / "masks")
    notes = read_notes(masks)
    lineages = list(notes.shown.values()) if notes else []
    if notes:
        tracking.summarise(masks, notes, stderr=True)
    if not lineages:
        raise InputError(f"{masks}: the object is seen in no frame; look at its box or click")
    if len(lineages) == 1:
        objects = ",".join(map(str, lineages[0]))
    elif all(len(own) == 1 for own in lineages):
        objects = "all"
    else:
        raise InputError(
            f"{masks}: holds several objects in several pieces; locate one at a time with --masks "
            f"{masks} --object {','.join(map(str, lineages[0]))}"
        )
    return replace(footage, masks=masks, objects=footage.objects or objects)


def _references(path: Path | None) -> dict[str, References]:
    """By history; a file of a single one serves any."""
    if path is None:
        return {}
    from dejacue.sources.results import read_references

    return {reference.history_id: reference.states for reference in read_references(path)}


def _of(truth: Mapping[str, References], history: History) -> References | None:
    return next(iter(truth.values())) if len(truth) == 1 else truth.get(history.id)


def located(
    history: History, vocabulary: Vocabulary, settings: Settings, names: tuple[object, object],
    unrelated: Sequence[Vocabulary] = (),
) -> Retrieval:  # fmt: skip
    with named(f"{names[0]} with {names[1]}"):
        check_pair(history, vocabulary)
    with named(str(names[0])):
        found = locate(
            history, vocabulary, coordinates=settings.coordinates, readout=settings.readout,
            smoothing=settings.smoothing, top=settings.windows, diagnostics=settings.diagnostics,
            unrelated=unrelated, absent_at=settings.absent_at, engine=settings.engine,
        )  # fmt: skip
    if settings.top is None and isinstance(settings.readout, Contrast):
        found = _worth_a_look(found)
    if still(history):
        return replace(found, notes=(*found.notes, STILL))
    if isinstance(settings.readout, Contrast):
        found = replace(found, notes=(*found.notes, *_returning(history, vocabulary, settings)))
    return found


def _begin(moment: Moment) -> int:
    return moment.window.start


def _returning(history: History, vocabulary: Vocabulary, settings: Settings) -> list[str]:
    """A hint where one window may be too few: a state with a second occurrence that is strong."""
    every = occurrences(
        history, vocabulary, coordinates=settings.coordinates, engine=settings.engine
    )
    labelled = sorted((m for own in every.values() for m in own), key=_begin)
    visits = [list(own) for _, own in groupby(labelled, key=lambda moment: moment.state)]
    best = {state: own[0].score for state, own in every.items() if own}
    strong = [v[0].state for v in visits if sum(m.score for m in v) >= CLOSE * best[v[0].state]]
    names = [f'"{state}"' for state in dict.fromkeys(strong) if strong.count(state) > 1]
    if not names:
        return []
    return [f"{', '.join(names)} may hold more than once; --readout joint lists every occurrence"]


def _worth_a_look(found: Retrieval) -> Retrieval:
    """Without alternatives that are far behind, where nobody asked for a number of them."""
    moments = tuple(
        replace(
            moment,
            alternatives=tuple(
                (window, score) for window, score in moment.alternatives
                if score >= CLOSE * moment.score
            ),
        )
        for moment in found
    )  # fmt: skip
    return replace(found, moments=moments)


def compared_with(
    encoder: Encoder | None, words: Words, vocabulary: Vocabulary, settings: Settings
) -> list[Vocabulary]:
    """Vocabularies for p-values; none without an encoder, or where the readout has no p-values."""
    if not isinstance(settings.readout, Contrast):
        return []
    if encoder is None:
        if settings.absent_at is not None:
            raise InputError(
                f"{words.path}: --absent-at compares with other words, which need an encoder; give "
                "the descriptions as .yaml or .json"
            )
        return []
    from dejacue.data.unrelated import unrelated_vocabularies
    from dejacue.method.confidence import unrelated_to

    bank = unrelated_vocabularies(encoder, words.prompts or "ensemble")
    if settings.absent_at is None:
        try:
            return unrelated_to(vocabulary, bank)
        except InputError:
            return []  # nothing to compare with, and nobody asked
    return bank


def still(history: History) -> bool:
    """Whether all its frames look the same to the encoder."""
    rows = history.features.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return len(rows) > 1 and bool((rows @ rows[0] > 1 - NEARLY).all())


def _one(
    history: History, path: Path, words: Words, settings: Settings, wanted: Wanted,
    truth: Mapping[str, References],
) -> None:  # fmt: skip
    encoder = words.encoder_of(history)
    vocabulary = words.vocabulary(encoder)
    others = compared_with(encoder, words, vocabulary, settings)
    found = located(history, vocabulary, settings, (path, words.path), others)
    own = _of(truth, history)
    output, format = wanted.output, wanted.format
    if wanted.plot is not None:
        write_plot(wanted.plot, history, vocabulary, found, settings, own)
    if output is not None and not output.suffix and (output.is_dir() or not output.exists()):
        write_report(output, history, vocabulary, found, settings, own, {}, None)
        output = None
        format = format or "table"
    show([(found, own)], settings, format, output)
    if sampled(history):
        note(SAMPLED)


Found = tuple[Retrieval, References | None]


def show(
    found: Sequence[Found], settings: Settings, format: str | None, output: Path | None
) -> None:
    """On the screen, or all in one file; their notes on stderr."""
    if format is None:
        suffix = output.suffix.lower() if output else ""
        format = {".json": "json", ".csv": "csv"}.get(suffix, "table")
    retrievals = [retrieval for retrieval, _ in found]
    if format == "table":
        tables = []
        for retrieval, own in found:
            known = {s: tuple(w) for s, w in own.items()} if own else None
            tables.append(retrieval_table(retrieval, known))
            tables += [diagnostics_table(retrieval)] if settings.diagnostics else []
        if output is None:
            show_tables(*tables)
        else:
            write_text(output, as_text(*tables))
    else:
        text = as_json(*retrievals) if format == "json" else as_csv(*retrievals)
        if output is None:
            typer.echo(text, nl=False)
        else:
            write_text(output, text)
    for retrieval in retrievals:
        for sentence in retrieval.notes:
            note(sentence if len(found) == 1 else f"{retrieval.history_id}: {sentence}")


def _places(output: Path | None, video: Video) -> tuple[Path, Path | None]:
    """The folder for history and report, and the one file that is wanted instead of a report."""
    folder = Path("out") / encoding.safe(video.name)
    if output is None or output.is_dir() or not output.suffix:
        return output or folder, None
    if output.suffix.lower() not in FILES:
        raise InputError(f"{output}: give a {', '.join(FILES)} file, or a folder for the report")
    return folder, output


def _from_video(
    footage: encoding.Footage, words: Words, settings: Settings, wanted: Wanted,
    truth: Mapping[str, References],
    prompts: tuple[tracking.Clicks, tracking.Following] | None = None,
) -> None:  # fmt: skip
    # what is wrong with the input is said before a model is loaded and an object followed
    video = footage.open_video() if prompts else footage.open()[0]
    folder, file = _places(wanted.output, video)
    plot, format = wanted.plot, wanted.format
    check_place(folder, folder=True)
    for place in (file, plot):
        if place is not None:
            check_place(place)
    read_vocabulary(words.path)
    encoder = words.load(words.encoder or "siglip2")
    vocabulary = words.vocabulary(encoder)
    others = compared_with(encoder, words, vocabulary, settings)
    if prompts:
        footage = _followed(footage, folder, *prompts)
    made, files, pictures = encoding.histories(footage, encoder, folder, pictures=file is None)
    found: list[Found] = []
    for name, history in made.items():
        retrieval = located(history, vocabulary, settings, (footage.video, words.path), others)
        own = _of(truth, history)
        found.append((retrieval, own))
        place = folder if len(made) == 1 else folder / encoding.safe(name)
        if file is None:
            write_report(place, history, vocabulary, retrieval, settings, own, pictures[name],
                    footage)  # fmt: skip
            show([(retrieval, own)], settings, format, None)
        if plot is not None:
            drawn = plot if len(made) == 1 else plot.with_stem(f"{plot.stem}-{place.name}")
            write_plot(drawn, history, vocabulary, retrieval, settings, own)
        if wanted.cut:
            from dejacue.cli.cutting import cut as write_clips

            write_clips(place, footage, history, retrieval.found)
        if file is None:
            console(stderr=True).print(escape(f"report: {place / 'report.html'}"), soft_wrap=True)
    if file is not None:
        show(found, settings, format, file)
        for path in files.values():
            console(stderr=True).print(escape(f"history: {path}"), soft_wrap=True)
    if any(sampled(history) for history in made.values()):
        note(SAMPLED)
    if any(history.times_s is None for history in made.values()):
        note(NO_TIMES)
