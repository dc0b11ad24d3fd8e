"""Windows over prefix sums, in plain numpy (§4): the best one, all candidates, bridged runs.

Positions count observed frames; run r holds positions run_offsets[r] … run_offsets[r+1]−1.

The tie rule, everywhere: among all windows whose score is within 1e-9·max(1, |S|) of the highest
score S, the earliest start wins, then the earliest end. The rule looks at the set of windows, so
neither the order of enumeration nor the order of summation can change the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.records.arrays import Floats, Ints

TIE = 1e-9
ScoredWindow = tuple[int, int, float]  # first and last position, score

# what a window's sum is divided by, from its number of (observed) frames
NORMS: dict[str, Callable[[NDArray[Any]], Floats]] = {
    "sqrt": lambda count: np.sqrt(count),
    "sum": lambda count: np.ones(len(count)),
    "mean": lambda count: np.asarray(count, dtype=np.float64),
}


def tie_threshold(best: float) -> float:
    """Return the lowest score that counts as equal to the best."""
    return best - TIE * max(1.0, abs(best))


def select(starts: Ints, ends: Ints, scores: Floats) -> Ints:
    """Return, for each row of scores (Q, C), the index of the winner under the tie rule."""
    chosen = np.empty(len(scores), np.int64)
    for q, row in enumerate(scores):
        close = np.flatnonzero(row >= tie_threshold(float(row.max())))
        chosen[q] = close[np.lexsort((ends[close], starts[close]))[0]]
    return chosen


def prefix_sums(values: Floats) -> Floats:
    """Return (Q, N+1): a zero, then sums from left to right."""
    out = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=out[:, 1:])
    return out


def scan(
    responses: Floats, run_offsets: Ints, lengths: Sequence[int], norms: Floats
) -> tuple[Ints, Ints, Floats]:
    """Return the best window of every row: start, end and score; start −1 if no length fits.

    ``lengths`` ascend. O(N · lengths) time, O(N) memory per row.
    """
    queries = len(responses)
    pieces: list[tuple[int, int, Floats, float, Floats]] = []
    top = np.full(queries, -np.inf)
    for first, last in pairwise(run_offsets.tolist()):
        prefix = prefix_sums(responses[:, first:last])
        for length, norm in zip(lengths, norms.tolist(), strict=True):
            if length > last - first:
                break
            best = (prefix[:, length:] - prefix[:, :-length]).max(axis=1) / norm
            pieces.append((first, length, prefix, norm, best))
            np.maximum(top, best, out=top)
    start, end = np.full(queries, -1), np.full(queries, -1)
    score = top.copy()
    for q in range(queries):
        threshold = tie_threshold(float(top[q]))
        earliest: ScoredWindow | None = None
        for first, length, prefix, norm, best in pieces:
            if best[q] >= threshold:
                values = (prefix[q, length:] - prefix[q, :-length]) / norm
                at = int(np.argmax(values >= threshold))
                window = (first + at, first + at + length - 1, float(values[at]))
                earliest = window if earliest is None else min(earliest, window)
        if earliest is not None:
            start[q], end[q], score[q] = earliest
    return start, end, score


def candidate_windows(run_offsets: Ints, lengths: Sequence[int]) -> tuple[Ints, Ints]:
    """Return start and end positions of every window: length by length, then by start."""
    left = np.repeat(run_offsets[1:], np.diff(run_offsets)) - np.arange(run_offsets[-1])
    starts = [np.flatnonzero(left >= length) for length in lengths]  # left in the run, from here
    ends = [first + (length - 1) for first, length in zip(starts, lengths, strict=True)]
    nothing = np.empty(0, np.int64)
    return np.concatenate([*starts, nothing]), np.concatenate([*ends, nothing])


def bridged_windows(frames: Ints, lengths: Sequence[int]) -> tuple[Ints, Ints]:
    """Return windows that may cross missing frames: both ends are observed."""
    starts, ends = [], []
    for length in lengths:
        last = np.searchsorted(frames, frames + (length - 1))
        last[last == len(frames)] = 0
        ok = np.flatnonzero(frames[last] - frames == length - 1)
        starts.append(ok)
        ends.append(last[ok])
    return np.concatenate(starts), np.concatenate(ends)


def run_prefix(values: Floats, run_offsets: Ints) -> Floats:
    """Return (…, N + runs): prefix sums restarted at every run, each with its own leading zero."""
    return np.concatenate(
        [prefix_sums(values[:, first:last]) for first, last in pairwise(run_offsets.tolist())],
        axis=1,
    )


def run_of(positions: Ints, run_offsets: Ints) -> Ints:
    """Return the run that each position lies in."""
    return np.searchsorted(run_offsets, positions, side="right") - 1


def score_windows(
    responses: Floats, run_offsets: Ints, starts: Ints, ends: Ints, norm: str
) -> Floats:
    """Return (Q, C) scores: sum of the responses over norm(number of observed frames).

    No window may cross a run; bridged callers pass a single one.
    """
    run, prefix = run_of(starts, run_offsets), run_prefix(responses, run_offsets)
    sums: Floats = prefix[:, ends + 1 + run] - prefix[:, starts + run]
    sums /= NORMS[norm](ends - starts + 1)
    return sums
