"""Commands and their options; the work is imported when a command runs, so --help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o
from dejacue.cli.groups import annotate, data

app = typer.Typer(
    name="dejacue",
    help="When is this object in which state? Finds the frames in which each description holds.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data, name="data")
app.add_typer(annotate, name="annotate")


SEVERAL = {"allow_extra_args": True}  # of a glob without quotes; what to do then is ours to say


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


@app.command(context_settings=SEVERAL)
def encode(
    context: typer.Context,
    video: Annotated[
        Path, typer.Argument(help="A video, a folder of images, or a glob in quotes.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="x.history.npz, or a folder for several objects.")
    ],
    masks: o.Masks = None,
    kind: o.MaskKind = None,
    match: o.Match = "auto",
    objects: o.Objects = None,
    start: o.Start = None,
    end: o.End = None,
    stride: o.Stride = 1,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Turn a video and the masks of an object into a history of features."""
    from dejacue.cli import encoding

    path = encoding.one(video, context.args)
    footage = encoding.Footage(
        path, masks, kind, match, objects, start, end, stride, fps, rate, errors
    )
    footage.open()  # what is wrong with the input is said before a model is loaded
    encoding.check_output(output)
    encoding.encode(
        footage, encoding.load(encoder or "siglip2", backend, precision, device), output
    )


@app.command(context_settings=SEVERAL)
def track(
    context: typer.Context,
    video: Annotated[
        Path, typer.Argument(help="A video, a folder of images, or a glob in quotes.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the masks, or .npz, or COCO .json.")
    ],
    box: o.Box = None,
    point: o.Point = None,
    not_point: o.NotPoint = None,
    mask: o.FirstMask = None,
    at: o.At = None,
    add: o.Add = None,
    tracker: o.TrackerName = None,
    presence: o.Presence = 0.5,
    backward: o.Backward = True,
    fallback: o.Fallback = False,
    start: o.Start = None,
    end: o.End = None,
    stride: o.Stride = 1,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Follow an object through a video from a box, a click or a mask."""
    from dejacue.cli import encoding, tracking

    footage = encoding.Footage(
        encoding.one(video, context.args), start=start, end=end, stride=stride, fps=fps, rate=rate,
        errors=errors,
    )  # fmt: skip
    clicks = tracking.Clicks.of(box, point, not_point, mask, at, add)
    following = tracking.Following(tracker, device, precision, presence, backward, fallback)
    tracking.track(footage.open_video(), clicks, following, output)


@app.command(context_settings=SEVERAL)
def locate(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="A history (.npz), a video, a folder of images, or a glob in quotes."),
    ],
    vocabulary: o.Vocabulary,
    masks: o.Masks = None,
    kind: o.MaskKind = None,
    match: o.Match = "auto",
    objects: o.Objects = None,
    box: o.Box = None,
    point: o.Point = None,
    not_point: o.NotPoint = None,
    mask: o.FirstMask = None,
    at: o.At = None,
    add: o.Add = None,
    tracker: o.TrackerName = None,
    start: o.Start = None,
    end: o.End = None,
    stride: o.Stride = 1,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    coordinates: o.Coordinates = "vocabulary",
    readout: o.ReadoutName = "contrast",
    top: o.Top = None,
    absent_at: o.AbsentAt = None,
    smoothing: o.Smoothing = None,
    pooling: o.Pooling = None,
    bridge: o.Bridge = None,
    order: o.Order = None,
    irreversible: o.Irreversible = None,
    stay: o.Stay = None,
    durations: o.DurationsName = None,
    norm: o.Norm = None,
    runs: o.Runs = None,
    prompts: Annotated[
        str | None,
        typer.Option(help="Form of the descriptions: ensemble (default), raw, photo, definite."),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="True windows (.json, .csv) to show beside the found ones.")
    ] = None,
    diagnostics: Annotated[bool, typer.Option("--diagnostics", help="Say why.")] = False,
    format: Annotated[
        o.Format | None,
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
    engine: o.Engine = "auto",
) -> None:  # fmt: skip
    """Find the window of frames in which each description holds."""
    from dejacue.cli import encoding, locating, tracking
    from dejacue.cli import settings as s
    from dejacue.sources.tracks import default_tracker

    chosen = s.readout_from(
        readout, smoothing=smoothing, pooling=pooling, bridge=bridge, order=order,
        irreversible=irreversible, stay=stay, durations=durations, norm=norm, runs=runs,
    )  # fmt: skip
    footage = encoding.Footage(
        encoding.one(source, context.args), masks, kind, match, objects, start, end, stride, fps,
        rate, errors,
    )  # fmt: skip
    clicks = tracking.Clicks.of(box, point, not_point, mask, at, add)
    # --device and --precision are for whoever has them
    learned = bool(clicks) and (tracker or default_tracker()) != "box"
    own = (None, None) if encoder == "mini" and learned else (precision, device)
    words = locating.Words(vocabulary, prompts, encoder, backend, *own)
    width = s.width_from(chosen, smoothing)
    how = s.Settings(coordinates, chosen, width, top, diagnostics, engine, absent_at)
    locating.run(
        footage, words, how, locating.Wanted(
            format.value if format else None, output, plot, references, cut
        ), clicks, tracking.Following(tracker, *((device, precision) if learned else ())),
    )  # fmt: skip


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
        o.Format | None,
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
    engine: o.Engine = "auto",
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
    """Versions, the kernel in use, the extras that are installed, the encoders that are ready."""
    from dejacue.cli import showing

    showing.info()
