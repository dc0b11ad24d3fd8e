"""Recurrence: a state that holds several times, found as a ranked list of windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows, tiou
from dejacue.records.arrays import Flags, Floats

THRESHOLDS = (0.3, 0.5, 0.7)


def match(
    retrieved: ArrayLike, scores: ArrayLike, references: ArrayLike, threshold: float
) -> Flags:
    """Match one to one, greedily: return which windows find a reference, best score first.

    retrieved   (R, 2) windows of one state, scores (R,), references (K, 2), K ≥ 1

    In order of descending score (equal scores: in the order given) each window takes, of the
    references not yet taken, the one it overlaps most (the first of equals), if their tIoU
    reaches the threshold. Returns (R,) hits in the order of the scores.
    """
    if not 0 < threshold <= 1:
        raise InputError(f"a tIoU threshold must be above 0 and at most 1, not {threshold}")
    overlaps = _ranked_overlaps(retrieved, scores, references)
    hits = np.zeros(len(overlaps), dtype=np.bool_)
    for rank, row in enumerate(overlaps):
        best = int(np.argmax(row))
        if row[best] >= threshold:
            hits[rank] = True
            overlaps[:, best] = -1.0  # taken
    return hits


def average_precision(
    retrieved: ArrayLike, scores: ArrayLike, references: ArrayLike, threshold: float
) -> float:
    """Return the precision at the rank of each hit, summed, over the number of references.

    Not interpolated; a reference that is never found adds nothing, so that missing it costs.
    """
    hits = match(retrieved, scores, references, threshold)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].sum() / len(np.asarray(references)))


def recurrence(retrieved: ArrayLike, scores: ArrayLike, references: ArrayLike) -> dict[str, float]:
    """Return how well a ranked list of windows finds all occurrences of a state.

    map                       average precision, mean over the tIoU thresholds .3, .5 and .7
    recall_05, precision_05   hits at .5 over references, over retrieved windows
    count_error               |R − K|: how far the number of windows is off

    Without a retrieved window the first three are 0 and the count error is K.
    """
    precisions = [average_precision(retrieved, scores, references, t) for t in THRESHOLDS]
    hits = match(retrieved, scores, references, 0.5)
    correct, expected = int(hits.sum()), len(np.asarray(references))
    return {
        "map": float(np.mean(precisions)),
        "recall_05": correct / expected,
        "precision_05": correct / max(len(hits), 1),
        "count_error": float(abs(len(hits) - expected)),
    }


def _ranked_overlaps(retrieved: ArrayLike, scores: ArrayLike, references: ArrayLike) -> Floats:
    """Return (R, K) overlaps, rows in the order of descending score."""
    if not np.size(references):
        raise InputError("no reference window, so there is nothing to find")
    true = as_windows(references, "reference windows")
    overlaps = tiou(retrieved, true) if np.size(retrieved) else np.zeros((0, len(true)))
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(overlaps),):
        raise InputError(f"{len(overlaps)} retrieved windows but scores of shape {values.shape}")
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(f"score {row} is not finite")
    return overlaps[np.argsort(-values, kind="stable")]
