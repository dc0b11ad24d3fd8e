"""Evidence for states: paraphrases pooled, short gaps bridged, smoothed over time.

What the published evidence lacks for everyday use. Every description may lean towards its state's
mean direction, so that paraphrases agree; an object that is missing for a moment does not end a
window; and the width of smoothing is stated in seconds, so that it means the same at any rate.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.kernel import Ragged
from dejacue.method.view import View
from dejacue.records import History

FRAMES_WITHOUT_TIMES = 4.0  # 0.8 s at the 5 frames a second of VOST
REACH = 4  # deviations of the Gaussian that are summed
LEAST_SCALE = 1e-4  # a deviation of cosines below this is rounding, not evidence
AUTO = "auto"
OFTEN = 0.63  # √(1 − 4 · 0.15): at least 15 of 100 frames begin a gap


@dataclass(frozen=True, eq=False)
class StateEvidence:
    """(R, N) responses with mean 0 and deviation 1, and how they came about.

    row_of   (Q,) the row of each description; with full pooling the R rows are the states
    cuts     positions at which stretches begin, and N: no window crosses one
    """

    row_of: NDArray[np.int64]
    cosines: NDArray[np.float32]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    responses: NDArray[np.float64]
    cuts: NDArray[np.int64]


@dataclass(frozen=True)
class Steady:
    """What the readouts of state evidence share.

    pooling       0: every description speaks for itself (the paper); 1: all descriptions of a
                  state speak with one voice, so that paraphrases get the same window
    smoothing_s   deviation of the Gaussian over time, in seconds, where the history has times
    width         the same in frames, instead; without times and width it is 4 frames
    bridge        longest gap in frames that a window may cross, or "auto": see ``auto_bridge``
    """

    pooling: float = 1.0
    smoothing_s: float = 0.8
    width: float | None = None
    bridge: int | str = AUTO

    def __post_init__(self) -> None:
        if not is_number(self.pooling, 0, 1):
            raise InputError(f"pooling {self.pooling!r} must lie between 0 and 1")
        if not is_number(self.smoothing_s) or not is_number(self.width or 0.0):
            raise InputError("the width of smoothing must be 0 or more, in seconds or in frames")
        if self.bridge != AUTO and not is_count(self.bridge, 0):
            raise InputError(f'bridge {self.bridge!r} must be a number of frames or "auto"')
        plain = {  # numpy's numbers are no JSON
            "pooling": float(self.pooling),
            "smoothing_s": float(self.smoothing_s),
            "width": None if self.width is None else float(self.width),
            "bridge": AUTO if isinstance(self.bridge, str) else int(self.bridge),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def see(self, view: View) -> StateEvidence:
        """The evidence of a view, computed once."""
        key = ("states", self.pooling, self.smoothing_s, self.width, self.bridge)
        found: StateEvidence = view.once(key, lambda: self._see(view))
        return found

    def cuts(self, history: History) -> NDArray[np.int64]:
        limit = auto_bridge(history) if isinstance(self.bridge, str) else int(self.bridge)
        return stretches(history.frames, limit)

    def deviation(self, history: History) -> float:
        """Of the Gaussian, in frames of this history."""
        if self.width is not None:
            return float(self.width)
        interval = frame_interval(history)
        return FRAMES_WITHOUT_TIMES if interval is None else self.smoothing_s / interval

    def notes(self, history: History) -> tuple[str, ...]:
        """What a user who set a width must know."""
        asked = self.width is None and self.smoothing_s != type(self)().smoothing_s
        if asked and frame_interval(history) is None:
            return (
                f"history {history.id} has no times, so it was smoothed over "
                f"{FRAMES_WITHOUT_TIMES:.0f} frames instead of {self.smoothing_s:g} s",
            )
        return ()

    def _see(self, view: View) -> StateEvidence:
        queries = view.directions.queries
        row_of = np.arange(len(queries))
        if self.pooling == 1:  # the rows of a state are the same
            _, first = np.unique(view.labels, return_index=True)
            queries, row_of = queries[first], view.labels
        return self.respond(view, queries, row_of)

    def respond(
        self, view: View, queries: NDArray[np.float32], row_of: NDArray[np.int64]
    ) -> StateEvidence:
        """The evidence for these directions, (R, d)."""
        history = view.history
        cosines = view.engine.cosines(Ragged.of([history], [queries]), view.centres)[0]
        cuts = self.cuts(history)
        weights = gaussian(self.deviation(history), history.span)
        responses, centre, scale = smooth(cosines, history.frames, cuts, weights, kernel_of(view))
        return StateEvidence(row_of, cosines, centre, scale, responses, cuts)


def is_number(value: Any, least: float = 0.0, most: float = np.inf) -> bool:
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return real and bool(least <= value <= most) and bool(np.isfinite(value))


def is_count(value: Any, least: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= least)


@cache
def compiled() -> Any:
    """The compiled module, or None: numpy gives the same bits, more slowly."""
    try:
        return importlib.import_module("dejacue.method._contrast")
    except ImportError:
        return None


def kernel_of(view: View) -> Any:
    """The compiled module where the view's engine is compiled, else None."""
    return compiled() if view.engine.name != "numpy" else None


