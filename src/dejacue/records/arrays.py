"""What the records ask of arrays: contiguous, finite, of one type, read-only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NORM_RANGE = (1e-15, 1e15)  # outside it a squared length leaves float32
ROWS_PER_CHECK = 4096


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def check_names(record: str, **names: object) -> None:
    for name, value in names.items():
        if not isinstance(value, str):
            raise InputError(f"{record}: {name} must be text, not {value!r}")


def as_array(values: ArrayLike, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError(
            f"{what} must have rows of equal length that contain only numbers"
        ) from None


def feature_rows(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return float16 or float32 rows, contiguous, finite, none of them zero."""
    array = as_array(values, what)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or 0 in array.shape:
        raise InputError(
            f"{what} must be a non-empty table of numbers (rows × dimensions), "
            f"not {array.dtype} of shape {array.shape}"
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
    if broken.size:
        raise InputError(
            f"{what}: row {index} contains {row[broken[0]]} at dimension {broken[0]}; remove the "
            "row or encode the frame again"
        )
    norm = float(np.linalg.norm(row))
    if norm <= NORM_RANGE[0]:
        raise InputError(f"{what}: row {index} is a zero vector, which has no direction; remove it")
    raise InputError(f"{what}: row {index} has length {norm:.3g}; rescale it to about 1")


def optional_column(values: ArrayLike | None, rows: int, dtype: type, what: str) -> Any:
    if values is None:
        return None
    given = as_array(values, what)
    whole = np.issubdtype(dtype, np.integer)
    if given.dtype.kind not in ("iu" if whole else "fiu"):
        raise InputError(
            f"{what} must contain {'whole ' if whole else ''}numbers, not {given.dtype}"
        )
    if given.shape != (rows,):
        raise InputError(f"{what} has shape {given.shape}, but there are {rows} observed frames")
    if not np.isfinite(given).all():
        raise InputError(f"{what} contains a non-finite value")
    if whole and given.size and given.max() > np.iinfo(np.int64).max:
        raise InputError(f"{what} contains {given.max()}, which is too large for an index")
    return frozen(np.ascontiguousarray(given, dtype=dtype))
