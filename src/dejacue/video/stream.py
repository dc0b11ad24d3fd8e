"""Cameras and network streams as a Video: read once, as they come, through PyAV.

    camera:0        /dev/video0 on Linux, the first camera of AVFoundation on a Mac
    rtsp://…, http://…, udp://…, …   what FFmpeg opens

There is no going back, so a stream that fails ends: ``Video.problems`` says why.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any

from dejacue.errors import InputError, in_file
from dejacue.video._containers import video_stream
from dejacue.video._rgb import DisplayConverter
from dejacue.video._sampling import FrameChoice, Picture
from dejacue.video.video import Video

CAMERA = "camera:"
TIMEOUT_S = 10.0
_ADDRESS = re.compile(r"[a-z][a-z0-9+.]+://", re.IGNORECASE)
_SECRET = re.compile(r"(?<=://)[^/@]*@")  # user and password
_DEVICES = {"linux": ("v4l2", "/dev/video{}"), "darwin": ("avfoundation", "{}")}


def is_stream(name: str) -> bool:
    """Return whether a name is a camera or an address, not a file.

    >>> is_stream("camera:0"), is_stream("rtsp://camera.local/1"), is_stream("cup.mp4")
    (True, True, False)
    """
    return name.startswith(CAMERA) or _ADDRESS.match(name) is not None


def open_stream(name: str, *, fps: float | None = None, timeout_s: float = TIMEOUT_S) -> Video:
    """Open a camera or an address, whose frames are iterated once.

    fps         take this many frames a second
    timeout_s   without a frame for so long, it has ended

    >>> open_stream("rtsp://name:secret@camera.local/1", fps=5).path  # opened when it is iterated
    'rtsp://camera.local/1'
    """
    public = _SECRET.sub("", name)  # what is written and said of it is no place for a password
    with in_file(public):
        if not timeout_s > 0:
            raise InputError(f"the timeout {timeout_s} must be more than 0 seconds")
        return Video(public, Stream(name, timeout_s), FrameChoice(fps=fps), "skip", public)


class Stream:
    """A ``Source`` whose pictures come once, as they are sent."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.identity: list[tuple[str, int, int]] = []
        self.name = "camera" if address.startswith(CAMERA) else "stream"
        self._timeout_s = timeout_s
        self._device: tuple[str | None, str] = (None, address)
        if address.startswith(CAMERA):
            self._device = _device(address.removeprefix(CAMERA))

    def expected(self, sampling: FrameChoice) -> int | None:
        return None

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        import av

        with closing(self._open()) as container:
            stream = video_stream(container)
            stream.thread_type = "SLICE"  # threads over frames would hold some of them back
            converter = DisplayConverter()
            zero = None
            for packet in self._packets(container, stream, report):
                try:
                    frames = stream.decode(packet)
                except av.FFmpegError:
                    continue  # part of it was lost on the way; the next key frame mends it
                for frame in frames:
                    time_s = None if frame.pts is None else float(frame.pts * stream.time_base)
                    zero = time_s if zero is None else zero
                    since = None if time_s is None or zero is None else time_s - zero
                    yield Picture(since, None, partial(converter.rgb, frame))

    def _packets(
        self, container: Any, stream: Any, report: Callable[[str], None]
    ) -> Generator[Any]:
        """Yield packets until the stream ends or fails; finally one that empties the decoder."""
        import av

        try:
            yield from (packet for packet in container.demux(stream) if packet.size)
        except av.error.ExitError:
            report(
                f"no frame arrived for {self._timeout_s:g} s, so the stream was taken to have ended"
            )
        except (av.FFmpegError, OSError) as error:
            report(f"the stream was interrupted ({error.strerror})")
        yield None

    def _open(self) -> Any:
        import av

        try:
            kind, place = self._device
            options = {"rtsp_transport": "tcp"} if place.startswith("rtsp") else {}
            known: Any = {"timeout": self._timeout_s, "metadata_errors": "replace"}
            return av.open(place, format=kind, options=options, **known)
        except av.error.ExitError:
            problem = f"does not answer within {self._timeout_s:g} s"
            raise InputError(f"{problem}; check the address") from None
        except (av.FFmpegError, ValueError, OSError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot be opened ({reason}); check the address") from None


def _device(number: str) -> tuple[str, str]:
    if not (number.isascii() and number.isdecimal()):
        raise InputError("a camera has a number, such as camera:0")
    if sys.platform not in _DEVICES:
        remedy = "give the address of a stream"
        raise InputError(f"cameras are only supported on Linux and macOS; {remedy}")
    kind, place = _DEVICES[sys.platform]
    return kind, place.format(number)
