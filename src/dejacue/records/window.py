"""Window: an inclusive interval of frames and its small algebra."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass

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
                    problem = f"window {name} {value!r} is not a whole number"
                    raise InputError(problem, field=name, value=value) from None
        if self.start > self.end:
            raise InputError(f"window {self} ends before it starts", field="end", value=self.end)

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
