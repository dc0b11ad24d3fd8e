"""Window lengths to try: the published schedules, and geometric grids for any length (§4)."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dejacue.errors import InputError, unknown

# Chosen by the authors on development runs; fixed for every published table.
# fmt: off
PUBLISHED = (
    1, 2, 3, 4, 6, 9, 10, 11, 14, 18, 20, 21, 25, 26, 27, 28, 30, 32, 34, 37, 46, 48, 49, 52, 59,
    72, 108, 110, 162, 168, 243, 364, 483,
)
PUBLISHED_RATIO_1_25 = (
    1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 15, 18, 19, 20, 21, 24, 25, 26, 27, 28, 30, 34, 37, 38, 46,
    48, 49, 52, 59, 60, 75, 94, 110, 118, 148, 168, 185, 231, 289, 361, 451, 483,
)
PUBLISHED_RATIO_2 = (
    1, 2, 4, 8, 10, 11, 16, 18, 20, 21, 25, 26, 27, 28, 30, 32, 34, 37, 46, 49, 52, 59, 64, 110,
    128, 168, 256, 483,
)
# fmt: on


@dataclass(frozen=True)
class Grid:
    """A geometric grid: base, then ⌊ratio·ℓ⌉ (half to even, exact), at least one frame more each
    time, up to the length of what is searched or the cap, which is itself a length.

    >>> Grid(base=4, ratio=1.5).lengths(20)
    (4, 6, 9, 14, 20)
    """

    base: int = 1
    ratio: float | str = 1.5
    cap: int | None = None

    def __post_init__(self) -> None:
        try:
            fine = operator.index(self.base) >= 1 and Fraction(str(self.ratio)) >= 1
            fine = fine and (self.cap is None or operator.index(self.cap) >= 1)
        except (TypeError, ValueError, ZeroDivisionError):
            fine = False
        if not fine:
            raise InputError(
                f"durations: base {self.base}, ratio {self.ratio}, cap {self.cap}; "
                "base and cap must be at least 1 frame, and the ratio at least 1"
            )

    def lengths(self, longest: int) -> tuple[int, ...]:
        """Return the grid for a run (bridged: a span) of ``longest`` frames."""
        stop = longest if self.cap is None else min(longest, self.cap)
        if self.base > stop:
            return ()
        ratio, lengths = Fraction(str(self.ratio)), [self.base]
        while lengths[-1] < stop:
            last = lengths[-1]
            lengths.append(min(stop, max(last + 1, round(ratio * last))))
        return tuple(lengths)


Durations = str | Grid | tuple[int, ...]

SCHEDULES: dict[str, tuple[int, ...] | Grid] = {
    "published": PUBLISHED,
    "published-1.25": PUBLISHED_RATIO_1_25,
    "published-2.0": PUBLISHED_RATIO_2,
    "generated": Grid(),
}


def as_durations(durations: Durations | Iterable[int]) -> tuple[int, ...] | Grid:
    """Return a schedule by name, a Grid, or ascending lengths without repeats."""
    if isinstance(durations, Grid):
        return durations
    if isinstance(durations, str):
        if durations not in SCHEDULES:
            raise unknown("durations", durations, SCHEDULES)
        return SCHEDULES[durations]
    try:
        lengths = tuple(sorted({operator.index(length) for length in durations}))
    except TypeError:
        raise InputError(f"durations: {durations!r} is not a list of whole numbers") from None
    if not lengths or lengths[0] < 1:
        raise InputError("durations: give at least one length, each at least one frame")
    return lengths


@lru_cache(maxsize=4096)
def fitting(durations: tuple[int, ...] | Grid, longest: int) -> tuple[int, ...]:
    """Return the lengths that fit into ``longest`` frames."""
    if isinstance(durations, Grid):
        return durations.lengths(longest)
    return durations[: bisect_right(durations, longest)]
