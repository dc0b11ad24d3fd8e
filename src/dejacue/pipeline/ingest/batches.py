"""Chunks of many items → batches for one encoder → the histories of each item."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError
from dejacue.pipeline.ingest.crops import Chunk, End, Failed
from dejacue.pipeline.ingest.manifest import Item
from dejacue.pipeline.ingest.rows import Gathered, keys_of
from dejacue.pipeline.ingest.run import Run

Crop = tuple[Gathered, bytes, NDArray[np.uint8]]  # whose it is, its key, its pixels


@dataclass(eq=False)
class Batch:
    """Crops to encode, and what to do when this is done."""

    crops: list[Crop] = field(default_factory=list)
    then: list[Callable[[], object]] = field(default_factory=list)


class Encoding:
    """Makes batches in one thread; ``encode`` may run in others, one or more batches at a time.

    filled   whether a batch holds crops of any items; else of one item, in order, so that a row has
             the bits that ``encode`` gives it. Asked when there is something to encode
    """

    def __init__(self, run: Run, filled: Callable[[], bool]) -> None:
        self._run, self._ask, self._size = run, filled, run.encoder.batch
        self._open: dict[str, Gathered] = {}
        self._waiting: dict[str, list[Crop]] = {}  # by item; where batches are filled, all by ""
        self._then: list[Callable[[], object]] = []  # when those that wait by "" are encoded
        self._lock = threading.Lock()
        self._items = self._crops = 0

    @cached_property
    def _filled(self) -> bool:
        return self._ask()

    def __enter__(self) -> Encoding:
        return self

    def __exit__(self, *_: object) -> None:
        for own in self._open.values():
            own.close()

    def encode(self, batch: Batch) -> Batch:
        """Rows are kept at once, so that a kill costs what is being encoded and no more. All of a
        batch or none: a model may give a crop other last bits beside other crops."""
        try:
            self._encode(batch.crops)
        except DejaCueError:  # a crop of one of them: the others are sound
            for gathered in {own[0]: None for own in batch.crops}:
                try:
                    self._encode([own for own in batch.crops if own[0] is gathered])
                except DejaCueError as error:
                    gathered.problem = str(error)
        return batch

    def _encode(self, crops: list[Crop]) -> None:
        if all(key in gathered.known for gathered, key, _ in crops):
            return
        rows = self._run.encoder.encode_images([pixels for _, _, pixels in crops])
        found: dict[Gathered, dict[bytes, NDArray[np.float32]]] = {}
        for (gathered, key, _), row in zip(crops, rows, strict=True):
            found.setdefault(gathered, {})[key] = row
        with self._lock:
            for gathered, own in found.items():
                gathered.add(own)

    def chunk(self, item: Item, chunk: Chunk, consumed: Callable[[], object]) -> Iterator[Batch]:
        """``consumed`` is called when its crops are not needed any more."""
        gathered = self._open.get(item.name)
        if gathered is None:
            kept = self._run.writer.partial(item.name)
            gathered = self._open[item.name] = Gathered(self._run.look, kept)
        gathered.see(chunk)
        waiting = self._waiting.setdefault("" if self._filled else item.name, [])
        waiting += [
            (gathered, key, pixels)
            for key, pixels in zip(keys_of(chunk), chunk.crops, strict=True)
            if not (self._filled and key in gathered.known)
        ]
        full = len(waiting) // self._size * self._size
        made = [Batch(waiting[at : at + self._size]) for at in range(0, full, self._size)]
        # copies: a few crops that wait for others would hold all of their chunk
        waiting[:] = [(own, key, pixels.copy()) for own, key, pixels in waiting[full:]]
        if made:
            made[0].then, self._then = self._then, []
        else:
            made = [Batch()]
        made[-1].then += [consumed, partial(self._tell, 0, len(chunk.crops))]
        yield from made

    def ended(self, item: Item, message: End | Failed) -> Iterator[Batch]:
        """After all crops of an item: it is finished when the last of them is encoded."""
        finish = partial(self._finish, item, message)
        if self._waiting.get(""):
            self._then.append(finish)
        else:
            yield Batch(self._waiting.pop(item.name, []), [finish])

    def idle(self) -> Iterator[Batch]:
        """Nothing comes for a moment, or no more: what waits is encoded, if batches are filled.
        An empty batch moves on those that are on their way."""
        then, self._then = self._then, []
        yield Batch(self._waiting.pop("", []), then)

    def _finish(self, item: Item, message: End | Failed) -> None:
        gathered = self._open.pop(item.name, None)
        if isinstance(message, Failed):
            self._run.writer.failed(item, message.what)
        elif gathered is not None and gathered.problem is not None:
            self._run.writer.failed(item, f"{item.video}: {gathered.problem}")
        else:
            made = [] if gathered is None else gathered.histories(message)
            self._run.writer.finished(item, made, message.skipped, message.pictures)
        if gathered is not None:
            gathered.close()
        self._tell(1, 0)

    def _tell(self, items: int, crops: int) -> None:
        self._items += items
        self._crops += crops
        self._run.progress("videos", self._items, self._run.total)
        self._run.progress("crops", self._crops)
