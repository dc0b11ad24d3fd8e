"""Shots: where a video is cut, from the colours of frames that are decoded anyway.

A hard cut changes the colours of the whole picture between two frames, and they stay changed. A
flash changes them and they come back. Dissolves and fades are not found: their shots stay one.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from dejacue.records import Window
from dejacue.sources.tracks.doubts import colour_counts, colour_distance

SAMPLED_SIDE = 48  # about so many rows and columns of a frame are looked at
MIN_CHANGE = 0.3  # share of the pixels whose colour differs, between the frames around a cut …
MIN_RATIO = 3.0  # … and against the median of the shot's last changes: fast motion is no cut
PAST_CHANGES = 12
FLASH_S = 0.25  # colours that come back within this were no cut; no shot is shorter, either
FLASH_FRAMES = 3  # the same where frames have no times


class ShotDetector:
    """Takes one frame after another and tells the shots; holds two colour signatures, no frames."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._last = -1  # index of the frame that came last
        self._colours: NDArray[np.float64] | None = None  # of that frame
        self._changes: deque[float] = deque(maxlen=PAST_CHANGES)
        # a change that may be a flash: colours before it, its frame, its time, its count of frames
        self._pending: tuple[NDArray[np.float64], int, float | None, int] | None = None

    def add(self, index: int, time_s: float | None, image: NDArray[np.uint8]) -> None:
        """Take the next frame (H, W, 3 RGB)."""
        colours = frame_colours(image)
        if self._colours is None:
            self._starts.append(index)
        elif self._pending is not None:
            self._settle(index, time_s, colours)
        if self._colours is not None and self._pending is None:
            change = float(colour_distance(self._colours, colours))
            usual = float(np.median(self._changes)) if self._changes else 0.0
            if change >= max(MIN_CHANGE, MIN_RATIO * usual):
                self._pending = (self._colours, index, time_s, 0)
            else:
                self._changes.append(change)
        self._colours, self._last = colours, index

    def shots(self) -> list[Window]:
        """Return the shots so far, which cover all frames: indices, both ends included."""
        starts = self._starts + ([self._pending[1]] if self._pending is not None else [])
        ends = [start - 1 for start in starts[1:]] + [self._last]
        return [Window(start, end) for start, end in zip(starts, ends, strict=True)]

    def _settle(self, index: int, time_s: float | None, colours: NDArray[np.float64]) -> None:
        """Decide whether the pending change was a cut, a flash, or is not yet known."""
        assert self._pending is not None
        before, start, start_s, count = self._pending
        over = count + 1 >= FLASH_FRAMES
        if time_s is not None and start_s is not None:
            over = time_s - start_s > FLASH_S
        if over:
            self._starts.append(start)
            self._changes.clear()
            self._pending = None
        elif colour_distance(before, colours) < MIN_CHANGE / 2:
            self._colours = colours  # coming back is no cut either
            self._pending = None
        else:
            self._pending = (before, start, start_s, count + 1)


def frame_colours(image: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return (256,) shares of the colours in the quarters of a frame, of which every n-th pixel is
    taken: by quarters, cuts between places of similar colours differ more than motion does."""
    steps = [max(1, side // SAMPLED_SIDE) for side in image.shape[:2]]
    sampled = image[:: steps[0], :: steps[1]]
    below, right = (np.arange(side) >= (side + 1) // 2 for side in sampled.shape[:2])
    quarters = (2 * below[:, None] + right).astype(np.intp).ravel()
    pixels = np.bincount(quarters, minlength=4)
    counts = colour_counts(sampled.reshape(-1, 3), quarters, 4).reshape(4, -1)
    shares: NDArray[np.float64] = counts / np.maximum(pixels, 1)[:, None] / np.count_nonzero(pixels)
    return shares.ravel()
