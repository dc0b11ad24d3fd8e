"""Commands and their options; the work is imported when a command runs, so --help is quick."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="dejacue",
    help="When is this object in which state? Finds the frames in which each description holds.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data = typer.Typer(help="The public release of frozen features.", no_args_is_help=True)
app.add_typer(data, name="data")


annotate = typer.Typer(
    help="Two passes over the frames of a history, their consensus, its events.",
    no_args_is_help=True,
)
app.add_typer(annotate, name="annotate")


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


def _version(wanted: bool) -> None:
    if wanted:
        from dejacue._version import __version__

        typer.echo(f"dejacue {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


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
    typer.Option(help="Masks of the object: PNG folder, .npz, COCO .json, boxes .csv or .txt."),
]
MaskKind = Annotated[
    str | None,
    typer.Option(help="indexed, binary, youtube-vos, stack, coco, boxes; default: looks at them."),
]
Match = Annotated[
    str, typer.Option(help="How masks belong to frames: auto, stem, source or index.")
]
Objects = Annotated[
    str | None,
    typer.Option("--object", "--objects", help="Mask ids that are one object (1,2), or all."),
]
Start = Annotated[str | None, typer.Option(help="First frame (120), second (4.5s) or time (1:30).")]
End = Annotated[str | None, typer.Option(help="Last frame, second or time, included.")]
Stride = Annotated[int, typer.Option(help="Take every n-th frame.")]
Fps = Annotated[float | None, typer.Option(help="Take this many frames a second.")]
Rate = Annotated[float | None, typer.Option(help="Images a second, for a folder of images.")]
Errors = Annotated[str, typer.Option(help="Frames that cannot be decoded: skip or fail.")]
EncoderName = Annotated[
    str | None,
    typer.Option("--encoder", help="siglip2 (default), mini, hf:NAME, openclip:NAME, a plug-in."),
]
Backend = Annotated[str | None, typer.Option(help="Of siglip2: onnx or torch.")]
Precision = Annotated[str | None, typer.Option(help="fp32, fp16 or bf16.")]
Device = Annotated[str | None, typer.Option(help="cuda, mps or cpu, with torch.")]


@app.command()
def encode(
    video: Annotated[Path, typer.Argument(help="A video, a folder of images, or a glob.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="x.history.npz, or a folder for several objects.")
    ],
    masks: Masks = None,
    kind: MaskKind = None,
    match: Match = "auto",
    objects: Objects = None,
    start: Start = None,
    end: End = None,
    stride: Stride = 1,
    fps: Fps = None,
    rate: Rate = None,
    errors: Errors = "skip",
    encoder: EncoderName = None,
    backend: Backend = None,
    precision: Precision = None,
    device: Device = None,
) -> None:
    """Turn a video and the masks of an object into a history of features."""
    from dejacue.cli import encoding

    footage = encoding.Footage(
        video, masks, kind, match, objects, start, end, stride, fps, rate, errors
    )
    footage.open()  # what is wrong with the input is said before a model is loaded
    encoding.encode(
        footage, encoding.load(encoder or "siglip2", backend, precision, device), output
    )


@app.command()
def locate(
    source: Annotated[
        Path, typer.Argument(help="A history (.npz), a video, a folder of images, or a glob.")
    ],
    vocabulary: Vocabulary,
    masks: Masks = None,
    kind: MaskKind = None,
    match: Match = "auto",
    objects: Objects = None,
    start: Start = None,
    end: End = None,
    stride: Stride = 1,
    fps: Fps = None,
    rate: Rate = None,
    errors: Errors = "skip",
    encoder: EncoderName = None,
    backend: Backend = None,
    precision: Precision = None,
    device: Device = None,
    coordinates: Annotated[
        str,
        typer.Option(
            "--coordinates", "-c",
            help="vocabulary, absolute, trajectory, dual, query-uniform, dual-query-uniform.",
        ),
    ] = "vocabulary",
    readout: Annotated[
        str,
        typer.Option(
            "--readout", "-r",
            help="scan, peak, mean-window, boxcar, max-frame, single-median, non-overlap; "
            "to compare with: whole-history, longest-run.",
        ),
    ] = "scan",
    durations: Annotated[
        str | None,
        typer.Option(
            help="Window lengths: published, published-1.25, published-2.0, generated, or 5,10,20."
        ),
    ] = None,
    norm: Annotated[str | None, typer.Option(help="Scan score: sqrt, sum or mean.")] = None,
    runs: Annotated[
        str | None, typer.Option(help="strict, or bridged: windows may cross missing frames.")
    ] = None,
    smoothing: Annotated[int, typer.Option(help="Odd width in frames.")] = 3,
    top: Annotated[int, typer.Option(help="Windows per description; they do not overlap.")] = 1,
    prompts: Annotated[
        str | None,
        typer.Option(help="Form of the descriptions: ensemble (default), raw, photo, definite."),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="True windows (.json, .csv) to show beside the found ones.")
    ] = None,
    diagnostics: Annotated[bool, typer.Option("--diagnostics", help="Say why.")] = False,
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: by the name of the output, else a table."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o",
            help="A .json, .csv or .txt file; or a folder for the report and all formats.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the evidence as a PNG.")] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Write the found intervals as clips.")] = False,
    engine: Engine = "auto",
) -> None:  # fmt: skip
    """Find the window of frames in which each description holds."""
    from dejacue.cli import encoding, locating

    chosen = locating.readout_from(readout, durations, norm, runs)
    footage = encoding.Footage(
        source, masks, kind, match, objects, start, end, stride, fps, rate, errors
    )
    words = locating.Words(vocabulary, prompts, encoder, backend, precision, device)
    settings = locating.Settings(coordinates, chosen, smoothing, top, diagnostics, engine)
    locating.run(
        footage, words, settings, format.value if format else None, output, plot, references, cut
    )


@app.command()
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Retrievals of one method or more (.json, .jsonl, .csv); last, the references.",
            show_default=False,
        ),
    ],
    only_common: Annotated[
        bool, typer.Option("--only-common", help="Leave out what they do not all share.")
    ] = False,
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: by the name of the output, else a table."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="The same as --format csv.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file instead of the screen.")
    ] = None,
) -> None:
    """Measure retrievals by references, and compare methods: recall, overlap, intervals, p."""
    from dejacue.cli import evaluating

    chosen = evaluating.format_from(format.value if format else None, json, csv)
    evaluating.run(files, chosen, output, only_common)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "out/demo"
    ),
    seed: Annotated[int, typer.Option(help="Another seed, another history.")] = 7,
) -> None:
    """Render a short video, find the states of its object, and write a report."""
    from dejacue.cli import showing

    showing.demo(output, seed)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Tables (see --list), or all; default: main.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The release folder (default: DEJACUE_DATA, or fetched).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write JSON, CSV and Markdown into this folder.")
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the figures too (default folder out/reproduce).")
    ] = False,
    windows: Annotated[
        Path | None, typer.Option(help="Write every selected window to this JSON file.")
    ] = None,
    engine: Engine = "auto",
    list_: Annotated[
        bool, typer.Option("--list", help="List what there is, and what is not released.")
    ] = False,
) -> None:
    """Re-compute published tables and show them beside the published figures."""
    from dejacue.cli import reproducing

    if list_:
        reproducing.show_list()
    else:
        reproducing.run(names or ["main"], data, windows, out, figures, engine)


@app.command()
def info() -> None:
    """Versions, the kernel in use, and the extras that are installed."""
    from dejacue.cli import showing

    showing.info()


@data.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to put it (default: the user's cache).")
    ] = None,
) -> None:
    """Download the release from the Hugging Face hub and show its terms."""
    from dejacue.cli import showing

    showing.fetch(folder)


@data.command()
def show(
    folder: Annotated[
        Path | None, typer.Argument(help="The release folder (default: DEJACUE_DATA, or fetched).")
    ] = None,
) -> None:
    """List what is in the release."""
    from dejacue.cli import showing

    showing.show(folder)


@data.command()
def references(
    group: Annotated[str, typer.Argument(help="vost, seven or development.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .json file.")],
    folder: Annotated[
        Path | None,
        typer.Option("--data", help="The release folder (default: DEJACUE_DATA, or fetched)."),
    ] = None,
) -> None:
    """Write the benchmark's references, to evaluate your own retrievals on it."""
    from dejacue.cli import showing

    showing.references(group, folder, output)


