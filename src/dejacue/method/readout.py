"""Readout, the base of all ways from evidence to windows, and what it works on: a HistoryBatch of
histories, or the View of one.

find(batch)      windows of many histories as columns, in one kernel call where there is one
timeline(view)   everything it knows of one history, computed once, with its evidence
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted
from dejacue.method import calibration as plain
from dejacue.method import durations as d
from dejacue.method._timelines import view_timeline
from dejacue.method.coordinates import Coordinates, Directions, query_directions
from dejacue.method.filling import Filling, filling_of
from dejacue.method.kernel import Answers, Engine, Ragged
from dejacue.records import Evidence, History, Note, Timeline, Vocabulary
from dejacue.records.arrays import Derived, Floats, Ints


class HistoryBatch:
    """Histories, each seen through the query directions of its vocabulary."""

    def __init__(
        self,
        histories: Sequence[History],
        vocabularies: Sequence[Vocabulary],
        coordinates: Coordinates,
        pooling: float,
        engine: Engine,
    ) -> None:
        self.histories, self.vocabularies = histories, vocabularies
        self.coordinates, self.pooling, self.engine = coordinates, pooling, engine
        self._views: list[View] | None = None
        self.directions = [
            query_directions(vocabulary, coordinates, pooling) for vocabulary in vocabularies
        ]

    @cached_property
    def fillings(self) -> list[Filling | None]:
        """Return what is filled in between the frames of each history; None where nothing is."""
        return [filling_of(history) for history in self.histories]

    @property
    def distinct(self) -> slice:
        """Select the vocabularies the engine needs: one where all histories share it, else all."""
        shared = all(table is self.directions[0] for table in self.directions)
        return slice(1) if shared else slice(None)

    def tables(self) -> Ragged:
        """Lay out a scan: every description in every observed run."""
        return Ragged.of(self.histories, [d.queries for d in self.directions[self.distinct]])

    def centres(self) -> NDArray[np.float32] | None:
        """Return (H, d) trajectory centres, where the coordinates have them."""
        if not self.coordinates.centred_frames:
            return None
        return self.engine.centres(self.tables())

    def views(self) -> list[View]:
        """Return a view of each history; where frames are known, notes use what it has computed."""
        if self._views is not None:
            return self._views
        pairs = zip(self.histories, self.vocabularies, strict=True)
        views = [View(h, v, self.coordinates, self.pooling, self.engine) for h, v in pairs]
        if any(vocabulary.frame_examples for vocabulary in self.vocabularies):
            self._views = views
        return views


class View(Derived, HistoryBatch):
    """A view of one history, which caches what is computed from it."""

    def __init__(
        self,
        history: History,
        vocabulary: Vocabulary,
        coordinates: Coordinates,
        pooling: float,
        engine: Engine,
    ) -> None:
        super().__init__([history], [vocabulary], coordinates, pooling, engine)
        self.history, self.vocabulary = history, vocabulary
        self._views = [self]

    @property
    def query_directions(self) -> Directions:
        return self.directions[0]

    @cached_property
    def centre_rows(self) -> NDArray[np.float32] | None:
        return self.centres()

    @cached_property
    def cosines(self) -> NDArray[np.float32]:
        """Return the cosines of frames with queries, (Q, N)."""
        return self.engine.cosines(self.tables(), self.centre_rows)[0]

    def respond(self, smoothing: int) -> tuple[Floats, Floats, Floats]:
        """Return published responses (Q, N), centre and scale."""

        def compute() -> tuple[Floats, Floats, Floats]:
            tables = self.tables()
            responses, centre, scale = self.engine.respond(tables, [self.cosines], smoothing)
            return responses[0], centre, scale

        return self.once(("respond", smoothing), compute)


@dataclass(frozen=True)
class Readout(ABC):
    """A readout turns evidence into windows; the fields of the frozen dataclass are its settings.

    name                 by which it is chosen
    smoothing_in         its setting that smooths, where that is not called ``smoothing``
    takes_examples       whether states may be shown by examples
    """

    name: ClassVar[str]
    smoothing_in: ClassVar[str] = ""
    takes_examples: ClassVar[bool] = False
    scale_floor: ClassVar[float] = plain.SCALE_FLOOR

    @property
    def query_pooling(self) -> float:
        """Return the share of its state's mean in each query; see ``query_directions``."""
        return 0.0

    def settings(self) -> dict[str, Any]:
        """Return its fields as plain values: what a timeline says of how it was made."""
        return asdict(self)

    def timeline(self, view: View, *, diagnostics: bool = False, hints: bool = False) -> Timeline:
        """Return everything it knows of one history."""
        return view_timeline(self, view, diagnostics, hints)

    @abstractmethod
    def find_one(self, view: View) -> Answers:
        """Return the window of each description, or all occurrences of states, from what the view
        has computed."""

    def find(self, batch: HistoryBatch) -> Answers:
        """Return the windows of a whole batch; readouts with a kernel make it one call."""
        return Answers.joined([self.find_one(view) for view in batch.views()])

    def evidence(self, view: View) -> Evidence:
        """Return what it looks at: here, the evidence of the published method."""
        responses, centre, scale = view.respond(getattr(self, "smoothing", PUBLISHED_WIDTH))
        return Evidence(view.cosines, centre, scale, responses, view.history.frames)

    def bounds(self, history: History) -> Ints:
        """Return positions that no window crosses."""
        return history.run_offsets

    def confidences(self, view: View, answers: Answers) -> Floats | None:
        """Return how far to trust each answer, 0 … 1; None where the readout does not tell."""
        return None

    def notes(self, history: History) -> tuple[Note, ...]:
        """Return what a reader should know of its answer for this history."""
        return ()

    def fact_notes(self, view: View) -> tuple[Note, ...]:
        """Return what a reader should know of the part that named frames have in its answer."""
        return ()

    def hints(self, view: View, answers: Answers) -> tuple[Note, ...]:
        """Return what else may be worth a look, given what was found."""
        return ()


