"""Readout, the base of all ways from evidence to windows, and what it works on: a HistoryBatch of
histories, or the View of one.

find(batch)       windows of many histories as columns, in one kernel call where there is one
view.timeline()   everything it knows of one history, computed once, with its evidence
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
from dejacue.records.arrays import Floats, Ints


class HistoryBatch:
    """Histories, each seen through the query directions of its vocabulary by one readout."""

    def __init__(
        self,
        readout: Readout,
        histories: Sequence[History],
        vocabularies: Sequence[Vocabulary],
        coordinates: Coordinates,
        engine: Engine,
    ) -> None:
        self.readout, self.histories, self.vocabularies = readout, histories, vocabularies
        self.coordinates, self.engine = coordinates, engine
        pooling = readout.query_pooling
        self.directions = [
            query_directions(vocabulary, coordinates, pooling) for vocabulary in vocabularies
        ]

    @cached_property
    def views(self) -> Sequence[View]:
        """Return a view of each history."""
        pairs = zip(self.histories, self.vocabularies, strict=True)
        return [self.readout.view(h, v, self.coordinates, self.engine) for h, v in pairs]

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


class View(HistoryBatch):
    """One history as a readout sees it; each of its properties is computed once, when it is asked
    for. A readout that looks at more than the published evidence has a view of its own."""

    def __init__(
        self,
        readout: Readout,
        history: History,
        vocabulary: Vocabulary,
        coordinates: Coordinates,
        engine: Engine,
    ) -> None:
        super().__init__(readout, [history], [vocabulary], coordinates, engine)
        self.history, self.vocabulary = history, vocabulary

    @property
    def views(self) -> Sequence[View]:
        return [self]

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

    @cached_property
    def answers(self) -> Answers:
        """Return what is found."""
        return self.readout.find_one(self)

    @cached_property
    def evidence(self) -> Evidence:
        """Return what the readout looks at: here, the evidence of the published method."""
        smoothing = getattr(self.readout, "smoothing", PUBLISHED_WIDTH)
        responses, centre, scale = self.engine.respond(self.tables(), [self.cosines], smoothing)
        return Evidence(self.cosines, centre, scale, responses[0], self.history.frames)

    def confidences(self) -> Floats | None:
        """Return how far to trust each answer, 0 … 1; None where the readout does not tell."""
        return None

    def fact_notes(self) -> tuple[Note, ...]:
        """Return what a reader should know of the part that named frames have in its answer."""
        return ()

    def hints(self) -> tuple[Note, ...]:
        """Return what else may be worth a look, given what was found."""
        return ()

    def timeline(self, *, diagnostics: bool = False, hints: bool = False) -> Timeline:
        """Return everything that the readout says of the history."""
        return view_timeline(self, diagnostics, hints)


@dataclass(frozen=True)
class Readout(ABC):
    """A readout turns evidence into windows; the fields of the frozen dataclass are its settings.

    name                 by which it is chosen
    smoothing_in         its setting that smooths, where that is not called ``smoothing``
    takes_examples       whether states may be shown by examples
    view_type            how it sees one history
    """

    name: ClassVar[str]
    smoothing_in: ClassVar[str] = ""
    takes_examples: ClassVar[bool] = False
    view_type: ClassVar[type[View]] = View
    scale_floor: ClassVar[float] = plain.SCALE_FLOOR

    @property
    def query_pooling(self) -> float:
        """Return the share of its state's mean in each query; see ``query_directions``."""
        return 0.0

    def settings(self) -> dict[str, Any]:
        """Return its fields as plain values: what a timeline says of how it was made."""
        return asdict(self)

    def view(
        self,
        history: History,
        vocabulary: Vocabulary,
        coordinates: Coordinates,
        engine: Engine,
    ) -> View:
        """Return one history as it sees it."""
        return self.view_type(self, history, vocabulary, coordinates, engine)

    @abstractmethod
    def find_one(self, view: View) -> Answers:
        """Return the window of each description, or all occurrences of states, from what the view
        has computed."""

    def find(self, batch: HistoryBatch) -> Answers:
        """Return the windows of a whole batch; readouts with a kernel make it one call."""
        return Answers.joined([view.answers for view in batch.views])

    def bounds(self, history: History) -> Ints:
        """Return positions that no window crosses."""
        return history.run_offsets

    def notes(self, history: History) -> tuple[Note, ...]:
        """Return what a reader should know of its answer for this history."""
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
