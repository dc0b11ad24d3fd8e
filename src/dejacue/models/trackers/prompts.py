"""Where the object is: as people write it, and as a tracker takes it, checked against the video.

    parse_prompts           text of the command line → RawPrompt
    resolve_prompts        RawPrompt, in frames of the file → Prompt, at sampled positions
    check_prompts          prompts made in Python, checked in the same way
    drop_repeated_pieces   without pieces that are given twice

People count the frames of the file, as a player or the names of pictures show them; a Prompt counts
positions in the sampled sequence.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dejacue.errors import InputError, brief, extra, in_file, named
from dejacue.masks._masks import is_id
from dejacue.masks.labels import LOSSY, MAX_LABELS, VOID, read_picture
from dejacue.masks.reader import (
    MAX_OUTSIDE,
    MIN_NOTED_OUTSIDE,
    resize_nearest,
    share_outside,
)
from dejacue.models.trackers.base import Box, Mask, Prompt, bounding_box
from dejacue.records.arrays import as_array
from dejacue.video.video import Frame, Video

MAX_OBJECT = VOID - 1  # what an indexed picture holds
NO_POSITION = "the position of the object is missing"
Groups = Mapping[int, tuple[int, ...]]  # the first id of an object and all its pieces
_BAD_FRAME = re.compile(r"[\d.,\s]+@.*", re.DOTALL)  # numbers, and a frame that is none
_TEXT = re.compile(r"\s*(?:(\d{1,9}):)?(.*?)(?:@(\d{1,15}))?\s*", re.DOTALL)
_PICTURE_ID = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


class RawPrompt(
    msgspec.Struct, frozen=True, eq=False, omit_defaults=True, forbid_unknown_fields=True
):
    """Holds a prompt as it was written.

    frame     of the file; None: the first one that is looked at
    picture   the path of one with the mask of the object, and which number in it is the object
              (None: there is only one)
    mask      or its pixels
    """

    object: int
    frame: int | None
    box: Box | None = None
    point: tuple[float, float, bool] | None = None
    picture: tuple[str, int | None] | None = None
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class TypedPrompts:
    """Says where the object is, as it is typed on the command line.

    box ``2:120,80,300,260@15``; point ``2:200,150@15``; mask ``2:first.png#3@15``: object and frame
    may be left out (object 1; frame ``at``, or the first); an add is any of them, and its number is
    the object that it is a piece of.
    """

    boxes: Sequence[str] = ()
    points: Sequence[str] = ()
    not_points: Sequence[str] = ()
    masks: Sequence[str] = ()
    at: int | None = None
    adds: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.first or self.adds)

    @property
    def first(self) -> tuple[str, ...]:
        """Return those that show an object, not a piece to add to one."""
        return (*self.boxes, *self.points, *self.not_points, *self.masks)


def parse_prompts(
    typed: TypedPrompts, before: tuple[Iterable[RawPrompt], Groups] = ((), {})
) -> tuple[list[RawPrompt], Groups]:
    """Return the prompts, and the groups: an add is a piece of an object, with a new id. Where
    only adds are given, they are added to what was given ``before``."""
    at = typed.at
    if at is not None and at < 0:
        raise InputError(f"frame {at} is negative; frames count from 0")
    not_point = partial(_point, inside=False)
    prompts = [_parse("box", text, at, _box) for text in typed.boxes]
    prompts += [_parse("point", text, at, _point) for text in typed.points]
    prompts += [_parse("not point", text, at, not_point) for text in typed.not_points]
    prompts += [_parse("mask", text, at, _mask) for text in typed.masks]
    groups: dict[int, tuple[int, ...]] = {
        object: (object,) for object in sorted({prompt.object for prompt in prompts})
    }
    if not prompts and typed.adds:
        prompts, groups = list(before[0]), dict(before[1])
    known = ", ".join(map(str, groups))
    ids = [id for pieces in groups.values() for id in pieces]
    for number, text in enumerate(typed.adds, start=max(ids, default=0) + 1):
        prompt = _parse("add", text, at, _any)
        with named(f"add {text}"):
            if not groups:
                raise InputError("there is no object yet; show it with a box, a point or a mask")
            names_object = (match := _TEXT.fullmatch(text)) is not None and match[1] is not None
            if not names_object and len(groups) > 1:
                example = f"{next(iter(groups))}:{text}"
                raise InputError(f"name the object it is a piece of ({known}), as in {example}")
            root = prompt.object if names_object else next(iter(groups))
            if root not in groups:
                raise InputError(f"there is no object {root}; known: {known}")
            if number > MAX_OBJECT:
                raise InputError(f"objects and pieces have the numbers 1 to {MAX_OBJECT}")
        prompts.append(msgspec.structs.replace(prompt, object=number))
        groups[root] = (*groups[root], number)
    return prompts, groups


def _parse(
    argument: str, text: str, at: int | None, parse: Callable[[str], RawPrompt]
) -> RawPrompt:
    """Return the prompt that an argument gives; ``parse`` reads it without object and frame."""
    match = _TEXT.fullmatch(text)
    assert match is not None  # anything matches
    with named(f"{argument} {text}"):
        number = int(match[1] or 1)
        if not 1 <= number <= MAX_OBJECT:
            raise InputError(f"objects have the numbers 1 to {MAX_OBJECT}")
        if _BAD_FRAME.fullmatch(match[2]):
            raise InputError("@ must be followed by a frame of the file, counted from 0, as in @45")
        frame = at if match[3] is None else int(match[3])
        return msgspec.structs.replace(parse(match[2]), object=number, frame=frame)


def _box(text: str) -> RawPrompt:
    x0, y0, x1, y1 = _numbers(text, 4, "a box is x0,y0,x1,y1, as in 120,80,300,260@0")
    return RawPrompt(1, None, box=(x0, y0, x1, y1))


def _point(text: str, inside: bool = True) -> RawPrompt:
    x, y = _numbers(text, 2, "a point is x,y, as in 200,150@0")
    return RawPrompt(1, None, point=(x, y, inside))


def _mask(text: str) -> RawPrompt:
    match = _PICTURE_ID.fullmatch(text)
    path, number = (match[1], int(match[2])) if match else (text, None)
    if not path:
        raise InputError("names no picture, as in first.png@0")
    return RawPrompt(1, None, picture=(path, number))


def _any(text: str) -> RawPrompt:
    commas = text.count(",")
    if commas in (1, 3) and not os.path.exists(text):
        return _box(text) if commas == 3 else _point(text)
    return _mask(text)


def _numbers(text: str, count: int, form: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise InputError(f"{form}; pixels from the upper left corner")
    return numbers


def resolve_prompts(video: Video, raw: Sequence[RawPrompt]) -> list[Prompt]:
    """Return the prompts at their positions in the sampled sequence, one per object and frame.

    Reads the video as far as the last of them: which frames are taken, and their size, is then
    known, not guessed.
    """
    if not raw:
        raise InputError(f"{NO_POSITION}; give a box, a point or a mask")
    with in_file(video.path):
        frames = _find_frames(video, {written.frame for written in raw}, lambda frame: frame.source)
        prompts = []
        for written in raw:
            frame = frames[written.frame]
            mask = written.mask
            if written.picture is not None:
                path, number = written.picture
                mask = _read_mask(Path(path), number, frame.shape)
            points = () if written.point is None else (written.point,)
            prompts.append(Prompt(frame.index, written.object, written.box, points, mask))
        return _combined(video, prompts, frames.values())


def check_prompts(video: Video, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the same prompts, one for each object and frame, boxes clipped; or raise."""
    if not prompts:
        raise InputError(f"{NO_POSITION}; give at least one Prompt")
    with in_file(video.path):
        for prompt in prompts:
            _check_fields(prompt)
        positions = {prompt.frame for prompt in prompts}
        frames = _find_frames(video, positions, lambda frame: frame.index)
        return _combined(video, prompts, frames.values())


