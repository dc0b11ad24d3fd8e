"""Temporal overlap of inclusive windows (§7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.records import Window
from dejacue.records.arrays import Floats, Ints

METRICS = {"r1_03": "R@1 .3", "r1_05": "R@1 .5", "top1_tiou": "Top-1 tIoU"}


def as_windows(values: ArrayLike, what: str) -> Ints:
    """Return (n, 2) inclusive frames, from rows of numbers or Windows."""
    array = _plain(values, what)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InputError(f"{what} must be rows of [start, end] frames, not {array.shape}")
    if (array[:, 0] > array[:, 1]).any():
        row = int(np.argmax(array[:, 0] > array[:, 1]))
        raise InputError(f"{what}: row {row} ends before it starts ({array[row].tolist()})")
    return array.astype(np.int64)


def _plain(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return windows as pairs of numbers; anything else as it is."""
    try:
        if isinstance(values, Sequence) and any(isinstance(value, Window) for value in values):
            return np.asarray([tuple(value) for value in values])  # type: ignore[arg-type]
        return np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        raise InputError(f"{what} must be rows of [start, end] frames, two numbers each") from None


def tiou(retrieved: ArrayLike, references: ArrayLike) -> Floats:
    """Return (R, K) overlaps of R retrieved with K reference windows, |∩| / |∪| in frames.

    >>> tiou([(0, 9)], [(0, 9), (5, 14)]).round(3).tolist()
    [[1.0, 0.333]]
    """
    a = as_windows(retrieved, "retrieved windows")[:, None, :]
    b = as_windows(references, "reference windows")[None, :, :]
    return overlap(a, b)


def overlap(a: Ints, b: Ints) -> Floats:
    """Return |∩| / |∪| in frames of windows (…, 2), row by row."""
    common = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0]) + 1
    common = np.maximum(common, 0)
    lengths = (a[..., 1] - a[..., 0] + 1) + (b[..., 1] - b[..., 0] + 1)
    shares: Floats = common / (lengths - common)
    return shares


def best_tiou(retrieved: ArrayLike, references: Sequence[ArrayLike]) -> Floats:
    """Return (R,) overlap of each retrieved window with the best of its own references.

    >>> best_tiou([(0, 9), (3, 4)], [[(5, 9), (20, 29)], [(3, 4)]]).tolist()
    [0.5, 1.0]
    """
    windows = as_windows(retrieved, "retrieved windows")
    if len(windows) != len(references):
        problem = f"{len(windows)} retrieved windows but {len(references)} lists of references"
        raise InputError(problem)
    tables = [_plain(rows, "reference windows") for rows in references]
    for table in tables:
        if table.shape != (0,) and table.shape[1:] != (2,):
            raise InputError(f"reference windows must be rows of [start, end], not {table.shape}")
    counts = [len(table) for table in tables]
    if not all(counts):
        row = counts.index(0)
        raise InputError(f"retrieved window {row} has no reference")
    if not counts:
        return np.empty(0)
    flat = as_windows(np.concatenate(tables), "reference windows")
    overlaps = overlap(np.repeat(windows, counts, axis=0), flat)
    return np.maximum.reduceat(overlaps, np.cumsum([0, *counts[:-1]]))


def recall_at(threshold: float, overlaps: ArrayLike) -> Floats:
    """Return 1 where the overlap reaches the threshold, else 0.

    >>> recall_at(0.5, [0.4, 0.5]).tolist()
    [0.0, 1.0]
    """
    values = np.asarray(overlaps, dtype=np.float64)
    if np.ndim(threshold) or np.isnan(values).any():
        raise InputError("recall needs one threshold, and overlaps that are numbers")
    return (values >= threshold).astype(np.float64)


def metrics(overlaps: ArrayLike) -> Floats:
    """Return (n, 3): the METRICS of every overlap.

    >>> metrics([0.4]).tolist()
    [[1.0, 0.0, 0.4]]
    """
    values = np.asarray(overlaps, dtype=np.float64)
    return np.stack([recall_at(0.3, values), recall_at(0.5, values), values], axis=1)
