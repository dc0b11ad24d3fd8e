"""MOSE: JPEGImages and Annotations in train/ and valid/ (or in the folder itself), no lists.

The videos of valid have a mask for their first picture only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dejacue.data.layouts._records import Dataset
from dejacue.data.layouts._sequences import LISTS, MASKS, PICTURES, has_sequences, sequences
from dejacue.data.layouts.davis import recognise as is_davis

SPLITS = ("train", "valid", "")
OTHERS = (LISTS, "meta.json", "vost_tas.json")  # what others have beside their pictures
NEEDS = "train/JPEGImages/, train/Annotations/, without ImageSets/, meta.json and vost_tas.json"


def recognise(folder: Path) -> bool:
    return any(_parts(folder))


def read(folder: Path) -> Dataset:
    clips, missing = [], []
    for part in _parts(folder):
        found, own = sequences(part / PICTURES, part / MASKS)
        above = "" if part == folder else f"{part.name}/"
        missing += [f"{above}{sentence}" for sentence in own]
        more = {"split": part.name} if above else {}
        clips += [replace(clip, more=more) for clip in found.values()]
    return Dataset("mose", folder, tuple(clips), tuple(missing))


def _parts(folder: Path) -> Iterator[Path]:
    for split in SPLITS:
        part = folder / split
        plain = not any((part / other).exists() for other in OTHERS)
        if plain and has_sequences(part) and not is_davis(part):
            yield part
