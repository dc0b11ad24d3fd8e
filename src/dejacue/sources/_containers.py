"""Video files as a source of pictures: PyAV, so whatever FFmpeg reads.

A frame's ordinal counts the frames in the order in which they are shown, not stored. Its time is
its presentation timestamp less the start time of the stream, so zero is where the stream starts,
usually its first frame; it is never computed from a frame rate.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line
from dejacue.sources._display import DisplayConverter
from dejacue.sources._sampling import Picture, Sampling, Unreadable
from dejacue.sources.sizes import check_size

_SLACK_S = 0.5  # headers round; a stream that ends this much early is not called truncated


class _Damage(Exception):
    """Decoding failed while several frames were being decoded in parallel."""


class Container:
    """The first video stream of a file that is not a cover picture."""

    def __init__(self, path: Path, threads: int | None = None, hardware: bool = False) -> None:
        self.path, self.name, self._threads, self._hardware = path, path.stem, threads, False
        stat = path.stat()
        if stat.st_size == 0:
            raise InputError("is empty (0 bytes); copy or record it again")
        self.identity = [(path.name, stat.st_size, stat.st_mtime_ns)]
        with self.opened() as container:
            stream = video_stream(container)
            check_size(stream.codec_context.width, stream.codec_context.height)
            self.rate = float(stream.average_rate) if stream.average_rate else None
            self._seconds = (container.duration or 0) / 1e6
            self._count = stream.frames  # 0 where the format has no such field
            if "mp4" in container.format.name:  # its index knows of fragments and edit lists
                self._count = sum(not entry.is_discard for entry in stream.index_entries)
        if hardware:
            self._try_hardware()

    def expected(self, sampling: Sampling) -> int | None:
        """How many frames will be taken, as far as the header says."""
        about = self._seconds * (self.rate or 0)
        if about and self._count and (sampling.start or 0) >= max(self._count, about):
            raise InputError(
                f"start {sampling.start} is past the last of its {self._count} frames; give at "
                f"most {self._count - 1}"
            )
        count = self._count or round(about)
        return sampling.expected(count, self.rate) if count else None

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        """All frames in order, as a stream; one that cannot be decoded keeps its place."""
        given = 0
        with closing(self._decode("AUTO", report)) as fast:
            try:
                for picture in fast:
                    given += 1
                    yield picture
                return
            except _Damage:
                pass  # threads may lose good frames next to a bad one: decode again, one at a time
        with closing(self._decode("SLICE", report)) as exact:
            yield from itertools.islice(exact, given, None)

    def _decode(self, threads: str, report: Callable[[str], None]) -> Generator[Picture]:
        import av

        with self.opened() as container:
            stream = video_stream(container)
            stream.thread_type = threads
            if self._threads is not None or self._hardware:
                stream.codec_context.thread_count = 1 if self._hardware else self._threads
            end = _StreamEnd(container, stream)
            timestamps = _Timestamps()
            converter = DisplayConverter(self._hardware)
            for packet in end.packets():
                timestamps.feed(packet)
                frames: list[Any] = []
                try:
                    frames = stream.decode(packet)
                except av.FFmpegError:
                    if threads != "SLICE":
                        raise _Damage from None
                    timestamps.fail(packet)
                for frame in frames:
                    for missing in timestamps.missing_before(frame):
                        yield Picture(end.time_s(missing), None, _lost)
                    yield Picture(
                        end.time_s(frame.pts),
                        None,
                        partial(converter.rgb, frame),
                        partial(converter.late, frame),
                    )
            if timestamps.waiting and threads != "SLICE":
                raise _Damage  # an error at the very end is swallowed, and its neighbours with it
            for missing in timestamps.missing_at_end():
                yield Picture(end.time_s(missing), None, _lost)
            if shortfall := end.shortfall():
                report(shortfall)

    def _try_hardware(self) -> None:
        """Decodes one frame on the GPU, or says why not."""
        import av

        self._hardware = True
        try:
            with self.opened() as container:
                stream = video_stream(container)
                next(container.decode(stream))
                found = stream.codec_context.is_hwaccel
            reason = "" if found else f"not for {stream.codec_context.name}"
        except (av.FFmpegError, InputError, RuntimeError, NotImplementedError, ValueError) as error:
            reason = first_line(error)
        if reason:
            raise InputError(f"cannot be decoded on this GPU ({reason}); use the software decoder")

    def opened(self) -> Any:
        import av
        from av.codec.hwaccel import HWAccel

        gpu = HWAccel("cuda", allow_software_fallback=False) if self._hardware else None
        try:
            # a colon in a name is not a protocol; titles may be in any encoding, and are not read
            container = av.open(f"file:{self.path}", metadata_errors="replace", hwaccel=gpu)
        except av.FFmpegError as error:
            if self._hardware:
                raise
            raise InputError(
                f"is not a video, or is truncated before its index ({error.strerror}); try it in "
                "a player, or copy it again"
            ) from None
        if container.format.name == "tty":  # FFmpeg renders any text file as video
            container.close()
            raise InputError("is text, not a video")
        return container


class _Timestamps:
    """What was fed to the decoder and has not come out.

    A packet may rightly give no frame (a hidden reference, the far side of an edit list), so a
    timestamp that is passed over is a lost frame only from an error on, to the next key frame.
    """

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self._broken: int | None = None  # the latest timestamp that failed
        self._unstamped = 0  # failures without one

    def feed(self, packet: Any) -> None:
        if packet.pts is not None and not packet.is_discard:
            heapq.heappush(self.waiting, packet.pts)

    def fail(self, packet: Any) -> None:
        if packet.pts is None:
            self._unstamped += 1
        else:
            self._broken = max(packet.pts, packet.pts if self._broken is None else self._broken)

    def missing_before(self, frame: Any) -> list[int | None]:
        """The frames that should have come before this one, which came."""
        passed = []
        while self.waiting and frame.pts is not None and self.waiting[0] < frame.pts:
            passed.append(heapq.heappop(self.waiting))
        if self.waiting and self.waiting[0] == frame.pts:
            heapq.heappop(self.waiting)
        missing = self._lost(passed)
        if self._broken is not None and frame.key_frame and (frame.pts or 0) > self._broken:
            self._broken = None
        return missing

    def missing_at_end(self) -> list[int | None]:
        return self._lost(sorted(self.waiting))

    def _lost(self, passed: list[int]) -> list[int | None]:
        unstamped, self._unstamped = self._unstamped, 0
        return [None] * unstamped + (list(passed) if self._broken is not None else [])


class _StreamEnd:
    """How far a pass has read, and how far the header says it should."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._container, self._stream = container, stream
        self._zero = stream.start_time
        self._fed, self._last = 0, 0
        self._failure = ""
        kind = container.format.name
        self._packets = len(stream.index_entries) if "mp4" in kind else 0  # the index is complete
        self._seconds = _clock_time(stream.metadata.get("DURATION", ""))  # Matroska
        if kind == "avi" and stream.average_rate:
            self._seconds = float(stream.frames / stream.average_rate)

    def packets(self) -> Iterator[Any]:
        """The packets of the stream, and finally an empty one that flushes the decoder."""
        import av

        try:
            for packet in self._container.demux(self._stream):
                if packet.size:
                    self._fed += 1
                    if packet.pts is not None:
                        self._last = max(self._last, packet.pts + (packet.duration or 0))
                    yield packet
        except av.FFmpegError as error:
            self._failure = f"cannot be read further ({error.strerror})"
        yield av.Packet()

    def time_s(self, pts: int | None) -> float | None:
        if pts is None:
            return None
        self._zero = pts if self._zero is None else self._zero
        base = self._stream.time_base
        return float((pts - self._zero) * base.numerator / base.denominator)

    def shortfall(self) -> str:
        """What is wrong where the file ends before its header says; else nothing."""
        last_s = float(self._last * self._stream.time_base)
        slack_s = max(_SLACK_S, 2 / (self._stream.average_rate or 1))
        if self._failure:
            return f"stops at {last_s:.3f} s and {self._failure}"
        if self._fed < self._packets:
            return (
                f"stops at {last_s:.3f} s, after {self._fed} of {self._packets} frames: the file "
                "is truncated"
            )
        if last_s + slack_s < self._seconds:
            return f"stops at {last_s:.3f} of {self._seconds:.3f} s: the file is truncated"
        return ""


def _clock_time(text: str) -> float:
    """Seconds of "00:01:02.5", 0 for anything else."""
    try:
        hours, minutes, seconds = text.split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return 0.0


def video_stream(container: Any) -> Any:
    from av.stream import Disposition

    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic and stream.codec_context:
            return stream
    what = "only sound" if container.streams.audio else "no video that FFmpeg can decode"
    raise InputError(f"has {what}; give a file with a video stream")


def _lost() -> NDArray[np.uint8]:
    raise Unreadable("damaged data")
