"""Where frames lie on the drawings of a page, and what their curves and gaps look like there.

Every drawing is WIDTH × HEIGHT units and is stretched to its place. Long histories are thinned:
a curve keeps the extremes of every bin, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.records import History, Window

WIDTH, HEIGHT = 10_000, 1_000
TOP, FOOT = 150, 40  # room above and below a curve
MAX_POINTS = 2_000  # of a curve
MAX_MEANS = 500  # of the line through a thinned curve
MAX_GAPS = 1_000  # drawn one by one
MAX_STEPS = 9  # between the ticks of an axis
_SECONDS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    43200,
    86400,
)


class Bar(NamedTuple):
    """A rectangle in the units of a drawing; ``kind`` is its class in the style sheet."""

    kind: str
    x: int
    y: int
    width: int
    height: int


class Tick(NamedTuple):
    share: float  # of the width
    label: str
    minor: bool  # left out on a phone


@dataclass(frozen=True)
class Axis:
    """Frames → shares of the width and, where the history has times that grow, seconds.

    The axis holds the observed frames, from the first to the last, and whatever was looked at
    before and after them, where the history says so; a frame is one unit wide around its index.
    """

    history: History

    @property
    def frames(self) -> tuple[int, int]:
        """The first and the last frame."""
        first, last = self.history.frames[[0, -1]].tolist()
        looked_at = self.history.frames_looked_at
        if looked_at is not None:
            return min(first, 0), max(last, looked_at - 1)
        return first, last

    @property
    def first(self) -> float:
        return float(self.frames[0]) - 0.5

    @property
    def span(self) -> int:
        first, last = self.frames
        return last - first + 1

    @cached_property
    def known_times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Frames and seconds to interpolate between; at both ends at the usual pace."""
        frames, times = self.history.frames, self.history.times_s
        if times is None:
            return None
        pace = float(np.median(np.diff(times) / np.diff(frames))) if len(times) > 1 else 0.0
        first, last = self.frames
        if first < frames[0]:
            times = np.append(times[0] - pace * (frames[0] - first), times)
            frames = np.append(first, frames)
        if last > frames[-1]:
            times = np.append(times, times[-1] + pace * (last - frames[-1]))
            frames = np.append(frames, last)
        return frames, times

    @property
    def has_clock(self) -> bool:
        times = self.history.times_s
        return times is not None and len(times) > 1 and bool((np.diff(times) > 0).all())

    def share(self, frame: float) -> float:
        return (frame - self.first) / self.span

    def x(self, frame: float) -> int:
        return round(WIDTH * min(max(self.share(frame), 0.0), 1.0))

    def seconds(self, frame: float) -> float | None:
        """When a frame is shown; between observed frames by interpolation."""
        known = self.known_times
        return None if known is None else float(np.interp(frame, *known))

    def from_file(self, window: Window) -> Window | None:
        """A window of the file among the frames of the axis, observed or not; None outside."""
        frames, source = self.history.frames, self.history.source_frames
        first, last = self.frames
        if source is not None and len(frames) > 1:
            pace = float(np.median(np.diff(source) / np.diff(frames)))  # frames of the file to one
            before, after = pace * (first - frames[0]), pace * (last - frames[-1])
            known = np.concatenate(([source[0] + before], source, [source[-1] + after]))
            if window.end < known[0] or window.start > known[-1]:
                return None
            here = np.concatenate(([first], frames, [last]))
            ends = np.interp(tuple(window), known, here).tolist()
            start = int(np.ceil(ends[0] - 1e-9))
            window = Window(start, max(int(ends[1] + 1e-9), start))
        if window.end < first or window.start > last:
            return None
        return Window(max(window.start, first), min(window.end, last))

    def bars(self, windows: Iterable[Window], y: int, height: int, kind: str) -> list[Bar]:
        """Windows as rectangles, at least one unit wide; those outside are left out."""
        first, last = self.frames
        ends = [
            (self.x(window.start - 0.5), self.x(window.end + 0.5))
            for window in windows
            if window.end >= first and window.start <= last
        ]
        return [Bar(kind, left, y, max(right - left, 1), height) for left, right in ends]

    def ticks(self, unit: str) -> list[Tick]:
        """Round numbers of frames, or round times."""
        known = self.known_times
        frames, times = (np.array(self.frames), None) if known is None else known
        values: NDArray[Any] = frames if unit == "frame" or times is None else times
        low, high = float(values[0]), float(values[-1])
        step: float = _round_step(high - low)
        if values is times:
            days = _SECONDS[-1] * _round_step((high - low) / _SECONDS[-1])
            step = next((s for s in _SECONDS if (high - low) / s <= MAX_STEPS), days)
        counts = np.arange(np.ceil(low / step), high / step + 1e-9)
        digits = 0 if step >= 1 else 1 if step >= 0.1 else 2
        where = np.interp(counts * step, values, frames).tolist()
        return [
            Tick(
                self.share(frame),
                clock(n * step, digits) if values is times else f"{n * step:.0f}",
                n % 2 == 1,
            )
            for frame, n in zip(where, counts.tolist(), strict=True)
        ]


