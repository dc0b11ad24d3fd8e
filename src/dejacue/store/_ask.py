"""One vocabulary over all histories of a store: is this the object, and when in which state?

    means of the frames · centre of the words ──▶ order of the histories
    rows of the first ``top`` of them ──▶ locate_many ──▶ windows

Histories are read in that order, a chunk at a time, so that the best come first and memory stays
flat; with Ray, chunks are read on several machines. A question sees the store as it was when it
began.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.cluster import check_engine
from dejacue.errors import InputError, need
from dejacue.method.batch import CHUNK_BYTES, CHUNK_HISTORIES
from dejacue.method.coordinates import unit_rows
from dejacue.method.plan import Plan
from dejacue.method.state_readout import is_count
from dejacue.method.view import Readout
from dejacue.progress import Progress
from dejacue.records import History, Vocabulary
from dejacue.records._dataframe import dataframe
from dejacue.records.columns import joined_tables
from dejacue.store import _index as index
from dejacue.store._output import write_answers
from dejacue.store._packing import Packed, unpacked
from dejacue.store._question import Question, Table
from dejacue.store._segments import Segment
from dejacue.store._spread import Entry, Part, spread

if TYPE_CHECKING:
    from dejacue.store._store import Store

_LOOKED_AT = "segment, slot, first, length, id, source, interval_s, runs, times_s, source_frames"
_EMPTY: Table = {
    "rank": np.empty(0, np.int64), "history": [], "source": [], "object_score": np.empty(0),
    "state": [], "description": [], "start": np.empty(0, np.int64), "end": np.empty(0, np.int64),
    "score": np.empty(0), "level": [],
}  # fmt: skip


class Answer(NamedTuple):
    """A window of a state (or description) in a history; rank is that of the history, from 1."""

    rank: int
    history: str
    source: str | None
    object_score: float
    state: str
    description: str
    start: int
    end: int
    score: float
    times_s: tuple[float, float] | None
    source_frames: tuple[int, int] | None
    absent: bool
    notes: str | None


class Asked(Iterator[Answer]):
    """The answers of a store, the likeliest objects first and of each the clearest state first;
    computed a chunk at a time, when they are asked for, and once."""

    def __init__(self, tables: Iterator[Table]) -> None:
        self._tables = tables
        self._now: Iterator[Answer] = iter(())
        self._read = False

    def __iter__(self) -> Asked:
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        if self._read:
            raise InputError(
                "these answers have been read already, and are not kept; ask again, or keep them: "
                "answers = list(store.ask(…))"
            )

    def __next__(self) -> Answer:
        while True:
            for answer in self._now:
                return answer
            table = next(self._tables, None)
            if table is None:
                self._read = True
                raise StopIteration
            self._now = _answers(table)

    def columns(self) -> Table:
        """Named columns of equal length: arrays of numbers, lists of text."""
        self._check_unread()
        self._read = True
        return joined_tables(list(self._tables) or [_EMPTY])

    def to_dataframe(self, library: str | None = None) -> Any:
        """A pandas or polars data frame, whichever is installed (pandas first) or named."""
        return dataframe(self.columns, library)

    def to_arrow(self) -> Any:
        """A pyarrow table."""
        return need("pyarrow", "pip install pyarrow").table(self.columns())

    def write(self, path: str | os.PathLike[str]) -> int:
        """Writes them to a .parquet, .csv, .jsonl or .json file while they are computed, so that
        memory stays flat; the file is there whole, or not at all. How many there were."""
        return write_answers(path, iter(self))


def _answers(table: Table) -> Iterator[Answer]:
    count = len(table["start"])

    def column(name: str, missing: Any = None) -> list[Any]:
        values: Any = table.get(name, [missing] * count)
        return list(values.tolist() if isinstance(values, np.ndarray) else values)

    nothing = [None] * count
    times = zip(column("start_s"), column("end_s"), strict=True) if "start_s" in table else nothing
    frames = (
        zip(column("source_start"), column("source_end"), strict=True)
        if "source_start" in table else nothing
    )  # fmt: skip
    plain = (column(name) for name in Answer._fields[:9])
    more = (column("absent", False), column("notes"))
    for *own, when, where, absent, notes in zip(*plain, times, frames, *more, strict=True):
        when = None if when is None or when[0] != when[0] else when
        where = None if where is None or where[0] < 0 else where
        yield Answer._make((*own, when, where, absent, notes))


def ask(
    store: Store, vocabulary: Vocabulary, readout: str | Readout, top: int | None,
    where: Mapping[str, str] | None, threads: int, engine: str, ray_address: str | None,
    progress: Progress,
) -> Asked:  # fmt: skip
    _check(store, vocabulary)
    check_engine(engine, ray_address)
    Plan.of(None, readout, None, 1, False, "auto")  # refuses a readout that is not known
    if top is not None and not is_count(top, 1):
        raise InputError(f"top={top}: give the number of histories, 1 or more")
    if not is_count(threads, 1):
        raise InputError(f"threads {threads} must be at least 1")
    with index.snapshot(store.path) as now:
        index.condition(now, where)  # refuses names that are not known
    read = _Reader(store, Question(vocabulary, readout, threads))
    return Asked(read.tables(top, where, engine, ray_address, progress))


def _check(store: Store, vocabulary: Vocabulary) -> None:
    if not isinstance(vocabulary, Vocabulary):
        raise InputError(
            f"a Vocabulary is needed, not {type(vocabulary).__name__}; read_vocabulary and "
            "encode_vocabulary make one"
        )
    if vocabulary.features is None:
        raise InputError(
            f"{store.path}: which histories are meant is told by words, and the vocabulary has no "
            "text features; encode its descriptions with the encoder of the store"
        )
    if vocabulary.facts or vocabulary.changes:
        raise InputError(
            "examples that are frames belong to one history; ask a store with words, pictures or "
            "frames of named histories"
        )
    if None not in (store.encoder, vocabulary.encoder) and store.encoder != vocabulary.encoder:
        raise InputError(
            f'{store.path}: holds histories of "{store.encoder}" but the vocabulary was encoded '
            f'with "{vocabulary.encoder}"; encode both with the same encoder'
        )
    if store.dimension not in (None, vocabulary.features.shape[1]):
        raise InputError(
            f"{store.path}: has {store.dimension} dimensions but the vocabulary "
            f"{vocabulary.features.shape[1]}; encode both with the same encoder"
        )


class _Reader:
    """Answers one question."""

    def __init__(self, store: Store, question: Question) -> None:
        self._store, self._question = store, question
        vocabulary = question.vocabulary
        assert vocabulary.features is not None
        centre = vocabulary.weights @ unit_rows(vocabulary.features)
        self._centre = (centre / max(float(np.linalg.norm(centre)), 1e-12)).astype(np.float32)

    def tables(
        self, top: int | None, where: Mapping[str, str] | None, engine: str,
        ray_address: str | None, progress: Progress,
    ) -> Iterator[Table]:  # fmt: skip
        with contextlib.ExitStack() as held:
            while True:
                now = held.enter_context(index.snapshot(self._store.path))
                with contextlib.suppress(FileNotFoundError):  # compacted meanwhile: begin again
                    segments, every = self._places(now, where)
                    break
                held.close()
            scores = self._object_scores(segments, every)
            order = np.argsort(-scores, kind="stable")[:top]
            places, scores = every[order], scores[order]
            parts = list(self._chunks(places[:, 3]))

            def here(part: slice) -> Table:
                histories, sources = self._histories(now, segments, places[part])
                return self._question.table(histories, sources, scores[part], part.start)

            def sent(part: slice) -> Part:
                return self._sent(now, segments, places[part], scores[part], part.start)

            found: Iterator[Table] = map(here, parts)
            if engine == "ray":
                found = held.enter_context(
                    contextlib.closing(spread(self._question, parts, sent, here, ray_address))
                )
            for part, table in zip(parts, found, strict=True):
                yield table
                progress("ask", part.stop, len(order))

    def _places(
        self, now: sqlite3.Connection, where: Mapping[str, str] | None
    ) -> tuple[dict[int, Segment], NDArray[np.int64]]:
        """The mapped segments, and number, segment, slot and length of each history."""
        wanted, values = index.condition(now, where)
        found = now.execute(
            f"SELECT number, segment, slot, length FROM histories WHERE {wanted} "
            "ORDER BY segment, slot", values,
        ).fetchall()  # fmt: skip
        places = np.array(found, np.int64).reshape(-1, 4)
        used = set(np.unique(places[:, 1]).tolist())
        sizes = now.execute("SELECT number, rows, histories FROM segments").fetchall()
        self._store.forget_but({own[0] for own in sizes})
        return {own[0]: self._store.segment(*own) for own in sizes if own[0] in used}, places

    def _object_scores(
        self, segments: Mapping[int, Segment], places: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        scores = np.empty(len(places))
        starts = np.searchsorted(places[:, 1], list(segments), side="left")
        ends = np.searchsorted(places[:, 1], list(segments), side="right")
        for segment, first, end in zip(segments.values(), starts, ends, strict=True):
            scores[first:end] = (segment.means @ self._centre)[places[first:end, 2]]
        return scores

    def _chunks(self, lengths: NDArray[np.int64]) -> Iterator[slice]:
        """Consecutive histories of so many bytes that a kernel call takes."""
        width = self._store.dtype.itemsize * len(self._centre)
        first, held = 0, 0
        for at, size in enumerate((lengths * width).tolist()):
            if at > first and (held + size > CHUNK_BYTES or at - first == CHUNK_HISTORIES):
                yield slice(first, at)
                first, held = at, 0
            held += size
        if len(lengths):
            yield slice(first, len(lengths))

    def _histories(
        self, now: sqlite3.Connection, segments: Mapping[int, Segment], places: NDArray[np.int64]
    ) -> tuple[list[History], list[str | None]]:
        """Those at these places, and their sources; what an earlier question has made is taken."""
        keys = list(zip(places[:, 1].tolist(), places[:, 2].tolist(), strict=True))
        found = {key: known for key in keys if (known := self._store.kept.get(key)) is not None}
        numbers = places[:, 0].tolist()
        missing = [own for own, key in zip(numbers, keys, strict=True) if key not in found]
        encoder = self._store.encoder
        for segment, slot, first, length, own in _entries(now, missing):
            rows = segments[segment].rows[first : first + length]
            known = found[segment, slot] = unpacked(own, rows, encoder), own.source
            self._store.keep((segment, slot), known)
        inside = [found[key] for key in keys]
        return [own for own, _ in inside], [source for _, source in inside]

    def _sent(
        self, now: sqlite3.Connection, segments: Mapping[int, Segment], places: NDArray[np.int64],
        scores: NDArray[np.float64], before: int,
    ) -> Part:  # fmt: skip
        """The histories at these places, for another machine."""
        found = {own[:2]: own for own in _entries(now, places[:, 0].tolist())}
        entries = [found[segment, slot] for segment, slot in places[:, 1:3].tolist()]
        rows = {number: len(segments[number].rows) for number in np.unique(places[:, 1]).tolist()}
        store = self._store
        return Part(
            store.path.resolve(), store.dtype, len(self._centre), store.encoder, rows, entries,
            scores, before,
        )  # fmt: skip


def _entries(now: sqlite3.Connection, numbers: list[int]) -> Iterator[Entry]:
    """What the index says of the histories of these numbers, in any order."""
    query = f"SELECT {_LOOKED_AT} FROM histories WHERE number IN (SELECT value FROM json_each(?))"
    for segment, slot, first, length, id, source, interval, *blobs in now.execute(
        query, (json.dumps(numbers),)
    ):
        own = Packed._make((id, None, source, interval, None, *blobs, None))
        yield Entry(segment, slot, first, length, own)
