"""FindRequest: what is asked of a video. ``find``, ``dejacue find``, a line of a manifest and a job
of the studio are one; each field has its type, default, help and group here and nowhere else.

This module imports nothing heavy, so that ``dejacue find --help`` is quick.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeAlias,
    get_args,
)

from dejacue.errors import InputError, StrPath, named

if TYPE_CHECKING:
    from dejacue.finding._readout import Examples, VocabularySource
    from dejacue.finding.finding import Finding, Like
    from dejacue.finding.locate import MaskSource, Objects
    from dejacue.method.localization import ReadOptions
    from dejacue.method.readout import Readout
    from dejacue.models.detectors.base import Detector
    from dejacue.models.encoders import Encoder
    from dejacue.models.encoders.base import EncoderInfo
    from dejacue.models.trackers import Prompt, Tracker
    from dejacue.progress import Progress
    from dejacue.records import History
    from dejacue.video.video import Video

    Source: TypeAlias = StrPath | Video | History | Finding | Any  # or frames


WHERE = (  # fields that say where the object is
    *("masks", "objects", "box", "point", "prompts", "name", "whole", "fixed"),
    *("tracker", "detector"),
)


@dataclass(frozen=True)
class Lazy:
    """A part that is opened or loaded when it is needed: its path or name (None: the default), and
    options of the function that does it (``open_masks``, ``load_words``, ``load_encoder``, …).

    >>> Lazy("siglip2", {"device": "cuda"}).options
    {'device': 'cuda'}
    """

    name: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


def unwrapped(part: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return a part, or its name, and the options to open or load it with."""
    return (part.name, part.options) if isinstance(part, Lazy) else (part, {})


def default_encoder_of(encoder: "Encoder | str | Lazy | None") -> str | None:
    """Return the encoder that is taken where none is named; None where one is."""
    from dejacue.models.catalogue import default_encoder

    name, options = unwrapped(encoder)
    known = ("backend", "precision", "device")
    return None if name is not None else default_encoder(*(options.get(key) for key in known))


def check_encoder(encoder: "Encoder | str | Lazy | None") -> None:
    """Refuse, before anything is decoded, a default encoder whose weights are not here."""
    from dejacue.models.catalogue import check_models

    if (default := default_encoder_of(encoder)) is not None:
        check_models(encoder=default)


def loaded_encoder(encoder: "Encoder | str | Lazy | None") -> "Encoder":
    """Return an encoder; None: siglip2, which is not fetched unasked."""
    from dejacue.models.encoders import Encoder, load_encoder

    name, options = unwrapped(encoder)
    if isinstance(name, Encoder):
        return name
    check_encoder(encoder)
    return load_encoder("siglip2" if name is None else name, **options)


class OptionText(NamedTuple):
    """Holds what stands beside the type of a field: group and help of its option, its type as it is
    written in a file or typed, and the names of the option where they are not that of the field."""

    group: str
    help: str
    written: type = str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sampling:
    """Which frames of a video are used, as ``open_video`` takes them; with neither stride nor fps,
    all or, of a slow encoder, about four a second.

    start, end       first and last frame of the file, included
    start_s, end_s   the same in seconds
    stride, fps      take every n-th frame, or this many a second
    rate             images a second, of a folder of images
    errors           frames that cannot be decoded: skip or fail
    stream           of the video, as ffprobe counts

    >>> Sampling(fps=5, start_s=3).start_s
    3
    """

    start: int | None = None
    end: int | None = None
    start_s: Annotated[float | None, "Frames", "First second.", float] = None
    end_s: Annotated[float | None, "Frames", "Last second.", float] = None
    stride: Annotated[
        int | None,
        "Frames",
        "Take every n-th frame (default: all; slow encoders, about 4 per second).",
        int,
    ] = None
    fps: float | None = None
    rate: Annotated[float | None, "Frames", "Images per second, of a folder.", float] = None
    errors: Annotated[str, "Frames", "Frames that cannot be decoded: skip or fail."] = "skip"
    stream: Annotated[
        int | None, "Frames", "Video stream, as ffprobe counts (default: the largest).", int
    ] = None

    @classmethod
    def between(cls, start: int | str | None, end: int | str | None, **options: Any) -> Self:
        """Return the sampling from a frame (120), second (4.5s) or time (1:30) to another."""
        first, first_s = _frame_or_seconds("start", start)
        last, last_s = _frame_or_seconds("end", end)
        return cls(first, last, first_s, last_s, **options)

    @property
    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        default = vars(Sampling())
        return {name: value for name, value in vars(self).items() if value != default[name]}


