"""Averages and intervals that only the paper's tables use."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.resampling import DRAWS, SEED, Levels, group_means
from dejacue.records.arrays import Floats

LEVEL = 0.95


def nested_mean(values: ArrayLike, levels: Levels) -> tuple[float, dict[Hashable, float]]:
    """Return the uniform mean over the groups of the last level, and the value of each of them."""
    groups, means = group_means(values, levels)
    if means.ndim != 1:
        raise InputError("nested_mean takes one number per item; use group_means for more")
    return float(means.mean()), dict(zip(groups, means.tolist(), strict=True))


def stratified_interval(values: ArrayLike, strata: Sequence[object]) -> Floats:
    """Return the interval of ``bootstrap_interval`` with units drawn within each stratum: in every
    draw one stratum after the other, in order of first appearance."""
    array = np.asarray(values, dtype=np.float64)
    if len(strata) != len(array):
        raise InputError(f"{len(array)} values but {len(strata)} strata")
    parts = [array[[s == stratum for s in strata]] for stratum in dict.fromkeys(strata)]
    flat = [part.reshape(len(part), -1) for part in parts]
    sums = np.zeros((flat[0].shape[1], DRAWS))
    rng = np.random.default_rng(SEED)
    for draw in range(DRAWS):
        for part in flat:
            sums[:, draw] += part[rng.integers(0, len(part), size=len(part))].sum(axis=0)
    ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    quantiles: Floats = np.quantile(sums / len(array), ends, axis=1)
    return quantiles.reshape(2, *array.shape[1:])
