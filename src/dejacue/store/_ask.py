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
import socket
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.cluster import check_engine, check_version, connected
from dejacue.errors import InputError
from dejacue.method.coordinates import unit_rows
from dejacue.method.locate import CHUNK_BYTES, CHUNK_HISTORIES
from dejacue.method.plan import Plan
from dejacue.method.state_readout import is_count
from dejacue.method.view import Readout
from dejacue.progress import Progress
from dejacue.records import History, Vocabulary
from dejacue.store import _index as index
from dejacue.store._matches import Matches
from dejacue.store._packing import Packed, unpacked
from dejacue.store._question import Chunk, Question
from dejacue.store._segments import Segment, gone, mapped, mean_path, row_path

if TYPE_CHECKING:
    from dejacue.store._store import Store


T = TypeVar("T")
AHEAD = 2  # tasks that wait or are done, for each that can run
MOST_PARTS = 16  # of what a kernel call takes: smaller ones are not worth sending


# Parts of a question may be answered on the machines of a Ray cluster. The index is read here, rows
# of features there: a task gets the places of some histories, maps their segments and gives back a
# table of answers. Nothing but the rows is read from the shared disk, since SQLite is not safe on
# every one.


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


Places = NDArray[np.int64]  # (H, 2): segment and slot
SLOT_BITS = 32  # of a segment and a slot in one number
_LOOKED_AT = ", histories.id, source, interval_s, runs, times_s, source_frames"


def ask(
    store: Store,
    vocabulary: Vocabulary,
    readout: str | Readout,
    top: int | None,
    where: Mapping[str, str] | None,
    threads: int,
    engine: str,
    ray_address: str | None,
    progress: Progress,
) -> Matches:
    _check(store, vocabulary)
    check_engine(engine, ray_address)
    Plan.of(None, readout, None, 1, False, "auto")  # refuses a readout that is not known
    if top is not None and not is_count(top, 1):
        raise InputError(f"top={top}: give the number of histories, 1 or more")
    if not is_count(threads, 1):
        raise InputError(f"threads {threads} must be at least 1")
    with index.snapshot(store.path) as now:
        index.condition(now, where)  # refuses names that are not known
    read = _Reader(store, Question(vocabulary, readout), threads)
    return Matches(read.chunks(top, where, engine, ray_address, progress), store.path)


def _check(store: Store, vocabulary: Vocabulary) -> None:
    if not isinstance(vocabulary, Vocabulary):
        raise InputError(
            f"expected a Vocabulary, not {type(vocabulary).__name__}; read_vocabulary and "
            "encode_vocabulary create one"
        )
    if vocabulary.features is None:
        raise InputError(
            f"{store.path}: a store selects histories by words, but the vocabulary has no text "
            "features; encode its descriptions with the encoder of the store"
        )
    if vocabulary.facts or vocabulary.changes:
        raise InputError(
            "examples given as frames belong to one history; query a store with words, pictures "
            "or frames of named histories"
        )
    if None not in (store.encoder, vocabulary.encoder) and store.encoder != vocabulary.encoder:
        raise InputError(
            f'{store.path}: histories were encoded with "{store.encoder}", but the vocabulary '
            f'with "{vocabulary.encoder}"; encode both with the same encoder'
        )
    if store.dimension not in (None, vocabulary.features.shape[1]):
        raise InputError(
            f"{store.path}: has {store.dimension} dimensions, but the vocabulary has "
            f"{vocabulary.features.shape[1]}; encode both with the same encoder"
        )