@dataclass(frozen=True)
class FindRequest:
    """Says what ``find`` is asked, which explains the fields.

    A part may also be given with those of its options that are rarely changed, and is then opened
    or loaded when it is needed (Lazy).

    >>> FindRequest("kitchen.mp4", "cup.yaml", box=(120, 80, 300, 260), fps=5).sampled.fps
    5
    """

    video: Annotated[
        "Source",
        "Video",
        "A video, a folder of images, or a quoted glob; or the result of an earlier run: a "
        "history (.npz) or its folder.",
        Path,
    ]
    states: Annotated[
        "VocabularySource | Lazy | None",
        "States",
        "Descriptions of each state: words (.yaml, .json) or features (.npz); optional if "
        "examples, marks or other results show the states.",
        Path,
        ("--states", "--vocabulary", "-v"),
    ] = None
    _: KW_ONLY
    examples: Annotated[
        "Examples | None",
        "States",
        "STATE=EXAMPLE: a frame of the file (120), frames (120-180), a time (4.5s, 1:30), "
        "cup.jpg, other.history.npz@33; none=45: in none of the states.",
        list[str],
        ("--example", "-e"),
    ] = None
    like: Annotated[
        "Like | Sequence[Like]",
        "States",
        "The folder of an earlier result, in which you named frames: it shows the states.",
        list[Path],
    ] = ()
    order: Annotated[
        Sequence[str] | None,
        "States",
        "The only order of the states (a,b,c, then a again), of the readout timeline.",
    ] = None
    exhaustive: Annotated[
        bool,
        "States",
        "Every frame shows one of the states; without it, beside examples frames may show none "
        "of them.",
        bool,
    ] = False
    masks: Annotated[
        "MaskSource | Lazy | None",
        "Object",
        "Masks of the object: PNG or YOLO folder, glob, .npz, .json, .jsonl, .csv or .txt.",
        Path,
    ] = None
    objects: Annotated[
        "Objects",
        "Object",
        "Mask ids: one (1), several with a history each (1,2 or all), or the pieces of one (1+2).",
        str,
        ("--object", "--objects"),
    ] = None
    box: Annotated[
        Sequence[float] | None,
        "Object",
        "Box x0,y0,x1,y1@FRAME around the object; 2:… for object 2.",
        list[str],
    ] = None
    point: Annotated[
        Sequence[float] | None, "Object", "Point x,y@FRAME on the object.", list[str]
    ] = None
    prompts: Annotated[
        "Prompt | Sequence[Prompt]", "Object", "Boxes, points and masks in any frame."
    ] = ()
    name: Annotated[
        str | Sequence[str] | None,
        "Object",
        "What the object is called, or a picture of it, to find it (default: object in the "
        "vocabulary).",
        list[str],
    ] = None
    whole: Annotated[bool, "Object", "Every frame is the object.", bool] = False
    fixed: Annotated[
        bool, "Object", "The box stays where it is, or moves evenly between boxes.", bool
    ] = False
    start: Annotated[
        int | str | None, "Frames", "First frame (120), second (4.5s) or time (1:30)."
    ] = None
    end: Annotated[int | str | None, "Frames", "Last frame, second or time, included."] = None
    fps: Annotated[float | None, "Frames", "Take this many frames per second.", float] = None
    sampling: Annotated[Sampling, "Frames", "What else says which frames are used."] = Sampling()
    encoder: Annotated[
        "Encoder | str | Lazy | None",
        "Method",
        "siglip2 (default), siglip2:int8, siglip2-large, siglip2-so400m, lite (small, knows no "
        "words), mini (knows only the demo), hf:NAME, openclip:NAME, timm:NAME, or a plug-in.",
    ] = None
    tracker: Annotated[
        "Tracker | str | Lazy | None",
        "Object",
        "sam2, sam2-tiny, edgetam, nano (small, boxes), … (default: the first that is installed).",
    ] = None
    detector: Annotated["Detector | str | None", "Object", "Finds the object by its name."] = None
    readout: Annotated[
        "str | Readout | ReadOptions",
        "Method",
        "timeline (every occurrence), contrast (one window a state), published (the paper), "
        "scan, or a plug-in.",
        str,
        ("--readout", "-r"),
    ] = "timeline"
    folder: Annotated["StrPath | None", "Results", "Where all of it is kept and reused."] = None
    progress: Annotated["Progress | None", "Results", "Is called with how far it is."] = None

    @property
    def sampled(self) -> Sampling:
        """Return which frames are used; refuse what is said twice."""
        named_here = Sampling.between(self.start, self.end, fps=self.fps).changed
        for name in named_here.keys() & self.sampling.changed.keys():
            problem = f"{name} is given as well as in sampling"
            raise InputError(f"{problem}; leave one of them out")
        return replace(self.sampling, **named_here) if named_here else self.sampling

    def opened(self, threads: int | None = None) -> "Video":
        """Return the frames to look at; ``threads`` decode them."""
        from dejacue.video.video import Video, open_video

        video, sampling = self.video, self.sampled
        if isinstance(video, str | os.PathLike):
            return open_video(video, **vars(sampling), threads=threads)
        if not isinstance(video, Video):  # frames
            return open_video(video, **vars(sampling))
        if sampling.changed:
            names = ", ".join(sampling.changed)
            raise InputError(f"{names}: the video is already open; give this to open_video instead")
        return video

    def max_fps(self, encoder: "Encoder | EncoderInfo") -> float | None:
        """Return how many frames a second the encoder is given at most; None: all, as the video is
        open already or the user says which frames to take."""
        sampling, is_path = self.sampled, isinstance(self.video, str | os.PathLike)
        chosen = not is_path or (sampling.stride, sampling.fps) != (None, None)
        return None if chosen else encoder.max_fps or math.inf

    @property
    def where(self) -> dict[str, Any]:
        """Return how it is said where the object is, as ``locate_object`` takes it."""
        return {name: getattr(self, name) for name in WHERE}

    @property
    def reading(self) -> "ReadOptions":
        """Return the options of the reading; the order is that of a timeline."""
        from dejacue.method.localization import DEFAULT_READOUT, as_readout
        from dejacue.method.timeline import Reading

        options: ReadOptions = (
            self.readout if isinstance(self.readout, dict) else {"readout": self.readout}
        )
        if self.order is None:
            return options
        chosen = as_readout(options.get("readout", DEFAULT_READOUT))
        if not isinstance(chosen, Reading) or chosen.order is not None:
            problem = f"order does not apply to the readout {chosen.name}"
            if isinstance(chosen, Reading):
                problem = "order is given as well as in the readout"
            raise InputError(f"{problem}; leave one of them out")
        return {**options, "readout": replace(chosen, order=tuple(self.order))}


def asked_fields() -> dict[str, OptionText]:
    """Return what is said of the fields of a request, and of those that only its sampling has."""
    types = {option.name: option.type for option in (*fields(Sampling), *fields(FindRequest))}
    texts = {name: get_args(type_)[1:] for name, type_ in types.items()}
    return {name: OptionText(*parts) for name, parts in texts.items() if parts}


def _frame_or_seconds(name: str, value: int | str | None) -> tuple[int | None, float | None]:
    from dejacue.records.vocabulary import seconds_of

    if not isinstance(value, str):
        return value, None
    try:
        if not value.endswith("s") and ":" not in value:
            return int(value), None
        with named(name):
            return None, seconds_of(value)
    except InputError:
        raise
    except ValueError:
        problem = f'{name} "{value}": give a frame (120), seconds (4.5s) or a time (1:30)'
        raise InputError(problem) from None
