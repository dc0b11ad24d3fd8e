"""Boxes as masks: MOT text (frame, id, x, y, w, h, …) and CSV whose first line names the columns.

A box covers the pixels whose centres lie in it. Frames of MOT count from 1, those of a CSV with
named columns from 0. As in MOT, a row of confidence 0 is not to be considered. Where no row has an
id all are one object; where some have, the others were not tracked and are left out.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, shown
from dejacue.sources.documents import MOST_FRAME, named, read_text
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks.reader import ListedRows, Objects

Box = tuple[float, float, float, float]
Shape = tuple[float, ...]  # a Box, or the corners of an outline: x, y, x, y, …
Frames = dict[int, dict[int, list[Shape]]]
MOT = ("frame", "id", "x", "y", "w", "h", "conf")
SIDES, CORNERS = MOT[2:6], ("x1", "y1", "x2", "y2")
NAMES = {  # what other tools call our columns; the first that is there counts
    "frame": ("frame", "frame_index", "frame_idx", "frame_number", "frame_id"),
    "id": ("track_id", "tracker_id", "object_id", "id"),
    "conf": ("conf", "confidence", "score"),
    "x": ("x", "left", "bb_left"),
    "y": ("y", "top", "bb_top"),
    "w": ("w", "width", "bb_width"),
    "h": ("h", "height", "bb_height"),
    "x1": ("x1", "x_min", "xmin"),
    "y1": ("y1", "y_min", "ymin"),
    "x2": ("x2", "x_max", "xmax"),
    "y2": ("y2", "y_max", "ymax"),
}
NOTHING = ("", "none", "nan")
MOST_BYTES = 1 << 30


class BoxRow(NamedTuple):
    """One box of a file: its place there, its frame, and its object if the file says so."""

    where: str
    frame: int
    id: int | None
    box: Shape


class Boxes(ListedRows):
    """Rows of boxes by object, drawn on access."""

    complete = False  # a frame without boxes is not in the file

    def __init__(self, keys: Keys, files: list[Path], rows: list[dict[int, list[Shape]]]) -> None:
        self.keys, self.files, self._objects = keys, files, rows

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        found: Objects = {}
        for one, boxes in self._wanted(row, wanted):
            found[one] = np.zeros(shape, dtype=bool)
            for box in boxes:
                found[one] |= self.draw(box, shape)
        return found

    def draw(self, box: Shape, size: tuple[int, int]) -> NDArray[np.bool_]:
        """The mask of one of them in a frame of this (height, width)."""
        x, y, width, height = box
        return box_mask((x, y, width, height), size)


def box_mask(box: Box, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels of a frame whose centres lie in a box (x, y, width, height)."""
    mask = np.zeros(shape, dtype=bool)
    mask[_pixels(box, shape)] = True
    return mask


def _pixels(box: Box, shape: tuple[int, int]) -> tuple[slice, slice]:
    x, y, width, height = box
    ends = (y, y + height, shape[0]), (x, x + width, shape[1])
    rows, columns = (
        slice(*(min(max(math.ceil(end - 0.5), 0), most) for end in (low, high)))
        for low, high, most in ends
    )
    return rows, columns


def check_box(x: Any, y: Any, width: Any, height: Any) -> Box:
    """The four numbers of a box, finite, with sides that are not negative."""
    values = (x, y, width, height)
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= 1e12:
            raise InputError(f"box {list(values)!r:.80}: {value!r:.40} is not a finite number")
    if width < 0 or height < 0:
        raise InputError(f"box {list(values)!r:.80} has a negative width or height")
    return float(x), float(y), float(width), float(height)


def group_boxes(rows: Sequence[BoxRow]) -> Frames:
    """Boxes by frame and object."""
    frames: Frames = {}
    tracked = any(each.id is not None for each in rows)
    for where, frame, one, box in rows:
        if tracked and one is None:
            continue
        objects = frames.setdefault(frame, {})
        if not tracked and objects:
            raise InputError(
                f"{where}: is a second box in the same frame, without an id; give every box an "
                "id, or keep one box per frame"
            )
        objects.setdefault(1 if one is None else one, []).append(box)
    if not frames:
        raise InputError("contains no boxes")
    return frames


def open_boxes(path: Path) -> Boxes:
    """The boxes of a MOT text or a CSV, by frame and object."""
    text = read_text(path, MOST_BYTES)
    with named(str(path)):
        return _listed(path, _rows(text))


def is_sunk(document: Any) -> bool:
    """Whether a document is what supervision's JSONSink writes: a list of detections."""
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and {"x_min", "y_min", "x_max", "y_max"} <= first.keys()


