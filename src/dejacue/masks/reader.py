"""What every kind of mask file offers: rows, one for each frame that has masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError

Mask = NDArray[np.bool_]
Objects = Mapping[int, Mask]
Box = tuple[float, float, float, float]  # x, y, width, height
MAX_OUTSIDE = 0.1  # share of the area of boxes that may lie outside the picture
MIN_NOTED_OUTSIDE = 0.001


@dataclass(frozen=True)
class Keys:
    """The frames that the rows of a mask source belong to, by name or number.

    names     the stem of each row's file, or None
    numbers   the frame number of each row, or None: then it is in the name
    firm      whether ``numbers`` count from 0 for sure; numbers in names never do
    """

    names: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None
    firm: bool = True

    def __len__(self) -> int:
        return len(self.names or self.numbers or ())


def share_outside(box: Sequence[float], shape: tuple[int, int]) -> float:
    """Return which share of the area of a box (x, y, width, height) is outside of a picture."""
    x, y, width, height = box
    if not width * height:
        return 0.0
    columns = max(0.0, min(x + width, shape[1]) - max(x, 0.0))
    rows = max(0.0, min(y + height, shape[0]) - max(y, 0.0))
    return 1 - columns / width * (rows / height)


class Rows(ABC):
    """The rows of a mask source.

    keys      what each row says about its frame
    files     the files that the rows come from; when one changes, so do the masks
    complete  whether a frame without objects has a row as well
    content   changes with masks that are in no file
    notes     what a reader must know of those that were read
    """

    keys: Keys
    files: list[Path]
    complete = True
    content = ""
    notes: Sequence[str] = ()

    @abstractmethod
    def read(self, row: int, shape: tuple[int, int], ids: frozenset[int] | None) -> Objects:
        """Return the masks of these objects (None: of all; then any ids will do) in this row, each
        of its own size; ``shape`` is the frame's, for masks that have none. Absent ones are left
        out or empty."""

    @abstractmethod
    def ids_of(self, row: int) -> frozenset[int]:
        """Return the ids of the objects in a row."""

    def has_room(self) -> bool:
        """Return whether the next row whose ids are looked up is buffered until it is read."""
        return True

    def known_ids(self) -> frozenset[int] | None:
        """Return all ids, where the source lists them; else None: they are found by looking."""
        return None


class _Drawn(Mapping[int, Mask]):
    """Masks that are drawn when they are looked at, so that one is in memory and not all."""

    def __init__(
        self,
        sources: Mapping[int, Any],
        draw: Callable[[Any, tuple[int, int]], Mask],
        shape: tuple[int, int],
    ) -> None:
        self._sources, self._draw, self._shape = sources, draw, shape

    def __getitem__(self, id: int) -> Mask:
        return self._draw(self._sources[id], self._shape)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


class ListedRows(Rows):
    """Rows whose objects are all known when the source is opened.

    objects   for each row and object, what its mask is drawn from
    draw      draws it for a frame of (height, width)
    boxes     yields the boxes in it, each with the size of its picture

    An object whose boxes lie outside the picture by more than MAX_OUTSIDE of their area is refused:
    they are those of another size. Trackers follow an object out of the picture, so one box may.
    """

    def __init__(
        self,
        keys: Keys,
        files: list[Path],
        objects: Sequence[Mapping[int, Any]],
        draw: Callable[[Any, tuple[int, int]], Mask],
        *,
        boxes: Callable[[Any, tuple[int, int]], Iterable[tuple[Box, tuple[int, int]]]]
        | None = None,
        complete: bool = True,
        content: str = "",
    ) -> None:
        self.keys, self.files, self.complete, self.content = keys, files, complete, content
        self._objects, self._draw, self._boxes = objects, draw, boxes
        self._shape: tuple[int, int] | None = None  # for which boxes were checked
        self._outside: dict[int, tuple[float, int, str]] = {}
        self.notes: list[str] = []

    def read(self, row: int, shape: tuple[int, int], ids: frozenset[int] | None) -> Objects:
        chosen = {
            id: source for id, source in self._objects[row].items() if ids is None or id in ids
        }
        self._check_inside(chosen, shape)
        return _Drawn(chosen, self._draw, shape)

    def _check_inside(self, ids: Iterable[int], shape: tuple[int, int]) -> None:
        if self._boxes is None:
            return
        if self._shape != shape:
            self._shape, self._outside = shape, self._measured(shape)
        for id in self._outside.keys() & ids:
            share, count, size = self._outside[id]
            if share > MAX_OUTSIDE:
                file = self.files[0] if len(self.files) == 1 else self.files[0].parent
                raise InputError(
                    f"{file}: the boxes of object {id} lie {share:.0%} outside the picture of "
                    f"{size} pixels; give boxes in pixels of this video at its full size"
                )
            del self._outside[id]
            self.notes.append(
                f"{count} of the boxes of object {id} reach outside the picture of {size} pixels "
                "and are clipped"
            )

    def _measured(self, shape: tuple[int, int]) -> dict[int, tuple[float, int, str]]:
        """Return, of each object with boxes that reach outside, the share of their area, how many
        they are, and the size of the picture."""
        areas: dict[int, list[float]] = {}
        assert self._boxes is not None
        for objects in self._objects:
            for id, source in objects.items():
                for box, (height, width) in self._boxes(source, shape):
                    share, area = share_outside(box, (height, width)), box[2] * box[3]
                    sums = areas.setdefault(id, [0.0, 0.0, 0])
                    sums[0] += area
                    if share > MIN_NOTED_OUTSIDE:
                        sums[1] += share * area
                        sums[2] += 1
        return {
            id: (outside / area, int(count), f"{width} × {height}")
            for id, (area, outside, count) in areas.items()
            if count
        }

    def ids_of(self, row: int) -> frozenset[int]:
        return frozenset(self._objects[row])

    def known_ids(self) -> frozenset[int]:
        return frozenset(object for objects in self._objects for object in objects)


def resize_nearest(mask: Mask, shape: tuple[int, int]) -> Mask:
    """Give every pixel the value of the one under its centre; exact in whole numbers."""
    rows, columns = (
        (2 * np.arange(new) + 1) * old // (2 * new)
        for old, new in zip(mask.shape, shape, strict=True)
    )
    return np.asarray(mask[rows[:, None], columns])
