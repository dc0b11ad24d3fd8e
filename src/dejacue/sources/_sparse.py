"""Decodes of a video file what the frames that are asked for need, and gives the same pixels.

The file is read from its start, so that frames are counted and never guessed from a rate. Between
two points at which a decoder can start lies a segment: one without a frame that is asked for is
not decoded, and of the others neither what comes after the last such frame nor, in H.264 and HEVC,
pictures that no other refers to. Where the packets do not tell enough (another codec or container,
stamps that are missing or repeat, damage), ``Undecidable`` is raised, and all must be decoded.

Damage to what is not decoded stays unknown: then pixels that a decoder invents may differ, and the
number of frames behind one that H.264 loses without an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dejacue.sources._sampling import Choose, Picture

if TYPE_CHECKING:
    from dejacue.sources._containers import DisplayConverter, StreamEnd

STAMPED_FORMATS = ("mp4", "mov", "matroska", "webm")  # formats whose packets are frames with stamps
MAX_SEGMENT_BYTES = 128 << 20  # of packets that wait until their segment ends; two may wait


class Undecidable(Exception):
    """The packets do not tell which of them are needed; the text says why."""


class Joined(Undecidable):
    """Several streams were joined here: pictures behind it may rightly not be shown."""


class Traits(NamedTuple):
    """Tells what a packet says of its picture.

    start     the decoder can start here
    resets    … and nothing behind it refers to anything before it
    leading   it refers to pictures before the start that precedes it (HEVC's RASL)
    layer     above which nobody refers to it; None: others may
    """

    start: bool
    resets: bool
    leading: bool = False
    layer: int | None = None
    depth: int = 0  # the layer in which it lies


@dataclass(eq=False, slots=True)
class PacketGroup:
    """The packets from one start to the next, in the order of decoding."""

    number: int
    packets: list[tuple[Any, Traits]] = field(default_factory=list)
    nbytes: int = 0

    @property
    def resets(self) -> bool:
        return self.packets[0][1].resets

    def stamps(self) -> list[int]:
        """Return the stamps of the frames that are shown, ascending."""
        return sorted(packet.pts for packet, _ in self.packets if not packet.is_discard)


class Stamp(NamedTuple):
    """A frame that is not decoded yet."""

    time_s: float | None
    pts: int
    segment: PacketGroup
    before: PacketGroup | None  # the segment before, to which leading pictures refer


class SparseDecoder:
    """Passes over a stream once; ``reached_end`` says whether it was read to its end."""

    def __init__(
        self, container: Any, stream: Any, end: StreamEnd, converter: DisplayConverter
    ) -> None:
        self._stream, self._context = stream, stream.codec_context
        self._end, self._converter = end, converter
        self._traits = _traits_of(container, stream)
        self._depth = 0  # the highest layer so far
        self._place = (-1, 0)  # number of the segment, and how many of its packets were fed
        self._fed: dict[int, tuple[int, int, Stamp] | None] = {}  # and did not come out
        self.reached_end = False
        self._context.options = {"err_detect": "explode"}  # doubtful data is decoded by the others

    def pictures(self, choose: Choose) -> Generator[tuple[int, int, Picture]]:
        """Yield index, ordinal and picture of the frames that ``choose`` takes."""
        chosen = choose(self._stamps())
        for _, group in itertools.groupby(chosen, key=lambda item: item[2].segment.number):
            items = list(group)
            wanted = {item[2].pts: item for item in items}
            yield from self._decode(items[0][2], wanted)
        yield from self._drained()

    def _stamps(self) -> Iterator[Stamp]:
        """Yield the frames in order; a segment is passed on when the next one is known, too."""
        segments = self._segments()
        before, segment = None, next(segments, None)
        while segment is not None:
            following = next(segments, None)
            stamps = segment.stamps()
            later = [] if following is None else following.stamps()
            if len(set(stamps)) < len(stamps) or (stamps and later and stamps[-1] >= later[0]):
                raise Undecidable("stamps repeat or go back")
            for pts in stamps:
                yield Stamp(self._end.time_s(pts), pts, segment, before)
            before, segment = segment, following
        self.reached_end = True

    def _segments(self) -> Iterator[PacketGroup]:
        segment = None
        for packet in self._end.packets():
            if not packet.size:
                break
            if packet.pts is None or packet.is_corrupt:
                raise Undecidable("a packet is damaged or has no stamp")
            try:
                traits = self._traits(memoryview(packet))
            except IndexError:
                raise Undecidable("a packet is damaged") from None
            if traits.depth > self._depth and segment is not None and segment.number:
                raise Undecidable("a new layer of pictures begins")
            self._depth = max(self._depth, traits.depth)
            if traits.start:
                if segment is not None:
                    yield segment
                segment = PacketGroup(0 if segment is None else segment.number + 1)
            elif segment is None or (traits.leading and not segment.number):
                raise Undecidable("it begins with pictures that refer to others")
            segment.packets.append((packet, traits))
            segment.nbytes += packet.size
            if segment.nbytes > MAX_SEGMENT_BYTES:
                raise Undecidable("key frames are far apart")
        if segment is not None:
            yield segment

    def _decode(self, stamp: Stamp, wanted: dict[int, Any]) -> Iterator[tuple[int, int, Picture]]:
        """Decode what these frames of a segment need."""
        segment, before = stamp.segment, stamp.before
        at = [k for k, (packet, _) in enumerate(segment.packets) if packet.pts in wanted]
        leading = any(segment.packets[k][1].leading for k in at)
        if not segment.resets:
            number, count = self._place
            if not leading or before is None or before.number != number:
                yield from self._drained()
                if self._context.is_open:
                    self._context.flush_buffers()
                count = 0
            if leading and before is not None:
                yield from self._feed(before.packets[count:], {}, leading=False)
        yield from self._feed(segment.packets[: at[-1] + 1], wanted, leading)
        self._place = segment.number, at[-1] + 1

    def _feed(
        self, packets: Iterable[tuple[Any, Traits]], wanted: dict[int, Any], leading: bool
    ) -> Iterator[tuple[int, int, Picture]]:
        for packet, traits in packets:
            item = None if packet.is_discard else wanted.get(packet.pts)
            if item is None and (traits.layer == self._depth or (traits.leading and not leading)):
                continue
            if not packet.is_discard:
                self._fed[packet.pts] = item
            yield from self._taken(packet)

    def _taken(self, packet: Any) -> Iterator[tuple[int, int, Picture]]:
        import av

        try:
            frames = self._context.decode(packet)
        except av.FFmpegError as error:
            raise Undecidable(f"it cannot be decoded ({error.strerror})") from None
        for frame in frames:
            if frame.pts not in self._fed:
                raise Undecidable("a frame has another stamp than its packet")
            item = self._fed.pop(frame.pts)
            if any(pts < frame.pts for pts in self._fed):
                raise Undecidable("a packet gave no frame, or too late")
            if item is None:
                continue
            if frame.is_corrupt:
                raise Undecidable("a frame is damaged")
            index, source, stamp = item
            convert = self._converter
            load, late = partial(convert.rgb, frame), partial(convert.late, frame)
            yield index, source, Picture(stamp.time_s, None, load, late)
            del frame, load, late, item, stamp  # while the next is decoded, the taker has it

    def _drained(self) -> Iterator[tuple[int, int, Picture]]:
        if self._context.is_open:
            yield from self._taken(None)
        if self._fed:
            raise Undecidable("a packet gave no frame")


class ShownPackets:
    """Tells which packets must give a frame: in HEVC and AV1, whose decoders pass over damaged ones
    without an error, all but those that refer to pictures of another stream."""

    def __init__(self, container: Any, stream: Any) -> None:
        self._traits: Callable[[memoryview], Traits] | None = None
        self._starts = 0  # since the stream began
        with suppress(Undecidable):
            if stream.codec_context.codec.canonical_name in ("hevc", "av1"):
                self._traits = _traits_of(container, stream)

    def must_show(self, packet: Any) -> bool:
        if self._traits is None or packet.is_discard:
            return False
        leading = False
        try:
            traits = self._traits(memoryview(packet))
            self._starts, leading = self._starts + traits.start, traits.leading
        except Joined:
            self._starts = 0
        except (IndexError, Undecidable):
            pass  # it is damaged
        return self._starts > leading


def _traits_of(container: Any, stream: Any) -> Callable[[memoryview], Traits]:
    """Return what reads the traits of a packet; refuse a codec or container that is not known."""
    codec = stream.codec_context.codec
    if not any(kind in container.format.name for kind in STAMPED_FORMATS):
        raise Undecidable("its packets need not be frames")
    if codec.intra_only:
        return lambda data: Traits(start=True, resets=True)
    name, header = codec.canonical_name, stream.codec_context.extradata or b""
    if name in ("h264", "hevc"):
        if len(header) < 23 - 16 * (name == "h264") or header[0] != 1:
            raise Undecidable("its packets are laid out as in a broadcast")
        width = (header[4] if name == "h264" else header[21]) % 4 + 1
        return partial(_h264 if name == "h264" else _hevc, width=width)
    if name in ("av1", "vp9"):
        return _av1 if name == "av1" else _vp9
    raise Undecidable(f"packets of {name} do not tell which are needed")


def _units(data: memoryview, width: int) -> Iterator[memoryview]:
    """Yield the units of a packet, each after its length in so many bytes."""
    at = 0
    while at + width + 2 <= len(data):
        end = at + width + int.from_bytes(data[at : at + width])
        yield data[at + width : end]
        at = end
    if at != len(data):
        raise Undecidable("a packet is damaged")


def _h264(data: memoryview, width: int) -> Traits:
    for unit in _units(data, width):
        kind = unit[0] & 31
        if kind in (1, 5):
            return Traits(kind == 5, kind == 5, layer=None if unit[0] >> 5 & 3 else 0)
    raise Undecidable("a packet has no picture")


def _hevc(data: memoryview, width: int) -> Traits:
    traits = None
    for unit in _units(data, width):
        kind, depth = unit[0] >> 1 & 63, (unit[1] & 7) - 1
        if kind in (16, 17, 18, 22, 23, 36, 37):  # pictures behind it may not be shown
            raise Joined("it was joined of several")
        if kind < 22 and traits is None and not (unit[0] & 1 or unit[1] >> 3):  # of the base layer
            layer = depth if kind < 16 and kind % 2 == 0 else None
            traits = Traits(kind >= 19, kind in (19, 20), kind in (8, 9), layer, depth)
    if traits is None:
        raise Undecidable("a packet has no picture")
    return traits


def _av1(data: memoryview) -> Traits:
    at = 0
    while at < len(data):
        kind, extended, sized = data[at] >> 3 & 15, data[at] >> 2 & 1, data[at] >> 1 & 1
        at += 1 + extended
        size = len(data) - at
        if sized:
            size = shift = 0
            while True:
                byte = data[at]
                at, size, shift = at + 1, size | (byte & 127) << shift, shift + 7
                if byte < 128:
                    break
        if kind in (3, 6):  # not one that was decoded before, a key frame, and shown
            key = data[at] >> 4 == 0b0001
            return Traits(key, key)
        at += size
    raise Undecidable("a packet has no picture")


def _vp9(data: memoryview) -> Traits:
    shift = int(data[0] >> 4 & 3 == 3)  # of profile 3
    repeated, inter, visible = (data[0] >> (bit - shift) & 1 for bit in (3, 2, 1))
    if data[0] >> 6 != 2 or not (repeated or visible or data[-1] & 0xE0 == 0xC0):
        raise Undecidable("a packet shows nothing")
    key = not (repeated or inter)
    return Traits(key, key)
