"""Answers written to a file while they are computed: the whole file, or none."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dejacue.errors import InputError, need
from dejacue.sources.atomic import check_place, write_whole
from dejacue.sources.documents import as_json

if TYPE_CHECKING:
    from dejacue.store._ask import Answer

GROUP = 1 << 16  # answers in a row group of Parquet, and at most in memory
_COLUMNS = {
    "rank": "int64", "history": "string", "source": "string", "object_score": "float64",
    "state": "string", "description": "string", "start": "int64", "end": "int64",
    "score": "float64", "start_s": "float64", "end_s": "float64", "source_start": "int64",
    "source_end": "int64", "absent": "bool_", "notes": "string",
}  # fmt: skip


def check_output(path: str | os.PathLike[str]) -> None:
    """Refuses, before anything is asked, a file that could not be written."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        raise InputError(
            f"{path}: which format is told by the name; let it end in {', '.join(WRITERS)}"
        )
    if suffix == ".parquet":
        need("pyarrow.parquet", f"pip install pyarrow, or write {Path(path).stem}.csv")
    check_place(path)


def write_answers(path: str | os.PathLike[str], answers: Iterator[Answer]) -> int:
    """How many there were."""
    check_output(path)
    write, count = WRITERS[Path(path).suffix.lower()], 0

    def counted() -> Iterator[Answer]:
        nonlocal count
        for answer in answers:
            count += 1
            yield answer

    write_whole(path, lambda stream: write(stream, counted()))
    return count


def _values(own: Answer) -> tuple[Any, ...]:
    """In the order of the columns; pairs become two of them."""
    times, frames = own.times_s or (None, None), own.source_frames or (None, None)
    return (*own[:9], *times, *frames, own.absent, own.notes)


def _as_parquet(stream: IO[bytes], answers: Iterator[Answer]) -> None:
    arrow, parquet = need("pyarrow", ""), need("pyarrow.parquet", "")
    schema = arrow.schema({name: getattr(arrow, kind)() for name, kind in _COLUMNS.items()})
    with parquet.ParquetWriter(stream, schema) as out:
        while group := [_values(own) for own in islice(answers, GROUP)]:
            columns = dict(zip(_COLUMNS, zip(*group, strict=True), strict=True))
            out.write_table(arrow.table(columns, schema))


def _as_csv(stream: IO[bytes], answers: Iterator[Answer]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(_values, answers))
    text.detach()  # flushes; whoever opened the stream closes it


def _as_jsonl(stream: IO[bytes], answers: Iterator[Answer]) -> None:
    for own in answers:
        stream.write(f"{as_json(own._asdict())}\n".encode())


def _as_json(stream: IO[bytes], answers: Iterator[Answer]) -> None:
    between = b"[\n"
    for own in answers:
        stream.write(between + as_json(own._asdict()).encode())
        between = b",\n"
    stream.write(b"\n]\n" if between == b",\n" else b"[]\n")


WRITERS: dict[str, Callable[[IO[bytes], Iterator[Answer]], None]] = {
    ".parquet": _as_parquet, ".csv": _as_csv, ".jsonl": _as_jsonl, ".json": _as_json,
}  # fmt: skip
