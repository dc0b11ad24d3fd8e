"""From evidence to windows: the published scan, and the window lengths that it tries (§4): the
published schedules, and geometric grids for any length.

Positions count observed frames.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dejacue.errors import InputError, counted, unknown
from dejacue.method import scan as s
from dejacue.method.readout import PUBLISHED_WIDTH, Readout, View, Windows
from dejacue.records import History, Note
from dejacue.records.arrays import Floats, Ints, frozen

RUNS = ("strict", "bridged")
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


@dataclass(frozen=True)
class ScheduledReadout(Readout):
    """A readout that tries windows of given durations: a schedule's name, a Grid, or lengths."""

    durations: Durations = "published"

    def __post_init__(self) -> None:
        resolved = as_durations(self.durations)
        if not isinstance(self.durations, str):  # a name stays a name, in the settings too
            object.__setattr__(self, "durations", resolved)

    def longest(self, history: History) -> int:
        """Return frames of the longest stretch that a window may fill."""
        return history.longest_run

    def lengths(self, history: History) -> tuple[int, ...]:
        """Return the lengths that fit."""
        longest = self.longest(history)
        lengths = fitting(as_durations(self.durations), longest)
        if not lengths:
            raise InputError(
                f"history {history.id}: no duration fits; the longest observed stretch has "
                f"{counted(longest, 'frame')}; add shorter durations"
            )
        return lengths

    def notes(self, history: History) -> tuple[Note, ...]:
        if not isinstance(self.durations, str):
            return ()  # lengths that the user chose need no remark
        resolved, longest = SCHEDULES[self.durations], self.longest(history)
        if isinstance(resolved, Grid) or longest <= resolved[-1]:
            return ()
        return (
            Note(
                f"the longest run has {longest} frames, but no window is longer than "
                f'{resolved[-1]}; durations "generated" try windows up to its whole length',
                "doubtful",
            ),
        )


def check_width(width: int) -> int:
    """Return the width of smoothing as a plain number; refuse one that is not odd."""
    if not isinstance(width, int | np.integer) or not 1 <= width < 2**31 or width % 2 == 0:
        raise InputError(f"smoothing width {width} must be an odd number of frames: 1, 3, 5, …")
    return int(width)


@lru_cache(maxsize=4096)
def schedule_of(lengths: tuple[int, ...], norm: str) -> tuple[Ints, Floats]:
    """Return the lengths and their norms as the engines take them."""
    flat = np.array(lengths, dtype=np.int64)
    return frozen(flat), frozen(np.ascontiguousarray(s.NORMS[norm](flat)))


@dataclass(frozen=True)
class Scan(ScheduledReadout):
    """The published readout chooses the window with the highest sum of responses over norm(length).

    >>> from dejacue import History, Vocabulary, locate
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> words = Vocabulary({"empty": "an empty cup", "full": "a full cup"}, np.eye(2))
    >>> locate(cup, words, readout=Scan(durations=(2, 4)))["full"][0].window
    Window(start=7, end=10)

    norm        "sqrt" (published), "sum" or "mean"
    runs        "strict": a window lies inside one observed run; "bridged": it may cross missing
                frames, which count in its length but not in its sum or its norm
    smoothing   odd width in frames, inside observed runs
    """

    norm: str = "sqrt"
    runs: str = "strict"
    smoothing: int = PUBLISHED_WIDTH
    name: ClassVar[str] = "scan"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm not in s.NORMS:
            raise unknown("norm", self.norm, s.NORMS)
        if self.runs not in RUNS:
            raise unknown("runs", self.runs, RUNS)
        object.__setattr__(self, "smoothing", check_width(self.smoothing))

    def longest(self, history: History) -> int:
        return history.span if self.runs == "bridged" else history.longest_run

    def find(self, view: View) -> Windows:
        if self.runs == "strict":
            self.find_each([view])
            return view.windows
        starts, ends, scores = self.candidates(view)
        if not len(starts):
            problem = f"history {view.history.id}: no duration has both ends on observed frames"
            raise InputError(f"{problem}; add shorter durations")
        best = s.select(starts, ends, scores)
        score = scores[np.arange(len(best)), best]
        return Windows(starts[best], ends[best], score)

    def find_each(self, views: Sequence[View]) -> None:
        if self.runs == "strict":
            jobs = [
                (v.history, v.queries, v.centre, schedule_of(self.lengths(v.history), self.norm))
                for v in views
            ]
            found = views[0].engine.locate(jobs, self.smoothing)
            for view, (cosines, windows) in zip(views, found, strict=True):
                view.cosines, view.windows = cosines, Windows(*windows)

    def bounds(self, history: History) -> Ints:
        whole = np.array([0, len(history)])
        return whole if self.runs == "bridged" else history.run_offsets

    def candidates(self, view: View) -> tuple[Ints, Ints, Floats]:
        """Return all windows (start, end positions; length by length) and their scores (Q, C)."""
        history, responses = view.history, view.evidence.responses
        lengths = self.lengths(history)
        if self.runs == "bridged":
            starts, ends = s.bridged_windows(history.frames, lengths)
        else:
            starts, ends = s.candidate_windows(history.run_offsets, lengths)
        bounds = self.bounds(history)
        return starts, ends, s.score_windows(responses, bounds, starts, ends, self.norm)
