"""Helpers of the painters beyond those of the renderer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.data.rendered.drawing import Colour, Points, mix


def rectangle(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def moved(points: ArrayLike, right: float, down: float) -> Points:
    shifted: Points = np.asarray(points, dtype=np.float64) + np.array([right, down])
    return shifted


def between(stops: Sequence[Colour], progress: float) -> Colour:
    """Return a colour on the way through several, evenly spaced."""
    at = min(max(progress, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(at), len(stops) - 2)
    return mix(stops[first], stops[first + 1], at - first)