def _check_fields(prompt: Prompt) -> None:
    """Refuse a prompt with values that are none."""
    numbered = is_id(prompt.object) and 1 <= prompt.object <= MAX_OBJECT
    has_box = prompt.box is None or are_numbers([prompt.box], 4)
    for field, fits, form in (
        ("frame", is_id(prompt.frame), "give the position of a frame, counted from 0"),
        ("object", numbered, f"objects are numbered 1 to {MAX_OBJECT}"),
        ("box", has_box, "a box is (x0, y0, x1, y1)"),
        ("points", are_numbers(prompt.points, 3), "a point is (x, y, inside)"),
    ):
        if not fits:
            value = getattr(prompt, field)
            raise InputError(f"{field} {brief(value, 60)}: {form}")


def are_numbers(rows: Any, count: int) -> bool:
    """Return whether each row is so many numbers."""
    try:
        return all(len([float(value) for value in row]) == count for row in rows)
    except (TypeError, ValueError, OverflowError):
        return False


def drop_repeated_pieces(prompts: Sequence[Prompt], groups: Groups) -> tuple[list[Prompt], Groups]:
    """Drop pieces that their group has already, as when an add is repeated; the numbers of
    those after them close up."""
    repeated: list[int] = []
    for pieces in groups.values():
        known: list[object] = []
        for id in pieces:
            content = prompt_content(prompts, id)
            repeated += [id] if content in known else []
            known.append(content)
    numbers = {
        id: id - sum(piece < id for piece in repeated)
        for pieces in groups.values()
        for id in pieces
        if id not in repeated
    }
    left = [
        replace(prompt, object=numbers[prompt.object])
        for prompt in prompts
        if prompt.object in numbers
    ]
    return left, {
        numbers[root]: tuple(numbers[id] for id in pieces if id in numbers)
        for root, pieces in groups.items()
    }


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


