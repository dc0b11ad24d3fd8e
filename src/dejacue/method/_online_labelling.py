"""Labels of observed frames as they come: smoothing, paths, what is settled, what has changed.

Positions count observed frames. A frame is smoothed when ``lag`` further ones have come; then the
paths reach it; it is settled when all of them agree on it, or after ``delay`` frames.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice, pairwise, takewhile
from typing import Any

import numpy as np

from dejacue.method._labelling import Nodes
from dejacue.method.states import MIN_SCALE, gaussian
from dejacue.records import Interval, Window
from dejacue.records.arrays import Floats, Ints

NOTHING = -1  # in place of a state: it was unknown so far
Path = list[tuple[int, int]]  # first position and state of each visit, in order


@dataclass(frozen=True, slots=True)
class Revision:
    """Frames whose state was another one before; None: it was unknown, or they are in none."""

    window: Window
    was: str | None
    now: str | None

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self.window), "was": self.was, "now": self.now}


@dataclass(frozen=True, slots=True)
class Update:
    """The state of an object now, and what changed with the latest frame.

    state      that the object is in now; None: it is not seen, in none of the states, or too
               little of it was seen so far
    since      the frame from which on it is, as far as is known now
    evidence   by state, in deviations from its mean so far; empty where the object is not seen
    closed     windows that have ended; they change no more
    revised    frames whose state was another one before
    waits      frames that have to come before the first state is named
    """

    frame: int
    time_s: float | None = None
    state: str | None = None
    since: int | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    closed: tuple[Interval, ...] = ()
    revised: tuple[Revision, ...] = ()
    waits: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is unknown or empty is left out, except the state."""
        values = {
            "time_s": self.time_s,
            "since": self.since,
            "evidence": {name: round(value, 4) for name, value in self.evidence.items()},
            "closed": [interval.to_dict() for interval in self.closed],
            "revised": [revision.to_dict() for revision in self.revised],
            "waits": self.waits or None,
        }
        known = {name: value for name, value in values.items() if value not in (None, {}, [])}
        return {"frame": self.frame, "state": self.state, **known}


class Calibration:
    """Keeps mean and deviation of the smoothed cosines, and the level of each state: half way
    between its mean inside the state and outside, as in a whole reading.

    memory   frames after which what has been seen begins to fade; None: nothing fades
    """

    def __init__(self, states: int, memory: int | None) -> None:
        self.memory = memory
        self.count = 0
        self.mean, self._variance = np.zeros(states), np.zeros(states)
        # of frames whose label is settled: how many, the sum of all, and both inside each state
        self._labelled: float = 0.0
        self._total = np.zeros(states)
        self._inside, self._inside_total = np.zeros(states), np.zeros(states)

    @property
    def scale(self) -> Floats:
        return np.maximum(np.sqrt(self._variance), MIN_SCALE)

    def suppose(self, first: Floats, frames: int) -> None:
        """Begin as if the object had been in each state for so many frames, and the state with
        the highest of the first cosines (N, S) were the one it is in: without that, states would
        be found in noise as long as the object has not been in another.

        Plain similarity decides here: all states have the same mean, and exceed it when they hold
        by what the highest does now.
        """
        means = first.mean(axis=0)
        level, others = float(means.mean()), len(means) - 1
        rise = float(means.max()) - level
        self.count = self._labelled = frames * len(means)
        self.mean[:], self._variance[:] = level, rise**2 / others
        self._inside[:], self._inside_total[:] = frames, frames * (level + rise)
        self._total[:] = self._labelled * level

    def add(self, row: Floats) -> None:
        self.count += 1 if self.memory is None or self.count < self.memory else 0
        away = row - self.mean
        self.mean += away / self.count
        self._variance += (away * (row - self.mean) - self._variance) / self.count

    def label(self, row: Floats, state: int) -> None:
        """Take in a frame whose state is settled."""
        if self.memory is not None and self._labelled >= self.memory:
            fading = 1 - 1 / self.memory
            self._labelled *= fading
            for sums in (self._total, self._inside, self._inside_total):
                sums *= fading
        self._labelled += 1
        self._total += row
        self._inside[state] += 1
        self._inside_total[state] += row[state]

    def levels(self) -> Floats:
        """Return the levels in cosines; the mean where a state has no settled frame, or all."""
        outside = self._labelled - self._inside
        both = (self._inside >= 1) & (outside >= 1)
        levels = self.mean.copy()
        inside = self._inside_total[both] / self._inside[both]
        beyond = (self._total - self._inside_total)[both] / outside[both]
        levels[both] = (inside + beyond) / 2
        return levels


