"""How the object and what is behind it moved between two frames.

First the whole object is laid over the new frame at every place (on a small picture, by Fourier
transforms), so that a fast one is not lost; then FFmpeg's block matching gives what is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.tracks.base import Mask
from dejacue.sources.tracks.light_regions import Plane, box_mean

BLOCK = 8  # pixels
FASTEST = 16  # pixels that block matching looks around, after the shift of the whole object
LEAST_SEEN = 0.2  # of the object must be in the picture
WEIGHTS = np.array([0.6, 1.0, 1.0], dtype=np.float32)  # brightness changes more than colour

Picture = NDArray[np.uint8]  # (H, W, 3) YCbCr
Shift = tuple[int, int]  # down, right
Shifts = NDArray[np.intp]  # (H, W, 2)


def overlaps(shape: Plane, maps: list[Plane]) -> list[NDArray[Any]]:
    """For each map, the sum of it under the shape, at every shift (see shift_at) of the shape;
    beyond the picture maps are zero."""
    size = (_even(2 * maps[0].shape[0]), _even(2 * maps[0].shape[1]))
    base = np.conj(np.fft.rfft2(shape, size))
    return [np.fft.irfft2(base * np.fft.rfft2(values, size), size) for values in maps]


def _even(length: int) -> int:
    """A length that transforms quickly: 2, 3 or 5 times a power of two, or so."""
    while True:
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return length
        length += 1


def shift_at(index: int, size: tuple[int, int]) -> Shift:
    """The shift that a position in the result of a transform means."""
    down, right = divmod(index, size[1])
    return (
        down - size[0] if down > size[0] // 2 else down,
        right - size[1] if right > size[1] // 2 else right,
    )


def distances(size: tuple[int, int], start: tuple[float, float] = (0.0, 0.0)) -> Plane:
    """How far each shift is from one to start with, squared."""
    squares = []
    for length, first in zip(size, start, strict=True):
        ways = np.arange(length)
        squares.append((np.where(ways > length // 2, ways - length, ways) - first) ** 2)
    return (squares[0][:, None] + squares[1][None]).astype(np.float32)


def whole_shift(before: Plane, now: Plane, mask: Plane, like: Plane) -> Shift:
    """The shift of the whole object, in pixels of the small pictures (H, W, 3, float).

    The smallest mean square difference wins, where a longer way costs a little; none at all is
    kept unless another is clearly better, and ``like`` (the object's colours, −1 to 1) says that
    it is no worse there: an object that lights up has not gone.
    """
    height, width = mask.shape
    size = (_even(2 * height), _even(2 * width))
    ones = np.fft.rfft2(np.ones((height, width), np.float32), size)
    under = np.conj(np.fft.rfft2(mask, size))
    seen = np.fft.irfft2(under * ones, size)
    alike = np.fft.irfft2(under * np.fft.rfft2(like, size), size) / np.maximum(seen, 1e-3)
    squares = under * np.fft.rfft2((now * now).sum(axis=2), size)
    squares += np.conj(np.fft.rfft2(mask * (before * before).sum(axis=2), size)) * ones
    for k in range(3):
        here = np.conj(np.fft.rfft2(mask * before[:, :, k], size))
        squares -= 2 * here * np.fft.rfft2(now[:, :, k], size)
    difference = np.fft.irfft2(squares, size)
    area = float(mask.sum())
    allowed = (seen >= LEAST_SEEN * area) & (alike >= max(float(alike[0, 0]) - 0.02, 0.1))
    cost = np.maximum(difference / np.maximum(seen, 1e-3), 0) + 4
    reach = max(area, 1.0)  # about the square of the object's size
    costly = cost * (1 + 0.1 * distances(size) / reach) + 0.1 * cost[0, 0] * (seen < 0.9 * area)
    costly = np.where(allowed, costly, np.inf)
    best = int(costly.argmin())
    if costly.flat[best] > 0.75 * cost[0, 0]:
        return 0, 0
    return shift_at(best, size)


def block_shifts(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> Shifts:
    """(rows, columns, 2): from each block of the new picture (H, W), the way back to where it was.

    Sides must be multiples of BLOCK.
    """
    import av
    from av.filter import Graph

    height, width = now.shape
    graph = Graph()
    source = graph.add(
        "buffer", f"video_size={width}x{height}:pix_fmt=gray:time_base=1/25:pixel_aspect=1/1"
    )
    search = graph.add("mestimate", f"method=epzs:mb_size={BLOCK}:search_param={FASTEST}")
    sink = graph.add("buffersink")
    source.link_to(search)
    search.link_to(sink)
    graph.configure()
    # The filter gives each frame with the ways to the one before and the one after it, but the
    # first only once the second is there: of before, now, now it is the second answer that counts.
    found: Any = None
    for time, picture in enumerate((before, now, now)):
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="gray")
        frame.pts = time
        source.push(frame)
        if time:
            found = sink.pull()
    vectors = found.side_data.get("MOTION_VECTORS").to_ndarray()
    vectors = vectors[vectors["source"] == -1]
    shifts = np.zeros((height // BLOCK, width // BLOCK, 2), dtype=np.intp)
    row, column = vectors["dst_y"] // BLOCK, vectors["dst_x"] // BLOCK
    shifts[row, column, 0] = vectors["src_y"].astype(np.intp) - vectors["dst_y"]
    shifts[row, column, 1] = vectors["src_x"].astype(np.intp) - vectors["dst_x"]
    return shifts


def carried(
    before: Picture, now: Picture, soft: Plane, sharp: Mask, shift: Shift = (0, 0)
) -> tuple[Plane, Plane, Shift]:
    """The object's place in the new picture as its pixels moved, 0 to 1, how badly the best
    explanation fits each pixel (mean difference of colour), and how far most of it moved.

    Each pixel takes the best of several ways: with the object, with the rest, with its block, or
    not at all (``before`` is already moved by the shift). A block that goes its own way must fit
    much better: colours that come up in the object may be found somewhere behind it.
    """
    height, width = sharp.shape
    shifts = block_shifts(before[:, :, 0], now[:, :, 0])
    inside = sharp.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK).mean(axis=(1, 3))
    own, rest = _typical(shifts, inside > 0.6), _typical(shifts, inside < 0.1)
    alone = np.minimum(np.abs(shifts - own).sum(axis=2), np.abs(shifts - rest).sum(axis=2))
    ways: list[tuple[Shifts, NDArray[Any] | float]] = [
        (own, 0.0),
        (rest, 0.0),
        (_spread(shifts), 1.0 + 0.5 * _spread(alone)),
    ]
    if shift != (0, 0):
        ways.append((np.array(shift, dtype=np.intp)[None, None], 0.0))
    y, x = np.arange(height)[:, None], np.arange(width)[None]
    place, total = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    misfit = np.full((height, width), np.inf, np.float32)
    bright = now.astype(np.float32)
    for way, extra in ways:
        at = np.clip(y + way[..., 0], 0, height - 1), np.clip(x + way[..., 1], 0, width - 1)
        difference = np.abs(bright - before[at]) @ WEIGHTS
        difference = box_mean(difference, 2) + np.asarray(extra, np.float32)
        misfit = np.minimum(misfit, difference)
        weight = np.exp(-difference / 3)
        place += weight * soft[at]
        total += weight
    place = np.where(total > 1e-9, place / np.maximum(total, 1e-9), soft)
    return place.astype(np.float32), misfit, (-int(own[0, 0, 0]), -int(own[0, 0, 1]))


def _spread(blocks: NDArray[Any]) -> NDArray[Any]:
    """A value of each block → of each pixel."""
    return np.repeat(np.repeat(blocks, BLOCK, axis=0), BLOCK, axis=1)


def _typical(shifts: Shifts, chosen: Mask) -> Shifts:
    """The median way of the chosen blocks, or none."""
    if not chosen.any():
        return np.zeros((1, 1, 2), dtype=np.intp)
    found: Shifts = np.rint(np.median(shifts[chosen], axis=0)).astype(np.intp)[None, None]
    return found
