"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

# panels of the help
VIDEO, OBJECT, METHOD = "Video and masks", "Where the object is, without masks", "Method"
ENCODER = "Encoder"


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


Engine = Annotated[
    str, typer.Option(help="auto, avx2, baseline or numpy: the same answer, at another speed.")
]


Vocabulary = Annotated[
    Path,
    typer.Option(
        "--vocabulary", "-v", help="Descriptions by state: .yaml or .json words, or .npz features."
    ),
]
Masks = Annotated[
    Path | None,
    typer.Option(
        help="Masks of the object: PNG or YOLO folder, glob, .npz, .json, .jsonl, .csv or .txt.",
        rich_help_panel=VIDEO,
    ),
]
MaskKind = Annotated[
    str | None,
    typer.Option(
        help="indexed, binary, youtube-vos, stack, coco, boxes; default: looks at them.",
        rich_help_panel=VIDEO,
    ),
]
Match = Annotated[
    str,
    typer.Option(
        help="How masks belong to frames: auto, stem, source, one-based or index.",
        rich_help_panel=VIDEO,
    ),
]
Objects = Annotated[
    str | None,
    typer.Option(
        "--object",
        "--objects",
        help="Mask ids that are one object (1,2), or all.",
        rich_help_panel=VIDEO,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(help="First frame (120), second (4.5s) or time (1:30).", rich_help_panel=VIDEO),
]
End = Annotated[
    str | None, typer.Option(help="Last frame, second or time, included.", rich_help_panel=VIDEO)
]
Stride = Annotated[int, typer.Option(help="Take every n-th frame.", rich_help_panel=VIDEO)]
Fps = Annotated[
    float | None, typer.Option(help="Take this many frames a second.", rich_help_panel=VIDEO)
]
Rate = Annotated[
    float | None,
    typer.Option(help="Images a second, for a folder of images.", rich_help_panel=VIDEO),
]
Errors = Annotated[
    str, typer.Option(help="Frames that cannot be decoded: skip or fail.", rich_help_panel=VIDEO)
]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="siglip2 (default), mini, hf:NAME, openclip:NAME, a plug-in.",
        rich_help_panel=ENCODER,
    ),
]
Backend = Annotated[
    str | None, typer.Option(help="Of siglip2: onnx or torch.", rich_help_panel=ENCODER)
]
Precision = Annotated[str | None, typer.Option(help="fp32, fp16 or bf16.", rich_help_panel=ENCODER)]
Device = Annotated[
    str | None, typer.Option(help="cuda, mps or cpu, with torch.", rich_help_panel=ENCODER)
]

Several = list[str] | None
Box = Annotated[
    Several,
    typer.Option(
        help="x0,y0,x1,y1@FRAME around the object; 2:… for object 2.", rich_help_panel=OBJECT
    ),
]
Point = Annotated[Several, typer.Option(help="x,y@FRAME on the object.", rich_help_panel=OBJECT)]
NotPoint = Annotated[
    Several,
    typer.Option(help="x,y@FRAME on what does not belong to it.", rich_help_panel=OBJECT),
]
FirstMask = Annotated[
    Several,
    typer.Option("--mask", help="PICTURE#ID@FRAME with the object.", rich_help_panel=OBJECT),
]
At = Annotated[
    int | None,
    typer.Option(
        help="Frame of the file for those without @ (default: the first).", rich_help_panel=OBJECT
    ),
]
Add = Annotated[
    Several,
    typer.Option(help="A piece of the object: a box, point or mask.", rich_help_panel=OBJECT),
]
TrackerName = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        help="box (stays where it is), sam2, sam2-tiny, sam2-large, edgetam, …  [default: sam2 if "
        "installed, else box]",
        rich_help_panel=OBJECT,
    ),
]
Presence = Annotated[
    float,
    typer.Option(help="Where it is less sure than this, it is not seen.", rich_help_panel=OBJECT),
]
Fallback = Annotated[
    bool,
    typer.Option(
        "--fallback",
        help="sam2: fall back to the CPU, instead of failing, when the memory of the GPU is full.",
        rich_help_panel=OBJECT,
    ),
]
Backward = Annotated[
    bool,
    typer.Option(
        "--backward/--no-backward",
        help="Follow it back to the first frame, too.",
        rich_help_panel=OBJECT,
    ),
]
Coordinates = Annotated[
    str,
    typer.Option(
        "--coordinates",
        "-c",
        help="vocabulary, absolute, trajectory, dual, query-uniform, dual-query-uniform.",
        rich_help_panel=METHOD,
    ),
]
ReadoutName = Annotated[
    str,
    typer.Option(
        "--readout",
        "-r",
        help="contrast (recommended), joint (every occurrence), scan (the paper), peak, "
        "mean-window, boxcar, max-frame, single-median, non-overlap, whole-history, longest-run.",
        rich_help_panel=METHOD,
    ),
]
Top = Annotated[
    int | None,
    typer.Option(
        help="Windows per description, none overlapping (default: 3 with contrast, all with "
        "joint, else 1).",
        rich_help_panel=METHOD,
    ),
]
AbsentAt = Annotated[
    float | None,
    typer.Option(
        help="Call a state not found where p is above this (contrast).", rich_help_panel=METHOD
    ),
]
Smoothing = Annotated[
    str | None,
    typer.Option(
        help="contrast, joint: 0.8s or 4 (frames); others: an odd number of frames (3).",
        rich_help_panel=METHOD,
    ),
]
Pooling = Annotated[
    float | None,
    typer.Option(
        help="contrast: 1, paraphrases share a window; 0, each has its own.",
        rich_help_panel=METHOD,
    ),
]
Bridge = Annotated[
    str | None,
    typer.Option(
        help="contrast, joint: gaps up to this many frames are crossed (auto).",
        rich_help_panel=METHOD,
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        help="joint: the states as they follow each other: a,b,c (then a; no others).",
        rich_help_panel=METHOD,
    ),
]
Irreversible = Annotated[
    bool | None,
    typer.Option(
        "--irreversible", help="joint: no state is entered twice.", rich_help_panel=METHOD
    ),
]
Stay = Annotated[
    int | None,
    typer.Option(help="joint: least number of frames in a state.", rich_help_panel=METHOD),
]
DurationsName = Annotated[
    str | None,
    typer.Option(
        help="scan …: published, published-1.25, published-2.0, generated, or 5,10,20.",
        rich_help_panel=METHOD,
    ),
]
Norm = Annotated[str | None, typer.Option(help="scan: sqrt, sum or mean.", rich_help_panel=METHOD)]
Runs = Annotated[
    str | None,
    typer.Option(
        help="scan: strict, or bridged: windows may cross missing frames.", rich_help_panel=METHOD
    ),
]
