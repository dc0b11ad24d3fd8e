"""One vocabulary over all histories of a store: is this the object, and when in which state?

    means of the frames · centre of the words ──▶ order of the histories
    rows of the first ``top`` of them ──▶ locate_many ──▶ every occurrence of each state

Histories are read in that order, a chunk at a time, so that the best come first and memory stays
flat. With Ray, chunks are read on several machines: the index is read here, and a task gets the
places of some histories, maps their segments and returns a table of answers. Nothing but the rows
is read from the shared disk, since SQLite is not safe on every one. A query sees the store as it
was when it began.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.corpus import _index as index
from dejacue.corpus._matches import RankedTimeline
from dejacue.corpus._packing import PackedHistory, unpacked
from dejacue.corpus._segments import Segment, mapped, mean_path, missing_file, row_path
from dejacue.corpus.cluster import check_version, connected
from dejacue.errors import InputError
from dejacue.method.coordinates import unit_rows
from dejacue.method.localization import CHUNK_BYTES, CHUNK_HISTORIES, locate_many
from dejacue.method.plan import Plan
from dejacue.method.readout import Readout
from dejacue.progress import Progress
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.arrays import Floats
from dejacue.records.history import MEANINGLESS

if TYPE_CHECKING:
    from dejacue.corpus._store import Store

TASKS_PER_CORE = 2  # that wait or are done
MAX_PARTS = 16  # of what a kernel call takes: smaller ones are not worth sending
SLOT_BITS = 32  # of a segment and a slot in one number
Places = NDArray[np.int64]  # (H, 2): segment and slot
Pending = Callable[[], RankedTimeline]  # waits for the answers of a part
Ranked = tuple[Sequence[History], Sequence[str | None], NDArray[np.float64], int]
_MADE_WITH = f"CASE WHEN instr(made_with, '\"{MEANINGLESS}\"') THEN made_with END"
_PACKED = (
    f", histories.id, NULL, source, interval_s, {_MADE_WITH}, runs, times_s, source_frames, NULL"
)


class Asked(NamedTuple):
    """What is looked for, and how."""

    vocabulary: Vocabulary
    readout: str | Readout
    trust: bool


class IndexEntry(NamedTuple):
    """Says where the rows of a history are, and its columns in the index."""

    segment: int
    slot: int
    first: int
    length: int
    columns: PackedHistory


class Part(NamedTuple):
    """Histories that follow ``before`` others in the ranking; all that a Ray task needs."""

    store: Path
    dtype: np.dtype[Any]
    dimension: int
    encoder: str | None
    rows: dict[int, int]  # that count, of each segment
    entries: list[IndexEntry]
    object_scores: NDArray[np.float64]
    before: int
    version: str = __version__


def answer(asked: Asked, ranked: Ranked) -> RankedTimeline:
    histories, sources, object_scores, before = ranked
    vocabulary, readout, trust = asked
    if trust:
        plan = Plan.of(None, readout)
        views = (plan.view(history, vocabulary) for history in histories)
        timeline = Timeline.joined([plan.analyse(view) for view in views])
    else:
        timeline = locate_many(histories, vocabulary, readout=readout).joined()
    return RankedTimeline(timeline, sources, object_scores, before)


def read_part(asked: Asked, part: Part) -> RankedTimeline | None:
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
        unpacked(part.store, columns, rows[segment][first : first + length], part.encoder)
        for segment, _, first, length, columns in part.entries
    ]
    sources = [entry.columns.source for entry in part.entries]
    return answer(asked, (histories, sources, part.object_scores, part.before))


class Query:
    """A query of a store, to be answered once."""

    _now: sqlite3.Connection  # the index, the mapped segments and …
    _segments: dict[int, Segment]
    _places: Places  # … the histories as they were when the query began, best first
    _object_scores: NDArray[np.float64]

    def __init__(
        self,
        store: Store,
        asked: Asked,
        top: int | None,
        where: Mapping[str, str] | None,
        centre: Floats | None = None,  # what objects look like; None: what the words share
    ) -> None:
        self._store, self._asked, self._top, self._where = store, asked, top, where
        if centre is None:
            vocabulary = asked.vocabulary
            assert vocabulary.features is not None
            centre = vocabulary.weights @ unit_rows(vocabulary.features)
        self._centre = (centre / max(float(np.linalg.norm(centre)), 1e-12)).astype(np.float32)

    def chunks(
        self, threads: int, engine: str, ray_address: str | None, progress: Progress
    ) -> Iterator[RankedTimeline]:
        """Yield the answers, the likeliest objects first."""
        with contextlib.ExitStack() as stack:
            self._open(stack)
            self._rank()
            submitted: Iterator[Pending]
            if engine == "ray":
                ray = stack.enter_context(connected(ray_address))
                cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
                submitted, ahead = self._on_ray(ray, cores), TASKS_PER_CORE * cores - 1
            elif threads == 1:
                submitted, ahead = (partial(self._answer, part) for part in self._parts(1)), 0
            else:
                pool = ThreadPoolExecutor(threads)
                stack.callback(pool.shutdown, cancel_futures=True)
                submitted, ahead = self._in_threads(pool, threads), threads
            for chunk in _in_order(submitted, ahead):
                yield chunk
                progress("query", chunk.before + len(chunk.sources), len(self._places))

    def _on_ray(self, ray: Any, cores: int) -> Iterator[Pending]:
        """Submit all parts. Tasks that nobody waits for any more run to their end, a few at most:
        ray.cancel (2.60) ends this process where the task has just failed."""
        task, asked = ray.remote(read_part), ray.put(self._asked)

        def received(part: slice, reference: Any) -> RankedTimeline:
            chunk: RankedTimeline | None = ray.get(reference)
            return self._answer(part) if chunk is None else chunk  # still holds the segments

        for part in self._parts(min(cores, MAX_PARTS)):
            yield partial(received, part, task.remote(asked, self._part(part)))

    def _in_threads(self, pool: ThreadPoolExecutor, threads: int) -> Iterator[Pending]:
        """Submit all parts: this thread reads the index while others work on earlier parts."""
        for part in self._parts(threads):
            yield pool.submit(answer, self._asked, self._histories(part)).result

    def _answer(self, part: slice) -> RankedTimeline:
        return answer(self._asked, self._histories(part))

    def _open(self, stack: contextlib.ExitStack) -> None:
        """Take a snapshot of the index and map the segments that it names."""
        missing = None
        while True:
            self._now = stack.enter_context(index.snapshot(self._store.path))
            try:
                self._map_segments()
                return
            except FileNotFoundError as error:  # compacted meanwhile: begin again
                if error.filename == missing:
                    raise missing_file(error) from None
                missing = error.filename
            stack.close()

    def _map_segments(self) -> None:
        """Map the segments, and list segment and slot of each history. Where a segment holds all
        that was added to it, nothing is read of its histories: a million are ranked at once."""
        condition, values = index.condition(self._now, self._where)
        sizes = index.sizes(self._now)
        numbers = {number for number, _, _ in sizes}
        self._store.forget_but(numbers)
        query = "SELECT segment, count(*) FROM histories WHERE dead = 0 GROUP BY segment"
        living = dict(self._now.execute(query))
        if living.keys() - numbers:
            raise sqlite3.DatabaseError("an entry without a segment")
        self._segments, places = {}, [np.empty((0, 2), np.int64)]
        for number, rows, histories in sizes:
            slots = np.arange(living.get(number, 0))
            if self._where or len(slots) != histories:
                query = (
                    f"SELECT slot FROM histories WHERE segment = ? AND {condition} ORDER BY slot"
                )
                slots = _slots(self._now.execute(query, (number, *values)), histories)
            if len(slots):
                self._segments[number] = self._store.segment(number, rows, histories)
                places.append(np.stack([np.full_like(slots, number), slots], axis=1))
        self._places = np.concatenate(places)

    def _rank(self) -> None:
        """Compute the object score of each history and sort by it."""
        places, scores = self._places, np.empty(len(self._places))
        starts = np.searchsorted(places[:, 0], list(self._segments), side="left")
        ends = np.searchsorted(places[:, 0], list(self._segments), side="right")
        with np.errstate(all="ignore"):
            for segment, first, end in zip(self._segments.values(), starts, ends, strict=True):
                # not @: what BLAS gives for a row depends on how many there are
                of_segment = np.einsum("hd,d->h", segment.means, self._centre)
                scores[first:end] = of_segment[places[first:end, 1]]
        if not np.isfinite(scores).all():
            number = places[np.argmin(np.isfinite(scores)), 0]
            raise InputError(
                f"{mean_path(self._store.path / 'segments', number)}: is damaged; "
                "dejacue store verify lists the affected histories"
            )
        order = highest(scores, self._top)
        self._places, self._object_scores = places[order], scores[order]

    def _parts(self, workers: int) -> Iterator[slice]:
        """Yield consecutive histories of so many bytes that a kernel call takes, or fewer: there is
        a part for each thread or machine."""
        width = self._store.dtype.itemsize * len(self._centre)
        first, size, max_size = 0, 0, 0
        for begin in range(0, len(self._places), CHUNK_HISTORIES):
            sizes = self._lengths(slice(begin, begin + CHUNK_HISTORIES)) * width
            max_size = max(max_size, min(CHUNK_BYTES, int(sizes.sum())) // workers)
            for at, nbytes in enumerate(sizes.tolist(), begin):
                if at > first and (size + nbytes > max_size or at - first == CHUNK_HISTORIES):
                    yield slice(first, at)
                    first, size = at, 0
                size += nbytes
        if len(self._places):
            yield slice(first, len(self._places))

    def _lengths(self, part: slice) -> NDArray[np.int64]:
        places = self._places[part]
        cached = [self._store.cached.get(key) for key in _keys(places)]
        lengths = np.array([0 if known is None else len(known[0]) for known in cached])
        unknown = lengths == 0
        lengths[unknown] = [length for *_, length in self._entries(places[unknown])]
        return lengths

    def _histories(self, part: slice) -> Ranked:
        """Return the histories of a part; those that an earlier query has made are taken."""
        places = self._places[part]
        keys = _keys(places)
        known = {key: self._store.cached[key] for key in keys if key in self._store.cached}
        for entry in self._packed_entries(places[[key not in known for key in keys]]):
            rows = self._segments[entry.segment].rows[entry.first : entry.first + entry.length]
            history = unpacked(self._store.path, entry.columns, rows, self._store.encoder)
            key = entry.segment << SLOT_BITS | entry.slot
            known[key] = history, entry.columns.source
            self._store.cache(key, history, entry.columns.source)
        histories = [known[key][0] for key in keys]
        sources = [known[key][1] for key in keys]
        return histories, sources, self._object_scores[part], part.start

    def _part(self, part: slice) -> Part:
        """Return the histories of a part for another machine."""
        store, places = self._store, self._places[part]
        numbers = np.unique(places[:, 0]).tolist()
        return Part(
            store.path.resolve(),
            store.dtype,
            len(self._centre),
            store.encoder,
            {number: len(self._segments[number].rows) for number in numbers},
            list(self._packed_entries(places)),
            self._object_scores[part],
            part.start,
        )

    def _entries(self, places: Places, columns: str = "") -> Iterator[tuple[Any, ...]]:
        """Yield segment, slot, first row, length and more columns of histories, in their order."""
        keys = _keys(places)
        rows = self._now.execute(
            f"SELECT segment, slot, first, length {columns} FROM json_each(?) AS place "
            f"CROSS JOIN histories ON dead = 0 AND segment = place.value >> {SLOT_BITS} "
            f"AND slot = place.value & {(1 << SLOT_BITS) - 1}",
            (json.dumps(keys),),
        )
        for key in keys:
            row = next(rows, None)
            if row is None:
                raise sqlite3.DatabaseError("an entry is missing")
            segment, slot, *_ = index.check_counts(row[:4])
            if segment << SLOT_BITS | slot != key:
                raise sqlite3.DatabaseError("a slot has two entries, or none")
            yield row

    def _packed_entries(self, places: Places) -> Iterator[IndexEntry]:
        for segment, slot, first, length, *columns in self._entries(places, _PACKED):
            yield IndexEntry(segment, slot, first, length, PackedHistory(*columns))


def _in_order(submitted: Iterable[Pending], ahead: int) -> Generator[RankedTimeline, None, None]:
    """Yield the results of all tasks, in order, while up to ``ahead`` others run or wait."""
    waiting: deque[Pending] = deque()
    for result in submitted:
        waiting.append(result)
        if len(waiting) > ahead:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()


def _slots(rows: Iterable[tuple[int]], below: int) -> NDArray[np.int64]:
    """Return ascending slots, as the index has them."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        slots = np.fromiter((slot for (slot,) in rows), np.int64)
        if (np.diff(slots, prepend=-1, append=below) > 0).all():
            return slots
    raise sqlite3.DatabaseError("a slot that is not there")


def _keys(places: Places) -> list[int]:
    keys: list[int] = (places[:, 0] << SLOT_BITS | places[:, 1]).tolist()
    return keys


def highest(scores: NDArray[np.float64], top: int | None) -> NDArray[np.int64]:
    """Return where the highest scores are, the highest first; of equal ones the first."""
    if top is None or top >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -top)[-top]
    chosen = np.flatnonzero(scores >= least)
    return chosen[np.argsort(-scores[chosen], kind="stable")[:top]]
