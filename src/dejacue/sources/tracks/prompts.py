"""Where the object is, as people write it → prompts that a tracker takes.

    read_prompts   the texts of the command line → Given, and which objects are one lineage
    place          Given → prompts at sampled positions, checked against the video
    settle         prompts made in Python, checked in the same way
    distinct       without pieces that are given twice

People count the frames of the file, as a player or the names of pictures show them; a tracker
counts the sampled ones. Without sampling both are the same.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dejacue.errors import InputError
from dejacue.sources.documents import named
from dejacue.sources.masks.labels import LOSSY, MOST_LABELS, VOID, read_picture
from dejacue.sources.masks.reader import resize_nearest
from dejacue.sources.tracks.base import Box, Mask, Prompt
from dejacue.sources.video import Frame, Video

MOST_OBJECT = VOID - 1  # what an indexed picture holds
Lineages = Mapping[int, tuple[int, ...]]  # the first id of an object and all its pieces
_FRAMED = re.compile(r"[\d.,\s]+@.*", re.DOTALL)  # numbers, and a frame that is none
_TEXT = re.compile(r"\s*(?:(\d{1,9}):)?(.*?)(?:@(\d{1,15}))?\s*", re.DOTALL)
_ID = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Given:
    """One prompt as it was written.

    frame   of the file; None: the first one that is looked at
    mask    a picture, and which number in it is the object (None: there is only one); or pixels
    """

    object: int
    frame: int | None
    box: Box | None = None
    point: tuple[float, float, bool] | None = None
    mask: tuple[Path, int | None] | Mask | None = None


def read_prompts(
    boxes: Iterable[str] = (),
    points: Iterable[str] = (),
    not_points: Iterable[str] = (),
    masks: Iterable[str] = (),
    at: int | None = None,
    adds: Sequence[str] = (),
    before: tuple[Iterable[Given], Lineages] = ((), {}),
) -> tuple[list[Given], Lineages]:
    """What the options say, and the lineages: an ``add`` is a piece of an object, with a new id.

    box ``2:120,80,300,260@15``; point ``2:200,150@15``; mask ``2:first.png#3@15``: object and frame
    may be left out (object 1; frame ``at``, or the first); an add is any of them, and its number is
    the object that it is a piece of. Where only adds are given, they are added to what was given
    ``before``.
    """
    if at is not None and at < 0:
        raise InputError(f"--at {at} is negative; frames count from 0")
    given = [_read("--box", text, at, _box) for text in boxes]
    given += [_read("--point", text, at, _inside) for text in points]
    given += [_read("--not-point", text, at, _outside) for text in not_points]
    given += [_read("--mask", text, at, _mask) for text in masks]
    lineages: dict[int, tuple[int, ...]] = {
        one: (one,) for one in sorted({own.object for own in given})
    }
    if not given and adds:
        given, lineages = list(before[0]), dict(before[1])
    return given, _add(given, lineages, adds, at)


def _add(
    given: list[Given], lineages: dict[int, tuple[int, ...]], adds: Iterable[str], at: int | None
) -> Lineages:
    known = ", ".join(map(str, lineages))
    ids = [one for pieces in lineages.values() for one in pieces]
    for number, text in enumerate(adds, start=max(ids, default=0) + 1):
        own = _read("--add", text, at, _any)
        with named(f"--add {text}"):
            if not lineages:
                raise InputError("there is no object yet; give it with --box, --point or --mask")
            if not _says_object(text) and len(lineages) > 1:
                example = f"{next(iter(lineages))}:{text}"
                raise InputError(f"say of which object it is a piece ({known}), as in {example}")
            root = own.object if _says_object(text) else next(iter(lineages))
            if root not in lineages:
                raise InputError(f"there is no object {root}; known: {known}")
            if number > MOST_OBJECT:
                raise InputError(f"objects and pieces have the numbers 1 to {MOST_OBJECT}")
        given.append(replace(own, object=number))
        lineages[root] = (*lineages[root], number)
    return lineages


def _says_object(text: str) -> bool:
    found = _TEXT.fullmatch(text)
    return found is not None and found[1] is not None


def _read(option: str, text: str, at: int | None, what: Callable[[str], Given]) -> Given:
    found = _TEXT.fullmatch(text)
    assert found is not None  # anything matches
    with named(f"{option} {text}"):
        number = int(found[1] or 1)
        if not 1 <= number <= MOST_OBJECT:
            raise InputError(f"objects have the numbers 1 to {MOST_OBJECT}")
        if _FRAMED.fullmatch(found[2]):
            raise InputError("after the @ stands a frame of the file, from 0 on, as in @45")
        frame = at if found[3] is None else int(found[3])
        return replace(what(found[2]), object=number, frame=frame)


def _box(text: str) -> Given:
    x0, y0, x1, y1 = _numbers(text, 4, "a box is x0,y0,x1,y1, as in 120,80,300,260@0")
    return Given(1, None, box=(x0, y0, x1, y1))


def _inside(text: str) -> Given:
    x, y = _numbers(text, 2, "a point is x,y, as in 200,150@0")
    return Given(1, None, point=(x, y, True))


def _outside(text: str) -> Given:
    x, y = _numbers(text, 2, "a point is x,y, as in 200,150@0")
    return Given(1, None, point=(x, y, False))


def _mask(text: str) -> Given:
    found = _ID.fullmatch(text)
    path, number = (found[1], int(found[2])) if found else (text, None)
    if not path:
        raise InputError("names no picture, as in first.png@0")
    return Given(1, None, mask=(Path(path), number))


def _any(text: str) -> Given:
    commas = text.count(",")
    if commas in (1, 3) and not Path(text).exists():
        return _box(text) if commas == 3 else _inside(text)
    return _mask(text)


def _numbers(text: str, count: int, form: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise InputError(f"{form}; pixels from the upper left corner")
    return numbers


def place(video: Video, given: Sequence[Given]) -> list[Prompt]:
    """The prompts at their positions in the sampled sequence, one for each object and frame.

    Reads the video as far as the last of them: which frames are taken, and their size, is then
    known, not guessed.
    """
    if not given:
        raise InputError("nothing says where the object is; give a box, a point or a mask")
    wanted = {own.frame for own in given}
    with named(video.path):
        found = _look(video, wanted, lambda frame: frame.source)
        prompts = []
        for own in given:
            frame = found[own.frame]
            mask = _read_mask(*own.mask, _size(frame)) if isinstance(own.mask, tuple) else own.mask
            points = () if own.point is None else (own.point,)
            prompts.append(Prompt(frame.index, own.object, own.box, points, mask))
        return _combined(prompts, {frame.index: frame for frame in found.values()})


def settle(video: Video, prompts: Sequence[Prompt]) -> list[Prompt]:
    """The same prompts, one for each object and frame, boxes clipped; or what is wrong."""
    if not prompts:
        raise InputError("nothing says where the object is; give at least one Prompt")
    with named(video.path):
        for prompt in prompts:
            if not 1 <= prompt.object <= MOST_OBJECT:
                raise InputError(f"object {prompt.object}: objects are numbered 1 to {MOST_OBJECT}")
            if prompt.box is not None and np.shape(prompt.box) != (4,):
                raise InputError(f"box {prompt.box}: a box is (x0, y0, x1, y1)")
            if any(len(point) != 3 for point in prompt.points):
                raise InputError(f"points {prompt.points}: a point is (x, y, inside)")
        found = _look(video, {prompt.frame for prompt in prompts}, lambda frame: frame.index)
        return _combined(prompts, {frame.index: frame for frame in found.values()})


def distinct(prompts: Sequence[Prompt], lineages: Lineages) -> tuple[list[Prompt], Lineages]:
    """Without pieces that their lineage has already, as when an add is repeated; the numbers of
    those after them close up."""
    again: list[int] = []
    for pieces in lineages.values():
        known: list[object] = []
        for one in pieces:
            said = said_of(prompts, one)
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


def said_of(prompts: Iterable[Prompt], one: int) -> list[tuple[object, ...]]:
    """All that the prompts of an object say, to compare or to write as JSON."""
    own = sorted((own for own in prompts if own.object == one), key=lambda prompt: prompt.frame)
    return [
        (
            prompt.frame, prompt.box, prompt.points,
            None if prompt.mask is None else hashlib.sha256(prompt.mask.tobytes()).hexdigest(),
        )
        for prompt in own
    ]  # fmt: skip


def _look(
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
    raise InputError(f"frame {past} lies past the end; the last frame is {before}")


def _not_taken(wanted: int, before: int | None, after: int) -> InputError:
    if before is None:
        return InputError(f"frame {wanted} is not looked at; the first one that is, is {after}")
    return InputError(
        f"frame {wanted} is not looked at (sampled out, or it cannot be decoded); its neighbours "
        f"are {before} and {after}: give one of them"
    )


def _size(frame: Frame) -> tuple[int, int]:
    return frame.image.shape[0], frame.image.shape[1]


def _read_mask(path: Path, number: int | None, size: tuple[int, int]) -> Mask:
    """The object in a picture, at the size of the frame."""
    with named(str(path)):
        labels = read_picture(path, binary=path.suffix.lower() in LOSSY)
        there = [int(value) for value in np.unique(labels) if value > 0]
        objects = [value for value in there if value != VOID] or there
        if number is not None and number not in there:
            held = ", ".join(map(str, objects[:9])) or "none"
            raise InputError(f"no object {number}; the numbers in this picture: {held}")
        if number is None and 1 < len(objects) <= MOST_LABELS:
            held = ", ".join(map(str, objects[:9]))
            raise InputError(
                f"holds the objects {held}; say which one, as in {path.name}#{objects[0]}"
            )
        if number is not None or len(objects) == 1:
            mask = labels == (objects[0] if number is None else number)
        else:
            mask = labels > VOID // 2  # a soft edge, not objects
        (height, width), (own_height, own_width) = size, mask.shape
        if abs(own_width * height - own_height * width) > max(height, width) * 2:
            raise InputError(
                f"is {own_width} × {own_height}, the frame {width} × {height}: another shape; "
                "give a mask of the whole frame"
            )
        mask = resize_nearest(mask, size)
        if not mask.any():
            raise InputError("is empty; a mask shows where the object is")
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
            one = _united(own, _size(frame))
            inside = one.box or one.mask is not None or any(inside for *_, inside in one.points)
            if object not in known and not inside:
                raise InputError(
                    "only clicks outside of it are given; show where it is, with a box or a point"
                )
        known.add(object)
        made.append(one)
    return made


def _united(prompts: Sequence[Prompt], size: tuple[int, int]) -> Prompt:
    """All that is said of one object in one frame; a mask says all, what agrees with it is left
    out."""
    first = prompts[0]
    boxes = {_clipped(own.box, size): own.box for own in prompts if own.box is not None}
    if len(boxes) > 1:
        one, other, *_ = (_written(box) for box in boxes.values())
        raise InputError(f"the boxes {one} and {other} contradict each other; keep one")
    box = next(iter(boxes), None)
    given = ((float(x), float(y), bool(on)) for own in prompts for x, y, on in own.points)
    points = tuple(dict.fromkeys(given))
    _check_points(points, box, size)
    masks = [own.mask for own in prompts if own.mask is not None]
    for mask in masks:
        if mask.shape != size or mask.dtype != bool or not mask.any():
            raise InputError(
                f"the mask is {mask.dtype} of shape {mask.shape}; give bool of the frame's "
                f"(height, width) {size}, not empty"
            )
        if (mask != masks[0]).any():
            raise InputError("two masks are given, which differ; keep one")
        _check_mask(mask, box, points)
    if masks:
        return Prompt(first.frame, first.object, mask=masks[0])
    if box is None and not points:
        raise InputError("the prompt says nothing; give a box, points or a mask")
    return Prompt(first.frame, first.object, box, points)


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    (height, width), (x0, y0, x1, y1) = size, box
    if not all(map(math.isfinite, box)):
        raise InputError(f"the box {_written(box)} has sides that are no numbers")
    if x1 < x0 or y1 < y0:
        raise InputError(
            f"the box {_written(box)} ends before it begins; give the upper left corner first"
        )
    if x1 == x0 or y1 == y0:
        raise InputError(f"the box {_written(box)} has no area; x0,y0,x1,y1 are two corners")
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
            raise InputError(f"the point {x:g},{y:g} is given as inside and as outside; keep one")
        if inside and box and not (box[0] <= x <= box[2] and box[1] <= y <= box[3]):
            raise InputError(
                f"the point {x:g},{y:g} lies outside the box {_written(box)}; move one of them"
            )


def _check_mask(mask: Mask, box: Box | None, points: Iterable[tuple[float, float, bool]]) -> None:
    if box is not None:
        x0, y0, x1, y1 = box
        part = mask[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)]
        if not part.any():
            raise InputError(f"the box {_written(box)} and the mask do not meet; keep one")
    for x, y, inside in points:
        if mask[int(y), int(x)] != inside:
            where = "outside" if inside else "inside"
            raise InputError(f"the point {x:g},{y:g} lies {where} the mask; keep one")


def _written(box: Box) -> str:
    return ",".join(f"{side:g}" for side in box)
