"""YOLO's tracks: a folder with one text for each frame, a line for each box or outline.

    class cx cy w h [confidence] [track]         centre and sides as fractions of the frame
    class x y x y x y … [confidence] [track]     three corners or more, as fractions of the frame

Ultralytics calls the text of a video's frame video_12.txt and counts from 1, that of an image as
the image; frames without boxes have no text. Where one number follows, it is a track if it is a
whole one throughout. As in MOT, a track of −1 is none.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.sources.documents import MOST_FRAME, named, read_text
from dejacue.sources.masks._boxes import Boxes, BoxRow, Shape, check_box, group_boxes
from dejacue.sources.masks._coco import draw
from dejacue.sources.masks._matching import Keys

OTHER_TEXTS = ("classes.txt", "labels.txt", "readme.txt")
FORMS = "class cx cy w h [conf] [id], or an outline: class x y x y x y … [conf] [id]"
NO_TRACK = -1
BOX, TRIANGLE = 5, 7  # numbers of the shortest lines
_LOOKED_AT = 1000  # bytes
_OF_VIDEO = re.compile(r"(.*)_([1-9][0-9]*)")


class Shapes(Boxes):
    """Rows of boxes and outlines, given as parts of the frame's width and height."""

    def draw(self, box: Shape, size: tuple[int, int]) -> NDArray[np.bool_]:
        pixels = [part * size[1 - at % 2] for at, part in enumerate(box)]
        return super().draw(tuple(pixels), size) if len(box) == 4 else draw([pixels], size)


class _Line(NamedTuple):
    where: str
    row: int
    cells: list[float]


class _Columns:
    """What the numbers of a line are; a line alone does not always tell, all together do."""

    def __init__(self, lines: list[_Line]) -> None:
        lengths = [len(line.cells) for line in lines]
        triangles = [0 < line.cells[-1] < 1 for line in lines if len(line.cells) == TRIANGLE]
        self._outlines = any(triangles) or max(lengths, default=0) > TRIANGLE
        single = [line.cells[-1] for line in lines if len(line.cells) % 2 == 0]
        self._single = all(map(_is_track, single))
        pairs = [line for line in lines if len(line.cells) > TRIANGLE and len(line.cells) % 2]
        tracks = {(line.row, line.cells[-1]) for line in pairs}  # a track is in a frame once
        self._pair = len(tracks) == len(pairs) and all(_is_track(last) for _, last in tracks)

    def split(self, cells: list[float]) -> tuple[list[float], int | None]:
        """The numbers of the box or outline, and the track."""
        if len(cells) < BOX:
            raise InputError(f"{len(cells)} numbers; a line is {FORMS}")
        if len(cells) < TRIANGLE or not self._outlines:
            tracked = len(cells) == TRIANGLE or (len(cells) > BOX and self._single)
            return cells[1:BOX], _track(cells[-1]) if tracked else None
        if len(cells) % 2 == 0:
            return cells[1:-1], _track(cells[-1]) if self._single else None
        if len(cells) > TRIANGLE and self._pair:
            return cells[1:-2], _track(cells[-1])
        return cells[1:], None


def is_yolo(path: Path) -> bool:
    """Whether a text looks like one of YOLO's, by its first line."""
    if path.suffix.lower() != ".txt" or path.name.lower() in OTHER_TEXTS or not path.is_file():
        return False
    with open(path, "rb") as stream:
        first = stream.readline(_LOOKED_AT)
    cells = first.split()
    try:
        numbers = list(map(float, cells if len(first) < _LOOKED_AT else cells[:-1]))
    except ValueError:
        return False
    return not numbers or len(numbers) >= BOX


def open_yolo(texts: list[Path]) -> Shapes:
    """The boxes and outlines of all texts, by frame and object."""
    lines = [
        _Line(f"{path}: line {at}", row, cells)
        for row, path in enumerate(texts)
        for at, cells in enumerate(_lines(path), start=1)
        if cells
    ]
    columns = _Columns(lines)
    found = []
    for where, row, cells in lines:
        with named(where):
            numbers, track = columns.split(cells)
            found.append(BoxRow(where, row, track, _shape(numbers)))
            if not all(map(math.isfinite, cells)):
                raise InputError("nan and inf are not allowed; remove or correct the line")
    with named(str(texts[0].parent)):
        frames = group_boxes(found)
    names = tuple(path.stem for path in texts)
    keys = Keys(names, _numbers(names))
    return Shapes(keys, texts, [frames.get(row, {}) for row in range(len(texts))])


def _lines(path: Path) -> list[list[float]]:
    if not path.read_bytes().strip():
        return []  # a frame without boxes
    with named(str(path)):
        try:
            return [[float(cell) for cell in line.split()] for line in read_text(path).splitlines()]
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"a YOLO line holds only numbers: {FORMS}") from None


def _shape(numbers: list[float]) -> Shape:
    """A box from its corner, or the corners of an outline."""
    if not all(abs(part) <= 2 for part in numbers):
        what = "box" if len(numbers) == 4 else "outline"
        shown = ", ".join(f"{part:g}" for part in numbers[:4])
        raise InputError(f"{what} [{shown}]: YOLO's are fractions of the frame, 0 to 1")
    if len(numbers) > 4:
        return tuple(numbers)
    x, y, width, height = numbers
    return check_box(x - width / 2, y - height / 2, width, height)


def _is_track(value: float) -> bool:
    return value.is_integer() and (value >= 1 or value == NO_TRACK)


def _track(value: float) -> int | None:
    if not value.is_integer() or not abs(value) <= MOST_FRAME:
        raise InputError(f"track {value:g} is not a whole number")
    return None if value == NO_TRACK else int(value)


def _numbers(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Frames counted from 0, where all names are those of one video's frames."""
    found = [_OF_VIDEO.fullmatch(name) for name in names]
    if len({match and match[1] for match in found}) != 1 or None in found:
        return None
    return tuple(int(match[2]) - 1 for match in found if match)
