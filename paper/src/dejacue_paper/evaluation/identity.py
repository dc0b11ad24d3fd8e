"""Target against other objects of the same video, and against its own other states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows, tiou
from dejacue.records import Window
from dejacue.records.arrays import Floats, Ints

ABSOLUTE, RELATIVE = 1e-8, 1e-7
POSITIVE = 0.5


def identity_correct(target: ArrayLike, others: ArrayLike) -> Floats:
    """Return 1 where the target alone has the top score.

    target   (Q,) best score of the target for each description
    others   (Q, K) those of K other tracks; −inf where no window fits; K may be 0
    """
    scores, rest = np.asarray(target, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if scores.ndim != 1 or rest.ndim != 2 or len(rest) != len(scores):
        raise InputError(
            f"scores of other tracks have shape {rest.shape}; "
            f"give one row for each of {scores.shape}"
        )
    for table in (scores, rest):
        if np.isnan(table).any():
            raise InputError("a score of the target or of another track is not a number")
    if not rest.shape[1]:
        return np.ones(len(scores))
    best = rest.max(axis=1)
    close = np.isclose(best, scores, rtol=RELATIVE, atol=ABSOLUTE)
    alone: Floats = ((scores > best) & ~close).astype(np.float64)
    return alone


def best_margin(
    windows: ArrayLike, scores: ArrayLike, references: ArrayLike, sibling_references: ArrayLike
) -> tuple[float, float]:
    """Return the best score of a right window, and of one that shows another state; −inf if none.

    windows    (C, 2) candidates of the target; scores (C,) for one description
    references, sibling_references   the true windows of its state, and of the other states

    Right: tIoU ≥ .5 with a reference. Wrong: tIoU ≥ .5 with a sibling's reference and no frame
    shared with any of its own.
    """
    array, values = _scored(windows, scores)
    true = as_windows(references, "references")
    siblings = as_windows(sibling_references, "sibling references")
    if not len(true) or not len(siblings):
        raise InputError("a margin needs a reference for the state and one for another state")
    with_state, with_siblings = tiou(array, true).max(axis=1), tiou(array, siblings).max(axis=1)
    right = values[with_state >= POSITIVE]
    wrong = values[(with_siblings >= POSITIVE) & (with_state == 0)]
    return float(right.max(initial=-np.inf)), float(wrong.max(initial=-np.inf))


def best_outside(windows: ArrayLike, scores: ArrayLike, barred: Sequence[Window]) -> float:
    """Return the best score of a window that touches none of the barred ones; −inf if none."""
    array, values = _scored(windows, scores)
    if len(barred):
        values = values[tiou(array, [tuple(window) for window in barred]).max(axis=1) == 0]
    return float(values.max(initial=-np.inf))


def _scored(windows: ArrayLike, scores: ArrayLike) -> tuple[Ints, Floats]:
    array, values = as_windows(windows, "candidates"), np.asarray(scores, dtype=np.float64)
    if values.shape != (len(array),) or np.isnan(values).any():
        raise InputError(f"{len(array)} candidates need one number each, not {values.shape}")
    return array, values
