"""The answers of a store: one match after the other, as columns, or in a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import check_place, write_whole
from dejacue.corpus import _index as index
from dejacue.corpus._packing import manifest_columns
from dejacue.errors import InputError, StrPath, need
from dejacue.files.documents import as_json
from dejacue.files.formats.tables import as_cell
from dejacue.records import Interval, Note, Timeline
from dejacue.records.note import in_order
from dejacue.records.timeline import Tabular

Row = dict[str, Any]
PARQUET_GROUP_ROWS = 1 << 16
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
    "confidence": "float64",
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


class RankedTimeline(NamedTuple):
    """The answers in histories that come after ``before`` others in the ranking."""

    timeline: Timeline
    sources: Sequence[str | None]
    object_scores: NDArray[np.float64]
    before: int


class Match(NamedTuple):
    """An occurrence of a state in a history of a store.

    rank           of the history, from 1: the one that looks most like the object
    object_score   how much it does, see ``Store.query``
    notes          what a reader must know of the answers in this history
    """

    rank: int
    history: str
    source: str | None
    object_score: float
    interval: Interval
    notes: tuple[Note, ...] = ()


class Matches(Tabular, Iterator[Match]):
    """The answers of a store, the likeliest objects first and of each all occurrences in time;
    computed a chunk at a time while they are iterated over, and once.

    meaningless   histories so far that have no answer, and why
    """

    def __init__(self, chunks: Iterator[RankedTimeline], store: Path) -> None:
        self._chunks, self._store = chunks, store
        self._consumed = False
        self.meaningless: dict[str, Note] = {}
        self._matches = chain.from_iterable(map(self._matches_of, chunks))

    def __repr__(self) -> str:
        how = "already read" if self._consumed else "computed when they are read, once"
        return f"<Matches in {self._store}: {how}>"

    def __iter__(self) -> Matches:
        self._check_not_consumed()
        return self

    def _check_not_consumed(self) -> None:
        if self._consumed:
            raise InputError(
                "these answers have already been read and are not kept; "
                "query again, or keep them: answers = list(store.query(…))"
            )

    def __next__(self) -> Match:
        for match in self._matches:
            if match.interval is not None:
                return match
        self._consumed = True
        raise StopIteration

    def _matches_of(self, chunk: RankedTimeline) -> Iterator[Match]:
        """Yield the matches of a chunk; for ``rows``, also one without an interval for a history
        whose answer is meaningless: its first note says why."""
        timeline = chunk.timeline
        intervals: dict[str, list[Interval]] = {}
        for id, interval in zip(timeline.columns()["history"], timeline.intervals, strict=True):
            intervals.setdefault(id, []).append(interval)
        scores = chunk.object_scores.tolist()
        subjects = zip(timeline.subjects, chunk.sources, scores, strict=True)
        for rank, (subject, source, score) in enumerate(subjects, start=chunk.before + 1):
            history = rank, subject.id, source, score
            if subject.meaningless:
                self.meaningless[subject.id] = subject.meaningless
                yield Match(*history, None, subject.notes)  # type: ignore[arg-type]
            for interval in intervals.get(subject.id, ()):
                yield Match(*history, interval, subject.notes)

    def columns(self) -> dict[str, Any]:
        """Return named columns of equal length: arrays of numbers, lists of text.

        rank (of the history), history, source, object_score; then those of ``Timeline.columns``.
        """
        self._check_not_consumed()
        self._consumed = True
        chunks = list(self._chunks)
        timeline = Timeline.joined([chunk.timeline for chunk in chunks])
        table = timeline.columns()
        places = {subject.id: at for at, subject in enumerate(timeline.subjects)}
        which = np.array([places[id] for id in table["history"]], np.int64)
        sources = [source for chunk in chunks for source in chunk.sources]
        scores = np.concatenate([np.empty(0), *(chunk.object_scores for chunk in chunks)])
        first = {
            "rank": which + 1,
            "history": [timeline.subjects[at].id for at in which],
            "source": [sources[at] for at in which],
            "object_score": scores[which],
        }
        return first | {name: values for name, values in table.items() if name != "history"}

    def rows(self, notes: Sequence[str] = ()) -> Iterator[Row]:
        """Yield each match as a flat dict, with the object and the manifest's columns of its
        history; None where a value is not known. A history without an answer has a row without
        a state, whose notes say why.

        notes   warnings that hold for every answer, such as those of ``encoded_words``
        """
        self._check_not_consumed()
        query = "SELECT object, made_with FROM histories WHERE id = ? AND dead = 0"
        with index.snapshot(self._store) as now:
            for id, of_history in groupby(self._matches, lambda match: match.history):
                object, made_with = now.execute(query, (id,)).fetchone() or (None, None)
                index.check_texts((object,), optional=1)
                columns = manifest_columns(self._store, id, made_with)
                for match in of_history:
                    row = match._asdict()
                    interval, lines = row.pop("interval"), in_order((*notes, *match.notes))
                    row |= {name: getattr(interval, name, None) for name in _INTERVAL}
                    del row["notes"]  # they come after the interval
                    row["notes"] = " | ".join(note.line for note in lines) or None
                    yield row | {"object": object, "columns": columns}
        self._consumed = True

    def write(self, path: StrPath, notes: Sequence[str] = ()) -> int:
        """Write ``rows`` to a .parquet, .csv, .jsonl or .json file while they are computed, so that
        memory stays flat, and return how many there were; the file is there whole, or not at all.
        """
        check_output(path)
        self._check_not_consumed()
        write, count = WRITERS[Path(path).suffix.lower()], 0

        def counted() -> Iterator[Row]:
            nonlocal count
            for row in self.rows(notes):
                count += 1
                yield row

        write_whole(path, lambda stream: write(stream, counted()))
        return count


def check_output(path: StrPath) -> None:
    """Refuse, before a store is queried, a file that could not be written."""
    suffix = Path(path).suffix.lower()
    if suffix not in WRITERS:
        problem = "the file name decides the format"
        raise InputError(f"{path}: {problem}; use one that ends in {', '.join(WRITERS)}")
    if suffix == ".parquet":
        need("pyarrow.parquet", f"pip install pyarrow, or write {Path(path).stem}.csv")
    check_place(path)


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
        while group := [_cells(row) for row in islice(rows, PARQUET_GROUP_ROWS)]:
            columns = dict(zip(_COLUMNS, zip(*group, strict=True), strict=True))
            out.write_table(arrow.table(columns, schema))


def _as_csv(stream: IO[bytes], rows: Iterator[Row]) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(map(as_cell, _cells(row)) for row in rows)
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
