"""Timeline: when an object is in which state, for one history or for many."""

from __future__ import annotations

import importlib.util
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted, need, unknown
from dejacue.records._html import clock_range, timeline_html
from dejacue.records.fields import Name
from dejacue.records.interval import Diagnostics, Interval, Window
from dejacue.records.note import Note, in_order

TIMELINE_SCHEMA = "dejacue.timeline/2"
MAX_SHOWN = 20  # intervals of a repr
NO_FRAME = -(1 << 62)  # in columns of frames of the file: not known
_COLUMNS: dict[str, float | None] = {  # each with its value where it is left out
    "subject": 0,
    "state": None,
    "description": -1,
    "start": None,
    "end": None,
    "start_s": np.nan,
    "end_s": np.nan,
    "source_start": NO_FRAME,
    "source_end": NO_FRAME,
    "score": 0.0,
    "confidence": np.nan,
    "confirmed": 0,
}


def read_only(value: Any) -> Any:
    """Return nested mappings that nobody can write to, so that many records may share them."""
    if isinstance(value, Mapping):
        return MappingProxyType({key: read_only(inner) for key, inner in value.items()})
    return value


def plain(value: Any) -> Any:
    """Return nested mappings as new dicts."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value


def encoded(value: Any) -> Any:
    """Return what msgspec does not know in what it knows: its ``enc_hook`` for all records."""
    if isinstance(value, Note | Timeline):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"JSON has no word for a {type(value).__name__}")


class Tabular(ABC):
    """Gives its named columns as tables of other libraries."""

    __slots__ = ()

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """Return named columns of equal length: arrays of numbers, lists of text."""

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return a pandas or polars data frame, whichever is installed (pandas first) or named."""
        known = ("pandas", "polars")
        if library not in (None, *known):
            raise unknown("library", library, known)
        name = library or next((n for n in known if importlib.util.find_spec(n)), known[0])
        return need(name, "pip install pandas, or pip install polars").DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """Return a pyarrow table."""
        return need("pyarrow", "pip install pyarrow").table(self.columns())


def _dtype(missing: float | None) -> type:
    return np.float64 if isinstance(missing, float) else np.int64


@dataclass(frozen=True, eq=False)
class Evidence:
    """Numbers that say how strongly each frame speaks for each description, step by step.

    cosines    (Q, N) float32: frame · query in the chosen coordinates
    centre, scale   (Q,) median and robust scale of each row of cosines
    responses  (Q, N) float64: calibrated and smoothed, what the readout sums
    frames     (N,) frame indices of the columns
    zero       what a response of 0 is: the "median" or the "mean" frame; with examples the "half":
               above it, a frame is in the state; "odds": of log-odds, as likely as not
    labels     (N,) the number of the state that each frame is in, −1 for none; None where the
               readout gives windows alone

    >>> from dejacue import History, Vocabulary
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, [[1, 0], [0, 1]])
    >>> from dejacue.method import evidence
    >>> evidence(cup, words).responses.shape
    (2, 12)
    """

    cosines: NDArray[np.float32]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    responses: NDArray[np.float64]
    frames: NDArray[np.int64]
    zero: str = "median"
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("cosines", "centre", "scale", "responses", "frames", "labels"):
            array = getattr(self, name)
            if array is not None and array.flags.writeable:
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)


class Subject(NamedTuple):
    """The history of some intervals: its id, states and notes, which they share.

    states   state → its descriptions, in the order of the vocabulary
    """

    id: str
    encoder: str | None
    states: Mapping[str, Sequence[str]]
    notes: tuple[Note, ...] = ()  # the most severe first

    @property
    def meaningless(self) -> Note | None:
        """Return the note that says why there is no answer; None where there is one."""
        first = self.notes[0] if self.notes else None
        return first if first is not None and first.severity == "meaningless" else None

    @property
    def notes_line(self) -> str | None:
        """Return all notes as the cell of a table; None where there are none."""
        return " | ".join(note.line for note in self.notes) or None


def states_of(intervals: Iterable[Interval]) -> dict[str, tuple[str, ...]]:
    """Return the states of intervals with their descriptions, in the order of their appearance."""
    states: dict[str, dict[str, None]] = {}
    for interval in intervals:
        texts = states.setdefault(interval.state, {})
        if interval.description is not None:
            texts[interval.description] = None
    return {state: tuple(texts) for state, texts in states.items()}


