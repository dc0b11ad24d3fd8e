"""References and timelines on disk: JSON or tables → records, and back.

docs/files.md describes the formats, docs/formats.md those of other tools. A problem is one sentence
that names the file and the history or the line.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from dejacue.errors import InputError
from dejacue.records import TIMELINE_SCHEMA, Reference, Timeline, Window
from dejacue.sources.atomic import write_bytes, write_text, write_whole
from dejacue.sources.documents import (
    FrameNumber,
    Name,
    as_json,
    check_keys,
    check_schema,
    declared,
    named,
    parse_documents,
    read_text,
    write_document,
)
from dejacue.sources.formats.references import check_state
from dejacue.sources.formats.references import read as read_foreign
from dejacue.sources.formats.references import write as foreign_bytes
from dejacue.sources.formats.registry import format_in, format_of
from dejacue.sources.formats.tables import is_table, table_bytes, table_rows
from dejacue.sources.timeline_document import (
    RETRIEVAL_SCHEMA,
    Answer,
    IntervalDocument,
    RetrievalDocument,
    TimelineDocument,
    check_level,
    intervals_of,
)

REFERENCES_SCHEMA = "dejacue.references/1"
MOST_RESULT_BYTES = 256 << 20
_REFERENCE_COLUMNS = ("history", "state", "start", "end", "component")
_TIMELINE_COLUMNS = ("history", "state", "start", "end")
Cells = Iterable[tuple[str, dict[str, Any]]]  # rows of a table, and where they stand
_TEXT_COLUMNS = ("history", "state", "description", "component")


class _References(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    histories: list[Any]


class _Reference(msgspec.Struct, forbid_unknown_fields=True):
    """As Reference.to_dict gives it."""

    history: Name
    states: dict[str, Any]
    component: str | None = None
    frames: tuple[FrameNumber, FrameNumber] | None = None
    descriptions: dict[str, list[str]] | None = None


class _ReferenceRow(msgspec.Struct):
    """One window of a CSV."""

    history: Name
    state: Name
    start: FrameNumber
    end: FrameNumber
    component: str | None = None


class _IntervalRow(IntervalDocument, kw_only=True):
    """One row of a table; ``level`` and ``absent`` are columns of earlier versions."""

    history: Name
    level: str | None = None
    absent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level is None:
            return
        check_level(self.level)
        if self.description is None:
            raise InputError('has a level but no "description"; add it, or remove the level')
        self.start_s = self.end_s = None  # end_s was the start of the last frame


def read_references(
    path: str | os.PathLike[str],
    *,
    times: Any = None,
    states: Collection[str] | None = None,
    history: str | None = None,
) -> list[Reference]:
    """References from JSON, from a ``.csv``, ``.parquet`` or ``.arrow`` with the columns history,
    state, start, end and, if histories share their source, component (one row per window), or from
    a file of another tool, by its ending or by what it holds (docs/formats.md).

    states    the states that may occur; others are refused

    For files of other tools:

    times     what gives frames their seconds: a video or a history (itself, or the path), several,
              or a mapping of histories to them; default: the video that the file names
    history   the name of the history where the file has one object
    """
    name = os.fspath(path)
    if (format := format_in(name)) is not None:
        return read_foreign(name, format, times=times, states=states, history=history)
    found = _own_references(name)
    with named(name):
        for reference in found:
            for state in reference.states:
                with named(f'history "{reference.history_id}"'):
                    check_state(state, states)
    return found


def _own_references(name: str) -> list[Reference]:
    if is_table(name):
        with named(name):
            return _references_from_rows(table_rows(name, _REFERENCE_COLUMNS[:-1]))
    text = read_text(name, MOST_RESULT_BYTES, "split it")
    with named(name):
        if _is_csv(name):
            rows = _rows(text, _REFERENCE_COLUMNS[:-1], allowed=_REFERENCE_COLUMNS)
            return _references_from_rows(rows)
        documents = _documents(text)
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError(
                'references are a JSON object with the key "histories"; for dejacue evaluate, '
                "give them last"
            )
        document = {"schema": REFERENCES_SCHEMA, **documents[0]}
        given = declared(document, _References, schema=REFERENCES_SCHEMA).histories
        return list(_check_unique(map(_reference, given, _places(given, "history"))))


def write_references(
    path: str | os.PathLike[str], references: Iterable[Reference], *, times: Any = None
) -> Path:
    """Write references as JSON or, by the ending, as CSV, Parquet, Arrow or a file of another tool,
    for which ``times`` is as in ``read_references``; whole or not at all."""
    records = list(_check_unique(references))
    if (format := format_of(path)) is not None:
        with named(os.fspath(path)):
            return write_bytes(path, foreign_bytes(records, format, times=times))
    if is_table(path):
        for record in records:
            _check_flat(path, record)
        rows = [row for record in records for row in record.to_rows()]
        columns = {name: [row[name] for row in rows] for name in _REFERENCE_COLUMNS}
        return write_bytes(path, table_bytes(columns, Path(path).suffix.lower()))
    if _is_csv(os.fspath(path)):
        stream = io.StringIO()
        style: Any = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}  # a name may hold \r
        writer = csv.DictWriter(stream, _REFERENCE_COLUMNS, **style)
        writer.writeheader()
        for record in records:
            _check_flat(path, record)
            writer.writerows(record.to_rows())
        return write_text(path, stream.getvalue())
    return write_document(
        path, {"schema": REFERENCES_SCHEMA}, "histories", (_as_line(record) for record in records)
    )


def _check_flat(path: str | os.PathLike[str], record: Reference) -> None:
    if record.frames is not None or record.descriptions is not None:
        raise InputError(
            f"{path}: a {'CSV' if _is_csv(os.fspath(path)) else 'table'} cannot hold the frames "
            f'and descriptions of history "{record.history_id}"; give a name that ends in .json'
        )


def read_timelines(path: str | os.PathLike[str]) -> list[Timeline]:
    """Return the timelines of a JSON file, or of a ``.csv``, ``.parquet`` or ``.arrow``.

    JSON   one document as ``Timeline.to_dict`` gives it, several (one after the other, as in
           JSON lines), a list of them, or ``{"timelines": [...]}``
    CSV    the rows of ``Timeline.to_rows`` under their names, of any number of histories; only
           history, state, start and end must be there

    Files of earlier versions, which hold retrievals, are read without their seconds. A table's
    diagnostics are not read back. A missing score is read as 0: the evaluation of one window per
    description does not use it.
    """
    name = os.fspath(path)
    if is_table(name):
        with named(name):
            return _timelines_from_rows(table_rows(name, _TIMELINE_COLUMNS))
    text = read_text(name, MOST_RESULT_BYTES, "split it")
    with named(name):
        if _is_csv(name):
            return _timelines_from_rows(_rows(text, _TIMELINE_COLUMNS))
        documents = _documents(text)
        if len(documents) == 1 and isinstance(documents[0], list):
            documents = documents[0]
        elif len(documents) == 1 and isinstance(documents[0], dict):
            key = next((key for key in ("timelines", "retrievals") if key in documents[0]), None)
            documents = documents if key is None else documents[0][key]
            if not isinstance(documents, list):
                raise InputError(f'"{key}" must be a list')
        return list(_check_unique(map(_timeline, documents, _places(documents, "timeline"))))


def write_timelines(path: str | os.PathLike[str], timelines: Timeline | Iterable[Timeline]) -> Path:
    """Write timelines as a JSON list, as JSON lines if the name ends in ``.jsonl``, or as a table
    (``.parquet``, ``.arrow``).

    For JSON they are taken one at a time, so that a long generator needs no memory; the file
    appears whole or not at all.
    """
    if isinstance(timelines, Timeline):
        timelines = [timelines]
    if _is_csv(os.fspath(path)) or format_of(path) is not None:
        raise InputError(
            f"{path}: timelines are written as JSON or tables; give a name that ends in .json, or "
            "export a finding"
        )
    if is_table(path):
        columns = Timeline.joined(list(timelines)).columns()
        return write_bytes(path, table_bytes(columns, Path(path).suffix.lower()))
    lines = Path(path).suffix.lower() == ".jsonl"
    opening, between, closing = ("", "\n", "\n") if lines else ("[\n", ",\n", "\n]\n")
    each = (own for timeline in timelines for own in timeline.split())

    def write(stream: IO[bytes]) -> None:
        stream.write(opening.encode())
        for at, timeline in enumerate(_check_unique(each)):
            stream.write(f"{between if at else ''}{_as_line(timeline)}".encode())
        stream.write(closing.encode())

    return write_whole(path, write)


def _documents(text: str) -> list[Any]:
    return parse_documents(text, remedy="write it again, or give a table a name that ends in .csv")


def _as_line(record: Reference | Timeline) -> str:
    with named(f'history "{record.history_id}"'):
        return as_json(record.to_dict())


def _places(rows: list[Any], what: str) -> Iterator[str]:
    """What each is called in a sentence: by its history, else by its number."""
    for at, row in enumerate(rows, start=1):
        name = row.get("history") if isinstance(row, dict) else None
        yield f'history "{name}"' if isinstance(name, str) and name.strip() else f"{what} {at}"


def _reference(row: Any, where: str) -> Reference:
    with named(where):
        given = declared(row, _Reference)
        for state, pairs in given.states.items():
            with named(f'state "{state}", windows'):
                given.states[state] = declared(pairs, list[tuple[FrameNumber, FrameNumber]])
    return Reference(*msgspec.structs.astuple(given))


def _references_from_rows(rows: Cells) -> list[Reference]:
    states: dict[str, dict[str, list[Window]]] = {}
    components: dict[str, str] = {}
    for where, cells in rows:
        with named(where):
            row = declared(cells, _ReferenceRow, strict=False)
            own = states.setdefault(row.history, {}).setdefault(row.state, [])
            own.append(Window(row.start, row.end))
            known = components.get(row.history, row.component)
            if row.component not in (None, known):
                raise InputError(
                    f'history "{row.history}" has the component "{row.component}" here, but '
                    f'"{known}" above; a history has one'
                )
            if row.component is not None:
                components[row.history] = row.component
    return [
        Reference(history, own, components.get(history))  # type: ignore[arg-type]
        for history, own in states.items()
    ]


def _timeline(row: Any, where: str) -> Timeline:
    with named(where):
        if not isinstance(row, dict):
            raise InputError("is not a timeline with a history and its intervals")
        if "histories" in row:
            raise InputError("has no list of intervals but holds references; give references last")
        schema = row.get("schema", RETRIEVAL_SCHEMA if "moments" in row else TIMELINE_SCHEMA)
        if schema == RETRIEVAL_SCHEMA:
            return _earlier(declared(row, RetrievalDocument))
        check_schema(schema, TIMELINE_SCHEMA)
        document = declared(row, TimelineDocument)
        ranks = _Ranks()
        for at, interval in enumerate(document.intervals):
            with named(f"intervals[{at}]"):
                ranks.add(interval)
        return document.timeline()


def _earlier(document: RetrievalDocument) -> Timeline:
    seen = set()
    for at, moment in enumerate(document.moments):
        key = moment.state, moment.description
        if key in seen:
            raise InputError(f"moments[{at}]: {_quoted(*key)} is given twice; keep one")
        seen.add(key)
    return document.timeline()


def _timelines_from_rows(rows: Cells) -> list[Timeline]:
    histories: dict[str, list[Answer]] = {}
    ranks: dict[str, _Ranks] = {}
    notes: dict[str, dict[str, None]] = {}
    for where, cells in rows:
        with named(where):
            for name in ("start_s", "end_s"):
                if cells.get(name) != cells.get(name):  # a table may hold NaN for "not known"
                    del cells[name]
            told = cells.get("notes")
            row = declared(cells, _IntervalRow, strict=False)
            if isinstance(told, str) and told:
                notes.setdefault(row.history, {}).update(dict.fromkeys(told.split(" | ")))
            ranks.setdefault(row.history, _Ranks()).add(row)
            histories.setdefault(row.history, []).append(
                Answer(row.interval(), row.level or "description", row.absent)
            )
    timelines = []
    for history, answers in histories.items():
        states, intervals = intervals_of(answers)
        told = tuple(notes.get(history, ()))
        timelines.append(Timeline.of(intervals, states, history_id=history, notes=told))
    return timelines


class _Ranks:
    """Refuses a rank of a state (or of its description) that is given twice or left out."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str | None], int] = {}

    def add(self, row: IntervalDocument) -> None:
        key = row.state, row.description
        last = self._last.get(key, 0)
        if row.rank <= last:
            raise InputError(
                f"rank {row.rank} of {_quoted(*key)} is given twice; keep one interval for each "
                "rank"
            )
        if row.rank != last + 1:
            raise InputError(
                f"rank {row.rank} of {_quoted(*key)} does not follow rank {row.rank - 1}"
            )
        self._last[key] = row.rank


