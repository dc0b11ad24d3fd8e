"""Intervals and tests by resampling, with the published draw order (§7).

Values are one per unit of resampling (source component, or history), in the order of the units'
names: the draws, and so the last digit of an interval, depend on that order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError

SEED = 3407
DRAWS = 10_000
ASSIGNMENTS = 100_000
BLOCK = 10_000
MOST_EXACT = 20  # units for which all 2ⁿ sign assignments are enumerated
SLACK = 1e-15


def _units(values: ArrayLike, least: int = 1) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < least:
        raise InputError(f"resampling needs one row of at least {least} values, not {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"value {int(np.argmin(np.isfinite(array)))} is not finite")
    return array


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, draws: int = DRAWS, seed: int = SEED
) -> tuple[float, float]:
    """Percentile interval of the mean over units drawn with replacement.

    One index matrix per seed and number of units, so that metrics of the same units share it;
    the interval of paired differences is the interval of their values.
    """
    array = _units(values)
    n = len(array)
    index = np.random.default_rng(seed).integers(0, n, size=(draws, n))
    return _interval(array[index].mean(axis=1), level)


def stratified_interval(
    values: ArrayLike,
    strata: Sequence[object],
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = SEED,
) -> tuple[float, float]:
    """The same, with units drawn within each stratum (in order of first appearance)."""
    array = _units(values)
    if len(strata) != len(array):
        raise InputError(f"{len(array)} values but {len(strata)} strata")
    rng = np.random.default_rng(seed)
    total = np.zeros(draws)
    for stratum in dict.fromkeys(strata):
        own = array[[s == stratum for s in strata]]
        total += own[rng.integers(0, len(own), size=(draws, len(own)))].sum(axis=1)
    return _interval(total / len(array), level)


def _interval(means: NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def sign_flip(differences: ArrayLike, *, assignments: int = ASSIGNMENTS, seed: int = SEED) -> float:
    """Two-sided p of the mean paired difference under random signs: (hits + 1)/(draws + 1)."""
    array = _units(differences, least=2)
    observed = abs(float(array.mean())) - SLACK
    rng = np.random.default_rng(seed)
    hits = 0
    for first in range(0, assignments, BLOCK):
        size = min(BLOCK, assignments - first)
        signs = rng.choice([-1.0, 1.0], size=(size, len(array)))
        hits += int((np.abs((signs * array).mean(axis=1)) >= observed).sum())
    return (hits + 1) / (assignments + 1)


def sign_flip_exact(differences: ArrayLike) -> float:
    """The same over all 2ⁿ assignments, for up to 20 units."""
    array = _units(differences, least=2)
    n = len(array)
    if n > MOST_EXACT:
        raise InputError(f"{n} units have too many sign assignments; use sign_flip")
    means = np.zeros(1)
    for value in array:  # all signed sums, doubling unit by unit
        means = np.concatenate([means + value, means - value])
    return float((np.abs(means / n) >= abs(float(array.mean())) - SLACK).mean())


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's corrected p-values of one family, in the order given."""
    p = _units(p_values)
    if ((p < 0) | (p > 1)).any():
        raise InputError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
