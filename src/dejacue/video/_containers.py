"""Video files, whatever of them FFmpeg reads: opened, indexed and decoded by PyAV.

A frame's number counts the frames in the order in which they are shown, not stored. Its time is
its presentation timestamp less the start time of the stream, so zero is where the stream starts,
usually its first frame; it is never computed from a frame rate.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import os
import re
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, brief
from dejacue.video._index import FrameIndex, Packets, read_index
from dejacue.video._rgb import DisplayConverter
from dejacue.video._sampling import Choose, FrameChoice, Picture, Unreadable
from dejacue.video.sizes import check_regular, check_size

# no list of other files, no device, nothing that draws text or reads a pattern of names
FORMATS = (
    "mov,matroska,avi,mpegts,mpeg,mpegvideo,m4v,h261,h263,h264,hevc,vvc,av1,obu,ivf,vc1,dirac,"
    "cavsvideo,mjpeg,dv,flv,live_flv,asf,asf_o,ogg,mxf,gxf,nut,rm,wtv,ty,nsv,nuv,gif,apng,"
    "yuv4mpegpipe,bink,smk,flic,roq,amv,mp3,aac,flac,wav"
)
PLAYLISTS = {".m3u8": "hls", ".mpd": "dash"}  # lists of other files, opened only where named
MAX_PLAYLIST_BYTES = 1 << 20
MIN_SKIPPED = 4  # frames in a row: to decode fewer is as quick as to seek
MAX_LATE = 2  # frames that come out in another order, before packets are no longer trusted
MAX_RECENT = 8  # files whose index is kept
_LISTED = re.compile(r"^(?!#)(.+)$", re.MULTILINE)
_LISTED_URI = re.compile(r'URI="([^"]+)"')
_DYNAMIC = re.compile(rb"""<MPD[^>]*\stype=["']dynamic""")

_OPEN: deque[Container] = deque()  # whose files are open
_RECENT: OrderedDict[tuple[Any, ...], FrameIndex] = OrderedDict()


class _Damage(Exception):
    """Frames must be decoded again in another way."""


