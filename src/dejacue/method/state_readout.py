"""StateReadout, the base of timeline and contrast: evidence of states.

It has what the published evidence lacks for everyday use: every description may lean towards its
state's mean direction, so that paraphrases agree; an object that is missing for a moment does not
end a window; and the width of smoothing is in seconds, so that it means the same at any rate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.filling import Filling
from dejacue.method.kernel import Responses
from dejacue.method.known_frames import (
    HALF,
    KnownFrames,
    Looks,
    Smoothing,
    known_frames_of,
    membership_by_time,
)
from dejacue.method.readout import Readout, View, Windows, cached_property
from dejacue.method.states import MIN_SCALE
from dejacue.records import Evidence, History, Note
from dejacue.records.arrays import Floats, Ints, frozen

FRAMES_WITHOUT_TIMES = 4.0  # 0.8 s at the 5 frames a second of VOST
SMOOTHING_S = 0.8
AUTO = "auto"
REACH = 4  # deviations of the Gaussian that are summed
FREQUENT = 0.63  # √(1 − 4 · 0.15), rounded down: a little more than 15 of 100 frames begin a gap
MAX_REACH_FRAMES = 1 << 24  # frames that a smoothing may reach across
WITHOUT_PIXELS = Note("the same windows come out without looking at pixels", "information")
NOISE = Note(
    "these frames change as noise does, and no look lasts; a state of which no frame is named is "
    "found by chance",
    "doubtful",
)


@dataclass(frozen=True, eq=False)
class Known:
    """Facts about a history: frames that were named, the membership f, the evidence of words.

    blind   whether only the places of the named frames count, not what they look like
    """

    facts: KnownFrames
    f: Floats  # (S, N)
    evidence: Floats | None  # (S, N); None without words
    blind: bool = False


@dataclass(frozen=True)
class StateReadout(Readout):
    """Base of readouts that use state evidence; the fields are its settings.

    pooling       0: every description speaks for itself (the paper); 1: all descriptions of a
                  state speak with one voice, so that paraphrases get the same window
    smoothing_s   deviation of the Gaussian over time, in seconds, where the history has times
    width         the same in frames, instead; without times and width it is 4 frames
    bridge        longest gap in frames that a window may cross, or "auto": see ``auto_bridge``
    """

    pooling: float = 1.0
    smoothing_s: float = SMOOTHING_S
    width: float | None = None
    bridge: int | str = AUTO
    smoothing_in: ClassVar[str] = "smoothing_s=0.8"
    takes_examples: ClassVar[bool] = True
    scale_floor: ClassVar[float] = MIN_SCALE

    def __post_init__(self) -> None:
        if not is_number(self.pooling, 0, 1):
            raise InputError(f"pooling {self.pooling!r} must be between 0 and 1")
        if not (is_number(self.smoothing_s) and is_number(self.width or 0.0)):
            raise InputError("the smoothing width must be 0 or more, in seconds or in frames")
        if self.bridge != AUTO and not is_count(self.bridge, 0):
            raise InputError(f'bridge {self.bridge!r} must be a number of frames or "auto"')
        plain = {  # JSON does not take numpy's numbers
            "pooling": float(self.pooling),
            "smoothing_s": float(self.smoothing_s),
            "width": None if self.width is None else float(self.width),
            "bridge": AUTO if isinstance(self.bridge, str) else int(self.bridge),
        }
        vars(self).update(plain)

    @property
    def query_pooling(self) -> float:
        return self.pooling

    def find(self, view: View) -> Windows:
        assert isinstance(view, StateView)
        return view.find_by_words() if view.known is None else view.find_known(view.known)

    def bounds(self, history: History) -> Ints:
        return stretches_of(history, None if isinstance(self.bridge, str) else self.bridge)

    def smoothing_of(self, history: History) -> Smoothing:
        """Return where stretches begin, and the weights of smoothing."""
        cuts = self.bounds(history)
        if len(history.run_offsets) == 2:
            return cuts, gaussian(self.deviation(history), len(history))
        spans = history.frames[cuts[1:] - 1] - history.frames[cuts[:-1]] + 1
        return cuts, gaussian(self.deviation(history), int(spans.max()))

    def deviation(self, history: History) -> float:
        """Return the deviation of the Gaussian in frames of this history."""
        if self.width is not None:
            return float(self.width)
        interval = history.frame_interval_s
        return FRAMES_WITHOUT_TIMES if interval is None else self.smoothing_s / interval

    def notes(self, history: History) -> tuple[Note, ...]:
        in_seconds = self.width is None and self.smoothing_s != SMOOTHING_S
        if in_seconds and history.frame_interval_s is None:
            return (
                Note(
                    f"history {history.id} has no times, so it was smoothed over "
                    f"{FRAMES_WITHOUT_TIMES:.0f} frames instead of {self.smoothing_s:g} s",
                    "information",
                ),
            )
        return ()


class StateView(View, ABC):
    """One history as a state readout sees it, beside the frames that a person has named."""

    readout: StateReadout

    @abstractmethod
    def find_by_words(self) -> Windows:
        """Return the windows of words."""

    @abstractmethod
    def find_known(self, known: Known) -> Windows:
        """Return the windows beside known frames."""

    @property
    def queries(self) -> NDArray[np.float32]:
        """Return a direction per state where descriptions share a window, else per description."""
        return self.directions.states if self.readout.pooling == 1 else self.directions.queries

    @cached_property
    def smoothing(self) -> Smoothing:
        """Return where stretches begin, and the weights of smoothing."""
        return self.readout.smoothing_of(self.history)

    @cached_property
    def smoothed(self) -> Responses:
        """Return the evidence of words: responses (R, N), and the centre and scale of each row."""
        return self.engine.smooth(self.cosines, self.history.frames, *self.smoothing)

    @cached_property
    def facts(self) -> KnownFrames:
        """Return the frames that a person has named; those of one moment are one look."""
        return known_frames_of(self.history, self.vocabulary, len(self.smoothing[1]) // 2)

    @cached_property
    def looks(self) -> Looks:
        return Looks(self.history, self.engine, self.smoothing, self.facts.looked)

    @cached_property
    def by_words(self) -> Floats | None:
        """Return (S, N) the evidence of words; None without words."""
        if not self.queries.shape[1]:
            return None
        return self.smoothed[0][: len(self.vocabulary.states)]

    @cached_property
    def membership(self) -> Floats:
        """Return f, (S, N)."""
        return self.looks.membership(self.facts, self.by_words)

    @property
    def named(self) -> bool:
        """Return whether a person has named frames or changes of the history."""
        return bool(self.vocabulary.frame_examples or self.vocabulary.changes)

    @cached_property
    def known(self) -> Known | None:
        """Return what is known of the history; None where nothing is."""
        if not self.named:
            return None
        return Known(self.facts, self.membership, self.by_words)

    def fact_notes(self) -> tuple[Note, ...]:
        """Say so where the windows are those that the named frames give by position alone."""
        if self.known is None or not len(self.facts.looked) or self.history.still:
            return ()
        by_time = membership_by_time(self.history, self.facts)
        blind = self.find_known(Known(self.facts, by_time, None, blind=True))
        same = all(
            np.array_equal(getattr(blind, name), getattr(self.windows, name))
            for name in ("state", "start", "end")
        )
        return (WITHOUT_PIXELS,) if same else ()

    def hints(self) -> tuple[Note, ...]:
        """Say so where words, or examples from elsewhere, are asked about rows of noise."""
        return (NOISE,) if not all(self.facts.named_states) and self.looks.is_noise else ()

    @property
    def labels(self) -> Ints | None:
        """Return (N,) the number of the state of each frame, −1 for none of them; None where the
        readout gives windows alone."""
        return None

    def rows_of_known(self, known: Known) -> Floats:
        """Return (S, N) what is summed beside known frames: above 0, a frame is in the state."""
        return known.f - HALF

    @cached_property
    def evidence(self) -> Evidence:
        rows, frames = self.vocabulary.labels, self.history.frames
        if self.known is None:
            if self.readout.pooling != 1:
                rows = np.arange(len(rows))
            responses, centre, scale = (column[rows] for column in self.smoothed)
            cosines = self.cosines[rows]
            return Evidence(cosines, centre, scale, responses, frames, "mean", self.labels)
        cosines = np.zeros((len(rows), len(frames)), np.float32)
        if self.by_words is not None:
            cosines = self.cosines[rows]
        return Evidence(
            cosines,
            np.full(len(rows), HALF),
            np.ones(len(rows)),
            self.rows_of_known(self.known)[rows],
            frames,
            "half",
            self.labels,
        )


Occurrence = tuple[int, int, int, float]  # number of the state, first and last position, score


def occurrences(
    rows: Sequence[Occurrence], facts: KnownFrames | None = None, filling: Filling | None = None
) -> Windows:
    """Return occurrences of one history as columns; with a filling, rows count its places."""
    state, start, end = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    score, places, confirmed = np.array([row[3] for row in rows]), None, None
    if filling is not None:
        places = start, end
        start, end = filling.positions(start, end)
    if facts is not None:
        windows = zip(state.tolist(), start.tolist(), end.tolist(), strict=True)
        confirmed = np.array([facts.shows(s, (a, b)) for s, a, b in windows], np.int64)
    return Windows(start, end, score, state, confirmed, places)


def is_number(value: Any, least: float = 0.0, most: float = np.inf) -> bool:
    """Return whether a value is a finite number within these bounds."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        return False
    try:
        return least <= float(value) <= most and math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def is_count(value: Any, least: int) -> bool:
    """Return whether a value is a whole number, at least this one."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= least)


def stretches_of(history: History, bridge: int | None) -> Ints:
    """Return where stretches begin, and N: a gap of more frames than ``bridge`` ends one; None: of
    more than ``auto_bridge`` says."""
    offsets = history.run_offsets
    if len(offsets) == 2:  # a single run, as most are: nothing to bridge
        return offsets
    cuts = np.ones(len(offsets), bool)
    cuts[1:-1] = history.gaps > (auto_bridge(history) if bridge is None else bridge)
    return offsets[cuts]


def auto_bridge(history: History) -> int:
    """Return the longest gap that losing frames at random explains, at the history's own rate.

    A share p of frames lost independently interrupts p(1 − p) of them, and of the gaps about
    span · (1 − p) · p^(g+1) are longer than g frames. The limit is the least g ≥ 1 for which that
    is below one. If it leaves most gaps unexplained, the object goes away rather than flickers,
    its state may change meanwhile, and nothing is bridged.
    """
    gaps = history.gaps
    if not len(gaps):
        return 0
    root = math.sqrt(1 - 4 * min(len(gaps) / history.span, 0.25))
    most = root < FREQUENT and 2 * len(history) < history.span  # more than half are lost
    lost = (1 + root) / 2 if most else (1 - root) / 2
    lasting = history.span * (1 - lost)  # gaps of any length
    limit = 1
    if lasting * lost**2 >= 1:
        limit = max(1, int(math.log(lasting) / -math.log(lost)) - 2)  # then the exact one
        while lasting * lost ** (limit + 1) >= 1:
            limit += 1
    return limit if 2 * np.count_nonzero(gaps <= limit) >= len(gaps) else 0


def gaussian(deviation: float, span: int) -> Floats:
    """Return weights by distance, 0 … REACH deviations, inside a stretch of ``span`` frames."""
    if REACH * deviation < 1:
        return _weights(1.0, 0)  # not even a neighbour
    reach = span - 1 if REACH * deviation >= span - 1 else math.ceil(REACH * deviation)
    if reach > MAX_REACH_FRAMES:
        problem = f"smoothing over {reach} frames is too wide"
        raise InputError(f"{problem}; smooth less, or bridge shorter gaps")
    return _weights(deviation, reach)


@lru_cache(maxsize=256)
def _weights(deviation: float, reach: int) -> Floats:
    weights: Floats = np.exp(-0.5 * (np.arange(reach + 1) / deviation) ** 2)
    return frozen(weights)
