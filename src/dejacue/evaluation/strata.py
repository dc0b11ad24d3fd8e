"""Groups by the duration of the reference (§7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dejacue.errors import InputError


def duration_strata(
    durations: ArrayLike, population: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The quartile (0 shortest … 3 longest) of each duration, and the three boundaries.

    durations    (n,) reference length of each item
    population   lengths that the quartiles are taken of: published, one per state

    An item belongs to the first quartile whose upper boundary its duration does not exceed.
    """
    lengths, all_lengths = np.asarray(durations), np.asarray(population)
    for array in (lengths, all_lengths):
        numbers = array.dtype.kind in "iuf" and array.ndim == 1 and len(array) > 0
        if not numbers or not ((array >= 1) & (array < np.inf)).all():
            raise InputError("strata need a single row of durations, each at least one frame")
    boundaries: NDArray[np.float64] = np.quantile(all_lengths, [0.25, 0.5, 0.75])
    return np.searchsorted(boundaries, lengths, side="left"), boundaries
