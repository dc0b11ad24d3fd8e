"""DAVIS 2016 and 2017: JPEGImages/480p, Annotations/480p (or Full-Resolution), ImageSets/YEAR.

In 2017 masks are ids and 255 is void; in 2016 there is one object, which is 255.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dejacue.data.layouts._records import Dataset
from dejacue.data.layouts._sequences import LISTS, MASKS, PICTURES, listed, sequences

SIZES = ("480p", "Full-Resolution", "1080p")
NEEDS = "JPEGImages/480p/, Annotations/480p/, ImageSets/"


def recognise(folder: Path) -> bool:
    return _size(folder) is not None


def read(folder: Path) -> Dataset:
    size = _size(folder) or SIZES[0]
    several = not (folder / LISTS / size).is_dir() or (folder / LISTS / "2017").is_dir()
    splits = listed(folder / LISTS / "2017") if several else {}
    kind = "indexed" if several else "binary"
    clips, missing = sequences(folder / PICTURES / size, folder / MASKS / size, splits, kind)
    found = (
        replace(clip, more={"split": splits[name]} if name in splits else {})
        for name, clip in clips.items()
    )
    return Dataset("davis", folder, tuple(found), tuple(missing))


def _size(folder: Path) -> str | None:
    both = (folder / PICTURES, folder / MASKS)
    return next((size for size in SIZES if all((own / size).is_dir() for own in both)), None)
