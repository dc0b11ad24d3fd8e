"""Masks on disk and in memory, the frames that they belong to, and what is read from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from dejacue.masks import Masks
from dejacue.video.video import Frame

SHAPE = (12, 16)


def frame(
    index: int,
    source: int | None = None,
    name: str | None = None,
    shape: tuple[int, int] = SHAPE,
) -> Frame:
    """Return a black frame."""
    image = np.zeros((*shape, 3), dtype=np.uint8)
    return Frame(index, index if source is None else source, None, name, image)


def box(x: int, y: int, width: int, height: int) -> np.ndarray:
    """Return a mask of SHAPE that is True in a box."""
    mask = np.zeros(SHAPE, dtype=bool)
    mask[y : y + height, x : x + width] = True
    return mask


def save(folder: Path, pictures: dict[str, np.ndarray]) -> Path:
    """Write pictures by name; a name may hold folders."""
    for name, picture in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return folder


def numbered(
    folder: Path,
    numbers,
    form: str = "{:05d}.png",
    shape: tuple[int, int] = SHAPE,
) -> Path:
    """Write one mask for each number; ``read_numbers`` reads the number from its first row."""
    pictures = {}
    for number in numbers:
        labels = np.zeros(shape, dtype=np.uint8)
        labels[0, : 1 + number % shape[1]] = 1
        pictures[form.format(number)] = labels
    return save(folder, pictures)


def read_numbers(masks: Masks, frames) -> list[int | None]:
    """Return the number of the mask that each frame got, None if none; from 0 on beyond the
    width."""
    unions = [union(masks, at) for at in frames]
    return [None if mask is None else int(mask.sum()) - 1 for mask in unions]


def union(masks: Masks, at: Frame, *ids: int) -> np.ndarray | None:
    """Return the union of these objects (default: all) in a frame."""
    return masks.unions(at, [frozenset(ids) or None])[0]


def rle(mask: np.ndarray) -> dict:
    """Return a mask as pycocotools packs it."""
    from pycocotools import mask as coco

    packed = coco.encode(np.asfortranarray(mask, dtype=np.uint8))
    return {"size": list(mask.shape), "counts": packed["counts"].decode()}
