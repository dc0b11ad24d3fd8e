"""One folder of binary pictures for each object: masks/1/00000.png, masks/2/00000.png, …"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.sources.images import natural
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks.labels import LOSSY, VOID, read_picture
from dejacue.sources.masks.reader import ListedRows, Objects

_OBJECT = re.compile(r"(?:obj|object)?[ _-]?([0-9]+)", re.IGNORECASE)


class Folders(ListedRows):
    """Rows of pictures that are each of one object; whatever is not 0 is the object."""

    def __init__(self, folders: dict[int, list[Path]]) -> None:
        pictures: dict[str, dict[int, Path]] = {}
        for one, paths in folders.items():
            for path in paths:
                if pictures.setdefault(path.stem, {}).setdefault(one, path) != path:
                    raise InputError(f'{path.parent}: two masks are named "{path.stem}"; keep one')
        names = [path.name for path in natural(f"{name}.png" for name in pictures)]
        names = [name.removesuffix(".png") for name in names]
        self.keys = Keys(names=tuple(names))
        self.files = [path for paths in folders.values() for path in paths]
        self._objects = [pictures[name] for name in names]

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        return {one: _mask(path) for one, path in self._wanted(row, wanted)}


def object_number(folder: Path) -> int | None:
    """The object that a folder is named after: 2, obj_2, object-2."""
    match = _OBJECT.fullmatch(folder.name)
    return int(match[1]) if match else None


def is_of_one_object(path: Path) -> bool:
    return _is_single(read_picture(path, binary=True), path)


def _mask(path: Path) -> NDArray[np.bool_]:
    picture = read_picture(path, binary=True)
    if not _is_single(picture, path):
        raise InputError(
            f"{path}: holds several values, but its folder is for one object; save the mask in "
            "black and white"
        )
    return np.asarray(picture != 0)


def _is_single(picture: NDArray[Any], path: Path) -> bool:
    """Whether a picture holds one number, or 255 with soft edges."""
    held = picture[picture != 0]
    return path.suffix.lower() in LOSSY or not held.size or held.min() == held.max() or VOID in held
