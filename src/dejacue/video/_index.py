"""Which frame of a video file has which number, and when it is shown: read once from its packets.

A packet of an .mp4, .mov, .mkv or .webm is a frame with its time stamp, so frames are counted
without decoding one, and one that cannot be decoded keeps its number.
"""

from __future__ import annotations

import itertools
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

STAMPED_FORMATS = ("mp4", "matroska")  # as FFmpeg names them: also .mov and .webm
CODECS = ("h264", "hevc", "av1", "vp9", "vp8", "mpeg4")  # and those without any but key frames
LENGTH_FIELD = {"h264": 4, "hevc": 21}  # the byte of the header that says how long lengths are
# types of units, as the standards number them
STARTS = {"h264": {5}, "hevc": {19, 20, 21}}  # a decoder can start here
JOINS = {16, 17, 18, 22, 23, 36, 37}  # of HEVC: pictures behind it may rightly not be shown
LEADING = {8, 9}  # of HEVC: it refers to pictures before the start that precedes it
MAX_EMPTY_BYTES = 19  # of MPEG-4: so small a packet may stand for a frame that is not coded
_SLACK_S = 0.5  # headers round; a stream that ends this much early is not called truncated


class FrameIndex(NamedTuple):
    """The frames of a file in the order in which they are shown.

    times_s   since the start of the stream; NaN: unknown
    pts       their stamps; None: packets do not tell them, and they are decoded in order
    starts    stamps of the packets with which a decoder can start, ascending
    """

    times_s: NDArray[np.float64] = np.empty(0)
    pts: array[int] | None = None
    starts: array[int] = array("q")
    shortfall: str = ""


class Packets:
    """The packets of a stream in order, the last one empty, so that it flushes the decoder.

    Where their times go back, another recording was joined: from there on they are later, so that
    times go on. ``joints_s`` says where, ``failure`` why no more can be read.
    """

    def __init__(self, container: Any, stream: Any) -> None:
        self._container, self._stream = container, stream
        self.zero, self._base = stream.start_time, stream.time_base.as_integer_ratio()
        self.joints_s: list[float] = []
        self.failure = ""
        self._count = self._end = 0

    def __iter__(self) -> Iterator[Any]:
        import av

        later, before = 0, deque[int](maxlen=2)
        for packet, following in itertools.pairwise(itertools.chain(self._read(), (None,))):
            at, then = packet.dts, packet.dts if following is None else following.dts
            known = None not in (at, then) and len(before) == 2
            # a damaged stamp is before or behind its neighbours alone: that is no joint
            if known and max(at, then) + later < min(before):
                later = self._end - (at if packet.pts is None else packet.pts)
                self.joints_s.append(self.time_s(self._end) or 0.0)
            if at is not None:
                packet.dts = at + later
                packet.pts = None if packet.pts is None else packet.pts + later
                before.append(at + later)
            self._count += 1
            if packet.pts is not None:
                self._end = max(self._end, packet.pts + (packet.duration or 0))
            yield packet
        yield av.Packet()

    def _read(self) -> Iterator[Any]:
        import av

        try:
            yield from (packet for packet in self._container.demux(self._stream) if packet.size)
        except av.FFmpegError as error:
            self.failure = f"cannot be read further ({error.strerror})"

    def time_s(self, pts: int | None) -> float | None:
        if pts is None:
            return None
        self.zero = pts if self.zero is None else self.zero
        return float((pts - self.zero) * self._base[0] / self._base[1])

    def times_s(self, stamps: array[int]) -> NDArray[np.float64]:
        self.zero = stamps[0] if self.zero is None else self.zero
        since = np.array(stamps, np.float64) - self.zero
        return np.asarray(since * self._base[0] / self._base[1])

    def shortfall(self) -> str:
        """Return what is wrong if the file ends before its header says; else nothing."""
        stream, kind = self._stream, self._container.format.name
        end_s = float(self._end * stream.time_base)
        if self.failure:
            return f"stops at {end_s:.3f} s and {self.failure}"
        indexed = len(stream.index_entries) if "mp4" in kind else 0  # the index is complete
        if self._count < indexed:
            told = f"after {self._count} of {indexed} frames"
            return f"stops at {end_s:.3f} s, {told}: the file is truncated"
        seconds = _clock_time(stream.metadata.get("DURATION", ""))  # Matroska
        if kind == "avi" and stream.average_rate:
            seconds = float(stream.frames / stream.average_rate)
        if end_s + max(_SLACK_S, 2 / (stream.average_rate or 1)) < seconds:
            return f"stops at {end_s:.3f} of {seconds:.3f} s: the file is truncated"
        return ""


