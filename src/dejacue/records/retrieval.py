"""What comes out: Evidence, and the Moments of a Retrieval."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.records._dataframe import dataframe
from dejacue.records._html import retrieval_html
from dejacue.records.arrays import frozen
from dejacue.records.history import History
from dejacue.records.window import Window

RETRIEVAL_SCHEMA = "dejacue.retrieval/1"
_BETWEEN_NOTES = " | "
# in the row of a moment, not in those of its alternatives
_OF_THE_FIRST = ("start_s", "end_s", "source_start", "source_end", "p_value", "absent")


def read_only(value: Any) -> Any:
    """Nested mappings that nobody can write to, so that many records may share them."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: read_only(own) for key, own in value.items()})
    return value


def plain(value: Any) -> Any:
    """Nested mappings as dicts of their own."""
    if isinstance(value, Mapping):
        return {key: plain(own) for key, own in value.items()}
    return copy.deepcopy(value)


def rows_of(history: History, window: Window) -> tuple[int, int]:
    """The rows of the first and the last frame of a window."""
    first, last = np.searchsorted(history.frames, tuple(window)).tolist()
    if last >= len(history) or tuple(history.frames[[first, last]].tolist()) != tuple(window):
        raise InputError(
            f'history "{history.id}" does not observe both ends of the window {window}; give the '
            "history that the retrieval was made from"
        )
    return first, last


def to_source(history: History, window: Window) -> Window:
    """The frames of the file at both ends of a window."""
    if history.source_frames is None:
        return window
    first, last = rows_of(history, window)
    return Window(int(history.source_frames[first]), int(history.source_frames[last]))


def from_source(history: History, window: Window) -> Window | None:
    """The observed frames of a history that lie in a window of the file; None where none does."""
    if not history.sampled or history.source_frames is None:
        return window
    first = int(np.searchsorted(history.source_frames, window.start))
    last = int(np.searchsorted(history.source_frames, window.end, side="right")) - 1
    if first > last:
        return None
    return Window(int(history.frames[first]), int(history.frames[last]))