class Container:
    """Decodes a video stream of a file: that of this number or, of those that are no cover
    picture, the largest; ``notes`` say which, if there are several."""

    def __init__(self, path: Path, threads: int | None = None, number: int | None = None) -> None:
        self.path, self.name, self._threads = path, path.stem, threads
        self.notes: list[str] = []
        stat = check_regular(path)
        if stat.st_size == 0:
            raise InputError("is empty (0 bytes); copy or record it again")
        self.identity = [(path.name, stat.st_size, stat.st_mtime_ns)]
        if path.suffix.lower() in PLAYLISTS:
            _check_ends(path)
        container = self.opened()
        try:
            stream = video_stream(container, number)
            context = stream.codec_context
            check_size(context.width, context.height)
            self.number = stream.index
            if len(streams := _video_streams(container)) > 1:
                self.identity.append((f"stream {stream.index}", 0, 0))
                if number is None:
                    self.notes.append(
                        f"has {len(streams)} video streams, {_listed(streams)}; stream "
                        f"{stream.index} is used (choose another by its number)"
                    )
            self.codec, self.format = context.name, container.format.name
            self.width, self.height = context.width, context.height
            self.pixel_aspect = float(stream.sample_aspect_ratio or 1)
            self.start_s = float((stream.start_time or 0) * stream.time_base)
            self.rate = float(stream.average_rate) if stream.average_rate else None
            self._seconds = (container.duration or 0) / 1e6
            self._count = stream.frames  # 0 where the format has no such field
            if "mp4" in container.format.name:  # its index knows of fragments and edit lists
                self._count = sum(not entry.is_discard for entry in stream.index_entries)
        except BaseException:
            container.close()
            raise
        self._index: FrameIndex | None = None
        self._key = (os.path.abspath(path), *self.identity[0], self.number)
        self._keep(container)

    def _keep(self, container: Any) -> None:
        """Keep the file open for the pass that usually follows: FFmpeg has decoded frames of it to
        know its order, which takes as long as some twenty frames. Only the last one is kept."""
        self._ready = container
        with suppress(ValueError):
            _OPEN.remove(self)
        _OPEN.append(self)
        while len(_OPEN) > 1:
            with suppress(IndexError):  # another thread was faster
                _OPEN.popleft().close()

    def close(self) -> None:
        """Close what is kept open; a later pass opens the file again."""
        if (container := self.__dict__.pop("_ready", None)) is not None:
            container.close()

    def opened(self) -> Any:
        """Return the file as FFmpeg opens it, for one pass."""
        import av

        ready = self.__dict__.pop("_ready", None)  # at once, in any thread
        if ready is not None:
            return ready
        playlist = PLAYLISTS.get(self.path.suffix.lower())
        allowed = f"{FORMATS},{playlist}" if playlist else FORMATS
        options = {"format_whitelist": allowed, "protocol_whitelist": "file,crypto,data"}
        try:
            # a colon in a name is not a protocol; titles may be in any encoding, and are not read
            return av.open(f"file:{self.path}", options=options, metadata_errors="replace")
        except PermissionError as error:
            raise InputError(f"cannot be read ({error.strerror}); ask its owner") from None
        except (av.FFmpegError, OSError) as error:
            problem = f"is not a video, or is truncated before its index ({error.strerror})"
            raise InputError(f"{problem}; try it in a player, or copy it again") from None

    def stream(self, container: Any, threads: str) -> Any:
        """Return the stream, to be decoded by so many threads."""
        stream = video_stream(container, self.number)
        stream.thread_type = threads
        if self._threads is not None:
            stream.codec_context.thread_count = self._threads
        return stream

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def expected(self, sampling: FrameChoice) -> int | None:
        """Return how many frames will be taken, as far as the header says."""
        estimate = self._seconds * (self.rate or 0)
        start = sampling.start or 0
        if estimate and self._count and start >= max(self._count, estimate):
            problem = f"start {start} is past the last of its {self._count} frames"
            raise InputError(f"{problem}; give at most {self._count - 1}")
        count = self._count or round(estimate)
        return sampling.expected(count, self.rate) if count else None

    def index(self) -> FrameIndex:
        """Return which frames the file has: the same for all who open it, read once."""
        index = _RECENT.get(self._key) or self._index
        if index is None:
            container = self.opened()
            index, was_read = read_index(container, video_stream(container, self.number))
            if index.pts is None and was_read:
                container.close()
            else:
                self._keep(container)
            self._remember(index)
        return index

    def _remember(self, index: FrameIndex) -> None:
        self._index = index
        _RECENT.pop(self._key, None)
        if not index.shortfall:  # else what could not be read may be there the next time
            _RECENT[self._key] = index
        while len(_RECENT) > MAX_RECENT:
            with suppress(KeyError):  # another thread was faster
                _RECENT.popitem(last=False)

    def distrust(self) -> None:
        """Count frames from now on as they are decoded: packets do not tell them."""
        if self.index().pts is not None:
            self._remember(FrameIndex())

    def times_s(self) -> NDArray[np.float64]:
        """Return when each frame is shown, NaN where no stamp says so; where packets do not tell
        the frames all are decoded for it, once."""
        if self.index().pts is None and not len(self.index().times_s):
            deque(self.pictures(lambda sentence: None), maxlen=0)
        return self.index().times_s

    def chosen(
        self, choose: Choose, report: Callable[[str], None]
    ) -> Generator[tuple[int, int, Picture]]:
        """Yield some frames: index, number and picture of each. Those that are left out are not
        decoded where others do not need them."""
        index, last, ended, converter = self.index(), -1, False, DisplayConverter()

        def pictures() -> Iterator[Picture]:
            nonlocal ended
            yield from (Picture(time_s, None, _lost) for time_s in map(float, index.times_s))
            ended = True

        with suppress(Untrusted), closing(Decoder(self)) as decoder:
            if not decoder.can_seek:
                raise Untrusted
            chosen = choose(pictures())
            following = next(chosen, None)
            while following is not None:
                (at, number, picture), following = following, next(chosen, None)
                is_last = following is None or decoder.is_far(number, following[1])
                frame = decoder.frame(number, is_last)
                last = number
                yield at, number, picture if frame is None else _picture(picture, frame, converter)
                del frame  # while the next is decoded, the taker has it
            if ended and index.shortfall:
                report(index.shortfall)
            return
        self.distrust()
        with closing(self.pictures(report)) as in_order:
            yield from (item for item in choose(in_order) if item[1] > last)

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        """Yield all frames as they are decoded from the start on, without an index; after an error,
        one that cannot be decoded keeps its place."""
        times_s: list[float] = []
        # threads may lose good frames next to a bad one: decode again, one at a time
        for threads in ("AUTO", "SLICE"):
            with self.opened() as container, suppress(_Damage):
                stream = self.stream(container, threads)
                packets, converter = Packets(container, stream), DisplayConverter()
                decoding = _in_order(stream, packets, threads == "SLICE")
                for pts, frame in itertools.islice(decoding, len(times_s), None):
                    picture = Picture(packets.time_s(pts), None, _lost)
                    times_s.append(math.nan if picture.time_s is None else picture.time_s)
                    for joint_s in packets.joints_s:
                        self.note(
                            f"times go back after {joint_s:.3f} s, where another recording was "
                            "joined; they are counted on from there"
                        )
                    yield picture if frame is None else _picture(picture, frame, converter)
                    del frame
                if shortfall := packets.shortfall():
                    report(shortfall)
                self._remember(FrameIndex(np.array(times_s), shortfall=shortfall))
                return


