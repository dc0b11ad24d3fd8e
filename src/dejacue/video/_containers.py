"""Video files as a source of pictures: PyAV, so whatever FFmpeg reads.

A frame's ordinal counts the frames in the order in which they are shown, not stored. Its time is
its presentation timestamp less the start time of the stream, so zero is where the stream starts,
usually its first frame; it is never computed from a frame rate.

Frames become RGB and upright when they are asked for, all of a frame or the part that is needed:
where an object takes a tenth of the frame, a tenth is converted. Parts begin and end where the
converter's groups of pixels do, so that they have the pixels of the whole; the first one of every
video is compared with the whole, and if it differs none is made.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import re
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, brief, lacks_memory
from dejacue.video._packets import PacketReader, Stamp, Untrusted
from dejacue.video._sampling import Choose, FrameChoice, Picture, Unreadable
from dejacue.video.sizes import check_size

PLANAR_FORMATS = ("yuv420p", "yuvj420p")  # a part of a frame is a part of each plane
GROUP_PIXELS = 64  # converted together, or a multiple of it
MIN_SKIPPED = 4  # frames in a row: to decode fewer is as quick as to seek
MAX_REORDERED_FRAMES = 16  # that a decoder of any codec keeps back
MAX_PLAYLIST_BYTES = 1 << 20
_LISTED = re.compile(r"^(?!#)(.+)$", re.MULTILINE)
_LISTED_URI = re.compile(r'URI="([^"]+)"')
_DYNAMIC = re.compile(rb"""<MPD[^>]*\stype=["']dynamic""")
_SLACK_S = 0.5  # headers round; a stream that ends this much early is not called truncated


_OPEN: deque[Container] = deque()  # whose files are open


class _Damage(Exception):
    """Frames must be decoded again in another way."""


