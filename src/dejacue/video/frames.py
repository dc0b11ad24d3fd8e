"""Any frame of a video by its number: the right one by its own time stamp, not by a frame rate.

A file is looked through once for the stamps of its frames (without decoding where the format allows
it); then a frame is decoded from the key frame before it. Images are opened by their place.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, in_file
from dejacue.video._containers import Container, DisplayConverter, video_stream
from dejacue.video._packets import STAMPED_FORMATS
from dejacue.video._sampling import Unreadable
from dejacue.video.images import images_in, is_image, read_rgb

HIDING_CODECS = ("vp8",)  # codecs whose packets may show nothing
MAX_SIDE = 4096  # pixels of a picture that is sent


class FileFrames:
    """Decodes the frames of a video file. One thread at a time decodes; others wait.

    width, height   as it is shown
    pixel_aspect   width of a pixel by its height
    times_s   of each frame since the start of the stream, as a Video gives them
    start_s   when the stream starts, as players count
    codec, format   as FFmpeg names them
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._source = Container(path)
        self._container: Any = None
        with self._source.opened() as container:
            stream = video_stream(container, self._source.number)
            self.codec, self.format = stream.codec_context.name, container.format.name
            self.width, self.height = stream.codec_context.width, stream.codec_context.height
            self.pixel_aspect = float(stream.sample_aspect_ratio or 1)
            self._zero, self._base = stream.start_time, stream.time_base
            stamps = _stamps(container, stream)
        if stamps is None:
            stamps = self._decoded_stamps()
        self._pts, self._keys = stamps
        if not self._pts:
            raise InputError(f"{path}: none of its frames can be decoded; re-encode it")
        if self._zero is None:
            self._zero = self._pts[0]
        self.start_s = float(self._zero * self._base)
        self.times_s = (np.array(self._pts) - self._zero) * float(self._base)
        with contextlib.suppress(InputError):  # as it is shown, which may be turned
            coded = self.width, self.height
            self.height, self.width = self.image(0).shape[:2]
            if (self.width, self.height) != coded:
                self.pixel_aspect = 1 / self.pixel_aspect

    def __len__(self) -> int:
        return len(self._pts)

    def name(self, number: int) -> str | None:
        return None

    def image(self, number: int) -> NDArray[np.uint8]:
        """Return (H, W, 3) RGB, upright; refuse a frame that is not there or cannot be decoded."""
        _check(self.path, number, len(self))
        with self._lock, in_file(self.path):
            try:
                return self._converter().rgb(self._frame(self._pts[number], number))
            except Unreadable as reason:
                raise InputError(f"frame {number} cannot be decoded ({reason})") from None

    def close(self) -> None:
        with self._lock:
            if self._container is not None:
                self._container.close()
                self._container = None

    def _converter(self) -> DisplayConverter:
        if self._container is None:
            self._container = self._source.opened()
            self._stream = video_stream(self._container, self._source.number)
            self._stream.thread_type = "AUTO"
            self._display = DisplayConverter()
            self._decoding: Iterator[Any] = iter(())
            self._last: int | None = None  # the stamp that came last
        return self._display

    def _frame(self, stamp: int, number: int) -> Any:
        """Decode the frame of this stamp: on from the last one, or from a key frame before it."""
        at = bisect.bisect_right(self._keys, stamp) - 1
        ahead = self._last is not None and self._last < stamp
        if ahead and (at < 0 or self._keys[at] <= (self._last or 0)):
            frame = self._decode_to(stamp)
            if frame is not None:
                return frame
        for key in [*self._keys[max(at - 2, 0) : at + 1][::-1], None]:
            self._seek(key)
            frame = self._decode_to(stamp)
            if frame is not None:
                return frame
        raise Unreadable(f"nothing is shown at {self.times_s[number]:.3f} s")

    def _seek(self, key: int | None) -> None:
        if key is None:  # from the very start, whatever its stamps
            self._container.close()
            self._container = None
            self._converter()
        else:
            self._container.seek(key, stream=self._stream)
        self._decoding, self._last = self._decoded(), None

    def _decoded(self) -> Iterator[Any]:
        import av

        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                yield from self._stream.decode(packet)
            except av.FFmpegError:
                continue  # what is damaged is passed over; its stamp will be missing

    def _decode_to(self, stamp: int) -> Any | None:
        for frame in self._decoding:
            if frame.pts is None:
                continue
            self._last = frame.pts
            if frame.pts >= stamp:
                return frame if frame.pts == stamp else None
        self._last = None
        return None

    def _decoded_stamps(self) -> tuple[list[int], list[int]]:
        """Return the stamps of a pass that decodes all: slow, and right for every format."""
        stamps: list[int] = []
        with closing(self._source.pictures(lambda sentence: None)) as pictures:
            for picture in pictures:
                if picture.time_s is None:
                    raise InputError(f"{self.path}: its frames have no timestamps; save it as .mp4")
                stamps.append(round(picture.time_s / float(self._base)) + (self._zero or 0))
        return stamps, []


def _stamps(container: Any, stream: Any) -> tuple[list[int], list[int]] | None:
    """Return the stamps of all frames and of key frames, sorted; None if packets do not tell."""
    if not any(kind in container.format.name for kind in STAMPED_FORMATS) or (
        stream.codec_context.name in HIDING_CODECS
    ):
        return None
    import av

    stamps, keys = [], []
    try:
        for packet in container.demux(stream):
            if packet.size and not packet.is_discard:
                if packet.pts is None:
                    return None
                stamps.append(packet.pts)
                if packet.is_keyframe:
                    keys.append(packet.pts)
    except av.FFmpegError:
        pass  # cut off: what is there can be shown
    return (sorted(stamps), sorted(keys)) if len(set(stamps)) == len(stamps) else None


class ImageFrames:
    """Reads the images of a folder, or a single one."""

    codec = format = "images"
    start_s, pixel_aspect = 0.0, 1.0
    times_s = None

    def __init__(self, path: Path) -> None:
        self.path = path
        with in_file(path):
            self._files = images_in(path) if path.is_dir() else [path]
        self.height, self.width = self.image(0).shape[:2]

    def __len__(self) -> int:
        return len(self._files)

    def name(self, number: int) -> str | None:
        return self._files[number].stem

    def image(self, number: int) -> NDArray[np.uint8]:
        _check(self.path, number, len(self))
        try:
            return read_rgb(self._files[number])
        except Unreadable as reason:
            raise InputError(f"{self._files[number]}: cannot be decoded ({reason})") from None

    def close(self) -> None:
        pass


Frames = FileFrames | ImageFrames


def open_frames(path: Path) -> Frames:
    """Open a video file or a folder of images, to get any of its frames."""
    with in_file(path):
        if os.path.isdir(path) or is_image(path):
            return ImageFrames(path)
        return FileFrames(path)


def _check(path: Path, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise InputError(f"{path}: has no frame {number}; its frames are 0 to {count - 1}")


def jpeg(image: NDArray[np.uint8], width: int | None = None) -> bytes:
    """Return a picture as JPEG, not wider than asked for."""
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((min(width or MAX_SIDE, MAX_SIDE), MAX_SIDE), reducing_gap=2.0)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=88)
    return stream.getvalue()
