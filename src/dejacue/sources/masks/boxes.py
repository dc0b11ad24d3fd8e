"""Boxes as masks: MOT text (frame, id, x, y, w, h, …) and CSV whose first line names the columns.

A box covers the pixels whose centres lie in it. Frames of MOT count from 1, those of a CSV with
named columns from 0. As in MOT, a row of confidence 0 is not to be considered.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.sources.documents import MOST_FRAME, named, read_text
from dejacue.sources.masks.matching import Keys
from dejacue.sources.masks.reader import Objects, Rows

Box = tuple[float, float, float, float]
MOT = ("frame", "id", "x", "y", "w", "h", "conf")
CORNERS = ("x1", "y1", "x2", "y2")
MOST_BYTES = 1 << 30


class Boxes(Rows):
    """Rows of boxes, drawn when they are asked for."""

    def __init__(self, path: Path, frames: dict[int, dict[int, list[Box]]]) -> None:
        numbers = sorted(frames)
        self.keys, self.files = Keys(numbers=tuple(numbers)), [path]
        self._frames = [frames[number] for number in numbers]
        self._ids = frozenset(one for frame in self._frames for one in frame)

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        found: Objects = {}
        for one, boxes in self._frames[row].items():
            if wanted is None or one in wanted:
                found[one] = np.zeros(shape, dtype=bool)
                for box in boxes:
                    found[one][_pixels(box, shape)] = True
        return found

    def ids_of(self, row: int) -> frozenset[int]:
        return frozenset(self._frames[row])

    def known_ids(self) -> frozenset[int]:
        return self._ids


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
    """The four numbers of a box, finite and not turned inside out."""
    values = (x, y, width, height)
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= 1e12:
            raise InputError(f"box {list(values)!r:.80}: {value!r:.40} is not a finite number")
    if width < 0 or height < 0:
        raise InputError(f"box {list(values)!r:.80} has a negative width or height")
    return float(x), float(y), float(width), float(height)


def open_boxes(path: Path) -> Boxes:
    """The boxes of a MOT text or a CSV, by frame and object."""
    text = read_text(path, MOST_BYTES)
    frames: dict[int, dict[int, list[Box]]] = {}
    with named(str(path)):
        for where, row, first in _rows(text):
            with named(where):
                frame = _whole(row, "frame") - first
                if not 0 <= frame <= MOST_FRAME:
                    hint = ("; without a line that names the columns, frames count from 1 as in "
                            "MOT" if first else "")  # fmt: skip
                    raise InputError(f"frame {frame + first} is no frame{hint}")
                one, box = _whole(row, "id"), _box(row)
                if _number(row.get("conf", "1"), "conf") != 0:
                    frames.setdefault(frame, {}).setdefault(one, []).append(box)
        if not frames:
            raise InputError("holds no boxes")
    return Boxes(path, frames)


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
                columns = [cell.lower() for cell in cells] if header else list(MOT)
                first = 0 if header else 1
                if header:
                    _check_columns(columns)
                    continue
            if len(cells) < (len(columns) if header else len(MOT) - 1):
                raise InputError(f"{where}: {len(cells)} cells, too few for {', '.join(columns)}")
            yield where, dict(zip(columns, cells, strict=False)), first
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _check_columns(columns: list[str]) -> None:
    sides = MOT[2:6] if "w" in columns or "x" in columns else CORNERS
    missing = [column for column in (*MOT[:2], *sides) if column not in columns]
    if missing or len(set(columns)) < len(columns):
        problem = f"no column {', '.join(missing)}" if missing else "two columns of one name"
        raise InputError(
            f"line 1: {problem}; the columns are frame, id, x, y, w, h (or x1, y1, x2, y2)"
        )


def _box(row: dict[str, str]) -> Box:
    if "x" in row:
        return check_box(*(_number(row[column], column) for column in MOT[2:6]))
    left, top, right, bottom = (_number(row[column], column) for column in CORNERS)
    return check_box(left, top, right - left, bottom - top)


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
