"""Regions that a person gives instead of masks: the whole picture, a box that stays where it is, or
boxes drawn in several frames, between which the object is assumed to move evenly."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dejacue.atomic import write_text
from dejacue.errors import InputError, first_line
from dejacue.files.documents import as_json, read_text
from dejacue.masks._boxes import box_mask
from dejacue.masks._masks import Masks
from dejacue.masks.reader import Keys, ListedRows, Mask
from dejacue.records import History

if TYPE_CHECKING:
    from dejacue.video.video import Frame

REGION_FILE = "region.json"
SCHEMA = "dejacue.region/1"
Box = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels
WHOLE = "the whole picture"
FIXED = "fixed region"
DRAWN = "boxes drawn by a person"


class Region(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="schema",
    tag=SCHEMA,
):
    """Says where objects are: object → frame of the file → box; no boxes: the whole picture."""

    boxes: Mapping[int, Mapping[int, Box]] = {}

    def __post_init__(self) -> None:
        for frames in self.boxes.values():
            if not frames or min(frames) < 0:
                raise ValueError("an object needs boxes, and frames count from 0")
            for x0, y0, x1, y1 in frames.values():
                if not (x0 < x1 and y0 < y1):
                    raise ValueError("a box is x0, y0, x1, y1 with x0 < x1 and y0 < y1")

    @property
    def label(self) -> str:
        """Return what this is called in tables and reports."""
        if not self.boxes:
            return WHOLE
        return DRAWN if any(len(frames) > 1 for frames in self.boxes.values()) else FIXED

    @property
    def note(self) -> str:
        """Return what a reader must know of it."""
        if not self.boxes:
            return "every frame is looked at as a whole; no object is told from its surroundings"
        if self.label == FIXED:
            return "the box stays where it was drawn; nothing is tracked"
        return "a person drew boxes in some frames; between them the box moves evenly"

    def box(self, object: int, frame: int) -> Box:
        """Return the box of an object in a frame of the file."""
        frames = sorted(self.boxes[object])
        corners = np.array([self.boxes[object][number] for number in frames])
        x0, y0, x1, y1 = (float(np.interp(frame, frames, side)) for side in corners.T)
        return x0, y0, x1, y1


class RegionMasks(Masks):
    """Draws the masks of a region; those of a file where ``path`` is one."""

    def __init__(self, region: Region, path: Path, on_disk: bool = False) -> None:
        self.region = region
        objects = [dict.fromkeys(region.boxes or [1])]
        files = [path] if on_disk else []
        content = json.dumps(msgspec.to_builtins(region, str_keys=True), sort_keys=True)
        rows = ListedRows(Keys(numbers=(0,)), files, objects, _undrawn, content=content)
        super().__init__(path, "region", rows, "source")

    @cached_property
    def key(self) -> str:
        return f"region {self.rows.content}"

    def thinned(self, step: int) -> Masks:
        return self

    def unions(self, frame: Frame, groups: Sequence[frozenset[int] | None]) -> list[Mask | None]:
        self._require(id for mask_ids in groups if mask_ids is not None for id in mask_ids)
        return [self._region_of(frame, mask_ids) for mask_ids in groups]

    def _region_of(self, frame: Frame, mask_ids: frozenset[int] | None) -> Mask | None:
        if not self.region.boxes:
            return np.ones(frame.shape, dtype=bool)
        union = np.zeros(frame.shape, dtype=bool)
        for object in self.region.boxes if mask_ids is None else mask_ids:
            x0, y0, x1, y1 = self.region.box(object, frame.source)
            union |= box_mask((x0, y0, x1 - x0, y1 - y0), frame.shape)
        return union if union.any() else None


def _undrawn(source: object, shape: tuple[int, int]) -> Mask:
    raise AssertionError("regions are drawn for a frame")


def sees_whole_picture(history: History) -> bool | None:
    """Return whether every frame of a history is a whole picture; None: nobody knows."""
    key = (history.made_with or {}).get("masks")
    return None if key is None else key == RegionMasks(Region(), Path()).key


def is_region(path: Path) -> bool:
    return path.name.endswith(REGION_FILE)


def open_region(path: Path) -> RegionMasks:
    """Read the file that ``write_region`` writes."""
    try:
        text = read_text(path)
        if SCHEMA not in text:
            raise ValueError("it does not say that it is one")
        region = msgspec.json.decode(text, type=Region)
    except (msgspec.DecodeError, ValueError) as error:
        problem = f"is not a region ({first_line(error)})"
        raise InputError(f"{path}: {problem}; draw the boxes again") from None
    return RegionMasks(region, path, on_disk=True)


def write_region(path: str | os.PathLike[str], region: Region) -> None:
    write_text(path, as_json(msgspec.to_builtins(region, str_keys=True)))