def _quoted(state: str, description: str | None) -> str:
    more = "" if description is None else f', description "{description}"'
    return f'state "{state}"{more}'


def _check_unique(records: Iterable[Any]) -> Iterator[Any]:
    """Yields the records; refuses a history that is given twice."""
    seen = set()
    for record in records:
        if record.history_id in seen:
            raise InputError(f'history "{record.history_id}" is given twice; keep one')
        seen.add(record.history_id)
        yield record


def _is_csv(name: str) -> bool:
    return Path(name).suffix.lower() == ".csv"


def _rows(
    text: str, needed: tuple[str, ...], allowed: tuple[str, ...] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The line of each row of a CSV, and those of its cells that are not empty, by column."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(reader)]
        missing = [column for column in needed if column not in columns]
        if missing:
            raise InputError(
                f"no column {', '.join(missing)}; the first line must name the columns "
                f"{', '.join(needed)}, separated by commas"
            )
        if len(set(columns)) < len(columns):
            raise InputError("two columns have the same name")
        if allowed is not None:
            with named("line 1"):
                check_keys(columns, allowed)
        for cells in reader:
            if not cells:
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"line {reader.line_num}: {len(cells)} cells for {len(columns)} columns"
                )
            yield (
                f"line {reader.line_num}",
                {
                    column: cell if column in _TEXT_COLUMNS else cell.strip()
                    for column, cell in zip(columns, cells, strict=False)
                    if cell
                },
            )
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None
