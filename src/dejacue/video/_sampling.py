"""Which pictures of a source are taken: a range, then every n-th or those nearest to a clock.

Every back end (_containers.py, images.py) yields its pictures in display order; those that are not
taken are never converted or opened.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, brief

if TYPE_CHECKING:
    from dejacue.video._rgb import LazyFrame

_TIE_S = 1e-9  # a grid point in the middle between two frames goes to the earlier one
_MAX_FPS = 1e9
MAX_TIME_S = float(1 << 53)  # as times in a history


class Unreadable(Exception):
    """A picture is there but cannot be decoded; the text says why."""


class Picture(NamedTuple):
    """One picture of a source, not yet converted: ``load`` gives RGB or raises Unreadable, ``lazy``
    what gives RGB later (None: this picture cannot)."""

    time_s: float | None
    name: str | None
    load: Callable[[], NDArray[np.uint8]]
    lazy: Callable[[], LazyFrame | None] | None = None


# takes some of all pictures in order: yields index, ordinal in the source, and the picture
Choose = Callable[[Iterable[Picture]], Iterator[tuple[int, int, Picture]]]


class Source(Protocol):
    """A back end that gives a header, and its pictures in a fresh pass each time."""

    name: str
    identity: list[tuple[str, int, int]]  # name, bytes, mtime_ns of every file

    def expected(self, sampling: FrameChoice) -> int | None: ...

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]: ...


@dataclass(frozen=True)
class FrameChoice:
    """Settings that say which frames of a source are used.

    ``start`` and ``end`` are inclusive ordinals of the source, ``start_s`` and ``end_s`` inclusive
    seconds: frames and seconds have separate names, so that 15 and 15.0 mean the same.

    ``stride`` takes every n-th frame from the first of the range on. ``fps`` takes the frames
    nearest to a clock that starts with that first frame, never one twice: where the source is
    slower, every frame once.

    >>> times = [Picture(k / 10, None, lambda: None) for k in range(12)]
    >>> [number for number, _ in FrameChoice(fps=4).select(times)]
    [0, 2, 5, 7, 10]
    """

    start: int | None = None
    end: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    stride: int = 1
    fps: float | None = None

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is not None and _whole(name, value) < 0:
                raise _refusal(name, value, "is negative; frames count from 0")
            if None not in (value, getattr(self, f"{name}_s")):
                raise InputError(f"both {name} and {name}_s are given; keep one")
        for name in ("start_s", "end_s"):
            value = getattr(self, name)
            if value is not None and not is_between(value, 0, MAX_TIME_S):
                raise _refusal(name, value, "is not a time; give seconds, 0 or more")
        for low, high in ((self.start, self.end), (self.start_s, self.end_s)):
            if low is not None and high is not None and low > high:
                raise _refusal("start", low, f"is after end {high}; swap them")
        if _whole("stride", self.stride) < 1:
            raise _refusal("stride", self.stride, "is less than 1; give 1 to take every frame")
        if self.fps is not None and not (is_between(self.fps, 0, sys.float_info.max) and self.fps):
            raise _refusal("fps", self.fps, "is invalid; give frames per second above 0")
        if self.fps is not None and self.stride != 1:
            raise InputError("both stride and fps are given; keep one")

    @property
    def needs_times(self) -> bool:
        return (self.start_s, self.end_s, self.fps) != (None, None, None)

    def select(self, pictures: Iterable[Picture]) -> Iterator[tuple[int, Picture]]:
        """Yield the ordinal and the picture of each frame taken; read no further than needed."""
        chosen = self._range(pictures)
        if self.fps is not None:
            return _nearest(chosen, min(self.fps, _MAX_FPS))
        return itertools.islice(chosen, 0, None, self.stride)

    def expected(self, count: int, rate: float | None) -> int | None:
        """Return how many of ``count`` frames will be taken: by times, an estimate."""
        if self.needs_times and not rate:
            return None
        first, last = self.start or 0, count - 1 if self.end is None else min(self.end, count - 1)
        if self.start_s is not None and rate:
            first = math.ceil(self.start_s * rate)
        if self.end_s is not None and rate:
            last = min(last, math.floor(self.end_s * rate))
        taken = max(0, last - first + 1)
        if self.fps is not None and rate:
            taken = math.ceil(taken * min(1.0, self.fps / rate))
        return -(-taken // self.stride)

    def _range(self, pictures: Iterable[Picture]) -> Iterator[tuple[int, Picture]]:
        for source, picture in enumerate(pictures):
            if self.needs_times and picture.time_s is None:
                problem = f"frame {source} has no timestamp"
                raise InputError(f"{problem}; sample by start, end and stride")
            time_s = picture.time_s or 0.0
            if self.end_s is not None and time_s > self.end_s:
                return
            if source >= (self.start or 0) and time_s >= (self.start_s or 0.0):
                yield source, picture
            if self.end is not None and source >= self.end:
                return


def _nearest(chosen: Iterator[tuple[int, Picture]], fps: float) -> Iterator[tuple[int, Picture]]:
    """Yield the nearest frame of each grid point, once, when the time of the next is known."""
    pending: tuple[int, Picture] | None = None
    origin = before = time_s = 0.0
    tick = 0  # the next grid point, origin + tick / fps
    for item in chosen:
        now = item[1].time_s or 0.0
        if pending is None:
            origin = before = now
        else:
            middle = (time_s + now) / 2 + _TIE_S
            if origin + tick / fps <= middle:
                yield pending
                tick = max(tick, math.floor((middle - origin) * fps) + 1)
            before = time_s
        pending, time_s = item, now
    # the last frame is taken to be shown as long as the one before it
    last_end = time_s + (time_s - before) / 2
    if pending is not None and (tick == 0 or origin + tick / fps < last_end):
        yield pending


def _refusal(name: str, value: object, problem: str) -> InputError:
    return InputError(f"{name} {brief(value)} {problem}")


def is_between(value: object, low: float, high: float) -> bool:
    """Return whether a value is a number, and neither outside nor NaN."""
    try:
        number = value.item() if isinstance(value, np.generic) else value  # bounds overflow float32
        return bool(low <= number <= high)  # type: ignore[operator]
    except TypeError:
        return False


def _whole(name: str, value: object) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        remedy = "" if name == "stride" else f'; for seconds, use {name}_s or, in find, "{value}s"'
        problem = f"{name} {value!r:.40} is not a whole number of frames"
        raise InputError(problem + remedy) from None
    if abs(number) > MAX_TIME_S:
        raise InputError(f"{name} is above 2^53; no video has that many frames")
    return number
