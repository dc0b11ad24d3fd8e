"""Boxes as masks: MOT text (frame, id, x, y, w, h, …), CSV whose first line names the columns, and
YOLO's tracks.

A box covers the pixels whose centres lie in it. Frames of MOT count from 1, those of a CSV with
named columns from 0. As in MOT, a row of confidence 0 is not to be considered. Where no row has an
id all are one object; where some have, the others were not tracked and are left out.

YOLO writes a folder with one text for each frame, a line for each box or outline:

    class cx cy w h [confidence] [track]         centre and sides as fractions of the frame
    class x y x y x y … [confidence] [track]     three corners or more, as fractions of the frame

Ultralytics calls the text of a video's frame video_12.txt and counts from 1, that of an image as
the image; frames without boxes have no text. Where one number follows, it is a track if it is a
whole one throughout. As in MOT, a track of −1 is none.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, brief, in_file, named
from dejacue.files.documents import read_text
from dejacue.masks.reader import Box, Keys, ListedRows, Mask
from dejacue.masks.rle import polygon_mask
from dejacue.records.fields import MAX_FRAME

Outline = tuple[float, ...]  # a Box, or the corners of a polygon: x, y, x, y, …
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
NO_VALUE = ("", "none", "nan")
NO_TRACK = -1
MAX_BYTES = 1 << 30
YOLO_LINE = "class cx cy w h [conf] [id], or an outline: class x y x y x y … [conf] [id]"
BOX_CELLS, TRIANGLE_CELLS = 5, 7  # numbers of YOLO's shortest lines
_OTHER_TEXTS = ("classes.txt", "labels.txt", "readme.txt")
_INSPECTED_BYTES = 1000
_VIDEO_FRAME = re.compile(r"(.*)_([1-9][0-9]*)")


class _BoxRow(NamedTuple):
    """One box of a file: its place there, its frame, and its object if the file says so."""

    where: named
    frame: int
    id: int | None
    box: Outline


def box_mask(box: Sequence[float], shape: tuple[int, int]) -> Mask:
    """Return the pixels of a frame whose centres lie in a box (x, y, width, height)."""
    x, y, width, height = box
    rows, columns = (
        slice(*(min(max(math.ceil(end - 0.5), 0), length) for end in (low, high)))
        for low, high, length in ((y, y + height, shape[0]), (x, x + width, shape[1]))
    )
    mask = np.zeros(shape, dtype=bool)
    mask[rows, columns] = True
    return mask


def _draw(outlines: list[Outline], shape: tuple[int, int], relative: bool = False) -> Mask:
    """Draw boxes and polygons, in pixels or, if ``relative``, as fractions of the frame."""
    mask = np.zeros(shape, dtype=bool)
    for outline in outlines:
        pixels = _pixels(outline, shape) if relative else outline
        mask |= polygon_mask([pixels], shape) if len(pixels) > 4 else box_mask(pixels, shape)
    return mask


def _boxes(
    outlines: list[Outline], shape: tuple[int, int], relative: bool = False
) -> Iterator[tuple[Any, tuple[int, int]]]:
    boxes = (outline for outline in outlines if len(outline) == 4)
    return ((_pixels(box, shape) if relative else box, shape) for box in boxes)


def _pixels(outline: Outline, shape: tuple[int, int]) -> list[float]:
    return [part * shape[1 - at % 2] for at, part in enumerate(outline)]


def check_box(x: Any, y: Any, width: Any, height: Any) -> Box:
    """Return the four numbers of a box: finite, with sides that are not negative."""
    values = (x, y, width, height)
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= 1e12:
            raise InputError(f"box {list(values)!r:.80}: {value!r:.40} is not a finite number")
    if width < 0 or height < 0:
        raise InputError(f"box {list(values)!r:.80} has a negative width or height")
    return float(x), float(y), float(width), float(height)


def _by_frame(rows: Sequence[_BoxRow]) -> dict[int, dict[int, list[Outline]]]:
    """Return the boxes by frame and object."""
    frames: dict[int, dict[int, list[Outline]]] = {}
    tracked = any(row.id is not None for row in rows)
    for row in rows:
        if tracked and row.id is None:
            continue
        objects = frames.setdefault(row.frame, {})
        if not tracked and objects:
            with row.where:
                problem = "is a second box in the same frame, without an id"
                raise InputError(f"{problem}; give every box an id, or keep one box per frame")
        objects.setdefault(1 if row.id is None else row.id, []).append(row.box)
    if not frames:
        raise InputError("contains no boxes")
    return frames


def open_boxes(path: Path) -> ListedRows:
    """Read a MOT text or a CSV."""
    text = read_text(path, MAX_BYTES)
    with in_file(path):
        return _from_cells(path, _rows(path, text))


def is_json_sink(document: Any) -> bool:
    """Return whether a document is what supervision's JSONSink writes: a list of detections."""
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and {"x_min", "y_min", "x_max", "y_max"} <= first.keys()


