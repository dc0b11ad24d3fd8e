"""A video file, image folder or pattern as a stream of frames: the first step to a history.

_containers.py reads what FFmpeg reads, images.py folders and patterns; _sampling.py decides which
frames are taken. Memory use does not grow with the length of the video: frames are streamed.
"""

from __future__ import annotations

import copy
import glob
import hashlib
import itertools
import json
import math
import operator
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import write_whole
from dejacue.errors import InputError, brief, in_file, unknown
from dejacue.video import arrays
from dejacue.video._containers import Container
from dejacue.video._rgb import LazyFrame
from dejacue.video._sampling import FrameChoice, Picture, Source, Unreadable, is_between
from dejacue.video.images import Images, images_in, is_image, natural

ERRORS = ("skip", "fail")
RATES = (1e-9, 1e9)  # of images, a second; others are typing errors
_FORMATS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska"}
# mbtree, x264's look ahead, gives other bits each time (its AVX code does), even with one thread
_QUALITY = {"libx264": {"crf": "18", "mbtree": "0"}, "mpeg4": {"qmin": "2", "qmax": "4"}}
_TICKS = 60_000  # a second of a variable rate; MPEG-4 allows no more than 65 535
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+:)/+")  # a Path has a single slash


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame that was sampled.

    ``index`` is its position there, ``source`` its 0-based ordinal in the source, ``time_s`` its
    presentation time since the start of the stream (images: position / rate, or none), ``name``
    the stem of an image file, ``image`` (H, W, 3) RGB, upright: made of ``pixels`` when it is
    asked for, all of it or a part.

    >>> frame = next(iter(open_video("cup.mp4", start=6)))
    >>> frame.index, frame.source, frame.time_s, frame.shape
    (0, 6, 0.6, (32, 64))
    """

    index: int
    source: int
    time_s: float | None
    name: str | None
    pixels: NDArray[np.uint8] | LazyFrame

    @cached_property
    def image(self) -> NDArray[np.uint8]:
        return self.pixels.image() if isinstance(self.pixels, LazyFrame) else self.pixels

    @property
    def shape(self) -> tuple[int, int]:
        """Return height and width."""
        return self.pixels.shape[0], self.pixels.shape[1]

    @property
    def nbytes(self) -> int:
        return self.pixels.nbytes

    def part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[NDArray[np.uint8], int, int]:
        """Return RGB of at least these rows and columns, and the row and column where it begins."""
        if isinstance(self.pixels, LazyFrame):
            return self.pixels.part(y0, y1, x0, x1)
        return self.pixels, 0, 0


class Video:
    """An iterable of frames, decoded again in each pass; made by open_video.

    ``length`` is the number of indices to expect, None where the header does not say: exact for
    images, and for most .mp4 sampled by ordinals, else an estimate. ``key`` changes with the files
    or the sampling, not with the folder they are in. ``rate`` is the frames a second that the
    header of a file states, and ``in_memory`` says that it has no file. A frame that cannot be
    decoded keeps its index, is not yielded, and is reported in ``problems``, which describes the
    last pass; so is a file that ends too early, which of several video streams is used, and where
    recordings were joined.

    >>> video = open_video("cup.mp4", fps=2)
    >>> video.name, video.rate, video.length, video.problems
    ('cup', 10.0, 6, [])
    >>> [frame.source for frame in video]
    [0, 5, 10, 15, 20, 25]
    """

    step = 1  # of its frames, one of so many is given; see thinned

    def __init__(
        self, path: str, source: Source, sampling: FrameChoice, errors: str, key: str
    ) -> None:
        self.path, self.name, self.key = path, source.name, key
        self._source, self._sampling, self._errors = source, sampling, errors
        self.in_memory = isinstance(source, arrays.Arrays)
        self.rate = source.rate if isinstance(source, Container) else None
        self._notes: list[str] = source.notes if isinstance(source, Container) else []
        self._problems: list[str] = []
        with in_file(path):
            self.length = source.expected(sampling)

    @property
    def problems(self) -> list[str]:
        return [f"{self.path}: {sentence}" for sentence in (*self._notes, *self._problems)]

    def note(self, sentence: str) -> None:
        """Add what a reader must know to the problems of every pass.

        >>> video = open_video("cup.mp4")
        >>> video.note("is rendered")
        >>> video.problems
        ['cup.mp4: is rendered']
        """
        if sentence not in self._notes:
            self._notes.append(sentence)

    def __iter__(self) -> Iterator[Frame]:
        return self._frames(None, lazy=False)

    def lazy_frames(self) -> Iterator[Frame]:
        """Iterate over the same frames; where it can be, their RGB is made when it is asked for.

        >>> frame = next(open_video("cup.mp4").lazy_frames())
        >>> pixels, top, left = frame.part(5, 20, 3, 30)
        >>> pixels.shape, top, left  # at least these rows and columns; of the first frame, all
        ((32, 64, 3), 0, 0)
        """
        return self._frames(None, lazy=True)

    def frames_at(self, indices: Iterable[int]) -> Iterator[Frame]:
        """Yield the frames of these indices, ascending and each once; those between them are not
        decoded where they are not needed. One that is past the end or cannot be decoded is left
        out, as in any other pass.

        >>> [frame.time_s for frame in open_video("cup.mp4").frames_at([20, 3])]
        [0.3, 2.0]
        """
        wanted = sorted({operator.index(index) for index in indices})
        if wanted and wanted[0] < 0:
            raise InputError(f"there is no frame {wanted[0]}; count from 0")
        return self._frames(wanted, lazy=False) if wanted else iter(())

    def count_if_before(self, position: float, unit: str) -> int | None:
        """Return the number of frames of the source if it ends before this one ("source") or this
        time ("seconds"); they are counted only if its header ends before it.

        >>> video = open_video("cup.mp4")
        >>> video.count_if_before(30, "source"), video.count_if_before(29, "source")
        (30, None)
        """
        source, rate, count = self._source, self.rate or 1.0, 0
        ordinal = unit == "source"
        least = position if ordinal else position - 1 / rate  # the last frame is shown that long
        with in_file(self.path):
            if isinstance(source, Container):
                if least < (source.expected(FrameChoice()) or 0) / (1 if ordinal else rate):
                    return None
                times: Iterator[float | None] = iter(source.times_s())
            else:
                times = (picture.time_s for picture in source.pictures(lambda sentence: None))
            for count, time_s in enumerate(times, start=1):
                if (count - 1 if ordinal else math.inf if time_s is None else time_s) >= least:
                    return None
        return count

    def thinned(self, step: int) -> Video:
        """Return every n-th of these frames, counted anew; ``Masks.thinned`` finds their masks.

        >>> [(frame.index, frame.source) for frame in open_video("cup.mp4").thinned(10)]
        [(0, 0), (1, 10), (2, 20)]
        """
        if step == 1:
            return self
        video = copy.copy(self)
        video.step = step
        video.key = hashlib.sha256(f"{self.key} every {step}".encode()).hexdigest()
        video.length = None if self.length is None else -(-self.length // step)
        return video

    def every_frame(self) -> Video:
        """Return all frames from the first to the last of the range, sampled or not."""
        whole = replace(self._sampling, stride=1, fps=None)
        if whole == self._sampling and self.step == 1:
            return self
        video = copy.copy(self)
        video.step, video._sampling = 1, whole
        video.key = hashlib.sha256(f"{self.key} every frame".encode()).hexdigest()
        video.length = None
        return video

    def _chosen(
        self, indices: Sequence[int] | None, frames: Iterable[Picture]
    ) -> Iterator[tuple[int, int, Picture]]:
        """Yield index, ordinal and frame of those that are sampled, or of these indices only."""
        sampled = itertools.islice(self._sampling.select(frames), 0, None, self.step)
        if indices is None:
            yield from ((index, *item) for index, item in enumerate(sampled))
            return
        taken = -1
        for index in indices:
            item = next(itertools.islice(sampled, index - taken - 1, None), None)
            if item is None:
                return
            taken = index
            yield index, *item

    def _pictures(self, indices: Sequence[int] | None) -> Generator[tuple[int, int, Picture]]:
        choose = partial(self._chosen, indices)
        if isinstance(self._source, Container):
            yield from self._source.chosen(choose, self._report)
        else:
            with closing(self._source.pictures(self._report)) as pictures:
                yield from choose(pictures)

    def _frames(self, indices: Sequence[int] | None, *, lazy: bool) -> Iterator[Frame]:
        self._problems = []
        first: tuple[int, tuple[int, ...]] | None = None  # and not its pixels
        index = -1
        with in_file(self.path), closing(self._pictures(indices)) as pictures:
            for index, source, picture in pictures:
                try:
                    later = picture.lazy() if lazy and picture.lazy is not None else None
                    pixels = picture.load() if later is None else later
                except Unreadable as reason:
                    place = f" ({picture.time_s:.3f} s)" if picture.time_s is not None else ""
                    place = f" ({picture.name})" if picture.name else place
                    problem = f"frame {source}{place} cannot be decoded ({reason})"
                    self._report(problem, " and counts as not observed")
                    continue
                frame = Frame(index, source, picture.time_s, picture.name, pixels)
                first = first or (source, frame.shape)
                if frame.shape != first[1]:
                    (height, width), size = frame.shape, first[1]
                    raise InputError(
                        f"frame {first[0]} has {size[1]} × {size[0]} pixels, but frame {source} "
                        f"has {width} × {height}; resize all frames to one size"
                    )
                # while the next is decoded, the taker decides what is kept
                del picture, later, pixels
                yield frame
                del frame
            if first is None and indices is not None:
                return
            if first is None and index < 0 and (self._sampling.start or self._sampling.start_s):
                typed = f"{self._sampling.start} is past the last frame"
                if self._sampling.start_s:
                    typed = f"{self._sampling.start_s:g}s is past the end"
                raise InputError(f"start {typed}; give an earlier one")
            if first is None:
                raise InputError(
                    "none of its frames can be decoded; re-encode it, or copy it again"
                )

    def _report(self, sentence: str, result: str = "") -> None:
        if self._errors == "fail":
            remedy = "copy or re-encode the file, or ignore the damage with the setting errors=skip"
            raise InputError(f"{sentence}; {remedy}")
        self._problems.append(sentence + result)


def open_video(
    path: Any,
    *,
    start: int | None = None,
    end: int | None = None,
    start_s: float | None = None,
    end_s: float | None = None,
    stride: int | None = None,
    fps: float | None = None,
    rate: float | None = None,
    errors: str = "skip",
    threads: int | None = None,
    stream: int | None = None,
) -> Video:
    """Open a video file, a folder of images, or a glob pattern of images; only headers are read.
    Or frames: a list, array (T, H, W, 3) or generator of them, or the decoder of another library
    (decord, torchcodec); ``rate``, or else ``fps``, are then their frames a second.

    ``start`` to ``fps`` are those of FrameChoice. ``rate`` (images a second) gives times to images.
    ``errors`` says what to do with a frame that cannot be decoded: "skip" or "fail". ``threads``
    that decode a video file: by default as many as there are cores; 1 where several are decoded.
    ``stream``: number of the video stream of a file, as ffprobe counts; by default the largest.

    >>> [frame.time_s for frame in open_video("cup.mp4", start_s=0.4, end_s=0.6)]
    [0.4, 0.5, 0.6]
    >>> [frame.name for frame in open_video("pictures", rate=10, stride=2)]
    ['cup1', 'cup10']
    >>> [frame.time_s for frame in open_video([np.zeros((32, 64, 3), np.uint8)] * 3, fps=10)]
    [0.0, 0.1, 0.2]
    """
    in_memory = not isinstance(path, str | os.PathLike)
    name = arrays.NAME if in_memory else os.fspath(path)
    if in_memory and rate is None and (rate := arrays.rate_of(path)) is None:
        rate, fps = fps, None
    with in_file(_ADDRESS.sub(r"\1//", name)):
        if errors not in ERRORS:
            raise unknown("errors", errors, ERRORS)
        if rate is not None and not is_between(rate, *RATES):
            raise InputError(f"rate {brief(rate)} is invalid; give 1e-9 to 1e9 images per second")
        sampling = FrameChoice(start, end, start_s, end_s, 1 if stride is None else stride, fps)
        source: Source = (
            arrays.Arrays(path, rate) if in_memory else open_source(name, rate, threads, stream)
        )
    return Video(name, source, sampling, errors, _key(source, sampling, rate))


def _key(source: Source, sampling: FrameChoice, source_key: Any) -> str:
    content = json.dumps([source.identity, astuple(sampling), source_key], default=str)
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def open_source(
    name: str, rate: float | None = None, threads: int | None = None, stream: int | None = None
) -> Images | Container:
    """Return what gives the pictures of a file, a folder or a pattern."""
    place = Path(name)
    try:
        if stream is not None and place.exists() and (place.is_dir() or is_image(place)):
            raise InputError("images have no streams; leave it out")
        if place.is_dir():
            return Images(place.absolute().name, images_in(place), rate)
        if place.is_file() and is_image(place):
            return Images(place.stem, [place], rate)
        if place.is_file() and rate is not None:
            remedy = "a video file has its own timestamps, so leave it out"
            raise InputError(f"rate is only for images; {remedy}")
        if place.exists():
            return Container(place, threads, stream)  # which refuses a device
        if glob.has_magic(name):
            files = natural(match for match in glob.iglob(name, recursive=True) if is_image(match))
            if files:
                return Images(files[0].absolute().parent.name, files, rate)
            raise InputError("no image matches this pattern; check it, and quote it in the shell")
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})") from None
    if _ADDRESS.match(name):
        remedy = "download it first; dejacue live plays addresses as they come"
        raise InputError(f"is an address, not a file; {remedy}")
    remedy = "check the path"
    if name.isascii() and name.isdecimal():
        remedy += f"; a camera is called camera:{name}, and dejacue live reads it"
    raise InputError(f"no such file or folder; {remedy}")


def write_video(
    path: str | os.PathLike[str],
    frames: Iterable[NDArray[np.uint8]],
    rate: float | Fraction,
    *,
    codec: str = "libx264",
    times_s: Iterable[float] | None = None,
    options: Mapping[str, str] | None = None,
) -> Path:
    """Write (H, W, 3) RGB frames as .mp4, .mov or .mkv; the file appears whole or not at all.

    An odd height or width is made even by repeating the last pixels. With ``times_s``, one per
    frame and increasing, the rate varies. Where FFmpeg was built without x264, MPEG-4 is written.
    ``options`` are those of the codec; default: of high quality.

    >>> black = np.zeros((32, 64, 3), np.uint8)
    >>> path = write_video("black.mp4", [black] * 3, 10, times_s=[0.0, 0.1, 0.5])
    >>> [frame.time_s for frame in open_video(path)]
    [0.0, 0.1, 0.5]
    """
    import av

    name = os.fspath(path)
    with in_file(name):
        kind = _FORMATS.get(Path(name).suffix.lower())
        if kind is None:
            problem = f"a video is written as {', '.join(_FORMATS)}"
            raise InputError(f"{problem}; use one of these suffixes")
        if not 0.001 <= rate <= 1000:
            raise InputError(f"rate {rate} is invalid; give 0.001 to 1000 frames per second")
        if codec not in av.codecs_available:
            if codec != "libx264":
                raise unknown("codec", codec, ("libx264", "mpeg4"))
            codec, options = "mpeg4", None
        exact = Fraction(rate).limit_denominator(1001)
        base = 1 / exact if times_s is None else Fraction(1, _TICKS)
        stamped = _stamped(frames, times_s)
        first = next(stamped, None)
        if first is None:
            raise InputError("there are no frames to write")
        quality = dict(_QUALITY.get(codec, {}) if options is None else options)
        everything = itertools.chain([first], stamped)
        try:
            return write_whole(
                path, lambda out: _encode(out, kind, codec, quality, exact, base, everything)
            )
        except av.FFmpegError as error:
            raise InputError(f"cannot be written with {codec} ({error.strerror})") from None


def _stamped(
    frames: Iterable[NDArray[np.uint8]], times_s: Iterable[float] | None
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield every frame, checked and of even size, with its number or its time in ticks."""
    times = None if times_s is None else iter(times_s)
    shape, before = None, -1
    for at, frame in enumerate(frames):
        image = np.asarray(frame)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            problem = f"frame {at} is {image.dtype} of shape {image.shape}"
            raise InputError(f"{problem}; give uint8 (height, width, 3)")
        shape = shape or image.shape
        if image.shape != shape:
            raise InputError(f"frame {at} has shape {image.shape}, but the first frame has {shape}")
        stamp = at
        if times is not None:
            time_s = next(times, None)
            if time_s is None or not before < time_s * _TICKS < 2**53:
                problem = f"frame {at} has the time {time_s}"
                raise InputError(f"{problem}; times must start at 0 and increase")
            stamp = before = max(before + 1, round(time_s * _TICKS))
        odd = ((0, shape[0] % 2), (0, shape[1] % 2), (0, 0))
        yield stamp, np.pad(image, odd, mode="edge") if shape[0] % 2 or shape[1] % 2 else image


