"""Overlaps that only the paper's tables use: of paired windows, and of the best candidate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows, overlap
from dejacue.records.arrays import Floats


def paired_tiou(first: ArrayLike, second: ArrayLike) -> Floats:
    """Return the overlap (n,) of each window with the one in the same row of the other table."""
    a, b = as_windows(first, "first windows"), as_windows(second, "second windows")
    if len(a) != len(b):
        raise InputError(f"{len(a)} windows cannot be paired with {len(b)}")
    return overlap(a, b)


def oracle_tiou(windows: ArrayLike, references: Sequence[ArrayLike]) -> Floats:
    """Return (R,) overlap of the best of all windows with each list of references.

    Among windows of one length the overlap with a reference rises, stays and falls with the
    start, so the two starts beside the beginning of the plateau decide: C windows are sorted,
    not compared.
    """
    rows = as_windows(windows, "candidates")
    tables = [as_windows(table, "reference windows") for table in references]
    if not len(rows) or not all(map(len, tables)):
        problem = "the best overlap needs candidates, and at least one reference in every list"
        raise InputError(problem)
    if not tables:
        return np.empty(0)
    low, high = int(rows[:, 0].min()), int(rows[:, 0].max())
    room = high - low + 2
    lengths = rows[:, 1] - rows[:, 0] + 1
    keys = lengths * room + (rows[:, 0] - low)  # by length, then by start
    if (keys[1:] < keys[:-1]).any():
        keys = np.sort(keys)
        lengths = keys // room
    known = lengths[np.flatnonzero(np.diff(lengths, prepend=0))][:, None]
    flat = np.concatenate(tables)
    plateau = np.minimum(flat[:, 0], flat[:, 1] - known + 1)  # (lengths, references)
    at = np.searchsorted(keys, known * room + np.clip(plateau - low, 0, room - 1))
    best = np.zeros(len(flat))
    for beside in (np.maximum(at - 1, 0), np.minimum(at, len(keys) - 1)):
        length, start = np.divmod(keys[beside], room)
        nearest = np.stack([start + low, start + low + length - 1], axis=-1)
        np.maximum(best, overlap(nearest, flat).max(axis=0), out=best)
    return np.maximum.reduceat(best, np.cumsum([0, *map(len, tables[:-1])]))
