"""Which mask belongs to a frame: by file stem, by source ordinal, or by position in the sample.

Nothing is guessed: where two readings of the numbers give a frame different masks, both are
explained and the choice is left to the user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dejacue.errors import InputError, unknown

if TYPE_CHECKING:
    from dejacue.sources.video import Frame

MATCHES = ("auto", "stem", "source", "index")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Keys:
    """What the rows of a mask source say about their frames.

    names     the stem of each row's file, or None
    numbers   the frame number of each row, or None: then it stands in the name
    """

    names: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None


class Matching:
    """Finds the row of a frame.

    stem     the name of the row is the name of the frame
    source   the number of the row is the ordinal of the frame in its source, counted from 0
    index    the number of the row is the position of the frame in the sampled sequence; file names
             may start anywhere and count in steps: the first belongs to the first frame
    auto     stem where names of that form are given; else source and index, which must agree
    """

    def __init__(self, keys: Keys, match: str, where: str) -> None:
        if match not in MATCHES:
            raise unknown("match", match, MATCHES)
        self.keys, self.match, self.where = keys, match, where
        names = keys.names or ()
        self._stems = {name: row for row, name in enumerate(names)}
        if len(self._stems) < len(names):
            twice = next(name for row, name in enumerate(names) if self._stems[name] != row)
            raise InputError(f'{where}: two masks are called "{twice}"; keep one')
        self._forms = {_form(name) for name in names}
        if match == "stem" and not names:
            raise InputError(
                f'{where}: these masks have no names; choose match="source" or match="index"'
            )
        self._sources: dict[int, int] | None = None
        self._positions: dict[int, int] | None = None

    def row(self, frame: Frame) -> int | None:
        """The row of this frame, or None if it has no mask."""
        if self.match == "stem" and frame.name is None:
            raise InputError(
                f"{self.where}: the frames of a video file have no names to be matched; "
                'choose match="source" or match="index"'
            )
        if frame.name is not None and self.match in ("stem", "auto"):
            if self.match == "stem" or _form(frame.name) in self._forms:
                return self._stems.get(frame.name)
            self._need_numbers(frame.name)
        if self.match == "source":
            return self.sources.get(frame.source)
        if self.match == "index":
            return self.positions.get(frame.index)
        source, index = self.sources.get(frame.source), self.positions.get(frame.index)
        if source != index:
            raise self._ambiguous(frame, source, index)
        return source

    def label(self, row: int | None) -> str:
        """What a row is called in a sentence."""
        if row is None:
            return "no mask"
        if self.keys.names:
            return f'mask "{self.keys.names[row]}"'
        assert self.keys.numbers is not None
        return f"mask {self.keys.numbers[row]}"

    @property
    def sources(self) -> dict[int, int]:
        """Row by the number it carries."""
        if self._sources is None:
            self._sources = self._by_number()
        return self._sources

    @property
    def positions(self) -> dict[int, int]:
        """Row by position; numbers in names are counted from the first and in their own steps, so
        that a missing file leaves a gap instead of moving all that follow."""
        if self._positions is None:
            if self.keys.numbers is not None:
                self._positions = self.sources
            elif not any(map(_DIGITS.search, self.keys.names or ())):
                self._positions = {row: row for row in range(len(self.keys.names or ()))}
            else:
                first = min(self.sources)
                step = math.gcd(*(number - first for number in self.sources)) or 1
                self._positions = {(n - first) // step: row for n, row in self.sources.items()}
        return self._positions

    def _by_number(self) -> dict[int, int]:
        numbers: Sequence[int] | None = self.keys.numbers
        if numbers is None:
            numbers = _numbers(self.keys.names or (), self.where)
        found = {number: row for row, number in enumerate(numbers)}
        if len(found) < len(numbers):
            one = next(row for row, number in enumerate(numbers) if found[number] != row)
            both = f"{self.label(one)} and {self.label(found[numbers[one]])}"
            raise InputError(f"{self.where}: {both} have the same number; keep one for each frame")
        return found

    def _need_numbers(self, name: str) -> None:
        if self.keys.names and not any(map(_DIGITS.search, self.keys.names)):
            raise InputError(
                f"{self.where}: the masks are called {_examples(self.keys.names)}, the frames "
                f'"{name}" and so on; name them alike, or choose match="index" to take them in '
                "their order"
            )

    def _ambiguous(self, frame: Frame, source: int | None, index: int | None) -> InputError:
        return InputError(
            f"{self.where}: the numbers of the masks can be read in two ways: as frames of the "
            f"source, where sampled frame {frame.index} (source frame {frame.source}) has "
            f"{self.label(source)}, or as positions in the sampled sequence, where it has "
            f'{self.label(index)}; choose match="source" or match="index"'
        )

    def other_frames(self, seen: Sequence[str]) -> InputError:
        """The error for masks of which none belongs to any frame, with examples of both."""
        numbers = self.keys.numbers
        masks = _examples(self.keys.names or [f"{number}" for number in numbers or ()])
        return InputError(
            f"{self.where}: no mask belongs to any of these frames: the masks are called {masks}, "
            f"the frames {_examples(seen)}; give the masks of this video, or another match than "
            f'"{self.match}"'
        )


def _form(name: str) -> str:
    """A name without its numbers: frames and masks that are named alike share it."""
    return _DIGITS.sub("0", name)


def _examples(names: Sequence[str]) -> str:
    more = ", …" if len(names) > 2 else ""
    return ", ".join(f'"{name}"' for name in names[:2]) + more


def _numbers(names: Sequence[str], where: str) -> list[int]:
    """The number in each name: of several, the one in which the names differ."""
    groups = [_DIGITS.findall(name) for name in names]
    for name, found in zip(names, groups, strict=True):
        if not found:
            raise InputError(
                f'{where}: mask "{name}" has no number in its name that could be a frame; '
                'rename it, or choose match="stem" for frames of the same names'
            )
        if len(found) != len(groups[0]):
            raise InputError(
                f'{where}: the masks "{names[0]}" and "{name}" are named differently, so their '
                "frame numbers are not clear; name all alike"
            )
    columns = list(zip(*groups, strict=True))
    differ = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    if len(differ) > 1:
        raise InputError(
            f"{where}: {_examples(names)} differ in {len(differ)} numbers, so the frame number is "
            "not clear; leave one mask file for each frame, with all its objects"
        )
    return [int(number) for number in differ[0]]
