"""What every kind of mask file offers: rows, one for each frame that has masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Objects = dict[int, Mask]


@dataclass(frozen=True)
class Keys:
    """What the rows of a mask source say about their frames.

    names     the stem of each row's file, or None
    numbers   the frame number of each row, or None: then it is in the name
    firm      whether ``numbers`` count from 0 for sure; numbers in names never do
    """

    names: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None
    firm: bool = True

    def __len__(self) -> int:
        return len(self.names or self.numbers or ())


class Rows(ABC):
    """The rows of a mask source.

    keys      what each row says about its frame
    files     the files that the rows come from; when one changes, so do the masks
    complete  whether a frame without objects has a row as well
    content   changes with masks that are in no file
    """

    keys: Keys
    files: list[Path]
    complete = True
    content = ""

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


class ListedRows(Rows):
    """Rows whose objects are all known when the source is opened.

    objects   for each row and object, what its mask is drawn from
    draw      draws it for a frame of (height, width)
    """

    def __init__(
        self,
        keys: Keys,
        files: list[Path],
        objects: Sequence[Mapping[int, Any]],
        draw: Callable[[Any, tuple[int, int]], Mask],
        *,
        complete: bool = True,
        content: str = "",
    ) -> None:
        self.keys, self.files, self.complete, self.content = keys, files, complete, content
        self._objects, self._draw = objects, draw

    def read(self, row: int, shape: tuple[int, int], ids: frozenset[int] | None) -> Objects:
        return {
            id: self._draw(source, shape)
            for id, source in self._objects[row].items()
            if ids is None or id in ids
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
    resized: Mask = mask[rows[:, None], columns]
    return resized
