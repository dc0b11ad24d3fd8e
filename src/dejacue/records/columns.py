"""Columns: the answers of many histories as arrays; moments are made when they are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.records._dataframe import dataframe
from dejacue.records.history import History
from dejacue.records.retrieval import Moment, Retrieval, joined_notes
from dejacue.records.vocabulary import Vocabulary
from dejacue.records.window import Window

_NUMBERS = ("start", "end", "score", "rank", "start_s", "end_s", "source_start", "source_end")
_ALWAYS = ("history", "state", "description", "start", "end", "score", "level")


class Head(NamedTuple):
    """What the rows of one history share."""

    id: str
    encoder: str | None
    vocabulary: Vocabulary
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """One row per description, history after history, in the order of its vocabulary.

    offsets           (H + 1,) the rows of each history
    start, end        frames, inclusive
    times_s, source   (rows, 2), where some history has them; NaN and −1 elsewhere
    absent            where the readout itself says that the state does not occur
    """

    heads: Sequence[Head]
    offsets: Sequence[int]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    score: NDArray[np.float64]
    level: str
    settings: Mapping[str, Any]
    times_s: NDArray[np.float64] | None = None
    source: NDArray[np.int64] | None = None
    absent: NDArray[np.bool_] | None = None

    def __iter__(self) -> Iterator[Retrieval]:
        return map(self.retrieval, range(len(self.heads)))

    def retrieval(self, at: int) -> Retrieval:
        """The answers of one history; nothing of it reaches back to features."""
        head = self.heads[at]
        return Retrieval(LazyMoments(self, at), self.settings, head.id, head.encoder, head.notes)

    def moments(self, at: int) -> tuple[Moment, ...]:
        rows = slice(self.offsets[at], self.offsets[at + 1])
        vocabulary = self.heads[at].vocabulary
        count = len(vocabulary)
        times: Sequence[Any] = [None] * count
        source: Sequence[Any] = [None] * count
        if self.times_s is not None and not np.isnan(self.times_s[rows]).any():
            times = [tuple(pair) for pair in self.times_s[rows].tolist()]
        if self.source is not None and (self.source[rows] >= 0).all():
            source = [Window(*pair) for pair in self.source[rows].tolist()]
        absent = [False] * count if self.absent is None else self.absent[rows].tolist()
        return tuple(
            Moment(state, text, Window(a, b), score, self.level, when, source=own, absent=gone)
            for state, text, a, b, score, when, own, gone in zip(
                vocabulary.state_names,
                vocabulary.descriptions,
                self.start[rows].tolist(),
                self.end[rows].tolist(),
                self.score[rows].tolist(),
                times,
                source,
                absent,
                strict=True,
            )
        )

    def table(self) -> dict[str, Any]:
        """Named columns of equal length: arrays of numbers, lists of text."""
        counts = np.diff(self.offsets)
        ids = np.repeat(np.array([head.id for head in self.heads], object), counts)
        found: dict[str, Any] = {
            "history": ids.tolist(),
            "state": [name for head in self.heads for name in head.vocabulary.state_names],
            "description": [text for head in self.heads for text in head.vocabulary.descriptions],
            "start": self.start,
            "end": self.end,
            "score": self.score,
            "level": [self.level] * len(self.start),
        }
        for name, pairs in (("source_{}", self.source), ("{}_s", self.times_s)):
            if pairs is not None:
                found |= {name.format("start"): pairs[:, 0], name.format("end"): pairs[:, 1]}
        if self.absent is not None:
            found["absent"] = self.absent
        if any(head.notes for head in self.heads):
            told = np.array([joined_notes(head.notes) or None for head in self.heads], object)
            found["notes"] = np.repeat(told, counts).tolist()
        return found


class Rows(tuple[Retrieval, ...]):
    """Retrievals that have alternatives or diagnostics, which are made history by history."""

    __slots__ = ()

    def table(self) -> dict[str, Any]:
        """Named columns of equal length; alternatives are rows of their own, ranked from 2 on."""
        rows = [row for retrieval in self for row in retrieval.to_rows()]
        names = dict.fromkeys((*_ALWAYS, *(name for row in rows for name in row)))
        found = {name: [row.get(name) for row in rows] for name in names}
        return {
            name: np.array(values) if name in _NUMBERS and None not in values else values
            for name, values in found.items()
        }


def joined_tables(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of several chunks of one call, one after the other."""
    missing = {"source_start": -1, "source_end": -1, "start_s": np.nan, "end_s": np.nan}
    names = dict.fromkeys(name for table in tables for name in table)

    def column(name: str) -> Any:
        parts: list[Any] = [
            table[name] if name in table else [missing.get(name)] * len(table["start"])
            for table in tables
        ]
        if all(isinstance(part, np.ndarray) for part in parts):
            return np.concatenate(parts)
        return [value for part in parts for value in part]

    return {name: column(name) for name in names}


