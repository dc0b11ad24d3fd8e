"""Averages over a ragged hierarchy, so that no state, history or source counts twice (§7)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.records.arrays import Floats

Levels = Sequence[Sequence[Hashable]]


def group_means(values: ArrayLike, levels: Levels) -> tuple[list[Hashable], Floats]:
    """Average items → levels[0] → levels[1] → … → one value per group of the last level.

    values   (n,), or (n, k) for k metrics of the same items
    levels   for each level, from fine to coarse, the group of every item; groups of a finer
             level are distinguished within the coarser ones. Published: states, histories,
             components.

    Returns the groups of the last level, sorted by name, and their values (G,) or (G, k).
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim not in (1, 2) or not len(numbers):
        problem = "nothing to average: give one row of numbers per item"
        raise InputError(problem, field="values", value=numbers.shape)
    if not len(levels) or any(len(level) != len(numbers) for level in levels):
        problem = f"every level needs one group for each of the {len(numbers)} values"
        raise InputError(problem, field="levels")
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise InputError(f"value {row} is not finite", field="values", value=row)
    keys = list(zip(*reversed(levels), strict=True))  # coarse to fine
    for depth in range(len(levels), 0, -1):
        heads = [key[:depth] for key in keys]
        order = {head: at for at, head in enumerate(dict.fromkeys(heads))}
        index = np.array([order[head] for head in heads])
        sums = np.zeros((len(order), *numbers.shape[1:]))
        np.add.at(sums, index, numbers)
        counts = np.bincount(index).reshape(-1, *[1] * (numbers.ndim - 1))
        numbers, keys = sums / counts, list(order)
    rank = sorted(range(len(keys)), key=lambda at: str(keys[at][0]))
    return [keys[at][0] for at in rank], numbers[rank]


def nested_mean(values: ArrayLike, levels: Levels) -> tuple[float, dict[Hashable, float]]:
    """Return the uniform mean over the groups of the last level, and the value of each of them."""
    groups, means = group_means(values, levels)
    if means.ndim != 1:
        problem = "nested_mean takes one number per item; use group_means for more"
        raise InputError(problem, field="values", value=means.shape)
    return float(means.mean()), dict(zip(groups, means.tolist(), strict=True))