class Untrusted(Exception):
    """Frames come out in another way than packets tell, so they are counted as they come."""


class Decoder:
    """Decodes frames by number: on from the last one, or from a start before it.

    If anything fails they are decoded one at a time from then on: threads may lose good frames next
    to a bad one.
    """

    def __init__(self, file: Container) -> None:
        index = file.index()
        self.can_seek = index.pts is not None
        self._file, self._pts, self._starts = file, index.pts or array("q"), index.starts
        self._threads = "AUTO"
        self._container: Any = None
        self._stream: Any = None
        self._frames: Iterator[Any] = iter(())
        self._drained = True  # packets behind the last one were left out
        self._last = -1  # the number of the frame that came out last
        self._until: int | None = None  # the stamp behind which no packet is needed

    def close(self) -> None:
        """Close the file, and let go of the codec: one that a cycle keeps until it is collected
        would be freed in a process that is forked meanwhile, which has none of its threads."""
        if self._container is not None:
            self._container.close()
            self._container = self._stream = self._held = None
            self._frames = iter(())

    def is_far(self, last: int, number: int) -> bool:
        """Return whether to start anew is quicker than to decode on from the last one."""
        start = bisect.bisect_right(self._starts, self._pts[number]) - 1
        first = bisect.bisect_left(self._pts, self._starts[start]) if start >= 0 else 0
        return last >= number or first - last - 1 > MIN_SKIPPED

    def frame(self, number: int, is_last: bool = False) -> Any:
        """Return a frame, None if it is lost; if it is the last one before a start, no packet
        behind it is decoded."""
        self._until = self._pts[number] if is_last else None
        while True:
            frame = None
            with suppress(_Damage):
                if self._drained or self._container is None or self.is_far(self._last, number):
                    self._start(number)
                frame = self._take(number)
            if frame is not None or self._threads == "SLICE":
                return frame
            self.close()
            self._threads = "SLICE"

    def _start(self, number: int) -> None:
        """Start at the last packet before a frame that gives a whole frame, or at the first."""
        at = bisect.bisect_right(self._starts, self._pts[number])
        if not any(map(self._starts_at, reversed(self._starts[:at]))):
            self.close()
            self._open()
            self._begin(None)

    def _starts_at(self, start: int) -> bool:
        import av

        self._open()
        try:
            self._container.seek(start, stream=self._stream)
        except av.FFmpegError:
            return False
        self._begin(start)
        frame = self._held = next(self._frames, None)
        return frame is not None and frame.pts == start and not (frame.is_corrupt or self._failed)

    def _open(self) -> None:
        if self._container is None:
            self._container = self._file.opened()
            self._stream = self._file.stream(self._container, self._threads)

    def _begin(self, start: int | None) -> None:
        self._last = -1 if start is None else bisect.bisect_left(self._pts, start) - 1
        self._frames, self._held = self._decoded(start), None
        self._drained, self._failed, self._late = False, False, 0

    def _decoded(self, start: int | None) -> Iterator[Any]:
        """Yield the frames that are shown from a start on, or all."""
        import av

        packets, fed, expected = self._container.demux(self._stream), set[int](), start
        ended = False
        while not ended:
            packet, self._drained = None, self._until in fed
            if not self._drained:
                with suppress(av.FFmpegError):
                    packet = next((packet for packet in packets if packet.size), None)
            ended = packet is None
            if packet is not None:
                if expected not in (None, packet.pts):
                    return  # seeking leads elsewhere
                expected = None
                fed.add(packet.pts)
            frames: list[Any] = []
            try:
                frames = self._stream.decode(packet)
            except av.FFmpegError:
                if self._threads != "SLICE":
                    raise _Damage from None
                self._failed = True
            for frame in frames:
                fed.discard(frame.pts)
                # others are shown before the start, but stored behind it
                if frame.pts is not None and (start is None or frame.pts >= start):
                    yield frame

    def _take(self, number: int) -> Any:
        """Return a frame, the next one or one that follows; None if none or a later one comes."""
        while (frame := self._held or next(self._frames, None)) is not None:
            self._held = None
            at = self._number(frame.pts)
            if at is None or at <= self._last:
                self._late += not self._failed
                if self._late > MAX_LATE:
                    raise Untrusted
            elif at > number:
                self._held = frame
                return None
            else:
                self._last = at
                if at == number:
                    return frame
        return None

    def _number(self, pts: int) -> int | None:
        at = self._last + 1  # as a rule
        if at >= len(self._pts) or self._pts[at] != pts:
            at = bisect.bisect_left(self._pts, pts)
        return at if at < len(self._pts) and self._pts[at] == pts else None


