"""Where the object is: as people write it, and as a tracker takes it, checked against the video.

    parse_prompts   text of the command line → Prompt
    place_prompts   prompts at their frames, checked, one for each object and frame
    united          all that is said of an object in one frame, checked

People count the frames of the file (``source``), as a player or the names of pictures show them;
a tracker counts positions in the sampled sequence (``frame``). A placed prompt has both.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dejacue.errors import InputError, brief, extra, in_file, named
from dejacue.masks._masks import MAX_STRETCH, is_id
from dejacue.masks.labels import LOSSY, MAX_LABELS, VOID, read_picture
from dejacue.masks.reader import MAX_OUTSIDE, MIN_NOTED_OUTSIDE, resize_nearest, share_outside
from dejacue.models.trackers.base import Box, Mask, Prompt, bounding_box
from dejacue.records.arrays import as_array
from dejacue.video.video import Video

MAX_OBJECT = VOID - 1  # what an indexed picture holds
NO_POSITION = (
    "show where the object is: a box (x0,y0,x1,y1), a point (x,y) or a mask (a picture), with "
    "@FRAME if it is not in the first frame"
)
FORMS = {2: "a point is x,y, as in 200,150@0", 4: "a box is x0,y0,x1,y1, as in 120,80,300,260@0"}
_BAD_FRAME = re.compile(r"[\d.,\s]+@.*", re.DOTALL)  # numbers, and a frame that is none
_TEXT = re.compile(r"\s*(?:(\d{1,9}):)?(.*?)(?:@(\d{1,15}))?\s*", re.DOTALL)
_PICTURE_ID = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


class Place(NamedTuple):
    """A frame at which there are prompts: its position, its number in the file, (height, width)."""

    frame: int
    source: int
    size: tuple[int, int]


def parse_prompts(
    boxes: Iterable[str] = (),
    points: Iterable[str] = (),
    *,
    not_points: Iterable[str] = (),
    masks: Iterable[str] = (),
    at: int | None = None,
    adds: Iterable[str] = (),
) -> list[Prompt]:
    """Return the prompts that are typed on the command line.

    box ``2:120,80,300,260@15``; point ``2:200,150@15``; mask ``2:first.png#3@15``: object and frame
    may be left out (object 1; frame ``at``, or the first); an add is any of them, and its number is
    the object that it is a piece of.
    """
    if at is not None and at < 0:
        raise InputError(f"frame {at} is negative; frames count from 0")
    kinds: tuple[tuple[str, Iterable[str], Callable[[str], dict[str, Any]]], ...] = (
        ("box", boxes, _box),
        ("point", points, _point),
        ("not point", not_points, lambda text: _point(text, inside=False)),
        ("mask", masks, _mask),
        ("add", adds, _any),
    )
    return [_parsed(kind, text, at, read) for kind, texts, read in kinds for text in texts]


def _parsed(kind: str, text: str, at: int | None, read: Callable[[str], dict[str, Any]]) -> Prompt:
    """Return the prompt that an argument gives; ``read`` takes it without object and frame."""
    match = _TEXT.fullmatch(text)
    assert match is not None  # anything matches
    with named(f"{kind} {text}"):
        if match[1] is not None and not 1 <= int(match[1]) <= MAX_OBJECT:
            raise InputError(f"objects have the numbers 1 to {MAX_OBJECT}")
        if _BAD_FRAME.fullmatch(match[2]):
            raise InputError("@ must be followed by a frame of the file, counted from 0, as in @45")
        source = at if match[3] is None else int(match[3])
        fields = {"source": source, **read(match[2])}
        if kind == "add":
            return Prompt(object=0, piece_of=int(match[1] or 0), **fields)
        return Prompt(object=int(match[1] or 1), **fields)


def _box(text: str) -> dict[str, Any]:
    return {"box": _numbers(text, 4)}


def _point(text: str, inside: bool = True) -> dict[str, Any]:
    return {"points": ((*_numbers(text, 2), inside),)}


def _numbers(text: str, count: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise InputError(f"{FORMS[count]}; pixels from the upper left corner")
    return numbers


def _mask(text: str) -> dict[str, Any]:
    match = _PICTURE_ID.fullmatch(text)
    path, number = (match[1], int(match[2])) if match else (text, None)
    if not path:
        raise InputError("names no picture, as in first.png@0")
    return {"mask": _read_mask(Path(path), number)}


def _any(text: str) -> dict[str, Any]:
    if os.path.exists(text):
        return _mask(text)
    return {3: _box, 1: _point}.get(text.count(","), _mask)(text)


def _read_mask(path: Path, number: int | None) -> Mask:
    """Return the mask of an object in a picture."""
    with in_file(path):
        if os.path.isdir(path):
            remedy = "a mask is one picture of the object; give the masks of all frames as masks"
            raise InputError(f"is a folder; {remedy}")
        labels = read_picture(path, binary=path.suffix.lower() in LOSSY)
        values = [int(value) for value in np.unique(labels) if value > 0]
        objects = [value for value in values if value != VOID] or values
        listed = ", ".join(map(str, objects[:9])) or "none"
        if not values:
            raise InputError("is empty; give a mask that shows the object")
        if number is not None and number not in values:
            raise InputError(f"has no object {number}; the numbers in this picture are {listed}")
        if number is None and 1 < len(objects) <= MAX_LABELS:
            problem = f"holds the objects {listed}"
            raise InputError(f"{problem}; choose one, as in {path.name}#{objects[0]}")
        if number is not None or len(objects) == 1:
            return np.asarray(labels == (objects[0] if number is None else number))
        return np.asarray(labels > VOID // 2)  # a soft edge, not objects


def first_prompts(
    box: Sequence[float] | None = None, point: Sequence[float] | None = None
) -> list[Prompt]:
    """Return what shows one object in the first frame; place_prompts checks it."""
    if point is not None and not _are_numbers([point], 2):
        raise InputError(f"point {brief(point, 60)}: a point is (x, y)")
    points: Any = () if point is None else ((*point, True),)
    return [] if box is None and point is None else [Prompt(box=box, points=points)]  # type: ignore[arg-type]


def place_prompts(
    video: Video, prompts: Sequence[Prompt], before: Sequence[Prompt] = ()
) -> list[Prompt]:
    """Return the prompts at their frames, one for each object and frame, in the order of frames;
    or raise. Pieces have an id of their own, and none is given twice.

    Reads the video as far as the last of them: which frames are taken, and their size, is then
    known, not guessed. A box that reaches a little outside is clipped and noted.

    before   those of an earlier run, to which the prompts add pieces
    """
    with in_file(video.path):
        if not prompts:
            raise InputError(NO_POSITION)
        for prompt in prompts:
            _check_fields(prompt)
        prompts = _numbered([*before, *prompts])
        places = _find_places(video, prompts)
        groups: dict[tuple[int, int], list[Prompt]] = {}
        for prompt in prompts:
            key = places[_wanted(prompt)].frame, prompt.object
            groups.setdefault(key, []).append(prompt)
        placed: list[Prompt] = []
        for (_, object), group in sorted(groups.items(), key=lambda item: item[0]):
            place = places[_wanted(group[0])]
            with named(f"object {object}, frame {place.source}"):
                prompt = united(group, place.size)
                height, width = place.size
                for box in (member.box for member in group if member.box is not None):
                    if _outside(box, place.size) > MIN_NOTED_OUTSIDE:
                        picture = f"the picture of {width} × {height} pixels"
                        video.note(
                            f"the box {_written(box)} reaches outside {picture} and is clipped"
                        )
                clicked = any(inside for *_, inside in prompt.points)
                if not (prompt.box or prompt.mask is not None or clicked) and not any(
                    object == known.object for known in placed
                ):
                    problem = "only clicks outside the object are given"
                    raise InputError(f"{problem}; show where it is with a box or a point")
            at = place.frame, place.source
            placed.append(replace(prompt, frame=at[0], object=int(object), source=at[1]))
    return _without_repeated_pieces(placed)


def _check_fields(prompt: Prompt) -> None:
    """Refuse a prompt with values that are none."""
    ids = prompt.object, *(() if prompt.piece_of is None else (prompt.piece_of,))
    least = 1 if prompt.piece_of is None else 0
    numbered = all(is_id(id) and least <= id <= MAX_OBJECT for id in ids)
    has_box = prompt.box is None or _are_numbers([prompt.box], 4)
    in_file = prompt.source is None or is_id(prompt.source)
    for field, fits, form in (
        ("frame", is_id(prompt.frame), "give the position of a frame, counted from 0"),
        ("source", in_file, "give the number of a frame of the file, counted from 0"),
        ("object", numbered, f"objects are numbered 1 to {MAX_OBJECT}"),
        ("box", has_box, "a box is (x0, y0, x1, y1)"),
        ("points", _are_numbers(prompt.points, 3), "a point is (x, y, inside)"),
    ):
        if not fits:
            value = getattr(prompt, field)
            raise InputError(f"{field} {brief(value, 60)}: {form}")


def _are_numbers(rows: Any, count: int) -> bool:
    """Return whether each row is so many numbers."""
    try:
        return all(len([float(value) for value in row]) == count for row in rows)
    except (TypeError, ValueError, OverflowError):
        return False


def _numbered(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts with a number for each piece that has none yet."""
    roots = sorted({prompt.object for prompt in prompts if prompt.piece_of is None})
    known = ", ".join(map(str, roots))
    last = max(prompt.object for prompt in prompts)
    numbered = []
    for prompt in prompts:
        if prompt.piece_of is not None:
            text = _told(prompt)
            with named(f"add {text}"):
                if not roots:
                    remedy = "show it with a box, a point or a mask"
                    raise InputError(f"there is no object yet; {remedy}")
                if not prompt.piece_of and len(roots) > 1:
                    example = f"{roots[0]}:{text}"
                    raise InputError(f"name the object it is a piece of ({known}), as in {example}")
                root = prompt.piece_of or roots[0]
                if root not in roots:
                    raise InputError(f"there is no object {root}; known: {known}")
                if not prompt.object:
                    last += 1
                if last > MAX_OBJECT:
                    raise InputError(f"objects and pieces have the numbers 1 to {MAX_OBJECT}")
            prompt = replace(prompt, object=prompt.object or last, piece_of=root)
        numbered.append(prompt)
    return numbered


