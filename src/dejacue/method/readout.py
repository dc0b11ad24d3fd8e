"""What a readout works on (a Batch, or a View of one history) and what every readout is.

find(batch)   windows of many histories as columns, in one kernel call where there is one
timeline(view) everything it knows of one history, computed once, with its evidence
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import durations as d
from dejacue.method import evidence as plain
from dejacue.method._timelines import view_timeline
from dejacue.method.coordinates import Coordinates, Directions, query_directions
from dejacue.method.kernel import Answers, Engine, Ragged
from dejacue.method.scan import ScoredWindow
from dejacue.records import Evidence, History, Timeline, Vocabulary
from dejacue.records.arrays import Floats, Ints

T = TypeVar("T")


class Batch:
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
        self.directions = [
            query_directions(vocabulary, coordinates, pooling) for vocabulary in vocabularies
        ]

    @property
    def distinct(self) -> slice:
        """Which vocabularies the engine needs: one, where all histories share it, or all."""
        shared = all(own is self.directions[0] for own in self.directions)
        return slice(1) if shared else slice(None)

    def tables(self) -> Ragged:
        """Lay out a scan: every description in every observed run."""
        return Ragged.of(self.histories, [own.queries for own in self.directions[self.distinct]])

    def centres(self) -> NDArray[np.float32] | None:
        """Return (H, d) trajectory centres, where the coordinates have them."""
        if not self.coordinates.centred_frames:
            return None
        return self.engine.centres(self.tables())

    def views(self) -> list[View]:
        pairs = zip(self.histories, self.vocabularies, strict=True)
        return [View(h, v, self.coordinates, self.pooling, self.engine) for h, v in pairs]


class View(Batch):
    """One history, and what has been computed of it: nothing is computed twice."""

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
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives, kept under the key as long as the view is."""
        known: T | None = self._known.get(key)
        if known is None:
            known = self._known[key] = compute()
        return known

    def put(self, key: Hashable, known: Any) -> None:
        """Keep something that was computed elsewhere, in place of what ``once`` would."""
        self._known[key] = known

    @property
    def query_directions(self) -> Directions:
        return self.directions[0]

    @cached_property
    def centre_rows(self) -> NDArray[np.float32] | None:
        return self.centres()

    @cached_property
    def cosines(self) -> NDArray[np.float32]:
        """(Q, N)"""
        return self.engine.cosines(self.tables(), self.centre_rows)[0]

    def respond(self, smoothing: int) -> tuple[Floats, Floats, Floats]:
        """Return published responses (Q, N), centre and scale."""

        def compute() -> tuple[Floats, Floats, Floats]:
            found = self.engine.respond(self.tables(), [self.cosines], smoothing)
            return found[0][0], found[1], found[2]

        return self.once(("respond", smoothing), compute)

    @cached_property
    def unit_frames(self) -> Floats:
        """(N, d): frames at unit length in the view's coordinates."""
        centre = None if self.centre_rows is None else self.centre_rows[0]
        rows, norms = plain.measured_from(self.history.features, centre)
        return np.asarray(rows / norms[:, None])


@dataclass(frozen=True)
class Readout(ABC):
    """From evidence to windows. A readout is a small frozen dataclass; its fields are its settings.

    name                 as it is asked for
    smoothing_in         its setting that smooths, where that is not called ``smoothing``
    gives_alternatives   whether it has more than one window per description
    lists_occurrences    whether further windows are occurrences, not alternatives
    usual_windows        per description, when nobody says how many …
    usual_share          … and the share of the best score that further ones must reach then
    takes_examples       whether states may be shown by examples
    level                "state" where all descriptions of a state share a window
    """

    name: ClassVar[str]
    smoothing_in: ClassVar[str] = ""
    gives_alternatives: ClassVar[bool] = False
    lists_occurrences: ClassVar[bool] = False
    takes_examples: ClassVar[bool] = False
    usual_windows: ClassVar[int] = 1
    usual_share: ClassVar[float | None] = None
    scale_floor: ClassVar[float] = plain.SCALE_FLOOR

    @property
    def query_pooling(self) -> float:
        """Share of its state's mean in each query; see ``query_directions``."""
        return 0.0

    @property
    def level(self) -> str:
        return "description"

    def settings(self) -> dict[str, Any]:
        """Return its fields as plain values: what a timeline says of how it was made."""
        return asdict(self)

    def timeline(
        self, view: View, *, top: int | None = None, diagnostics: bool = False, hints: bool = False
    ) -> Timeline:
        """Return everything it knows of one history; top None: as many windows as suit it."""
        return view_timeline(self, view, top, diagnostics, hints)

    @abstractmethod
    def find_one(self, view: View) -> Answers:
        """Return the window of each description, from what the view has computed."""

    def find(self, batch: Batch) -> Answers:
        """Return the windows of a whole batch; readouts with a kernel make it one call."""
        return Answers.joined([self.find_one(view) for view in batch.views()])

    def evidence(self, view: View) -> Evidence:
        """Return what it looks at: here, the evidence of the published method."""
        responses, centre, scale = view.respond(getattr(self, "smoothing", PUBLISHED_WIDTH))
        return Evidence(view.cosines, centre, scale, responses, view.history.frames)

    def bounds(self, history: History) -> Ints:
        """Return positions that no window crosses."""
        return history.run_offsets

    def alternatives(
        self, view: View, found: Answers, more: int, least: Floats | None = None
    ) -> Sequence[Sequence[ScoredWindow]]:
        """Return further windows of each description, none overlapping, best first.

        least   score of each description below which none is wanted; None: all are
        """
        return list(repeat((), len(found.start)))

    def notes(self, history: History) -> tuple[str, ...]:
        """Return what a reader should know of its answer for this history."""
        return ()

    def hints(
        self, view: View, found: Answers, further: Sequence[Sequence[ScoredWindow]]
    ) -> tuple[str, ...]:
        """Return what else may be worth a look, given the windows of each description."""
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
                f"{longest} frame{'s' if longest > 1 else ''}; add shorter durations"
            )
        return lengths

    def notes(self, history: History) -> tuple[str, ...]:
        if not isinstance(self.durations, str):
            return ()  # lengths that the user chose need no remark
        resolved, longest = d.SCHEDULES[self.durations], self.longest(history)
        if isinstance(resolved, d.Grid) or longest <= resolved[-1]:
            return ()
        return (
            f"the longest run has {longest} frames, but no window is longer than {resolved[-1]}; "
            'durations "generated" try windows up to its whole length',
        )


def check_width(width: int) -> int:
    if not isinstance(width, int | np.integer) or not 1 <= width < 2**31 or width % 2 == 0:
        raise InputError(f"smoothing width {width} must be an odd number of frames: 1, 3, 5, …")
    return int(width)