def json_sink_boxes(path: Path, document: list[Any]) -> ListedRows:
    """Read such a document, whose ``frame_index`` is what its user has added."""

    def rows() -> Iterator[tuple[named, dict[str, str], int]]:
        for at, detection in enumerate(document, start=1):
            with (where := named(f"detection {at}")):
                if not isinstance(detection, dict):
                    raise InputError("is not an object, as the first one is")
                if not set(NAMES["frame"]) & detection.keys():
                    sink = 'sink.append(detections, custom_data={"frame_index": index})'
                    raise InputError(f"has no frame; write it with {sink}")
                cells = ("" if value is None else brief(value) for value in detection.values())
                yield where, dict(zip(_columns(list(detection)), cells, strict=True)), 0

    return _from_cells(path, rows())


def _from_cells(path: Path, rows: Iterator[tuple[named, dict[str, str], int]]) -> ListedRows:
    """Read boxes of which each row has its place, its cells by column and the first frame."""
    boxes = []
    for where, row, first in rows:
        with where:
            number = _whole(row, "frame")
            frame = number - first
            if not 0 <= frame <= MAX_FRAME:
                hint = "; without a header line, frames count from 1, as in MOT" if first else ""
                raise InputError(f"frame {number} is not a frame number{hint}")
            box = _box(row)
            confidence = row.get("conf", "")
            if confidence.lower() in NO_VALUE or _number(confidence, "conf") != 0:
                tracked = row.get("id", "").lower() not in NO_VALUE
                track = _whole(row, "id") if tracked else NO_TRACK
                boxes.append(_BoxRow(where, frame, None if track == NO_TRACK else track, box))
    frames = _by_frame(boxes)
    numbers = sorted(frames)
    firm = numbers != list(range(1, len(numbers) + 1))  # 1 … n may well count from one
    keys = Keys(numbers=tuple(numbers), firm=firm)
    objects = [frames[number] for number in numbers]
    return ListedRows(keys, [path], objects, _draw, boxes=_boxes, complete=False)


def _rows(path: Path, text: str) -> Iterator[tuple[named, dict[str, str], int]]:
    """Yield the line of each row, its cells by column, and the number of the first frame."""
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
            with (where := in_file(path, reader.line_num)):
                if columns is None:
                    header = _float(cells[0]) is None
                    columns = _columns(cells) if header else list(MOT)
                    first = 0 if header else 1
                    if header:
                        continue
                if len(cells) < (len(columns) if header else len(MOT) - 1):
                    raise InputError(f"has {len(cells)} cells, too few for {', '.join(columns)}")
            yield where, dict(zip(columns, cells, strict=False)), first
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV ({error})") from None


def _columns(cells: list[str]) -> list[str]:
    """Return the columns under the names that are used here."""
    columns = [cell.lower() for cell in cells]
    for ours, names in NAMES.items():
        theirs = next((name for name in names if name in columns), ours)
        if theirs != ours:
            columns = [ours if c == theirs else f"other {c}" if c == ours else c for c in columns]
    corners = set(CORNERS) <= set(columns) or not {"x", "w"} & set(columns)
    required = ("frame", *(CORNERS if corners else SIDES))
    missing = [column for column in required if column not in columns]
    if missing or len(set(columns)) < len(columns):
        problem = "two columns have the same name"
        if missing:
            problem = f"no column {', '.join(missing)}"
        raise InputError(
            f"{problem}; the columns are frame, x, y, w, h (or x1, y1, x2, y2) and, for several "
            "objects, id"
        )
    return columns


def _box(row: dict[str, str]) -> Box:
    if not set(CORNERS) <= row.keys():
        return check_box(*(_number(row[column], column) for column in SIDES))
    left, top, right, bottom = (_number(row[column], column) for column in CORNERS)
    return check_box(left, top, right - left, bottom - top)


def _float(cell: str | bytes) -> float | None:
    with suppress(ValueError):
        return float(cell)
    return None


def _number(cell: str, column: str) -> float:
    value = _float(cell)
    if value is None or not math.isfinite(value):
        raise InputError(f"{column} {cell!r:.40} is not a finite number")
    return value


def _whole(row: dict[str, str], column: str) -> int:
    value = _number(row[column], column)
    if not value.is_integer():  # trackers write 1 as 1.0, too
        raise InputError(f"{column} {row[column]!r:.40} is not a whole number")
    return int(value)


class _Line(NamedTuple):
    where: named
    row: int
    cells: list[float]