class Container:
    """Decodes a video stream of a file: that of this number or, of those that are no cover
    picture, the largest; ``notes`` say which, if there are several."""

    def __init__(
        self,
        path: Path,
        threads: int | None = None,
        number: int | None = None,
    ) -> None:
        self.path, self.name, self._threads = path, path.stem, threads
        self.notes: list[str] = []
        stat = path.stat()
        if stat.st_size == 0:
            raise InputError("is empty (0 bytes); copy or record it again")
        self.identity = [(path.name, stat.st_size, stat.st_mtime_ns)]
        _check_ends(path)
        container = self.opened()
        try:
            stream = video_stream(container, number)
            check_size(stream.codec_context.width, stream.codec_context.height)
            self.number = stream.index
            if len(streams := _video_streams(container)) > 1:
                self.identity.append((f"stream {stream.index}", 0, 0))
                if number is None:
                    self.notes = [
                        f"has {len(streams)} video streams, {_listed(streams)}; stream "
                        f"{stream.index} is used (choose another by its number)"
                    ]
            self.rate = float(stream.average_rate) if stream.average_rate else None
            self._seconds = (container.duration or 0) / 1e6
            self._count = stream.frames  # 0 where the format has no such field
            if "mp4" in container.format.name:  # its index knows of fragments and edit lists
                self._count = sum(not entry.is_discard for entry in stream.index_entries)
        except BaseException:
            container.close()
            raise
        self._keep(container)

    def _keep(self, container: Any) -> None:
        """Keep the file open for the pass that usually follows: FFmpeg has decoded frames of it to
        know its order, which takes as long as some twenty frames. Only the last one is kept."""
        self._ready = container
        _OPEN.append(self)
        while len(_OPEN) > 1:
            with suppress(IndexError):  # another thread was faster
                _OPEN.popleft().close()

    def close(self) -> None:
        """Close what is kept open; a later pass opens the file again."""
        if (container := self.__dict__.pop("_ready", None)) is not None:
            container.close()

    def expected(self, sampling: FrameChoice) -> int | None:
        """Return how many frames will be taken, as far as the header says."""
        estimate = self._seconds * (self.rate or 0)
        start = sampling.start or 0
        if estimate and self._count and start >= max(self._count, estimate):
            problem = f"start {start} is past the last of its {self._count} frames"
            raise InputError(f"{problem}; give at most {self._count - 1}")
        count = self._count or round(estimate)
        return sampling.expected(count, self.rate) if count else None

    def chosen(
        self, choose: Choose, report: Callable[[str], None], gap: float = math.inf
    ) -> Generator[tuple[int, int, Picture]]:
        """Yield some frames, of which about so many are left out in a row: seek past them, or
        decode all, where packets do not tell them."""
        import av

        last = -1
        if gap > MIN_SKIPPED:
            with suppress(Untrusted, av.FFmpegError):
                for item in self._seeking(choose, report):
                    last = item[1]
                    yield item
                return
        with closing(self.pictures(report)) as pictures:
            yield from (item for item in choose(pictures) if item[1] > last)

    def _seeking(
        self, choose: Choose, report: Callable[[str], None]
    ) -> Generator[tuple[int, int, Picture]]:
        with self.opened() as ahead, self.opened() as container:
            stream = video_stream(ahead, self.number)
            end, ended = StreamEnd(ahead, stream), False

            def stamps() -> Iterator[Stamp]:
                nonlocal ended
                yield from PacketReader(ahead, stream).stamps(end)
                ended = True

            seeker, converter = _Seeker(container, self._stream(container)), DisplayConverter()
            for index, ordinal, time_s, frame in seeker.frames(choose(stamps())):
                yield index, ordinal, _picture(time_s, frame, converter)
                del frame  # while the next is decoded, the taker has it
            if ended and (shortfall := end.shortfall()):
                report(shortfall)

    def _stream(self, container: Any, threads: str = "AUTO") -> Any:
        """Return the stream, to be decoded by so many threads."""
        stream = video_stream(container, self.number)
        stream.thread_type = threads
        if self._threads is not None:
            stream.codec_context.thread_count = self._threads
        return stream

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        """Yield all frames in order; one that cannot be decoded keeps its place."""
        count = 0
        # threads may lose good frames next to a bad one: decode again, one at a time; and again
        # without expecting a frame of each packet, where stamps turn out to be in disorder
        for expecting, threads in itertools.product((True, False), ("AUTO", "SLICE")):
            shortfall: list[str] = []
            decoding = self._decode(threads, expecting, shortfall.append)
            with closing(decoding), suppress(_Damage):
                for picture in itertools.islice(_settled(decoding), count, None):
                    count += 1
                    yield picture
                for sentence in shortfall:
                    report(sentence)
                return

    def _decode(
        self, threads: str, expecting: bool, report: Callable[[str], None]
    ) -> Generator[Picture]:
        import av

        with self.opened() as container:
            stream = self._stream(container, threads)
            end = StreamEnd(container, stream)
            timestamps = _Timestamps(PacketReader(container, stream) if expecting else None)
            converter = DisplayConverter()
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
                        if threads != "SLICE":
                            raise _Damage
                        yield Picture(end.time_s(missing), None, _lost)
                    yield _picture(end.time_s(frame.pts), frame, converter)
            if timestamps.waiting and threads != "SLICE":
                raise _Damage  # an error at the very end is swallowed, and its neighbours with it
            for missing in timestamps.missing_at_end():
                yield Picture(end.time_s(missing), None, _lost)
            if shortfall := end.shortfall():
                report(shortfall)

    def opened(self) -> Any:
        """Return the file as FFmpeg opens it, for one pass."""
        import av

        ready = self.__dict__.pop("_ready", None)  # at once, in any thread
        if ready is not None:
            return ready
        try:
            # a colon in a name is not a protocol; titles may be in any encoding, and are not read
            container = av.open(f"file:{self.path}", metadata_errors="replace")
        except av.FFmpegError as error:
            problem = f"is not a video, or is truncated before its index ({error.strerror})"
            raise InputError(f"{problem}; try it in a player, or copy it again") from None
        if container.format.name == "tty":  # FFmpeg renders any text file as video
            container.close()
            raise InputError("is text, not a video")
        return container


