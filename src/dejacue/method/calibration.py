"""Cosines, robust calibration and smoothing of one history, in plain numpy (§2–3).

This is the oracle: the compiled kernel does the same operations in the same order and gives the
same bits. A dot product is folded into 16 float32 partial sums (element j goes to sum j mod 16, by
fused multiply-add, that is with one rounding), added j with j + 8 and then neighbour with
neighbour; so the answer does not depend on the machine, and equal frames get equal evidence
wherever they stand. Everything after the cosines is float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.records.arrays import Floats, Ints

FOLDS = 16
ROWS = 128  # rows handled at a time, so that products stay in cache
MAD_TO_SCALE = 1.4826
SCALE_FLOOR = 1e-3
RESIDUAL_FLOOR = 1e-12


def fold(left: NDArray[np.float32], right: NDArray[np.float32]) -> Floats:
    """Return row-wise dot products of (n, d) with (n, d) or (d,)."""
    totals = np.multiply(left, right, dtype=np.float64)  # exact products, then running totals
    sums = _partial_sums(totals)
    # Float64, then float32: two roundings instead of one. They differ only where a total lies
    # exactly half-way between two float32 values; rows that have one are done again with care.
    bits = totals.view(np.int64)
    halfway = np.bitwise_and(bits, 0x1FFFFFFF, out=bits) == 0x10000000
    if halfway.any():
        rows = np.flatnonzero(halfway.any(axis=1))
        right_rows = right if right.ndim == 1 else right[rows]
        sums[rows] = _with_care(np.multiply(left[rows], right_rows, dtype=np.float64))
    sums = sums[:, : FOLDS // 2] + sums[:, FOLDS // 2 :]
    while sums.shape[1] > 1:
        sums = sums[:, 0::2] + sums[:, 1::2]
    return sums[:, 0].astype(np.float64)


def _partial_sums(terms: Floats) -> NDArray[np.float32]:
    """Return (n, 16) sums of every 16th column; terms are overwritten by the unrounded totals."""
    sums = np.zeros((len(terms), FOLDS), np.float32)
    for first in range(0, terms.shape[1], FOLDS):
        block = terms[:, first : first + FOLDS]
        part = sums[:, : block.shape[1]]
        block += part
        part[...] = block
    return sums


def _with_care(terms: Floats) -> NDArray[np.float32]:
    """Sum with one rounding per step: on a tie, the part that float64 lost decides."""
    sums = np.zeros((len(terms), FOLDS), np.float32)
    for first in range(0, terms.shape[1], FOLDS):
        term = terms[:, first : first + FOLDS]
        part = sums[:, : term.shape[1]]
        wide = part.astype(np.float64)
        total = wide + term
        taken = total - wide
        lost = (wide - (total - taken)) + (term - taken)
        tie = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
        aside = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
        part[...] = np.where(tie & (lost != 0), aside, total)
    return sums


def unit_block(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows at unit length, in float32."""
    wide = rows.astype(np.float32, copy=False)
    return wide * (1.0 / np.sqrt(fold(wide, wide))).astype(np.float32)[:, None]


def measured_from(
    rows: NDArray[Any], centre: NDArray[np.float32] | None
) -> tuple[NDArray[np.float32], Floats]:
    """Return rows as they are, or at unit length minus the centre; and their lengths."""
    if centre is None:
        wide = rows.astype(np.float32, copy=False)
        return wide, np.sqrt(fold(wide, wide))
    residual: NDArray[np.float32] = unit_block(rows) - centre
    return residual, np.maximum(np.sqrt(fold(residual, residual)), RESIDUAL_FLOOR)


def cosines(
    features: NDArray[Any], queries: NDArray[np.float32], centre: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return e[q, t] = r_t · u_q, (Q, N) float32; with a centre, r is measured from it."""
    out = np.empty((len(queries), len(features)), np.float32)
    for first in range(0, len(features), ROWS):
        block, norms = measured_from(features[first : first + ROWS], centre)
        for q, query in enumerate(queries):
            out[q, first : first + ROWS] = fold(block, query) / norms
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
