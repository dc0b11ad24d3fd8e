"""Evidence for states and its best window, in plain numpy: what the kernel does.

Cosines are smoothed over time inside stretches (runs between which short gaps are bridged), brought
to mean 0 and deviation 1, and every window is compared with all other observed frames:

    score = Σ inside / √(ℓ (1 − ℓ/n))        ℓ of n observed frames

Its square over n is the share of the variance that "one level inside, one outside" explains, so a
state may fill most of a history, gaps do not matter, and skewed noise favours no length.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dejacue.method import scan as s
from dejacue.records.arrays import Floats, Ints

MIN_SCALE = 1e-4  # a deviation of cosines below this is rounding, not evidence
NOTHING = 1e-9  # responses that are rounding errors
STARTS_AT_A_TIME = 128


def smooth(
    cosines: NDArray[np.float32], frames: Ints, cuts: Ints, weights: Floats
) -> tuple[Floats, Floats, Floats]:
    """Take weighted means over the frames of a stretch, then mean 0 and deviation 1 over all.

    Returns responses (R, N), their centre and scale (R,).
    """
    totals = _weighted(np.ones((1, len(frames))), frames, cuts, weights)[0]
    out = _weighted(cosines.astype(np.float64), frames, cuts, weights) / totals
    count = out.shape[1]
    centre = out.mean(axis=1)
    out -= centre[:, None]
    scale = np.maximum(np.sqrt(np.einsum("rn,rn->r", out, out) / count), MIN_SCALE)
    out /= scale[:, None]
    return out, centre, scale


def _weighted(rows: Floats, frames: Ints, cuts: Ints, weights: Floats) -> Floats:
    """Return sums of weight · value over each frame's neighbours, in the order of the frames."""
    out = np.zeros_like(rows)
    for first, last in pairwise(cuts.tolist()):
        numbers = frames[first:last]
        reach = min(len(weights) - 1, int(numbers[-1] - numbers[0]))
        for offset in range(-reach, reach + 1):
            there = np.searchsorted(numbers, numbers + offset)
            seen = numbers[np.minimum(there, len(numbers) - 1)] == numbers + offset
            here, there = first + np.flatnonzero(seen), first + there[seen]
            out[:, here] += weights[abs(offset)] * rows[:, there]
    return out


def contrast_norms(count: int) -> Floats:
    """Return √(ℓ · max(1 − ℓ/n, 1/n)) for ℓ = 0 … n (the first is never used)."""
    length = np.arange(count + 1, dtype=np.float64)
    norms: Floats = np.sqrt(length * np.maximum(1 - length / count, 1 / count))
    norms[0] = 1.0
    return norms


def search(responses: Floats, cuts: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the best window of each row (R, N) inside a stretch, under the tie rule of scan.py.

    A row in which nothing stands out gives its first frame.
    """
    norms, edges = contrast_norms(responses.shape[1]), cuts.tolist()
    return _columns([_best(row, edges, norms) for row in responses])


def search_parts(
    responses: Floats, rows: Ints, first: Ints, stop: Ints
) -> tuple[Ints, Ints, Floats]:
    """Return the best window of parts of rows (R, N): from ``first`` to before ``stop``."""
    norms, windows = contrast_norms(responses.shape[1]), []
    for row, a, b in zip(rows.tolist(), first.tolist(), stop.tolist(), strict=True):
        start, end, score = _best(responses[row, a:b], [0, b - a], norms)
        windows.append((a + start, a + end, score))
    return _columns(windows)


def _columns(windows: list[s.ScoredWindow]) -> tuple[Ints, Ints, Floats]:
    start, end = np.array([window[:2] for window in windows], np.int64).reshape(-1, 2).T
    return start, end, np.array([window[2] for window in windows], np.float64)


def _best(row: Floats, cuts: list[int], norms: Floats) -> s.ScoredWindow:
    """Try every window, some starts at a time."""
    if not np.abs(row).max() > NOTHING:
        return 0, 0, 0.0
    prefix = np.concatenate(([0.0], np.cumsum(row)))
    best = -np.inf
    near: list[s.ScoredWindow] = []
    for first, last in pairwise(cuts):
        for low in range(first, last, STARTS_AT_A_TIME):
            starts = np.arange(low, min(low + STARTS_AT_A_TIME, last))
            ends = np.arange(low, last)
            lengths = ends - starts[:, None] + 1
            sums = prefix[ends + 1] - prefix[starts][:, None]
            scores = np.where(lengths > 0, sums / norms[np.maximum(lengths, 1)], -np.inf)
            best = max(best, float(scores.max()))
            for a, b in np.argwhere(scores >= s.tie_threshold(best)).tolist():
                near.append((int(starts[a]), int(ends[b]), float(scores[a, b])))
    return min(window for window in near if window[2] >= s.tie_threshold(best))
