"""What is asked of some histories, wherever their rows are read: here, or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.method.locate import locate_many
from dejacue.method.view import Readout
from dejacue.records import History, Timeline, Vocabulary


class Chunk(NamedTuple):
    """The answers in histories that come after ``before`` others in the ranking."""

    timeline: Timeline
    sources: Sequence[str | None]
    object_scores: NDArray[np.float64]
    before: int


class Question(NamedTuple):
    vocabulary: Vocabulary
    readout: str | Readout

    def answer(
        self,
        histories: Sequence[History],
        sources: Sequence[str | None],
        object_scores: NDArray[np.float64],
        before: int,
    ) -> Chunk:
        """Return the answers in these histories, which come after ``before`` others."""
        timelines = locate_many(histories, self.vocabulary, readout=self.readout)
        return Chunk(timelines.joined(), sources, object_scores, before)
