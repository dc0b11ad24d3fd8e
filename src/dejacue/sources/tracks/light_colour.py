"""The colours of an object and of what surrounds it, as two histograms.

Bins are 16 levels of brightness by 32 × 32 of the two colour differences, smoothed over their
neighbours. The object's histogram follows its states slowly and never lets go of the one it was
shown with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.tracks.base import Mask
from dejacue.sources.tracks.light_regions import Plane

LEVELS = (16, 32, 32)
COUNT = 16 * 32 * 32
ANCHOR = 0.3  # what the first view keeps in the object's colours
STRANGE_INSIDE, STRANGE_OUTSIDE = 3e-4, 1.5e-4  # a colour never seen leans towards the object
MOST = 3.5  # bound of the log ratio: one pixel never decides alone
SHADES, SHADOW = (0.85, 0.7, 0.55), 0.1  # of the brightness; share of such colours

Bins = NDArray[np.intp]
Histogram = NDArray[np.float32]


def bins_of(image: NDArray[np.uint8]) -> Bins:
    """(H, W, 3) YCbCr → (H, W) bin of each pixel."""
    y, cb, cr = (image[:, :, k].astype(np.intp) for k in range(3))
    found: Bins = ((y >> 4) << 10) | ((cb >> 3) << 5) | (cr >> 3)
    return found


def histogram(bins: Bins, weights: NDArray[Any] | None = None) -> Histogram:
    """Shares of the bins, smoothed; all zero where there are no pixels."""
    flat = None if weights is None else weights.ravel()
    counts = np.bincount(bins.ravel(), weights=flat, minlength=COUNT).astype(np.float64)
    shares = counts.reshape(LEVELS) / max(counts.sum(), 1e-9)
    for axis in range(3):
        shares = _smoothed(shares, axis)
    found: Histogram = shares.astype(np.float32).ravel()
    return found


def _smoothed(shares: NDArray[Any], axis: int) -> NDArray[Any]:
    moved = np.moveaxis(shares, axis, 0)
    result = 0.5 * moved
    result[1:] += 0.25 * moved[:-1]
    result[:-1] += 0.25 * moved[1:]
    return np.moveaxis(result, 0, axis)


class Colours:
    """first, inside, outside: histograms of the object when shown, of late, and of the rest."""

    def __init__(self, first: Histogram, inside: Histogram, outside: Histogram) -> None:
        self.first, self.inside, self.outside = first, inside, outside

    @classmethod
    def of(cls, picture: NDArray[np.uint8], bins: Bins, mask: Mask, around: Mask) -> Colours:
        inside = histogram(bins[mask])
        return cls(inside, inside, surroundings(picture, bins, mask, around))

    def ratios(self, *, strange: float = STRANGE_INSIDE) -> Plane:
        """(bins,) log of how much more a colour belongs to the object than to the rest."""
        inside = ANCHOR * self.first + (1 - ANCHOR) * self.inside
        ratio = np.log((inside + strange) / (self.outside + STRANGE_OUTSIDE))
        return np.clip(ratio, -MOST, MOST).astype(np.float32)

    def known(self, bins: Bins) -> float:
        """The share of pixels with a colour of the first view, rather than of the surroundings."""
        return float((self.first[bins] > np.maximum(self.outside[bins], STRANGE_OUTSIDE)).mean())

    def learn_inside(self, found: Histogram, rate: float) -> None:
        self.inside = np.float32(1 - rate) * self.inside + np.float32(rate) * found

    def learn_outside(self, found: Histogram, rate: float) -> None:
        self.outside = np.float32(1 - rate) * self.outside + np.float32(rate) * found


def surroundings(picture: NDArray[np.uint8], bins: Bins, mask: Mask, around: Mask) -> Histogram:
    """What is not the object: half of it from close by, where it matters most, and a little of
    that in shadow."""
    close = around & ~mask
    near, far = histogram(bins[close]), histogram(bins[~(mask | around)])
    if not near.any() or not far.any():
        return near + far
    pixels = picture[close].astype(np.float32) - (0, 128, 128)
    dark = [histogram(bins_of((pixels * k + (0, 128, 128)).astype(np.uint8)[None])) for k in SHADES]
    shadow = np.float32(SHADOW / len(SHADES)) * np.sum(dark, axis=0, dtype=np.float32)
    return np.float32(0.5 * (1 - SHADOW)) * (near + far) + shadow