class _Reader:
    """Answer one question."""

    def __init__(self, store: Store, question: Question, threads: int) -> None:
        self._store, self._question, self._threads = store, question, threads
        vocabulary = question.vocabulary
        assert vocabulary.features is not None
        centre = vocabulary.weights @ unit_rows(vocabulary.features)
        self._centre = (centre / max(float(np.linalg.norm(centre)), 1e-12)).astype(np.float32)

    def chunks(
        self,
        top: int | None,
        where: Mapping[str, str] | None,
        engine: str,
        ray_address: str | None,
        progress: Progress,
    ) -> Iterator[Chunk]:
        with contextlib.ExitStack() as held:
            now, segments, every = self._begin(held, where)
            scores = self._object_scores(segments, every)
            order = _best(scores, top)
            places, scores = every[order], scores[order]

            def prepared(part: slice) -> tuple[Any, ...]:
                histories, sources = self._histories(now, segments, places[part])
                return histories, sources, scores[part], part.start

            def sent(part: slice) -> Part:
                return self._sent(now, segments, places[part], scores[part], part.start)

            cut = partial(self._chunks, now, places)
            if engine == "ray":
                found = spread(self._question, cut, sent, prepared, ray_address)
            else:
                found = self._ahead(map(prepared, cut(self._threads)))
            for chunk in held.enter_context(contextlib.closing(found)):
                yield chunk
                progress("ask", chunk.before + len(chunk.sources), len(order))

    def _begin(
        self, held: contextlib.ExitStack, where: Mapping[str, str] | None
    ) -> tuple[sqlite3.Connection, dict[int, Segment], Places]:
        """The index as it is now, the mapped segments and where the histories lie."""
        missing = None
        while True:
            now = held.enter_context(index.snapshot(self._store.path))
            try:
                return now, *self._places(now, where)
            except FileNotFoundError as error:  # compacted meanwhile: begin again
                if error.filename == missing:
                    raise gone(error) from None
                missing = error.filename
            held.close()

    def _ahead(self, chunks: Iterator[tuple[Any, ...]]) -> Generator[Chunk, None, None]:
        """Give the answers in these, in order. With several threads each works on another chunk,
        while this one reads what the next needs from the index."""
        if self._threads == 1:
            yield from (self._question.answer(*own) for own in chunks)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            waiting: deque[Future[Chunk]] = deque()
            try:
                for own in chunks:
                    waiting.append(pool.submit(self._question.answer, *own))
                    if len(waiting) > self._threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for left in waiting:
                    left.cancel()

    def _places(
        self, now: sqlite3.Connection, where: Mapping[str, str] | None
    ) -> tuple[dict[int, Segment], Places]:
        """The mapped segments, and segment and slot of each history. Where a segment holds all that
        was added to it, nothing is read of its histories: a million are ranked at once."""
        wanted, values = index.condition(now, where)
        sizes = index.sizes(now)
        self._store.forget_but({own[0] for own in sizes})
        counts = "SELECT segment, count(*) FROM histories WHERE dead = 0 GROUP BY segment"
        living = dict(now.execute(counts))
        if living.keys() - {own[0] for own in sizes}:
            raise sqlite3.DatabaseError("an entry without a segment")
        segments, places = {}, [np.empty((0, 2), np.int64)]
        for number, rows, histories in sizes:
            slots = np.arange(living.get(number, 0))
            if where or len(slots) != histories:
                chosen = f"SELECT slot FROM histories WHERE segment = ? AND {wanted} ORDER BY slot"
                slots = _slots(now.execute(chosen, (number, *values)), histories)
            if len(slots):
                segments[number] = self._store.segment(number, rows, histories)
                places.append(np.stack([np.full_like(slots, number), slots], axis=1))
        return segments, np.concatenate(places)

    def _object_scores(
        self, segments: Mapping[int, Segment], places: Places
    ) -> NDArray[np.float64]:
        scores = np.empty(len(places))
        starts = np.searchsorted(places[:, 0], list(segments), side="left")
        ends = np.searchsorted(places[:, 0], list(segments), side="right")
        with np.errstate(all="ignore"):
            for segment, first, end in zip(segments.values(), starts, ends, strict=True):
                # not @: what BLAS gives for a row depends on how many there are
                every = np.einsum("hd,d->h", segment.means, self._centre)
                scores[first:end] = every[places[first:end, 1]]
        if not np.isfinite(scores).all():
            number = places[np.argmin(np.isfinite(scores)), 0]
            raise InputError(
                f"{mean_path(self._store.path / 'segments', number)}: is damaged; dejacue store "
                "verify lists the affected histories"
            )
        return scores

    def _chunks(self, now: sqlite3.Connection, places: Places, workers: int) -> Iterator[slice]:
        """Consecutive histories of so many bytes that a kernel call takes, or fewer: there is one
        for each thread or machine."""
        width = self._store.dtype.itemsize * len(self._centre)
        first, held, most = 0, 0, 0
        for begin in range(0, len(places), CHUNK_HISTORIES):
            sizes = self._lengths(now, places[begin : begin + CHUNK_HISTORIES]) * width
            most = max(most, min(CHUNK_BYTES, int(sizes.sum())) // workers)
            for at, size in enumerate(sizes.tolist(), begin):
                if at > first and (held + size > most or at - first == CHUNK_HISTORIES):
                    yield slice(first, at)
                    first, held = at, 0
                held += size
        if len(places):
            yield slice(first, len(places))

    def _lengths(self, now: sqlite3.Connection, places: Places) -> NDArray[np.int64]:
        known = [self._store.kept.get(key) for key in _keys(places)]
        found = np.array([0 if own is None else len(own[0]) for own in known])
        missing = found == 0
        found[missing] = [length for *_, length in _entries(now, places[missing])]
        return found

    def _histories(
        self, now: sqlite3.Connection, segments: Mapping[int, Segment], places: Places
    ) -> tuple[list[History], list[str | None]]:
        """Those at these places, and their sources; what an earlier question has made is taken."""
        keys = _keys(places)
        found = {key: known for key in keys if (known := self._store.kept.get(key)) is not None}
        missing = [key not in found for key in keys]
        encoder = self._store.encoder
        for segment, slot, first, length, own in _looked_at(now, places[missing]):
            rows = segments[segment].rows[first : first + length]
            key, known = segment << SLOT_BITS | slot, (unpacked(own, rows, encoder), own.source)
            found[key] = known
            self._store.keep(key, known)
        inside = [found[key] for key in keys]
        return [own for own, _ in inside], [source for _, source in inside]

    def _sent(
        self,
        now: sqlite3.Connection,
        segments: Mapping[int, Segment],
        places: Places,
        scores: NDArray[np.float64],
        before: int,
    ) -> Part:
        """The histories at these places, for another machine."""
        rows = {number: len(segments[number].rows) for number in np.unique(places[:, 0]).tolist()}
        own, entries = self._store, list(_looked_at(now, places))
        kind = (own.path.resolve(), own.dtype, len(self._centre), own.encoder)
        return Part(*kind, rows, entries, scores, before)


def _slots(found: Iterable[tuple[int]], below: int) -> NDArray[np.int64]:
    """Ascending, as the index has them."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        slots = np.fromiter((slot for (slot,) in found), np.int64)
        if (np.diff(slots, prepend=-1, append=below) > 0).all():
            return slots
    raise sqlite3.DatabaseError("a slot that is not there")


def _keys(places: Places) -> list[int]:
    keys: list[int] = (places[:, 0] << SLOT_BITS | places[:, 1]).tolist()
    return keys


def _entries(now: sqlite3.Connection, places: Places, more: str = "") -> Iterator[tuple[Any, ...]]:
    """Segment, slot, first row, length and more of those at these places, in their order."""
    keys = _keys(places)
    found = now.execute(
        f"SELECT segment, slot, first, length {more} FROM json_each(?) AS place "
        f"CROSS JOIN histories ON dead = 0 AND segment = place.value >> {SLOT_BITS} "
        f"AND slot = place.value & {(1 << SLOT_BITS) - 1}",
        (json.dumps(keys),),
    )
    for key in keys:
        own = next(found, None)
        if own is None:
            raise sqlite3.DatabaseError("an entry is missing")
        segment, slot, *_ = index.whole(own[:4])
        if segment << SLOT_BITS | slot != key:
            raise sqlite3.DatabaseError("a slot has two entries, or none")
        yield own


def _looked_at(now: sqlite3.Connection, places: Places) -> Iterator[Entry]:
    """What the index says of them."""
    for segment, slot, first, length, id, source, interval, *blobs in _entries(
        now, places, _LOOKED_AT
    ):
        own = Packed._make((id, None, source, interval, None, *blobs, None))
        yield Entry(segment, slot, first, length, own)


def _best(scores: NDArray[np.float64], top: int | None) -> NDArray[np.int64]:
    """Where the highest are, the highest first; of equal ones the first."""
    if top is None or top >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, -top)[-top]
    chosen = np.flatnonzero(scores >= least)
    return chosen[np.argsort(-scores[chosen], kind="stable")[:top]]
