"""ingest(): many videos into a store, from a manifest to crops, rows and histories.

    manifest.py    Item, read_manifest: what is to be done
    chunks.py      what processes send each other, and histories made of it
    worker.py      decode(item, how) in other processes, and the local engine
    on_ray.py      the engine on a Ray cluster
    writer.py      Writer: finished histories into the store, failures beside them

An engine is a function of an IngestRun; engines differ only in who calls whom, and where. They wrap
the stages of a single video: locate_object, ``crops`` and the encoding (finding/_encode.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace as changed
from itertools import takewhile
from pathlib import Path
from typing import Any

from dejacue.atomic import knows_locks, lock_folder
from dejacue.corpus import Store
from dejacue.corpus.ingest.manifest import Item, as_items, column_is_taken, fetched, read_manifest
from dejacue.corpus.ingest.on_ray import run_ray
from dejacue.corpus.ingest.worker import Decoding, run_local
from dejacue.corpus.ingest.writer import (
    Ingested,
    IngestRun,
    RayOptions,
    Writer,
    check_encoder_of,
    encoder_of,
    open_store,
    work_folder,
)
from dejacue.errors import Cancelled, DejaCueError, InputError, SeveralProblems, StrPath
from dejacue.finding._encode import mini_warning
from dejacue.finding.locate import locate_object, way_of
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
from dejacue.masks._masks import object_groups, object_name
from dejacue.models.detectors import Detector
from dejacue.models.encoders import Encoder
from dejacue.models.trackers import Tracker
from dejacue.progress import Progress, default_progress

_log = logging.getLogger("dejacue")
ENGINES: dict[str, Callable[[IngestRun], None]] = {"local": run_local, "ray": run_ray}


def ingest(
    manifest: StrPath | Iterable[Mapping[str, Any]],
    store: StrPath | Store,
    *,
    encoder: Encoder | str | Lazy | None = None,
    detector: Detector | str | None = None,
    tracker: Tracker | str | None = None,
    engine: str = "local",
    workers: int | None = None,
    retry: bool = False,
    replace: bool = False,
    root: StrPath | None = None,
    max_pixels: int | None = None,
    ray_address: str | None = None,
    actors: int | None = None,
    gpus_per_actor: float | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Make a history of each object of many videos, and add them to a store.

    manifest   a .csv or .jsonl file with a line for each video (docs/files.md), or mappings
    store      a store, or where to create it
    encoder    a name or an Encoder (None: that of the store, or siglip2)
    detector, tracker   of objects that are found by their names, as ``find`` takes them
    engine     local, or ray, for which the last options are (docs/corpora.md)
    workers    processes that decode and crop (None: one less than cores; with Ray, as it can)
    retry      only what has failed before
    replace    redo histories of the same id made from other inputs, which fail otherwise
    root       folder or URL below which a manifest at a URL may name files, beside its own folder

    An error in the manifest is raised before anything is begun. After that, an item that fails is
    recorded in the store (``store.failures()``) and the others go on. What is in the store already,
    made from the same inputs, is skipped: to resume a run that was stopped or killed, repeat it.

    >>> from dejacue.demo import write_demo
    >>> folder = write_demo("cup", overwrite=True)
    >>> line = {"id": "cup", "video": "cup/scene.mp4", "masks": "cup/Annotations"}
    >>> print(ingest([line], "cups.dejacue", encoder="mini", workers=1))
    1 added
    """
    ray = RayOptions(ray_address, actors, gpus_per_actor)
    ray.check(engine)
    if workers is not None and workers < 1:
        raise InputError(f"workers {workers}: give at least 1")
    if isinstance(manifest, str | os.PathLike):
        items, manifest_name = read_manifest(manifest, root), os.fspath(manifest)
    else:
        items, manifest_name = as_items(manifest), "the manifest"
    with contextlib.ExitStack() as stack:
        target = _opened(store, stack)
        if retry:
            if target is None:
                problem = "is not a store yet, so there is nothing to retry"
                raise InputError(f"{store}: {problem}; do not retry")
            failed = {failure.id for failure in target.failures()}
            items = [item for item in items if item.id in failed]
        if not items:
            return Ingested()
        name, options = unwrapped(encoder)
        if name is None and target is not None:
            name = encoder_of(target)
        model = loaded_encoder(Lazy(name, options))
        for text in mini_warning(model.identity):
            _log.warning(text)
        decoding = Decoding.of(model, max_pixels)
        if max_fps := decoding.encoder.max_fps:
            _log.info(
                "lines with neither stride nor fps: about %g frames per second are used", max_fps
            )
        columns = dict.fromkeys(name for item in items for name in item.extra)
        if taken := [name for name in columns if name in model.details]:  # both are in made_with
            raise SeveralProblems(manifest_name, map(column_is_taken, taken))
        if target is None:
            assert not isinstance(store, Store)
            target = stack.enter_context(open_store(store, model))
            stack.enter_context(_locked(target.path))
        check_encoder_of(target, model)
        progress = progress or default_progress()
        writer = Writer(target, len(items), progress)
        located = _located(items, model, writer, detector, tracker, progress)
        run = IngestRun(
            _with_known(located, target, replace),
            len(items),
            model,
            decoding,
            writer,
            workers,
            name if isinstance(name, Encoder) else Lazy(name or "siglip2", options),
            ray,
        )
        try:
            ENGINES[engine](run)
        except BaseException as error:
            writer.close(keep=True)
            if isinstance(error, Cancelled | KeyboardInterrupt):
                problem = f"stopped; {target.path}: {writer.summary}"
                problem += "; partly encoded videos are kept"
                raise Cancelled(f"{problem}; run the same command to resume") from None
            raise
        writer.close()
        return writer.summary


