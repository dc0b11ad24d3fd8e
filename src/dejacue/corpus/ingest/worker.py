"""The local engine: processes decode and crop, this one encodes and writes.

    workers ──▶ bounded queue ──▶ batches ──▶ encoder ──▶ rows by item ──▶ Writer

Items go to a worker on one pipe, chunks of crops come back on another. A thread for each worker
hands it one item after the other. The threads read chunks in turns, and one that finds the queue
full keeps its turn until there is room, which holds all workers back.

Not multiprocessing: that runs the script of its user again. A pipe takes 1.5 GB/s, which is 10,000
crops a second of 224 × 224, where shared memory takes 1.0 on the same busy machine
(benchmarks/ingest.py); it holds a worker back when nobody reads, and ends with the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dejacue.corpus.ingest.chunks import Chunk, End, Failed, Message, encode_chunks
from dejacue.corpus.ingest.manifest import ADDRESS, Item, fetched
from dejacue.corpus.ingest.writer import IngestRun
from dejacue.errors import DejaCueError, InputError, first_line, lacks_memory
from dejacue.files.remote import is_remote, listing
from dejacue.finding._encode import (
    batched,
    check_visible,
    crops,
    missing_objects,
    pass_details,
    recipe,
    stride_for,
)
from dejacue.finding.locate import locate_object
from dejacue.masks.buffers import BufferPool
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.base import MINIMUM, PADDING, EncoderInfo
from dejacue.records.history import COLUMNS
from dejacue.report.thumbnails import Album, small_jpeg
from dejacue.video.sizes import pixel_limit

MAX_FIT_BYTES = 1 << 20  # of a function that scales images; a model is more
PICTURE_SIDE = 128  # most crops have less than a store allows, and stay as they are
MAX_KEPT_CROPS = 4  # of which one becomes the picture of an object
_START = "import sys; sys.path[:] = {!r}; from dejacue.corpus.ingest import worker; worker.main()"
_PIPE_BYTES = 1 << 20
MAX_WAITING = 8  # chunks in the queue, of 32 MB at most, unless one batch is larger
MAX_THREAD_ENDING_S = 5.0  # for a thread that is fetching a file, when all is stopped
IDLE_S = 0.25  # after which encoded rows move on, though nothing comes after them
MAX_ENDING_S = 2.0
ANY_TIME = nullcontext()


@dataclass(frozen=True)
class Decoding:
    """Settings with which another process decodes and crops items.

    threads   number of threads that decode an item
    """

    encoder: EncoderInfo
    max_pixels: int | None = None
    threads: int | None = None

    @classmethod
    def of(cls, encoder: Encoder, max_pixels: int | None = None) -> Decoding:
        info = EncoderInfo.of(encoder)
        try:
            small = len(pickle.dumps(info.fit)) <= MAX_FIT_BYTES
        except Exception:  # pickle raises whatever the object does
            small = False
        if not small:
            raise InputError(
                f"{encoder.name}: its fit cannot be sent to other processes; make it a "
                "module-level function, or a method of a small object other than the encoder"
            )
        return cls(info, max_pixels)


def decode(item: Item, how: Decoding, pool: BufferPool | None = None) -> Iterator[Message]:
    """Yield the crops of an item, in memory of the pool, then how it ended; an error becomes
    Failed."""
    try:
        with pixel_limit(how.max_pixels):
            yield from _decoded(item, how, pool or BufferPool())
    except DejaCueError as error:
        yield Failed(str(error))
    except Exception as error:
        why = "not enough memory" if lacks_memory(error) else first_line(error)
        yield Failed(f"{item.video}: {why}")


def _addressed(item: Item, info: EncoderInfo) -> Item:
    """Return the item with its address, if all of its files are remote: their listing shows
    whether they have changed, without a download."""
    if item.address or not all(map(is_remote, item.paths)):
        return item
    inputs = [*map(listing, item.paths), vars(item.request.sampled), str(item.request.where)]
    model = [info.identity, dict(info.details), PADDING, MINIMUM]
    digest = hashlib.sha256(json.dumps([*inputs, *model], default=str).encode()).hexdigest()
    return replace(item, address=digest)


def _there_already(item: Item) -> End | None:
    """Return the end of an item whose histories were made of the same address, else None.

    They were added together, so one of them stands for all.
    """
    if item.address is None or not item.known:
        return None
    expected = {ADDRESS: item.address, **(item.extra if item.replace else {})}
    for made_with in item.known.values():
        if any(made_with.get(key) != text for key, text in expected.items()):
            return None
    return End(skipped=tuple(item.known))


def _decoded(item: Item, how: Decoding, pool: BufferPool) -> Iterator[Chunk | End]:
    info, request = how.encoder, item.request
    video = request.opened(how.threads)
    masks = locate_object(video, id=item.id, **request.where)
    stride = stride_for(video, request.max_fps(info), item.known.values())
    video, masks = video.thinned(stride), masks.thinned(stride)
    missing = missing_objects(video, masks, info, _with_columns(item))
    for id in missing:
        if id in item.known and not item.replace:
            raise InputError(
                f'{item.video}: history "{id}" is already in the store, made from another video, '
                "masks or options; give another id, or replace it"
            )
    skipped, ids = tuple(id for id in masks.objects if id not in missing), tuple(missing)
    if not missing:
        yield End(skipped=skipped)
        return
    albums: dict[int, Album[Any]] = {}
    counts: Counter[int] = Counter()
    done: Counter[str] = Counter()
    found = crops(video, masks, missing, info, advance=lambda stage, n: done.update({stage: n}))
    for batch, _ in batched(found, info.chunk):
        for crop in batch:
            album = albums.setdefault(crop.which, Album(MAX_KEPT_CROPS))
            album.see(counts[crop.which], crop.pixels.copy)
            counts[crop.which] += 1
        yield Chunk.of(batch, pool.empty((info.chunk, *batch[0].pixels.shape), np.uint8))
        del batch, crop  # large, and not needed while the next are decoded
    if not counts and not skipped:
        check_visible(video, masks, missing)
    columns = {COLUMNS: "\n".join(item.extra)} if item.extra else {}
    details = {**item.extra, **columns, **({ADDRESS: item.address} if item.address else {})}
    details = {**pass_details(video, masks, done["decode"]), **details}
    yield End(
        {
            id: {**recipe(video, masks, info, mask_ids), **details}
            for id, mask_ids in missing.items()
        },
        masks.presence,
        skipped,
        {ids[at]: small_jpeg(middle(a, counts[at] - 1), PICTURE_SIDE) for at, a in albums.items()},
    )


def _with_columns(item: Item) -> Mapping[str, Mapping[str, str]]:
    """Return the known histories of an item; one with other columns is replaced, too."""
    if not item.replace:
        return item.known
    return {
        name: made_with if item.extra.items() <= made_with.items() else {}
        for name, made_with in item.known.items()
    }


def middle(album: Album[Any], last: int) -> Any:
    """Return what the album holds nearest to the middle of all."""
    return album.items[min(album.items, key=lambda at: abs(2 * at - last - 1))]


def main() -> None:
    """Run a worker: read a Decoding, then items, until the pipe ends."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get in between
    how, pool = pickle.load(source), BufferPool()
    try:
        while True:
            item: Item = pickle.load(source)
            for message in decode(item, how, pool):
                pickle.dump(message, target, 5)  # arrays are written as they are
                del message
                target.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the reader has gone; nothing is left to be flushed


