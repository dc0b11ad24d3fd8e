"""References and retrievals on disk: JSON or CSV → records, and back.

docs/files.md describes the formats. A problem is one sentence that names the file and the history
or the line.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from dejacue.errors import InputError
from dejacue.records import (
    RETRIEVAL_SCHEMA,
    Alternative,
    Moment,
    Reference,
    Retrieval,
    Window,
)
from dejacue.sources.atomic import write_text, write_whole
from dejacue.sources.documents import (
    as_json,
    check_document,
    check_keys,
    check_object,
    check_schema,
    named,
    parse_documents,
    read_text,
    whole_number,
    window_of,
    write_document,
)

REFERENCES_SCHEMA = "dejacue.references/1"
MOST_RESULT_BYTES = 256 << 20
LEVELS = ("description", "state")
_REFERENCE_KEYS = ("history", "component", "frames", "states", "descriptions")
_REFERENCE_COLUMNS = ("history", "state", "start", "end", "component")
_NUMBERS = {
    **dict.fromkeys(("start", "end", "source_start", "source_end", "rank"), int),
    **dict.fromkeys(("score", "start_s", "end_s", "p_value"), float),
}
_MOMENT_KEYS = ("state", "description", "start", "end")
_RETRIEVAL_COLUMNS = ("history", *_MOMENT_KEYS)


def read_references(path: str | os.PathLike[str]) -> list[Reference]:
    """References from JSON, or from a ``.csv`` with the columns history, state, start, end and,
    if histories share their source, component: one row per window."""
    name = os.fspath(path)
    text = read_text(name, MOST_RESULT_BYTES, "split it")
    with named(name):
        if _is_csv(name):
            return _references_from_rows(text)
        documents = _documents(text)
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError(
                'references are one JSON object with the key "histories"; in dejacue evaluate '
                "they are the last file"
            )
        check_document(documents[0], REFERENCES_SCHEMA, ("histories",))
        rows = documents[0].get("histories")
        if not isinstance(rows, list):
            raise InputError('"histories" is missing or not a list')
        return list(_check_unique(_reference(row, f"history {n}") for n, row in enumerate(rows, 1)))


def write_references(path: str | os.PathLike[str], references: Iterable[Reference]) -> Path:
    """Write references as JSON, or as CSV if the name ends in ``.csv``; whole or not at all."""
    records = list(_check_unique(references))
    if _is_csv(os.fspath(path)):
        stream = io.StringIO()
        style: Any = {"lineterminator": "\n", "quoting": csv.QUOTE_NONNUMERIC}  # a name may hold \r
        writer = csv.DictWriter(stream, _REFERENCE_COLUMNS, **style)
        writer.writeheader()
        for record in records:
            if record.frames is not None or record.descriptions is not None:
                raise InputError(
                    f"{path}: a CSV has no place for the frames and descriptions of history "
                    f'"{record.history_id}"; give a name that ends in .json'
                )
            writer.writerows(record.to_rows())
        return write_text(path, stream.getvalue())
    return write_document(
        path, {"schema": REFERENCES_SCHEMA}, "histories", (_as_line(record) for record in records)
    )


def read_retrievals(path: str | os.PathLike[str]) -> list[Retrieval]:
    """Retrievals from JSON or from a ``.csv``.

    JSON   one document as ``Retrieval.to_dict`` gives it, several (one after the other, as in
           JSON lines), a list of them, or ``{"retrievals": [...]}``
    CSV    the rows of ``Retrieval.to_rows`` under their names, of any number of histories; only
           history, state, description, start and end must be there

    Diagnostics are not read back. A missing score is read as 0: the evaluation of one window per
    description does not use it.
    """
    name = os.fspath(path)
    text = read_text(name, MOST_RESULT_BYTES, "split it")
    with named(name):
        if _is_csv(name):
            return _retrievals_from_rows(text)
        documents = _documents(text)
        if len(documents) == 1 and isinstance(documents[0], list):
            documents = documents[0]
        elif len(documents) == 1 and isinstance(documents[0], dict):
            documents = documents[0].get("retrievals", documents)
            if not isinstance(documents, list):
                raise InputError('"retrievals" must be a list')
        return list(
            _check_unique(_retrieval(row, f"retrieval {n}") for n, row in enumerate(documents, 1))
        )


def write_retrievals(path: str | os.PathLike[str], retrievals: Iterable[Retrieval]) -> Path:
    """Write retrievals as a JSON list, or as JSON lines if the name ends in ``.jsonl``.

    They are taken one at a time, so that a long generator needs no memory; the file appears
    whole or not at all.
    """
    if _is_csv(os.fspath(path)):
        raise InputError(f"{path}: retrievals are written as JSON; give a name that ends in .json")
    lines = Path(path).suffix.lower() == ".jsonl"
    opening, between, closing = ("", "\n", "\n") if lines else ("[\n", ",\n", "\n]\n")

    def write(stream: IO[bytes]) -> None:
        stream.write(opening.encode())
        for at, retrieval in enumerate(_check_unique(retrievals)):
            stream.write(f"{between if at else ''}{_as_line(retrieval)}".encode())
        stream.write(closing.encode())

    return write_whole(path, write)


def _documents(text: str) -> list[Any]:
    return parse_documents(text, remedy="the name of a CSV file ends in .csv")


def _as_line(record: Reference | Retrieval) -> str:
    with named(f'history "{record.history_id}"'):
        return as_json(record.to_dict())


def _reference(row: Any, where: str) -> Reference:
    with named(where):
        check_object(row, _REFERENCE_KEYS)
        where = f'history "{_text(row, "history")}"'
    states, texts, frames = (row.get(key) for key in ("states", "descriptions", "frames"))
    with named(where):
        check_keys(row, _REFERENCE_KEYS)
        if not _maps_to_lists(states):
            raise InputError('"states" must map each state to [[start, end], …]')
        if texts is not None and not _maps_to_lists(texts):
            raise InputError('"descriptions" must map states to lists of sentences')
    return Reference(
        row["history"],
        {
            state: tuple(_pair(pair, f'{where}, state "{state}"') for pair in own)
            for state, own in states.items()
        },
        row.get("component"),
        None if frames is None else _pair(frames, f"{where}, frames"),
        texts,
    )


def _maps_to_lists(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(own, list) for own in value.values())


def _references_from_rows(text: str) -> list[Reference]:
    states: dict[str, dict[str, list[Window]]] = {}
    components: dict[str, str] = {}
    for where, row in _rows(text, _REFERENCE_COLUMNS[:-1], allowed=_REFERENCE_COLUMNS):
        with named(where):
            history, state = _text(row, "history"), _text(row, "state")
            states.setdefault(history, {}).setdefault(state, []).append(window_of(row))
            component = row.get("component")
            if component is not None and components.setdefault(history, component) != component:
                raise InputError(
                    f'history "{history}" has the component "{component}" here and '
                    f'"{components[history]}" before; a history has one'
                )
    return [
        Reference(history, own, components.get(history))  # type: ignore[arg-type]
        for history, own in states.items()
    ]


def _retrieval(row: Any, where: str) -> Retrieval:
    with named(where):
        if not isinstance(row, dict):
            raise InputError("is not a retrieval, which has a history and its moments")
        check_schema(row.get("schema", RETRIEVAL_SCHEMA), RETRIEVAL_SCHEMA)
        if not isinstance(row.get("moments"), list):
            hint = "; it holds references, which come last" if "histories" in row else ""
            raise InputError(f"has no list of moments{hint}")
        where = f'history "{_text(row, "history")}"'
    settings, notes, encoder = row.get("settings", {}), row.get("notes", []), row.get("encoder")
    with named(where):
        if not isinstance(settings, dict) or not isinstance(notes, list):
            raise InputError("settings must be an object and notes a list")
        if not all(isinstance(text, str) for text in (*notes, "" if encoder is None else encoder)):
            raise InputError("the encoder and the notes must be text")
    moments: dict[tuple[str, str], Moment] = {}
    for at, given in enumerate(row["moments"], start=1):
        with named(f"{where}, moment {at}"):
            check_object(given, _MOMENT_KEYS)
            _add(moments, _moment(given))
    return Retrieval(tuple(moments.values()), settings, row["history"], encoder, tuple(notes))


def _moment(row: Mapping[str, Any]) -> Moment:
    """One moment of a JSON document, or one rank of a CSV."""
    level = row.get("level") or LEVELS[0]
    if level not in LEVELS:
        raise InputError(f"level {level!r:.40} is neither description nor state")
    others = row.get("alternatives", [])
    if not isinstance(others, list) or not all(isinstance(other, dict) for other in others):
        raise InputError("alternatives must be a list of windows")
    return Moment(
        state=_text(row, "state"),
        description=_text(row, "description"),
        window=window_of(row),
        score=_score(row),
        level=level,
        times_s=_times(row),
        alternatives=tuple(
            Alternative(window_of(other), _score(other), _times(other), _source(other))
            for other in others
        ),
        source=_source(row),
        p_value=_number(row, "p_value") if row.get("p_value") is not None else None,
        absent=str(row.get("absent", False)).lower() == "true",
    )


def _times(row: Mapping[str, Any]) -> tuple[float, float] | None:
    times = tuple(_number(row, key) for key in ("start_s", "end_s") if key in row)
    if len(times) == 1:
        raise InputError("has only one of start_s and end_s")
    return times or None  # type: ignore[return-value]  # two of them


def _source(row: Mapping[str, Any]) -> Window | None:
    """The window in frames of the file, where it differs."""
    found = [whole_number(row[key], key) for key in ("source_start", "source_end") if key in row]
    if len(found) == 1:
        raise InputError("has only one of source_start and source_end")
    return Window(*found) if found else None


def _retrievals_from_rows(text: str) -> list[Retrieval]:
    histories: dict[str, dict[tuple[str, str], Moment]] = {}
    for where, row in _rows(text, _RETRIEVAL_COLUMNS):
        with named(where):
            own = histories.setdefault(_text(row, "history"), {})
            rank = whole_number(row.get("rank", 1), "rank")
            moment = _moment(row)
            if rank == 1:
                _add(own, moment)
                continue
            key = (moment.state, moment.description)
            if key not in own or len(own[key].alternatives) != rank - 2:
                raise InputError(f"rank {rank} does not follow rank {rank - 1} of its moment")
            other = Alternative(moment.window, moment.score, moment.times_s, moment.source)
            own[key] = replace(own[key], alternatives=(*own[key].alternatives, other))
    return [Retrieval(tuple(own.values()), {}, history) for history, own in histories.items()]


def _add(moments: dict[tuple[str, str], Moment], moment: Moment) -> None:
    key = (moment.state, moment.description)
    if key in moments:
        raise InputError(
            f'state "{moment.state}", description "{moment.description}" is given twice; '
            "keep one window for each"
        )
    moments[key] = moment


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is missing, empty or not text")
    return value


def _pair(pair: Any, where: str) -> Window:
    with named(where):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{pair!r:.40} is not a window [start, end]")
        return window_of({"start": pair[0], "end": pair[1]})


def _score(row: Mapping[str, Any]) -> float:
    return _number(row, "score") if "score" in row else 0.0


def _number(row: Mapping[str, Any], key: str) -> float:
    value = row[key]
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise InputError(f"{key} {value!r:.40} is not a finite number")
    return float(value)


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
    """The line of each row of a CSV, and its cells by column: numbers as numbers, none if empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [column.strip() for column in next(reader)]
        missing = [column for column in needed if column not in columns]
        if missing:
            raise InputError(
                f"no column {', '.join(missing)}; the first line names the columns "
                f"{', '.join(needed)}, separated by commas"
            )
        if len(set(columns)) < len(columns):
            raise InputError("two columns have the same name")
        if allowed is not None:
            with named("line 1"):
                check_keys(dict.fromkeys(columns), allowed)
        for cells in reader:
            if len(cells) not in (0, len(columns)):
                raise InputError(
                    f"line {reader.line_num}: {len(cells)} cells under {len(columns)} columns"
                )
            if cells:
                row = zip(columns, cells, strict=True)
                yield f"line {reader.line_num}", {c: _cell(c, text) for c, text in row if text}
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _cell(column: str, text: str) -> Any:
    if "_" in text:  # Python reads 1_0 as a number
        return text
    try:
        return _NUMBERS.get(column, str)(text)
    except ValueError:
        return text  # refused, with the text, where a number is needed
