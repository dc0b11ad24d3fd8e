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
    small = whole.reshape(height // step, step, width // step, step).any(axis=(1, 3))
    padded = np.pad(small.astype(np.float32), 1)  # a line closes at the border, too
    found = []
    for line in contour_generator(z=padded).lines(0.5):
        points = (np.asarray(line)[:-1] - 0.5) * step
        before, after = points - np.roll(points, 1, 0), np.roll(points, -1, 0) - points
        turns = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        kept = points[np.abs(turns) > 1e-6]  # a corner, not a point on a straight line
        if len(kept) >= 3:
            limit = (mask.shape[1], mask.shape[0])
            found.append([(float(x), float(y)) for x, y in kept.clip((0, 0), limit)])
    return found
