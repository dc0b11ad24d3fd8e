"""Agreement of the windows of two wordings of a state, and groups by the
duration of the reference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows
from dejacue.records.arrays import Floats, Ints
from dejacue_paper.evaluation.overlap import paired_tiou


def paraphrase_pairs(windows: ArrayLike, groups: Sequence[Hashable]) -> tuple[Ints, Floats, Floats]:
    """Return all pairs of windows of the same group (state of a history), and how far they agree.

    Returns the rows of each pair (P, 2), their tIoU (P,), and 1 where both ends are equal (P,).
    """
    array = as_windows(windows, "retrieved windows")
    if len(groups) != len(array):
        raise InputError(f"{len(array)} windows but {len(groups)} groups")
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    pairs = [pair for rows in members.values() for pair in combinations(rows, 2)]
    if not pairs:
        raise InputError("no state has two descriptions, so there are no paraphrases to compare")
    index = np.array(pairs, dtype=np.int64)
    first, second = array[index[:, 0]], array[index[:, 1]]
    same = (first == second).all(axis=1).astype(np.float64)
    return index, paired_tiou(first, second), same


def duration_strata(durations: ArrayLike, population: ArrayLike) -> tuple[Ints, Floats]:
    """Return the quartile (0 shortest … 3 longest) of each duration, and the three boundaries.

    durations    (n,) reference length of each item
    population   lengths that the quartiles are taken of: published, one per state

    An item belongs to the first quartile whose upper boundary its duration does not exceed.
    """
    lengths, all_lengths = np.asarray(durations), np.asarray(population)
    for array in (lengths, all_lengths):
        numbers = array.dtype.kind in "iuf" and array.ndim == 1 and len(array) > 0
        if not numbers or not ((array >= 1) & (array < np.inf)).all():
            raise InputError("strata need a single row of durations, each at least one frame")
    boundaries: Floats = np.quantile(all_lengths, [0.25, 0.5, 0.75])
    return np.searchsorted(boundaries, lengths, side="left"), boundaries
