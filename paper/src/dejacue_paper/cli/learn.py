"""``dejacue learn``: train a decoder with labels, score it, print the windows it finds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dejacue.atomic import check_place
from dejacue.cli.tables import Bars, note, notes, say_written, show_tables, timeline_table
from dejacue.errors import Cancelled, InputError, counted, need, unknown
from dejacue.files.histories import read_history, read_vocabulary
from dejacue.files.results import read_references, write_timelines
from dejacue.method.localization import locate
from dejacue.records import History, Vocabulary, Window
from dejacue_paper.data.release import load_release
from dejacue_paper.learn.decoders import DECODERS, REMEDY
from dejacue_paper.method.windows import description_windows

if TYPE_CHECKING:
    from dejacue.method.readout import Readout
    from dejacue_paper.learn.decoders.training import Training

GROUPS = ("development", "seven", "vost")
KEEP_EVERY, KEEP_S = 20, 15.0  # epochs, or seconds
BASELINES = ("contrast", "published", "longest-run")


@dataclass(frozen=True, eq=False)
class Files:
    """A history with words and labels from files."""

    history: History
    vocabulary: Vocabulary
    references: Any


def labelled(
    group: str | None,
    data: Path | None,
    histories: Sequence[Path],
    words: Path | None,
    references: Path | None,
) -> list[Any]:
    """Return the histories of a group of the release, or of files."""
    if histories:
        if group is not None or words is None or references is None:
            raise InputError(
                "histories need --words (an .npz with features) and --references, and no --group"
            )
        vocabulary = read_vocabulary(words)
        true = {reference.history_id: reference.states for reference in read_references(references)}
        read = [read_history(path) for path in histories]
        for path, history in zip(histories, read, strict=True):
            if history.id not in true:
                raise InputError(
                    f"{path}: {references} has no windows for history {history.id}; "
                    "label some, or leave the history out"
                )
        return [
            Files(history, vocabulary, _observed(history, true[history.id])) for history in read
        ]
    name = group or GROUPS[0]
    if name not in GROUPS:
        raise unknown("group", name, GROUPS)
    return list(getattr(load_release(data), name))


def _observed(history: History, true: Mapping[str, Iterable[Window]]) -> dict[str, Any]:
    """Return the windows in frames of the history: labels count frames of the file."""
    by_state: dict[str, Any] = {}
    for state, windows in true.items():
        by_state[state] = tuple(history.from_source(window) for window in windows)
        if None in by_state[state]:
            raise InputError(
                f"history {history.id}: the object is never observed in a window of state "
                f'"{state}"; correct or remove the window'
            )
    return by_state


def train(
    decoder: str,
    output: Path,
    entries: Sequence[Any],
    settings: dict[str, Any],
    device: str | None,
    resume: bool,
) -> None:
    if decoder not in DECODERS:
        raise unknown("decoder", decoder, DECODERS)
    need("torch", REMEDY)
    need("safetensors", REMEDY)
    from dejacue_paper.learn.decoders import checkpoint
    from dejacue_paper.learn.decoders.training import Settings, Training

    check_place(output, folder=True)
    if not resume:
        checkpoint.check_free(output)
    training = Training(Settings(decoder, **settings), entries, device)
    if resume:
        checkpoint.resume(training, output)
    _run(training, output)
    checkpoint.save(training, output)
    for losses in training.losses[-1:]:
        for seed, loss in zip(training.settings.seeds, losses, strict=True):
            note(f"seed {seed}: loss {loss:.3f} after {counted(training.epoch, 'epoch')}")
    say_written(output, "decoder")


def _run(training: Training, output: Path) -> None:
    """Train to the end; save every KEEP_EVERY epochs, and on a CPU every KEEP_S seconds, too."""
    from dejacue_paper.learn.decoders import checkpoint

    most = KEEP_EVERY if training.device.type == "cuda" else 1
    last_saved, saved = training.epoch, time.monotonic()
    try:
        with Bars() as bars:
            while training.epoch < training.settings.epochs:
                training.run(
                    until=training.epoch + most,
                    note=lambda stage, done, total: bars(stage, done, total),
                )
                if training.epoch - last_saved >= KEEP_EVERY or time.monotonic() - saved > KEEP_S:
                    checkpoint.save(training, output, resumable=True)
                    last_saved, saved = training.epoch, time.monotonic()
    except KeyboardInterrupt:
        if not last_saved:
            raise Cancelled("stopped before anything was kept; start again") from None
        raise Cancelled(
            f"stopped; {output} has the state after {counted(last_saved, 'epoch')}; run the same "
            "command with --resume to continue"
        ) from None


def evaluate(model: Path, entries: Sequence[Any]) -> None:
    need("torch", REMEDY)
    from dejacue_paper.learn.decoders import checkpoint, reading
    from dejacue_paper.learn.decoders.records import check_words

    about = checkpoint.read_about(model)
    check_words(entries)
    for entry in entries:
        about.check(entry.history, model)
    table = Table("", "R@1 .3", "R@1 .5", "Top-1 tIoU", "same")

    def add(name: str, windows: Any) -> None:
        scores = reading.scores_of(entries, windows)
        table.add_row(name, *(f"{100 * v:.1f}" for v in scores["mean"]), f"{scores['same']:.2f}")

    for seed in about.settings.seeds:
        decoder, _ = checkpoint.load(model, seed)
        rows = reading.predict(decoder, entries)[0]
        add(f"{about.settings.decoder}, seed {seed}", reading.frames_of(entries, rows))
    for readout in BASELINES:
        add(readout, [_windows(entry, readout) for entry in entries])
    show_tables(table)
    note(
        "same: overlap between the windows of different states; near 1, the words make no "
        "difference"
    )


def _windows(entry: Any, readout: str) -> Any:
    return description_windows([entry.history], entry.vocabulary, readout=readout)[0]


def predict(model: Path, history: Path, words: Path, seed: int | None, output: Path | None) -> None:
    if output is not None:
        check_place(output)
    readout = _readout(model, seed)
    timeline = locate(read_history(history), read_vocabulary(words), readout=readout)
    if output is not None:
        write_timelines(output, [timeline])
        say_written(output)
        return
    show_tables(timeline_table(timeline))
    notes(*timeline.notes)


def _readout(model: Path, seed: int | None) -> Readout:
    """Return the readout of a folder that ``train`` wrote, or of a file that ``fit`` wrote."""
    if not model.is_file():
        from dejacue_paper.learn.decoders.readout import Decoder

        return Decoder.read(model, seed)
    from dejacue_paper.learn.calibrated import Calibrated

    if seed is not None:
        raise InputError(f"{model}: a fitted model has no seeds")
    return Calibrated.read(model)
