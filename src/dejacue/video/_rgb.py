"""Frames of FFmpeg as RGB, upright: made when they are asked for, all of a frame or a part.

Where an object takes a tenth of the frame, a tenth is converted. Parts begin and end where the
converter's groups of pixels do, so that they have the pixels of the whole; the first one of every
video is compared with the whole, and if it differs none is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import lacks_memory
from dejacue.video._sampling import Unreadable
from dejacue.video.sizes import check_size

PLANAR_FORMATS = ("yuv420p", "yuvj420p")  # a part of a frame is a part of each plane
GROUP_PIXELS = 64  # converted together, or a multiple of it


class LazyFrame:
    """A decoded frame in its own colours; safe in any thread."""

    def __init__(self, frame: Any, converter: DisplayConverter) -> None:
        self._frame, self._converter = frame, converter
        self.shape: tuple[int, int] = (frame.height, frame.width)

    @property
    def nbytes(self) -> int:
        return sum(plane.buffer_size for plane in self._frame.planes)

    def image(self) -> NDArray[np.uint8]:
        return _rgb(self._frame)

    def part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[NDArray[np.uint8], int, int]:
        """Return RGB of at least these rows and columns, and the row and column of its start."""
        if self._converter.parts_equal is False:
            return self.image(), 0, 0
        pixels, top, left = self._part(y0, y1, x0, x1)
        if self._converter.parts_equal is None and pixels.shape[:2] != self.shape:
            whole = self.image()
            same = whole[top : top + pixels.shape[0], left : left + pixels.shape[1]]
            self._converter.parts_equal = bool(np.array_equal(pixels, same))
            return whole, 0, 0
        return pixels, top, left

    def _part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[NDArray[np.uint8], int, int]:
        import av

        frame = self._frame
        top, left = y0 // 2 * 2, x0 // GROUP_PIXELS * GROUP_PIXELS
        height = min(frame.height - top, -(-(y1 - top) // 2) * 2)
        width = min(frame.width - left, -(-(x1 - left) // GROUP_PIXELS) * GROUP_PIXELS)
        part: Any = av.VideoFrame(width, height, frame.format.name)
        for at, (plane, target) in enumerate(zip(frame.planes, part.planes, strict=True)):
            step = 2 if at else 1  # colours have half of the rows and columns
            rows, columns = -(-height // step), -(-width // step)
            y, x = top // step, left // step
            _array(target)[:rows, :columns] = _array(plane)[y : y + rows, x : x + columns]
        part.colorspace, part.color_range = frame.colorspace, frame.color_range
        return _rgb(part), top, left


def _array(plane: Any) -> NDArray[np.uint8]:
    return np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)


def _rgb(frame: Any) -> NDArray[np.uint8]:
    """Convert a frame with a new converter: one of many threads cannot be shared."""
    from av.video.reformatter import VideoReformatter

    converted: Any = VideoReformatter().reformat(frame, format="rgb24", threads=1)
    rows = _array(converted.planes[0])[:, : 3 * frame.width]  # copied only if they are longer
    return rows.reshape(frame.height, frame.width, 3)


class DisplayConverter:
    """Converts frames to RGB, turned and mirrored by the display matrix."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        self._converter = VideoReformatter()  # one for all frames: its setup is slow
        self._matrices: dict[int, list[int] | None] = {}  # by rotation
        self.parts_equal: bool | None = None  # whether parts have the pixels of the whole

    def rgb(self, frame: Any) -> NDArray[np.uint8]:
        import av

        if frame.is_corrupt:
            raise Unreadable("damaged data")
        check_size(frame.width, frame.height)
        try:
            image = self._converter.reformat(frame, format="rgb24").to_ndarray()
        except (av.FFmpegError, ValueError) as error:
            if lacks_memory(error):
                raise
            raise Unreadable(f"pixel format {frame.format.name}: {error}") from None
        matrix = self._matrix(frame)
        if matrix is None:
            return np.ascontiguousarray(image)
        # a pixel at (x, y) is shown at (a x + c y, b x + d y); only quarter turns are honoured
        a, b, _, c, d = matrix
        if abs(a) >= abs(b):
            image = image[:: 1 if d >= 0 else -1, :: 1 if a >= 0 else -1]
        else:
            image = image.swapaxes(0, 1)[:: 1 if b >= 0 else -1, :: 1 if c >= 0 else -1]
        return np.ascontiguousarray(image)

    def lazy(self, frame: Any) -> LazyFrame | None:
        """Return the frame, of which parts are converted when they are asked for; None where that
        would not give the same pixels."""
        if frame.is_corrupt:
            raise Unreadable("damaged data")
        if (
            frame.format.name not in PLANAR_FORMATS or frame.height % 2
        ):  # odd ones convert otherwise
            return None
        if self._matrix(frame) is not None:
            return None
        check_size(frame.width, frame.height)
        return LazyFrame(frame, self)

    def _matrix(self, frame: Any) -> list[int] | None:
        # reading a frame's side data puts it in a reference cycle that the garbage collector frees
        # only hundreds of frames later; so it is read once, and again if the rotation changes
        rotation = frame.rotation
        if rotation not in self._matrices:
            data = frame.side_data.get("DISPLAYMATRIX")
            self._matrices[rotation] = data and np.frombuffer(data, np.int32)[:5].tolist()
        return self._matrices[rotation]
