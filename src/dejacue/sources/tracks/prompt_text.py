"""Where the object is, as people write it on the command line → RawPrompt.

People count the frames of the file, as a player or the names of pictures show them; prompts.py
finds their positions in the sampled sequence.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from dejacue.errors import InputError
from dejacue.sources.documents import named
from dejacue.sources.masks.labels import VOID
from dejacue.sources.tracks.base import Box

MOST_OBJECT = VOID - 1  # what an indexed picture holds
Lineages = Mapping[int, tuple[int, ...]]  # the first id of an object and all its pieces
_FRAMED = re.compile(r"[\d.,\s]+@.*", re.DOTALL)  # numbers, and a frame that is none
_TEXT = re.compile(r"\s*(?:(\d{1,9}):)?(.*?)(?:@(\d{1,15}))?\s*", re.DOTALL)
_ID = re.compile(r"(.+)#(\d{1,9})", re.DOTALL)


class RawPrompt(
    msgspec.Struct, frozen=True, eq=False, omit_defaults=True, forbid_unknown_fields=True
):
    """One prompt as it was written.

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
    """Where the object is, as it is typed on the command line.

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
        """Those that show an object, not a piece to add to one."""
        return (*self.boxes, *self.points, *self.not_points, *self.masks)


def read_prompts(
    typed: TypedPrompts, before: tuple[Iterable[RawPrompt], Lineages] = ((), {})
) -> tuple[list[RawPrompt], Lineages]:
    """The prompts, and the lineages: an add is a piece of an object, with a new id. Where only adds
    are given, they are added to what was given ``before``."""
    at = typed.at
    if at is not None and at < 0:
        raise InputError(f"--at {at} is negative; frames count from 0")
    given = [_read("--box", text, at, _box) for text in typed.boxes]
    given += [_read("--point", text, at, _inside) for text in typed.points]
    given += [_read("--not-point", text, at, _outside) for text in typed.not_points]
    given += [_read("--mask", text, at, _mask) for text in typed.masks]
    lineages: dict[int, tuple[int, ...]] = {
        one: (one,) for one in sorted({own.object for own in given})
    }
    if not given and typed.adds:
        given, lineages = list(before[0]), dict(before[1])
    return given, _add(given, lineages, typed.adds, at)


def _add(
    given: list[RawPrompt],
    lineages: dict[int, tuple[int, ...]],
    adds: Iterable[str],
    at: int | None,
) -> Lineages:
    known = ", ".join(map(str, lineages))
    ids = [one for pieces in lineages.values() for one in pieces]
    for number, text in enumerate(adds, start=max(ids, default=0) + 1):
        own = _read("--add", text, at, _any)
        with named(f"--add {text}"):
            if not lineages:
                raise InputError("there is no object yet; show it with --box, --point or --mask")
            if not _says_object(text) and len(lineages) > 1:
                example = f"{next(iter(lineages))}:{text}"
                raise InputError(f"name the object it is a piece of ({known}), as in {example}")
            root = own.object if _says_object(text) else next(iter(lineages))
            if root not in lineages:
                raise InputError(f"there is no object {root}; known: {known}")
            if number > MOST_OBJECT:
                raise InputError(f"objects and pieces have the numbers 1 to {MOST_OBJECT}")
        given.append(msgspec.structs.replace(own, object=number))
        lineages[root] = (*lineages[root], number)
    return lineages


def _says_object(text: str) -> bool:
    found = _TEXT.fullmatch(text)
    return found is not None and found[1] is not None


def _read(option: str, text: str, at: int | None, what: Callable[[str], RawPrompt]) -> RawPrompt:
    found = _TEXT.fullmatch(text)
    assert found is not None  # anything matches
    with named(f"{option} {text}"):
        number = int(found[1] or 1)
        if not 1 <= number <= MOST_OBJECT:
            raise InputError(f"objects have the numbers 1 to {MOST_OBJECT}")
        if _FRAMED.fullmatch(found[2]):
            raise InputError("@ must be followed by a frame of the file, counted from 0, as in @45")
        frame = at if found[3] is None else int(found[3])
        return msgspec.structs.replace(what(found[2]), object=number, frame=frame)


def _box(text: str) -> RawPrompt:
    x0, y0, x1, y1 = _numbers(text, 4, "a box is x0,y0,x1,y1, as in 120,80,300,260@0")
    return RawPrompt(1, None, box=(x0, y0, x1, y1))


def _inside(text: str) -> RawPrompt:
    x, y = _numbers(text, 2, "a point is x,y, as in 200,150@0")
    return RawPrompt(1, None, point=(x, y, True))


def _outside(text: str) -> RawPrompt:
    x, y = _numbers(text, 2, "a point is x,y, as in 200,150@0")
    return RawPrompt(1, None, point=(x, y, False))


def _mask(text: str) -> RawPrompt:
    found = _ID.fullmatch(text)
    path, number = (found[1], int(found[2])) if found else (text, None)
    if not path:
        raise InputError("names no picture, as in first.png@0")
    return RawPrompt(1, None, picture=(path, number))


def _any(text: str) -> RawPrompt:
    commas = text.count(",")
    if commas in (1, 3) and not os.path.exists(text):
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
