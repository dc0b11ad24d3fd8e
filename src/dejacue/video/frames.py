"""Any frame of a video by its number: the same frame that a pass over the video counts so."""

from __future__ import annotations

import io
import itertools
import os
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, in_file
from dejacue.video._containers import Container, Decoder, Untrusted
from dejacue.video._rgb import DisplayConverter
from dejacue.video._sampling import Picture, Unreadable
from dejacue.video.images import Images, read_rgb
from dejacue.video.video import open_source

MAX_SIDE = 4096  # pixels of a picture that is sent


class Frames:
    """The frames of a video file, a folder of images or one image. One thread at a time decodes a
    file; others wait.

    width, height   as it is shown
    pixel_aspect    width of a pixel by its height
    times_s         of each frame since the start of the stream, as a Video gives them; None: images
    start_s         when the stream starts, as players count
    codec, format   as FFmpeg names them

    >>> frames = open_frames(Path("cup.mp4"))
    >>> len(frames), frames.width, frames.height, frames.codec, float(frames.times_s[20])
    (30, 64, 32, 'h264', 2.0)
    >>> frames.close()
    """

    codec = format = "images"
    start_s, pixel_aspect = 0.0, 1.0
    times_s: NDArray[np.float64] | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        with in_file(path):
            self._source = open_source(os.fspath(path))
            if isinstance(self._source, Container):
                self.codec, self.format = self._source.codec, self._source.format
                self.pixel_aspect = self._source.pixel_aspect
                coded = self.height, self.width = self._source.height, self._source.width
                self._count_frames(self._source)
                with suppress(InputError):  # as it is shown, which may be turned
                    self.height, self.width = self.image(0).shape[:2]
                    if (self.height, self.width) != coded:
                        self.pixel_aspect = 1 / self.pixel_aspect
            else:
                self._count = len(self._source.files)
                self.height, self.width = self.image(0).shape[:2]

    def _count_frames(self, source: Container) -> None:
        self.times_s, self.start_s = source.times_s(), source.start_s
        self._count = len(self.times_s)
        if not self._count:
            raise InputError("none of its frames can be decoded; re-encode it")
        if np.isnan(self.times_s).any():
            raise InputError("its frames have no timestamps; save it as .mp4")
        self._decoder, self._display = Decoder(source), DisplayConverter()
        # where packets do not tell the frames
        self._in_order: Generator[Picture] = source.pictures(lambda sentence: None)
        self._next = self._count

    def __len__(self) -> int:
        return self._count

    def name(self, number: int) -> str | None:
        return self._source.files[number].stem if isinstance(self._source, Images) else None

    def image(self, number: int) -> NDArray[np.uint8]:
        """Return (H, W, 3) RGB, upright; refuse a frame that is not there or cannot be decoded.

        >>> with closing(open_frames(Path("cup.mp4"))) as frames:
        ...     frames.image(20).shape
        (32, 64, 3)
        """
        with self._lock, in_file(self.path):
            try:
                if isinstance(self._source, Images):
                    self._check(number)
                    return read_rgb(self._source.files[number])
                try:
                    return self._decoded(number)
                except Untrusted:
                    self._source.distrust()
                    self._count_frames(self._source)
                    return self._decoded(number)
            except Unreadable as reason:
                raise InputError(f"frame {number} cannot be decoded ({reason})") from None

    def _decoded(self, number: int) -> NDArray[np.uint8]:
        self._check(number)
        if self._decoder.can_seek:
            frame = self._decoder.frame(number)
            if frame is None:
                raise Unreadable("damaged data")
            return self._display.rgb(frame)
        if number < self._next:
            assert isinstance(self._source, Container)
            self._in_order, self._next = self._source.pictures(lambda sentence: None), 0
        (picture,) = itertools.islice(self._in_order, number - self._next, number - self._next + 1)
        self._next = number + 1
        return picture.load()

    def _check(self, number: int) -> None:
        if not 0 <= number < self._count:
            raise InputError(f"has no frame {number}; its frames are 0 to {self._count - 1}")

    def close(self) -> None:
        with self._lock:
            if isinstance(self._source, Container):
                self._decoder.close()
                self._in_order.close()
                self._next = self._count
                self._source.close()


def open_frames(path: Path) -> Frames:
    """Open a video file, a folder of images or an image, to get any of its frames.

    >>> frames = open_frames(Path("pictures"))
    >>> frames.name(1), frames.image(1).shape
    ('cup2', (32, 64, 3))
    """
    return Frames(path)


def jpeg(image: NDArray[np.uint8], width: int | None = None) -> bytes:
    """Return a picture as JPEG, not wider than asked for.

    >>> jpeg(np.zeros((40, 90, 3), np.uint8), width=30)[:3]
    b'\\xff\\xd8\\xff'
    """
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((min(width or MAX_SIDE, MAX_SIDE), MAX_SIDE), reducing_gap=2.0)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=88)
    return stream.getvalue()
