"""The complement statistic: a window against all other observed frames, over every duration.

    score = Σ inside / √(ℓ (1 − ℓ/n))        responses with mean 0 and deviation 1, ℓ of n frames

Its square over n is the share of the variance that "one level inside, one outside" explains, so a
state may fill most of a history, gaps do not matter, and skewed noise favours no length. The
search is exact: all windows in numpy, those that can win in the compiled module (contrast.c).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.method import scan as s
from dejacue.method.states import Steady, kernel_of
from dejacue.method.view import Selection, View

STARTS_AT_A_TIME = 128
NOTHING = 1e-9  # responses that are rounding errors
LOOSE = 1e-8  # per observed frame: more than what a window within the tie can deviate by

Found = tuple[int, int, float]  # first and last position, score


@dataclass(frozen=True)
class Contrast(Steady):
    """The window that differs most from the rest of the history, in the state's direction."""

    name: ClassVar[str] = "contrast"

    def read(self, view: View) -> Selection:
        seen = self.see(view)
        how = kernel_of(view)
        start, end, score = search(seen.responses, seen.cuts, len(view.history), how)
        rows = seen.row_of
        level = "state" if self.pooling == 1 else "description"
        return Selection(
            start[rows], end[rows], score[rows], seen.centre[rows], seen.scale[rows], level
        )

    def alternatives(
        self, view: View, query: int, chosen: tuple[int, int], more: int
    ) -> list[Found]:
        """Up to ``more`` further windows: each the best that overlaps none before it."""
        seen = self.see(view)
        row = int(seen.row_of[query])
        how = kernel_of(view)
        key = ("alternatives", self, row, chosen, more)
        found: list[Found] = view.once(
            key, lambda: disjoint(seen.responses[row], seen.cuts, chosen, more, how)
        )
        return found


def contrast_norms(count: int) -> NDArray[np.float64]:
    """√(ℓ · max(1 − ℓ/n, 1/n)) for ℓ = 0 … n (the first is never used)."""
    length = np.arange(count + 1, dtype=np.float64)
    norms: NDArray[np.float64] = np.sqrt(length * np.maximum(1 - length / count, 1 / count))
    norms[0] = 1.0
    return norms


def search(
    responses: NDArray[np.float64],
    cuts: NDArray[np.int64],
    count: int,
    how: Any = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The best window of each row inside a stretch, under the tie rule of scan.py.

    responses   (R, n): all ``count`` observed frames of a history, or a piece of them
    how         the compiled module, or None

    A row in which nothing stands out gives its first frame.
    """
    start, end = np.zeros((2, len(responses)), np.int64)
    score = np.zeros(len(responses))
    norms = contrast_norms(count)[: responses.shape[1] + 1]
    live = np.flatnonzero(np.abs(responses).max(axis=1) > NOTHING)
    if how is not None and len(live):
        rows = np.ascontiguousarray(responses[live])
        found = np.empty((2, len(live)), np.int64)
        scores = np.empty(len(live))
        how.search(rows, cuts, norms, LOOSE * count, found[0], found[1], scores)
        start[live], end[live], score[live] = found[0], found[1], scores
    elif len(live):
        for q in live.tolist():
            start[q], end[q], score[q] = _best(responses[q], cuts.tolist(), norms)
    return start, end, score


def _best(row: NDArray[np.float64], cuts: list[int], norms: NDArray[np.float64]) -> Found:
    """Every window, some starts at a time."""
    prefix = np.concatenate(([0.0], np.cumsum(row)))
    best = -np.inf
    near: list[Found] = []
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


def disjoint(
    row: NDArray[np.float64], cuts: NDArray[np.int64], chosen: tuple[int, int], more: int,
    how: Any = None,
) -> list[Found]:  # fmt: skip
    """Further windows, best first: each the best that overlaps neither ``chosen`` nor another."""

    def best_of(first: int, last: int) -> Found | None:
        inner = np.array([0, last - first])  # outside is still all the rest
        start, end, score = search(row[None, first:last], inner, len(row), how)
        return (
            (first + int(start[0]), first + int(end[0]), float(score[0])) if score[0] > 0 else None
        )

    return s.further(cuts.tolist(), chosen, more, best_of)
