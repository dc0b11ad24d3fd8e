"""Readout, the base of all ways from evidence to windows; View, what it works on: one history as it
is seen through a vocabulary; and the timelines of the windows that it finds there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dejacue.method import calibration as plain
from dejacue.method.coordinates import Coordinates, query_directions
from dejacue.method.filling import Filling, filling_of
from dejacue.method.kernel import Engine
from dejacue.records import Diagnostics, Evidence, History, Note, Timeline, Vocabulary, Window
from dejacue.records.arrays import Floats, Ints
from dejacue.records.history import MEANINGLESS
from dejacue.records.note import in_order
from dejacue.records.timeline import NO_FRAME, Subject, read_only
from dejacue.records.vocabulary import NONE, Example

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


PUBLISHED_WIDTH = 3
STILL = Note(
    "all frames look the same to the encoder, so the frames found are arbitrary; is this a still "
    "picture, or do the masks cover the background?",
    "meaningless",
)
STILL_WITH_FACTS = Note(
    "all frames look the same to the encoder, so only the frames that you named decide",
    "doubtful",
)
MAX_NAMED_EXAMPLES = 5  # examples of a state, in a note
VIEWS_AT_A_TIME = 32  # whose evidence is held
MISSING = {  # in the columns of histories without
    "start_s": np.nan,
    "end_s": np.nan,
    "source_start": NO_FRAME,
    "source_end": NO_FRAME,
    "confirmed": 0,
}


class Windows(NamedTuple):
    """Lists what is found in one history, in columns: first and last positions of observed frames.

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


@lru_cache(maxsize=256)
def settings_of(readout: Readout, coordinates: str) -> Mapping[str, Any]:
    """Return all settings as plain values, for JSON."""
    settings: dict[str, Any] = {
        "coordinates": coordinates,
        "readout": {"name": readout.name, **readout.settings()},
    }
    frozen_settings: Mapping[str, Any] = read_only(settings)
    return frozen_settings