class _Seeker:
    """Decodes frames by their stamps: on from the last one, or from a start behind it."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._container, self._stream = container, stream
        stream.codec_context.options = {"err_detect": "explode"}  # in order, it is concealed
        self._packets: Iterator[Any] = iter(())
        self._fed: set[int] = set()  # stamps of packets whose frames have not come out
        self._decoded: deque[Any] = deque()
        self._start = self._next = 0  # where decoding began, and the ordinal of the next frame

    def frames(
        self, chosen: Iterator[tuple[int, int, Stamp]]
    ) -> Iterator[tuple[int, int, float | None, Any]]:
        """Yield index, ordinal, time and frame of each that is chosen."""
        last: float = -math.inf
        for item, following in itertools.pairwise(itertools.chain(chosen, (None,))):
            assert item is not None
            index, ordinal, stamp = item
            if _skipped(last, ordinal, stamp) > MIN_SKIPPED:
                self._seek(stamp.start, ordinal - stamp.since)
            is_last = following is None or _skipped(ordinal, *following[1:]) > MIN_SKIPPED
            yield index, ordinal, stamp.time_s, self._frame(ordinal, stamp.pts, is_last)
            last = ordinal

    def _seek(self, start: int, ordinal: int) -> None:
        if ordinal:
            self._container.seek(start, stream=self._stream)
        self._packets = self._container.demux(self._stream)
        first = next(self._packets, None)
        if first is None or first.pts != start:
            raise Untrusted("seeking leads elsewhere")
        self._packets = itertools.chain((first,), self._packets)
        self._fed.clear()
        self._decoded.clear()
        self._start, self._next = start, ordinal

    def _frame(self, ordinal: int, pts: int, is_last: bool) -> Any:
        """Return a frame; of the last one before a seek, decode no packet behind it."""
        ended = False
        while True:
            while self._decoded:
                frame = self._decoded.popleft()
                self._fed.discard(frame.pts)
                if frame.pts is None or frame.is_corrupt:
                    raise Untrusted("a frame is damaged")
                if frame.pts < self._start:
                    continue  # it is shown before the start, but stored behind it
                if any(at < frame.pts for at in self._fed):
                    raise Untrusted("a packet gave no frame, or too late")
                self._next += 1
                if frame.pts >= pts:
                    if (frame.pts, self._next - 1) != (pts, ordinal):
                        raise Untrusted("other frames come out than its packets tell")
                    return frame
            if ended:
                raise Untrusted("a packet gave no frame")
            # frames that are shown before it may be stored behind it
            enough = is_last and self._next + sum(at <= pts for at in self._fed) > ordinal
            packet = None if enough else next(self._packets, None)
            if packet is None or not packet.size:
                ended = True
            elif packet.pts >= self._start and not packet.is_discard:
                self._fed.add(packet.pts)
            self._decoded.extend(self._stream.decode(packet))


def _skipped(last: float, ordinal: int, stamp: Stamp) -> float:
    """Return how many frames between two need not be decoded."""
    return ordinal - stamp.since - last - 1


def _check_ends(path: Path, in_playlist: bool = False) -> None:
    """Refuse a playlist of a live stream, for whose next part FFmpeg would wait for ever."""
    with open(path, "rb") as stream:
        head = stream.read(1000)
        if b"#EXTM3U" in head or b"<MPD" in head:
            head += stream.read(MAX_PLAYLIST_BYTES)
    if head.lstrip(b"\xef\xbb\xbf").startswith(b"#EXTM3U"):
        text = head.decode("utf-8", "replace")
        listed = () if in_playlist else (*_LISTED.findall(text), *_LISTED_URI.findall(text))
        for place in (path.parent / name.strip() for name in listed if ".m3u8" in name.lower()):
            if os.path.isfile(place):
                _check_ends(place, in_playlist=True)
        live = "#EXT-X-TARGETDURATION" in text and "#EXT-X-ENDLIST" not in text
    else:
        live = b"<MPD" in head and _DYNAMIC.search(head) is not None
    if live:
        what = f"{path.name} is" if in_playlist else "is"
        problem = f"{what} the playlist of a live stream, which does not say where it ends"
        remedy = "add #EXT-X-ENDLIST if it is complete, or watch it with dejacue live URL"
        raise InputError(f"{problem}; {remedy}")


class _Timestamps:
    """The timestamps that were fed to the decoder and have not come out.

    A packet may rightly give no frame (a hidden reference, the far side of an edit list), so a
    timestamp that is passed over is a lost frame only if the packet says that it is shown, or from
    an error on, to the next key frame.
    """

    def __init__(self, packets: PacketReader | None) -> None:
        self.waiting: list[tuple[int, bool]] = []  # and whether it must come out
        self._packets = packets
        self._latest = -math.inf  # of those that came out; stamps below it go back
        self._missing: set[int] = set()  # those that had to come out
        self._broken: int | None = None  # the latest timestamp that failed
        self._unstamped = 0  # failures without one

    def feed(self, packet: Any) -> None:
        if packet.size and packet.pts is not None and not packet.is_discard:
            expected = self._packets is not None and self._packets.must_show(packet)
            expected = expected and packet.pts > self._latest
            heapq.heappush(self.waiting, (packet.pts, expected))

    def fail(self, packet: Any) -> None:
        if packet.pts is None:
            self._unstamped += 1
        else:
            self._broken = max(packet.pts, packet.pts if self._broken is None else self._broken)

    def missing_before(self, frame: Any) -> list[int | None]:
        """Return the timestamps that should have come before this frame, which came."""
        if frame.pts in self._missing:
            raise _Damage
        passed = []
        while self.waiting and frame.pts is not None and self.waiting[0][0] < frame.pts:
            passed.append(heapq.heappop(self.waiting))
        if self.waiting and self.waiting[0][0] == frame.pts:
            heapq.heappop(self.waiting)
        missing = self._lost(passed)
        self._missing.update(pts for pts, expected in passed if expected)
        if frame.pts is not None:
            self._latest = frame.pts
        if self._broken is not None and frame.key_frame and (frame.pts or 0) > self._broken:
            self._broken = None
        return missing

    def missing_at_end(self) -> list[int | None]:
        return self._lost(sorted(self.waiting))

    def _lost(self, passed: list[tuple[int, bool]]) -> list[int | None]:
        unstamped, self._unstamped = self._unstamped, 0
        broken = self._broken is not None
        return [None] * unstamped + [pts for pts, expected in passed if expected or broken]


class StreamEnd:
    """Count how far a pass has read, and how far the header says it should."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._container, self._stream = container, stream
        self._zero, self._base = stream.start_time, stream.time_base.as_integer_ratio()
        self._fed, self._last = 0, 0
        self._failure = ""
        kind = container.format.name
        self._packets = len(stream.index_entries) if "mp4" in kind else 0  # the index is complete
        self._seconds = _clock_time(stream.metadata.get("DURATION", ""))  # Matroska
        if kind == "avi" and stream.average_rate:
            self._seconds = float(stream.frames / stream.average_rate)

    def packets(self) -> Iterator[Any]:
        """Yield the packets of the stream, and finally an empty one that flushes the decoder."""
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
        return float((pts - self._zero) * self._base[0] / self._base[1])

    def shortfall(self) -> str:
        """Return what is wrong if the file ends before its header says; else nothing."""
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
    """Return the seconds of "00:01:02.5", 0 for anything else."""
    try:
        hours, minutes, seconds = text.split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return 0.0


