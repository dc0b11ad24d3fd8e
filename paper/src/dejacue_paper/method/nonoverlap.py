"""States that exclude each other: one window each, none overlapping, solved exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import scan as s
from dejacue.method.readout import PUBLISHED_WIDTH, View, Windows
from dejacue.method.scan_readout import Scan, ScheduledReadout

MAX_STATES = 12  # the solver looks at every subset of states


@dataclass(frozen=True)
class NonOverlap(ScheduledReadout):
    """One window per state, none overlapping another, with the highest total score: exact.

    A window's score for a state is the mean over the state's descriptions. Equal totals: the
    window that ends first, then the one that starts first.
    """

    norm: str = "sqrt"
    smoothing: int = PUBLISHED_WIDTH
    name: ClassVar[str] = "non-overlap"

    def __post_init__(self) -> None:
        super().__post_init__()
        scan = Scan(norm=self.norm, smoothing=self.smoothing)  # refuses what it does not know
        object.__setattr__(self, "smoothing", scan.smoothing)

    def find(self, view: View) -> Windows:
        scan = Scan(self.durations, self.norm, smoothing=self.smoothing)
        starts, ends, scores = scan.candidates(view)
        labels = view.vocabulary.labels
        states = int(labels.max()) + 1
        if states > MAX_STATES:
            raise InputError(
                f"non-overlap searches all subsets of states and takes at most {MAX_STATES} "
                f"states, not {states}; use the scan readout"
            )
        pooled = np.stack([scores[labels == state].mean(axis=0) for state in range(states)])
        chosen = best_disjoint(starts, ends, pooled, len(view.history))
        if chosen is None:
            raise InputError(
                f"history {view.history.id}: {states} states do not fit side by side into "
                f"{len(view.history)} observed frames; add shorter durations"
            )
        score = pooled[np.arange(states), chosen]
        return Windows(starts[chosen], ends[chosen], score, np.arange(states))


def best_disjoint(
    starts: NDArray[np.int64], ends: NDArray[np.int64], scores: NDArray[np.float64], frames: int
) -> NDArray[np.int64] | None:
    """Return the candidate of each row of scores (S, C) such that none intersect and the sum is
    largest.

    Dynamic programming over (frames seen, set of states placed): O(C · S · 2^S).
    """
    states = len(scores)
    best = np.full((frames + 1, 1 << states), -np.inf)
    best[:, 0] = 0.0
    taken = np.full((frames + 1, 1 << states), -1)  # candidate · S + state placed last, or −1
    order = np.lexsort((starts, ends))
    cuts = np.searchsorted(ends[order], np.arange(frames + 1))
    masks = [np.array([m for m in range(1 << states) if m >> k & 1]) for k in range(states)]
    for t in range(frames):
        row = best[t].copy()
        here = order[cuts[t] : cuts[t + 1]]
        for k in range(states if len(here) else 0):
            totals = best[starts[here]][:, masks[k] ^ (1 << k)] + scores[k, here][:, None]
            top = totals.argmax(axis=0)
            value = totals[top, np.arange(len(masks[k]))]
            known = row[masks[k]]
            margin = s.TIE * np.maximum(1.0, np.where(np.isfinite(known), np.abs(known), 1.0))
            better = value > known + margin
            row[masks[k][better]] = value[better]
            taken[t + 1, masks[k][better]] = here[top[better]] * states + k
        best[t + 1] = row
    mask, t = (1 << states) - 1, frames
    if not np.isfinite(best[frames, mask]):
        return None
    chosen = np.empty(states, np.int64)
    while mask:
        if taken[t, mask] < 0:
            t -= 1
            continue
        candidate, state = divmod(int(taken[t, mask]), states)
        chosen[state] = candidate
        mask ^= 1 << state
        t = int(starts[candidate])
    return chosen
