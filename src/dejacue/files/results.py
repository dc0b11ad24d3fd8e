"""References and timelines on disk: JSON or tables → records, and back.

docs/files.md describes the formats, docs/formats.md those of other tools. A problem is one sentence
that names the file and the history or the line.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import IO, Any

import msgspec

from dejacue.atomic import write_bytes, write_whole
from dejacue.errors import InputError, in_file, named, unknown
from dejacue.files.documents import (
    as_json,
    declared,
    parse_documents,
    read_text,
    write_document,
)
from dejacue.files.formats.clock import Clocks
from dejacue.files.formats.registry import Format, format_in, format_of
from dejacue.files.formats.spans import Marks, Span, stem
from dejacue.files.formats.tables import is_table, table_bytes, table_rows
from dejacue.records import Interval, Note, Reference, Timeline, Window
from dejacue.records.fields import FrameNumber, Name
from dejacue.records.timeline import states_of

REFERENCES_SCHEMA = "dejacue.references/1"
MAX_RESULT_BYTES = 256 << 20
_REFERENCE_COLUMNS = ("history", "state", "start", "end")
_HISTORY_COLUMNS = ("component", "first", "last", "complete")  # the same in all rows of a history
_TIMELINE_COLUMNS = ("history", "state", "start", "end")
Cells = Iterator[tuple[named, dict[str, Any]]]  # rows of a table, and where they stand


class _References(
    msgspec.Struct, tag_field="schema", tag=REFERENCES_SCHEMA, forbid_unknown_fields=True
):
    """A file of references."""

    histories: list[Reference]


class _Row(Interval, frozen=True, kw_only=True):
    """A row of a table: an interval of a history."""

    history: Name


class _ReferenceRow(_Row, frozen=True, kw_only=True):
    """A row that is a true window, and what is known of its history."""

    component: Name | None = None
    first: FrameNumber | None = None
    last: FrameNumber | None = None
    complete: bool | None = None


_READ_COLUMNS = (*_Row.__struct_fields__, "notes")


def read_references(
    path: str | os.PathLike[str],
    *,
    times: Any = None,
    states: Collection[str] | None = None,
    history: str | None = None,
) -> list[Reference]:
    """Read references from JSON, from a table or from a file of another tool.

    A ``.csv``, ``.parquet`` or ``.arrow`` has the columns history, state, start, end and, where
    they are known, component, first, last and complete: one row per window. A file of another tool
    is recognised by its ending or by what it holds (docs/formats.md).

    states    the states that may occur; others are refused

    For files of other tools:

    times     what gives frames their seconds: a video or a history (itself, or the path), several,
              or a mapping of histories to them; default: the video that the file names
    history   the name of the history where the file has one object
    """
    name = os.fspath(path)
    if (format := format_in(name)) is not None:
        return references_in(name, format, times, states, history)
    with in_file(name):
        if is_table(name):
            columns = (*_REFERENCE_COLUMNS, *_HISTORY_COLUMNS)
            rows = table_rows(name, _REFERENCE_COLUMNS, columns, only=True)
            references = _references_from_rows(rows)
        else:
            documents = _documents(name)
            if len(documents) != 1 or not isinstance(documents[0], dict):
                problem = 'references are a JSON object with the key "histories"'
                raise InputError(f"{problem}; for dejacue evaluate, give them last")
            references = list(_check_unique(declared(documents[0], _References).histories))
        for reference in references:
            for state in reference.states:
                with named(f'history "{reference.history_id}"'):
                    _check_state(state, states)
    return references


def write_references(
    path: str | os.PathLike[str], references: Iterable[Reference], *, times: Any = None
) -> Path:
    """Write references as JSON or, by the ending, as CSV, Parquet, Arrow or a file of another tool,
    for which ``times`` is as in ``read_references``; whole or not at all."""
    records = list(_check_unique(references))
    if (format := format_of(path)) is not None:
        with in_file(path):
            return write_bytes(path, references_as(records, format, times=times))
    if not is_table(path):
        lines = map(_as_line, records)
        return write_document(path, {"schema": REFERENCES_SCHEMA}, "histories", lines)
    suffix = Path(path).suffix.lower()
    kind = "CSV" if suffix == ".csv" else "table"
    for record in records:
        what = "descriptions" if record.descriptions is not None else None
        if not all(record.states.values()):
            what = "states without a window"
        if what is not None:
            problem = f'a {kind} cannot hold the {what} of history "{record.history_id}"'
            raise InputError(f"{path}: {problem}; give a name that ends in .json")
    rows = [
        (record, state, window)
        for record in records
        for state, windows in record.states.items()
        for window in windows
    ]
    columns: dict[str, list[Any]] = {
        "history": [record.history_id for record, _, _ in rows],
        "state": [state for _, state, _ in rows],
        "start": [window.start for _, _, window in rows],
        "end": [window.end for _, _, window in rows],
        "component": [record.component for record, _, _ in rows],
    }
    if any(record.frames for record in records):
        known = [tuple(record.frames or (None, None)) for record, _, _ in rows]
        columns |= {"first": [first for first, _ in known], "last": [last for _, last in known]}
    if any(record.complete for record in records):
        columns["complete"] = [record.complete for record, _, _ in rows]
    return write_bytes(path, table_bytes(columns, suffix))


def read_timelines(path: str | os.PathLike[str]) -> list[Timeline]:
    """Return the timelines of a JSON file, or of a ``.csv``, ``.parquet`` or ``.arrow``.

    JSON   one document as ``Timeline.to_dict`` gives it, several (one after the other, as in
           JSON lines), a list of them, or ``{"timelines": [...]}``
    CSV    the rows of ``Timeline.to_rows`` under their names, of any number of histories; only
           history, state, start and end must be there

    A table's diagnostics are not read back. A missing score is read as 0: the evaluation of one
    window per description does not use it.
    """
    name = os.fspath(path)
    with in_file(name):
        if is_table(name):
            return _timelines_from_rows(table_rows(name, _TIMELINE_COLUMNS, _READ_COLUMNS))
        documents = _documents(name)
        if len(documents) == 1 and isinstance(documents[0], list):
            documents = documents[0]
        elif len(documents) == 1 and isinstance(documents[0], dict):
            documents = documents[0].get("timelines", documents)
            if not isinstance(documents, list):
                raise InputError('"timelines" must be a list')
        return list(_check_unique(map(_timeline, documents, count(1))))


def write_timelines(path: str | os.PathLike[str], timelines: Timeline | Iterable[Timeline]) -> Path:
    """Write timelines as a JSON list, as JSON lines if the name ends in ``.jsonl``, or as a table
    (``.parquet``, ``.arrow``).

    For JSON they are taken one at a time, so that a long generator needs no memory; the file
    appears whole or not at all.
    """
    if isinstance(timelines, Timeline):
        timelines = [timelines]
    suffix = Path(path).suffix.lower()
    if suffix == ".csv" or format_of(path) is not None:
        problem = "timelines are written as JSON or tables"
        raise InputError(f"{path}: {problem}; give a name that ends in .json, or export a finding")
    if is_table(path):
        columns = Timeline.joined(list(timelines)).columns()
        return write_bytes(path, table_bytes(columns, suffix))
    opening, between, closing = ("", "\n", "\n") if suffix == ".jsonl" else ("[\n", ",\n", "\n]\n")
    of_histories = (part for timeline in timelines for part in timeline.split())

    def write(stream: IO[bytes]) -> None:
        stream.write(opening.encode())
        for at, timeline in enumerate(_check_unique(of_histories)):
            stream.write(f"{between if at else ''}{_as_line(timeline)}".encode())
        stream.write(closing.encode())

    return write_whole(path, write)


def _documents(name: str) -> list[Any]:
    text = read_text(name, MAX_RESULT_BYTES, "split it")
    return parse_documents(text, remedy="write it again, or give a table a name that ends in .csv")


def _as_line(record: Reference | Timeline) -> str:
    with named(f'history "{record.history_id}"'):
        return as_json(record if isinstance(record, Reference) else record.to_dict())


def _references_from_rows(rows: Cells) -> list[Reference]:
    states: dict[str, dict[str, list[Window]]] = {}
    facts: dict[str, dict[str, Any]] = {}  # of each history
    for place, cells in rows:
        with place:
            row = declared(cells, _ReferenceRow, strict=False)
            states.setdefault(row.history, {}).setdefault(row.state, []).append(row.window)
            known = facts.setdefault(row.history, {})
            for name in _HISTORY_COLUMNS:
                value = getattr(row, name)
                if value is not None and known.setdefault(name, value) != value:
                    raise InputError(
                        f'history "{row.history}" has the {name} "{value}" here, but '
                        f'"{known[name]}" above; a history has one'
                    )
            if (row.first is None) != (row.last is None):
                problem = f'history "{row.history}" has only one of first and last'
                raise InputError(f"{problem}; give both or neither")
    return [
        Reference(
            history,
            windows,  # type: ignore[arg-type]
            facts[history].get("component"),  # type: ignore[arg-type]
            Window(facts[history]["first"], facts[history]["last"])
            if "first" in facts[history]
            else None,
            complete=facts[history].get("complete", False),
        )
        for history, windows in states.items()
    ]


def _timeline(row: Any, number: int) -> Timeline:
    name = row.get("history") if isinstance(row, dict) else None
    known = isinstance(name, str) and name.strip()
    with named(f'history "{name}"' if known else f"timeline {number}"):
        if not isinstance(row, dict):
            raise InputError("is not a timeline with a history and its intervals")
        if "histories" in row:
            raise InputError("has no list of intervals but holds references; give references last")
        return declared(row, Timeline.Fields).record()


def _timelines_from_rows(rows: Cells) -> list[Timeline]:
    histories: dict[str, list[Interval]] = {}
    states: dict[str, dict[str, tuple[str, ...]]] = {}  # of histories without an answer
    notes: dict[str, dict[str, None]] = {}
    for place, cells in rows:
        with place:
            text = cells.pop("notes", None)
            severe = isinstance(text, str) and text.startswith("meaningless: ")
            without = severe or cells.get("history") in states
            without &= {"start", "end"}.isdisjoint(cells)
            for name in ("start_s", "end_s", "confidence"):
                if cells.get(name) != cells.get(name):  # a table may hold NaN for "not known"
                    del cells[name]
            frames = {"start": 0, "end": 0} if without else {}
            row = declared(cells | frames, _Row, strict=False)
            if isinstance(text, str) and text:
                notes.setdefault(row.history, {})[text] = None
            intervals = histories.setdefault(row.history, [])
            if without:
                states.setdefault(row.history, {})[row.state] = ()
            else:
                intervals.append(row)
    return [
        Timeline.of(
            intervals,
            states_of(intervals) if intervals else states[history],
            history_id=history,
            notes=map(
                Note.from_line,
                dict.fromkeys(
                    line for cell in notes.get(history, ()) for line in cell.split(" | ")
                ),
            ),
        )
        for history, intervals in histories.items()
    ]


def _check_unique(records: Iterable[Any]) -> Iterator[Any]:
    """Yield the records; refuse a history that is given twice."""
    seen = set()
    for record in records:
        if record.history_id in seen:
            raise InputError(f'history "{record.history_id}" is given twice; keep one')
        seen.add(record.history_id)
        yield record


def references_in(
    name: str, format: Format, times: Any, states: Collection[str] | None, history: str | None
) -> list[Reference]:
    """Read the references of a file; the arguments are those of ``read_references``."""
    spans = format.spans(name)
    clocks = Clocks(times)
    with in_file(name):
        if not spans:
            raise InputError("marks no state; mark at least one span")
        references: dict[str, dict[str, set[Window]]] = {}
        single = len({(span.object, span.video) for span in spans}) == 1
        for span in spans:
            text = span.descriptions[0] if span.descriptions else ""
            if states is not None and span.state not in states and text in states:
                span = replace(span, state=text)  # in ELAN: a tier for the object, not the state
            if not span.state.strip():
                raise InputError("a span has no state; give it a label")
            _check_state(span.state, states)
            object = span.object or (stem(span.video) if span.video else None) or stem(name)
            object = history if history is not None and single else object
            windows = references.setdefault(object, {}).setdefault(span.state, set())
            with named(f'state "{span.state}"'):
                video = span.video if span.window is None else None  # frames need no times
                clock = clocks.of(object, video, Path(name).parent)
                if span.window is not None:
                    window = span.window
                    if clock is not None:
                        clock.check(window)
                elif clock is None:
                    raise _needs_times("", "history it belongs to")
                else:
                    window = clock.window(span.seconds, format.tolerance_s or 1e-6)
            windows.add(window)
        return [
            Reference(
                object, {state: tuple(sorted(windows)) for state, windows in by_state.items()}
            )
            for object, by_state in references.items()
        ]


def as_complete(references: Iterable[Reference], times: Any = None) -> list[Reference]:
    """Return references as those that list every occurrence, of all frames of their videos.

    times   the videos or histories, as in ``read_references``; what has its frames needs none
    """
    clocks = Clocks(times)
    records = []
    for reference in references:
        frames = reference.frames
        if frames is None:
            clock = clocks.of(reference.history_id, reference.component, Path())
            if clock is None:
                problem = f'history "{reference.history_id}": its first and last frame are unknown'
                raise InputError(f"{problem}; give the video as times")
            frames = Window(*clock.frames[[0, -1]].tolist())
        records.append(msgspec.structs.replace(reference, frames=frames, complete=True))
    return records


def _needs_times(subject: str, history: str) -> InputError:
    problem = f"{subject}is in seconds, and only the video tells the time of each frame"
    return InputError(f"{problem}; give the video or {history} as times")


def _check_state(state: str, states: Collection[str] | None) -> None:
    if states is not None and state not in states:
        problem = unknown("state", state, states)
        raise InputError(f"{problem}; rename it, or remove it from the file")


def references_as(references: Iterable[Reference], format: Format, *, times: Any = None) -> bytes:
    """Return the bytes of a file of references; ``times`` as in ``read_references``."""
    clocks = Clocks(times)
    spans, rates, objects = [], {}, {}
    for reference in references:
        object = reference.history_id
        clock = clocks.of(object, reference.component, Path())
        if clock is None and format.timed:
            raise _needs_times(f'history "{object}": {format.suffix} ', "history")
        objects[object] = clocks.video(object)
        if clock is not None and clock.rate is not None:
            rates[object] = clock.rate
        for state, windows in reference.states.items():
            texts = tuple((reference.descriptions or {}).get(state, ()))
            for window in windows:
                with named(f'history "{object}", state "{state}"'):
                    seconds = clock.times_s(window) if clock and format.timed else None
                    if clock is not None:
                        clock.check(window)
                spans.append(
                    Span(state, window, seconds, object, objects[object], descriptions=texts)
                )
    if not objects:
        raise InputError("there are no references to write")
    content = format.write(Marks(spans, objects, rates=rates, truth=True))
    return content if isinstance(content, bytes) else content.encode()
