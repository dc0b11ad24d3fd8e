"""One labelling of all observed frames by states, so that siblings cannot both claim a frame.

A path through the states earns the response of the state it is in and pays for every switch; the
best path is found exactly by dynamic programming. A switch costs log n: what it takes to say at
which of the n observed frames it happens. Responses are measured from half way between their level
inside the state and outside of it, which a few rounds of labelling find; from the mean, a rare
state would claim noise. What the user knows of the order may be given as an option; it never
enters by default.

A labelling takes it for granted that every frame is in one of the states. A state that never
occurs still gets the frames in which its siblings are weakest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method.contrast import Found, search
from dejacue.method.states import StateEvidence, Steady, is_count, is_number, kernel_of
from dejacue.method.view import Selection, View

ROUNDS = 4  # of labelling; more change next to nothing
MOST_STATES = 7  # of an irreversible change in unknown order: the solver looks at every subset


@dataclass(frozen=True)
class Joint(Steady):
    """The best labelling; a state's window is its stretch of frames with the highest score, the
    sum over frames of its response less that of the strongest sibling. A state that the labelling
    leaves out is marked absent, and its window is that of the best contrast.

    switch         cost of a switch, in units of log n
    stay           least number of consecutive observed frames in a state; a long gap cuts what it
                   gives in two
    order          states by name, as they follow each other: from each one may only go to the
                   next, and from the last to the first again; others do not occur
    irreversible   no state that was left is entered again
    """

    switch: float = 1.0
    stay: int = 1
    order: tuple[str, ...] | None = None
    irreversible: bool = False
    name: ClassVar[str] = "joint"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != 1:
            raise InputError("a joint labelling is by states: leave the pooling at 1")
        if not is_number(self.switch) or not is_count(self.stay, 1):
            raise InputError("the switch cost must be 0 or more, the least stay 1 frame or more")
        object.__setattr__(self, "switch", float(self.switch))
        object.__setattr__(self, "stay", int(self.stay))
        if not isinstance(self.irreversible, bool):
            raise InputError(f"irreversible is true or false, not {self.irreversible!r}")
        if self.order is not None:
            order = (self.order,) if isinstance(self.order, str) else tuple(self.order)
            object.__setattr__(self, "order", order)
            if len(set(order)) != len(order) or len(order) < 2:
                raise InputError("an order names at least two states, each once")

    def read(self, view: View) -> Selection:
        seen = self.see(view)
        start, end, _ = search(seen.responses, seen.cuts, len(view.history), kernel_of(view))
        score, absent = np.zeros(len(start)), np.ones(len(start), bool)
        for state, own in enumerate(self.occurrences(view)):
            if own:
                start[state], end[state], score[state] = own[0]
                absent[state] = False
        rows = seen.row_of
        return Selection(
            start[rows], end[rows], score[rows], seen.centre[rows], seen.scale[rows], "state",
            absent[rows],
        )  # fmt: skip

    def occurrences(self, view: View) -> list[list[Found]]:
        """All stretches of each state, best first; none where it does not occur."""
        found: list[list[Found]] = view.once(("occurrences", self), lambda: self._occurrences(view))
        return found

    def _occurrences(self, view: View) -> list[list[Found]]:
        seen = self.see(view)
        path, responses = self.label(seen, view)
        lead = leads(responses)
        found: list[list[Found]] = [[] for _ in seen.responses]
        for first, last in _pieces(path, seen.cuts):
            state = int(path[first])
            found[state].append((first, last, float(lead[state, first : last + 1].sum())))
        return [sorted(own, key=lambda window: (-window[2], window[0])) for own in found]

    def alternatives(
        self, view: View, query: int, chosen: tuple[int, int], more: int
    ) -> list[Found]:
        """The further occurrences of the state, best first."""
        own = self.occurrences(view)[view.labels[query]]
        return [window for window in own if window[:2] != chosen][:more]

    def label(
        self, seen: StateEvidence, view: View
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(N,) the state of each observed frame, and the responses (S, N) that decided it."""
        longest = int(np.diff(seen.cuts).max())
        if self.stay > longest:
            raise InputError(
                f"history {view.history.id}: a stay of {self.stay} frames is longer than every "
                f"stretch, the longest has {longest}; ask for less"
            )
        names = view.state_names
        for name in self.order or ():
            if name not in names:
                raise unknown("state in the order", name, names)
        nodes = _nodes(names, self.order, self.irreversible)
        cost = self.switch * float(np.log(len(view.history)))
        middle = np.zeros(len(seen.responses))
        for _ in range(ROUNDS):
            responses = seen.responses - middle[:, None]
            path = best_path(responses, nodes, cost, self.stay)
            before, middle = middle, levels(seen.responses, path)
            if np.array_equal(before, middle):
                break
        return path, responses