Force = Annotated[bool, typer.Option("--force", help="Replace an output that is already there.")]


@annotate.command()
def template(
    annotator: Annotated[str, typer.Option("--annotator", "-a", help="Who will fill it in.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The pass, as JSON.")],
    history: Annotated[
        Path | None, typer.Argument(help="Features of one object: an .npz file.")
    ] = None,
    frames: Annotated[
        str | None, typer.Option(help="FIRST:LAST, both included, instead of a file.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Name of the history.")] = None,
    force: Force = False,
) -> None:
    """Write a pass to fill in: every frame from the first to the last observed one."""
    from dejacue.cli import annotating

    annotating.template(history, annotator, output, frames, id, force)


@annotate.command()
def consensus(
    first: Annotated[Path, typer.Argument(help="The pass of one annotator.")],
    second: Annotated[Path, typer.Argument(help="The pass of another one.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The consensus, or what has to be decided first."),
    ],
    decisions: Annotated[
        Path | None, typer.Option("--decisions", "-d", help="The decisions, filled in.")
    ] = None,
    force: Force = False,
) -> None:
    """Compare two passes; write their disagreements or, with decisions, the consensus."""
    from dejacue.cli import annotating

    annotating.consensus(first, second, decisions, output, force)


@annotate.command()
def events(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="A consensus (or one pass) for each history.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the references to this file.")
    ] = None,
    pre: Annotated[str, typer.Option(help="The state before, as in the vocabulary.")] = "pre",
    post: Annotated[str, typer.Option(help="The state after, as in the vocabulary.")] = "post",
    component: Annotated[
        str | None,
        typer.Option(help="The source (video) they all come from (default: each its own)."),
    ] = None,
    minimum: Annotated[int, typer.Option(help="Frames that a stable side needs.")] = 5,
    skip: Annotated[bool, typer.Option("--skip", help="Leave out files without an event.")] = False,
    force: Force = False,
) -> None:
    """List the qualifying events; the earliest one of each history gives the references."""
    from dejacue.cli import annotating

    annotating.events(files, output, minimum, pre, post, component, force, skip)
