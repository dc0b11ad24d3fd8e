"""Answers written to a file while they are computed: the whole file, or none."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from dejacue.errors import InputError, need
from dejacue.sources.atomic import check_place, write_whole
from dejacue.sources.documents import as_json
from dejacue.store import _index as index
from dejacue.store._listing import columns_of

if TYPE_CHECKING:
    from dejacue.store._answers import Answer

GROUP = 1 << 16  # answers in a row group of Parquet, and at most in memory
_COLUMNS = {
    "rank": "int64",
    "history": "string",
    "source": "string",
    "object_score": "float64",
    "state": "string",
    "description": "string",
    "start": "int64",
    "end": "int64",
    "score": "float64",
    "start_s": "float64",
    "end_s": "float64",
    "source_start": "int64",
    "source_end": "int64",
    "absent": "bool_",
    "notes": "string",
    "object": "string",
    "columns": "string",
}


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuses, before anything is asked, a file that could not be written."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise InputError(
            f"{path}: the file name decides the format; use one that ends in {', '.join(WRITERS)}"
        )
    if suffix == ".parquet":
        need("pyarrow.parquet", f"pip install pyarrow, or write {Path(path).stem}.csv")
    check_place(path)


class Described(NamedTuple):
    """An answer, and what is told of its history: the object, and columns of the manifest."""

    answer: Answer
    object: str | None
    columns: dict[str, str]

    def document(self) -> dict[str, Any]:
        return {**self.answer._asdict(), "object": self.object, "columns": self.columns}


def described(store: Path, answers: Iterable[Answer]) -> Iterator[Described]:
    """Answers of a history follow each other."""
    query = "SELECT object, made_with FROM histories WHERE id = ? AND dead = 0"
    with index.snapshot(store) as now:
        for id, several in groupby(answers, lambda own: own.history):
            object, made = now.execute(query, (id,)).fetchone() or (None, None)
            columns = columns_of(store, id, made)
            yield from (Described(own, object, columns) for own in several)


def write_answers(path: str | os.PathLike[str], answers: Iterator[Described]) -> int:
    """How many there were."""
    check_output(path)
    write, count = WRITERS[Path(path).suffix.lower()], 0

    def counted() -> Iterator[Described]:
        nonlocal count
        for answer in answers:
            count += 1
            yield answer

    write_whole(path, lambda stream: write(stream, counted()))
    return count


def _values(given: Described) -> tuple[Any, ...]:
    """In the order of the columns; pairs become two, the manifest's columns a JSON text."""
    own, object, columns = given
    times, frames = own.times_s or (None, None), own.source_frames or (None, None)
    more = (object, as_json(columns) if columns else None)
    return (*own[:9], *times, *frames, own.absent, own.notes, *more)


def _as_parquet(stream: IO[bytes], answers: Iterator[Described]) -> None:
    arrow, parquet = need("pyarrow", ""), need("pyarrow.parquet", "")
    schema = arrow.schema({name: getattr(arrow, kind)() for name, kind in _COLUMNS.items()})
    with parquet.ParquetWriter(stream, schema) as out:
        while group := [_values(own) for own in islice(answers, GROUP)]:
            columns = dict(zip(_COLUMNS, zip(*group, strict=True), strict=True))
            out.write_table(arrow.table(columns, schema))


def _as_csv(stream: IO[bytes], answers: Iterator[Described]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_values, answers))
    text.detach()  # flushes; whoever opened the stream closes it


def _as_jsonl(stream: IO[bytes], answers: Iterator[Described]) -> None:
    for own in answers:
        stream.write(f"{as_json(own.document())}\n".encode())


def _as_json(stream: IO[bytes], answers: Iterator[Described]) -> None:
    between = b"[\n"
    for own in answers:
        stream.write(between + as_json(own.document()).encode())
        between = b",\n"
    stream.write(b"\n]\n" if between == b",\n" else b"[]\n")


WRITERS: dict[str, Callable[[IO[bytes], Iterator[Described]], None]] = {
    ".parquet": _as_parquet,
    ".csv": _as_csv,
    ".jsonl": _as_jsonl,
    ".json": _as_json,
}
