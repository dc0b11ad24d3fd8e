"""A trained decoder as a readout: ``locate(history, words, readout=Decoder.read("model"))``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dejacue.errors import need
from dejacue.method.readout import Readout, View, Windows
from dejacue.records import History, Note
from dejacue_paper.learn.decoders import REMEDY


@lru_cache(maxsize=8)
def _loaded(path: str, seed: int | None, changed: int) -> tuple[Any, Any]:
    need("torch", REMEDY)
    from dejacue_paper.learn.decoders.checkpoint import load

    return load(Path(path), seed)


@dataclass(frozen=True)
class Decoder(Readout):
    """The windows of a decoder that was trained with labels; it reads words and frames itself.

    path   the folder that ``dejacue learn train`` wrote
    seed   which of its seeds; None: the first
    """

    path: str
    seed: int | None = None
    changed: int = 0
    name: ClassVar[str] = "decoder"

    @classmethod
    def read(cls, path: str | os.PathLike[str], seed: int | None = None) -> Decoder:
        """Read the readout from the folder that ``dejacue learn train`` wrote."""
        need("torch", REMEDY)
        from dejacue_paper.learn.decoders.checkpoint import WEIGHTS, load

        folder = Path(path).expanduser()
        load(folder, seed)  # what is wrong with it is said here
        return cls(str(folder), seed, (folder / WEIGHTS).stat().st_mtime_ns)

    def find(self, view: View) -> Windows:
        from dejacue_paper.learn.decoders.reading import UnlabelledHistory, predict

        model, about = _loaded(self.path, self.seed, self.changed)
        history = view.history
        about.check(history, self.path)
        rows = predict(model, [UnlabelledHistory(history, view.vocabulary)])[0][0]
        start, end = rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)
        return Windows(start, end, rows[:, 2].copy())

    def notes(self, history: History) -> tuple[Note, ...]:
        text = "windows of a learned decoder: its scores compare windows, not frames"
        return (Note(text, "information"),)
