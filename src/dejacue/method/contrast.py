"""One window a state, for comparison: the one that differs most from the rest of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dejacue.method import constrained
from dejacue.method.kernel import Answers, EvidenceTables, Ragged
from dejacue.method.readout import HistoryBatch
from dejacue.method.state_readout import Known, StateReadout, StateView, occurrences, of_states


class ContrastView(StateView):
    def find_known(self, known: Known) -> Answers:
        cuts, facts = self.smoothing[0], known.facts
        if known.evidence is not None and not len(facts.looked):  # changes only
            parts = facts.open_parts(-1, cuts)
            rows = [constrained.window_of_words(self.engine, row, parts) for row in known.evidence]
        else:
            rows = constrained.windows(self.engine, known.f, facts, cuts, known.evidence)
        windows = [(state, *row) for state, row in enumerate(rows) if row is not None]
        return occurrences(self.history, windows, facts)


@dataclass(frozen=True)
class Contrast(StateReadout):
    """A readout that takes the window which differs most from the rest, towards the state."""

    name: ClassVar[str] = "contrast"
    view_type = ContrastView

    def compute(self, batch: HistoryBatch, tables: Ragged, out: EvidenceTables | None) -> Answers:
        answers = batch.engine.contrast(tables, batch.centres(), out)
        return of_states(answers, batch.vocabularies) if self.pooling == 1 else answers
