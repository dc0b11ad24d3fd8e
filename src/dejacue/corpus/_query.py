"""One vocabulary over all histories of a store: is this the object, and when in which state?

    means of the frames · centre of the words ──▶ order of the histories
    rows of the first ``top`` of them ──▶ locate_many ──▶ every occurrence of each state

Histories are read in that order, a few megabytes at a time, so that the best come first, memory
stays flat, and rows are still in the cache of the processor when the kernel reads them. With Ray,
they are read here and answered on several machines. A query sees the store as it was when it began.
"""

from __future__ import annotations

import contextlib
import csv
import io
import operator
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby, islice, starmap
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.atomic import check_place, write_whole
from dejacue.corpus import _file as file
from dejacue.corpus.cluster import check_version, connected
from dejacue.errors import InputError, StrPath, need
from dejacue.files.documents import as_json
from dejacue.files.formats.tables import as_cell
from dejacue.method.coordinates import unit_rows
from dejacue.method.localization import Plan, locate_many
from dejacue.method.readout import Readout
from dejacue.progress import Progress
from dejacue.records import History, Interval, Note, Timeline, Vocabulary
from dejacue.records.arrays import Floats
from dejacue.records.history import MEANINGLESS
from dejacue.records.note import in_order
from dejacue.records.timeline import Tabular

if TYPE_CHECKING:
    from dejacue.corpus._store import Store

CHUNK_BYTES = 32 << 20  # of features in a call of the kernel, unless one history is larger
CHUNK_HISTORIES = 1024
TASKS_PER_CORE = 2  # that wait or are done
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


class Chunk(NamedTuple):
    """Histories that come after ``before`` others in the ranking."""

    histories: Sequence[History]
    entries: Sequence[file.Entry]
    object_scores: NDArray[np.float64]
    before: int


class Asked(NamedTuple):
    """A question to a store: what is looked for, where and how; centre: what objects look like
    (None: what the words have in common)."""

    vocabulary: Vocabulary
    readout: str | Readout
    trust: bool
    centre: Floats | None
    where: Mapping[str, str] | None
    top: int | None


def answer(asked: Asked, chunk: Chunk) -> Timeline:
    histories, vocabulary, readout = chunk.histories, asked.vocabulary, asked.readout
    if not asked.trust:
        return locate_many(histories, vocabulary, readout=readout).joined()
    plan = Plan.of(None, readout)
    views = (plan.view(history, vocabulary) for history in histories)
    return Timeline.joined([plan.analyse(view) for view in views])


def answer_there(asked: Asked, version: str, chunk: Chunk) -> Timeline:
    """Do it on another machine."""
    check_version(version)
    return answer(asked, chunk)


def answers(
    store: Store,
    asked: Asked,
    threads: int,
    engine: str,
    ray_address: str | None,
    progress: Progress,
) -> Iterator[tuple[Chunk, Timeline]]:
    """Yield histories and what is found in them, the likeliest objects first."""
    with contextlib.ExitStack() as stack:
        now = stack.enter_context(file.snapshot(store.path))
        numbers, scores = _ranked(store, now, asked)
        submit: Callable[[Chunk], Any] = partial(partial, answer, asked)
        result: Callable[[Any], Timeline] = operator.call
        ahead = 0
        if engine == "ray":
            # tasks that nobody waits for any more run to their end, a few at most: ray.cancel
            # (2.60) ends this process where the task has just failed
            ray = stack.enter_context(connected(ray_address))
            submit = partial(ray.remote(answer_there).remote, ray.put(asked), __version__)
            result, ahead = ray.get, TASKS_PER_CORE * int(ray.cluster_resources().get("CPU", 1))
        elif threads > 1:  # this thread reads while others work on earlier chunks
            pool = ThreadPoolExecutor(threads)
            stack.callback(pool.shutdown, cancel_futures=True)
            submit = lambda chunk: pool.submit(answer, asked, chunk)  # noqa: E731
            result, ahead = Future.result, threads
        waiting: deque[tuple[Chunk, Any]] = deque()

        def finished(most: int) -> Iterator[tuple[Chunk, Timeline]]:
            while len(waiting) > most:
                chunk, task = waiting.popleft()
                yield chunk, result(task)
                progress("query", chunk.before + len(chunk.histories), len(numbers))

        for chunk in _chunks(store, now, numbers, scores):
            waiting.append((chunk, submit(chunk)))
            yield from finished(ahead)
        yield from finished(0)