def video_stream(container: Any, number: int | None = None) -> Any:
    """Return the stream of this number, as ffprobe counts; None: the first of the largest."""
    streams = _video_streams(container)
    if not streams:
        what = "only sound" if container.streams.audio else "no video that FFmpeg can decode"
        raise InputError(f"has {what}; give a file with a video stream")
    if number is None:
        return max(streams, key=lambda stream: math.prod(_size(stream)))
    for stream in streams:
        if stream.index == number:
            return stream
    raise InputError(f"has no video stream {brief(number)}; choose from {_listed(streams)}")


def _video_streams(container: Any) -> list[Any]:
    from av.stream import Disposition

    return [
        stream
        for stream in container.streams.video
        if not stream.disposition & Disposition.attached_pic and stream.codec_context
    ]


def _size(stream: Any) -> tuple[int, int]:
    return stream.codec_context.width, stream.codec_context.height


def _listed(streams: list[Any]) -> str:
    return ", ".join("{} ({} × {})".format(stream.index, *_size(stream)) for stream in streams)


def _picture(time_s: float | None, frame: Any, converter: DisplayConverter) -> Picture:
    return Picture(time_s, None, partial(converter.rgb, frame), partial(converter.lazy, frame))


def _lost() -> NDArray[np.uint8]:
    raise Unreadable("damaged data")


def _settled(pictures: Iterator[Picture]) -> Iterator[Picture]:
    """Hold a lost frame, and those behind it, until it cannot come late any more."""
    held: deque[Picture] = deque()
    for picture in pictures:
        held.append(picture)
        while held and (held[0].load is not _lost or len(held) > MAX_REORDERED_FRAMES):
            yield held.popleft()
    yield from held


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