def _told(prompt: Prompt) -> str:
    """Return a prompt as it is typed, without its object."""
    points = (f"{x:g},{y:g}" for x, y, _ in prompt.points)
    what = _written(prompt.box) if prompt.box is not None else next(points, "MASK")
    return what if prompt.source is None else f"{what}@{prompt.source}"


def _without_repeated_pieces(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Drop pieces that their object has already, as when an add is repeated; the numbers of those
    after them close up."""
    roots = {prompt.object: prompt.piece_of for prompt in prompts}
    known: dict[int, list[Any]] = {}
    numbers: dict[int, int] = {}
    for place, object in enumerate(sorted(roots)):
        content = prompt_content(prompts, object)
        of_root = known.setdefault(roots[object] or object, [])
        if roots[object] is None or content not in of_root:
            numbers[object] = object - (place - len(numbers))  # less those that were dropped
            of_root.append(content)
    return [
        replace(prompt, object=numbers[prompt.object], piece_of=numbers.get(prompt.piece_of or 0))
        for prompt in prompts
        if prompt.object in numbers
    ]


def prompt_content(prompts: Iterable[Prompt], object: int) -> list[tuple[Any, ...]]:
    """Return all that the prompts of an object say, to compare or to write as JSON."""
    of_object = [prompt for prompt in prompts if prompt.object == object]
    return [
        (
            prompt.frame,
            prompt.box,
            prompt.points,
            None if prompt.mask is None else hashlib.sha256(prompt.mask.tobytes()).hexdigest(),
        )
        for prompt in sorted(of_object, key=lambda prompt: prompt.frame)
    ]


def _wanted(prompt: Prompt) -> tuple[str, int]:
    """Return by what the frame of a prompt is found."""
    return ("frame", prompt.frame) if prompt.source is None else ("source", prompt.source)


def _find_places(video: Video, prompts: Sequence[Prompt]) -> dict[tuple[str, int], Place]:
    """Return the places of these prompts; each must be there."""
    left = {_wanted(prompt) for prompt in prompts}
    places: dict[tuple[str, int], Place] = {}
    before: Place | None = None
    with closing(iter(video)) as stream:  # type: ignore[type-var]
        for frame in stream:
            here = Place(frame.index, frame.source, frame.shape)
            found = {(kind, getattr(here, kind)) for kind in ("frame", "source")} & left
            places |= dict.fromkeys(found, here)
            left -= found
            for kind, number in sorted(left):
                if number < (now := getattr(here, kind)):
                    problem = f"is not sampled; the first sampled frame is {now}"
                    if before is not None:
                        problem = "is not used (not sampled, or it cannot be decoded); "
                        problem += f"give one of its neighbours, {getattr(before, kind)} or {now}"
                    raise InputError(f"frame {number} {problem}")
            if not left:
                return places
            before = here
    kind, number = min(left)
    raise InputError(f"frame {number} is past the end; the last frame is {getattr(before, kind)}")


def file_boxes(prompts: Sequence[Prompt]) -> dict[int, dict[int, Box]]:
    """Return the boxes of objects by frame of the file; of a mask, the box around it."""
    boxes: dict[int, dict[int, Box]] = {}
    for prompt in prompts:
        assert prompt.source is not None  # it is placed
        boxes.setdefault(prompt.object, {})[prompt.source] = box_of(prompt)
    return boxes


def box_of(prompt: Prompt) -> Box:
    """Return the box of a prompt, or that around its mask; clicks have none."""
    if prompt.box is not None:
        return prompt.box
    box = None if prompt.mask is None else bounding_box(prompt.mask)
    if box is None:
        problem = f"object {prompt.object}: a box or a mask is needed, not clicks"
        raise InputError(f"{problem}; give one, or track the object with SAM 2 ({extra('track')})")
    return box


def united(prompts: Sequence[Prompt], size: tuple[int, int]) -> Prompt:
    """Return one prompt of all that is said of an object in a frame; a mask says all, and what
    agrees with it is left out."""
    boxes = {_clipped(prompt.box, size): prompt.box for prompt in prompts if prompt.box is not None}
    if len(boxes) > 1:
        first, second, *_ = (_written(box) for box in boxes.values())
        raise InputError(f"the boxes {first} and {second} contradict each other; keep one")
    box = next(iter(boxes), None)
    masks = [_fitted(prompt.mask, size) for prompt in prompts if prompt.mask is not None]
    if any((mask != masks[0]).any() for mask in masks):
        raise InputError("two different masks are given; keep one")
    mask = masks[0] if masks else None
    clicks = ((float(x), float(y), bool(on)) for prompt in prompts for x, y, on in prompt.points)
    points = tuple(dict.fromkeys(clicks))
    _check_points(points, box, mask, size)
    if mask is None and box is None and not points:
        raise InputError("the prompt is empty; give a box, points or a mask")
    if mask is None:
        return replace(prompts[0], box=box, points=points)
    if box is not None:
        x0, y0, x1, y1 = box
        if not mask[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)].any():
            raise InputError(f"the box {_written(box)} and the mask do not overlap; keep one")
    return replace(prompts[0], box=None, points=(), mask=mask)


def _fitted(mask: Any, size: tuple[int, int]) -> Mask:
    """Return a mask at the size of the frame; models give it as (1, H, W), too."""
    array = as_array(mask, "the mask")
    while array.ndim > 2 and len(array) == 1:
        array = array[0]
    height, width = size
    if array.ndim != 2 or array.dtype != bool or not array.any():
        remedy = f"give bool of the frame's (height, width) {size}, not empty"
        raise InputError(f"the mask is {array.dtype} of shape {array.shape}; {remedy}")
    mask_height, mask_width = array.shape
    stretched = abs(mask_width * height - mask_height * width)
    if stretched > max(max(size) / 2, MAX_STRETCH * mask_height * width):  # half a pixel is rounded
        sizes = f"{mask_width} × {mask_height}, but the frame is {width} × {height}"
        raise InputError(f"the mask is {sizes}, another shape; give a mask of the whole frame")
    if not (array := resize_nearest(array, size)).any():
        raise InputError(f"the mask is empty at {width} × {height} pixels; give a larger object")
    return array


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    (height, width), (x0, y0, x1, y1) = size, box
    problem = ""
    if not all(map(math.isfinite, box)):
        problem = "has sides that are not finite numbers"
    elif x1 < x0 or y1 < y0:
        problem = "ends before it begins; give the upper left corner first"
    elif x1 == x0 or y1 == y0:
        problem = "has no area; x0,y0,x1,y1 are two corners"
    elif x1 - x0 < 1 or y1 - y0 < 1:
        problem = "is narrower than a pixel; give its corners in pixels, not as fractions of "
        problem += f"{width} × {height}"
    elif (share := _outside(box, size)) > MAX_OUTSIDE:
        part = "" if share == 1 else f"{share:.0%} "
        problem = f"lies {part}outside the picture of {width} × {height} pixels; give pixels of "
        problem += "the video at its full size, not of a scaled view"
    if problem:
        raise InputError(f"the box {_written(box)} {problem}")
    return float(max(x0, 0)), float(max(y0, 0)), float(min(x1, width)), float(min(y1, height))


def _outside(box: Box, size: tuple[int, int]) -> float:
    x0, y0, x1, y1 = box
    return share_outside((x0, y0, x1 - x0, y1 - y0), size)


def _check_points(
    points: Iterable[tuple[float, float, bool]],
    box: Box | None,
    mask: Mask | None,
    size: tuple[int, int],
) -> None:
    height, width = size
    clicked: dict[tuple[int, int], bool] = {}
    for x, y, inside in points:
        problem = ""
        if not (0 <= x < width and 0 <= y < height):
            problem = f"lies outside the frame of {width} × {height} pixels"
        elif clicked.setdefault((int(x), int(y)), inside) != inside:
            problem = "is given both as inside and as outside; keep one"
        elif inside and box and not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            problem = f"lies outside the box {_written(box)}; move one of them"
        elif mask is not None and mask[int(y), int(x)] != inside:
            problem = f"lies {'outside' if inside else 'inside'} the mask; keep one"
        if problem:
            raise InputError(f"the point {x:g},{y:g} {problem}")


def _written(box: Box) -> str:
    return ",".join(f"{side:g}" for side in box)
