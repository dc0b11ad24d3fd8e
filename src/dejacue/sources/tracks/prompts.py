"""Prompts that a tracker takes, checked against the video.

    resolve_prompts        RawPrompt, in frames of the file → Prompt, at sampled positions
    check_prompts          prompts made in Python, checked in the same way
    drop_repeated_pieces   without pieces that are given twice

What people write becomes RawPrompt in prompt_text.py.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, shown
from dejacue.records.arrays import as_array
from dejacue.sources.documents import named
from dejacue.sources.masks.labels import LOSSY, MOST_LABELS, VOID, read_picture
from dejacue.sources.masks.reader import resize_nearest
from dejacue.sources.tracks.base import Box, Mask, Prompt
from dejacue.sources.tracks.prompt_text import MOST_OBJECT, Lineages, RawPrompt
from dejacue.sources.video import Frame, Video


def resolve_prompts(video: Video, given: Sequence[RawPrompt]) -> list[Prompt]:
    """The prompts at their positions in the sampled sequence, one for each object and frame.

    Reads the video as far as the last of them: which frames are taken, and their size, is then
    known, not guessed.
    """
    if not given:
        raise InputError("the position of the object is missing; give a box, a point or a mask")
    wanted = {own.frame for own in given}
    with named(video.path):
        found = _find_frames(video, wanted, lambda frame: frame.source)
        prompts = []
        for own in given:
            frame = found[own.frame]
            mask = own.mask
            if own.picture is not None:
                path, number = own.picture
                mask = _read_mask(Path(path), number, _size(frame))
            points = () if own.point is None else (own.point,)
            prompts.append(Prompt(frame.index, own.object, own.box, points, mask))
        return _combined(prompts, {frame.index: frame for frame in found.values()})


def check_prompts(video: Video, prompts: Sequence[Prompt]) -> list[Prompt]:
    """The same prompts, one for each object and frame, boxes clipped; or what is wrong."""
    if not prompts:
        raise InputError("the position of the object is missing; give at least one Prompt")
    with named(video.path):
        for prompt in prompts:
            _check_fields(prompt)
        found = _find_frames(video, {prompt.frame for prompt in prompts}, lambda frame: frame.index)
        return _combined(prompts, {frame.index: frame for frame in found.values()})


def _check_fields(prompt: Any) -> None:
    if not isinstance(prompt, Prompt):
        raise InputError(f"prompts are Prompt records, not {prompt!r:.40}")
    if not _is_whole(prompt.frame):
        raise InputError(
            f"frame {prompt.frame!r:.40}: give the position of a frame, counted from 0"
        )
    if not _is_whole(prompt.object) or not 1 <= prompt.object <= MOST_OBJECT:
        raise InputError(f"object {shown(prompt.object)}: objects are numbered 1 to {MOST_OBJECT}")
    if prompt.box is not None and not _are_numbers([prompt.box], 4):
        raise InputError(f"box {prompt.box!s:.60}: a box is (x0, y0, x1, y1)")
    if not _are_numbers(prompt.points, 3):
        raise InputError(f"points {prompt.points!s:.60}: a point is (x, y, inside)")


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _are_numbers(rows: Any, count: int) -> bool:
    """Whether each row is so many numbers."""
    try:
        return all(len([float(value) for value in row]) == count for row in rows)
    except (TypeError, ValueError, OverflowError):
        return False


def drop_repeated_pieces(
    prompts: Sequence[Prompt], lineages: Lineages
) -> tuple[list[Prompt], Lineages]:
    """Without pieces that their lineage has already, as when an add is repeated; the numbers of
    those after them close up."""
    again: list[int] = []
    for pieces in lineages.values():
        known: list[object] = []
        for one in pieces:
            said = prompt_content(prompts, one)
            again += [one] if said in known else []
            known.append(said)
    numbers = {
        one: one - sum(other < one for other in again)
        for pieces in lineages.values()
        for one in pieces
        if one not in again
    }
    left = [replace(own, object=numbers[own.object]) for own in prompts if own.object in numbers]
    return left, {
        numbers[root]: tuple(numbers[one] for one in pieces if one in numbers)
        for root, pieces in lineages.items()
    }


def prompt_content(prompts: Iterable[Prompt], one: int) -> list[tuple[object, ...]]:
    """All that the prompts of an object say, to compare or to write as JSON."""
    own = sorted((own for own in prompts if own.object == one), key=lambda prompt: prompt.frame)
    return [
        (
            prompt.frame,
            prompt.box,
            prompt.points,
            None if prompt.mask is None else hashlib.sha256(prompt.mask.tobytes()).hexdigest(),
        )
        for prompt in own
    ]


def _find_frames(
    video: Video, wanted: Iterable[int | None], number: Callable[[Frame], int]
) -> dict[int | None, Frame]:
    """The frames of these numbers (None: the first); each must be there."""
    left = set(wanted)
    found: dict[int | None, Frame] = {}
    before: int | None = None
    with closing(iter(video)) as frames:  # type: ignore[type-var]
        for frame in frames:
            here = number(frame)
            for one in left & ({here} if found or before is not None else {here, None}):
                found[one] = frame
                left.discard(one)
            passed = min((one for one in left if one is not None and one < here), default=None)
            if passed is not None:
                raise _not_taken(passed, before, here)
            if not left:
                return found
            before = here
    past = min(one for one in left if one is not None)
    raise InputError(f"frame {past} is past the end; the last frame is {before}")


def _not_taken(wanted: int, before: int | None, after: int) -> InputError:
    if before is None:
        return InputError(f"frame {wanted} is not sampled; the first sampled frame is {after}")
    return InputError(
        f"frame {wanted} is not used (not sampled, or it cannot be decoded); give one of its "
        f"neighbours, {before} or {after}"
    )


def _size(frame: Frame) -> tuple[int, int]:
    return frame.image.shape[0], frame.image.shape[1]


def _read_mask(path: Path, number: int | None, size: tuple[int, int]) -> Mask:
    """The object in a picture, at the size of the frame."""
    with named(str(path)):
        if os.path.isdir(path):
            raise InputError(
                "is a folder; --mask takes one picture of the object, --masks takes the masks of "
                "all frames"
            )
        labels = read_picture(path, binary=path.suffix.lower() in LOSSY)
        there = [int(value) for value in np.unique(labels) if value > 0]
        objects = [value for value in there if value != VOID] or there
        if number is not None and number not in there:
            held = ", ".join(map(str, objects[:9])) or "none"
            raise InputError(f"has no object {number}; the numbers in this picture are {held}")
        if number is None and 1 < len(objects) <= MOST_LABELS:
            held = ", ".join(map(str, objects[:9]))
            raise InputError(
                f"holds the objects {held}; choose one, as in {path.name}#{objects[0]}"
            )
        if number is not None or len(objects) == 1:
            mask = labels == (objects[0] if number is None else number)
        else:
            mask = labels > VOID // 2  # a soft edge, not objects
        (height, width), (own_height, own_width) = size, mask.shape
        if abs(own_width * height - own_height * width) > max(height, width) * 2:
            raise InputError(
                f"is {own_width} × {own_height}, but the frame is {width} × {height}, another "
                "shape; give a mask of the whole frame"
            )
        mask = resize_nearest(mask, size)
        if not mask.any():
            raise InputError("is empty; give a mask that shows the object")
        return mask


def _combined(prompts: Sequence[Prompt], frames: Mapping[int, Frame]) -> list[Prompt]:
    """One prompt for each object and frame, in the order of frames."""
    together: dict[tuple[int, int], list[Prompt]] = {}
    for prompt in prompts:
        together.setdefault((prompt.frame, prompt.object), []).append(prompt)
    made = []
    known: set[int] = set()
    for (index, object), own in sorted(together.items(), key=lambda item: item[0]):
        frame = frames[index]
        with named(f"object {object}, frame {frame.source}"):
            one = united(own, _size(frame))
            inside = one.box or one.mask is not None or any(inside for *_, inside in one.points)
            if object not in known and not inside:
                raise InputError(
                    "only clicks outside the object are given; show where it is with a box or a "
                    "point"
                )
        known.add(object)
        made.append(one)
    return made


def united(prompts: Sequence[Prompt], size: tuple[int, int]) -> Prompt:
    """All that is said of one object in one frame; a mask says all, what agrees with it is left
    out."""
    frame, one = int(prompts[0].frame), int(prompts[0].object)
    boxes = {_clipped(own.box, size): own.box for own in prompts if own.box is not None}
    if len(boxes) > 1:
        first, other, *_ = (_written(box) for box in boxes.values())
        raise InputError(f"the boxes {first} and {other} contradict each other; keep one")
    box = next(iter(boxes), None)
    given = ((float(x), float(y), bool(on)) for own in prompts for x, y, on in own.points)
    points = tuple(dict.fromkeys(given))
    _check_points(points, box, size)
    masks = [_single(own.mask) for own in prompts if own.mask is not None]
    for mask in masks:
        if mask.shape != size or mask.dtype != bool or not mask.any():
            raise InputError(
                f"the mask is {mask.dtype} of shape {mask.shape}; give bool of the frame's "
                f"(height, width) {size}, not empty"
            )
        if (mask != masks[0]).any():
            raise InputError("two different masks are given; keep one")
        _check_mask(mask, box, points)
    if masks:
        return Prompt(frame, one, mask=masks[0])
    if box is None and not points:
        raise InputError("the prompt is empty; give a box, points or a mask")
    return Prompt(frame, one, box, points)


def _single(mask: Any) -> Mask:
    """One mask (H, W); models give it as (1, H, W), too."""
    array = as_array(mask, "the mask")
    while array.ndim > 2 and len(array) == 1:
        array = array[0]
    return array


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    (height, width), (x0, y0, x1, y1) = size, box
    if not all(map(math.isfinite, box)):
        raise InputError(f"the box {_written(box)} has sides that are not finite numbers")
    if x1 < x0 or y1 < y0:
        raise InputError(
            f"the box {_written(box)} ends before it begins; give the upper left corner first"
        )
    if x1 == x0 or y1 == y0:
        raise InputError(f"the box {_written(box)} has no area; x0,y0,x1,y1 are two corners")
    if x1 - x0 < 1 or y1 - y0 < 1:
        raise InputError(
            f"the box {_written(box)} is narrower than a pixel; give its corners in pixels, not "
            f"as fractions of {width} × {height}"
        )
    if x1 <= 0 or y1 <= 0 or x0 >= width or y0 >= height:
        raise InputError(
            f"the box {_written(box)} lies outside the frame of {width} × {height} pixels"
        )
    return float(max(x0, 0)), float(max(y0, 0)), float(min(x1, width)), float(min(y1, height))


def _check_points(
    points: Iterable[tuple[float, float, bool]], box: Box | None, size: tuple[int, int]
) -> None:
    height, width = size
    said: dict[tuple[int, int], bool] = {}
    for x, y, inside in points:
        if not (0 <= x < width and 0 <= y < height):
            raise InputError(
                f"the point {x:g},{y:g} lies outside the frame of {width} × {height} pixels"
            )
        if said.setdefault((int(x), int(y)), inside) != inside:
            raise InputError(
                f"the point {x:g},{y:g} is given both as inside and as outside; keep one"
            )
        if inside and box and not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            raise InputError(
                f"the point {x:g},{y:g} lies outside the box {_written(box)}; move one of them"
            )


def _check_mask(mask: Mask, box: Box | None, points: Iterable[tuple[float, float, bool]]) -> None:
    if box is not None:
        x0, y0, x1, y1 = box
        part = mask[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)]
        if not part.any():
            raise InputError(f"the box {_written(box)} and the mask do not overlap; keep one")
    for x, y, inside in points:
        if mask[int(y), int(x)] != inside:
            where = "outside" if inside else "inside"
            raise InputError(f"the point {x:g},{y:g} lies {where} the mask; keep one")


def _written(box: Box) -> str:
    return ",".join(f"{side:g}" for side in box)
