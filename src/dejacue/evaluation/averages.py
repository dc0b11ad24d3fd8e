"""Averages over a ragged hierarchy, so that no state, history or source counts twice (§7)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError


def nested_mean(
    values: ArrayLike, levels: Sequence[Sequence[Hashable]]
) -> tuple[float, dict[Hashable, float]]:
    """Mean of means: items → levels[0] → levels[1] → … → uniform over the last level.

    values   (n,) one number per item
    levels   for each level, from fine to coarse, the group of every item; groups of a finer
             level are distinguished within the coarser ones. Published: states, histories,
             components.

    Returns the mean and the value of every group of the last level, sorted by group.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not len(levels) or any(len(level) != len(numbers) for level in levels):
        raise InputError("every level needs one group per value")
    if not len(numbers) or not np.isfinite(numbers).all():
        raise InputError("there is nothing to average, or a value is not finite")
    keys = [tuple(level[i] for level in reversed(levels)) for i in range(len(numbers))]
    current = list(zip(keys, numbers.tolist(), strict=True))
    for depth in range(len(levels), 0, -1):
        groups: dict[tuple[Hashable, ...], list[float]] = {}
        for key, value in current:
            groups.setdefault(key[:depth], []).append(value)
        current = [(key, float(np.mean(group))) for key, group in groups.items()]
    outer = {key[0]: value for key, value in sorted(current, key=lambda item: str(item[0][0]))}
    return float(np.mean(list(outer.values()))), outer
