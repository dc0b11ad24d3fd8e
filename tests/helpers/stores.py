"""Make small histories and a vocabulary for the tests of stores."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from dejacue import History, Vocabulary
from dejacue.corpus import _file

D = 16


def rows(seed: int, count: int = 30, dimension: int = D) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float16)


def history(id: str, seed: int = 0, **options: object) -> History:
    return History(rows(seed), id=id, encoder="e", **options)


def words(seed: int = 1, **options: object) -> Vocabulary:
    features = np.random.default_rng(seed).normal(size=(4, D))
    states = {"open": ["open drawer", "drawer pulled out"], "closed": ["closed drawer", "shut"]}
    return Vocabulary(states, features, **{"encoder": "e", **options})


def drawn(seed: int) -> History:
    """Make a history with gaps and, for most seeds, with times and source frames."""
    rng = np.random.default_rng(seed)
    frames = np.flatnonzero(rng.random(80) < 0.8) - 3
    return History(
        rng.normal(size=(len(frames), D)),
        frames,
        id=f"h{seed}",
        encoder="e",
        times_s=frames / 7.0 + 5 if seed % 3 else None,
        source_frames=(None, frames, 6 * frames + 40)[seed % 3],
        made_with={"camera": f"c{seed % 2}"},
        presence=rng.random(len(frames)) if seed % 2 else None,
    )


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores find no room for another page."""
    real = _file.connect

    def full(*arguments: object, **options: object) -> sqlite3.Connection:
        connection = real(*arguments, **options)  # type: ignore[arg-type]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(_file, "connect", full)
