"""Answers written to a file while they are computed: the whole file, or none."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dejacue.errors import InputError, need
from dejacue.sources.atomic import check_place, write_whole
from dejacue.sources.documents import as_json
from dejacue.store import _index as index
from dejacue.store._listing import columns_of

if TYPE_CHECKING:
    from dejacue.store._matches import Match

Row = dict[str, Any]
GROUP = 1 << 16  # answers in a row group of Parquet, and at most in memory
_INTERVAL = {
    "state": "string",
    "description": "string",
    "start": "int64",
    "end": "int64",
    "start_s": "float64",
    "end_s": "float64",
    "source_start": "int64",
    "source_end": "int64",
    "score": "float64",
}
_COLUMNS = {
    "rank": "int64",
    "history": "string",
    "source": "string",
    "object_score": "float64",
    **_INTERVAL,
    "notes": "string",
    "object": "string",
    "columns": "string",
}


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuse, before anything is asked, a file that could not be written."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise InputError(
            f"{path}: the file name decides the format; use one that ends in {', '.join(WRITERS)}"
        )
    if suffix == ".parquet":
        need("pyarrow.parquet", f"pip install pyarrow, or write {Path(path).stem}.csv")
    check_place(path)


def match_rows(store: Path, matches: Iterable[Match]) -> Iterator[Row]:
    """Give a flat dict for each match; those of a history must follow each other."""
    query = "SELECT object, made_with FROM histories WHERE id = ? AND dead = 0"
    with index.snapshot(store) as now:
        for id, several in groupby(matches, lambda match: match.history):
            object, made = now.execute(query, (id,)).fetchone() or (None, None)
            shared = {"object": object, "columns": columns_of(store, id, made)}
            yield from (_row(match) | shared for match in several)


def _row(match: Match) -> Row:
    row = match._asdict()
    interval, notes = row.pop("interval"), row.pop("notes")
    for name in _INTERVAL:
        row[name] = getattr(interval, name)
    return row | {"notes": " | ".join(notes) or None}


def write_rows(path: str | os.PathLike[str], rows: Iterator[Row]) -> int:
    """Write rows of ``match_rows`` and return how many there were."""
    check_output(path)
    write, count = WRITERS[Path(path).suffix.lower()], 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    write_whole(path, lambda stream: write(stream, counted()))
    return count


def _cells(row: Row) -> tuple[Any, ...]:
    """Return the values in the order of the columns; the manifest's columns are a JSON text."""
    *values, columns = row.values()
    return (*values, as_json(columns) if columns else None)


def _as_text(row: Row) -> str:
    """Return the row as JSON; values that are not known are left out."""
    return as_json({name: value for name, value in row.items() if value is not None})


def _as_parquet(stream: IO[bytes], rows: Iterator[Row]) -> None:
    arrow, parquet = need("pyarrow", ""), need("pyarrow.parquet", "")
    schema = arrow.schema({name: getattr(arrow, kind)() for name, kind in _COLUMNS.items()})
    with parquet.ParquetWriter(stream, schema) as out:
        while group := [_cells(row) for row in islice(rows, GROUP)]:
            columns = dict(zip(_COLUMNS, zip(*group, strict=True), strict=True))
            out.write_table(arrow.table(columns, schema))


def _as_csv(stream: IO[bytes], rows: Iterator[Row]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_cells, rows))
    text.detach()  # flushes; whoever opened the stream closes it


def _as_jsonl(stream: IO[bytes], rows: Iterator[Row]) -> None:
    for row in rows:
        stream.write(f"{_as_text(row)}\n".encode())


def _as_json(stream: IO[bytes], rows: Iterator[Row]) -> None:
    between = b"[\n"
    for row in rows:
        stream.write(between + _as_text(row).encode())
        between = b",\n"
    stream.write(b"\n]\n" if between == b",\n" else b"[]\n")


WRITERS: dict[str, Callable[[IO[bytes], Iterator[Row]], None]] = {
    ".parquet": _as_parquet,
    ".csv": _as_csv,
    ".jsonl": _as_jsonl,
    ".json": _as_json,
}
