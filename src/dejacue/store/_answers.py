"""The answers of a store: one after the other, as columns, or in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, need
from dejacue.records._dataframe import dataframe
from dejacue.records.columns import joined_tables
from dejacue.store._output import described, write_answers
from dejacue.store._question import Table

_EMPTY: Table = {
    "rank": np.empty(0, np.int64),
    "history": [],
    "source": [],
    "object_score": np.empty(0),
    "state": [],
    "description": [],
    "start": np.empty(0, np.int64),
    "end": np.empty(0, np.int64),
    "score": np.empty(0),
    "level": [],
}


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

    def __init__(self, tables: Iterator[Table], store: Path) -> None:
        self._tables, self._store = tables, store
        self._now: Iterator[Answer] = iter(())
        self._read = False

    def __iter__(self) -> Asked:
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        if self._read:
            raise InputError(
                "these answers have already been read and are not kept; ask again, or keep them: "
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
        return write_answers(path, described(self._store, iter(self)))


def _answers(table: Table) -> Iterator[Answer]:
    count = len(table["start"])

    def column(name: str, missing: Any = None) -> list[Any]:
        values: Any = table.get(name, [missing] * count)
        return list(values.tolist() if isinstance(values, np.ndarray) else values)

    nothing = [None] * count
    times = zip(column("start_s"), column("end_s"), strict=True) if "start_s" in table else nothing
    frames = (
        zip(column("source_start"), column("source_end"), strict=True)
        if "source_start" in table
        else nothing
    )
    plain = (column(name) for name in Answer._fields[:9])
    more = (column("absent", False), column("notes"))
    for *own, when, where, absent, notes in zip(*plain, times, frames, *more, strict=True):
        when = None if when is None or when[0] != when[0] else when
        where = None if where is None or where[0] < 0 else where
        yield Answer._make((*own, when, where, absent, notes))
