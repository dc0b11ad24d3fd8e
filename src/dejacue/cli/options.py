"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

VIDEO, ENCODER = "Video and masks", "Encoder"  # panels of the help


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
        help="Masks of the object: PNG folder, .npz, COCO .json, boxes .csv or .txt.",
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
        help="How masks belong to frames: auto, stem, source or index.", rich_help_panel=VIDEO
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
