"""The cheapest cut of stretches of frames, in plain numpy: the oracle of the compiled segments.h.

Optimal partitioning from prefix sums, in which starts that can never win again are dropped (PELT).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dejacue.records.arrays import Floats, Ints

ENDS_AT_A_TIME = 32
MAX_STARTS = 4096  # that may still win: above it, every other one of the older half goes
STRANDS = 8  # partial sums of a product, as the kernel has them


def partition(rows: Floats, cuts: Ints, penalty: float) -> Ints:
    """Return (N,) where the last segment up to each frame begins, counted from the first frame of
    its stretch."""
    parts = [_stretch(rows[first:end], penalty) for first, end in pairwise(cuts.tolist())]
    return np.concatenate(parts)


def _stretch(rows: Floats, penalty: float) -> Ints:
    count = len(rows)
    sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    squares = np.concatenate(([0.0], np.cumsum(_products(rows, rows))))
    lengths = _products(sums, sums)
    best = np.empty(count + 1)  # of the first t frames
    best[0] = -penalty
    start = np.zeros(count + 1, np.int64)  # of the last segment of those
    left = np.zeros(1, np.int64)  # starts that may still win
    for low in range(1, count + 1, ENDS_AT_A_TIME):
        high = min(low + ENDS_AT_A_TIME, count + 1)
        known, left = len(left), np.concatenate([left, np.arange(low, high)])
        before = sums[left]
        for t in range(low, high):
            starts = left[: known + t - low]
            apart = (lengths[t] + lengths[starts]) - 2 * _products(before[: len(starts)], sums[t])
            until = best[starts] + (squares[t] - squares[starts] - apart / (t - starts))
            chosen = int(until.argmin())
            best[t], start[t] = until[chosen] + penalty, starts[chosen]
        left = np.append(starts[until <= best[t]], t)  # to cut never costs more than not to
        if len(left) > MAX_STARTS:
            positions = np.arange(len(left))
            recent = positions >= len(left) // 2
            left = left[recent | (positions % 2 == 0) | (left == start[t])]
    return start[1:]


def _products(left: Floats, right: Floats) -> Floats:
    """Return row-wise dot products of (n, d) with (n, d) or (d,), summed as the kernel does."""
    terms = left * right
    sums = np.zeros((len(terms), STRANDS))
    for first in range(0, terms.shape[1], STRANDS):
        block = terms[:, first : first + STRANDS]
        sums[:, : block.shape[1]] += block
    for half in (4, 2, 1):
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]
