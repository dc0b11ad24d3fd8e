"""Regions of a mask with numpy alone: local means, growing and shrinking, connected pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.tracks.base import Mask

Plane = NDArray[np.float32]  # one value for each pixel


def box_mean(values: NDArray[Any], radius: int) -> Plane:
    """The mean over a square of 2 · radius + 1 pixels; at the border, over what lies inside."""
    result = np.asarray(values, dtype=np.float64)
    for axis in (0, 1):
        length = result.shape[axis]
        sums = np.zeros((length + 1, result.shape[1 - axis]))
        np.cumsum(result if axis == 0 else result.T, axis=0, out=sums[1:])
        at = np.arange(length)
        low, high = np.maximum(at - radius, 0), np.minimum(at + radius + 1, length)
        mean = (sums[high] - sums[low]) / (high - low)[:, None]
        result = mean if axis == 0 else mean.T
    return result.astype(np.float32)


def grown(mask: Mask, radius: int) -> Mask:
    """All pixels within a square of the radius around the mask."""
    return box_mean(mask, radius) > 0.25 / (2 * radius + 1) ** 2


def shrunk(mask: Mask, radius: int) -> Mask:
    """The pixels whose whole square lies in the mask; the border of the picture takes nothing."""
    return ~grown(~mask, radius)


def box_of(mask: Mask) -> tuple[int, int, int, int]:
    """y0, x0, y1, x1 around a mask that is not empty; the ends are not part of it."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def pieces(mask: Mask) -> NDArray[np.int32]:
    """The connected pieces (over sides and corners), numbered from 1 in reading order; 0 outside.

    Works on the runs of each row: runs that touch a run of the row above get one number, the
    smallest, which travels until nothing changes.
    """
    height, width = mask.shape
    padded = np.zeros((height, width + 1), dtype=np.int8)
    padded[:, :width] = mask
    steps = np.flatnonzero(np.diff(padded.ravel(), prepend=0))
    starts, ends = steps[::2], steps[1::2]  # in the padded picture, so that no run leaves its row
    number = _numbers(starts, ends, width + 1)
    _, number = np.unique(number, return_inverse=True)
    changes = np.zeros(padded.size + 1, dtype=np.int32)
    changes[starts] = number + 1
    changes[ends] -= (number + 1).astype(np.int32)
    return np.cumsum(changes[:-1], dtype=np.int32).reshape(height, width + 1)[:, :width]


def _numbers(starts: NDArray[Any], ends: NDArray[Any], width: int) -> NDArray[np.int64]:
    """For each run, the index of the first run of its piece."""
    number = np.arange(len(starts))
    first = np.searchsorted(ends, starts - width)  # touching corners: an end equal to a start
    last = np.searchsorted(starts, ends - width, side="right")
    counts = np.maximum(last - first, 0)
    below = np.repeat(np.arange(len(starts)), counts)
    above = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    while True:
        before = number.copy()
        smallest = np.minimum(number[below], number[above])
        np.minimum.at(number, number[below], smallest)
        np.minimum.at(number, number[above], smallest)
        number = np.minimum(number, number[number])
        if np.array_equal(number, before):
            return number


def touching(mask: Mask, seed: Mask, least: float = 0.0) -> Mask:
    """The pieces of a mask that overlap a seed, by at least a share of their own area."""
    found = pieces(mask)
    area = np.bincount(found.ravel())
    common = np.bincount(found[seed], minlength=len(area))
    keep = (common > 0) & (common >= least * area)
    keep[0] = False
    return keep[found]


def filled(mask: Mask, largest: int) -> Mask:
    """Without holes of up to ``largest`` pixels."""
    found = pieces(~mask)
    area = np.bincount(found.ravel())
    edge = np.concatenate([found[0], found[-1], found[:, 0], found[:, -1]])
    small = area <= largest
    small[edge] = False
    small[0] = False
    return mask | small[found]


def barriers(picture: NDArray[np.uint8], outside: Mask, weights: Plane) -> Plane:
    """How much colour must change on the easiest way from the outside to each pixel.

    Steps as small as most of those outside cost nothing, so that a texture is no barrier. Each
    round takes the easiest way along whole rows and columns: a running minimum.
    """
    smooth = np.stack([box_mean(picture[:, :, k], 1) for k in range(3)], axis=2)
    steps = [np.abs(np.diff(smooth, axis=axis)) @ weights for axis in (0, 1)]
    usual = [np.percentile(own, 75) if own.size else 0.0 for own in steps]  # of one line: none
    for axis, there in enumerate((outside[1:], outside[:, 1:])):
        if there.sum() > 16:
            usual[axis] = np.percentile(steps[axis][there], 75)
    walls = []
    for axis in (0, 1):
        wall = np.maximum(steps[axis] - usual[axis], 0)
        walls.append(np.cumsum(np.insert(wall, 0, 0, axis=axis), axis=axis))
    result = np.where(outside, 0.0, 1e6)
    for _ in range(24):
        before = result
        for axis in (0, 1):
            wall = walls[axis]
            result = np.minimum(result, wall + np.minimum.accumulate(result - wall, axis=axis))
            back = np.minimum.accumulate(np.flip(result + wall, axis), axis=axis)
            result = np.minimum(result, np.flip(back, axis) - wall)
        if np.abs(before - result).max() < 0.01:
            break
    return result.astype(np.float32)
