"""One labelling of all observed frames by states, so that siblings cannot both claim a frame.

A path through the states earns the response of the state it is in and pays for every switch; the
best path is found exactly by dynamic programming. A switch costs log n: what it takes to say at
which of the n observed frames it happens. Responses are measured from half way between their level
inside the state and outside of it, which a few rounds of labelling find; from the mean, a rare
state would claim noise. What the user knows of the order may be given as an option; it never
enters by default.

A labelling takes it for granted that every frame is in one of the states. A state that never
occurs still gets the frames in which its siblings are weakest. Only beside frames that are known,
by examples, may others be in none of the states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method import constrained
from dejacue.method._labelling import Nodes, Order
from dejacue.method._timelines import quoted
from dejacue.method.kernel import Answers, EvidenceTables, Labelling, Ragged
from dejacue.method.known_frames import HALF, ROUNDS
from dejacue.method.readout import HistoryBatch, View
from dejacue.method.scan import Further, ScoredWindow
from dejacue.method.state_readout import Known, StateReadout, is_count, is_number
from dejacue.records import History, Note, Vocabulary
from dejacue.records.arrays import Floats, Ints

MAX_OCCURRENCES = 1000  # of a state, in a timeline


@dataclass(frozen=True)
class Joint(StateReadout):
    """A readout that gives each frame a state (or none): the labelling with the best score.

    A state's window is its stretch of frames with the highest score, the sum over frames of its
    response less that of the strongest sibling. A state that the labelling leaves out is marked
    absent, and its window is that of the best contrast.

    switch         cost of a switch, in units of log n
    stay           least number of consecutive observed frames in a state; a long gap cuts what it
                   gives in two
    order          states by name, as they follow each other: from each one may only go to the
                   next, and from the last to the first again; others do not occur
    irreversible   no state that was left is entered again
    """

    switch: float = 1.0
    stay: int = 1
    order: Order = None
    irreversible: bool = False
    name: ClassVar[str] = "joint"
    usual_windows: ClassVar[int] = MAX_OCCURRENCES
    lists_occurrences: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling != 1:
            problem = "a joint labelling works on states; leave the pooling at 1"
            raise InputError(problem, field="pooling", value=self.pooling)
        for name, valid in (("switch", is_number(self.switch)), ("stay", is_count(self.stay, 1))):
            if not valid:
                problem = "the switch cost must be 0 or more, and the shortest stay 1 frame or more"
                raise InputError(problem, field=name, value=getattr(self, name))
        if not isinstance(self.irreversible, bool):
            problem = f"irreversible must be true or false, not {self.irreversible!r}"
            raise InputError(problem, field="irreversible", value=self.irreversible)
        order = labelling.checked_order(self.order)
        vars(self).update(switch=float(self.switch), stay=int(self.stay), order=order)

    @property
    def has_none(self) -> bool:
        """Return whether a frame beside known ones may be in no state (not with an order)."""
        return self.order is None and not self.irreversible

    def compute(self, batch: HistoryBatch, tables: Ragged, out: EvidenceTables | None) -> Answers:
        rules = self._rules(batch, tables.runs)
        return batch.engine.contrast(tables, batch.centres(), out, rules)

    def _rules(self, batch: HistoryBatch, cuts: Sequence[Ints]) -> Labelling:
        """Return how paths may go, for the engine."""
        for history, bounds in zip(batch.histories, cuts, strict=True) if self.stay > 1 else ():
            longest = int(np.diff(bounds).max())
            if self.stay > longest:
                raise InputError(
                    f"history {history.id}: a stay of {self.stay} frames is longer than every "
                    f"stretch; the longest has {longest}",
                    field="stay",
                    value=self.stay,
                    remedy="use a shorter stay",
                )
        nodes = [self.nodes(vocabulary) for vocabulary in batch.vocabularies]
        costs = np.array([self._cost(history) for history in batch.histories])
        return Labelling(nodes, costs, self.stay, ROUNDS)

    def _cost(self, history: History) -> float:
        return self.switch * math.log(len(history))

    def nodes(self, vocabulary: Vocabulary) -> Nodes:
        """Return the graph of states: which there are, and what may follow what."""
        names = list(vocabulary.states)
        order = None if self.order is None else labelling.numbers_of(self.order, names)
        return labelling.nodes_for(len(names), order, self.irreversible)

    def _nodes_and_none(self, vocabulary: Vocabulary) -> Nodes:
        """Return the nodes where the last row of responses is none of the states."""
        count = len(vocabulary.states)
        if self.has_none:
            return labelling.nodes_for(count + 1, None, False)
        return labelling.with_none(self.nodes(vocabulary), count, not self.irreversible)

    def find_known(self, view: View, known: Known) -> Answers:
        """Return the best stretch of each state; where it has none, the best contrast of words."""
        cuts, facts = self.bounds(view.history), known.facts
        windows: list[ScoredWindow | None] = []
        occurrences = self._known_stretches(view, known)
        for state, stretches in enumerate(occurrences):
            if stretches or known.evidence is None:
                windows.append(stretches[0] if stretches else None)
                continue
            parts = facts.open_parts(state, cuts)
            window = constrained.window_of_words(view.engine, known.evidence[state], parts)
            windows.append(window and (*window[:2], 0.0))  # it is none of the labelling's
        return self.answers(view, windows, [not stretches for stretches in occurrences])

    def _rows(self, view: View, responses: Floats, levels: Floats) -> tuple[Floats, Nodes]:
        """Return the rows that a labelling sums, and its nodes."""
        return responses - levels[:, None], self.nodes(view.vocabulary)

    def _known_rows(self, view: View, known: Known) -> tuple[Floats, Nodes, float]:
        """Return rows, nodes and the cost of a switch for a history of which frames are known.

        The last row is none of the states, except where an order has no room for it.
        """
        facts, cost = known.facts, self._cost(view.history)
        if not len(facts.looked) and known.evidence is not None:  # changes only
            words = self.words_seen(view)
            return *self._rows(view, words.responses[0], words.levels[0]), cost
        rows = known.f - HALF
        if self.has_none and not facts.covers_all:
            return and_none(rows), self._nodes_and_none(view.vocabulary), constrained.SWITCH * cost
        if (facts.labels == facts.states).any():
            problem = 'an example of "none of the states" does not fit a known order'
            remedy = "leave out the order or the example"
            raise InputError(problem, field="order", remedy=remedy)
        return rows, self.nodes(view.vocabulary), constrained.SWITCH * cost

    def occurrences(self, view: View) -> list[list[ScoredWindow]]:
        """Return all stretches of each state, best first; none where it does not occur."""
        return view.once(("occurrences", self), lambda: self._occurrences(view))

    def _occurrences(self, view: View) -> list[list[ScoredWindow]]:
        known = self.known(view)
        if known is not None:
            return self._known_stretches(view, known)
        tables = self.seen(view)[1]
        return self._stretches(view, tables.responses[0], tables.paths[0], tables.levels[0])

    def _known_stretches(self, view: View, known: Known) -> list[list[ScoredWindow]]:
        """Return all stretches of each state in the best labelling that keeps what is known."""

        def compute() -> list[list[ScoredWindow]]:
            rows, nodes, cost = self._known_rows(view, known)
            cuts, facts = self.bounds(view.history), known.facts
            path = constrained.path(view.engine, rows, facts, cuts, nodes, cost, self.stay)
            cuts = np.union1d(cuts, facts.marks)
            return labelling.stretches(rows, path, cuts)[: facts.states]

        return view.once(("stretches", self, known), compute)

    def _stretches(
        self, view: View, responses: Floats, path: Ints, levels: Floats
    ) -> list[list[ScoredWindow]]:
        """Return the stretches of a labelling in which every frame is in a state."""
        rows = self._rows(view, responses, levels)[0]
        return labelling.stretches(rows, path, self.bounds(view.history))

    def hints(self, view: View, answers: Answers, further: Further) -> tuple[Note, ...]:
        """Name the states that get no frame, which formats of other tools leave out."""
        pairs = zip(view.vocabulary.states, self.occurrences(view), strict=True)
        left_out = [state for state, stretches in pairs if not stretches]
        if not left_out:
            return ()
        text = f"not found: {quoted(left_out)} (no frame in the labelling)"
        return (Note(text, "information"),)

    def alternatives(
        self, view: View, answers: Answers, count: int, least: Floats | None = None
    ) -> list[list[ScoredWindow]]:
        """Return the further occurrences of each state, best first."""
        occurrences = self.occurrences(view)
        return [occurrences[state][1 : 1 + count] for state in view.vocabulary.labels.tolist()]


def and_none(rows: Floats) -> Floats:
    """Add a row of zeros: the response of none of the states."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))])