class Timeline(Tabular):
    """Tells when an object is in which state: the intervals of one or many histories, in columns.

    ``timeline["filled"]`` lists the occurrences of a state in time, and is empty where the state
    was not found; iteration gives those of all states in time. ``timeline.best("filled")`` is the
    one to take if only one is wanted, ``timeline.at(4.2)`` the state at that second.
    ``timeline.evidence`` is what decided, where it was asked for. A history with a note that its
    answer is meaningless has no intervals.

    >>> from dejacue import Interval, Timeline
    >>> found = [Interval("full", 3, 9, start_s=0.3, end_s=1.0), Interval("empty", 0, 2)]
    >>> timeline = Timeline.of(found, {"empty": ["empty cup"], "full": ["full cup"]})
    >>> [(interval.state, interval.start, interval.end) for interval in timeline]
    [('empty', 0, 2), ('full', 3, 9)]
    >>> timeline["full"][0].times_s, timeline.at(0.5), timeline.at(frame=1)
    ((0.3, 1.0), 'full', 'empty')
    """

    class Fields(msgspec.Struct, tag_field="schema", tag=TIMELINE_SCHEMA):
        """The timeline of one history in JSON.

        history     its id
        intervals   in the order of time
        states      state → its descriptions; a state without an interval was not found, unless the
                    answer is meaningless
        encoder     its identity
        settings    the readout and its options
        notes       what a reader must know, the most severe first
        """

        history: Name
        intervals: list[Interval]
        states: dict[Name, list[Name]] | None = None
        encoder: str | None = None
        settings: dict[str, Any] = {}
        notes: list[Note] = []

        def record(self) -> Timeline:
            states = states_of(self.intervals)
            if self.states is not None:
                states = {state: tuple(texts) for state, texts in self.states.items()}
            return Timeline.of(
                self.intervals,
                states,
                history_id=self.history,
                encoder=self.encoder,
                settings=self.settings,
                notes=self.notes,
            )

    __slots__ = ("_columns", "_diagnostics", "_interval_list", "evidence", "settings", "subjects")

    def __init__(
        self,
        subjects: Sequence[Subject],
        columns: Mapping[str, NDArray[Any]],
        settings: Mapping[str, Any] = MappingProxyType({}),
        evidence: Evidence | None = None,
        diagnostics: Sequence[Diagnostics | None] | None = None,
    ) -> None:
        """Take columns of equal length; "state", "start" and "end" must be among them.

        subject, state, description are numbers: of the history in ``subjects``, of the state in
        its ``states`` and of the description in that state (−1: it stands for the whole state).
        """
        without = [at for at, subject in enumerate(subjects) if subject.meaningless]
        if without:
            of_each = columns.get("subject", np.zeros(len(columns["start"]), np.int64))
            rows = np.flatnonzero(~np.isin(of_each, without)).tolist()
            columns = {name: column[rows] for name, column in columns.items()}
            diagnostics = None if diagnostics is None else [diagnostics[row] for row in rows]
        store = object.__setattr__
        store(self, "subjects", subjects)
        store(self, "settings", settings)
        store(self, "evidence", evidence)
        store(self, "_columns", columns)
        store(self, "_diagnostics", diagnostics)
        store(self, "_interval_list", None)

    subjects: Sequence[Subject]
    settings: Mapping[str, Any]
    evidence: Evidence | None
    _columns: Mapping[str, NDArray[Any]]
    _diagnostics: Sequence[Diagnostics | None] | None
    _interval_list: list[Interval] | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a timeline does not change; make another: replace({name}=…)")

    @classmethod
    def of(
        cls,
        intervals: Iterable[Interval],
        states: Mapping[str, Sequence[str]],
        *,
        history_id: str = "unnamed",
        encoder: str | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
        notes: Iterable[str] = (),
        evidence: Evidence | None = None,
    ) -> Timeline:
        """Make the timeline of one history from its intervals."""
        numbers = {state: at for at, state in enumerate(states)}
        texts: dict[str, dict[str, int]] = {}  # the number of each description within its state
        placed: list[tuple[tuple[int, ...], Interval]] = []
        for interval in intervals:
            if interval.state not in numbers:
                raise unknown("state", interval.state, states)
            state, text, number = interval.state, interval.description, -1
            if text is not None:
                if state not in texts:
                    pairs = enumerate(states[state])
                    texts[state] = {known: at for at, known in reversed(list(pairs))}
                if text not in texts[state]:
                    raise unknown("description", text, states[state])
                number = texts[state][text]
            place = interval.start, interval.end, numbers[state], number, len(placed)
            placed.append((place, interval))
        placed.sort(key=lambda row: row[0])
        rows = [interval for _, interval in placed]
        numbered: dict[str, list[int]] = {
            "subject": [],
            "state": [place[2] for place, _ in placed],
            "description": [place[3] for place, _ in placed],
            "confirmed": [int(row.confirmed) for row in rows],
        }
        columns: dict[str, NDArray[Any]] = {}
        for name, missing in _COLUMNS.items():
            values = numbered[name] if name in numbered else [getattr(row, name) for row in rows]
            if missing is None or not {None, missing}.issuperset(values):
                known = [missing if value is None else value for value in values]
                try:
                    columns[name] = np.array(known, _dtype(missing))
                except OverflowError:
                    raise InputError("an interval has a number too large") from None
        why = [row.diagnostics for row in rows]
        return cls(
            [Subject(history_id, encoder, states, in_order(notes))],
            columns,
            settings,
            evidence,
            why if any(why) else None,
        )

    @classmethod
    def joined(cls, parts: Sequence[Timeline]) -> Timeline:
        """Put timelines that one call made one after the other."""
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part.subjects) for part in parts)])
        columns = {
            name: np.concatenate([np.empty(0, _dtype(missing)), *(p._column(name) for p in parts)])
            for name, missing in _COLUMNS.items()
        }
        columns["subject"] += np.repeat(before[:-1], [len(part) for part in parts])
        why = [row for part in parts for row in part._diagnostics or [None] * len(part)]
        return cls(
            [subject for part in parts for subject in part.subjects],
            columns,
            parts[0].settings if parts else {},
            None,
            why if any(why) else None,
        )

    def _column(self, name: str) -> NDArray[Any]:
        if name in self._columns:
            return self._columns[name]
        missing: Any = _COLUMNS[name]
        return np.full(len(self), missing, _dtype(missing))

    @property
    def _subject(self) -> Subject:
        if len(self.subjects) != 1:
            problem = f"this timeline holds {len(self.subjects)} histories"
            raise InputError(f"{problem}; iterate over timeline.split() for one after the other")
        return self.subjects[0]

    @property
    def history_id(self) -> str:
        return self._subject.id

    @property
    def encoder(self) -> str | None:
        return self._subject.encoder

    @property
    def states(self) -> Mapping[str, Sequence[str]]:
        """Return {state: its descriptions}; a state without an interval was not found."""
        return self._subject.states

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return what a reader must know, sentence by sentence, the most severe first."""
        if len(self.subjects) == 1:
            return self.subjects[0].notes
        return in_order(note for subject in self.subjects for note in subject.notes)

    @property
    def meaningless(self) -> Note | None:
        """Return the note that says why there is no answer; None where there is one."""
        return self._subject.meaningless

    @property
    def without_interval(self) -> str:
        """Return the words to show for a state that has no interval."""
        return "not found" if self.meaningless is None else "no answer"

    @property
    def intervals(self) -> list[Interval]:
        """Return all intervals, history by history, in the order of time."""
        if self._interval_list is None:  # two threads may both make them; they make the same
            object.__setattr__(self, "_interval_list", self._intervals())
        assert self._interval_list is not None
        return self._interval_list

    def _intervals(self) -> list[Interval]:
        def known(name: str) -> list[Any]:
            if name not in self._columns:
                return [None] * len(self)
            column = self._columns[name]
            missing = np.isnan(column) if column.dtype.kind == "f" else column == NO_FRAME
            pairs = zip(column.tolist(), missing.tolist(), strict=True)
            return [None if absent else value for value, absent in pairs]

        states, texts = self._names()
        return [
            Interval(*values)
            for values in zip(
                states,
                self._columns["start"].tolist(),
                self._columns["end"].tolist(),
                self._column("score").tolist(),
                known("start_s"),
                known("end_s"),
                known("confidence"),
                map(bool, self._column("confirmed").tolist()),
                texts,
                known("source_start"),
                known("source_end"),
                self._diagnostics or [None] * len(self),
                strict=True,
            )
        ]

    def _names(self) -> tuple[list[str], list[str | None]]:
        """Return the state of each interval, and its description where it has one."""
        names = [tuple(subject.states) for subject in self.subjects]
        subject, state = self._column("subject").tolist(), self._column("state").tolist()
        states = [names[h][s] for h, s in zip(subject, state, strict=True)]
        rows = zip(subject, states, self._column("description").tolist(), strict=True)
        return states, [None if t < 0 else self.subjects[h].states[s][t] for h, s, t in rows]

    def best(self, state: str) -> Interval | None:
        """Return the occurrence of a state to take if only one is wanted, None where there is none.

        One that a person has confirmed comes before all others, then the one with the best score.
        """
        return max(self[state], key=_worth, default=None)

    @property
    def labels(self) -> list[str | None]:
        """Return the state of every observed frame of the history, None for none of them.

        These are whole stretches: an interval is the part of its stretch that stands out most.
        """
        if self.evidence is None:
            raise InputError("this timeline has no labels; read it with find() or analyse()")
        if self.meaningless is not None:
            return [None] * len(self.evidence.frames)
        if self.evidence.labels is None:
            return [self.at(frame=frame) for frame in self.evidence.frames.tolist()]
        names = [*self.states, None]
        return [names[label] for label in self.evidence.labels.tolist()]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        """Return the number of intervals."""
        return len(self._columns["start"])

    def __contains__(self, key: object) -> bool:
        """Return whether a state is one of those asked for, or an interval one of these."""
        if isinstance(key, str):
            return any(key in subject.states for subject in self.subjects)
        return key in self.intervals

    @overload
    def __getitem__(self, key: str) -> list[Interval]: ...
    @overload
    def __getitem__(self, key: int) -> Interval: ...
    def __getitem__(self, key: int | str) -> Interval | list[Interval]:
        if not isinstance(key, str):
            return self.intervals[key]
        if key not in self:
            states = dict.fromkeys(name for subject in self.subjects for name in subject.states)
            raise KeyError(str(unknown("state", key, states)))
        return [interval for interval in self.intervals if interval.state == key]

    def at(self, time_s: float | None = None, *, frame: int | None = None) -> str | None:
        """Return the state at a second, or at a frame of the history; None where none holds.

        Where a readout gives windows that overlap, the one with the best score counts.
        """
        if (time_s is None) == (frame is None):
            raise InputError("give a time in seconds, or a frame")
        if time_s is not None and self and all(i.times_s is None for i in self.intervals):
            raise InputError(f'history "{self.history_id}" has no times; give at(frame=…)')
        there: list[Interval] = []
        if frame is not None:
            there = [interval for interval in self.intervals if frame in interval]
        elif time_s is not None:
            timed = [(interval, interval.times_s) for interval in self.intervals]
            there = [interval for interval, s in timed if s is not None and s[0] <= time_s < s[1]]
        return max(there, key=lambda interval: interval.score).state if there else None

    def windows(self) -> dict[tuple[str, str], Window | None]:
        """Return (state, description) → the best interval in frames of the file; None: not found.

        This is what is compared with references: descriptions that share the interval of their
        state all have it.
        """
        best: dict[tuple[str, str | None], Interval] = {}
        for interval in self.intervals:
            key = interval.state, interval.description
            if key not in best or _worth(interval) > _worth(best[key]):
                best[key] = interval
        windows = {key: interval.source for key, interval in best.items()}
        return {
            (state, text): windows.get((state, text), windows.get((state, None)))
            for state, texts in self.states.items()
            for text in texts or (state,)
        }

    def split(self) -> Iterator[Timeline]:
        """Give the timeline of each history, in order."""
        if len(self.subjects) == 1:
            yield self
            return
        ends = np.searchsorted(self._column("subject"), np.arange(len(self.subjects) + 1))
        for at, subject in enumerate(self.subjects):
            rows = slice(int(ends[at]), int(ends[at + 1]))
            columns = {n: c[rows] for n, c in self._columns.items() if n != "subject"}
            why = None if self._diagnostics is None else self._diagnostics[rows]
            yield Timeline([subject], columns, self.settings, None, why)

    def replace(self, **changes: Any) -> Timeline:
        """Return the same with another ``notes``, ``encoder``, ``settings`` or ``evidence``."""
        settings = changes.pop("settings", self.settings)
        evidence = changes.pop("evidence", self.evidence)
        if "notes" in changes:
            changes["notes"] = in_order(changes["notes"])
        subjects = [self._subject._replace(**changes)] if changes else self.subjects
        return Timeline(subjects, self._columns, settings, evidence, self._diagnostics)

    def columns(self) -> dict[str, Any]:
        """Return named columns of equal length: arrays of numbers, lists of text.

        history, state, start, end, start_s and end_s (NaN where unknown), score; where there are
        some also description, source_start and source_end, confidence, confirmed, diagnostics and,
        in the first row of its history, notes.
        """
        states, texts = self._names()
        subject = self._column("subject").tolist()
        table: dict[str, Any] = {"history": [self.subjects[h].id for h in subject], "state": states}
        if any(text is not None for text in texts):
            table["description"] = texts
        for name in ("start", "end", "start_s", "end_s"):
            table[name] = self._column(name)
        for name in ("start", "end"):
            source = self._column(f"source_{name}")
            if (known := source != NO_FRAME).any():  # others count the frames of the file already
                table[f"source_{name}"] = np.where(known, source, table[name])
        table["score"] = self._column("score")
        if not np.isnan(confidence := self._column("confidence")).all():
            table["confidence"] = confidence
        if (confirmed := self._column("confirmed").astype(bool)).any():
            table["confirmed"] = confirmed
        if self._diagnostics is not None:
            table |= _diagnostic_columns(self._diagnostics)
        if self.notes:
            notes: list[str | None] = [subject.notes_line for subject in self.subjects]
            table["notes"] = []
            for at in subject:
                table["notes"].append(notes[at])
                notes[at] = None
        return table

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per interval, as in a CSV; None where a value is not known."""
        table = {
            name: values.tolist() if isinstance(values, np.ndarray) else values
            for name, values in self.columns().items()
        }
        rows = zip(*table.values(), strict=True)
        return [
            {name: None if v != v else v for name, v in zip(table, row, strict=True)}
            for row in rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: the document that is written as JSON (docs/files.md)."""
        settings: Any = plain(self.settings)
        states = {state: list(texts) for state, texts in self.states.items()}
        fields = Timeline.Fields(
            self.history_id, self.intervals, states, self.encoder, settings, list(self.notes)
        )
        document: dict[str, Any] = msgspec.to_builtins(fields, enc_hook=encoded)
        return document

    def to_json(self, indent: int | None = 2) -> str:
        """Return the document as text; values that JSON has no word for (NaN, infinity, an object
        of yours) are refused."""
        try:
            text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
            return text if indent is None else msgspec.json.format(text, indent=indent)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"timeline of {self.history_id}: cannot be written as JSON ({error})"
            raise InputError(problem) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without views of mappings, which cannot be pickled."""
        subjects = [subject._replace(states=dict(subject.states)) for subject in self.subjects]
        arguments = (subjects, dict(self._columns), plain(self.settings), self.evidence)
        return Timeline, (*arguments, self._diagnostics)

    def __repr__(self) -> str:
        if len(self.subjects) != 1:
            size = counted(len(self), "interval")
            return f"<Timeline of {len(self.subjects)} histories: {size}>"
        rows = [
            (
                interval.state,
                f"{interval.start} – {interval.end}",
                clock_range(interval),
                interval.trust or "",
                interval.description or "",
            )
            for interval in self.intervals[:MAX_SHOWN]
        ]
        there = {interval.state for interval in self}
        rows += [(s, self.without_interval, "", "", "") for s in self.states if s not in there]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"<Timeline {self.history_id}: {counted(len(self), 'interval')}>"]
        for state, frames, *rest in rows:
            cells = [f"{state:<{wide[0]}}", f"{frames:>{wide[1]}}"]
            cells += [f"{text:<{size}}" for text, size in zip(rest, wide[2:], strict=True) if size]
            lines.append("  " + "  ".join(cells))
        if len(self) > MAX_SHOWN:
            lines.insert(1 + MAX_SHOWN, f"  … and {len(self) - MAX_SHOWN} more")
        if self.meaningless is not None:
            lines.append(f"  {self.meaningless.line}")
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        return timeline_html(self)