class _YoloColumns:
    """Tells what the numbers of a line mean, which needs all lines: one alone may be ambiguous."""

    def __init__(self, lines: list[_Line]) -> None:
        lengths = [len(line.cells) for line in lines]
        triangles = [0 < line.cells[-1] < 1 for line in lines if len(line.cells) == TRIANGLE_CELLS]
        self._outlines = any(triangles) or max(lengths, default=0) > TRIANGLE_CELLS
        single = [line.cells[-1] for line in lines if len(line.cells) % 2 == 0]
        self._single = all(map(_is_track, single))
        pairs = [line for line in lines if len(line.cells) > TRIANGLE_CELLS and len(line.cells) % 2]
        tracks = {(line.row, line.cells[-1]) for line in pairs}  # a track is in a frame once
        self._pair = len(tracks) == len(pairs) and all(_is_track(last) for _, last in tracks)

    def split(self, cells: list[float]) -> tuple[list[float], int | None]:
        """Return the numbers of the box or outline, and the track."""
        if len(cells) < BOX_CELLS:
            raise InputError(f"{len(cells)} numbers; a line is {YOLO_LINE}")
        if len(cells) < TRIANGLE_CELLS or not self._outlines:
            tracked = len(cells) == TRIANGLE_CELLS or (len(cells) > BOX_CELLS and self._single)
            return cells[1:BOX_CELLS], _track(cells[-1]) if tracked else None
        if len(cells) % 2 == 0:
            return cells[1:-1], _track(cells[-1]) if self._single else None
        if len(cells) > TRIANGLE_CELLS and self._pair:
            return cells[1:-2], _track(cells[-1])
        return cells[1:], None


def is_yolo(path: Path) -> bool:
    """Return whether a text looks like one of YOLO's, by its first line."""
    if path.suffix.lower() != ".txt" or path.name.lower() in _OTHER_TEXTS or not path.is_file():
        return False
    with open(path, "rb") as stream:
        first = stream.readline(_INSPECTED_BYTES)
    cells = first.split() if len(first) < _INSPECTED_BYTES else first.split()[:-1]
    return None not in map(_float, cells) and (not cells or len(cells) >= BOX_CELLS)


def open_yolo(texts: list[Path]) -> ListedRows:
    """Read the boxes and outlines of all texts of a folder."""
    lines = [
        _Line(in_file(path, at), row, cells)
        for row, path in enumerate(texts)
        for at, cells in enumerate(_lines(path), start=1)
        if cells
    ]
    columns = _YoloColumns(lines)
    boxes = []
    for where, row, cells in lines:
        with where:
            numbers, track = columns.split(cells)
            boxes.append(_BoxRow(where, row, track, _outline(numbers)))
            if not all(map(math.isfinite, cells)):
                raise InputError("nan and inf are not allowed; remove or correct the line")
    with in_file(texts[0].parent):
        frames = _by_frame(boxes)
    names = tuple(path.stem for path in texts)
    matches = [_VIDEO_FRAME.fullmatch(name) for name in names]
    numbers_in_video = None  # where all names are those of one video's frames, counted from 1
    if len({match and match[1] for match in matches}) == 1 and None not in matches:
        numbers_in_video = tuple(int(match[2]) - 1 for match in matches if match)
    objects = [frames.get(row, {}) for row in range(len(texts))]
    keys = Keys(names, numbers_in_video)
    draw, boxes_of = partial(_draw, relative=True), partial(_boxes, relative=True)
    return ListedRows(keys, texts, objects, draw, boxes=boxes_of, complete=False)


def _lines(path: Path) -> list[list[float]]:
    if not path.read_bytes().strip():
        return []  # a frame without boxes
    with in_file(path):
        text = read_text(path)
        try:
            return [[float(cell) for cell in line.split()] for line in text.splitlines()]
        except ValueError:
            raise InputError(f"a YOLO line holds only numbers: {YOLO_LINE}") from None


def _outline(numbers: list[float]) -> Outline:
    """Return a box from its corner, or the corners of a polygon."""
    if not all(abs(part) <= 2 for part in numbers):
        what = "box" if len(numbers) == 4 else "outline"
        first = ", ".join(f"{part:g}" for part in numbers[:4])
        raise InputError(f"{what} [{first}]: YOLO's are fractions of the frame, 0 to 1")
    if len(numbers) > 4:
        return tuple(numbers)
    x, y, width, height = numbers
    return check_box(x - width / 2, y - height / 2, width, height)


def _is_track(value: float) -> bool:
    return value.is_integer() and (value >= 1 or value == NO_TRACK)


def _track(value: float) -> int | None:
    if not value.is_integer() or not abs(value) <= MAX_FRAME:
        raise InputError(f"track {value:g} is not a whole number")
    return None if value == NO_TRACK else int(value)