PUBLISHED_WIDTH = 3


@dataclass(frozen=True)
class ScheduledReadout(Readout):
    """A readout that tries windows of given durations: a schedule's name, a Grid, or lengths."""

    durations: d.Durations = "published"

    def __post_init__(self) -> None:
        resolved = d.as_durations(self.durations)
        if not isinstance(self.durations, str):  # a name stays a name, in the settings too
            object.__setattr__(self, "durations", resolved)

    def longest(self, history: History) -> int:
        """Return frames of the longest stretch that a window may fill."""
        return history.longest_run

    def lengths(self, history: History) -> tuple[int, ...]:
        """Return the lengths that fit."""
        longest = self.longest(history)
        lengths = d.fitting(d.as_durations(self.durations), longest)
        if not lengths:
            raise InputError(
                f"history {history.id}: no duration fits; the longest observed stretch has "
                f"{counted(longest, 'frame')}; add shorter durations"
            )
        return lengths

    def notes(self, history: History) -> tuple[Note, ...]:
        if not isinstance(self.durations, str):
            return ()  # lengths that the user chose need no remark
        resolved, longest = d.SCHEDULES[self.durations], self.longest(history)
        if isinstance(resolved, d.Grid) or longest <= resolved[-1]:
            return ()
        return (
            Note(
                f"the longest run has {longest} frames, but no window is longer than "
                f'{resolved[-1]}; durations "generated" try windows up to its whole length',
                "doubtful",
            ),
        )


def check_width(width: int) -> int:
    """Return the width of smoothing as a plain number; refuse one that is not odd."""
    if not isinstance(width, int | np.integer) or not 1 <= width < 2**31 or width % 2 == 0:
        raise InputError(f"smoothing width {width} must be an odd number of frames: 1, 3, 5, …")
    return int(width)
