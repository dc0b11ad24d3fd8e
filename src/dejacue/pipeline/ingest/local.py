"""The local engine: processes decode and crop, this one encodes, a thread writes.

    workers ──▶ bounded queue ──▶ batches ──▶ encoder ──▶ rows by item ──▶ Writer

A thread for each worker hands it one item after the other and reads what it gives; before it reads
a chunk it waits until fewer than MAX_WAITING are there, which holds the worker back in turn.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from threading import Semaphore
from typing import Any

from dejacue.pipeline.ingest.manifest import Item
from dejacue.pipeline.ingest.run import Run
from dejacue.pipeline.ingest.worker import Decoding, Worker, obituary
from dejacue.sources.build import Failed, Incoming, encode_chunks

MAX_WAITING = 8  # chunks of all workers, of 32 MB at most, unless one batch is larger
ENDING_S = 5.0  # a thread that is fetching a file is not waited for longer, when all is stopped
IDLE_S = 0.25  # then what is encoded moves on, though nothing comes after it


def run_local(run: Run) -> None:
    cores = os.cpu_count() or 2
    workers = run.workers or max(1, cores - 1)
    workers = min(workers, max(1, run.total))
    # a video in one thread takes the least work; in more only where there are fewer than cores
    how = replace(run.decoding, threads=max(1, cores // workers))
    writer = run.writer
    with (
        _Workers(run.items, how, workers) as decoding,
        contextlib.closing(
            encode_chunks(decoding, run.encoder, how.encoder, writer.partial, writer.encoded)
        ) as outcomes,
    ):
        writer.take(outcomes)


class _Workers:
    """Iterates over what all workers give, as ``encode_chunks`` takes it."""

    def __init__(self, items: Iterator[Item], how: Decoding, count: int) -> None:
        self._items, self._how = items, how
        self.slots = Semaphore(MAX_WAITING)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = False
        self._alive: set[Worker] = set()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def __enter__(self) -> _Workers:
        for own in self._threads:
            own.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping = True
            for worker in self._alive:
                worker.kill()
        self.slots.release(len(self._threads))  # nobody waits any more
        for own in self._threads:
            own.join(ENDING_S)

    def __iter__(self) -> Iterator[Incoming]:
        ended = 0
        while ended < len(self._threads):
            try:
                got = self._queue.get(timeout=IDLE_S)
            except queue.Empty:
                yield Incoming(None, None)
                continue
            if got is None:
                ended += 1
            elif isinstance(got, BaseException):
                raise got
            else:
                item, message = got
                yield Incoming(item, message, self.slots.release)
                del message
            del got

    def _next(self) -> Item | None:
        with self._lock:
            return None if self._stopping else next(self._items, None)

    def _work(self) -> None:
        """One thread: its worker, and another one where that has died."""
        worker = None
        try:
            while (item := self._next()) is not None:
                worker = worker or self._started()
                if worker is None:
                    break
                try:
                    self._pass_on(worker, item)
                except EOFError:
                    if self._stopping:
                        break
                    self.slots.acquire()
                    self._queue.put((item, Failed(obituary(item, self._ended(worker)))))
                    worker = None
        except BaseException as error:
            self._queue.put(error)
        finally:
            if worker is not None:
                self._ended(worker)
            self._queue.put(None)

    def _pass_on(self, worker: Worker, item: Item) -> None:
        waiting = False  # for a message that is being read

        def wait() -> None:
            nonlocal waiting
            self.slots.acquire()
            waiting = True

        try:
            for message in worker.messages(item, wait):
                self._queue.put((item, message))
                waiting = False
                del message
        except EOFError:
            if waiting:
                self.slots.release()
            raise

    def _started(self) -> Worker | None:
        with self._lock:
            if self._stopping:
                return None
            worker = Worker(self._how)
            self._alive.add(worker)
            return worker

    def _ended(self, worker: Worker) -> int:
        with self._lock:
            self._alive.discard(worker)
        return worker.end()