class Survivors:
    """The best path into each node, extended by one observed frame at a time.

    Paths that differ lately are mostly one path further back: what all survivors share can change
    no more, and is forgotten but for its last position.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.score: Floats = np.where(nodes.first > 0, 0.0, -np.inf)
        self._barred = np.where(nodes.follows > 0, 0.0, -np.inf)
        self._every = np.arange(len(nodes.state))
        self._first = 0  # the position of the first column of …
        self._paths = np.empty((len(nodes.state), 0), np.int64)  # … the nodes of each path

    def step(self, gains: Floats, cost: float) -> None:
        """Extend the paths by one frame: what each node earns, and what a switch costs."""
        paths = self._paths
        if not paths.shape[1]:
            self.score = self.score + gains
        else:
            arriving = self.score[:, None] + self._barred
            origin = arriving.argmax(axis=0)
            entering = arriving[origin, self._every] - cost
            better = entering > self.score
            self.score = np.where(better, entering, self.score) + gains
            self.score -= self.score.max()
            paths = paths[np.where(better, origin, self._every)]
        self._paths = np.concatenate([paths, self._every[:, None]], axis=1)

    def ahead(self, gains: Floats, cost: float) -> tuple[int, int | None, int]:
        """Return the best way on over a few frames (F, K) that are not settled yet, with one
        switch at most: the node to go on from, after how many frames it is left (None: never),
        and the node at the end."""
        stay = self.score + gains.sum(axis=0)
        node = int(stay.argmax())
        if not len(gains):
            return node, None, node
        earned = np.cumsum(gains, axis=0) - gains  # before each frame
        arriving = (self.score + earned)[:, :, None] + self._barred
        rest = gains.sum(axis=0) - earned
        entering = arriving.max(axis=1) + rest - cost
        at, end = divmod(int(entering.argmax()), len(stay))
        if entering[at, end] <= stay[node]:
            return node, None, node
        return int(arriving[at, :, end].argmax()), at, end

    def path(self, node: int) -> Path:
        """Return the best path that goes on in a node, as far as it is not forgotten."""
        nodes = np.append(self._paths[node], node)
        starts = [0, *(np.flatnonzero(nodes[1:] != nodes[:-1]) + 1).tolist()]
        return [(self._first + at, int(self.nodes.state[nodes[at]])) for at in starts]

    def settle(self, due: int) -> int:
        """Return the last position up to which all survivors agree; −1 where they agree nowhere.

        Up to the position ``due`` they have to: those that differ there from the best take over its
        path, and keep what they have earned, so that a change may win even where it has to take
        longer than there is time to wait.
        """
        if not self._paths.shape[1]:
            return -1
        best = self._paths[self.score.argmax()].copy()
        agreed = self._agreed(best)
        if agreed < due:
            for node in np.flatnonzero(self.score > -np.inf).tolist():
                self._splice(node, best, due - self._first)
            agreed = self._agreed(best)
        return agreed

    def _agreed(self, best: Ints) -> int:
        """Return the last position up to which all survivors are as the best one."""
        differs = (self._paths[self.score > -np.inf] != best).any(axis=0)
        at = int(differs.argmax())
        return self._first + (at if differs[at] else len(best)) - 1

    def _splice(self, node: int, best: Ints, at: int) -> None:
        """Let the path into a node begin as the best one up to a place. Where it is in another node
        there, it goes on from its next switch; it is dropped where nothing leads on to it."""
        path = self._paths[node]
        if path[at] != best[at]:
            switches = at + np.flatnonzero(path[at:] != path[at])[:1]
            after = path[switches[0] if len(switches) else at]
            if after != best[at] and self._barred[best[at], after] < 0:
                self.score[node] = -np.inf
                return
            if len(switches):
                path[at + 1 : switches[0]] = best[at]
        path[: at + 1] = best[: at + 1]

    def forget(self, position: int) -> None:
        """Drop what came before a position on which all survivors agree."""
        before = max(0, position - self._first)
        self._paths, self._first = self._paths[:, before:], self._first + before


@dataclass(slots=True, eq=False)
class ObservedFrame:
    """An observed frame; ``begins`` a stretch: the object was away before it."""

    frame: int
    time_s: float | None
    begins: bool
    end_s: float | None = None  # when it ends, once the next frame or the end has come
    row: Floats | None = None  # smoothed cosines (S,), once it is smoothed
    gains: Floats | None = None  # what each state earns by it, once paths have reached it


@dataclass(slots=True, eq=False)
class StateWindow:
    """Consecutive frames that are in one state; None: in none."""

    state: str | None
    first: ObservedFrame
    last: ObservedFrame
    score: float

    @property
    def interval(self) -> Interval:
        assert self.state is not None
        frames, times_s = (self.first.frame, self.last.frame), (self.first.time_s, self.last.end_s)
        return Interval(self.state, *frames, self.score, *times_s)


class Labeller:
    """Labels observed frames as they come; see the module.

    width    deviation of the Gaussian in frames
    bridge   longest gap in frames that neither smoothing nor windows end at
    switch   cost of a switch in units of log n
    """

    def __init__(
        self,
        names: Sequence[str | None],
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
        self._names, self._states = names, nodes.state
        self._survivors = Survivors(nodes)
        self._pending: deque[ObservedFrame] = deque()  # observed, not settled
        self._settled, self._smoothed, self._reached = 0, 0, 0  # positions
        self._announced: Path = [(0, NOTHING)]
        self._announced_count = 0  # positions that it covers
        self._open: StateWindow | None = None
        self._begun = 0  # the position at which the present stretch begins
        self.frame = self._last = 0
        self.away = True  # for longer than a gap that is bridged
        self._newest: ObservedFrame | None = None
        self._lasting_s: float | None = None  # of the last frame that has ended

    def tick(self, frame: int, time_s: float | None, cosines: Floats | None) -> None:
        """Take the next frame, one after the last; cosines None: the object is not seen."""
        self.frame = frame
        self._end_newest(frame, time_s)
        self._rows[:-1] = self._rows[1:]
        self._rows[-1] = 0.0
        if cosines is not None:
            self._rows[-1, :-1], self._rows[-1, -1] = cosines, 1.0
            if self.away:
                self._begun = self._settled + len(self._pending)
            self._newest = ObservedFrame(frame, time_s, self.away)
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
        """Pass frames up to this one in which the object is not seen; in bounded time."""
        while not self.away and self.frame < until:
            faded = self.frame - self._last > len(self._rows)  # nothing is smoothed any more
            self.tick(until if faded else self.frame + 1, None, None)

    def evidence(self) -> Floats:
        """Return the evidence of the last frame, smoothed by those before it, in deviations."""
        sums = self._weights[-1] @ self._rows
        row: Floats = sums[:-1] / sums[-1]
        return (row - self.calibration.mean) / self.calibration.scale

    def conclude(
        self, frame: int, time_s: float | None, seen: bool, ending: bool = False
    ) -> Update:
        """Return what is known after the last tick; ``ending``: nothing more will come.

        frame, time_s, seen   of the last frame, and whether the object is seen in it
        """
        if ending:
            self._smooth(self.frame)
            if self._newest is not None and self._newest.time_s is not None and self._lasting_s:
                self._newest.end_s = self._newest.time_s + self._lasting_s
        self._reach()
        due = self.frame if ending else self.frame - self.delay
        overdue = sum(1 for _ in takewhile(lambda seen: seen.frame <= due, self._pending))
        agreed = self._survivors.settle(self._settled + overdue - 1)
        path = self._path()
        if self._announced[0][1] == NOTHING:  # all that came before the first state, too
            self._announced_count = len(self._pending) - (not ending)
        revised = self._revised(path)
        closed = self._settle(agreed, path)
        if self._open is not None and not self._pending and (self.away or ending):
            closed.append(self._open)
            self._open = None
        state = self._names[path[-1][1]] if seen else None
        evidence = zip(self._names, self.evidence().tolist(), strict=True) if seen else ()
        return Update(
            frame,
            time_s,
            state,
            None if state is None else self._since(path),
            {name: value for name, value in evidence if name is not None},
            tuple(window.interval for window in closed if window.state is not None),
            tuple(revised),
        )

    def _smooth(self, until: int) -> None:
        """Smooth the frames up to this one that are not smoothed yet."""
        first = self._smoothed - self._settled
        new = [seen for seen in islice(self._pending, first, None) if seen.frame <= until]
        for seen, row in zip(new, self._smooth_rows(new), strict=True):
            seen.row = row
            self.calibration.add(row)
        self._smoothed += len(new)

    def _smooth_rows(self, frames: list[ObservedFrame]) -> Floats:
        at = [self.lag - (self.frame - seen.frame) for seen in frames]
        sums = self._weights[at] @ self._rows
        return sums[:, :-1] / sums[:, -1:]

    def _reach(self) -> None:
        """Extend the paths over the frames that are smoothed."""
        first, last = self._reached - self._settled, self._smoothed - self._settled
        for seen in islice(self._pending, first, last):
            assert seen.row is not None
            seen.gains = (seen.row - self.calibration.levels()) / self.calibration.scale
            self._survivors.step(seen.gains[self._states], self._cost())
            self._reached += 1

    def _cost(self) -> float:
        return self.switch * math.log(max(self.calibration.count, 1))

    def _path(self) -> Path:
        """Return the best labelling now, to the last observed frame."""
        rest = list(islice(self._pending, self._reached - self._settled, None))
        rows = self._smooth_rows(rest)
        gains = (rows - self.calibration.levels()) / self.calibration.scale
        node, left, end = self._survivors.ahead(gains[:, self._states], self._cost())
        path = self._survivors.path(node)
        if left is not None:
            path.append((self._reached + left, int(self._states[end])))
        return path

    def _revised(self, path: Path) -> list[Revision]:
        """Return where the path is not as announced; from now on it is."""
        revised: list[Revision] = []
        if path != self._announced:
            count = self._announced_count
            starts = {max(start, self._settled) for start, _ in (*self._announced, *path)}
            for first, end in pairwise([*sorted(at for at in starts if at < count), count]):
                was, now = _state_at(self._announced, first), _state_at(path, first)
                if was != now:
                    window = Window(self._frame_of(first), self._frame_of(end - 1))
                    before = None if was == NOTHING else self._names[was]
                    revised.append(Revision(window, before, self._names[now]))
        self._announced, self._announced_count = path, self._settled + len(self._pending)
        return revised

    def _settle(self, agreed: int, path: Path) -> list[StateWindow]:
        """Return windows that have ended by the frames that are settled now."""
        closed = []
        while self._settled <= agreed:
            seen, state = self._pending.popleft(), _state_at(path, self._settled)
            name = self._names[state]
            self._settled += 1
            assert seen.row is not None
            assert seen.gains is not None
            self.calibration.label(seen.row, state)
            lead = float(seen.gains[state] - np.delete(seen.gains, state).max())
            window = self._open
            if window is not None and window.state == name and not seen.begins:
                window.last, window.score = seen, window.score + lead
                continue
            closed += [] if window is None else [window]
            self._open = StateWindow(name, seen, seen, lead)
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


def _smoothing(width: float, lag: int, states: int) -> tuple[Floats, Floats]:
    """Return (lag + 1, W) weights of the last W frames for the last ``lag`` ones, oldest first,
    and room for the (W, S + 1) cosines of these frames, with 1 beside each that is observed."""
    by_distance = gaussian(width, 1 << 30)
    reach = len(by_distance) - 1
    length = reach + lag + 1
    away = np.abs(np.arange(reach, length)[:, None] - np.arange(length))
    weights = np.where(away <= reach, by_distance[np.minimum(away, reach)], 0.0)
    return weights, np.zeros((length, states + 1))