def _round_step(span: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, … that gives few enough ticks."""
    steps: Iterator[int] = (n * 10**power for power in count() for n in (1, 2, 5))
    return next(step for step in steps if span / step <= MAX_STEPS)


def clock(seconds: float, digits: int = 2) -> str:
    """4.10 s, 1:04.10, 1:00:04.10."""
    whole = round(abs(seconds), digits)
    sign = "−" if seconds < 0 and whole else ""
    if whole < 60:
        return f"{sign}{whole:.{digits}f} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(int(minutes), 60)
    words = f"{rest:0{digits + 3 if digits else 2}.{digits}f}"
    return f"{sign}{hours}:{minutes:02}:{words}" if hours else f"{sign}{minutes}:{words}"


def decimate(
    frames: NDArray[np.int64], row: NDArray[Any], most: int = MAX_POINTS
) -> NDArray[np.int64]:
    """Positions of at most ``most`` points of a curve: the least and the greatest of every bin."""
    if len(frames) <= most:
        return np.arange(len(frames))
    bins, starts = _bins(frames, most // 2)
    order = np.lexsort((row, bins))
    ends = np.append(starts[1:], len(bins)) - 1
    return np.unique(np.concatenate((order[starts], order[ends])))


def _bins(frames: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bin of each frame, all of one width, and where the frames of each bin start."""
    span = int(frames[-1]) - int(frames[0]) + 1
    bins = (frames - frames[0]) * count // span
    return bins, np.flatnonzero(np.diff(bins, prepend=-1))


def curve_path(axis: Axis, row: NDArray[Any], low: float, high: float) -> str:
    """A curve, ``high`` at TOP and ``low`` above the foot; it breaks where frames are missing.

    Where it is thinned, gaps narrower than the distance of its points do not show.
    """
    kept = decimate(axis.history.frames, row)
    room = 1 if len(kept) == len(row) else 1 + 2 * axis.span // MAX_POINTS
    return _path(axis, axis.history.frames[kept], row[kept], low, high, room)


def mean_path(axis: Axis, row: NDArray[Any], low: float, high: float) -> str:
    """The mean of every bin, for a curve that had to be thinned; else nothing."""
    frames = axis.history.frames
    if len(frames) <= MAX_POINTS:
        return ""
    _, starts = _bins(frames, MAX_MEANS)
    counts = np.diff(np.append(starts, len(frames)))
    middle = np.add.reduceat(frames, starts) / counts
    means = np.add.reduceat(row.astype(np.float64), starts) / counts
    return _path(axis, middle, means, low, high, 2 * axis.span / MAX_MEANS)


def _path(
    axis: Axis, at: NDArray[Any], row: NDArray[Any], low: float, high: float, room: float
) -> str:
    """Lines through the points, broken where neighbours are more than ``room`` frames apart."""
    x = np.rint(WIDTH * (at - axis.first) / axis.span).astype(int)
    y = np.rint(TOP + (HEIGHT - FOOT - TOP) * (high - row) / max(high - low, 1e-9)).astype(int)
    points = [f"{a} {b}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    breaks = (np.flatnonzero(np.diff(at) > room) + 1).tolist()
    pieces = [points[a:b] for a, b in pairwise([0, *breaks, len(points)])]
    return "".join(f"M{' '.join(piece)}{'h0' if len(piece) == 1 else ''}" for piece in pieces)


def gaps_path(axis: Axis) -> str:
    """The unobserved frames; of very many gaps, the stretches that are unobserved for the most."""
    frames = axis.history.frames
    at = np.flatnonzero(np.diff(frames) > 1)
    gaps = list(zip((frames[at] + 0.5).tolist(), (frames[at + 1] - 0.5).tolist(), strict=True))
    first, last = axis.frames
    ends = ((first - 0.5, frames[0] - 0.5), (frames[-1] + 0.5, last + 0.5))
    gaps += [(float(a), float(b)) for a, b in ends if a < b]
    if len(gaps) > MAX_GAPS:
        edges, seen = _observed_shares(axis)
        flips = np.flatnonzero(np.diff(np.concatenate(([False], seen < 0.5, [False])))).tolist()
        gaps = [(edges[a], edges[b]) for a, b in zip(flips[::2], flips[1::2], strict=True)]
    drawn = ((axis.x(a), max(axis.x(b) - axis.x(a), 1)) for a, b in gaps)
    return "".join(f"M{x} 0h{width}v{HEIGHT}h-{width}z" for x, width in drawn) or "M0 0h0"


def observed_path(axis: Axis) -> str:
    """The observed runs as bars; of very many runs, the observed share as a profile."""
    runs = axis.history.runs()
    if len(runs) <= MAX_GAPS:
        ends = ((axis.x(run.start - 0.5), axis.x(run.end + 0.5)) for run in runs)
        return "".join(f"M{a} 0H{max(b, a + 1)}V{HEIGHT}H{a}z" for a, b in ends)
    edges, seen = _observed_shares(axis)
    tops = np.rint(HEIGHT * (1 - seen)).astype(int).tolist()
    steps = (f"V{top}H{axis.x(edge)}" for top, edge in zip(tops, edges[1:], strict=True))
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}z"


def _observed_shares(axis: Axis) -> tuple[list[float], NDArray[np.float64]]:
    """Edges of MAX_GAPS equal bins in frames, and the share of each that was observed."""
    edges = np.linspace(axis.first, axis.first + axis.span, MAX_GAPS + 1)
    seen = np.histogram(axis.history.frames, edges)[0] / np.diff(edges)
    return edges.tolist(), np.minimum(seen, 1.0)
