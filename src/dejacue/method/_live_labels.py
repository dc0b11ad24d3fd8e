"""Labels of observed frames as they come: smoothing, paths, what is settled, what has changed.

Positions count observed frames. A frame is smoothed when ``lag`` further ones have come; then the
paths reach it; it is settled when all of them agree on it, or after ``delay`` frames.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from dejacue.method._labelling import Nodes
from dejacue.method._online import Calibration, Row, Survivors
from dejacue.method.states import gaussian

NOTHING = -1  # in place of a state: nothing was said yet
Path = list[tuple[int, int]]  # first position and state of each visit, in order


@dataclass(slots=True, eq=False)
class Seen:
    """An observed frame; ``begins`` a stretch: the object was away before it."""

    frame: int
    time_s: float | None
    begins: bool
    end_s: float | None = None  # when it ends, once the next frame or the end has come
    row: Row | None = None  # smoothed cosines (S,), once it is smoothed
    gains: Row | None = None  # what each state earns by it, once paths have reached it


@dataclass(slots=True, eq=False)
class Span:
    """A window of one state."""

    state: int
    first: Seen
    last: Seen
    score: float


@dataclass(frozen=True, slots=True)
class Change:
    """Frames, first to last, and what was said of them before and is now."""

    first: int
    last: int
    was: int
    now: int


@dataclass(frozen=True, slots=True)
class Labels:
    """What one more frame has brought."""

    state: int
    since: int
    closed: list[Span]
    changes: list[Change]


class Labeller:
    """See the module.

    width    deviation of the Gaussian in frames
    bridge   longest gap in frames that neither smoothing nor windows end at
    switch   cost of a switch in units of log n
    """

    def __init__(
        self,
        nodes: Nodes,
        calibration: Calibration,
        *,
        width: float,
        delay: int,
        bridge: int,
        switch: float,
    ) -> None:
        self.calibration, self.delay, self.bridge, self.switch = calibration, delay, bridge, switch
        self.lag = min(round(width), delay)
        self._weights, self._rows = _smoothing(width, self.lag, len(calibration.mean))
        self._states = nodes.state
        self._survivors = Survivors(nodes)
        self._pending: deque[Seen] = deque()  # observed, not settled
        self._settled, self._smoothed, self._reached = 0, 0, 0  # positions
        self._said: Path = [(0, NOTHING)]
        self._announced = 0  # positions of which something was said
        self._open: Span | None = None
        self._begun = 0  # the position at which the present stretch begins
        self.frame = self._last = 0
        self.away = True  # for longer than a gap that is bridged
        self._newest: Seen | None = None
        self._lasting_s: float | None = None  # of the last frame that has ended

    def tick(self, frame: int, time_s: float | None, cosines: Row | None) -> None:
        """The next frame, which is one after the last; cosines None: the object is not seen."""
        self.frame = frame
        self._end_newest(frame, time_s)
        self._rows[:-1] = self._rows[1:]
        self._rows[-1] = 0.0
        if cosines is not None:
            self._rows[-1, :-1], self._rows[-1, -1] = cosines, 1.0
            if self.away:
                self._begun = self._settled + len(self._pending)
            self._newest = Seen(frame, time_s, self.away)
            self._pending.append(self._newest)
            self._last, self.away = frame, False
        elif not self.away and frame - self._last > self.bridge:
            self._smooth(frame)
            self._rows[:] = 0.0
            self.away = True
        if not self.away:
            self._smooth(frame - self.lag)

    def _end_newest(self, frame: int, time_s: float | None) -> None:
        """Set when the last observed frame ends: as the next one begins, or its share of a gap."""
        newest = self._newest
        if newest is None or newest.time_s is None or time_s is None:
            return
        self._lasting_s = (time_s - newest.time_s) / (frame - newest.frame)
        newest.end_s, self._newest = newest.time_s + self._lasting_s, None

    def skip(self, until: int) -> None:
        """Frames up to this one in which the object is not seen; in bounded time."""
        while not self.away and self.frame < until:
            faded = self.frame - self._last > len(self._rows)  # nothing is smoothed any more
            self.tick(until if faded else self.frame + 1, None, None)

    def evidence(self) -> Row:
        """Of the last frame, smoothed by what came before it, in deviations from the mean."""
        sums = self._weights[-1] @ self._rows
        found: Row = (sums[:-1] / sums[-1] - self.calibration.mean) / self.calibration.scale
        return found

    def conclude(self, ending: bool = False) -> Labels:
        """What is known after the last tick; ``ending``: nothing more will come."""
        if ending:
            self._smooth(self.frame)
            if self._newest is not None and self._newest.time_s is not None and self._lasting_s:
                self._newest.end_s = self._newest.time_s + self._lasting_s
        self._reach()
        due = self.frame if ending else self.frame - self.delay
        overdue = sum(1 for _ in takewhile(lambda own: own.frame <= due, self._pending))
        agreed = self._survivors.settle(self._settled + overdue - 1)
        path = self._path()
        if self._said[0][1] == NOTHING:  # all that came before the first word, too
            self._announced = len(self._pending) - (not ending)
        changes = self._changes(path)
        closed = self._settle(agreed, path)
        if self._open is not None and not self._pending and (self.away or ending):
            closed.append(self._open)
            self._open = None
        return Labels(path[-1][1], self._since(path), closed, changes)

    def _smooth(self, until: int) -> None:
        """The frames up to this one that are not smoothed yet."""
        first = self._smoothed - self._settled
        new = [own for own in islice(self._pending, first, None) if own.frame <= until]
        for own, row in zip(new, self._smooth_rows(new), strict=True):
            own.row = row
            self.calibration.add(row)
        self._smoothed += len(new)

    def _smooth_rows(self, seen: list[Seen]) -> NDArray[np.float64]:
        at = [self.lag - (self.frame - own.frame) for own in seen]
        sums = self._weights[at] @ self._rows
        found: NDArray[np.float64] = sums[:, :-1] / sums[:, -1:]
        return found

    def _reach(self) -> None:
        """Extends the paths over the frames that are smoothed."""
        first, last = self._reached - self._settled, self._smoothed - self._settled
        for own in islice(self._pending, first, last):
            assert own.row is not None
            own.gains = (own.row - self.calibration.levels()) / self.calibration.scale
            self._survivors.step(self._reached, own.gains[self._states], self._cost())
            self._reached += 1

    def _cost(self) -> float:
        return self.switch * math.log(max(self.calibration.count, 1))

    def _path(self) -> Path:
        """The best labelling now, to the last observed frame."""
        rest = list(islice(self._pending, self._reached - self._settled, None))
        rows = self._smooth_rows(rest)
        gains = (rows - self.calibration.levels()) / self.calibration.scale
        node, left, end = self._survivors.ahead(gains[:, self._states], self._cost())
        path = self._survivors.path(node)
        if left is not None:
            path.append((self._reached + left, int(self._states[end])))
        return path

    def _changes(self, path: Path) -> list[Change]:
        """Where the path is not as announced; from now on it is."""
        found: list[Change] = []
        if path != self._said:
            starts = {max(own, self._settled) for own, _ in (*self._said, *path)}
            ends = [*sorted(own for own in starts if own < self._announced), self._announced]
            for first, last in pairwise(ends):
                was, now = _state_at(self._said, first), _state_at(path, first)
                if was != now:
                    a, b = self._frame_of(first), self._frame_of(last - 1)
                    found.append(Change(a, b, was, now))
        self._said, self._announced = path, self._settled + len(self._pending)
        return found

    def _settle(self, agreed: int, path: Path) -> list[Span]:
        """Windows that have ended by the frames that are settled now."""
        closed = []
        while self._settled <= agreed:
            seen, state = self._pending.popleft(), _state_at(path, self._settled)
            self._settled += 1
            assert seen.row is not None
            assert seen.gains is not None
            self.calibration.label(seen.row, state)
            lead = float(seen.gains[state] - np.delete(seen.gains, state).max())
            own = self._open
            if own is not None and own.state == state and not seen.begins:
                own.last, own.score = seen, own.score + lead
                continue
            closed += [] if own is None else [own]
            self._open = Span(state, seen, seen, lead)
        self._survivors.forget(self._settled - 1)
        return closed

    def _since(self, path: Path) -> int:
        position = max(path[-1][0], self._begun)
        if position >= self._settled:
            return self._frame_of(position) if self._pending else self._last
        return self._open.first.frame if self._open is not None else self._last

    def _frame_of(self, position: int) -> int:
        return self._pending[position - self._settled].frame


def _state_at(path: Path, position: int) -> int:
    return next(state for start, state in reversed(path) if start <= position)


def _smoothing(
    width: float, lag: int, states: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(lag + 1, W) weights of the last W frames for the last ``lag`` ones, oldest first, and the
    (W, S + 1) cosines of these frames, with how many there are (1 or 0) beside them."""
    by_distance = gaussian(width, 1 << 30)
    reach = len(by_distance) - 1
    length = reach + lag + 1
    away = np.abs(np.arange(reach, length)[:, None] - np.arange(length))
    weights = np.where(away <= reach, by_distance[np.minimum(away, reach)], 0.0)
    return weights, np.zeros((length, states + 1))
