"""What the packets of a video stream tell of its frames before they are decoded."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dejacue.video._containers import StreamEnd

STAMPED_FORMATS = ("mp4", "mov", "matroska", "webm")  # formats whose packets are frames with stamps
SEEKABLE_CODECS = ("h264", "hevc", "av1", "vp9")  # and those without any but key frames
LENGTH_FIELD = {"h264": 4, "hevc": 21}  # the byte of the header that says how long lengths are
# types of units, as the standards number them
STARTS = {"h264": {5}, "hevc": {19, 20, 21}}  # a decoder can start here
PICTURES = {"h264": {1, 5}, "hevc": set(range(32))}
JOINS = {16, 17, 18, 22, 23, 36, 37}  # of HEVC: pictures behind it may rightly not be shown
LEADING = {8, 9}  # of HEVC: it refers to pictures before the start that precedes it


class Untrusted(Exception):
    """The packets do not tell the frames, which must be decoded in order; the text says why."""


class Stamp(NamedTuple):
    """A frame that is not decoded yet."""

    time_s: float | None
    pts: int
    start: int  # the stamp of the packet with which a decoder starts to give it
    since: int  # the number of frames shown from there to this one


class PacketReader:
    """Reads of a stream's packets with which a decoder can start, and which must give a frame."""

    def __init__(self, container: Any, stream: Any) -> None:
        codec, header = stream.codec_context.codec, stream.codec_context.extradata or b""
        self._codec: str = codec.canonical_name
        self._stamped = any(kind in container.format.name for kind in STAMPED_FORMATS)
        self._seekable = codec.intra_only or self._codec in SEEKABLE_CODECS
        at = LENGTH_FIELD.get(self._codec, 0)
        self._width = header[at] % 4 + 1 if at < len(header) and header[0] == 1 else 0
        self._starts = 0  # since the stream began

    def must_show(self, packet: Any) -> bool:
        """Return whether a packet must give a frame. In HEVC and AV1, whose decoders pass over
        damaged ones without an error, all must but those that refer to pictures of another
        stream."""
        if not self._stamped or packet.is_discard:
            return False
        if self._codec == "av1":
            self._starts += packet.is_keyframe
            return self._starts > 0
        if self._codec != "hevc" or not self._width:
            return False
        try:
            kinds = self._kinds(packet)
        except Untrusted:
            return self._starts > 0
        if kinds & JOINS:
            self._starts = 0
        elif kinds & STARTS["hevc"]:
            self._starts += 1
        return self._starts > bool(kinds & LEADING)

    def stamps(self, end: StreamEnd) -> Iterator[Stamp]:
        """Yield the frames in the order in which they are shown, without decoding them."""
        if not (self._stamped and self._seekable):
            raise Untrusted("its packets need not be frames")
        starts: list[int] = []  # the last two: between them all is known when the next one comes
        waiting: list[int] = []  # stamps from the first of them on
        for packet in end.packets():
            if not packet.size:
                break
            if packet.pts is None or packet.is_corrupt:
                raise Untrusted("a packet is damaged or has no stamp")
            if self._is_start(packet):
                starts.append(packet.pts)
                if len(starts) > 2:
                    yield from _of_group(starts.pop(0), starts[0], waiting, end)
            elif not starts:
                raise Untrusted("it begins with pictures that refer to others")
            if not packet.is_discard:
                heapq.heappush(waiting, packet.pts)
        while starts:
            start = starts.pop(0)
            yield from _of_group(start, starts[0] if starts else math.inf, waiting, end)

    def _is_start(self, packet: Any) -> bool:
        if self._codec not in STARTS:
            return bool(packet.is_keyframe)
        kinds = self._kinds(packet)
        if not kinds & PICTURES[self._codec]:
            raise Untrusted("a packet has no picture")
        if self._codec == "hevc" and kinds & JOINS:
            raise Untrusted("it was joined of several")
        return bool(kinds & STARTS[self._codec])

    def _kinds(self, packet: Any) -> set[int]:
        """Return the types of the units of a packet, each of which follows its length."""
        data, width, at = memoryview(packet), self._width, 0
        kinds = set()
        while width and at + width + 2 <= len(data):
            first, second = data[at + width : at + width + 2]
            if self._codec == "h264":
                kinds.add(first & 31)
            elif not (first & 1 or second >> 3):  # of the base layer
                kinds.add(first >> 1 & 63)
            at += width + int.from_bytes(data[at : at + width])
        if at != len(data):
            raise Untrusted("a packet is damaged, or laid out as in a broadcast")
        return kinds


def _of_group(start: int, following: float, waiting: list[int], end: StreamEnd) -> Iterator[Stamp]:
    """Yield the frames that are shown from one start to the next, and remove them from those that
    wait."""
    last, since = start - 1, 0
    while waiting and waiting[0] < following:
        pts = heapq.heappop(waiting)
        if pts <= last:
            raise Untrusted("stamps repeat or go back")
        yield Stamp(end.time_s(pts), pts, start, since)
        last, since = pts, since + 1
    if following <= start:
        raise Untrusted("starts go back")
