"""Averages over a ragged hierarchy, and their intervals and tests by resampling (§7).

Means are taken level by level, so that no state, history or source counts twice. Draws are in the
published order. Values are one per unit of resampling (source component, or history), in the order
of the units' names: the draws, and so the last digit of an interval, depend on that order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

    >>> names, means = group_means([0.0, 1.0, 1.0], [["cup", "cup", "jar"]])
    >>> names, means.tolist()
    (['cup', 'jar'], [0.5, 1.0])
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim not in (1, 2) or not len(numbers):
        raise InputError("nothing to average: give one row of numbers per item")
    if not len(levels) or any(len(level) != len(numbers) for level in levels):
        raise InputError(f"every level needs one group for each of the {len(numbers)} values")
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise InputError(f"value {row} is not finite")
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


SEED = 3407
DRAWS = 10_000
ASSIGNMENTS = 100_000
BLOCK = 10_000
MAX_INDICES = 1 << 20  # drawn at a time
MAX_CACHED_SIGNS = 1 << 24  # between tests, a byte each
MAX_EXACT_UNITS = 20  # units for which all 2ⁿ sign assignments are enumerated
SLACK = 1e-15


def _units(values: ArrayLike, minimum: int = 1) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2) or len(array) < minimum:
        problem = f"resampling needs at least {minimum} units, not values of shape {array.shape}"
        raise InputError(problem)
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InputError(f"value {row} is not finite")
    return array


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, draws: int = DRAWS, seed: int = SEED
) -> Floats:
    """Return the percentile interval of the mean over units drawn with replacement: (low, high).

    values   (n,), or (n, k) for k metrics of the same units, which share the draws → (2, k)

    The interval of paired differences is the interval of their values.

    >>> bootstrap_interval([0.5, 0.5]).tolist()
    [0.5, 0.5]
    """
    array = _units(values)
    if not 0 < level < 1 or draws < 1:
        raise InputError(f"level {level} must be between 0 and 1, and draws {draws} at least 1")
    sums = _drawn_sums(array, np.random.default_rng(seed), draws)
    ends = [(1 - level) / 2, (1 + level) / 2]
    quantiles: Floats = np.quantile(sums / len(array), ends, axis=1)
    return quantiles.reshape(2, *array.shape[1:])


def _drawn_sums(array: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Return (k, draws) sums over as many units as there are, drawn with replacement."""
    columns = array.reshape(len(array), -1).T
    sums = np.empty((len(columns), draws))
    block = max(1, MAX_INDICES // len(array))  # the stream of draws does not depend on it
    for first in range(0, draws, block):
        size = min(block, draws - first)
        index = rng.integers(0, len(array), size=(size, len(array)))
        for row, column in zip(sums, columns, strict=True):
            row[first : first + size] = column[index].sum(axis=1)
    return sums


def sign_flip(
    differences: ArrayLike, *, assignments: int = ASSIGNMENTS, seed: int = SEED
) -> Floats:
    """Return the two-sided p of the mean paired difference under random signs:
    (hits + 1)/(draws + 1).

    differences   (n,) → (), or (n, k) → (k,): k metrics of the same units share the signs

    >>> float(sign_flip([0.0, 0.0], assignments=9))
    1.0
    """
    array = _units(differences, minimum=2)
    if assignments < 1:
        raise InputError(f"{assignments} sign assignments; at least one is needed")
    least = np.abs(array.mean(axis=0)) - _slack(array)
    hits = np.zeros(array.shape[1:])
    few = assignments * len(array) <= MAX_CACHED_SIGNS
    for signs in (_cached_signs if few else _signs)(seed, assignments, len(array)):
        hits += (np.abs(signs.astype(np.float64) @ array / len(array)) >= least).sum(axis=0)
    return (hits + 1) / (assignments + 1)


def _slack(array: Floats) -> float:
    """Return how far two orders of summation may be apart; published, up to one: 1e-15."""
    return SLACK * max(1.0, float(np.abs(array).max()))


def _signs(seed: int, assignments: int, units: int) -> Iterator[NDArray[np.int8]]:
    """Return blocks of random signs, one row per assignment, in the published order."""
    rng = np.random.default_rng(seed)
    block = max(1, min(BLOCK, MAX_INDICES // units))  # the stream does not depend on it
    for first in range(0, assignments, block):
        size = (min(block, assignments - first), units)
        yield (2 * rng.integers(0, 2, size=size) - 1).astype(np.int8)  # what rng.choice draws


@lru_cache(maxsize=2)
def _cached_signs(seed: int, assignments: int, units: int) -> tuple[NDArray[np.int8], ...]:
    """Return the same, cached: tests of the same units share their signs."""
    return tuple(_signs(seed, assignments, units))


def sign_flip_exact(differences: ArrayLike) -> Floats:
    """Return the two-sided p over all 2ⁿ assignments of signs, for up to 20 units.

    >>> float(sign_flip_exact([0.5, 0.5, 0.5]))
    0.25
    """
    array = _units(differences, minimum=2)
    n = len(array)
    if n > MAX_EXACT_UNITS:
        raise InputError(f"{n} units have too many sign assignments; use sign_flip")
    sums = np.zeros((1, *array.shape[1:]))
    for value in array:  # all signed sums, doubling unit by unit
        sums = np.concatenate([sums + value, sums - value])
    hits = np.abs(sums / n) >= np.abs(sums[0] / n) - _slack(array)  # the first has no sign flipped
    return np.asarray(hits.mean(axis=0))


@dataclass(frozen=True)
class Paired:
    """Compares two methods by one metric; holm_p is corrected within the metrics compared."""

    delta: float
    low: float
    high: float
    p: float
    holm_p: float


def compare(first: ArrayLike, second: ArrayLike) -> list[Paired]:
    """Compare first − second, (n, k) values of n units in k metrics: one family of k tests.

    Intervals by the bootstrap, p by sign-flips: exact for up to 20 units, drawn above.

    >>> (paired,) = compare([[0.9], [0.8], [0.7]], [[0.4], [0.3], [0.2]])
    >>> round(paired.delta, 3), paired.p
    (0.5, 0.25)
    """
    a, b = _units(first, minimum=2), _units(second, minimum=2)
    if a.shape != b.shape or a.ndim != 2:
        raise InputError(f"paired tables must have the same shape, not {a.shape} and {b.shape}")
    difference = a - b
    interval = bootstrap_interval(difference)
    p = sign_flip_exact(difference) if len(a) <= MAX_EXACT_UNITS else sign_flip(difference)
    columns = (difference.mean(axis=0), *interval, p, holm(p))
    return [Paired(*row) for row in np.stack(columns, axis=1).tolist()]


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's corrected p-values of one family, in the order given.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = _units(p_values)
    if p.ndim != 1:
        raise InputError("Holm's correction takes a single row of p-values")
    if ((p < 0) | (p > 1)).any():
        raise InputError("p-values must be between 0 and 1")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