def _opened(store: StrPath | Store, stack: contextlib.ExitStack) -> Store | None:
    """Return the store, locked until the stack is closed; None: it is to be created."""
    if not isinstance(store, Store):
        if not Store.is_at(store):
            Store.check_new(store)
            return None
        store = stack.enter_context(Store.open(store))
    store.check_writable()
    stack.enter_context(_locked(store.path))
    return store


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Refuse a second ingest into the same store: it would do all of the work twice. The folder
    beside it is locked, and removed in the end if nothing is in it."""
    folder = work_folder(path)
    folder.mkdir(exist_ok=True)
    lock = lock_folder(folder)
    if lock is None and knows_locks():
        problem = "another ingest is writing to this store"
        raise InputError(f"{path}: {problem}; wait until it has finished")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
        if lock is not None:
            os.close(lock)


def _located(
    items: Iterable[Item],
    encoder: Encoder,
    writer: Writer,
    detector: Detector | str | None,
    tracker: Tracker | str | None,
    progress: Progress,
) -> list[Item]:
    """Return the items with masks for objects that are given by their names: they are found and
    followed here, before anything is encoded. Their masks stay in the store, for another run."""
    located: list[Item] = []
    for item in items:
        if way_of(**item.request.where) == "name":
            try:
                with fetched(item) as here:
                    asked = changed(here.request, detector=detector, tracker=tracker)
                    masks = locate_object(
                        asked.opened(),
                        **asked.where,
                        encoder=encoder,
                        id=item.id,
                        folder=writer.masks(item),
                        progress=progress,
                    )
            except Cancelled:
                raise
            except DejaCueError as error:
                writer.failed(item, str(error))
                continue
            for note in masks.notes:
                _log.info("%s: %s", item.id, note)
            pieces = [sorted(mask_ids) for mask_ids in masks.objects.values() if mask_ids]
            request = changed(item.request, name=None, masks=str(masks.path), objects=pieces)
            item = changed(item, request=request)
        located.append(item)
    return located


def _with_known(items: Iterable[Item], store: Store, replace: bool) -> Iterator[Item]:
    """Yield each item with what the store has of it, looked up when the item is begun."""
    ids = sorted(store.ids())

    def known(item: Item) -> dict[str, dict[str, str]]:
        names = [item.id]
        objects = item.request.objects
        if objects == "all":
            begin = f"{item.id}-"
            after = ids[bisect_left(ids, begin) :]
            names = list(takewhile(lambda id: id.startswith(begin), after))
        elif objects is not None and len(groups := object_groups(objects)) > 1:
            names = [f"{item.id}-{object_name(group)}" for group in groups]
        return {name: dict(store.origin(name).made_with) for name in names if name in store}

    for item in items:
        yield changed(item, known=known(item), replace=replace)
