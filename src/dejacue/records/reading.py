"""Reading: everything that one readout says of one history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dejacue.records.retrieval import Evidence, Moment, Retrieval


@dataclass(frozen=True, eq=False)
class Reading:
    """What a readout says of a history, computed once.

    retrieval     the window of each description, with alternatives, diagnostics and notes
    evidence      what decided: cosines, calibration, responses
    occurrences   state → every window in which it holds, best first; None where the readout
                  gives one window only
    """

    retrieval: Retrieval
    evidence: Evidence
    occurrences: Mapping[str, tuple[Moment, ...]] | None = None
