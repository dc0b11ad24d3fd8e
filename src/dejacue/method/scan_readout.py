"""From evidence to windows: the published scan (§4).

Positions count observed frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dejacue.errors import InputError, unknown
from dejacue.method import scan as s
from dejacue.method.readout import (
    PUBLISHED_WIDTH,
    ScheduledReadout,
    View,
    Windows,
    check_width,
)
from dejacue.records import History
from dejacue.records.arrays import Floats, Ints, frozen

RUNS = ("strict", "bridged")


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
