"""Parts of a question on the machines of a Ray cluster.

The index is read here, rows of features there: a task gets the places of some histories, maps their
segments and gives back a chunk of answers. Nothing but the rows is read from the shared disk, since
SQLite is not safe on every one.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.cluster import check_version, connected
from dejacue.errors import InputError
from dejacue.store import _index as index
from dejacue.store._packing import Packed, unpacked
from dejacue.store._question import Chunk, Question
from dejacue.store._segments import mapped, row_path

T = TypeVar("T")
AHEAD = 2  # tasks that wait or are done, for each that can run
MOST_PARTS = 16  # of what a kernel call takes: smaller ones are not worth sending


class Entry(NamedTuple):
    """A history: where its rows are, and what the index says of it."""

    segment: int
    slot: int
    first: int
    length: int
    own: Packed


class Part(NamedTuple):
    """Histories that follow ``before`` others in the ranking; all that a machine must be told."""

    store: Path
    dtype: np.dtype[Any]
    dimension: int
    encoder: str | None
    rows: dict[int, int]  # that count, of each segment
    entries: list[Entry]
    object_scores: NDArray[np.float64]
    before: int
    version: str = __version__


def read_part(question: Question, part: Part) -> Chunk | None:
    """Return its answers; None where a segment is gone, since the store was compacted meanwhile."""
    check_version(part.version)
    folder = part.store / "segments"
    try:
        rows = {
            number: mapped(row_path(folder, number), part.dtype, part.dimension, count)
            for number, count in part.rows.items()
        }
    except FileNotFoundError:
        if (part.store / index.NAME).is_file():
            return None
        raise InputError(
            f"{part.store}: no such folder on {socket.gethostname()}; a store queried with Ray "
            "must be on a disk that all machines of the cluster share, under the same path"
        ) from None
    histories = [
        unpacked(own, rows[segment][first : first + length], part.encoder)
        for segment, _, first, length, own in part.entries
    ]
    sources = [entry.own.source for entry in part.entries]
    return question.answer(histories, sources, part.object_scores, part.before)


def spread(
    question: Question,
    cut: Callable[[int], Iterable[T]],
    sent: Callable[[T], Part],
    prepared: Callable[[T], tuple[Any, ...]],
    address: str | None,
) -> Generator[Chunk, None, None]:
    """Give the answers of all parts, in order.

    cut        gives the parts, for so many workers
    sent       what a machine must be told of a part
    prepared   what this one answers it with, which still holds the segments that it began with

    Tasks that nobody waits for any more run to their end, a few at most: ray.cancel (2.60) ends
    this process where the task has just failed.
    """
    with connected(address) as ray:
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        task, asked = ray.remote(read_part), ray.put(question)
        running: deque[tuple[T, Any]] = deque()

        def finished() -> Chunk:
            part, answer = running.popleft()
            chunk: Chunk | None = ray.get(answer)
            return question.answer(*prepared(part)) if chunk is None else chunk

        for part in cut(min(cores, MOST_PARTS)):
            if len(running) == AHEAD * cores:
                yield finished()
            running.append((part, task.remote(asked, sent(part))))
        while running:
            yield finished()