def _in_order(
    stream: Any, packets: Packets, one_at_a_time: bool
) -> Iterator[tuple[int | None, Any]]:
    """Yield stamp and frame of all that come out, and of those that are lost (None) after an error:
    a packet may rightly give no frame, but up to the next key frame it is damage."""
    import av

    waiting: list[int] = []  # stamps that were fed and have not come out
    broken: int | None = None  # the latest stamp that failed
    unstamped = 0  # failures without one
    for packet in packets:
        if packet.size and packet.pts is not None and not packet.is_discard:
            heapq.heappush(waiting, packet.pts)
        frames: list[Any] = []
        try:
            frames = stream.decode(packet)
        except av.FFmpegError:
            if not one_at_a_time:
                raise _Damage from None
            unstamped += packet.pts is None
            broken = max((pts for pts in (packet.pts, broken) if pts is not None), default=None)
        for frame in frames:
            yield from [(None, None)] * unstamped
            unstamped = 0
            while waiting and frame.pts is not None and waiting[0] < frame.pts:
                passed = heapq.heappop(waiting)
                if broken is not None:
                    yield passed, None
            if waiting and waiting[0] == frame.pts:
                heapq.heappop(waiting)
            if broken is not None and frame.key_frame and (frame.pts or 0) > broken:
                broken = None
            yield frame.pts, frame
    if waiting and not one_at_a_time:
        raise _Damage  # an error at the very end is swallowed, and its neighbours with it
    yield from [(None, None)] * unstamped
    if broken is not None:
        yield from ((pts, None) for pts in sorted(waiting))


def _picture(picture: Picture, frame: Any, converter: DisplayConverter) -> Picture:
    load, lazy = partial(converter.rgb, frame), partial(converter.lazy, frame)
    return Picture(picture.time_s, None, load, lazy)


def _lost() -> NDArray[np.uint8]:
    raise Unreadable("damaged data")


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