def frame_interval(history: History) -> float | None:
    """Seconds from one frame to the next: the median over neighbours; None without times."""
    if history.times_s is None or len(history) < 2:
        return None
    steps = np.diff(history.times_s) / np.diff(history.frames)
    interval = float(np.median(steps))
    return interval if interval > 0 else None


def stretches(frames: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Positions at which stretches begin, and N: a gap of more than ``limit`` frames ends one."""
    breaks = np.flatnonzero(np.diff(frames) > limit + 1) + 1
    return np.concatenate(([0], breaks, [len(frames)])).astype(np.int64)


def auto_bridge(history: History) -> int:
    """The longest gap that losing frames at random explains, at the history's own rate.

    A share p of frames lost independently interrupts p(1 − p) of them, and of the gaps about
    span · (1 − p) · p^(g+1) are longer than g frames. The limit is the least g ≥ 1 for which that
    is below one. If it leaves most gaps unexplained, the object goes away rather than flickers,
    its state may change meanwhile, and nothing is bridged.
    """
    gaps = np.diff(history.frames)
    gaps = gaps[gaps > 1] - 1
    if not len(gaps):
        return 0
    root = np.sqrt(1 - 4 * min(len(gaps) / history.span, 0.25))
    most = root < OFTEN and 2 * len(history) < history.span  # more than half are lost
    lost = (1 + root) / 2 if most else (1 - root) / 2
    limit = 1
    while history.span * (1 - lost) * lost ** (limit + 1) >= 1:
        limit += 1
    return limit if 2 * np.count_nonzero(gaps <= limit) >= len(gaps) else 0


def gaussian(deviation: float, span: int) -> NDArray[np.float64]:
    """Weights by distance in frames, 0 … REACH deviations."""
    if REACH * deviation < 1:
        return np.ones(1)  # not even a neighbour
    reach = min(int(np.ceil(REACH * deviation)), max(span - 1, 0))
    weights: NDArray[np.float64] = np.exp(-0.5 * (np.arange(reach + 1) / deviation) ** 2)
    return weights


def smooth(
    cosines: NDArray[np.float32],
    frames: NDArray[np.int64],
    cuts: NDArray[np.int64],
    weights: NDArray[np.float64],
    how: Any = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weighted means over the observed frames of a stretch, then mean 0 and deviation 1 over all.

    Returns responses (R, N), their centre and scale (R,). ``how``: the compiled module, or None.
    """
    if how is not None:
        out, (centre, scale) = np.empty(cosines.shape), np.empty((2, len(cosines)))
        how.smooth(cosines, frames, cuts, weights, LEAST_SCALE, out, centre, scale)
        return out, centre, scale
    totals = _weighted(np.ones((1, len(frames))), frames, cuts, weights)[0]
    out = _weighted(cosines.astype(np.float64), frames, cuts, weights) / totals
    count = out.shape[1]
    centre = np.cumsum(out, axis=1)[:, -1] / count  # from left to right, as the kernel sums
    out -= centre[:, None]
    scale = np.maximum(np.sqrt(np.cumsum(out * out, axis=1)[:, -1] / count), LEAST_SCALE)
    out /= scale[:, None]
    return out, centre, scale


def _weighted(
    rows: NDArray[np.float64], frames: NDArray[np.int64], cuts: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:  # fmt: skip
    """Sums of weight · value over each frame's neighbours, in the order of the frames."""
    out = np.zeros_like(rows)
    for first, last in pairwise(cuts.tolist()):
        own = frames[first:last] - frames[first]
        dense = np.full(int(own[-1]) + 1, -1)
        dense[own] = np.arange(first, last)
        reach = min(len(weights), len(dense)) - 1
        for offset in range(-reach, reach + 1):
            here = own[max(0, np.searchsorted(own, -offset)) :] if offset < 0 else own
            here = here[here + offset < len(dense)]
            there = dense[here + offset]
            seen = there >= 0
            out[:, dense[here[seen]]] += weights[abs(offset)] * rows[:, there[seen]]
    return out
