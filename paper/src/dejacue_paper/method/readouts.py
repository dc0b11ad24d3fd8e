"""The paper's simpler readouts, which its ablations compare with the scan, and windows that
look at no frame.

All share observed runs, schedules and the tie rule of dejacue's scan. Positions count observed
frames.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import calibration as plain
from dejacue.method import scan as s
from dejacue.method.calibration import measured_from
from dejacue.method.readout import PUBLISHED_WIDTH, Readout, View, Windows
from dejacue.method.scan_readout import Scan, ScheduledReadout, check_width, schedule_of
from dejacue_paper.method.nonoverlap import NonOverlap

WINDOWS_AT_A_TIME = 1024
SHORT_RUN = 1024  # frames whose products with each other are worth having
TIE_MARGIN = 1e-6  # how close to the top a score is looked at again; rough ones are good to 1e-9
MAX_SCORES = 10_000_000  # windows × descriptions, of a readout that looks at all of them


def check_size(readout: Readout, windows: int, queries: int) -> None:
    """Refuse a history for which an ablation would take minutes or gigabytes."""
    if windows * queries <= MAX_SCORES:
        return
    raise InputError(
        f"{readout.name}, an ablation of the paper, looks at {windows:,} windows × {queries:,} "
        f"descriptions here, more than {MAX_SCORES:,}; use contrast, joint or published, or a "
        "shorter part of the video"
    )


def _unit_frames(view: View) -> NDArray[np.float64]:
    """Return the frames at unit length in the view's coordinates, (N, d)."""
    rows, norms = measured_from(view.history.features, view.centre)
    return np.asarray(rows / norms[:, None])


@dataclass(frozen=True)
class MeanWindow(ScheduledReadout):
    """Scores a window by the cosine between a description and the mean of its unit frames."""

    name: ClassVar[str] = "mean-window"

    def find(self, view: View) -> Windows:
        offsets, frames = view.history.run_offsets, _unit_frames(view)
        starts, ends = s.candidate_windows(offsets, self.lengths(view.history))
        queries = view.directions.queries.astype(np.float64)
        check_size(self, len(starts), len(queries))
        scores = s.score_windows(queries @ frames.T, offsets, starts, ends, "sum")
        norms, rough = _sum_norms(frames, offsets, starts, ends)
        scores /= norms
        if rough.any():  # the tie rule looks closer than rough norms do: near the top, sum frames
            near = scores >= scores.max(axis=1, keepdims=True) - TIE_MARGIN
            again = np.flatnonzero(near.any(axis=0) & rough)
            for at, sums in _window_sums(frames, offsets, starts, ends, again):
                scores[:, at] = (queries @ sums) / _norms(sums)
        best = s.select(starts, ends, scores)
        score = scores[np.arange(len(best)), best]
        return Windows(starts[best], ends[best], score)


