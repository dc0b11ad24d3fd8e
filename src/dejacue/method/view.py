"""What a readout works on (a View) and what it gives back (a Selection)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import durations as d
from dejacue.method import evidence as plain
from dejacue.method.coordinates import Directions
from dejacue.method.kernel import Engine, Ragged
from dejacue.records import History, Vocabulary

T = TypeVar("T")


class View:
    """One history seen through one set of query directions: what a readout may ask for."""

    def __init__(
        self, history: History, directions: Directions, vocabulary: Vocabulary,
        centred_frames: bool, smoothing: int, engine: Engine,
    ) -> None:  # fmt: skip
        self.history, self.directions, self.labels = history, directions, vocabulary.labels
        self.state_names = tuple(vocabulary.states)
        self.centred_frames, self.smoothing, self.engine = centred_frames, smoothing, engine
        self.batch = Ragged.of([history], [directions.queries])
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What ``compute`` gives, kept under the key as long as the view is."""
        if key not in self._known:
            self._known[key] = compute()
        known: T = self._known[key]
        return known

    @cached_property
    def centres(self) -> NDArray[np.float32] | None:
        return self.engine.centres(self.batch) if self.centred_frames else None

    @cached_property
    def cosines(self) -> NDArray[np.float32]:
        return self.engine.cosines(self.batch, self.centres)[0]

    @cached_property
    def responded(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Responses (Q, N), centre and scale."""
        responses, centre, scale = self.engine.respond(self.batch, [self.cosines], self.smoothing)
        return responses[0], centre, scale

    @cached_property
    def unit_frames(self) -> NDArray[np.float64]:
        """(N, d): frames at unit length in the view's coordinates."""
        centre = None if self.centres is None else self.centres[0]
        rows, norms = plain.measured_from(self.history.features, centre)
        return np.asarray(rows / norms[:, None])


@dataclass(frozen=True, eq=False)
class Selection:
    """One window per description; level "state" when a state's descriptions share it."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    score: NDArray[np.float64]
    centre: NDArray[np.float64] | None = None  # the calibration, where the readout made it anyway
    scale: NDArray[np.float64] | None = None
    level: str = "description"
    absent: NDArray[np.bool_] | None = None  # where the readout itself says that it does not occur


class Readout(Protocol):
    name: ClassVar[str]

    def read(self, view: View) -> Selection: ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=256)
def settings_of(readout: Readout) -> dict[str, Any]:
    """The readout as plain values, for JSON."""
    fields = asdict(readout)  # type: ignore[call-overload]
    return {"name": readout.name, **fields}


@dataclass(frozen=True)
class Scheduled:
    """A readout that tries windows of given durations: a schedule's name, a Grid, or lengths."""

    durations: d.Durations = "published"

    def __post_init__(self) -> None:
        resolved = d.as_durations(self.durations)
        if not isinstance(self.durations, str):  # a name stays a name, in the settings too
            object.__setattr__(self, "durations", resolved)

    def lengths(self, history: History) -> tuple[int, ...]:
        """The lengths that fit into some observed run."""
        return self.fitting(history, history.longest_run)

    def fitting(self, history: History, longest: int) -> tuple[int, ...]:
        lengths = d.fitting(d.as_durations(self.durations), longest)
        if not lengths:
            raise InputError(
                f"history {history.id}: no duration fits, the longest observed stretch has "
                f"{longest} frame{'s' if longest > 1 else ''}; add shorter durations"
            )
        return lengths


def check_width(width: int) -> int:
    if not isinstance(width, int | np.integer) or not 1 <= width < 2**31 or width % 2 == 0:
        raise InputError(f"smoothing width {width} must be an odd number of frames: 1, 3, 5, …")
    return int(width)