def sunk_boxes(path: Path, document: list[Any]) -> Boxes:
    """The boxes of such a document, whose ``frame_index`` is what its user has added."""

    def rows() -> Iterator[tuple[str, dict[str, str], int]]:
        for at, own in enumerate(document, start=1):
            where = f"detection {at}"
            with named(where):
                if not isinstance(own, dict):
                    raise InputError("is not an object, as the first one is")
                if not set(NAMES["frame"]) & own.keys():
                    raise InputError(
                        "has no frame; write it with sink.append(detections, "
                        'custom_data={"frame_index": index})'
                    )
                cells = ("" if value is None else shown(value) for value in own.values())
                yield where, dict(zip(_columns(list(own)), cells, strict=True)), 0

    return _listed(path, rows())


def _listed(path: Path, rows: Iterator[tuple[str, dict[str, str], int]]) -> Boxes:
    found = []
    for where, row, first in rows:
        with named(where):
            frame = _whole(row, "frame") - first
            if not 0 <= frame <= MOST_FRAME:
                hint = "; without a header line, frames count from 1, as in MOT" if first else ""
                raise InputError(f"frame {frame + first} is not a frame number{hint}")
            box = _box(row)
            confidence = row.get("conf", "")
            if confidence.lower() in NOTHING or _number(confidence, "conf") != 0:
                found.append(BoxRow(where, frame, _id(row), box))
    frames = group_boxes(found)
    numbers = sorted(frames)
    firm = numbers != list(range(1, len(numbers) + 1))  # 1 … n may well count from one
    keys = Keys(numbers=tuple(numbers), firm=firm)
    return Boxes(keys, [path], [frames[number] for number in numbers])


def _rows(text: str) -> Iterator[tuple[str, dict[str, str], int]]:
    """The line of each row, its cells by column, and the number of the first frame."""
    lines = text.splitlines()
    top = next(line for line in lines if line.strip())
    separator = next((mark for mark in ",;" if mark in top), None)
    if separator is None:  # columns between blanks
        text, separator = "\n".join(",".join(line.split()) for line in lines), ","
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    columns: list[str] | None = None
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if not any(cells):
                continue
            where = f"line {reader.line_num}"
            if columns is None:
                header = not _is_number(cells[0])
                with named(where):
                    columns = _columns(cells) if header else list(MOT)
                first = 0 if header else 1
                if header:
                    continue
            if len(cells) < (len(columns) if header else len(MOT) - 1):
                raise InputError(
                    f"{where}: has {len(cells)} cells, too few for {', '.join(columns)}"
                )
            yield where, dict(zip(columns, cells, strict=False)), first
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _columns(cells: list[str]) -> list[str]:
    """The columns under the names that are used here."""
    columns = [cell.lower() for cell in cells]
    for ours, names in NAMES.items():
        theirs = next((name for name in names if name in columns), ours)
        if theirs != ours:
            columns = [ours if c == theirs else f"other {c}" if c == ours else c for c in columns]
    corners = set(CORNERS) <= set(columns) or not {"x", "w"} & set(columns)
    wanted = ("frame", *(CORNERS if corners else SIDES))
    missing = [column for column in wanted if column not in columns]
    if missing or len(set(columns)) < len(columns):
        problem = f"no column {', '.join(missing)}" if missing else "two columns have the same name"
        raise InputError(
            f"{problem}; the columns are frame, x, y, w, h (or x1, y1, x2, y2) and, for "
            "several objects, id"
        )
    return columns


def _box(row: dict[str, str]) -> Box:
    if not set(CORNERS) <= row.keys():
        return check_box(*(_number(row[column], column) for column in SIDES))
    left, top, right, bottom = (_number(row[column], column) for column in CORNERS)
    return check_box(left, top, right - left, bottom - top)


def _id(row: dict[str, str]) -> int | None:
    """The object; None where there is none, for which MOT writes −1."""
    if row.get("id", "").lower() in NOTHING:
        return None
    one = _whole(row, "id")
    return None if one == -1 else one


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, column: str) -> float:
    if not _is_number(cell) or not math.isfinite(float(cell)):
        raise InputError(f"{column} {cell!r:.40} is not a finite number")
    return float(cell)


def _whole(row: dict[str, str], column: str) -> int:
    value = _number(row[column], column)
    if not value.is_integer():  # trackers write 1 as 1.0, too
        raise InputError(f"{column} {row[column]!r:.40} is not a whole number")
    return int(value)
