"""Frames that were left out: evidence between the frames that were looked at.

Of a file of which only some frames were encoded (``--fps``, a stride, the pace of an encoder), what
is known at two neighbouring frames of a run goes evenly from the one to the other. Labels and
windows are then found among all frames of the file, so that a border need not lie on a frame that
was looked at. Filling the rows before they are read is no better (dejacue reproduce
beyond-sampling), and takes as many rows as the file has frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dejacue.method.known_frames import KnownFrames
from dejacue.records import History
from dejacue.records.arrays import Floats, Ints
from dejacue.records.history import without_noise

MAX_FILLED = 1 << 18  # frames added to a history: 2.4 h of 30 a second; where more, every n-th


@dataclass(frozen=True, eq=False)
class Filling:
    """The frames of a file in each run, from the first observed one to the last: M places, N of
    which are observed.

    source     (M,) which frame of the file is at each place
    observed   (N,) the place of each observed frame
    run_ends   (R,) the last place of each run
    """

    source: Ints
    observed: Ints
    run_ends: Ints

    def rows(self, values: Floats) -> Floats:
        """Return (S, M) of (S, N): from one observed frame to the next, values change evenly.

        >>> two = History([[1.0, 0.0], [0.0, 1.0]], source_frames=[0, 4])
        >>> filling_of(two).rows(np.array([[0.0, 1.0]]))
        array([[0.  , 0.25, 0.5 , 0.75, 1.  ]])
        """
        known = self.source[self.observed]
        return np.stack([np.interp(self.source, known, row) for row in values])

    def cuts(self, cuts: Ints) -> Ints:
        """Return the places of positions among the observed frames, and M for N."""
        return np.append(self.observed, len(self.source))[cuts]

    def facts(self, facts: KnownFrames) -> KnownFrames:
        """Return what is known of all places: between two neighbours of one label, the same."""
        places = np.arange(len(self.source))
        after = np.searchsorted(self.observed, places)
        before = np.searchsorted(self.observed, places, side="right") - 1
        labels = np.where(facts.labels[before] == facts.labels[after], facts.labels[before], -1)
        looked, marks = self.observed[facts.looked], self.observed[facts.marks]
        return KnownFrames(labels, looked, marks, facts.states, facts.exhaustive)

    def stay(self, stay: int, cuts: Ints) -> int:
        """Return how many places so many observed frames last, at most the longest stretch.

        cuts   positions of observed frames that begin a stretch, and N
        """
        lasting = stay * int(np.median(np.diff(self.observed))) if stay > 1 else 1
        return min(lasting, int(np.diff(self.cuts(cuts)).max()))

    def visible(self, path: Ints, cuts: Ints) -> Ints:
        """Return labels without the visits that no observed frame shows: there, the state before
        goes on.

        cuts   places that begin a stretch, each an observed frame, and M
        """
        begins = np.union1d(np.flatnonzero(np.diff(path)) + 1, cuts)
        seen = begins[:-1][np.diff(np.searchsorted(self.observed, begins)) > 0]
        visits = np.searchsorted(seen, np.arange(len(path)), side="right") - 1
        labels: Ints = path[seen][visits]
        return labels

    def holds_observed(self, first: int, end: int) -> bool:
        """Return whether one of the places first … end − 1 is an observed frame."""
        before, after = np.searchsorted(self.observed, (first, end)).tolist()
        return bool(before < after)

    def widened(self, window: tuple[int, int], first: int, end: int) -> tuple[int, int]:
        """Return a window inside the places first … end − 1, which hold an observed frame: out to
        the nearest one, where the window has none."""
        if self.holds_observed(window[0], window[1] + 1):
            return window
        before = int(np.searchsorted(self.observed, window[0])) - 1
        around = [
            at for at in self.observed[max(before, 0) : before + 2].tolist() if first <= at < end
        ]
        nearest = min(around, key=lambda at: max(window[0] - at, at - window[1]))
        return min(window[0], nearest), max(window[1], nearest)

    def positions(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return the first and the last observed frame of windows of places, as positions."""
        last = np.searchsorted(self.observed, end, side="right") - 1
        return np.searchsorted(self.observed, start), last

    def in_file(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return the first and the last frame of the file of windows of places."""
        return self.source[start], self._after(end) - 1

    def in_seconds(self, history: History, start: Ints, end: Ints) -> tuple[Floats, Floats]:
        """Return start_s and end_s of windows of places; the history, of this filling, has times.

        The last frame of a run lasts as the history says, since nothing is known of what follows.
        """
        assert history.times_s is not None
        known = self.source[self.observed]
        starts, ends = (
            without_noise(np.interp(frames, known, history.times_s))
            for frames in (self.source[start], self._after(end))
        )
        at_end = np.isin(end, self.run_ends)
        ends[at_end] = history.ends_of(np.searchsorted(self.observed, end[at_end]))
        return starts, ends

    def _after(self, end: Ints) -> Ints:
        """Return the frame of the file that begins what comes after windows that end there."""
        after = self.source[np.minimum(end + 1, len(self.source) - 1)]
        return np.where(np.isin(end, self.run_ends), self.source[end] + 1, after)


def filling_of(history: History) -> Filling | None:
    """Return what is filled in; None where no frame of a run was left out."""
    source = history.source_frames
    if source is None or not history.sampled:
        return None
    apart = np.diff(source)
    steps = np.append(np.where(np.diff(history.frames) == 1, apart, 1), 1)
    stride = math.ceil(int((steps - 1).sum()) / MAX_FILLED)
    if not stride or (apart <= 0).any() or steps.max() <= stride:
        return None
    counts = -(-steps // stride)
    ends = np.cumsum(counts)
    observed = ends - counts
    offsets = np.arange(ends[-1]) - np.repeat(observed, counts)
    run_ends = observed[history.run_offsets[1:] - 1]
    return Filling(np.repeat(source, counts) + stride * offsets, observed, run_ends)