def timeline_of(views: Iterable[View]) -> Timeline:
    """Return what was found in histories, one after the other, in the order of time. Views are let
    go before the next ones are taken."""
    subjects, parts, remaining = list[Subject](), list[dict[str, NDArray[Any]]](), iter(views)
    while some := list(islice(remaining, VIEWS_AT_A_TIME)):
        view = some[0]
        view.readout.find_each(some)
        subjects += [_subject(view, _notes(view)) for view in some]
        parts += map(_columns, some)
    subject = np.repeat(np.arange(len(parts)), [len(part["start"]) for part in parts])
    columns = {"subject": subject}
    if any(part.keys() != parts[0].keys() for part in parts):
        for name in dict.fromkeys(name for part in parts for name in part):
            for part in parts:
                part.setdefault(name, np.full(len(part["start"]), MISSING.get(name)))
    columns |= {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    rows = _in_time(columns)
    columns = {name: column[rows] for name, column in columns.items()}
    return Timeline(subjects, columns, settings_of(view.readout, view.coordinates.name))


def analysis_of(view: View, *, diagnostics: bool = False, hints: bool = False) -> Timeline:
    """Return everything that a readout says of one history."""
    columns, notes = _columns(view), _notes(view)
    columns["subject"] = np.zeros(len(columns["start"]), np.int64)
    if (confidence := view.confidences()) is not None:
        columns["confidence"] = confidence
    rows = _in_time(columns)
    columns = {name: column[rows] for name, column in columns.items()}
    meaningless = any(note.severity == "meaningless" for note in notes)
    if hints and not view.history.still and not meaningless:
        notes += (*_same_windows(view.vocabulary, columns), *view.hints())
    why = _diagnostics(view, rows, columns) if diagnostics else None
    settings = settings_of(view.readout, view.coordinates.name)
    return Timeline([_subject(view, notes)], columns, settings, view.evidence, why)


def _in_time(columns: Mapping[str, NDArray[Any]]) -> Ints:
    rows: Ints = np.lexsort([columns[name] for name in ("state", "end", "start", "subject")])
    return rows


def _columns(view: View) -> dict[str, NDArray[Any]]:
    """Return the columns of a timeline, in the order in which its windows were found."""
    windows, history, vocabulary = view.windows, view.history, view.vocabulary
    columns: dict[str, NDArray[Any]] = {
        "state": vocabulary.labels if windows.state is None else windows.state,
        "start": history.frames[windows.start],
        "end": history.frames[windows.end],
        "score": windows.score,
    }
    if windows.state is None:
        columns["description"] = vocabulary.numbers_in_state
    if windows.confirmed is not None:
        columns["confirmed"] = windows.confirmed
    if history.times_s is not None or history.sampled:
        columns |= times_and_source(view, windows)
    return columns


def times_and_source(view: View, windows: Windows) -> dict[str, NDArray[Any]]:
    """Return seconds and frames of the file of these windows, as far as they are known."""
    history, columns = view.history, dict[str, NDArray[Any]]()
    if windows.places is not None and view.filling is not None:
        source = view.filling.in_file(*windows.places)
        columns["source_start"], columns["source_end"] = source
        if history.times_s is not None:
            seconds = view.filling.in_seconds(history, *windows.places)
            columns["start_s"], columns["end_s"] = seconds
        return columns
    if history.times_s is not None:
        columns["start_s"] = history.times_s[windows.start]
        if (ends_s := history.ends_of(windows.end)) is not None:
            columns["end_s"] = ends_s
    if history.sampled and history.source_frames is not None:
        columns["source_start"] = history.source_frames[windows.start]
        columns["source_end"] = history.source_frames[windows.end]
    return columns


def _subject(view: View, notes: Sequence[Note]) -> Subject:
    history, vocabulary = view.history, view.vocabulary
    encoder, ordered = history.encoder or vocabulary.encoder, in_order(notes) if notes else ()
    return Subject(history.id, encoder, vocabulary.states, ordered)


def _notes(view: View) -> list[Note]:
    history, vocabulary, directions = view.history, view.vocabulary, view.directions
    notes = [*view.readout.notes(history), *_example_notes(history, vocabulary)]
    if history.made_with is not None and (reason := history.made_with.get(MEANINGLESS)):
        notes.append(Note(reason, "meaningless"))
    elif history.still:
        notes.append(STILL_WITH_FACTS if vocabulary.frame_examples or vocabulary.changes else STILL)
    if directions.fallback.any():
        texts = [f'"{vocabulary.descriptions[q]}"' for q in np.flatnonzero(directions.fallback)]
        notes.append(
            Note(
                f"nothing sets {', '.join(texts)} apart from the other descriptions; plain "
                "similarity was used there",
                "doubtful",
            )
        )
    return [*notes, *view.fact_notes()] if vocabulary.frame_examples else notes


def _example_notes(history: History, vocabulary: Vocabulary) -> list[Note]:
    """Name the examples that were given, since an answer that keeps them is no independent one;
    where frames are sampled, all of them as frames of the file."""
    if not vocabulary.examples and not vocabulary.changes:
        return []
    by_state: dict[str, list[str]] = {}
    for example in vocabulary.examples:
        by_state.setdefault(example.state or NONE, []).append(_source_name(example, history))
    if vocabulary.changes:
        by_state["changes at"] = [_source_name(change, history) for change in vocabulary.changes]
    listed = "; ".join(
        f"{state} {', '.join(names[:MAX_NAMED_EXAMPLES])}"
        + (f" and {len(names) - MAX_NAMED_EXAMPLES} more" if names[MAX_NAMED_EXAMPLES:] else "")
        for state, names in by_state.items()
    )
    counted = " (frames of the file)" if history.sampled and vocabulary.frame_examples else ""
    return [Note(f"read with examples{counted}: {listed}", "information")]


def _source_name(example: Example, history: History) -> str:
    """Return how an example is written, in frames of the file where they have other numbers."""
    source = history.source_frames
    if source is None or not history.sampled or example.span is None or example.unit != "frames":
        return example.name
    at = np.searchsorted(history.frames, example.span).clip(max=len(source) - 1)
    first, last = source[at].tolist()
    return replace(example, span=(first, last)).name


def _same_windows(vocabulary: Vocabulary, columns: Mapping[str, NDArray[Any]]) -> list[Note]:
    """Return a sentence for each window that two states or more have."""
    states_of: dict[tuple[int, int], dict[str, None]] = {}
    names = list(vocabulary.states)
    rows = zip(*(columns[name].tolist() for name in ("start", "end", "state")), strict=True)
    for start, end, state in rows:
        states_of.setdefault((start, end), {})[names[state]] = None
    return [
        Note(
            f"{quoted(states)} have the same window, {in_frames(*window)}; at most one of them can "
            "be true there",
            "doubtful",
        )
        for window, states in states_of.items()
        if len(states) > 1
    ]


def quoted(names: Iterable[str]) -> str:
    """Return '"a", "b" and "c"'."""
    *before, last = (f'"{name}"' for name in names)
    return f"{', '.join(before)} and {last}" if before else last


def in_frames(first: int, last: int) -> str:
    """Return "frame 3" or "frames 3 – 9"."""
    return f"frame {first}" if first == last else f"frames {first} – {last}"


def _diagnostics(view: View, rows: Ints, columns: Mapping[str, NDArray[Any]]) -> list[Diagnostics]:
    """Return why each row of the columns was chosen; rows: of what was found."""
    windows, readout = view.windows, view.readout
    offsets, frames = readout.bounds(view.history), view.history.frames
    evidence, directions = view.evidence, view.directions
    labels = view.vocabulary.labels
    query = rows if windows.state is None else np.searchsorted(labels, columns["state"])
    start, end = windows.start[rows], windows.end[rows]
    first = np.searchsorted(offsets, start, side="right") - 1
    last = np.searchsorted(offsets, end, side="right") - 1
    return [
        Diagnostics(
            residual_norm=float(directions.residual_norms[q]),
            fallback=bool(directions.fallback[q]),
            centre=float(evidence.centre[q]),
            scale=float(evidence.scale[q]),
            floor_active=bool(evidence.scale[q] <= readout.scale_floor),
            run=Window(int(frames[offsets[a]]), int(frames[offsets[b + 1] - 1])),
            touches_run_edge=bool(start[row] == offsets[a] or end[row] == offsets[b + 1] - 1),
        )
        for row, (q, a, b) in enumerate(zip(query, first, last, strict=True))
    ]
