"""The answers of a store: one match after the other, as columns, or in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, need
from dejacue.records import Interval, Timeline
from dejacue.records.timeline import dataframe
from dejacue.store._output import match_rows, write_rows
from dejacue.store._question import Chunk


class Match(NamedTuple):
    """An interval of a state in a history of a store.

    rank           of the history, from 1: the one that looks most like the object
    object_score   how much it does, see ``Store.ask``
    notes          what a reader must know of the answers in this history
    """

    rank: int
    history: str
    source: str | None
    object_score: float
    interval: Interval
    notes: tuple[str, ...] = ()


class Matches(Iterator[Match]):
    """The answers of a store, the likeliest objects first and of each the clearest state first;
    computed a chunk at a time, when they are asked for, and once."""

    def __init__(self, chunks: Iterator[Chunk], store: Path) -> None:
        self._chunks, self._store = chunks, store
        self._now: Iterator[Match] = iter(())
        self._read = False

    def __iter__(self) -> Matches:
        self._check_unread()
        return self

    def _check_unread(self) -> None:
        if self._read:
            raise InputError(
                "these answers have already been read and are not kept; ask again, or keep them: "
                "answers = list(store.ask(…))"
            )

    def __next__(self) -> Match:
        while True:
            for match in self._now:
                return match
            chunk = next(self._chunks, None)
            if chunk is None:
                self._read = True
                raise StopIteration
            self._now = _matches(chunk)

    def columns(self) -> dict[str, Any]:
        """Return named columns of equal length: arrays of numbers, lists of text.

        rank (of the history), history, source, object_score; then those of ``Timeline.columns``
        but rank and kind, since each state has its best interval only.
        """
        self._check_unread()
        self._read = True
        chunks = list(self._chunks)
        timeline = Timeline.joined([chunk.timeline for chunk in chunks])
        table = timeline.columns()
        places = {subject.id: at for at, subject in enumerate(timeline.subjects)}
        which = np.array([places[id] for id in table["history"]], np.int64)
        order = np.lexsort((-table["score"], which))
        which = which[order]
        sources = [source for chunk in chunks for source in chunk.sources]
        scores = np.concatenate([np.empty(0), *(chunk.object_scores for chunk in chunks)])
        first = {
            "rank": which + 1,
            "history": [timeline.subjects[at].id for at in which],
            "source": [sources[at] for at in which],
            "object_score": scores[which],
        }
        return first | {
            name: values[order] if isinstance(values, np.ndarray) else [values[k] for k in order]
            for name, values in table.items()
            if name not in ("history", "rank", "kind")
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Give each match as a flat dict, with the object and the manifest's columns of its
        history; None where a value is not known."""
        return match_rows(self._store, iter(self))

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return a pandas or polars data frame, whichever is installed (pandas first) or named."""
        return dataframe(self.columns, library)

    def to_arrow(self) -> Any:
        """Return a pyarrow table."""
        return need("pyarrow", "pip install pyarrow").table(self.columns())

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write the rows to a .parquet, .csv, .jsonl or .json file while they are computed, so that
        memory stays flat, and return how many there were; the file is there whole, or not at all.
        """
        return write_rows(path, self.rows())


def _matches(chunk: Chunk) -> Iterator[Match]:
    timeline = chunk.timeline
    scores = chunk.object_scores.tolist()
    subjects = zip(timeline.subjects, chunk.sources, scores, strict=True)
    ranked = {
        subject.id: ((rank, subject.id, source, score), subject.notes)
        for rank, (subject, source, score) in enumerate(subjects, start=chunk.before + 1)
    }
    intervals = zip(timeline.columns()["history"], timeline.intervals, strict=True)
    for id, several in groupby(intervals, itemgetter(0)):
        history, notes = ranked[id]
        for _, interval in sorted(several, key=lambda pair: -pair[1].score):
            yield Match(*history, interval, notes)
