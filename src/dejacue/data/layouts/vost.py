"""VOST: JPEGImages, Annotations and ImageSets, a folder for each sequence.

A sequence is called <digits>_<action>_<noun>; all pieces of an object keep its mask id, 255 is
void. It has no references: VOST-TAS has.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from dejacue.data.layouts._records import Dataset
from dejacue.data.layouts._sequences import LISTS, MASKS, PICTURES, has_sequences, listed, sequences
from dejacue.data.layouts.m3_vos import labels_in

_SEQUENCE = re.compile(r"[0-9]+_([^_\s]+)_(\S+)")
NEEDS = "JPEGImages/, Annotations/, ImageSets/"


def recognise(folder: Path) -> bool:
    if not has_sequences(folder) or not (folder / LISTS).is_dir() or labels_in(folder):
        return False
    return any((folder / LISTS).glob("*.txt"))  # DAVIS has folders there


def read(folder: Path) -> Dataset:
    splits = listed(folder / LISTS)
    clips, missing = sequences(folder / PICTURES, folder / MASKS, splits)
    return Dataset(
        "vost",
        folder,
        tuple(
            replace(clip, object=noun(name), more={"split": splits[name]} if name in splits else {})
            for name, clip in clips.items()
        ),
        tuple(missing),
    )


def noun(sequence: str) -> str | None:
    """What a sequence is about, by its name."""
    found = _SEQUENCE.fullmatch(sequence)
    return found[2].replace("_", " ") if found else None
