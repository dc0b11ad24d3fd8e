"""What is asked of some histories, wherever their rows are read: here, or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.method.batch import locate_many
from dejacue.method.view import Readout
from dejacue.records import History, Vocabulary

Table = dict[str, Any]


class Question(NamedTuple):
    vocabulary: Vocabulary
    readout: str | Readout

    def table(
        self,
        histories: Sequence[History],
        sources: Sequence[str | None],
        object_scores: NDArray[np.float64],
        before: int,
    ) -> Table:
        """The answers in these histories, which come after ``before`` others in the ranking."""
        found = locate_many(histories, self.vocabulary, readout=self.readout).columns()
        labels = self.vocabulary.labels
        rows = np.arange(len(labels))
        if found["level"][0] == "state":  # all descriptions of a state have the same answer
            rows = np.searchsorted(labels, np.arange(len(self.vocabulary.states)))
        picked = len(labels) * np.arange(len(histories))[:, None] + rows
        clearest = np.argsort(-found["score"][picked], axis=1, kind="stable")
        picked = np.take_along_axis(picked, clearest, axis=1).ravel()
        which = np.repeat(np.arange(len(histories)), len(rows))
        table: Table = {
            "rank": before + 1 + which,
            "history": _taken(found["history"], picked),
            "source": _taken(sources, which),
            "object_score": object_scores[which],
        }
        return table | {name: _taken(found[name], picked) for name in found if name != "history"}


def _taken(values: Any, at: NDArray[np.int64]) -> Any:
    if isinstance(values, np.ndarray):
        return values[at]
    return [values[k] for k in at.tolist()]