@dataclass(frozen=True, eq=False)
class Evidence:
    """How strongly each frame speaks for each description, step by step.

    cosines    (Q, N) float32: frame · query in the chosen coordinates
    centre, scale   (Q,) median and robust scale of each row of cosines
    responses  (Q, N) float64: calibrated and smoothed, what the readout sums
    frames     (N,) frame indices of the columns
    zero       what a response of 0 is: the "median" or the "mean" frame; with examples the "half":
               above it, a frame is in the state; "odds": of log-odds, as likely as not
    """

    cosines: NDArray[np.float32]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    responses: NDArray[np.float64]
    frames: NDArray[np.int64]
    zero: str = "median"

    def __post_init__(self) -> None:
        for name in ("cosines", "centre", "scale", "responses", "frames"):
            object.__setattr__(self, name, frozen(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Why a window was chosen and how far to trust it."""

    residual_norm: float  # length of description − origin before normalisation
    fallback: bool  # the residual vanished and the plain description was used
    centre: float  # median of the cosines; contrast, joint: mean of the smoothed ones
    scale: float  # robust scale they were divided by; contrast, joint: standard deviation
    floor_active: bool  # the scale is its floor (1e-3; 1e-4): the response hardly varies
    run: Window  # the observed run the window lies in (bridged: all that it may cross)
    touches_run_edge: bool  # the state may go on where the object is not observed


@dataclass(frozen=True, slots=True)
class Alternative:
    """A further window of a moment, as the moment has its own; unpacks as (window, score)."""

    window: Window
    score: float
    times_s: tuple[float, float] | None = None
    source: Window | None = None

    def __iter__(self) -> Iterator[Any]:
        yield from (self.window, self.score)

    def to_dict(self) -> dict[str, Any]:
        row = {"start": self.window.start, "end": self.window.end, "score": self.score}
        return row | _in_the_file(self)


@dataclass(frozen=True, slots=True)
class Moment:
    """One answer: the window in which a description holds.

    level is "state" when the readout decides per state and all its descriptions share the window.
    alternatives are further windows that do not overlap this one or each other, best first; plain
    pairs (window, score) are taken as well.
    source is the window in frames of the file, where only some of them were taken (sampled): the
    first and the last one taken.
    p_value is the share of unrelated states that fit as well; absent: it is too high, or a joint
    labelling has no place for the state, and the window is only the best there is.
    """

    state: str
    description: str
    window: Window
    score: float
    level: str = "description"
    times_s: tuple[float, float] | None = None
    alternatives: tuple[Alternative, ...] = ()
    diagnostics: Diagnostics | None = None
    source: Window | None = None
    p_value: float | None = None
    absent: bool = False

    def __post_init__(self) -> None:
        if self.alternatives:
            given = (
                a if isinstance(a, Alternative) else Alternative(*a) for a in self.alternatives
            )
            object.__setattr__(self, "alternatives", tuple(given))

    @property
    def in_source(self) -> Window:
        """The window as references count it: in frames of the file."""
        return self.window if self.source is None else self.source

    @property
    def windows(self) -> tuple[Alternative, ...]:
        """Its window and the alternatives, best first."""
        first = Alternative(self.window, self.score, self.times_s, self.source)
        return (first, *self.alternatives)

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "state": self.state,
            "description": self.description,
            "start": self.window.start,
            "end": self.window.end,
            "score": self.score,
            "level": self.level,
        }
        row |= _in_the_file(self)
        if self.p_value is not None:
            row["p_value"] = self.p_value
        if self.p_value is not None or self.absent:
            row["absent"] = self.absent
        if self.alternatives:
            row["alternatives"] = [other.to_dict() for other in self.alternatives]
        if self.diagnostics is not None:
            row["diagnostics"] = asdict(self.diagnostics)
        return row


def _in_the_file(own: Moment | Alternative) -> dict[str, Any]:
    """Frames of the file and seconds, where they are known."""
    found: dict[str, Any] = {}
    if own.source is not None:
        found["source_start"], found["source_end"] = own.source
    if own.times_s is not None:
        found["start_s"], found["end_s"] = own.times_s
    return found


def joined_notes(notes: Iterable[str]) -> str:
    """In one cell of a table."""
    return _BETWEEN_NOTES.join(notes)


@dataclass(frozen=True, eq=False, repr=False)
class Retrieval:
    """All moments of one history, one per description, in the vocabulary's order.

    ``retrieval["filled"]`` gives the moments of a state, ``retrieval["cup filled with espresso"]``
    the moment of a description, ``retrieval[0]`` the first moment. If a state and a description
    share a name the state wins; ``description()`` is unambiguous.
    """

    moments: Sequence[Moment]
    settings: Mapping[str, Any]
    history_id: str = "unnamed"
    encoder: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def lists_occurrences(self) -> bool:
        """Whether further windows of a moment are occurrences (and), not alternatives (or)."""
        return self.settings.get("further_windows") == "occurrences"

    def windows_of(self, moment: Moment) -> tuple[Alternative, ...]:
        """What is claimed for a moment: nothing if absent, all occurrences where they are listed,
        else its window."""
        if moment.absent:
            return ()
        return moment.windows if self.lists_occurrences else moment.windows[:1]

    def __iter__(self) -> Iterator[Moment]:
        return iter(self.moments)

    def __len__(self) -> int:
        return len(self.moments)

    def __contains__(self, key: object) -> bool:
        """Whether a moment, or a state or description by name, is in it."""
        names = (name for m in self.moments for name in (m.state, m.description))
        return key in (names if isinstance(key, str) else self.moments)

    def __getitem__(self, key: int | str) -> Any:
        if not isinstance(key, str):
            return self.moments[key]
        return self.state(key) or self.description(key)

    def state(self, name: str) -> tuple[Moment, ...]:
        """The moments of one state; empty when there is no such state."""
        return tuple(moment for moment in self.moments if moment.state == name)

    def description(self, text: str) -> Moment:
        for moment in self.moments:
            if moment.description == text:
                return moment
        names = dict.fromkeys(n for m in self.moments for n in (m.state, m.description))
        raise KeyError(str(unknown("state or description", text, names)))

    def answers(self) -> list[tuple[Moment, tuple[str, ...]]]:
        """Each answer once, with the descriptions that share it: those of a state where the readout
        decides per state, else one."""
        found: dict[Any, tuple[Moment, tuple[str, ...]]] = {}
        for at, moment in enumerate(self.moments):
            key: Any = (moment.state,) if moment.level == "state" else at
            first, texts = found.get(key, (moment, ()))
            found[key] = first, (*texts, moment.description)
        return list(found.values())

    @property
    def found(self) -> Retrieval:
        """The same without the moments that are marked absent."""
        kept = tuple(moment for moment in self.moments if not moment.absent)
        return self if len(kept) == len(self.moments) else replace(self, moments=kept)

    def with_source(self, history: History) -> Retrieval:
        """The same with the frames of the source, where the history counts others (it was
        sampled); ``history`` is the one that it was made from."""
        if not history.sampled:
            return self

        def placed(own: Any) -> Any:
            return replace(own, source=to_source(history, own.window))

        moments = (
            replace(placed(m), alternatives=tuple(map(placed, m.alternatives)))
            for m in self.moments
        )
        return replace(self, moments=tuple(moments))

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": RETRIEVAL_SCHEMA,
            "history": self.history_id,
            "encoder": self.encoder,
            "settings": plain(self.settings),
            "notes": list(self.notes),
            "moments": [moment.to_dict() for moment in self.moments],
        }

    def to_json(self, indent: int | None = 2) -> str:
        """As a file of retrievals holds it; a score or setting that JSON has no word for (NaN,
        infinity, an object of yours) is refused."""
        try:
            return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"retrieval of {self.history_id}: cannot be written as JSON ({error})"
            ) from None

    def to_rows(self) -> list[dict[str, Any]]:
        """Flat rows for tables, CSV and data frames: one per description (rank 1), followed by
        its alternatives (rank 2, 3, …); diagnostics as further columns, and the notes, where there
        are some, in every row, so that a row that is taken out still carries them."""
        rows = []
        notes = {"notes": joined_notes(self.notes)} if self.notes else {}
        for moment in self.moments:
            row = {"history": self.history_id, **moment.to_dict(), "rank": 1}
            row.pop("alternatives", None)
            why = row.pop("diagnostics", {})
            run = why.pop("run", None)
            if run is not None:
                why |= {"run_start": run["start"], "run_end": run["end"]}
            rows.append(row | why | notes)
            shared = {k: v for k, v in row.items() if k not in _OF_THE_FIRST}
            for rank, other in enumerate(moment.alternatives, start=2):
                rows.append(shared | other.to_dict() | {"rank": rank} | notes)
        return rows

    def to_dataframe(self, library: str | None = None) -> Any:
        """A pandas or polars data frame, whichever is installed (pandas first) or named."""
        return dataframe(self.to_rows, library)

    def __repr__(self) -> str:
        lines = [f"<Retrieval {self.history_id}: {len(self)} moments>"]
        wide = max((len(moment.state) for moment in self.moments), default=0)
        lines += [
            f"  {m.state:<{wide}}  {'not found' if m.absent else str(m.window):>14}  "
            f"{m.score:8.3f}  {m.description}"
            for m in self.moments
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return retrieval_html(self)
