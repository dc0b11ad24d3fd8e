"""States that follow each other once, in a known order: where does each end and the next begin?

Three things are added up, none of which is enough alone, each as a share of what it could be:

    score = mean over frames of the response of their state
          + change · the share of the scatter of looks that the parts explain
          + place · the mean over parts of log(their length / that of equal parts)

The best parts are found exactly by dynamic programming, on at most MAX_BOUNDARIES places; of longer
histories the boundaries are then moved, one after the other, to the best frame near by.
``EqualParts`` is what the order gives without looking at a frame: compare with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from dejacue.errors import InputError, counted
from dejacue.method import _labelling as labelling
from dejacue.method.known_frames import HALF, leads
from dejacue.method.readout import Readout, View, Windows, in_frames, quoted
from dejacue.method.segmentation import STILL, reduced
from dejacue.method.state_readout import Known, StateReadout, StateView, is_number, occurrences
from dejacue.method.timeline import Order, checked_order
from dejacue.records import History, Note, Vocabulary, Window
from dejacue.records.arrays import Floats, Ints

MAX_BOUNDARIES = 1024  # places that are tried together
ROUNDS = 3  # of moving boundaries to the best frame near by
IMPOSSIBLE = 1e3  # far more than a score can be


def order_of(order: Order, history: History, vocabulary: Vocabulary) -> list[int]:
    """Return the numbers of the states in their order; None: as the vocabulary lists them."""
    names = list(vocabulary.states)
    numbers = list(labelling.numbers_of(order or tuple(names), names))
    if len(history) < len(numbers):
        frames = counted(len(history), "observed frame")
        raise InputError(f"history {history.id} has {frames} for {len(numbers)} states in order")
    return numbers


def equal_parts(count: int, parts: int) -> Ints:
    """Return where parts of the same length begin, and the end."""
    edges: Ints = np.round(np.linspace(0, count, parts + 1)).astype(np.int64)
    return edges


class OrderedView(StateView):
    """One history as parts that follow each other."""

    readout: Ordered

    def find_by_words(self) -> Windows:
        """Return the part of each state; it may cross an absence, since its state holds once."""
        states = order_of(self.readout.order, self.history, self.vocabulary)
        lead = leads(self.rows, exhaustive=True)
        parts = [
            (state, first, end - 1, float(lead[state, first:end].sum()))
            for state, (first, end) in zip(states, pairwise(self.edges.tolist()), strict=True)
        ]
        return occurrences(parts, None if self.known is None else self.facts)

    def find_known(self, known: Known) -> Windows:
        return self.find_by_words()

    @cached_property
    def edges(self) -> Ints:
        """Return the position at which each part begins, and the end."""
        states = order_of(self.readout.order, self.history, self.vocabulary)
        rows = self.rows[states]
        count = len(self.history)
        boundaries, edges_of_facts = np.zeros(count + 1), np.zeros(0, np.int64)
        if self.known is not None:
            facts = self.facts
            if (facts.labels == facts.states).any():
                problem = 'an example of "none of the states" does not fit a known order'
                raise InputError(f"{problem}; leave out the order or the example")
            for row, state in zip(rows, states, strict=True):
                row[facts.barred(state)] -= IMPOSSIBLE * count
            boundaries[facts.marks] = IMPOSSIBLE * count
            edges_of_facts = np.union1d(np.flatnonzero(np.diff(facts.labels)) + 1, facts.marks)
        parts = _Division(
            rows, boundaries, reduced(self.history), self.readout.change, self.readout.place
        )
        edges = parts.best(edges_of_facts[:MAX_BOUNDARIES])  # more of them fit no order
        if parts.score(edges) < (np.sum(boundaries > 0) - HALF) * IMPOSSIBLE:
            names = list(self.vocabulary.states)
            raise InputError(
                f"history {self.history.id}: the frames and changes that were named do not fit the "
                f"order {' → '.join(names[state] for state in states)}; give another order, or use "
                "the timeline readout"
            )
        return edges

    @cached_property
    def rows(self) -> Floats:
        return self.readout.rows(self)

    def hints(self) -> tuple[Note, ...]:
        """Say what the order alone would have given, and name states that are not in it."""
        names, frames = list(self.vocabulary.states), self.history.frames
        states = order_of(self.readout.order, self.history, self.vocabulary)
        parts, plain = (
            [Window(a, b - 1) for a, b in pairwise(edges.tolist())]
            for edges in (self.edges, equal_parts(len(frames), len(states)))
        )
        overlap = np.mean([part.iou(window) for part, window in zip(parts, plain, strict=True)])
        listed = ", ".join(
            f"{names[state]} {in_frames(frames[window.start], frames[window.end])}"
            for state, window in zip(states, plain, strict=True)
        )
        text = f"the order alone, in equal parts: {listed}; the answer overlaps it by {overlap:.0%}"
        notes: tuple[Note, ...] = (Note(text, "information"),)
        if absent := [name for k, name in enumerate(names) if k not in states]:
            text = f"not found: {quoted(absent)} (not in the order)"
            notes += (Note(text, "information"),)
        return notes


@dataclass(frozen=True)
class Ordered(StateReadout):
    """A readout for states that follow each other once: evidence, visual change and order.

    order    states by name, as they follow each other; None: as the vocabulary lists them
    change   weight of visual change: parts should look alike inside, and differ
    place    weight of where changes are expected: parts of the same length, broadly
    """

    order: Order = None
    change: float = 1.0
    place: float = 0.2
    name: ClassVar[str] = "ordered"
    view_type = OrderedView

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != 1:
            raise InputError("an order is one of states; leave the pooling at 1")
        for name in ("change", "place"):
            if not is_number(getattr(self, name)):
                raise InputError(f"the weight of {name} must be 0 or more")
            object.__setattr__(self, name, float(getattr(self, name)))
        object.__setattr__(self, "order", checked_order(self.order))

    def rows(self, view: OrderedView) -> Floats:
        """Return the responses of the states or, beside known frames, ±1 by membership."""
        if not len(view.facts.looked):
            return view.smoothed[0]
        return 2 * (view.membership - HALF)


class _Division:
    """The score of dividing N frames into K consecutive parts."""

    def __init__(
        self, rows: Floats, boundaries: Floats, looks: Floats, change: float, place: float
    ) -> None:
        """rows: (K, N) of each part; boundaries: (N + 1,) gain of one there; looks: (N, k)."""
        self.count, self.parts = rows.shape[1], len(rows)
        sums = np.concatenate([np.zeros((self.parts, 1)), np.cumsum(rows, axis=1)], axis=1)
        self.sums, self.boundaries = sums / self.count, boundaries / self.count
        self.looks = np.concatenate([np.zeros((1, looks.shape[1])), np.cumsum(looks, axis=0)])
        scatter = float(np.einsum("nd,nd->", looks, looks))
        self.change = change / scatter if scatter > STILL * self.count else 0.0
        self.place = place / self.parts

    def best(self, extra: Ints) -> Ints:
        """Return where the best parts begin, and the end; extra: places to be tried as well."""
        places = np.union1d(equal_parts(self.count, min(self.count, MAX_BOUNDARIES)), extra)
        of_any = self._of_any(places)
        best = np.full(len(places), -np.inf)
        best[0] = 0.0
        sources = []
        for sums in self.sums[:, places]:
            table = best[:, None] + of_any + (sums[None, :] - sums[:, None])
            sources.append(table.argmax(axis=0))
            best = table.max(axis=0) + self.boundaries[places]
        at, edges = len(places) - 1, [len(places) - 1]
        for source in reversed(sources):
            at = int(source[at])
            edges.append(at)
        return self._moved(places[edges[::-1]], int(np.diff(places).max()))

    def _of_any(self, places: Ints) -> Floats:
        """Return (M, M) what change and place give a part between two places, in any state."""
        looks = self.looks[places]
        squares = np.einsum("md,md->m", looks, looks)
        between = squares[:, None] + squares[None, :] - 2 * looks @ looks.T
        lengths = (places[None, :] - places[:, None]).astype(np.float64)
        later = lengths > 0
        lengths = np.where(later, lengths, 1.0)
        value = self.change * between / lengths + self._placed(lengths)
        return np.where(later, value, -np.inf)

    def _placed(self, lengths: Floats) -> Floats:
        placed: Floats = self.place * np.log(lengths * self.parts / self.count)
        return placed

    def _value(self, part: int, start: Ints, end: Ints) -> Floats:
        """Return what parts between these positions give."""
        lengths = (end - start).astype(np.float64)
        difference = self.looks[end] - self.looks[start]
        between = np.einsum("...d,...d->...", difference, difference)
        value: Floats = self.change * between / lengths + self._placed(lengths)
        value += self.sums[part][end] - self.sums[part][start]
        return value

    def score(self, edges: Ints) -> float:
        values = [self._value(k, a, b) for k, (a, b) in enumerate(pairwise(edges))]
        return float(np.sum(values) + self.boundaries[edges[1:-1]].sum())

    def _moved(self, edges: Ints, step: int) -> Ints:
        """Move each boundary to the best frame less than a step away."""
        for _ in range(ROUNDS if step > 1 else 0):
            before = edges.copy()
            for k in range(1, self.parts):
                low, high = max(edges[k] - step, edges[k - 1]), min(edges[k] + step, edges[k + 1])
                at = np.arange(low + 1, high)
                first, last = np.full_like(at, edges[k - 1]), np.full_like(at, edges[k + 1])
                value = self._value(k - 1, first, at) + self._value(k, at, last)
                edges[k] = at[int((value + self.boundaries[at]).argmax())]
            if np.array_equal(before, edges):
                break
        return edges


@dataclass(frozen=True)
class EqualParts(Readout):
    """A baseline that looks at no frame: the states in order, each with an equal part."""

    order: Order = None
    name: ClassVar[str] = "equal-parts"
    takes_examples: ClassVar[bool] = True  # and ignores them, as it does words

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", checked_order(self.order))

    @property
    def query_pooling(self) -> float:
        return 1.0

    def find(self, view: View) -> Windows:
        states = order_of(self.order, view.history, view.vocabulary)
        edges = equal_parts(len(view.history), len(states)).tolist()
        pairs = zip(states, pairwise(edges), strict=True)
        return occurrences([(state, a, b - 1, 0.0) for state, (a, b) in pairs])


ORDERED, EQUAL_PARTS = Ordered(), EqualParts()  # the entry points "ordered" and "equal-parts"
