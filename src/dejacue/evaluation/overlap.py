"""Temporal overlap of inclusive windows (§7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.records import Window


def _windows(values: ArrayLike, what: str) -> NDArray[np.int64]:
    if isinstance(values, Sequence) and any(isinstance(value, Window) for value in values):
        values = [tuple(value) for value in values]  # type: ignore[arg-type]
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InputError(f"{what} must be rows of [start, end] frames, not {array.shape}")
    if (array[:, 0] > array[:, 1]).any():
        row = int(np.argmax(array[:, 0] > array[:, 1]))
        raise InputError(f"{what}: row {row} ends before it starts ({array[row].tolist()})")
    return array.astype(np.int64)


def tiou(retrieved: ArrayLike, references: ArrayLike) -> NDArray[np.float64]:
    """(R, K) overlaps of R retrieved with K reference windows, |∩| / |∪| in frames."""
    a = _windows(retrieved, "retrieved windows")[:, None, :]
    b = _windows(references, "reference windows")[None, :, :]
    common = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0]) + 1
    common = np.maximum(common, 0)
    lengths = (a[..., 1] - a[..., 0] + 1) + (b[..., 1] - b[..., 0] + 1)
    overlap: NDArray[np.float64] = common / (lengths - common)
    return overlap


def best_tiou(retrieved: ArrayLike, references: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """(R,) overlap of each retrieved window with the best of its own references."""
    windows = _windows(retrieved, "retrieved windows")
    if len(windows) != len(references):
        raise InputError(f"{len(windows)} retrieved windows but {len(references)} reference lists")
    return np.array(
        [tiou(windows[i : i + 1], own).max() for i, own in enumerate(references)], dtype=np.float64
    )


def recall_at(threshold: float, overlaps: ArrayLike) -> NDArray[np.float64]:
    """1 where the overlap reaches the threshold, else 0."""
    return (np.asarray(overlaps) >= threshold).astype(np.float64)
