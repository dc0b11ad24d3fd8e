"""The store that histories go into: opened or made for one encoder, and the one writer, which adds
finished histories in groups, a transaction each."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from dejacue.errors import InputError, shortened
from dejacue.pipeline.ingest.manifest import Item
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import PROBLEMS
from dejacue.sources.build import End, Failed, Outcome
from dejacue.sources.encoders import Encoder, encoder_name
from dejacue.sources.partial import partial_files
from dejacue.store import Busy, Failure, Store

Place = str | os.PathLike[str]
GROUP_BYTES = 64 << 20
GROUP_S = 2.0  # the oldest finished history waits so long
PATIENCE_S = 600.0  # for somebody else who writes
PARTIAL = "ingest"  # folder in the store for rows of items that are not finished


@dataclass(frozen=True)
class Ingested:
    """What became of a manifest: ids that were added, those that were in the store already, and
    what failed.

    replaced   those of the added that took the place of another one
    problems   of the added: id → what was wrong with video and masks, a sentence each
    """

    added: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    replaced: tuple[str, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        kinds = (
            ("added", len(self.added) - len(self.replaced)),
            ("replaced", len(self.replaced)),
            ("of them with problems", len(self.problems)),
            ("already in the store", len(self.skipped)),
            ("failed", len(self.failed)),
        )
        return ", ".join(f"{count} {name}" for name, count in kinds if count) or "nothing to do"


class _Finished(NamedTuple):
    item: Item
    histories: Sequence[History]
    pictures: Mapping[str, bytes]


@dataclass
class _Group:
    finished: list[_Finished] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    size: int = 0
    began: float = 0.0


def partial_path(store: Path, name: str) -> Path:
    """The file that keeps the rows of an item until it is in the store at this path."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return store / PARTIAL / f"{digest}.partial"


class Writer:
    """Takes what became of each item; ``close`` waits until all of it is in the store.

    total   how many items there are, for the progress that is told

    Errors of the disk are raised by the next call. Calls come from one thread.
    """

    def __init__(self, store: Store, total: int = 0, progress: Progress = silent) -> None:
        self._store, self._group = store, _Group()
        self.path = store.path
        self._folder = store.path / PARTIAL
        self._unsettled = {own.id for own in store.failures()}
        self._pool = ThreadPoolExecutor(1, "dejacue-writer")
        self._writing: Future[None] | None = None
        self._lock = threading.Lock()
        self._total, self._progress, self._items, self._crops = total, progress, 0, 0
        self._added: list[str] = []
        self._skipped: list[str] = []
        self._failed: list[Failure] = []
        self._replaced: list[str] = []
        self._problems: dict[str, tuple[str, ...]] = {}

    def take(self, outcomes: Iterable[Outcome]) -> None:
        for job, histories, end in outcomes:
            if isinstance(end, Failed):
                self.failed(job, end.what)
            else:
                self.finished(job, histories, end)

    def encoded(self, count: int) -> None:
        """So many more crops are encoded; to be called now and then."""
        self._crops += count
        self._tell()
        self.tick()

    def _tell(self) -> None:
        self._progress("videos", self._items, self._total)
        self._progress("crops", self._crops)

    def partial(self, job: Item) -> Path:
        return partial_path(self.path, job.id)

    def _forget(self, item: Item) -> None:
        """The rows of an item that is in the store."""
        for path in partial_files(self.partial(item)):
            path.unlink(missing_ok=True)

    def finished(self, job: Item, histories: dict[str, History], end: End) -> None:
        with self._lock:
            self._skipped += end.skipped
        self._items += 1
        if histories:
            self._group.finished.append(_Finished(job, [*histories.values()], end.pictures))
            self._grown(sum(own.features.nbytes for own in histories.values()))
        else:
            self._forget(job)
            if job.id in self._unsettled:
                self._group.settled.append(job.id)
                self._grown(0)
        self._tell()

    def failed(self, job: Item, what: str) -> None:
        """Recorded in the store, unless it has a history of this id: that one is in the way."""
        failure = Failure(job.id, job.source, what)
        if job.id not in job.known:
            self._group.failures.append(failure)
        with self._lock:
            self._failed.append(failure)
        self._items += 1
        self._grown(0)
        self._tell()

    @property
    def summary(self) -> Ingested:
        with self._lock:
            return Ingested(
                tuple(self._added),
                tuple(self._skipped),
                tuple(self._failed),
                tuple(self._replaced),
                dict(self._problems),
            )

    def tick(self) -> None:
        """Writes what has waited long enough; to be called now and then."""
        group = self._group
        waited = group.began and time.monotonic() - group.began > GROUP_S
        if group.size > GROUP_BYTES or waited:
            self.flush()

    def _grown(self, size: int) -> None:
        self._group.size += size
        self._group.began = self._group.began or time.monotonic()
        self.tick()

    def flush(self) -> None:
        """Writes in a thread; the one before has to be finished, so that two wait at most."""
        group, self._group = self._group, _Group()
        self._wait()
        if group.began:
            self._writing = self._pool.submit(self._write, group)

    def close(self, keep: bool = False) -> None:
        """keep   what was encoded of unfinished items, for the next run"""
        try:
            self.flush()
            self._wait()
        finally:
            self._pool.shutdown()
        if not keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, group: _Group) -> None:
        if group.finished:
            try:
                self._add(group.finished)
            except InputError:  # of one of them: the others are sound
                for own in group.finished:
                    self._add_alone(own, group)
        if group.failures or group.settled:
            _patiently(lambda: self._store.record(group.failures, group.settled))
        for own in group.finished:
            self._forget(own.item)

    def _add_alone(self, own: _Finished, group: _Group) -> None:
        try:
            self._add([own])
        except Busy:
            raise
        except InputError as error:
            failure = Failure(own.item.id, own.item.source, str(error))
            group.failures.append(failure)
            with self._lock:
                self._failed.append(failure)

    def _add(self, finished: Sequence[_Finished]) -> None:
        histories = [(own, done.item) for done in finished for own in done.histories]
        seen = {id: picture for own in finished for id, picture in own.pictures.items()}
        objects = {own.id: item.object for own, item in histories}
        sources = {own.id: item.source for own, item in histories}
        settled = [own.item.id for own in finished]
        _patiently(
            lambda: self._store.add(
                (own for own, _ in histories),
                replace=any(done.item.replace for done in finished),
                object=objects,
                source=sources,
                settled=settled,
                thumbnails={id: seen[id] for id in objects if id in seen},
            )
        )
        with self._lock:
            self._added += objects
            self._replaced += [own.id for own, item in histories if own.id in item.known]
            for own, _ in histories:
                if problems := (own.made_with or {}).get(PROBLEMS):
                    self._problems[own.id] = tuple(problems.splitlines())


