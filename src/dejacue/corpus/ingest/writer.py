"""The store that histories go into: opened or created for one encoder, and the only writer, which
adds finished histories in groups, a transaction each."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dejacue.corpus import Busy, Failure, Store, StoreExists
from dejacue.corpus.cluster import check_engine
from dejacue.corpus.ingest.chunks import End
from dejacue.corpus.ingest.manifest import Item
from dejacue.errors import InputError, StrPath, shortened
from dejacue.files.partial import partial_files
from dejacue.finding.request import Lazy
from dejacue.models.encoders import Encoder, encoder_name
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import MEANINGLESS, PROBLEMS

if TYPE_CHECKING:
    from dejacue.corpus.ingest.worker import Decoding

MAX_GROUP_BYTES = 64 << 20
MAX_WAITING_S = 2.0  # of the oldest finished history
MAX_BUSY_S = 600.0  # while another process writes
LOCATED = "objects"  # folder beside the store for masks of objects that were found by their names
PARTIAL = "ingest"  # folder beside the store for rows of items that are not finished


@dataclass(frozen=True)
class Ingested:
    """The outcome of a manifest: ids that were added or were in the store already, and failures.

    replaced   added ids that took the place of another history
    problems   added id → what was wrong with its video and masks, a sentence each
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


def work_folder(store: Path) -> Path:
    """Return the folder beside a store for what an ingest keeps: corpus.dejacue.work."""
    return store.with_name(f"{store.name}.work")


