"""One window a state, for comparison: the one that differs most from the rest of the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dejacue.method.known_frames import window_of_words, windows_beside
from dejacue.method.readout import View, Windows
from dejacue.method.state_readout import Known, StateReadout, StateView, occurrences


class ContrastView(StateView):
    def find_by_words(self) -> Windows:
        find_together([self])
        return self.windows

    def find_known(self, known: Known) -> Windows:
        cuts, facts = self.smoothing[0], known.facts
        if known.evidence is not None and not len(facts.looked):  # changes only
            parts = facts.open_parts(-1, cuts)
            rows = [window_of_words(self.engine, row, parts) for row in known.evidence]
        else:
            rows = windows_beside(self.engine, known.f, facts, cuts, known.evidence)
        return occurrences([(k, *row) for k, row in enumerate(rows) if row is not None], facts)


def find_together(views: Sequence[ContrastView]) -> None:
    """Find the windows of words in several histories, in one call of the kernel."""
    jobs = [(view.history, view.queries, view.centre, view.smoothing) for view in views]
    for view, found in zip(views, views[0].engine.contrast(jobs), strict=True):
        view.cosines, view.smoothed, (start, end, score) = found
        state = np.arange(len(start)) if view.readout.pooling == 1 else None
        view.windows = Windows(start, end, score, state)


@dataclass(frozen=True)
class Contrast(StateReadout):
    """A readout that takes the window which differs most from the rest, towards the state.

    >>> from dejacue import History, Vocabulary, locate
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> locate(cup, words, readout=Contrast(smoothing_s=0.5))["full"][0].window
    Window(start=6, end=11)
    """

    name: ClassVar[str] = "contrast"
    view_type = ContrastView

    def find_each(self, views: Sequence[View]) -> None:
        by_words = [view for view in views if isinstance(view, ContrastView) and not view.named]
        if by_words:
            find_together(by_words)
