"""``dejacue learn``: train a decoder with labels, say what it is worth, read histories with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.tables import note, retrieval_table, say_written, show, show_tables
from dejacue.data.release import load_release
from dejacue.errors import InputError, need, unknown
from dejacue.learn.decoders import DECODERS, REMEDY
from dejacue.records import History, Vocabulary
from dejacue.sources.atomic import check_place
from dejacue.sources.files import read_history, read_vocabulary
from dejacue.sources.results import read_references, write_retrievals

GROUPS = ("development", "seven", "vost")
KEEP_EVERY = 20  # epochs


@dataclass(frozen=True, eq=False)
class Files:
    """A history with words and labels from files."""

    history: History
    vocabulary: Vocabulary
    references: Any


def labelled(
    group: str | None, data: Path | None, histories: Sequence[Path], words: Path | None,
    references: Path | None,
) -> list[Any]:  # fmt: skip
    """A group of the release, or files."""
    if histories:
        if group is not None or words is None or references is None:
            raise InputError(
                "histories need --words (an .npz with features) and --references, and no --group"
            )
        vocabulary = read_vocabulary(words)
        true = {own.history_id: own.states for own in read_references(references)}
        read = [read_history(path) for path in histories]
        for path, history in zip(histories, read, strict=True):
            if history.id not in true:
                raise InputError(f"{path}: {references} has no moments of history {history.id}")
        return [Files(history, vocabulary, true[history.id]) for history in read]
    name = group or GROUPS[0]
    if name not in GROUPS:
        raise unknown("group", name, GROUPS)
    return list(getattr(load_release(data), name))


def train(
    decoder: str, output: Path, entries: Sequence[Any], settings: dict[str, Any],
    device: str | None, resume: bool,
) -> None:  # fmt: skip
    if decoder not in DECODERS:
        raise unknown("decoder", decoder, DECODERS)
    need("torch", REMEDY)
    need("safetensors", REMEDY)
    from dejacue.learn.decoders import checkpoint
    from dejacue.learn.decoders.training import Settings, Training

    check_place(output, folder=True)
    training = Training(Settings(decoder, **settings), entries, device)
    if resume:
        checkpoint.resume(training, output)
    with Bars() as bars:
        while training.epoch < training.settings.epochs:
            training.run(
                until=training.epoch + KEEP_EVERY,
                note=lambda stage, done, total: bars(stage, done, total),
            )
            checkpoint.save(training, output, resumable=True)
    checkpoint.save(training, output)
    for seed, loss in zip(training.settings.seeds, training.losses[-1], strict=True):
        note(f"seed {seed}: loss {loss:.3f} after {training.epoch} epochs")
    say_written(output, "decoder")


def evaluate(model: Path, entries: Sequence[Any]) -> None:
    need("torch", REMEDY)
    from dejacue.learn.decoders import checkpoint, reading

    about = checkpoint.read_about(model)
    table = Table("seed", "R@1 .3", "R@1 .5", "Top-1 tIoU", "same")
    for seed in about.settings.seeds:
        decoder, _ = checkpoint.load(model, seed)
        windows = reading.frames_of(entries, reading.found(decoder, entries)[0])
        own = reading.worth(entries, windows)
        table.add_row(str(seed), *(f"{100 * v:.1f}" for v in own["mean"]), f"{own['same']:.2f}")
    show_tables(table)
    note("same: overlap of the windows of different states; near 1, the words do not matter")


def predict(model: Path, history: Path, words: Path, seed: int | None, output: Path | None) -> None:
    need("torch", REMEDY)
    from dejacue.learn.decoders.readout import Decoder
    from dejacue.method.locate import locate

    found = locate(read_history(history), read_vocabulary(words), readout=Decoder.read(model, seed))
    if output is not None:
        write_retrievals(output, [found])
        say_written(output)
        return
    show("table", None, lambda: [retrieval_table(found)], lambda: "", lambda: "")