def _worth(interval: Interval) -> tuple[bool, float]:
    """Return by what the best of several intervals is chosen: facts, then the score."""
    return interval.confirmed, interval.score


def _diagnostic_columns(diagnostics: Sequence[Diagnostics | None]) -> dict[str, list[Any]]:
    rows = [{} if row is None else msgspec.structs.asdict(row) for row in diagnostics]
    for row in rows:
        if run := row.pop("run", None):
            row |= {"run_start": run.start, "run_end": run.end}
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


class Timelines(Tabular, Iterator[Timeline]):
    """The timelines of many histories, in order, computed a chunk at a time when asked for."""

    def __init__(self, chunks: Iterable[Timeline]) -> None:
        self._chunks = iter(chunks)
        self._now: Iterator[Timeline] = iter(())
        self._read = False

    def __iter__(self) -> Timelines:
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        if self._read:
            remedy = "call locate_many again, or keep them: timelines = list(locate_many(…))"
            raise InputError(f"these timelines have already been read and are not kept; {remedy}")

    def __next__(self) -> Timeline:
        while True:
            for timeline in self._now:
                return timeline
            try:
                self._now = next(self._chunks).split()
            except StopIteration:
                self._read = True
                raise

    def chunks(self) -> Iterator[Timeline]:
        """Give timelines of many histories at a time: for a corpus that does not fit in memory."""
        return self._chunks

    def joined(self) -> Timeline:
        """Return all of them as one timeline."""
        self._check_unread()
        self._read = True
        return Timeline.joined(list(self._chunks))

    def columns(self) -> dict[str, Any]:
        """Return the columns of all of them, as ``Timeline.columns`` gives them."""
        return self.joined().columns()
