"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dejacue.errors import InputError

if TYPE_CHECKING:
    from dejacue.pipeline import TypedPrompts, VideoOptions
    from dejacue.pipeline._read import Shown

SEVERAL = {"allow_extra_args": True}  # of a glob without quotes; what to do then is ours to say


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def option(
    help: str,
    *names: str,
    panel: str | None = None,
    values: Callable[[], list[str]] | None = None,
    metavar: str | None = None,
) -> Any:
    """``values`` completes what is typed in the shell; it is called when that is asked for."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)] if values else []

    return typer.Option(
        *names,
        help=help,
        rich_help_panel=panel,
        metavar=metavar,
        autocompletion=complete if values else None,
    )


flag = partial(option, metavar=" ")  # without the word bool in the help
_video = partial(option, panel="Video and masks")
_object = partial(option, panel="Where the object is, without masks")
_method = partial(option, panel="Method")
_shown = partial(option, panel="States shown by examples")
_encoder = partial(option, panel="Encoder")


def _readouts() -> list[str]:
    from dejacue.method.plan import READOUTS

    return sorted({*READOUTS, "published"})


def _coordinates() -> list[str]:
    from dejacue.method.coordinates import COORDINATES

    return list(COORDINATES)


def _trackers() -> list[str]:
    from dejacue.sources.tracks.sam2 import REPOSITORIES

    return ["box", "sam2", *REPOSITORIES]


Text = str | None
Texts = list[str] | None
Number = float | None
Count = int | None
File = Path | None

Source = Annotated[Path, typer.Argument(help="A video, a folder of images, or a quoted glob.")]
OutputFormat = Annotated[
    Format | None,
    option("Output format (default: by the suffix of --output, else table).", "--format", "-f"),
]
Times = Annotated[
    list[Path] | None,
    option(
        "Video or history (.npz) with the timestamps, for references in seconds; for several "
        "objects, one file of the same name each.",
        metavar="FILE",
    ),
]
PromptForm = Annotated[
    Text,
    option("Form of the descriptions: ensemble (default), raw, photo, definite.", "--prompts"),
]
ENGINES = ["auto", "avx2", "baseline", "numpy"]
Engine = Annotated[
    str, option(f"{', '.join(ENGINES)}: same answer, different speed.", values=lambda: ENGINES)
]
WHERE = ["local", "ray"]
Workers = Annotated[
    str,
    option(
        "local, or ray (the machines of a cluster): same answer.",
        "--engine",
        values=lambda: WHERE,
    ),
]
Decoders = Annotated[
    Count,
    option("Processes that decode and crop (default: number of cores minus one).", "--workers"),
]
RayAddress = Annotated[
    Text,
    option("HOST:PORT of the cluster, or auto (default: RAY_ADDRESS, else this machine only)."),
]
Vocabulary = Annotated[
    Path,
    option(
        "Descriptions of each state: words (.yaml, .json) or features (.npz).", "--vocabulary", "-v"
    ),
]
Words = Annotated[
    File,
    option(
        "Descriptions of each state: words (.yaml, .json) or features (.npz); optional if "
        "examples show every state.",
        "--vocabulary",
        "-v",
    ),
]
Example = Annotated[
    Texts,
    _shown(
        "STATE=EXAMPLE: a frame of the file (120), frames (120-180), a time (4.5s, 1:30), cup.jpg, "
        "other.history.npz@33; none=45: in none of the states.",
        "--example",
        "-e",
    ),
]
Change = Annotated[Texts, _shown("Frame (300) or time (4.5s) at which a state ends.")]
AskNext = Annotated[
    Count, _shown("Also list this many frames to ask a person about next.", "--ask")
]

Masks = Annotated[
    File,
    _video("Masks of the object: PNG or YOLO folder, glob, .npz, .json, .jsonl, .csv or .txt."),
]
MaskKind = Annotated[
    Text,
    _video(
        "Kind of masks: indexed, binary, youtube-vos, stack, coco, boxes, logits (above 0), "
        "logits:0.5 (default: detected)."
    ),
]
Match = Annotated[
    str, _video("How masks are matched to frames: auto, stem, source, one-based or index.")
]
Objects = Annotated[
    Text,
    _video(
        "Mask ids: one (1), several with a history each (1,2 or all), or the pieces of one (1+2).",
        "--object",
        "--objects",
    ),
]
Start = Annotated[Text, _video("First frame (120), second (4.5s) or time (1:30).")]
End = Annotated[Text, _video("Last frame, second or time, included.")]
Stride = Annotated[
    Count, _video("Take every n-th frame (default: all; on a CPU, about 4 per second).")
]
Fps = Annotated[Number, _video("Take this many frames per second.")]
Rate = Annotated[Number, _video("Images per second, for a folder of images.")]
Errors = Annotated[str, _video("What to do with frames that cannot be decoded: skip or fail.")]
Decoder = Annotated[str, _video("Video decoder: software, or hardware (an NVIDIA GPU).")]


def _limit(context: typer.Context, value: int | None) -> int | None:
    """Holds while the command runs."""
    from dejacue.sources.sizes import pixel_limit

    context.with_resource(pixel_limit(value))
    return value


Replace = Annotated[bool, flag("Replace histories with the same id.", "--replace")]
ReplaceOther = Annotated[
    bool, flag("Redo histories that were made from other inputs or options.", "--replace")
]
MaxPixels = Annotated[
    Count,
    typer.Option(
        help="Largest picture or mask to read, in pixels (default: 67108864).",
        rich_help_panel="Video and masks",
        callback=_limit,
    ),
]


def _encoders() -> list[str]:
    from dejacue.sources.encoders import ENCODERS, EXAMPLES, FAMILIES

    return [*ENCODERS, *FAMILIES, *EXAMPLES]


EncoderName = Annotated[
    Text,
    _encoder(
        "siglip2 (default), siglip2:int8, siglip2-large, siglip2-so400m, mini, hf:NAME, "
        "openclip:NAME, timm:NAME, or a plug-in.",
        "--encoder",
        values=_encoders,
    ),
]
WordEncoder = Annotated[
    Text,
    _encoder("Encoder for the words (default: that of the store).", "--encoder", values=_encoders),
]
Backend = Annotated[
    Text, _encoder("Backend of siglip2: onnx or torch.", values=lambda: ["onnx", "torch"])
]
Precision = Annotated[Text, _encoder("fp32, fp16, bf16 (torch) or int8 (onnx).")]
Device = Annotated[Text, _encoder("cuda, mps or cpu, with torch.")]

Box = Annotated[Texts, _object("Box x0,y0,x1,y1@FRAME around the object; 2:… for object 2.")]
Point = Annotated[Texts, _object("Point x,y@FRAME on the object.")]
NotPoint = Annotated[Texts, _object("Point x,y@FRAME outside the object.")]
FirstMask = Annotated[Texts, _object("Mask of the object: PICTURE#ID@FRAME.", "--mask")]
At = Annotated[Count, _object("Frame of the file for prompts without @FRAME (default: the first).")]
Add = Annotated[Texts, _object("Another piece of the object: a box, point or mask.")]
TrackerName = Annotated[
    Text,
    _object(
        "box, sam2, sam2-tiny, sam2-large, edgetam, … (default: the best installed).",
        "--tracker",
        values=_trackers,
    ),
]
Presence = Annotated[
    float, _object("The object counts as seen where the tracker's confidence is at least this.")
]
Fallback = Annotated[
    bool,
    _object(
        "sam2: fall back to the CPU when the GPU runs out of memory.", "--fallback", metavar=" "
    ),
]
Backward = Annotated[
    bool,
    _object(
        "Also track the object back to the first frame.", "--backward/--no-backward", metavar=" "
    ),
]

Coordinates = Annotated[
    Text,
    _method(
        "vocabulary (default), absolute, trajectory, dual, query-uniform, dual-query-uniform.",
        "--coordinates",
        "-c",
        values=_coordinates,
    ),
]
ReadoutName = Annotated[
    str,
    _method(
        "contrast, joint (every occurrence), published (the paper), scan, whole-history, "
        "longest-run, or a plug-in; or a .json file or folder written by dejacue learn.",
        "--readout",
        "-r",
        values=_readouts,
    ),
]
Top = Annotated[
    Count,
    _method(
        "Non-overlapping windows per description "
        "(default: 3 with contrast, all with joint, else 1).",
    ),
]
Smoothing = Annotated[
    Text,
    _method("contrast, joint: seconds (0.8s) or frames (4); others: an odd number of frames (3)."),
]
Pooling = Annotated[
    Number, _method("contrast: 1: paraphrases share a window; 0: each has its own.")
]
Bridge = Annotated[Text, _method("contrast, joint: cross gaps of up to this many frames (auto).")]
Order = Annotated[Text, _method("joint: the only order of the states: a,b,c (then a again).")]
Irreversible = Annotated[
    bool, _method("joint: enter no state twice.", "--irreversible", metavar=" ")
]
Stay = Annotated[Count, _method("joint: minimum number of frames in a state.")]
DurationsName = Annotated[
    Text,
    _method("scan and others: published, published-1.25, published-2.0, generated, or 5,10,20."),
]
Norm = Annotated[Text, _method("scan: sqrt, sum or mean.")]
Runs = Annotated[Text, _method("scan: strict, or bridged (windows may cross missing frames).")]


_ON, _OFF = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def refuse_values(words: Iterable[object]) -> None:
    """A switch takes no value: what follows it would be taken for a path or a name."""
    for word in map(str, words):
        before = sys.argv[sys.argv.index(word) - 1] if word in sys.argv else ""
        if word.lower() not in (*_ON, *_OFF) or before[:2] != "--" or Path(word).exists():
            continue
        off = "give --no-backward" if before == "--backward" else "leave both out"
        instead = f"leave {word} out" if word.lower() in _ON else off
        raise InputError(f"{before} is a switch and takes no value; {instead}")


def one(path: Path, further: Sequence[str]) -> Path:
    """The one source that is asked for; a shell makes many of a glob without quotes."""
    if not further:
        return path
    refuse_values([path, *further])
    paths = [path, *map(Path, further)]
    folders = {path.parent for path in paths}
    if len(folders) > 1 or any(path.suffix != paths[0].suffix for path in paths):
        raise InputError(
            f"{len(paths)} paths are given, the first is {paths[0]}; give one: a video, a folder "
            "of images, or a quoted glob"
        )
    folder, suffix = folders.pop(), paths[0].suffix
    raise InputError(
        f"{len(paths)} files are given; quote the glob: '{folder / f'*{suffix}'}', or give the "
        f"folder: {folder}"
    )


def sampling(
    start: str | None,
    end: str | None,
    stride: int | None = None,
    fps: float | None = None,
    rate: float | None = None,
    errors: str = "skip",
    decoder: str = "software",
) -> VideoOptions:
    """Which frames are taken: ``120`` is a frame, ``4.5s`` and ``1:30`` are seconds."""
    from dejacue.pipeline import VideoOptions

    (first, first_s), (last, last_s) = _moment("start", start), _moment("end", end)
    return VideoOptions(first, last, first_s, last_s, stride, fps, rate, errors, decoder)


def _moment(name: str, text: str | None) -> tuple[int | None, float | None]:
    """Return a frame, or seconds."""
    if text is None:
        return None, None
    try:
        if not text.endswith("s") and ":" not in text:
            return int(text), None
        seconds = 0.0
        for part in text.removesuffix("s").split(":"):
            seconds = 60 * seconds + float(part)
        return None, seconds
    except ValueError:
        raise InputError(
            f'--{name} "{text}": give a frame (120), seconds (4.5s) or a time (1:30)'
        ) from None


def objects(text: str | None) -> list[list[int]] | str | None:
    from dejacue.sources.masks.objects import parse_objects

    return text if text is None or text == "all" else parse_objects(text)


def shown(texts: Texts, changes: Texts) -> Shown | None:
    """Examples and changes that are given beside the words."""
    from dejacue.pipeline._read import Shown

    found: dict[str | None, list[str]] = {}
    for text in texts or ():
        state, mark, what = text.partition("=")
        if not mark or not state.strip() or not what.strip():
            raise InputError(f'--example "{text}": give STATE=EXAMPLE, as in --example empty=120')
        found.setdefault(state.strip(), []).append(what)
    return Shown(found or None, tuple(changes or ())) if found or changes else None


def typed_prompts(
    box: Texts, point: Texts, not_point: Texts, mask: Texts, at: int | None, add: Texts
) -> TypedPrompts:
    from dejacue.pipeline import TypedPrompts

    return TypedPrompts(box or (), point or (), not_point or (), mask or (), at, add or ())