def _clock_time(text: str) -> float:
    """Return the seconds of "00:01:02.5", 0 for anything else."""
    try:
        hours, minutes, seconds = text.split(":")
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return 0.0


def read_index(container: Any, stream: Any) -> tuple[FrameIndex, bool]:
    """Return the index, without stamps where packets do not tell the frames; and whether the file
    was read for it."""
    context, codec = stream.codec_context, stream.codec_context.codec.canonical_name
    told = codec in CODECS or context.codec.intra_only
    header, at = context.extradata or b"", LENGTH_FIELD.get(codec, 0)
    width = header[at] % 4 + 1 if at < len(header) and header[0] == 1 else 0
    if not (told and any(kind in container.format.name for kind in STAMPED_FORMATS)):
        return FrameIndex(), False
    if codec in STARTS and not width:
        return FrameIndex(), False  # its units are laid out as in a broadcast
    packets = Packets(container, stream)
    stamps, starts, keys = array("q"), array("q"), 0
    first: int | None = None
    is_delayed = context.has_b_frames > 0  # then packets are not stored in the order shown
    for packet in packets:
        if not packet.size:
            break
        is_start, is_shown = _role(packet, codec, width, keys)
        if packet.pts is None or is_shown is None or (first is None and not packet.is_keyframe):
            return FrameIndex(), True
        first = packet.pts if first is None else first
        is_delayed = is_delayed and packet.pts == packet.dts
        keys += packet.is_keyframe or is_start
        if is_start:
            starts.append(packet.pts)
        if is_shown and not packet.is_discard:
            stamps.append(packet.pts)
    order = np.sort(np.array(stamps, np.int64))
    if (
        first is None
        or not len(order)
        or order[0] < first  # it was cut out of another, and refers to pictures that are not there
        or (np.diff(order) <= 0).any()
        or is_delayed
        or packets.joints_s
    ):
        return FrameIndex(), True
    pts = array("q", order.tobytes())
    starts = array("q", sorted(starts))
    return FrameIndex(packets.times_s(pts), pts, starts, packets.shortfall()), True


def _role(packet: Any, codec: str, width: int, keys: int) -> tuple[bool, bool | None]:
    """Return whether a decoder can start with a packet, and whether it is shown (None: unknown)."""
    key = bool(packet.is_keyframe)
    if codec == "vp8":
        return key, bool(memoryview(packet)[0] & 16)  # its header says so
    if codec == "mpeg4":
        return key, True if packet.size > MAX_EMPTY_BYTES else None
    if codec not in STARTS or (codec == "h264" and not key):
        return key, True
    kinds = _kinds(packet, codec, width)
    if kinds is None:
        return False, True  # damaged, but a frame
    is_start = bool(kinds & STARTS[codec])
    if (not keys and not is_start) or (codec == "hevc" and kinds & JOINS):
        return False, None  # it refers to pictures of another file
    return is_start, codec == "h264" or keys > 1 or not kinds & LEADING


def _kinds(packet: Any, codec: str, width: int) -> set[int] | None:
    """Return the types of the units of a packet, each of which follows its length of so many bytes;
    None: it is damaged."""
    data, at, kinds = memoryview(packet), 0, set()
    while at + width + 2 <= len(data):
        first, second = data[at + width : at + width + 2]
        if codec == "h264":
            kinds.add(first & 31)
        elif not (first & 1 or second >> 3):  # of the base layer
            kinds.add(first >> 1 & 63)
        at += width + int.from_bytes(data[at : at + width])
    return kinds if at == len(data) else None
