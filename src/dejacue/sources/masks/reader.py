"""What every kind of mask file offers: rows, one for each frame that has masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.masks._matching import Keys

Objects = dict[int, NDArray[np.bool_]]


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
    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        """Masks of the wanted objects (None: of all; then any ids will do) in this row, each of
        its own size; ``shape`` is the frame's, for masks that have none. Absent ones are left
        out or empty."""

    @abstractmethod
    def ids_of(self, row: int) -> frozenset[int]:
        """The ids of the objects in a row."""

    def keeps(self) -> bool:
        """Whether the next row whose ids are asked for is kept until it is read."""
        return True

    def known_ids(self) -> frozenset[int] | None:
        """All ids, where the source lists them; else None: they are found by looking."""
        return None


class ListedRows(Rows):
    """Rows whose objects are all known when the source is opened: ``_objects`` has, for each row,
    whatever the mask of an object is made from."""

    _objects: Sequence[Mapping[int, Any]]

    def ids_of(self, row: int) -> frozenset[int]:
        return frozenset(self._objects[row])

    def known_ids(self) -> frozenset[int]:
        return frozenset(one for objects in self._objects for one in objects)

    def _wanted(self, row: int, wanted: frozenset[int] | None) -> list[tuple[int, Any]]:
        """What the wanted objects (None: all) of a row are made from."""
        return [(k, v) for k, v in self._objects[row].items() if wanted is None or k in wanted]


def resize_nearest(mask: NDArray[np.bool_], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Every pixel takes the value of the one under its centre; exact in whole numbers."""
    rows, columns = (
        (2 * np.arange(new) + 1) * old // (2 * new)
        for old, new in zip(mask.shape, shape, strict=True)
    )
    resized: NDArray[np.bool_] = mask[rows[:, None], columns]
    return resized
