"""Masks as polygons that a page draws over the video."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_SIDE = 640  # pixels of the mask that is followed; finer steps are not seen
Polygon = list[tuple[float, float]]


def outline(mask: NDArray[np.bool_]) -> list[Polygon]:
    """Closed lines (x, y) around the pixels of a mask, holes included, in pixels of the frame."""
    from contourpy import contour_generator

    step = max(1, -(-max(mask.shape) // MOST_SIDE))
    height, width = (-(-side // step) * step for side in mask.shape)
    whole = np.zeros((height, width), bool)
    whole[: mask.shape[0], : mask.shape[1]] = mask
    rows = np.logical_or.reduce([whole[n::step] for n in range(step)])  # faster than .any(axis=…)
    small = np.logical_or.reduce([rows[:, n::step] for n in range(step)])
    if not small.any():
        return []
    y, x = (np.flatnonzero(small.any(axis=axis)) for axis in (1, 0))
    part = small[y[0] : y[-1] + 1, x[0] : x[-1] + 1]
    padded = np.pad(part.astype(np.float32), 1)  # a line closes at the border, too
    found = []
    for line in contour_generator(z=padded).lines(0.5):
        points = (np.asarray(line)[:-1] - 0.5 + (x[0], y[0])) * step
        before, after = points - np.roll(points, 1, 0), np.roll(points, -1, 0) - points
        turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        kept = points[np.abs(turns) > 1e-6]  # a corner, not a point on a straight line
        if len(kept) >= 3:
            limit = (mask.shape[1], mask.shape[0])
            found.append([(float(x), float(y)) for x, y in kept.clip((0, 0), limit)])
    return found
