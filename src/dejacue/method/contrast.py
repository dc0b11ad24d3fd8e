"""One window a state, for comparison: the one that differs most from the rest of the history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dejacue.method import constrained
from dejacue.method.readout import Windows
from dejacue.method.state_readout import Known, StateReadout, StateView, occurrences


class ContrastView(StateView):
    def find_by_words(self) -> Windows:
        found = self.engine.contrast(self.history, self.queries, self.centre, *self.smoothing)
        self.cosines, self.smoothed, (start, end, score) = found
        state = np.arange(len(start)) if self.readout.pooling == 1 else None
        return Windows(start, end, score, state)

    def find_known(self, known: Known) -> Windows:
        cuts, facts = self.smoothing[0], known.facts
        if known.evidence is not None and not len(facts.looked):  # changes only
            parts = facts.open_parts(-1, cuts)
            rows = [constrained.window_of_words(self.engine, row, parts) for row in known.evidence]
        else:
            rows = constrained.windows(self.engine, known.f, facts, cuts, known.evidence)
        return occurrences([(k, *row) for k, row in enumerate(rows) if row is not None], facts)


@dataclass(frozen=True)
class Contrast(StateReadout):
    """A readout that takes the window which differs most from the rest, towards the state."""

    name: ClassVar[str] = "contrast"
    view_type = ContrastView
