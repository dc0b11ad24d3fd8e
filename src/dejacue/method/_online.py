"""Parts of a live reading that know neither frames nor words: running calibration, surviving paths.

Both take constant time a frame, whatever has gone before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.method._labelling import Nodes
from dejacue.method.states import LEAST_SCALE

Row = NDArray[np.float64]


class Calibration:
    """Mean and deviation of the smoothed cosines so far, and the level of each state: half way
    between its mean inside the state and outside, as in a joint labelling.

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
    def scale(self) -> Row:
        scale: Row = np.maximum(np.sqrt(self._variance), LEAST_SCALE)
        return scale

    def suppose(self, first: NDArray[np.float64], frames: int) -> None:
        """Begins as if the object had been in each state for so many frames, and the state with
        the highest of the first cosines (N, S) were the one it is in: without that, a state would
        be told from noise as long as the object has not been in another.

        Plain similarity is taken at its word here: all states have the same mean, and exceed it
        when they hold by what the highest does now.
        """
        means = first.mean(axis=0)
        level, others = float(means.mean()), len(means) - 1
        rise = float(means.max()) - level
        self.count = self._labelled = frames * len(means)
        self.mean[:], self._variance[:] = level, rise**2 / others
        self._inside[:], self._inside_total[:] = frames, frames * (level + rise)
        self._total[:] = self._labelled * level

    def add(self, row: Row) -> None:
        self.count += 1 if self.memory is None or self.count < self.memory else 0
        away = row - self.mean
        self.mean += away / self.count
        self._variance += (away * (row - self.mean) - self._variance) / self.count

    def label(self, row: Row, state: int) -> None:
        """A frame whose state is settled."""
        if self.memory is not None and self._labelled >= self.memory:
            kept = 1 - 1 / self.memory
            self._labelled *= kept
            for sums in (self._total, self._inside, self._inside_total):
                sums *= kept
        self._labelled += 1
        self._total += row
        self._inside[state] += 1
        self._inside_total[state] += row[state]

    def levels(self) -> Row:
        """In cosines; the mean where a state has no settled frame, or all of them."""
        outside = self._labelled - self._inside
        both = (self._inside >= 1) & (outside >= 1)
        levels = self.mean.copy()
        inside = self._inside_total[both] / self._inside[both]
        beyond = (self._total - self._inside_total)[both] / outside[both]
        levels[both] = (inside + beyond) / 2
        return levels


@dataclass(slots=True, eq=False)
class Visit:
    """A stay in one node from position ``start`` on, and what came before."""

    node: int
    start: int
    before: Visit | None


class Survivors:
    """The best path into each node, extended by one observed frame at a time.

    Paths that differ lately are mostly one path further back: what all survivors share can change
    no more, and is forgotten.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.score: Row = np.where(nodes.first > 0, 0.0, -np.inf)
        self._last: list[Visit] = []
        self._barred = np.where(nodes.follows > 0, 0.0, -np.inf)
        self._every = np.arange(len(nodes.state))
        self._position = -1

    def step(self, position: int, gains: Row, cost: float) -> None:
        """One more frame: what each node earns, and what a switch costs."""
        self._position = position
        if not self._last:
            self._last = [Visit(node, position, None) for node in self._every.tolist()]
            self.score = self.score + gains
            return
        arriving = self.score[:, None] + self._barred
        origin = arriving.argmax(axis=0)
        entering = arriving[origin, self._every] - cost
        better = entering > self.score
        self.score = np.where(better, entering, self.score) + gains
        self.score -= self.score.max()
        before = self._last
        self._last = [
            Visit(node, position, before[origin[node]]) if new else before[node]
            for node, new in enumerate(better.tolist())
        ]

    def ahead(self, gains: Row, cost: float) -> tuple[int, int | None, int]:
        """The best way on over a few frames (F, K) that are not settled yet, with one switch at
        most: the node to go on from, after how many frames it is left (None: never), and the
        node at the end."""
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

    def path(self, node: int) -> list[tuple[int, int]]:
        """(first position, state) of each visit on the path into a node, in order, as far as it is
        not forgotten."""
        visits = _back(self._last[node]) if self._last else [Visit(node, 0, None)]
        return [(own.start, int(self.nodes.state[own.node])) for own in visits][::-1]

    def settle(self, due: int) -> int:
        """The last position up to which all survivors agree; −1 where they agree nowhere.

        Up to the position ``due`` they have to: those that differ there from the best take over its
        path, and keep what they have earned, so that a change may win even where it has to take
        longer than there is time to wait.
        """
        if not self._last:
            return -1
        own = list(_back(self._last[int(self.score.argmax())]))
        place = {id(visit): at for at, visit in enumerate(own)}
        due_visit = next((visit for visit in own if visit.start <= due), None)
        agreed: float = np.inf
        for node, last in enumerate(self._last):
            if self.score[node] == -np.inf:
                continue
            if due_visit is not None:
                last = self._last[node] = self._spliced(last, due, due_visit)
                if self.score[node] == -np.inf:
                    continue
            parted, shared = None, last
            while id(shared) not in place:
                if shared.before is None:
                    return -1
                parted, shared = shared, shared.before
            if parted is not None:
                agreed = min(agreed, parted.start - 1)
            if at := place[id(shared)]:
                agreed = min(agreed, own[at - 1].start - 1)
        return self._position if agreed == np.inf else int(agreed)

    def _spliced(self, last: Visit, position: int, onto: Visit) -> Visit:
        """The same path after a position, and up to it the one that leads to ``onto``; dropped
        where nothing leads from there to it."""
        after: Visit | None = None
        for visit in _back(last):
            if visit.start <= position:
                if visit is onto:
                    return last
                break
            after = visit
        node = last.node if after is None else after.node
        if node != onto.node and self._barred[onto.node, node] < 0:
            self.score[last.node] = -np.inf
        elif after is None:
            return Visit(node, position + 1, onto)
        else:
            after.before = onto
        return last

    def forget(self, position: int) -> None:
        """What came before the visit that holds a position on which all survivors agree."""
        held = _at(self._last[int(self.score.argmax())], position) if self._last else None
        if held is not None:
            held.before = None


def _at(visit: Visit, position: int) -> Visit | None:
    """The visit on the way back that holds a position."""
    return next((own for own in _back(visit) if own.start <= position), None)


def _back(visit: Visit) -> Iterator[Visit]:
    found: Visit | None = visit
    while found is not None:
        yield found
        found = found.before