def worker_exit_message(item: Item, code: int) -> str:
    """Return why an item has failed whose worker ended with this exit code."""
    how = f"ended with {code}"
    with contextlib.suppress(ValueError):
        how = f"was killed by {signal.Signals(-code).name}"
    return (
        f"{item.video}: the process that decoded it {how}; there may be too little memory (use "
        "fewer workers), or the file is damaged (re-encode it)"
    )


class Worker:
    """A process and the pipes to it; EOFError is raised where it has ended."""

    def __init__(self, how: Decoding) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(list(sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the one that reads
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._how = self._process.stdin, how
        self._out = cast(io.BufferedReader, self._process.stdout)
        with contextlib.suppress(ImportError, AttributeError, OSError):  # it is slower then
            import fcntl

            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._send(how)

    def _send(self, value: Any) -> None:
        try:
            pickle.dump(value, self._in)
            self._in.flush()
        except OSError:
            raise EOFError from None

    def messages(
        self, item: Item, turn: AbstractContextManager[object] = ANY_TIME
    ) -> Iterator[Message]:
        """Yield what ``decode`` yields for an item, whose files may be remote. A message is read
        only when there is one, and in ``turn``, which lasts until the next one is asked for."""
        try:
            item = _addressed(item, self._how.encoder)
            if (end := _there_already(item)) is not None:
                yield end
                return
            with fetched(item) as here:
                self._send(here)
                message: Message | None = None
                while message is None or isinstance(message, Chunk):
                    message = None
                    self._out.peek(1)
                    with turn:
                        try:
                            message = pickle.load(self._out)
                        except pickle.UnpicklingError:  # it has ended half-way
                            raise EOFError from None
                        yield message
        except DejaCueError as error:  # it cannot be fetched
            yield Failed(str(error))

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        """End the process, and return its exit code."""
        with contextlib.suppress(OSError):  # what it has not read
            self._in.close()
        try:
            code = self._process.wait(MAX_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._out.close()
        return code


def run_local(run: IngestRun) -> None:
    cores = os.cpu_count() or 2
    workers = run.workers or max(1, cores - 1)
    workers = min(workers, max(1, run.total))
    # a video in one thread takes the least work; in more only where there are fewer than cores
    how = replace(run.decoding, threads=max(1, cores // workers))
    with _Workers(run.items, how, workers) as decoding:
        encode_chunks(decoding, run.encoder, how.encoder, run.writer)


class _Workers:
    """Iterate over the messages of all workers, as ``encode_chunks`` takes them."""

    def __init__(self, items: Iterator[Item], how: Decoding, count: int) -> None:
        self._items, self._how = items, how
        self._messages: queue.Queue[tuple[Item | None, Any]] = queue.Queue(MAX_WAITING)
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._stopping = False
        self._alive: set[Worker] = set()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def __enter__(self) -> _Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping = True
            for worker in self._alive:
                worker.kill()
        for thread in self._threads:
            thread.join(MAX_THREAD_ENDING_S)

    def __iter__(self) -> Iterator[tuple[Item | None, Message | None]]:
        ended = 0
        while ended < len(self._threads):
            try:
                item, message = self._messages.get(timeout=IDLE_S)
            except queue.Empty:
                yield None, None
                continue
            if item is not None:
                yield item, message
            elif message is not None:
                raise message
            else:
                ended += 1
            del message  # a chunk is large

    def _put(self, item: Item | None, message: Message | BaseException | None) -> None:
        while not self._stopping:
            with contextlib.suppress(queue.Full):
                self._messages.put((item, message), timeout=IDLE_S)
                return

    def _next(self, worker: Worker | None) -> tuple[Item | None, Worker | None]:
        """Return the next item, if there is one, and the worker, or a new one in place of None."""
        with self._lock:
            item = None if self._stopping else next(self._items, None)
            if item is not None and worker is None:
                worker = Worker(self._how)
                self._alive.add(worker)
            return item, worker

    def _work(self) -> None:
        """Run one thread: its worker, and another one where that has died."""
        worker, problem = None, None
        try:
            while True:
                item, worker = self._next(worker)
                if item is None or worker is None:
                    break
                try:
                    for message in worker.messages(item, self._turn):
                        self._put(item, message)
                        del message
                except EOFError:
                    self._put(item, Failed(worker_exit_message(item, self._ended(worker))))
                    worker = None
        except BaseException as error:
            problem = error
        finally:
            if worker is not None:
                self._ended(worker)
            self._put(None, problem)

    def _ended(self, worker: Worker) -> int:
        with self._lock:
            self._alive.discard(worker)
        return worker.end()
