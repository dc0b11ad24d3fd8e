"""Which mask belongs to a frame: by file stem, by source ordinal, or by position in the sample.

Nothing is guessed: where two interpretations of the numbers give a frame different masks, the error
explains both and asks the user to choose.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dejacue.errors import InputError, shortened, unknown

if TYPE_CHECKING:
    from dejacue.sources.video import Frame

MATCHES = ("auto", "stem", "source", "one-based", "index")
CHOOSE = 'choose the match "source" or "index" (--set match=…)'
MOST_NAME = 255  # letters of a file's name; the numbers in it are read
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Keys:
    """What the rows of a mask source say about their frames.

    names     the stem of each row's file, or None
    numbers   the frame number of each row, or None: then it is in the name
    firm      whether ``numbers`` count from 0 for sure; numbers in names never do
    """

    names: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None
    firm: bool = True

    def __len__(self) -> int:
        return len(self.names or self.numbers or ())


class Matching:
    """Finds the row of a frame.

    stem       the name of the row is the name of the frame
    source     the number of the row is the ordinal of the frame in its source, counted from 0
    one-based  the same, counted from 1
    index      the number of the row is the position of the frame in the sampled sequence; file
               names may start anywhere and count in steps: the first belongs to the first frame
    auto       stem where names of that form are given; else source and index, which must agree.
               Masks numbered exactly 1 … n for frames 0, 1, … count from one; when a frame n comes
               as well, they may count from 0 and that is said.

    frames     how many frames are to be expected, if it is known: with n frames named from 0 on,
               masks named 1 … n count from one, too; and more masks than frames of a video file
               are numbered as the frames of the file
    """

    def __init__(self, keys: Keys, match: str, where: str, frames: int | None = None) -> None:
        if match not in MATCHES:
            raise unknown("match", match, MATCHES)
        self.keys, self.match, self.where, self.frames = keys, match, where, frames
        names = keys.names or ()
        if long := next((name for name in names if len(name) > MOST_NAME), None):
            raise InputError(
                f'{where}: a mask is named "{shortened(long)}"; names have at most {MOST_NAME} '
                "characters"
            )
        self.every = 1  # of the frames that are meant, one of so many is looked at
        self._stems = {name: row for row, name in enumerate(names)}
        if len(self._stems) < len(names):
            twice = next(name for row, name in enumerate(names) if self._stems[name] != row)
            raise InputError(f'{where}: two masks are named "{twice}"; keep one')
        self._forms = {_form(name) for name in names}
        if match == "stem" and not names:
            raise InputError(f"{where}: these masks have no names; {CHOOSE}")

    def row(self, frame: Frame) -> int | None:
        """The row of this frame, or None if it has no mask."""
        if self.match == "stem" and frame.name is None:
            raise InputError(
                f"{self.where}: frames of a video file have no names to match; {CHOOSE}"
            )
        if self.match == "stem":
            return self._stems.get(frame.name or "")
        if self.match == "source":
            return self.sources.get(frame.source)
        if self.match == "one-based":
            return self.sources.get(frame.source + 1)
        if self.match == "index":
            return self.positions.get(frame.index * self.every)
        if frame.name is not None:
            if _form(frame.name) in self._forms:
                return self._named(frame, frame.name)
            self._need_numbers(frame.name)
        return self._numbered(frame)

    def label(self, row: int | None) -> str:
        """What a row is called in a sentence."""
        if row is None:
            return "no mask"
        if self.keys.names:
            return f'mask "{self.keys.names[row]}"'
        assert self.keys.numbers is not None
        return f"mask {self.keys.numbers[row]}"

    @cached_property
    def sources(self) -> dict[int, int]:
        """Row by the number it carries."""
        numbers: Sequence[int] | None = self.keys.numbers
        if numbers is None:
            numbers = _numbers(self.keys.names or (), self.where)
        found = {number: row for row, number in enumerate(numbers)}
        if len(found) < len(numbers):
            one = next(row for row, number in enumerate(numbers) if found[number] != row)
            both = f"{self.label(one)} and {self.label(found[numbers[one]])}"
            raise InputError(f"{self.where}: {both} have the same number; keep one for each frame")
        return found

    @cached_property
    def positions(self) -> dict[int, int]:
        """Row by position; numbers in names are counted from the first and in their own steps, so
        that a missing file leaves a gap instead of moving all that follow."""
        if self.keys.numbers is not None and self.keys.firm:
            return self.sources
        if self.keys.numbers is None and not any(map(_DIGITS.search, self.keys.names or ())):
            return {row: row for row in range(len(self.keys))}
        first = min(self.sources)
        step = math.gcd(*(number - first for number in self.sources)) or 1
        return {(n - first) // step: row for n, row in self.sources.items()}

    @cached_property
    def counted_from_one(self) -> bool:
        """Whether the rows are numbered exactly 1 … n, so that n frames could be meant."""
        if self.keys.numbers is not None and self.keys.firm:
            return False
        with contextlib.suppress(InputError):
            return min(self.sources) == 1 and max(self.sources) == len(self.keys)
        return False

    def _named(self, frame: Frame, name: str) -> int | None:
        """Frames and masks are named alike; 7 is 007."""
        if (
            self.frames == len(self.keys)
            and self.counted_from_one
            and frame.source in map(int, _DIGITS.findall(name))  # so the frames count from 0
        ):
            return self._numbered(frame)
        return self._stems.get(name, self._alike.get(_alike(name)))

    @cached_property
    def _alike(self) -> dict[tuple[str | int, ...], int]:
        """Row by name, ignoring leading zeros; names that two masks share are left out."""
        found: dict[tuple[str | int, ...], int] = {}
        twice = set()
        for row, name in enumerate(self.keys.names or ()):
            if found.setdefault(_alike(name), row) != row:
                twice.add(_alike(name))
        return {key: row for key, row in found.items() if key not in twice}

    def _numbered(self, frame: Frame) -> int | None:
        at = frame.index * self.every
        source, index = self.sources.get(frame.source), self.positions.get(at)
        if self.counted_from_one and at == frame.source:
            if frame.source >= len(self.keys):
                raise self._too_few()
            return index
        if source == index:
            return source
        more = self.frames is not None and len(self.keys) > self.frames
        if more and frame.name is None and not self.counted_from_one:
            return source
        raise self._ambiguous(frame, source, index)

    def _need_numbers(self, name: str) -> None:
        if self.keys.names and not any(map(_DIGITS.search, self.keys.names)):
            raise InputError(
                f"{self.where}: the masks are named {_examples(self.keys.names)}, but the frames "
                f'"{name}" and so on; use the same names, or choose the match "index" '
                "(--set match=…) to take them in order"
            )

    def _too_few(self) -> InputError:
        count = len(self.keys)
        return InputError(
            f"{self.where}: the masks are numbered 1 to {count}, but there are more than {count} "
            'frames, so the numbers may start at 0 or at 1; choose the match "source" (from 0) '
            'or "index" (from 1) (--set match=…)'
        )

    def _ambiguous(self, frame: Frame, source: int | None, index: int | None) -> InputError:
        choose = CHOOSE
        at = frame.index * self.every
        if min(self.sources) == 1 and at != frame.source:
            choose = 'choose the match "source", "one-based" or "index" (--set match=…)'
        return InputError(
            f"{self.where}: the numbers of the masks are ambiguous: as frames of the source, "
            f"where sampled frame {at} (source frame {frame.source}) has {self.label(source)}, or "
            f"as positions in the sampled sequence, where it has {self.label(index)}; {choose}"
        )

    def other_frames(self, seen: Sequence[str]) -> InputError:
        """The error for masks of which none belongs to any frame, with examples of both."""
        numbers = self.keys.numbers
        masks = _examples(self.keys.names or [f"{number}" for number in numbers or ()])
        return InputError(
            f"{self.where}: no mask belongs to any of these frames: the masks are named {masks}, "
            f"the frames {_examples(seen)}; give the masks of this video, or a match other than "
            f'"{self.match}" (--set match=…)'
        )


def _form(name: str) -> str:
    """A name without its numbers: frames and masks that are named alike share it."""
    return _DIGITS.sub("0", name)


def _alike(name: str) -> tuple[str | int, ...]:
    return (_form(name), *map(int, _DIGITS.findall(name)))


def _examples(names: Sequence[str]) -> str:
    more = ", …" if len(names) > 2 else ""
    return ", ".join(f'"{name}"' for name in names[:2]) + more


def _numbers(names: Sequence[str], where: str) -> list[int]:
    """The number in each name: of several, the one in which the names differ."""
    groups = [_DIGITS.findall(name) for name in names]
    for name, found in zip(names, groups, strict=True):
        if not found:
            raise InputError(
                f'{where}: mask "{name}" has no number in its name that could be a frame; rename '
                'it, or choose the match "stem" (--set match=…) if frames have the same names'
            )
        if len(found) != len(groups[0]):
            raise InputError(
                f'{where}: the masks "{names[0]}" and "{name}" follow different naming patterns, '
                "so their frame numbers are ambiguous; name all masks the same way"
            )
    columns = list(zip(*groups, strict=True))
    differ = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    if len(differ) > 1:
        raise InputError(
            f"{where}: {_examples(names)} differ in {len(differ)} numbers, so the frame number is "
            "ambiguous; keep one mask file per frame, with all its objects"
        )
    return [int(number) for number in differ[0]]