def _sum_norms(
    frames: NDArray[np.float64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return ‖sum of the frames‖ of every window, and where it is only good to TIE_MARGIN.

    In short runs from the frames' products with each other: two-dimensional prefix sums P of
    these give ‖x_a + … + x_b−1‖² = P[b, b] − 2 P[a, b] + P[a, a], quickly but with cancellation.
    """
    norms, run = np.empty(len(starts)), s.run_of(starts, offsets)
    rough = (np.diff(offsets) <= SHORT_RUN)[run]
    order = np.argsort(run, kind="stable")
    cuts = np.searchsorted(run[order], np.arange(len(offsets)))
    for r, (a, b) in enumerate(pairwise(offsets.tolist())):
        members = order[cuts[r] : cuts[r + 1]]
        if b - a > SHORT_RUN or not len(members):
            continue
        prefix = np.zeros((b - a + 1, b - a + 1))
        np.cumsum(np.cumsum(frames[a:b] @ frames[a:b].T, axis=0), axis=1, out=prefix[1:, 1:])
        first, last, square = starts[members] - a, ends[members] + 1 - a, prefix.diagonal()
        squares = square[last] - 2 * prefix[first, last] + square[first]
        norms[members] = np.sqrt(np.maximum(squares, plain.RESIDUAL_FLOOR**2))
    for at, sums in _window_sums(frames, offsets, starts, ends, np.flatnonzero(~rough)):
        norms[at] = _norms(sums)
    return norms, rough


def _window_sums(
    frames: NDArray[np.float64],
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return the sums of frames (d, n) of the wanted windows, some at a time."""
    if not len(rows):
        return
    prefix, run = s.run_prefix(frames.T, offsets), s.run_of(starts, offsets)
    for at in np.split(rows, range(WINDOWS_AT_A_TIME, len(rows), WINDOWS_AT_A_TIME)):
        yield at, prefix[:, ends[at] + 1 + run[at]] - prefix[:, starts[at] + run[at]]


def _norms(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("dw,dw->w", sums, sums))
    return np.maximum(lengths, plain.RESIDUAL_FLOOR)


@dataclass(frozen=True)
class Boxcar(ScheduledReadout):
    """Scores a window by its mean of the run-wise three-frame mean of the raw cosine."""

    width: int = 3
    name: ClassVar[str] = "boxcar"
    smoothing_in: ClassVar[str] = "width=3"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_width(self.width)

    def find(self, view: View) -> Windows:
        offsets = view.history.run_offsets
        smoothed = plain.smooth(view.cosines.astype(np.float64), offsets, self.width, mean=True)
        schedule = schedule_of(self.lengths(view.history), "mean")
        return Windows(*view.engine.scan(smoothed, offsets, *schedule))


@dataclass(frozen=True)
class MaxFrame(ScheduledReadout):
    """The window that holds the highest raw cosine; the tie rule decides among the many that do.

    ``MaxFrame(durations=(1,))`` gives the single best frame.
    """

    name: ClassVar[str] = "max-frame"

    def find(self, view: View) -> Windows:
        lengths = self.lengths(view.history)
        bounds = view.history.run_offsets.tolist()
        runs = [r for r in pairwise(bounds) if r[1] - r[0] >= lengths[0]]
        # one window for each length that fits a run, and a look at all frames
        windows = len(view.history) + sum(np.searchsorted(lengths, b - a, "right") for a, b in runs)
        check_size(self, int(windows), len(view.directions.queries))
        rows = view.cosines.astype(np.float64)
        start, end = np.empty((2, len(rows)), np.int64)
        score = np.empty(len(rows))
        for q, row in enumerate(rows):
            threshold = s.tie_threshold(max(float(row[a:b].max()) for a, b in runs))
            windows = []
            for first, last in runs:
                good = np.flatnonzero(row[first:last] >= threshold)
                if not good.size:
                    continue
                for length in (n for n in lengths if n <= last - first):
                    at = max(first, first + int(good[0]) - length + 1)
                    windows.append((at, at + length - 1))
            start[q], end[q] = min(windows)
            score[q] = row[start[q] : end[q] + 1].max()
        return Windows(start, end, score)


@dataclass(frozen=True)
class Peak(Readout):
    """Widens the earliest global maximum while the response ≥ ratio · peak; no durations."""

    ratio: float = 0.3
    smoothing: int = PUBLISHED_WIDTH
    name: ClassVar[str] = "peak"

    def __post_init__(self) -> None:
        if not 0.0 < self.ratio <= 1.0:
            raise InputError(f"peak ratio {self.ratio} must be above 0 and at most 1")
        object.__setattr__(self, "smoothing", check_width(self.smoothing))

    def find(self, view: View) -> Windows:
        responses = view.evidence.responses
        offsets = view.history.run_offsets
        start, end = np.empty((2, len(responses)), np.int64)
        score = np.empty(len(responses))
        for q, row in enumerate(responses):
            at = int(np.argmax(row >= s.tie_threshold(float(row.max()))))
            start[q] = end[q] = at
            score[q] = row[at]
            if row[at] <= 0:
                continue
            run = int(np.searchsorted(offsets, at, side="right")) - 1
            low = np.flatnonzero(row < self.ratio * row[at])
            before, after = low[low < at], low[low > at]
            start[q] = max(offsets[run], before[-1] + 1 if before.size else 0)
            end[q] = min(offsets[run + 1] - 1, after[0] - 1 if after.size else len(row) - 1)
        return Windows(start, end, score)


@dataclass(frozen=True)
class Unseen(Readout):
    """A baseline that looks at no frame: the same window for every description, with score 0."""

    whole: bool
    name: ClassVar[str] = "unseen"

    def find(self, view: View) -> Windows:
        offsets, rows = view.history.run_offsets, len(view.vocabulary)
        run = int(np.argmax(np.diff(offsets)))
        first, last = (0, len(view.history)) if self.whole else (offsets[run], offsets[run + 1])
        return Windows(np.full(rows, first), np.full(rows, last - 1), np.zeros(rows))


# By name, as entry points of the group dejacue.readouts.
PEAK = Peak()
MEAN_WINDOW = MeanWindow()
BOXCAR = Boxcar()
MAX_FRAME = MaxFrame()
SINGLE_MEDIAN = Scan(durations=(30,))
NON_OVERLAP = NonOverlap()
WHOLE_HISTORY = Unseen(whole=True)
LONGEST_RUN = Unseen(whole=False)
