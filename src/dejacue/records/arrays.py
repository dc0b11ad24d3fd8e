"""The arrays of records: checked, contiguous, finite, of one type, read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError
from dejacue.records.fields import MAX_FRAME

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Pixels = NDArray[np.uint8]
NORM_RANGE = (1e-15, 1e15)  # outside it a squared length leaves float32
ROWS_PER_CHECK = 4096


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that nobody can write to."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_names(record: str, **names: object) -> None:
    """Refuse a name that is not text."""
    for name, value in names.items():
        if not isinstance(value, str):
            raise InputError(f"{record}: {name} must be text, not {value!r}")


def as_array(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return the values as an array; ``what`` names them in a refusal: "history cup: frames"."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        problem = f"{what} must have rows of equal length that contain only numbers"
        raise InputError(problem) from None


def feature_rows(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return float16 or float32 rows, contiguous, finite, none of them zero."""
    array = as_array(values, what)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or 0 in array.shape:
        raise InputError(
            f"{what} must be a non-empty table of numbers (rows × dimensions), not {array.dtype} "
            f"of shape {array.shape}"
        )
    dtype = np.float16 if array.dtype == np.float16 else np.float32
    with np.errstate(over="ignore", invalid="ignore"):  # named below, row by row
        rows = np.require(array, dtype=dtype, requirements=["C", "ALIGNED"])
        for first in range(0, len(rows), ROWS_PER_CHECK):
            block = rows[first : first + ROWS_PER_CHECK].astype(np.float32, copy=False)
            norms = np.sqrt(np.einsum("nd,nd->n", block, block))
            bad = np.flatnonzero(~((norms > NORM_RANGE[0]) & (norms < NORM_RANGE[1])))
            if bad.size:
                row = int(bad[0])
                _reject_row(np.asarray(array[first + row], dtype=np.float64), first + row, what)
    return frozen(rows)


def _reject_row(row: NDArray[Any], index: int, what: str) -> None:
    broken = np.flatnonzero(~np.isfinite(row))
    norm = float(np.linalg.norm(row))
    if broken.size:
        problem = f"contains {row[broken[0]]} at dimension {broken[0]}"
        remedy = "remove the row or encode the frame again"
    elif norm <= NORM_RANGE[0]:
        problem, remedy = "is a zero vector, which has no direction", "remove it"
    else:
        problem, remedy = f"has length {norm:.3g}", "rescale it to about 1"
    raise InputError(f"{what}: row {index} {problem}; {remedy}")


def optional_column(values: ArrayLike | None, rows: int, dtype: type, what: str) -> Any:
    """Return one number within ±2^53 per row, read-only; None where there are no values."""
    if values is None:
        return None
    array = as_array(values, what)
    whole = np.issubdtype(dtype, np.integer)
    problem = None
    if array.dtype.kind not in ("iu" if whole else "fiu"):
        problem = f"must contain {'whole ' if whole else ''}numbers, not {array.dtype}"
    elif array.shape != (rows,):
        problem = f"has shape {array.shape}, but there are {rows} observed frames"
    elif not np.isfinite(array).all():
        problem = "contains a non-finite value"
    elif array.size and (array.max() > MAX_FRAME or array.min() < -MAX_FRAME):
        problem = f"ranges from {array.min()} to {array.max()}, but must be within ±2^53"
    if problem is not None:
        raise InputError(f"{what} {problem}")
    return frozen(np.ascontiguousarray(array, dtype=dtype))