def partial_path(store: Path, name: str) -> Path:
    """Return the file that keeps the rows of an item until it is in the store at this path."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return work_folder(store) / PARTIAL / f"{digest}.partial"


class Writer:
    """Write the outcome of each item; ``close`` writes what is left.

    total   how many items there are, for the progress
    """

    def __init__(self, store: Store, total: int = 0, progress: Progress = silent) -> None:
        self._store, self.path = store, store.path
        self._total, self._progress, self._items, self._crops = total, progress, 0, 0
        self._unsettled = {failure.id for failure in store.failures()}
        self._finished: list[tuple[Item, Mapping[str, History], End]] = []  # not written yet
        self._failures: list[Failure] = []  # nor these
        self._bytes, self._began = 0, 0.0
        self._added: list[str] = []
        self._skipped: list[str] = []
        self._failed: list[Failure] = []
        self._replaced: list[str] = []
        self._problems: dict[str, tuple[str, ...]] = {}

    def encoded(self, count: int) -> None:
        """Count encoded crops, and write what has waited long enough."""
        self._crops += count
        self._report()
        self.tick()

    def _report(self) -> None:
        self._progress("videos", self._items, self._total)
        self._progress("crops", self._crops)

    def masks(self, job: Item) -> Path:
        """Return the folder for the masks of an object that is found by its name."""
        return work_folder(self.path) / LOCATED / self.partial(job).stem

    def partial(self, job: Item) -> Path:
        return partial_path(self.path, job.id)

    def finished(self, job: Item, histories: Mapping[str, History], end: End) -> None:
        self._skipped += end.skipped
        self._finished.append((job, histories, end))
        self._bytes += sum(history.features.nbytes for history in histories.values())
        self._done()

    def failed(self, job: Item, what: str) -> None:
        """Record a failure in the store, unless the store has a history of this id."""
        self._fail(job, what)
        self._done()

    def _fail(self, job: Item, what: str) -> None:
        failure = Failure(job.id, job.source, what)
        self._failed.append(failure)
        if job.id not in job.known:
            self._failures.append(failure)

    def _done(self) -> None:
        self._items += 1
        self._began = self._began or time.monotonic()
        self.tick()
        self._report()

    @property
    def summary(self) -> Ingested:
        return Ingested(
            tuple(self._added),
            tuple(self._skipped),
            tuple(self._failed),
            tuple(self._replaced),
            dict(self._problems),
        )

    def tick(self) -> None:
        """Write what has waited long enough; to be called now and then."""
        waited = self._began and time.monotonic() - self._began > MAX_WAITING_S
        if self._bytes > MAX_GROUP_BYTES or waited:
            self._write()

    def close(self, keep: bool = False) -> None:
        """Write what is left; ``keep`` the rows of unfinished items for the next run."""
        self._write()
        if not keep:
            shutil.rmtree(work_folder(self.path) / PARTIAL, ignore_errors=True)

    def _write(self) -> None:
        finished, self._finished, self._bytes, self._began = self._finished, [], 0, 0.0
        self._add([(item, histories, end) for item, histories, end in finished if histories])
        failures, self._failures = self._failures, []
        settled = self._unsettled.intersection(item.id for item, *_ in finished)
        if failures or settled:
            _retry_while_busy(lambda: self._store.record(failures, settled))
        for item, *_ in finished:
            for path in partial_files(self.partial(item)):
                path.unlink(missing_ok=True)

    def _add(self, finished: Sequence[tuple[Item, Mapping[str, History], End]]) -> None:
        """Add the histories of these items in one transaction, or else of each that can be."""
        if not finished:
            return
        histories = [history for _, made, _ in finished for history in made.values()]
        items = {id: item for item, made, _ in finished for id in made}
        pictures = {id: picture for *_, end in finished for id, picture in end.pictures.items()}
        try:
            _retry_while_busy(
                lambda: self._store.add(
                    histories,
                    replace=any(item.replace for item in items.values()),
                    object={id: item.object for id, item in items.items()},
                    source={id: item.source for id, item in items.items()},
                    thumbnails={id: pictures[id] for id in items if id in pictures},
                )
            )
        except Busy:
            raise
        except InputError as error:  # of one of them: the others are sound
            if len(finished) == 1:
                self._fail(finished[0][0], str(error))
            else:
                for one in finished:
                    self._add([one])
            return
        self._added += items
        self._replaced += [id for id, item in items.items() if id in item.known]
        for history in histories:
            made_with = history.made_with or {}
            problems = [made_with[MEANINGLESS]] if MEANINGLESS in made_with else []
            if problems := [*problems, *made_with.get(PROBLEMS, "").splitlines()]:
                self._problems[history.id] = tuple(problems)


def _retry_while_busy(write: Callable[[], object]) -> None:
    """Write, and try again while another process writes; not SQLite's own timeout, which would not
    end with Ctrl-C."""
    until = time.monotonic() + MAX_BUSY_S
    while True:
        try:
            write()
            return
        except Busy:
            if time.monotonic() > until:
                raise


def check_room(path: StrPath, ids: Iterable[str], replace: bool) -> None:
    """Refuse, before the work, ids that are in the store already, or a place that is no store."""
    if not Store.is_at(path):
        Store.check_new(path)
        return
    with Store.open(path) as store:
        store.check_writable()
        taken = [id for id in ids if id in store]
    if taken and not replace:
        further = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        problem = f'already has a history "{shortened(taken[0])}"{further}'
        raise InputError(f"{path}: {problem}; give another id, or replace it")


def open_store(path: StrPath, encoder: Encoder) -> Store:
    """Open the store at a place, or create one; refuse a store of another encoder."""
    if not Store.is_at(path):
        with contextlib.suppress(StoreExists):  # another process was quicker
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
    """Return the name of the encoder of a store; None: any encoder will do."""
    first = next(store.rows(), None)
    if first is not None:
        return encoder_name(store.origin(first.id))
    if store.encoder is not None:
        problem = f'is empty and made for the encoder "{store.encoder}"'
        raise InputError(f"{store.path}: {problem}; name the encoder")
    return None


@dataclass(frozen=True)
class RayOptions:
    """Options of a Ray cluster: where it is, and how many models run on it.

    address          as in ``dejacue.corpus.cluster.connected``
    actors           number of models (None: one per GPU or, without GPUs, per machine)
    gpus_per_actor   may be a fraction (None: 1 if the cluster has any, else 0)
    """

    address: str | None = None
    actors: int | None = None
    gpus_per_actor: float | None = None

    def check(self, engine: str) -> None:
        check_engine(engine, self.address)
        if engine != "ray" and self != RayOptions():
            raise InputError("actors need Ray; name the engine ray, too, or leave them out")
        if self.actors is not None and self.actors < 1:
            raise InputError(f"actors {self.actors}: give at least 1")
        if self.gpus_per_actor is not None and not 0 <= self.gpus_per_actor < 1e3:
            raise InputError(f"GPUs per actor {self.gpus_per_actor}: give 0 or more")


@dataclass(frozen=True, eq=False)
class IngestRun:
    """Holds all that an engine needs to make histories of items.

    items      each once; total: how many there are
    decoding   what other processes need to know
    workers    how many processes decode; None: as many as suit the machine
    writer     takes the outcome of each item
    source     the encoder, or its name and how it is loaded on another machine
    """

    items: Iterator[Item]
    total: int
    encoder: Encoder
    decoding: Decoding
    writer: Writer
    workers: int | None
    source: Encoder | Lazy
    ray: RayOptions