@dataclass(frozen=True, eq=False)
class Nodes:
    """What a path may be in: the state of each node, which may come first, what follows what."""

    state: NDArray[np.int64]  # (K,)
    first: NDArray[np.bool_]  # (K,)
    follows: NDArray[np.bool_]  # (K, K): from row to column


def _nodes(names: Sequence[str], order: tuple[str, ...] | None, irreversible: bool) -> Nodes:
    count = len(names)
    if order is not None:
        state = np.array([names.index(name) for name in order])
        follows = np.zeros((len(order), len(order)), bool)
        follows[np.arange(len(order) - 1), np.arange(1, len(order))] = True
        follows[-1, 0] = not irreversible
        return Nodes(state, np.ones(len(order), bool), follows)
    if not irreversible:
        return Nodes(np.arange(count), np.ones(count, bool), ~np.eye(count, dtype=bool))
    if count > MOST_STATES:
        raise InputError(
            f"an irreversible change among {count} states needs their order; without one there "
            f"may be {MOST_STATES}"
        )
    kinds = [(mask, own) for mask in range(1 << count) for own in range(count) if mask >> own & 1]
    masks, state = np.array(kinds).T
    entered = masks[:, None] | (1 << state)[None, :]
    new = (masks[:, None] >> state[None, :] & 1) == 0
    return Nodes(state, masks == 1 << state, new & (entered == masks[None, :]))


def best_path(
    responses: NDArray[np.float64], nodes: Nodes, cost: float, stay: int
) -> NDArray[np.int64]:
    """(N,) states of the path with the highest sum of responses less ``cost`` per switch, in which
    every visit lasts at least ``stay`` frames. Of equal paths the one that stays longer."""
    count, kinds = responses.shape[1], len(nodes.state)
    sums = np.concatenate([np.zeros((1, kinds)), np.cumsum(responses[nodes.state], axis=1).T])
    best = np.full((count + 1, kinds), -np.inf)  # after t frames, in a visit that is long enough
    source = np.full((count + 1, kinds), -1)  # −1: one frame longer; K: the first visit; else from
    barred = np.where(nodes.follows, 0.0, -np.inf)
    for t in range(stay, count + 1):
        longer = best[t - 1] + (sums[t] - sums[t - 1])
        if t == stay:
            before, origin = np.where(nodes.first, 0.0, -np.inf), np.full(kinds, kinds)
        else:
            arrive = best[t - stay][:, None] + barred
            origin = arrive.argmax(axis=0)
            before = arrive[origin, np.arange(kinds)] - cost
        enter = before + (sums[t] - sums[t - stay])
        better = enter > longer
        best[t] = np.where(better, enter, longer)
        source[t] = np.where(better, origin, -1)
    path = np.empty(count, np.int64)
    t, node = count, int(best[count].argmax())
    while t > 0:
        step = int(source[t, node])
        length = 1 if step < 0 else stay
        path[t - length : t] = nodes.state[node]
        t -= length
        node = node if step < 0 or step == kinds else step
    return path


def levels(responses: NDArray[np.float64], path: NDArray[np.int64]) -> NDArray[np.float64]:
    """Half way between the mean inside and outside of each state; 0 where one of them is empty."""
    middle = np.zeros(len(responses))
    for state, row in enumerate(responses):
        inside = path == state
        if inside.any() and not inside.all():
            middle[state] = (row[inside].mean() + row[~inside].mean()) / 2
    return middle


def leads(responses: NDArray[np.float64]) -> NDArray[np.float64]:
    """By how much each state's response exceeds that of its strongest sibling."""
    siblings = np.stack(
        [np.delete(responses, row, axis=0).max(axis=0) for row in range(len(responses))]
    )
    lead: NDArray[np.float64] = responses - siblings
    return lead


def _pieces(path: NDArray[np.int64], cuts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last positions of equal labels; none crosses the end of a stretch."""
    ends = np.union1d(np.flatnonzero(np.diff(path)) + 1, cuts)
    for first, last in pairwise(ends.tolist()):
        yield first, last - 1
