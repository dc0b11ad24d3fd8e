"""This library is the method as one would write it in an afternoon, which run.py measures against.

It uses numpy, takes one history at a time, and all queries of a history at once.
"""

from __future__ import annotations

import numpy as np


def cosines(features: np.ndarray, queries: np.ndarray) -> np.ndarray:
    rows = features.astype(np.float32)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows @ queries.T).T


def windows(evidence: np.ndarray, frames: np.ndarray, lengths: tuple[int, ...]) -> list:
    """Return windows: calibrate, smooth inside runs, scan every length with prefix sums."""
    e = evidence.astype(np.float64)
    centre = np.median(e, axis=1, keepdims=True)
    scale = np.maximum(1.4826 * np.median(np.abs(e - centre), axis=1, keepdims=True), 1e-3)
    g = (e - centre) / scale
    best = np.full(len(e), -np.inf)
    selected: list = [None] * len(e)
    cuts = np.flatnonzero(np.diff(frames) != 1) + 1
    for first, last in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        values, n = g[:, first:last], last - first
        total, active = values.copy(), np.ones(n)
        total[:, 1:] += values[:, :-1]
        active[1:] += 1
        total[:, :-1] += values[:, 1:]
        active[:-1] += 1
        prefix = np.zeros((len(e), n + 1))
        np.cumsum(total / np.sqrt(active), axis=1, out=prefix[:, 1:])
        for length in lengths:
            if length > n:
                break
            score = (prefix[:, length:] - prefix[:, :-length]) / np.sqrt(length)
            at = score.argmax(axis=1)
            top = score[np.arange(len(e)), at]
            for q in np.flatnonzero(top > best):
                best[q] = top[q]
                selected[q] = (frames[first + at[q]], frames[first + at[q] + length - 1])
    return selected