class LazyMoments(Sequence[Moment]):
    """Moments that are made when they are first looked at: a corpus has many, few are read."""

    __slots__ = ("_at", "_columns", "_made")

    def __init__(self, columns: Columns, at: int) -> None:
        self._columns, self._at = columns, at
        self._made: tuple[Moment, ...] | None = None

    def _moments(self) -> tuple[Moment, ...]:
        if self._made is None:  # two threads may both make them; they make the same
            self._made = self._columns.moments(self._at)
        return self._made

    def __len__(self) -> int:
        return self._columns.offsets[self._at + 1] - self._columns.offsets[self._at]

    def __iter__(self) -> Iterator[Moment]:
        return iter(self._moments())

    def __getitem__(self, key: Any) -> Any:
        return self._moments()[key]


class Retrievals(Iterator[Retrieval]):
    """The answers of many histories, in order: one Retrieval after the other, or as columns.

    Either way they are computed a chunk at a time, when they are asked for, and once.
    """

    def __init__(self, chunks: Iterable[Columns | Rows]) -> None:
        self._chunks = iter(chunks)
        self._now: Iterator[Retrieval] = iter(())
        self._read = False

    def __iter__(self) -> Retrievals:
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        if self._read:
            raise InputError(
                "these retrievals have already been read and are not kept; call locate_many "
                "again, or keep them: found = list(locate_many(…))"
            )

    def __next__(self) -> Retrieval:
        while True:
            for retrieval in self._now:
                return retrieval
            try:
                self._now = iter(next(self._chunks))
            except StopIteration:
                self._read = True
                raise

    def chunks(self) -> Iterator[Columns | Rows]:
        """The columns, chunk by chunk: for a corpus that does not fit into memory."""
        return self._chunks

    def columns(self) -> dict[str, Any]:
        """All of them as named columns of equal length: arrays of numbers, lists of text.

        history, state, description, start, end, score, level; source_start, source_end, start_s and
        end_s where histories have them, absent where the readout says it; with ``top`` or
        ``diagnostics`` also rank (alternatives are rows of their own) and what they add.
        """
        self._check_unread()
        tables = [chunk.table() for chunk in self._chunks]
        self._read = True
        return joined_tables(tables or [Rows().table()])

    def to_dataframe(self, library: str | None = None) -> Any:
        """A pandas or polars data frame, whichever is installed (pandas first) or named."""
        return dataframe(self.columns, library)

    def to_arrow(self) -> Any:
        """A pyarrow table."""
        return need("pyarrow", "pip install pyarrow").table(self.columns())


def timed_columns(
    histories: Sequence[History],
    counts: Sequence[int],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    """Seconds and frames of the source (rows, 2) of windows given as positions."""
    timed = any(history.times_s is not None for history in histories)
    sampled = any(history.source_frames is not None and history.sampled for history in histories)
    if not timed and not sampled:
        return None, None
    times = np.full((len(start), 2), np.nan) if timed else None
    source = np.full((len(start), 2), -1) if sampled else None
    row = 0
    ends = np.stack([start, end], axis=1)
    for history, count in zip(histories, counts, strict=True):
        own = ends[row : row + count]
        if times is not None and history.times_s is not None:
            times[row : row + count] = history.times_s[own]
        if source is not None and history.source_frames is not None and history.sampled:
            source[row : row + count] = history.source_frames[own]
        row += count
    return times, source