def _ranked(
    store: Store, now: sqlite3.Connection, asked: Asked
) -> tuple[list[int], NDArray[np.float64]]:
    """Return the numbers of the histories and how much each looks like the object, best first.
    Where nothing was removed, nothing is read of the histories: a million are ranked at once."""
    centre = asked.centre
    if centre is None:
        assert asked.vocabulary.features is not None
        centre = asked.vocabulary.weights @ unit_rows(asked.vocabulary.features)
    unit = (centre / max(float(np.linalg.norm(centre)), 1e-12)).astype(np.float32)
    blocks, parts = [np.empty(0, np.int64)], [np.empty(0)]
    with np.errstate(all="ignore"):
        for block, data in now.execute("SELECT block, rows FROM means ORDER BY block"):
            if len(data) % unit.nbytes:
                raise sqlite3.DatabaseError("mean rows without an end")
            means = np.frombuffer(data, file.MEANS).reshape(-1, len(unit))
            # not @: what BLAS gives for a row depends on how many there are
            parts.append(np.einsum("hd,d->h", means, unit))
            blocks.append(block * file.MEANS_BLOCK + 1 + np.arange(len(means)))
    numbers, scores = np.concatenate(blocks), np.concatenate(parts)
    (count,) = now.execute("SELECT count(*) FROM histories").fetchone()
    if asked.where or count != len(numbers):
        condition, values = file.condition(now, asked.where)
        query = f"SELECT number FROM histories WHERE {condition} ORDER BY number"
        chosen = np.fromiter((row[0] for row in now.execute(query, values)), np.int64)
        at = np.searchsorted(numbers, chosen)
        if len(chosen) and not (at[-1] < len(numbers) and (numbers[at] == chosen).all()):
            raise sqlite3.DatabaseError("a history without a mean row")
        numbers, scores = chosen, scores[at]
    if not np.isfinite(scores).all():
        problem = "mean rows are damaged; dejacue store verify lists the affected histories"
        raise InputError(f"{store.path}: {problem}")
    order = highest(scores, asked.top)
    return numbers[order].tolist(), scores[order]


def _chunks(
    store: Store, now: sqlite3.Connection, numbers: Sequence[int], scores: NDArray[np.float64]
) -> Iterator[Chunk]:
    """Read histories, and yield as many at a time as a call of the kernel takes."""
    # once so much was freed, glibc keeps the memory of features for the next ones: otherwise the
    # system takes it back and clears it for each, and reading takes ten times as long
    np.empty(24 << 20, np.uint8)
    histories: list[History] = []
    entries: list[file.Entry] = []
    before = size = 0
    for done, number in enumerate(numbers, 1):
        found = file.read_history(now, number)
        if found is None:
            raise sqlite3.DatabaseError("a mean row without a history")
        entry, data = found
        # the rest of made_with changes no answer, and takes longer to read than the features
        read = entry if MEANINGLESS in (entry.made_with or "") else entry._replace(made_with=None)
        histories.append(store.unpacked(read, data))
        entries.append(entry)
        size += len(data)
        if size >= CHUNK_BYTES or done - before == CHUNK_HISTORIES or done == len(numbers):
            yield Chunk(histories, entries, scores[before:done], before)
            histories, entries, before, size = [], [], done, 0


def highest(scores: NDArray[np.float64], top: int | None) -> NDArray[np.int64]:
    """Return where the highest scores are, the highest first; of equal ones the first."""
    if top is None or top >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -top)[-top]
    chosen = np.flatnonzero(scores >= least)
    return chosen[np.argsort(-scores[chosen], kind="stable")[:top]]


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

    def __init__(self, chunks: Iterator[tuple[Chunk, Timeline]], store: Path) -> None:
        self._chunks, self._store = chunks, store
        self._consumed = False
        self.meaningless: dict[str, Note] = {}
        self._entries: dict[str, file.Entry] = {}  # of the histories of the last chunk
        self._matches = chain.from_iterable(starmap(self._matches_of, chunks))

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

    def _matches_of(self, chunk: Chunk, timeline: Timeline) -> Iterator[Match]:
        """Yield the matches of a chunk; for ``rows``, also one without an interval for a history
        whose answer is meaningless: its first note says why."""
        intervals: dict[str, list[Interval]] = {}
        for id, interval in zip(timeline.columns()["history"], timeline.intervals, strict=True):
            intervals.setdefault(id, []).append(interval)
        self._entries = {entry.id: entry for entry in chunk.entries}
        subjects = zip(timeline.subjects, chunk.entries, chunk.object_scores.tolist(), strict=True)
        for rank, (subject, entry, score) in enumerate(subjects, start=chunk.before + 1):
            history = rank, subject.id, entry.source, score
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
        sources: list[str | None] = []
        scores, timelines = [np.empty(0)], []
        for chunk, found in self._chunks:
            sources += [entry.source for entry in chunk.entries]
            scores.append(chunk.object_scores)
            timelines.append(found)
        timeline = Timeline.joined(timelines)
        table = timeline.columns()
        places = {subject.id: at for at, subject in enumerate(timeline.subjects)}
        which = np.array([places[id] for id in table["history"]], np.int64)
        first = {
            "rank": which + 1,
            "history": [timeline.subjects[at].id for at in which],
            "source": [sources[at] for at in which],
            "object_score": np.concatenate(scores)[which],
        }
        return first | {name: values for name, values in table.items() if name != "history"}

    def rows(self, notes: Sequence[str] = ()) -> Iterator[Row]:
        """Yield each match as a flat dict, with the object and the manifest's columns of its
        history; None where a value is not known. A history without an answer has a row without
        a state, whose notes say why.

        notes   warnings that hold for every answer, such as those of ``encoded_words``
        """
        self._check_not_consumed()
        for id, of_history in groupby(self._matches, lambda match: match.history):
            entry = self._entries[id]
            columns = file.manifest_columns(self._store, id, entry.made_with)
            for match in of_history:
                row = match._asdict()
                interval, lines = row.pop("interval"), in_order((*notes, *match.notes))
                row |= {name: getattr(interval, name, None) for name in _INTERVAL}
                del row["notes"]  # they come after the interval
                row["notes"] = " | ".join(note.line for note in lines) or None
                yield row | {"object": entry.object, "columns": columns}
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
