"""A labelling in which a frame may be in none of the states, by a level of the response."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method.joint import Joint, and_none
from dejacue.method.kernel import Answers, Labelling
from dejacue.method.readout import HistoryBatch, Readout, View
from dejacue.method.scan import ScoredWindow
from dejacue.method.state_readout import is_number

LEVEL = 0.4  # deviations of the response; paper/docs/beyond.md says how it was chosen


@dataclass(frozen=True)
class JointOrNone(Joint):
    """The best labelling in which a frame is in none of the states where no response exceeds its
    level by ``none`` deviations. Histories are read one after the other."""

    none: float = LEVEL
    name: ClassVar[str] = "joint-or-none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.none):
            problem = f"none {self.none!r} must be 0 or more deviations"
            raise InputError(problem, field="none", value=self.none)
        object.__setattr__(self, "none", float(self.none))

    def find(self, batch: HistoryBatch) -> Answers:
        return Readout.find(self, batch)

    @property
    def has_none(self) -> bool:
        return True

    def find_one(self, view: View) -> Answers:
        if self.known(view) is not None:
            return super().find_one(view)
        return view.once(("found", self), lambda: self._find_with_none(view))

    def _find_with_none(self, view: View) -> Answers:
        """Return the best stretch of each state; where it has none, the best contrast."""
        best, present = self.seen(view)
        history, rows = view.history, view.vocabulary.labels
        responses = present.responses[0]
        start, end, _ = view.engine.search(responses, self.bounds(history), len(history))
        score, absent = labelling.take_best(self.occurrences(view), start, end)
        windows = Answers.at(history.frames, start, end, score, None, None, absent).rows(rows)
        return replace(windows, centre=best.centre, scale=best.scale)

    def _rows(
        self, view: View, responses: NDArray[np.float64], levels: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], labelling.Nodes]:
        """Return the rows of the states; that of none is the last."""
        rows = responses - levels[:, None]
        return and_none(rows - self.none), self._nodes_and_none(view.vocabulary)

    def _stretches(
        self,
        view: View,
        responses: NDArray[np.float64],
        path: NDArray[np.int64],
        levels: NDArray[np.float64],
    ) -> list[list[ScoredWindow]]:
        """Return the stretches of the labelling that the levels give where a frame may be in
        none."""
        cuts = self.bounds(view.history)
        rows, nodes = self._rows(view, responses, levels)
        costs = np.array([self._cost(view.history)])
        rules = Labelling([nodes], costs, self.stay, 1)
        path = view.engine.label_responses(rows, cuts, rules)[0]
        return labelling.stretches(rows, path, cuts)[: len(responses)]


JOINT_OR_NONE = JointOrNone()  # the entry point "joint-or-none"