def file_boxes(video: Video, prompts: Sequence[Prompt]) -> dict[int, dict[int, Box]]:
    """Return the boxes of objects by frame of the file; of a mask, the box around it."""
    frames = _find_frames(video, {prompt.frame for prompt in prompts}, lambda frame: frame.index)
    boxes: dict[int, dict[int, Box]] = {}
    for prompt in prompts:
        boxes.setdefault(prompt.object, {})[frames[prompt.frame].source] = box_of(prompt)
    return boxes


def box_of(prompt: Prompt) -> Box:
    """Return the box of a prompt, or that around its mask; clicks have none."""
    if prompt.box is not None:
        return prompt.box
    box = None if prompt.mask is None else bounding_box(prompt.mask)
    if box is None:
        problem = f"object {prompt.object}: a fixed region needs a box or a mask, not clicks"
        raise InputError(f"{problem}; give one, or track the object with SAM 2 ({extra('track')})")
    return box


def _find_frames(
    video: Video, numbers: Iterable[int | None], number: Callable[[Frame], int]
) -> dict[int | None, Frame]:
    """Return the frames of these numbers (None: the first); each must be there."""
    left = set(numbers)
    frames: dict[int | None, Frame] = {}
    before: int | None = None
    with closing(iter(video)) as stream:  # type: ignore[type-var]
        for frame in stream:
            here = number(frame)
            for key in left & ({here} if frames or before is not None else {here, None}):
                frames[key] = frame
                left.discard(key)
            passed = min((key for key in left if key is not None and key < here), default=None)
            if passed is not None and before is None:
                raise _bad_frame(passed, f"is not sampled; the first sampled frame is {here}")
            if passed is not None:
                raise _bad_frame(
                    passed,
                    "is not used (not sampled, or it cannot be decoded); "
                    f"give one of its neighbours, {before} or {here}",
                )
            if not left:
                return frames
            before = here
    past = min(key for key in left if key is not None)
    raise _bad_frame(past, f"is past the end; the last frame is {before}")


def _bad_frame(frame: int, problem: str) -> InputError:
    return InputError(f"frame {frame} {problem}")


def _read_mask(path: Path, number: int | None, size: tuple[int, int]) -> Mask:
    """Return the mask of an object in a picture, at the size of the frame."""
    with in_file(path):
        if os.path.isdir(path):
            remedy = "a mask is one picture of the object; give the masks of all frames as masks"
            raise InputError(f"is a folder; {remedy}")
        labels = read_picture(path, binary=path.suffix.lower() in LOSSY)
        values = [int(value) for value in np.unique(labels) if value > 0]
        objects = [value for value in values if value != VOID] or values
        listed = ", ".join(map(str, objects[:9])) or "none"
        if number is not None and number not in values:
            raise InputError(f"has no object {number}; the numbers in this picture are {listed}")
        if number is None and 1 < len(objects) <= MAX_LABELS:
            problem = f"holds the objects {listed}"
            raise InputError(f"{problem}; choose one, as in {path.name}#{objects[0]}")
        if number is not None or len(objects) == 1:
            mask = labels == (objects[0] if number is None else number)
        else:
            mask = labels > VOID // 2  # a soft edge, not objects
        (height, width), (mask_height, mask_width) = size, mask.shape
        if abs(mask_width * height - mask_height * width) > max(height, width) * 2:
            sizes = f"is {mask_width} × {mask_height}, but the frame is {width} × {height}"
            raise InputError(f"{sizes}, another shape; give a mask of the whole frame")
        mask = resize_nearest(mask, size)
        if not mask.any():
            raise InputError("is empty; give a mask that shows the object")
        return mask


