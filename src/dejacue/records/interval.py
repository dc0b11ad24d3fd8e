"""Window and Interval: frames, and frames in which an object is in a state."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from dejacue.errors import InputError


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """An inclusive interval of frames, ``start <= end``; ordered by start, then by end."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if type(self.start) is int and type(self.end) is int and self.start <= self.end:
            return
        for name in ("start", "end"):
            value = getattr(self, name)
            if type(value) is not int:
                try:
                    object.__setattr__(self, name, int(operator.index(value)))
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


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Figures that say why a window was chosen and how far to trust it."""

    residual_norm: float  # length of description − origin before normalisation
    fallback: bool  # the residual vanished and the plain description was used
    centre: float  # median of the cosines; timeline, contrast: mean of the smoothed ones
    scale: float  # robust scale they were divided by; timeline, contrast: deviation
    floor_active: bool  # the scale is its floor (1e-3; 1e-4): the response hardly varies
    run: Window  # the observed run the window lies in (bridged: all that it may cross)
    touches_run_edge: bool  # the state may go on where the object is not observed


@dataclass(frozen=True, slots=True)
class Interval:
    """Frames in which an object is in a state: one occurrence of the state.

    start, end       first and last frame, both inclusive, as the history counts them
    start_s, end_s   seconds by the timestamps of the video, half-open: end_s is the instant at
                     which the last frame ends; None where the history has no times
    score            how well the frames fit; comparable within one timeline
    confidence       how far to trust it, 0 … 1: it ranks intervals and is no probability; None
                     where the readout does not tell
    confirmed        whether a person has named a frame of it as one of this state
    description      the one sentence that it answers, for readouts that answer each sentence
    source_start, source_end   frames of the file, where the history counts others (it samples);
                     with the seconds, they may lie between two that the history has
    """

    state: str
    start: int
    end: int
    score: float = 0.0
    start_s: float | None = None
    end_s: float | None = None
    confidence: float | None = None
    confirmed: bool = False
    description: str | None = None
    source_start: int | None = None
    source_end: int | None = None
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        Window(self.start, self.end)  # refuses frames that are none

    @property
    def trust(self) -> str | None:
        """Return in words how far to trust it: the thirds of what was measured on VOST.

        >>> from dejacue import Interval
        >>> Interval("full", 3, 9, confidence=0.6).trust
        'more likely right'
        """
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
        """Return plain values for JSON; fields that are not known are left out."""
        row: dict[str, Any] = {"state": self.state}
        if self.description is not None:
            row["description"] = self.description
        row |= {"start": self.start, "end": self.end}
        for name in ("start_s", "end_s", "source_start", "source_end"):
            if (value := getattr(self, name)) is not None:
                row[name] = value
        row["score"] = self.score
        if self.confidence is not None:
            row["confidence"] = self.confidence
        if self.confirmed:
            row["confirmed"] = True
        if self.diagnostics is not None:
            row["diagnostics"] = asdict(self.diagnostics)
        return row