def _patiently(write: Callable[[], object]) -> None:
    """Again and again, while somebody else writes."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            write()
        except Busy:
            if time.monotonic() > until:
                raise
        else:
            return


def check_room(path: Place, ids: Iterable[str], replace: bool) -> None:
    """Refuses, before the work, ids that are in a store already, and a place for none."""
    if not Store.is_at(path):
        Store.check_new(path)
        return
    with Store.open(path) as store:
        there = [id for id in ids if id in store]
    if there and not replace:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise InputError(
            f'{path}: already has a history "{shortened(there[0])}"{more}; --replace replaces it'
        )


def open_store(path: Place, encoder: Encoder) -> Store:
    """The store at a place, or a new one; one of another encoder is refused."""
    if not Store.is_at(path):
        return Store.create(path, encoder=encoder.identity)
    store = Store.open(path)
    try:
        check_encoder_of(store, encoder)
    except BaseException:
        store.close()
        raise
    return store


def check_encoder_of(store: Store, encoder: Encoder) -> None:
    name, dimension = store.encoder, store.dimension
    if name is None and dimension is None:
        return  # whoever comes first
    if name != encoder.identity or dimension not in (None, encoder.dimension):
        holds = "an unnamed encoder" if name is None else f'"{name}"'
        raise InputError(
            f'{store.path}: holds histories of {holds}, but this encoder is "{encoder.identity}"; '
            "use one store per encoder"
        )


def encoder_of(store: Store) -> str | None:
    """The name of the encoder of a store; None where any will do."""
    first = next(store.rows(), None)
    if first is not None:
        return encoder_name(store.origin(first.id))
    if store.encoder is not None:
        raise InputError(
            f'{store.path}: is empty and made for the encoder "{store.encoder}"; name the encoder '
            "with --encoder"
        )
    return None
