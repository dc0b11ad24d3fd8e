"""Decoded frames as they are displayed: RGB and upright, all of a frame or the part that is needed.

Where an object takes a tenth of the frame, a tenth is converted. Parts begin and end where the
converter's groups of pixels do, so that they have the pixels of the whole; the first one of every
video is compared with the whole, and if it differs none is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import lacks_memory
from dejacue.sources._sampling import Unreadable
from dejacue.sources.sizes import check_size

PLANES = ("yuv420p", "yuvj420p")  # formats of which a part is a part of each plane
HARDWARE = "nv12"  # the format of frames that a GPU decoded: the same numbers, laid out otherwise
GROUP = 64  # pixels that are converted together, or a multiple


class Undisplayed:
    """A decoded frame in its own colours; safe in any thread."""

    def __init__(self, frame: Any, converter: DisplayConverter) -> None:
        self._frame, self._converter = frame, converter
        self._planes = _planes(frame)
        self.shape: tuple[int, int] = (frame.height, frame.width)
        self.nbytes: int = sum(plane.buffer_size for plane in frame.planes)

    def image(self) -> NDArray[np.uint8]:
        if self._frame.format.name == HARDWARE:
            return self._part(0, self.shape[0], 0, self.shape[1])[0]
        return _rgb(self._frame)

    def part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[NDArray[np.uint8], int, int]:
        """RGB of at least these rows and columns, and the row and column where it begins."""
        if self._converter.parts_equal is False:
            return self.image(), 0, 0
        found = self._part(y0, y1, x0, x1)
        pixels, top, left = found
        if self._converter.parts_equal is None and pixels.shape[:2] != self.shape:
            whole = self.image()
            same = whole[top : top + pixels.shape[0], left : left + pixels.shape[1]]
            self._converter.parts_equal = bool(np.array_equal(pixels, same))
            return whole, 0, 0
        return found

    def _part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[NDArray[np.uint8], int, int]:
        import av

        frame = self._frame
        top, left = y0 // 2 * 2, x0 // GROUP * GROUP
        height = min(frame.height - top, -(-(y1 - top) // 2) * 2)
        width = min(frame.width - left, -(-(x1 - left) // GROUP) * GROUP)
        name = PLANES[0] if frame.format.name == HARDWARE else frame.format.name
        part: Any = av.VideoFrame(width, height, name)
        for at, (plane, own) in enumerate(zip(self._planes, part.planes, strict=True)):
            step = 2 if at else 1  # colours have half of the rows and columns
            rows, columns = -(-height // step), -(-width // step)
            y, x = top // step, left // step
            _array(own)[:rows, :columns] = plane[y : y + rows, x : x + columns]
        part.colorspace, part.color_range = frame.colorspace, frame.color_range
        return _rgb(part), top, left


def _planes(frame: Any) -> list[NDArray[np.uint8]]:
    """Brightness and two colours; a GPU gives the colours side by side."""
    found = [_array(plane) for plane in frame.planes]
    if frame.format.name == HARDWARE:
        found = [found[0], found[1][:, ::2], found[1][:, 1::2]]
    return found


def _array(plane: Any) -> NDArray[np.uint8]:
    return np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)


def _rgb(frame: Any) -> NDArray[np.uint8]:
    """With a converter of its own: one of many threads cannot be shared."""
    from av.video.reformatter import VideoReformatter

    made: Any = VideoReformatter().reformat(frame, format="rgb24", threads=1)
    return np.ascontiguousarray(made.to_ndarray())


class DisplayConverter:
    """Frames as they are displayed: RGB, turned and mirrored by the display matrix."""

    def __init__(self, hardware: bool = False) -> None:
        from av.video.reformatter import VideoReformatter

        self._converter = VideoReformatter()  # one for all frames: its setup is slow
        self._matrices: dict[int, list[int] | None] = {}  # by rotation
        self._hardware = hardware
        self.parts_equal: bool | None = None  # whether parts have the pixels of the whole

    def rgb(self, frame: Any) -> NDArray[np.uint8]:
        import av

        if frame.is_corrupt:
            raise Unreadable("damaged data")
        check_size(frame.width, frame.height)
        try:
            if self._hardware and frame.format.name == HARDWARE and not frame.height % 2:
                image: Any = Undisplayed(frame, self).image()
            else:
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

    def late(self, frame: Any) -> Undisplayed | None:
        """The frame, of which parts are converted when they are asked for; None where that would
        not give the same pixels."""
        if frame.is_corrupt:
            raise Unreadable("damaged data")
        known = (*PLANES, HARDWARE) if self._hardware else PLANES
        if frame.format.name not in known or frame.height % 2:  # odd ones are converted otherwise
            return None
        if self._matrix(frame) is not None:
            return None
        check_size(frame.width, frame.height)
        return Undisplayed(frame, self)

    def _matrix(self, frame: Any) -> list[int] | None:
        # reading a frame's side data puts it in a reference cycle that the garbage collector frees
        # only hundreds of frames later; so it is read once, and again if the rotation changes
        rotation = frame.rotation
        if rotation not in self._matrices:
            found = frame.side_data.get("DISPLAYMATRIX")
            self._matrices[rotation] = found and np.frombuffer(found, np.int32)[:5].tolist()
        return self._matrices[rotation]
