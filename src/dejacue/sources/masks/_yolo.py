"""YOLO's tracks: a folder with one text for each frame, a line for each box.

    class cx cy w h [confidence] [track]      centre and sides as fractions of the frame

Ultralytics calls the text of a video's frame video_12.txt and counts from 1, that of an image as
the image; frames without boxes have no text. Of six columns the last is a track where it is a whole
number throughout. As in MOT, a track of −1 is none.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from dejacue.errors import InputError
from dejacue.sources.documents import MOST_FRAME, named, read_text
from dejacue.sources.masks._boxes import Boxes, BoxRow, check_box, group_boxes
from dejacue.sources.masks._matching import Keys

OTHER_TEXTS = ("classes.txt", "labels.txt", "readme.txt")
NO_TRACK = -1
_OF_VIDEO = re.compile(r"(.*)_([1-9][0-9]*)")


def is_yolo(path: Path) -> bool:
    """Whether a text looks like one of YOLO's, by its first line."""
    if path.suffix.lower() != ".txt" or path.name.lower() in OTHER_TEXTS or not path.is_file():
        return False
    with open(path, "rb") as stream:
        cells = stream.readline(1000).split()
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return False
    return not numbers or len(numbers) >= 5


def open_yolo(texts: list[Path]) -> Boxes:
    """The boxes of all texts, by frame and object."""
    lines = [
        (f"{path}: line {at}", row, cells)
        for row, path in enumerate(texts)
        for at, cells in enumerate(_lines(path), start=1)
        if cells
    ]
    sixth = [cells[5] for _, _, cells in lines if len(cells) == 6]
    tracks = all(value.is_integer() and (value >= 1 or value == NO_TRACK) for value in sixth)
    found = []
    for where, row, cells in lines:
        with named(where):
            found.append(BoxRow(where, row, _track(cells, tracks), _box(cells)))
    with named(str(texts[0].parent)):
        frames = group_boxes(found)
    names = tuple(path.stem for path in texts)
    keys = Keys(names, _numbers(names))
    return Boxes(keys, texts, [frames.get(row, {}) for row in range(len(texts))], relative=True)


def _lines(path: Path) -> list[list[float]]:
    if not path.read_bytes().strip():
        return []  # a frame without boxes
    with named(str(path)):
        try:
            return [[float(cell) for cell in line.split()] for line in read_text(path).splitlines()]
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError("a YOLO line must be numbers: class cx cy w h [conf] [id]") from None


def _box(cells: list[float]) -> tuple[float, float, float, float]:
    if not 5 <= len(cells) <= 7:
        raise InputError(
            f"{len(cells)} numbers; a box is class cx cy w h [conf] [id] (outlines are not read)"
        )
    x, y, width, height = cells[1:5]
    if not all(abs(part) <= 2 for part in cells[1:5]):
        raise InputError(f"box {cells[1:5]}: YOLO's boxes are fractions of the frame, 0 to 1")
    if not all(map(math.isfinite, cells)):
        raise InputError("nan and inf are not allowed; remove or correct the line")
    return check_box(x - width / 2, y - height / 2, width, height)


def _track(cells: list[float], sixth_is_track: bool) -> int | None:
    if len(cells) == 5 or (len(cells) == 6 and not sixth_is_track):
        return None
    if not cells[-1].is_integer() or not abs(cells[-1]) <= MOST_FRAME:
        raise InputError(f"track {cells[-1]:g} is not a whole number")
    return None if cells[-1] == NO_TRACK else int(cells[-1])


def _numbers(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Frames counted from 0, where all names are those of one video's frames."""
    found = [_OF_VIDEO.fullmatch(name) for name in names]
    if len({match and match[1] for match in found}) != 1 or None in found:
        return None
    return tuple(int(match[2]) - 1 for match in found if match)
