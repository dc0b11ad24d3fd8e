"""Whether two wordings of one state get the same answer (§7)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows, paired_tiou


def paraphrase_pairs(
    windows: ArrayLike, groups: Sequence[Hashable]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """All pairs of windows of the same group (state of a history), and how far they agree.

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