def _combined(video: Video, prompts: Iterable[Prompt], frames: Iterable[Frame]) -> list[Prompt]:
    """Return one prompt for each object and frame, in the order of frames; note where a box was
    clipped."""
    groups: dict[tuple[int, int], list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault((prompt.frame, prompt.object), []).append(prompt)
    by_index = {frame.index: frame for frame in frames}
    combined = []
    known: set[int] = set()
    for (index, object), group in sorted(groups.items(), key=lambda item: item[0]):
        frame = by_index[index]
        with named(f"object {object}, frame {frame.source}"):
            prompt = united(group, frame.shape)
            for box in (member.box for member in group if member.box is not None):
                if _outside(box, frame.shape) > MIN_NOTED_OUTSIDE:
                    height, width = frame.shape
                    video.note(
                        f"the box {_written(box)} reaches outside the picture of {width} × "
                        f"{height} pixels and is clipped"
                    )
            clicked = any(inside for *_, inside in prompt.points)
            if object not in known and not (prompt.box or prompt.mask is not None or clicked):
                problem = "only clicks outside the object are given"
                raise InputError(f"{problem}; show where it is with a box or a point")
        known.add(object)
        combined.append(prompt)
    return combined


def united(prompts: Sequence[Prompt], size: tuple[int, int]) -> Prompt:
    """Return one prompt of all that is said of an object in a frame; a mask says all, and what
    agrees with it is left out."""
    frame, object = int(prompts[0].frame), int(prompts[0].object)
    boxes = {_clipped(prompt.box, size): prompt.box for prompt in prompts if prompt.box is not None}
    if len(boxes) > 1:
        first, second, *_ = (_written(box) for box in boxes.values())
        raise InputError(f"the boxes {first} and {second} contradict each other; keep one")
    box = next(iter(boxes), None)
    clicks = ((float(x), float(y), bool(on)) for prompt in prompts for x, y, on in prompt.points)
    points = tuple(dict.fromkeys(clicks))
    _check_points(points, box, size)
    masks = [_plane(prompt.mask) for prompt in prompts if prompt.mask is not None]
    for mask in masks:
        if mask.shape != size or mask.dtype != bool or not mask.any():
            remedy = f"give bool of the frame's (height, width) {size}, not empty"
            raise InputError(f"the mask is {mask.dtype} of shape {mask.shape}; {remedy}")
        if (mask != masks[0]).any():
            raise InputError("two different masks are given; keep one")
        _check_mask(mask, box, points)
    if masks:
        return Prompt(frame, object, mask=masks[0])
    if box is None and not points:
        raise InputError("the prompt is empty; give a box, points or a mask")
    return Prompt(frame, object, box, points)


def _plane(mask: Any) -> Mask:
    """Return a mask as (H, W); models give it as (1, H, W), too."""
    array = as_array(mask, "the mask")
    while array.ndim > 2 and len(array) == 1:
        array = array[0]
    return array


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    (height, width), (x0, y0, x1, y1) = size, box
    if not all(map(math.isfinite, box)):
        raise _bad_box(box, "has sides that are not finite numbers")
    if x1 < x0 or y1 < y0:
        raise _bad_box(box, "ends before it begins; give the upper left corner first")
    if x1 == x0 or y1 == y0:
        raise _bad_box(box, "has no area; x0,y0,x1,y1 are two corners")
    if x1 - x0 < 1 or y1 - y0 < 1:
        remedy = f"give its corners in pixels, not as fractions of {width} × {height}"
        raise _bad_box(box, f"is narrower than a pixel; {remedy}")
    if (share := _outside(box, size)) > MAX_OUTSIDE:
        part = "" if share == 1 else f"{share:.0%} "
        raise _bad_box(
            box,
            f"lies {part}outside the picture of {width} × {height} pixels; "
            "give pixels of the video at its full size, not of a scaled view",
        )
    return float(max(x0, 0)), float(max(y0, 0)), float(min(x1, width)), float(min(y1, height))


def _outside(box: Box, size: tuple[int, int]) -> float:
    x0, y0, x1, y1 = box
    return share_outside((x0, y0, x1 - x0, y1 - y0), size)


def _check_points(
    points: Iterable[tuple[float, float, bool]], box: Box | None, size: tuple[int, int]
) -> None:
    height, width = size
    clicked: dict[tuple[int, int], bool] = {}
    for x, y, inside in points:
        if not (0 <= x < width and 0 <= y < height):
            raise _bad_point(x, y, f"lies outside the frame of {width} × {height} pixels")
        if clicked.setdefault((int(x), int(y)), inside) != inside:
            raise _bad_point(x, y, "is given both as inside and as outside; keep one")
        if inside and box and not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            raise _bad_point(x, y, f"lies outside the box {_written(box)}; move one of them")


def _check_mask(mask: Mask, box: Box | None, points: Iterable[tuple[float, float, bool]]) -> None:
    if box is not None:
        x0, y0, x1, y1 = box
        part = mask[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)]
        if not part.any():
            raise _bad_box(box, "and the mask do not overlap; keep one")
    for x, y, inside in points:
        if mask[int(y), int(x)] != inside:
            where = "outside" if inside else "inside"
            raise _bad_point(x, y, f"lies {where} the mask; keep one")


def _bad_box(box: Box, problem: str) -> InputError:
    return InputError(f"the box {_written(box)} {problem}")


def _bad_point(x: float, y: float, problem: str) -> InputError:
    return InputError(f"the point {x:g},{y:g} {problem}")


def _written(box: Box) -> str:
    return ",".join(f"{side:g}" for side in box)
