"""FindRequest: what is asked of a video. ``find``, ``dejacue find``, a line of a manifest and a job
of the studio are one; each field has its type, default, help and group here and nowhere else.

This module imports nothing heavy, so that ``dejacue find --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from dejacue.errors import InputError, StrPath, named

if TYPE_CHECKING:
    from dejacue.method.plan import ReadOptions
    from dejacue.method.readout import Readout
    from dejacue.pipeline._readout import Examples, MoreExamples, VocabularySource
    from dejacue.pipeline.finding import Finding, Like
    from dejacue.pipeline.job import EncoderOptions
    from dejacue.pipeline.where import InMasks, MaskSource, Objects
    from dejacue.progress import Progress
    from dejacue.records import History
    from dejacue.sources.detectors.base import Detector
    from dejacue.sources.encoders import Encoder
    from dejacue.sources.tracks import Prompt, Tracker
    from dejacue.sources.tracks.follow import Prompts, TrackerOptions
    from dejacue.sources.video import Video

    Source: TypeAlias = StrPath | Video | History | Finding

T = TypeVar("T")


def _asked(help: str, group: str, written: type = str) -> dict[str, Any]:
    """Return what is said of a field: help and group of its option on the command line, and its
    type in a file."""
    return {"help": help, "group": group, "written": written}


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
    start_s: float | None = field(default=None, metadata=_asked("First second.", "Frames", float))
    end_s: float | None = field(default=None, metadata=_asked("Last second.", "Frames", float))
    stride: int | None = field(
        default=None,
        metadata=_asked(
            "Take every n-th frame (default: all; slow encoders, about 4 per second).",
            "Frames",
            int,
        ),
    )
    fps: float | None = None
    rate: float | None = field(
        default=None, metadata=_asked("Images per second, of a folder.", "Frames", float)
    )
    errors: str = field(
        default="skip", metadata=_asked("Frames that cannot be decoded: skip or fail.", "Frames")
    )
    stream: int | None = field(
        default=None,
        metadata=_asked("Video stream, as ffprobe counts (default: the largest).", "Frames", int),
    )

    @classmethod
    def between(cls, start: int | str | None, end: int | str | None, **options: Any) -> Sampling:
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
class LazyModel(Generic[T]):
    """A model that is loaded when it is needed: its name (None: the default) and options."""

    name: str | None
    options: T


@dataclass(frozen=True, eq=False)
class FindRequest:
    """What ``find`` is asked; it explains the fields.

    A part may also be given with those of its options that are rarely changed, and is then opened
    or loaded when it is needed: InMasks, MoreExamples, LazyModel, ReadOptions.

    >>> FindRequest("kitchen.mp4", "cup.yaml", box=(120, 80, 300, 260), fps=5).sampled.fps
    5
    """

    video: Source = field(
        metadata=_asked(
            "A video, a folder of images, or a quoted glob; or the result of an earlier run: a "
            "history (.npz) or its folder.",
            "Video",
        )
    )
    states: VocabularySource | None = field(
        default=None,
        metadata=_asked(
            "Descriptions of each state: words (.yaml, .json) or features (.npz); optional if "
            "examples, marks or other results show the states.",
            "States",
        ),
    )
    _: KW_ONLY
    examples: Examples | MoreExamples | None = field(
        default=None,
        metadata=_asked(
            "STATE=EXAMPLE: a frame of the file (120), frames (120-180), a time (4.5s, 1:30), "
            "cup.jpg, other.history.npz@33; none=45: in none of the states.",
            "States",
            list[str],
        ),
    )
    like: Like | Sequence[Like] = field(
        default=(),
        metadata=_asked(
            "The folder of an earlier result, in which you named frames: it shows the states.",
            "States",
            list[str],
        ),
    )
    order: Sequence[str] | None = field(
        default=None,
        metadata=_asked(
            "The only order of the states (a,b,c, then a again), of the readout timeline.", "States"
        ),
    )
    exhaustive: bool = field(
        default=False,
        metadata=_asked(
            "Every frame shows one of the states; without it, beside examples frames may show "
            "none of them.",
            "States",
            bool,
        ),
    )
    masks: MaskSource | InMasks | None = field(
        default=None,
        metadata=_asked(
            "Masks of the object: PNG or YOLO folder, glob, .npz, .json, .jsonl, .csv or .txt.",
            "Object",
        ),
    )
    objects: Objects = field(
        default=None,
        metadata=_asked(
            "Mask ids: one (1), several with a history each (1,2 or all), or the pieces of one "
            "(1+2).",
            "Object",
        ),
    )
    box: Sequence[float] | None = field(
        default=None,
        metadata=_asked(
            "Box x0,y0,x1,y1@FRAME around the object; 2:… for object 2.", "Object", list[str]
        ),
    )
    point: Sequence[float] | None = field(
        default=None, metadata=_asked("Point x,y@FRAME on the object.", "Object", list[str])
    )
    prompts: Prompt | Prompts = field(
        default=(), metadata=_asked("Boxes, points and masks in any frame.", "Object")
    )
    name: str | Sequence[str] | None = field(
        default=None,
        metadata=_asked(
            "What the object is called, or a picture of it, to find it (default: object in the "
            "vocabulary).",
            "Object",
            list[str],
        ),
    )
    whole: bool = field(
        default=False, metadata=_asked("Every frame is the object.", "Object", bool)
    )
    fixed: bool = field(
        default=False,
        metadata=_asked(
            "The box stays where it is, or moves evenly between boxes.", "Object", bool
        ),
    )
    start: int | str | None = field(
        default=None, metadata=_asked("First frame (120), second (4.5s) or time (1:30).", "Frames")
    )
    end: int | str | None = field(
        default=None, metadata=_asked("Last frame, second or time, included.", "Frames")
    )
    fps: float | None = field(
        default=None, metadata=_asked("Take this many frames per second.", "Frames", float)
    )
    sampling: Sampling = field(
        default=Sampling(), metadata=_asked("What else says which frames are used.", "Frames")
    )
    encoder: Encoder | str | LazyModel[EncoderOptions] | None = field(
        default=None,
        metadata=_asked(
            "siglip2 (default), siglip2:int8, siglip2-large, siglip2-so400m, lite (small, "
            "knows no words), mini (knows only the demo), hf:NAME, openclip:NAME, timm:NAME, "
            "or a plug-in.",
            "Method",
        ),
    )
    tracker: Tracker | str | LazyModel[TrackerOptions] | None = field(
        default=None,
        metadata=_asked("sam2, sam2-tiny, edgetam, … (default: sam2, if installed).", "Object"),
    )
    detector: Detector | str | None = field(
        default=None, metadata=_asked("Finds the object by its name.", "Object")
    )
    readout: str | Readout | ReadOptions = field(
        default="timeline",
        metadata=_asked(
            "timeline (every occurrence), contrast (one window a state), published (the "
            "paper), scan, or a plug-in.",
            "Method",
        ),
    )
    folder: StrPath | None = field(
        default=None, metadata=_asked("Where all of it is kept and reused.", "Results")
    )
    progress: Progress | None = field(
        default=None, metadata=_asked("Is called with how far it is.", "Results")
    )

    @property
    def sampled(self) -> Sampling:
        """Return which frames are used; refuse what is said twice."""
        named_here = Sampling.between(self.start, self.end, fps=self.fps).changed
        for name in named_here.keys() & self.sampling.changed.keys():
            problem = f"{name} is given as well as in sampling"
            raise InputError(f"{problem}; leave one of them out")
        return replace(self.sampling, **named_here) if named_here else self.sampling


def request_fields() -> dict[str, Field[Any]]:
    """Return the fields of a request, and the rare ones of its sampling, by name."""
    of_sampling = [option for option in fields(Sampling) if option.metadata]
    return {option.name: option for option in (*fields(FindRequest), *of_sampling)}


def _frame_or_seconds(name: str, value: int | str | None) -> tuple[int | None, float | None]:
    from dejacue.records.example import seconds_of

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