def _encode(
    out: IO[bytes],
    kind: str,
    codec: str,
    quality: dict[str, str],
    rate: Fraction,
    base: Fraction,
    stamped: Iterator[tuple[int, NDArray[np.uint8]]],
) -> None:
    import av
    from av.video import reformatter as colours

    with av.open(out, "w", format=kind) as container:
        stream: Any = None
        converter = colours.VideoReformatter()
        for stamp, image in stamped:
            if stream is None:
                stream = container.add_stream(codec, rate=rate, options=quality)
                stream.height, stream.width = image.shape[:2]
                stream.pix_fmt = "yuv420p"
                stream.codec_context.time_base = base
                # tag the colours as BT.709: players guess where nothing is tagged
                stream.codec_context.colorspace = colours.Colorspace.ITU709
                stream.codec_context.color_primaries = colours.ColorPrimaries.BT709
                stream.codec_context.color_trc = colours.ColorTrc.BT709
                stream.codec_context.color_range = colours.ColorRange.MPEG
            frame = converter.reformat(
                av.VideoFrame.from_ndarray(image, format="rgb24"),
                format="yuv420p",
                dst_colorspace=colours.Colorspace.ITU709,
                dst_color_range=colours.ColorRange.MPEG,
            )
            frame.pts, frame.time_base = stamp, base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
