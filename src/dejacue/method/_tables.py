"""What the engines take and give: lists with one entry per history, and columns of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.records import History

Float32Rows = NDArray[np.float32]
Rows = NDArray[np.float64]
Offsets = NDArray[np.int64]
Windows = tuple[Offsets, Offsets, Rows]  # first and last positions, scores
Responses = tuple[list[Rows], Rows, Rows]  # a table per history; centre and scale of every answer

BAD_VALUES = {  # by the kernel's codes
    2: "features of history {id} are not finite at row {row}; they were changed after the "
    "history was created",
    3: "a cosine of history {id} is not finite at observed frame {row}",
    4: "responses contain a non-finite value at position {row}",
}


@dataclass(eq=False, slots=True)
class Ragged:
    """Histories and their queries, laid out for one call.

    queries   one (R, d) table of directions per history, or a single one for all
    runs      per history, the positions at which runs (or stretches) begin, and N
    labels    per history, the row of ``queries`` that each answer is of; None: one answer a row
    weights   state evidence: per history, weights of the smoothing by distance in frames
    """

    histories: Sequence[History]
    queries: list[NDArray[np.float32]]
    runs: list[NDArray[np.int64]]
    labels: list[NDArray[np.int64]] | None = None
    weights: list[NDArray[np.float64]] | None = None

    @classmethod
    def of(cls, histories: Sequence[History], queries: list[NDArray[np.float32]]) -> Ragged:
        """For a scan: observed runs, one answer per query."""
        return cls(histories, queries, [history.run_offsets for history in histories])

    @property
    def answers(self) -> int:
        """Rows of the outputs."""
        given: Sequence[NDArray[Any]] = self.queries if self.labels is None else self.labels
        times = len(self.histories) if len(given) == 1 else 1
        return times * sum(map(len, given))

    def entry(self, column: str, h: int) -> Any:
        """What a list holds for one history."""
        given = getattr(self, column)
        return given[0 if len(given) == 1 else h]

    def empty(self, dtype: Any) -> list[NDArray[Any]]:
        """One (R, N) table per history."""
        return [
            np.empty((len(self.entry("queries", h)), len(history)), dtype)
            for h, history in enumerate(self.histories)
        ]


@dataclass(eq=False, slots=True)
class Schedule:
    """Lengths to try, ascending, and what sums are divided by: one array each per history, or a
    single one for all."""

    lengths: list[NDArray[np.int64]]
    norms: list[NDArray[np.float64]]


@dataclass(eq=False, slots=True)
class Labelling:
    """How a path through the states may go, per history.

    states    (K,) the state of each node
    first     (K,) uint8: which nodes may come first
    follows   (K, K) uint8: from row to column
    costs     (H,) of a switch
    stay      least number of frames of a visit
    rounds    of labelling, in which the levels of states are found
    """

    states: list[NDArray[np.int64]]
    first: list[NDArray[np.uint8]]
    follows: list[NDArray[np.uint8]]
    costs: NDArray[np.float64]
    stay: int
    rounds: int


@dataclass(eq=False, slots=True)
class EvidenceTables:
    """Tables that an engine fills on the way, one per history: what a reading shows.

    paths    (N,) a labelling: the state of each observed frame
    levels   (R,) what the labelling measured responses from
    """

    cosines: list[NDArray[np.float32]]
    responses: list[NDArray[np.float64]]
    paths: list[NDArray[np.int64]]
    levels: list[NDArray[np.float64]]

    @classmethod
    def of(cls, batch: Ragged) -> EvidenceTables:
        cosines = batch.empty(np.float32)
        return cls(
            cosines,
            batch.empty(np.float64),
            [np.empty(own.shape[1], np.int64) for own in cosines],
            [np.empty(len(own)) for own in cosines],
        )


@dataclass(eq=False, slots=True)
class Answers:
    """One row per answer: windows as positions among the observed frames and as frame numbers."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    score: NDArray[np.float64]
    centre: NDArray[np.float64] | None = None  # the calibration, where the readout has made one
    scale: NDArray[np.float64] | None = None
    absent: NDArray[np.bool_] | None = None  # where the readout itself says that it does not occur

    @classmethod
    def empty(cls, rows: int, absent: bool = False) -> Answers:
        positions, numbers = np.empty((4, rows), np.int64), np.empty((3, rows))
        return cls(*positions, *numbers, np.zeros(rows, bool) if absent else None)

    @classmethod
    def at(
        cls,
        frames: NDArray[np.int64],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        score: NDArray[np.float64],
        **more: Any,
    ) -> Answers:
        """From positions among these frames."""
        return cls(start, end, frames[start], frames[end], score, **more)

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """One after the other; they come from one readout."""
        if len(parts) == 1:
            return parts[0]

        def column(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            if all(own is None for own in values):
                return None
            if name == "absent":  # a part that says nothing of it has no such answer
                values = [
                    np.zeros(len(part.start), bool) if own is None else own
                    for part, own in zip(parts, values, strict=True)
                ]
            return np.concatenate(values)

        return cls(*map(column, cls.__slots__))
