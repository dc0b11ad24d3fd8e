"""The local engine: processes decode and crop, this one encodes, a thread writes.

    workers ──▶ bounded queue ──▶ batches ──▶ encoder ──▶ rows by item ──▶ Writer

A thread for each worker hands it one item after the other and reads what it gives; it waits before
it reads more than fits (HELD bytes over all), which holds the worker back in turn.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from dejacue.errors import DejaCueError
from dejacue.pipeline.ingest.manifest import Item, fetched
from dejacue.pipeline.ingest.run import Run
from dejacue.pipeline.ingest.worker import Decoding, Worker, addressed, obituary, there_already
from dejacue.sources.build import Failed, Incoming, encode_chunks

HELD = 256 << 20  # bytes of crops that wait for the encoder
ENDING_S = 5.0  # a thread that is fetching a file is not waited for longer, when all is stopped
IDLE_S = 0.25  # then what is encoded moves on, though nothing comes after it


def run_local(run: Run) -> None:
    cores = os.cpu_count() or 2
    workers = run.workers or max(1, cores - 1)
    workers = min(workers, max(1, run.total))
    # a video in one thread takes the least work; in more only where there are fewer than cores
    how = replace(run.decoding, threads=max(1, cores // workers))
    with _Workers(run.items, how, workers) as decoding:
        encode_chunks(decoding, run.encoder, how.encoder, run.writer)


class _Room:
    """Bytes that may wait; one message passes however large it is."""

    def __init__(self, size: int) -> None:
        self._size, self._held = size, 0
        self._changed = threading.Condition()
        self._open = False

    def take(self, size: int) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._open or not self._held or self._held + size <= self._size
            )
            self._held += size

    def give(self, size: int) -> None:
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def stop(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._open = True
            self._changed.notify_all()


class _Workers:
    """Iterates over what all workers give, as ``encode_chunks`` takes it."""

    def __init__(self, items: Iterator[Item], how: Decoding, count: int) -> None:
        self._items, self._how = items, how
        self.room = _Room(HELD)
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
        self.room.stop()
        for own in self._threads:
            own.join(ENDING_S)

    def __iter__(self) -> Iterator[Incoming]:
        ended = 0
        while ended < len(self._threads):
            try:
                got = self._queue.get(timeout=IDLE_S)
            except queue.Empty:
                yield None, None, None
                continue
            if got is None:
                ended += 1
            elif isinstance(got, BaseException):
                raise got
            else:
                item, message, size = got
                yield item, message, partial(self.room.give, size)
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
                    self._queue.put((item, Failed(obituary(item, self._ended(worker))), 0))
                    worker = None
        except BaseException as error:
            self._queue.put(error)
        finally:
            if worker is not None:
                self._ended(worker)
            self._queue.put(None)

    def _pass_on(self, worker: Worker, item: Item) -> None:
        taken = 0  # for what is being read

        def make_room(size: int) -> None:
            nonlocal taken
            self.room.take(size)
            taken = size

        try:
            item = addressed(item, self._how.encoder)
            if (end := there_already(item)) is not None:
                self._queue.put((item, end, 0))
                return
            with fetched(item) as here:
                for message in worker.messages(here, make_room):
                    self._queue.put((item, message, taken))
                    taken = 0
                    del message
        except DejaCueError as error:  # it cannot be fetched
            self._queue.put((item, Failed(str(error)), 0))
        except EOFError:
            self.room.give(taken)
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
