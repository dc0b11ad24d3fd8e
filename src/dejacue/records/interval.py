"""Window and Interval: frames, and frames in which an object is in a state."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from dejacue.errors import InputError
from dejacue.records.fields import Finite, FrameNumber, Name, Share


class Window(msgspec.Struct, frozen=True, order=True, array_like=True):
    """An inclusive interval of frames, ``start <= end``; ordered by start, then by end. In JSON it
    is ``[start, end]``.

    >>> from dejacue.records import Window
    >>> start, end = Window(10, 12)
    >>> Window(10, 12).length, 12 in Window(10, 12), Window(10, 19) & Window(15, 30)
    (3, True, Window(start=15, end=19))
    """

    start: FrameNumber
    end: FrameNumber

    def __post_init__(self) -> None:
        if type(self.start) is int and type(self.end) is int and self.start <= self.end:
            return
        for name in ("start", "end"):
            value = getattr(self, name)
            if type(value) is not int:
                try:
                    force_setattr(self, name, int(operator.index(value)))
                except TypeError:
                    raise InputError(f"window {name} {value!r} is not a whole number") from None
        if self.start > self.end:
            raise InputError(f"window {self} ends before it starts")

    @property
    def length(self) -> int:
        return self.end - self.start + 1

    def __iter__(self) -> Iterator[int]:
        """Give both ends: ``start, end = window``."""
        return iter((self.start, self.end))

    def __contains__(self, frame: int) -> bool:
        return self.start <= frame <= self.end

    def __and__(self, other: Window) -> Window | None:
        """Return the frames in both, or None."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Window(start, end) if start <= end else None

    def __or__(self, other: Window) -> Window:
        """Return the hull: the shortest window that holds both."""
        return Window(min(self.start, other.start), max(self.end, other.end))

    def iou(self, other: Window) -> float:
        """Return frames in both over frames in either; 0 when they do not touch."""
        common = min(self.end, other.end) - max(self.start, other.start) + 1
        return max(common, 0) / (self.length + other.length - max(common, 0))

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}]"


TRUST = ("a guess", "unsure", "more likely right")
TRUST_LEVELS = (0.34, 0.48)  # thirds of the occurrences of half A, by reproduce beyond-trust


class Diagnostics(msgspec.Struct, frozen=True):
    """Figures that say why a window was chosen and how far to trust it.

    residual_norm      length of description − origin before normalisation
    fallback           whether that vanished and the plain description was used
    centre             median of the cosines; timeline, contrast: mean of the smoothed ones
    scale              robust scale they were divided by; timeline, contrast: deviation
    floor_active       whether the scale is its floor (1e-3; 1e-4): the response hardly varies
    run                the observed run the window lies in (bridged: all that it may cross)
    touches_run_edge   whether the state may go on where the object is not observed

    >>> from dejacue import History, Vocabulary, locate
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, [[1, 0], [0, 1]])
    >>> locate(cup, words, readout="published", diagnostics=True)[0].diagnostics.run
    Window(start=0, end=11)
    """

    residual_norm: float
    fallback: bool
    centre: float
    scale: float
    floor_active: bool
    run: Window
    touches_run_edge: bool


class Interval(msgspec.Struct, frozen=True, omit_defaults=True):
    """Frames in which an object is in a state: one occurrence of the state.

    state            one of the states of the timeline
    start, end       first and last frame, both inclusive, as the history counts them
    score            how well the frames fit; comparable within one timeline
    start_s, end_s   seconds by the timestamps of the video, half-open: end_s is the instant at
                     which the last frame ends; not known where the history has no times
    confidence       how far to trust it: it ranks intervals and is no probability
    confirmed        whether a person has named a frame of it
    description      the one sentence that it answers, for readouts that answer each (published,
                     scan)
    source_start, source_end   frames of the file, where the history was sampled and counts others;
                     with the seconds, they may lie between two that it has
    diagnostics      why it was chosen, on request

    >>> from dejacue import Interval
    >>> full = Interval("full", 3, 9, start_s=0.3, end_s=1.0, confidence=0.6)
    >>> full.window, full.times_s, full.trust
    (Window(start=3, end=9), (0.3, 1.0), 'more likely right')
    """

    state: Name
    start: FrameNumber
    end: FrameNumber
    score: Finite = 0.0
    start_s: Finite | None = None
    end_s: Finite | None = None
    confidence: Share | None = None
    confirmed: bool = False
    description: Name | None = None
    source_start: FrameNumber | None = None
    source_end: FrameNumber | None = None
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        if type(self.start) is not int or type(self.end) is not int or self.start > self.end:
            window = Window(self.start, self.end)  # refuses frames that are none
            force_setattr(self, "start", window.start)
            force_setattr(self, "end", window.end)
        if self.source_start is not None and self.source_end is not None:
            if self.source_start > self.source_end:
                Window(self.source_start, self.source_end)
        elif self.source_start is not self.source_end:
            raise InputError("has only one of source_start and source_end; give both or neither")
        if self.end_s is not None:
            if self.start_s is None:
                raise InputError("has end_s but no start_s; give both or neither")
            if self.end_s < self.start_s:
                problem = f"ends at {self.end_s:g} s, before its start at {self.start_s:g} s"
                raise InputError(problem)

    @property
    def trust(self) -> str | None:
        """Return in words how far to trust it: the thirds of what was measured on VOST."""
        if self.confirmed:
            return "confirmed"
        if self.confidence is None:
            return None
        return TRUST[bisect_right(TRUST_LEVELS, self.confidence)]

    @property
    def window(self) -> Window:
        return Window(self.start, self.end)

    @property
    def source(self) -> Window:
        """Return its window in frames of the file."""
        if self.source_start is None or self.source_end is None:
            return self.window
        return Window(self.source_start, self.source_end)

    @property
    def times_s(self) -> tuple[float, float] | None:
        """Return ``(start_s, end_s)``, or None where one of them is not known."""
        if self.start_s is None or self.end_s is None:
            return None
        return self.start_s, self.end_s

    def __contains__(self, frame: int) -> bool:
        return self.start <= frame <= self.end

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in JSON; fields that are not known are left out."""
        row: dict[str, Any] = msgspec.to_builtins(self)
        return row
