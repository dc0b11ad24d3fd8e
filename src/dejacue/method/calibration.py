"""Cosines, robust calibration and smoothing of one history, in plain numpy (§2–3).

Lengths and products are float32, everything after the cosines is float64. Rows are taken one by
one, so that equal frames get equal evidence wherever they stand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.records.arrays import Floats, Ints

ROWS = 128  # rows handled at a time, so that they stay in cache
MAD_TO_SCALE = 1.4826
SCALE_FLOOR = 1e-3
RESIDUAL_FLOOR = 1e-12


def unit_block(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows at unit length, in float32."""
    wide = rows.astype(np.float32, copy=False)
    unit: NDArray[np.float32] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit


def measured_from(
    rows: NDArray[Any], centre: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return rows as they are, or at unit length minus the centre; and their lengths."""
    wide = rows.astype(np.float32, copy=False)
    if centre is None:
        return wide, np.linalg.norm(wide, axis=1)
    residual: NDArray[np.float32] = unit_block(rows) - centre
    return residual, np.maximum(np.linalg.norm(residual, axis=1), np.float32(RESIDUAL_FLOOR))


def cosines(
    features: NDArray[Any], queries: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return e[q, t] = r_t · u_q, (Q, N) float32; with a centre, r is measured from it."""
    out = np.empty((len(queries), len(features)), np.float32)
    for first in range(0, len(features), ROWS):
        block, norms = measured_from(features[first : first + ROWS], centre)
        out[:, first : first + ROWS] = np.einsum("nd,qd->qn", block, queries) / norms
    return out


def trajectory_centre(features: NDArray[Any]) -> NDArray[np.float32]:
    """Return coordinate-wise median of the unit rows; even count: mean of the two middle values."""
    unit: NDArray[np.float32] = np.concatenate(
        [unit_block(features[i : i + ROWS]) for i in range(0, len(features), ROWS)]
    )
    low, high = (len(unit) - 1) // 2, len(unit) // 2
    unit.partition((low, high), axis=0)
    middle: NDArray[np.float32] = unit[low]
    return middle.copy() if low == high else (middle + unit[high]) / np.float32(2)


def calibration(rows: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return median and robust scale of each row: m, max(1.4826 · median|e − m|, 1e-3)."""
    wide = rows.astype(np.float64)
    centre = np.median(wide, axis=1)
    deviation = np.median(np.abs(wide - centre[:, None]), axis=1)
    return centre, np.maximum(MAD_TO_SCALE * deviation, SCALE_FLOOR)


def run_index(run_offsets: Ints) -> Ints:
    """Return the run each observed frame belongs to."""
    return np.repeat(np.arange(len(run_offsets) - 1), np.diff(run_offsets))


def smooth(values: Floats, run_offsets: Ints, width: int, *, mean: bool = False) -> Floats:
    """Sum over the active offsets of each run, over √(their number); mean: over their number.

    Never reaches across a gap; with √ the variance of white noise stays one.
    """
    run = run_index(run_offsets)
    count = values.shape[1]
    sums, active = np.zeros_like(values), np.zeros(count)
    reach = min((width - 1) // 2, count - 1)
    for offset in range(-reach, reach + 1):
        here = np.arange(max(0, -offset), min(count, count - offset))
        here = here[run[here] == run[here + offset]]
        sums[:, here] += values[:, here + offset]
        active[here] += 1
    return sums / active if mean else sums * (1.0 / np.sqrt(active))


def respond(
    rows: NDArray[np.float32], run_offsets: Ints, width: int
) -> tuple[Floats, Floats, Floats]:
    """Calibrate and smooth; return responses g̃ (Q, N), and the centre and scale used."""
    centre, scale = calibration(rows)
    calibrated = (rows.astype(np.float64) - centre[:, None]) * (1.0 / scale)[:, None]
    return smooth(calibrated, run_offsets, width), centre, scale
