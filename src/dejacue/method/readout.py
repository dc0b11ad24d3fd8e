"""Readout, the base of all ways from evidence to windows, and View, what it works on: one history
as it is seen through a vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted
from dejacue.method import calibration as plain
from dejacue.method import durations as d
from dejacue.method.coordinates import Coordinates, query_directions
from dejacue.method.filling import Filling, filling_of
from dejacue.method.kernel import Engine
from dejacue.records import Evidence, History, Note, Vocabulary
from dejacue.records.arrays import Floats, Ints

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:
        """As in functools, which takes a lock before Python 3.12: 1 µs of the 15 of a history."""

        def __init__(self, function: Any) -> None:
            self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


class Windows(NamedTuple):
    """What is found in one history, in columns: first and last positions of observed frames.

    state       number of the state of each window; None: there is one for each description
    confirmed   whether a person has named a frame of it
    places      the first and the last among all frames of the file, of a history with a filling
    """

    start: Ints
    end: Ints
    score: Floats
    state: Ints | None = None
    confirmed: Ints | None = None
    places: tuple[Ints, Ints] | None = None


class View:
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
        self.readout, self.history, self.vocabulary = readout, history, vocabulary
        self.coordinates, self.engine = coordinates, engine
        self.directions = query_directions(vocabulary, coordinates, readout.query_pooling)

    @property
    def queries(self) -> NDArray[np.float32]:
        """Return the directions (Q, d) that frames are compared with."""
        return self.directions.queries

    @cached_property
    def filling(self) -> Filling | None:
        """Return what is filled in between its frames; None where nothing is."""
        return filling_of(self.history) if self.history.sampled else None

    @cached_property
    def centre(self) -> NDArray[np.float32] | None:
        """Return (d,) the trajectory centre, where the coordinates have one."""
        return self.engine.centre(self.history) if self.coordinates.centred_frames else None

    @cached_property
    def cosines(self) -> NDArray[np.float32]:
        """Return the cosines of frames with queries, (Q, N)."""
        return self.engine.cosines(self.history, self.queries, self.centre)

    @cached_property
    def windows(self) -> Windows:
        """Return what is found."""
        return self.readout.find(self)

    @cached_property
    def evidence(self) -> Evidence:
        """Return what the readout looks at: here, the evidence of the published method."""
        smoothing = getattr(self.readout, "smoothing", PUBLISHED_WIDTH)
        runs, frames = self.history.run_offsets, self.history.frames
        responses, centre, scale = self.engine.respond(self.cosines, runs, smoothing)
        return Evidence(self.cosines, centre, scale, responses, frames)

    def confidences(self) -> Floats | None:
        """Return how far to trust each window, 0 … 1; None where the readout does not tell."""
        return None

    def fact_notes(self) -> tuple[Note, ...]:
        """Return what a reader should know of the part that named frames have in its answer."""
        return ()

    def hints(self) -> tuple[Note, ...]:
        """Return what else may be worth a look, given what was found."""
        return ()


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
    def find(self, view: View) -> Windows:
        """Return the window of each description, or all occurrences of states."""

    def find_each(self, views: Sequence[View]) -> None:
        """Find the windows of several histories: together, where the kernel can."""
        for view in views:
            view.windows = self.find(view)

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
