"""Commands and their options; the work is imported when a command runs, so --help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import corpora, groups
from dejacue.cli import options as o
from dejacue.cli.learning import learn
from dejacue.cli.weights import weights
from dejacue.plugins import add_commands

app = typer.Typer(
    name="dejacue",
    cls=groups.Group,
    help="When is an object in which state? Finds the frames in which each description holds.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(groups.data, name="data")
app.add_typer(groups.annotate, name="annotate")
app.add_typer(corpora.store, name="store")
app.add_typer(weights, name="weights")
app.command()(corpora.ingest)
app.add_typer(learn, name="learn")
app.command()(groups.studio)


def _version(wanted: bool) -> None:
    if wanted:
        from dejacue._version import __version__

        typer.echo(f"dejacue {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version.", metavar=" "
        ),
    ] = False,
) -> None:
    pass


@app.command(context_settings=o.SEVERAL)
def encode(
    context: typer.Context,
    video: o.Source,
    output: Annotated[
        Path | None, o.option("x.history.npz, or a folder for several objects.", "--output", "-o")
    ] = None,
    store: Annotated[Path | None, o.option("Store to add it to; created if missing.")] = None,
    replace: o.Replace = False,
    masks: o.Masks = None,
    kind: o.MaskKind = None,
    match: o.Match = "auto",
    objects: o.Objects = None,
    start: o.Start = None,
    end: o.End = None,
    stride: o.Stride = None,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    decoder: o.Decoder = "software",
    max_pixels: o.MaxPixels = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Turn a video and the masks of an object into a history of features."""
    from dejacue.cli import encode as command
    from dejacue.pipeline import EncoderOptions, Job

    job = Job(
        video=o.one(video, context.args),
        sampling=o.sampling(start, end, stride, fps, rate, errors, decoder),
        masks=masks,
        kind=kind,
        match=match,
        objects=o.objects(objects),
        encoder=encoder,
        encoder_options=EncoderOptions(backend, precision, device),
    )
    command.run(job, output, store, replace)


@app.command(context_settings=o.SEVERAL)
def track(
    context: typer.Context,
    video: o.Source,
    output: Annotated[
        Path, o.option("Folder for the masks, or .npz, or COCO .json.", "--output", "-o")
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
    stride: o.Stride = None,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    decoder: o.Decoder = "software",
    max_pixels: o.MaxPixels = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Track an object through a video from a box, a click or a mask."""
    from dejacue.cli import track as command
    from dejacue.pipeline import Job, TrackerOptions

    job = Job(
        video=o.one(video, context.args),
        sampling=o.sampling(start, end, stride, fps, rate, errors, decoder),
        prompts=o.typed_prompts(box, point, not_point, mask, at, add),
        tracker=tracker,
        tracker_options=TrackerOptions(device, precision, presence, backward, fallback),
    )
    command.run(job, output)


@app.command(context_settings=o.SEVERAL)
def locate(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            help="A video, a folder of images, or a quoted glob; or the result of an earlier run: "
            "a history (.npz) or its folder."
        ),
    ],
    vocabulary: o.Words = None,
    example: o.Example = None,
    change: o.Change = None,
    ask: o.AskNext = None,
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
    stride: o.Stride = None,
    fps: o.Fps = None,
    rate: o.Rate = None,
    errors: o.Errors = "skip",
    decoder: o.Decoder = "software",
    max_pixels: o.MaxPixels = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    coordinates: o.Coordinates = None,
    readout: o.ReadoutName = "contrast",
    top: o.Top = None,
    smoothing: o.Smoothing = None,
    pooling: o.Pooling = None,
    bridge: o.Bridge = None,
    order: o.Order = None,
    irreversible: o.Irreversible = False,
    stay: o.Stay = None,
    durations: o.DurationsName = None,
    norm: o.Norm = None,
    runs: o.Runs = None,
    prompts: o.PromptForm = None,
    references: Annotated[
        Path | None, o.option("True windows (.json, .csv, .eaf, …) to show beside the results.")
    ] = None,
    diagnostics: Annotated[bool, o.flag("Include diagnostics.", "--diagnostics")] = False,
    format: o.OutputFormat = None,
    output: Annotated[
        Path | None,
        o.option(
            "A file (.json, .csv, .txt, .vtt, .eaf, .parquet, …), or a folder for the report.",
            "--output",
            "-o",
        ),
    ] = None,
    plot: Annotated[Path | None, o.option("Also plot the evidence to this PNG.")] = None,
    cut: Annotated[bool, o.flag("Also cut the windows found into video clips.", "--cut")] = False,
    engine: o.Engine = "auto",
) -> None:
    """Find the window of frames in which each description holds."""
    from dejacue.cli import locate as command
    from dejacue.cli.readouts import readout_from
    from dejacue.pipeline import EncoderOptions, Job, ReadOptions, Search, TrackerOptions
    from dejacue.sources.tracks import default_tracker

    chosen, width = readout_from(
        readout,
        smoothing=smoothing,
        pooling=pooling,
        bridge=bridge,
        order=order,
        irreversible=irreversible or None,
        stay=stay,
        durations=durations,
        norm=norm,
        runs=runs,
    )
    prompted = o.typed_prompts(box, point, not_point, mask, at, add)
    # --device and --precision are for whoever has them
    learned = bool(prompted) and (tracker or default_tracker()) != "box"
    own = (None, None) if encoder == "mini" and learned else (precision, device)
    path = o.one(source, context.args)
    job = Job(
        video=path,
        sampling=o.sampling(start, end, stride, fps, rate, errors, decoder),
        masks=masks,
        kind=kind,
        match=match,
        objects=o.objects(objects),
        prompts=prompted,
        tracker=tracker,
        tracker_options=TrackerOptions(*((device, precision) if learned else ())),
        encoder=encoder,
        encoder_options=EncoderOptions(backend, *own, prompts),
    )
    reading = ReadOptions(chosen, coordinates, width, top, diagnostics, engine)
    command.run(
        path,
        Search(path, vocabulary, job, reading, o.shown(example, change)),
        command.Wanted(format.value if format else None, output, plot, references, cut, ask),
    )


@app.command()
def live(
    source: Annotated[
        str, typer.Argument(help="A video, a folder of images, camera:0, rtsp://… or http://…")
    ],
    vocabulary: o.Vocabulary,
    box: Annotated[
        str | None, o.option("Box x0,y0,x1,y1 around the object in the first frame.")
    ] = None,
    tracker: Annotated[str, o.option("Tracker: box (does not move), sam2, …")] = "box",
    masks: o.Masks = None,
    match: o.Match = "auto",
    objects: o.Objects = None,
    fps: o.Fps = None,
    rate: o.Rate = None,
    delay: Annotated[float, o.option("Seconds after which the answer for a frame is final.")] = 4.0,
    horizon: Annotated[
        float | None, o.option("Seconds to keep (default: all of a file, 600 of a stream).")
    ] = None,
    like: Annotated[
        Path | None, o.option("x.history.npz of a similar object, to start the calibration from.")
    ] = None,
    timeout: Annotated[float, o.option("Seconds without a frame that end a stream.")] = 10.0,
    realtime: Annotated[bool, o.flag("Play a file at its own frame rate.", "--realtime")] = False,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    readout: o.ReadoutName = "contrast",
    jsonl: Annotated[bool, o.flag("Print a JSON object per frame and line.", "--jsonl")] = False,
    output: Annotated[
        Path | None, o.option("Folder for the files that locate writes.", "--output", "-o")
    ] = None,
) -> None:
    """Show which state the object is in while it is being filmed; Ctrl-C stops."""
    from dejacue.cli import live as command
    from dejacue.pipeline import EncoderOptions

    command.run(
        command.Shown(source, masks, match, o.objects(objects), box, tracker, fps, rate, timeout),
        {
            "vocabulary": vocabulary,
            "encoder": encoder,
            "readout": readout,
            "delay_s": delay,
            "horizon_s": horizon,
            "like": like,
            "encoder_options": EncoderOptions(backend, precision, device),
        },
        jsonl,
        realtime,
        output,
    )


@app.command()
def words(
    vocabulary: Annotated[
        Path, typer.Argument(help="Descriptions of each state: .yaml, .json or features (.npz).")
    ],
    history: Annotated[
        Path | None,
        typer.Argument(help="Also check what they find in a history (.npz) or its folder."),
    ] = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    prompts: o.PromptForm = None,
    suggest: Annotated[
        bool, o.flag("Only print suggested descriptions as YAML, for you to edit.", "--suggest")
    ] = False,
    json: Annotated[bool, o.flag("Print JSON instead of tables.", "--json")] = False,
) -> None:
    """Check the words: which ones disagree, look alike to the encoder, or are unknown to it."""
    from dejacue.cli import words as command
    from dejacue.pipeline import EncoderOptions

    if suggest:
        others = {
            "the history": history,
            "--encoder": encoder,
            "--backend": backend,
            "--precision": precision,
            "--device": device,
            "--prompts": prompts,
            "--json": json,
        }
        command.run_suggest(vocabulary, others)
    else:
        options = EncoderOptions(backend, precision, device, prompts)
        command.run(vocabulary, history, encoder, options, json)


@app.command()
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Timelines of one or more methods (.json, .jsonl, .csv, .parquet), then the "
            "references (.json, .csv, .eaf, .srt, …).",
            show_default=False,
        ),
    ],
    only_common: Annotated[
        bool, o.flag("Compare only what all files share.", "--only-common")
    ] = False,
    times: o.Times = None,
    format: o.OutputFormat = None,
    json: Annotated[bool, o.flag("Same as --format json.", "--json")] = False,
    csv: Annotated[bool, o.flag("Same as --format csv.", "--csv")] = False,
    output: Annotated[
        Path | None, o.option("Write to a file instead of the screen.", "--output", "-o")
    ] = None,
) -> None:
    """Score timelines against references and compare methods: recall, overlap, intervals, p."""
    from dejacue.cli import evaluate as command

    o.refuse_values(files)
    chosen = command.format_from(format.value if format else None, json, csv)
    command.run(files, chosen, output, only_common, times)


@app.command()
def demo(
    output: Annotated[Path, o.option("Folder for the results.", "--output", "-o")] = Path(
        "out/demo"
    ),
    seed: Annotated[int, o.option("Seed of the rendered video.")] = 7,
) -> None:
    """Render a short video, find the states of its object, and write a report."""
    from dejacue.cli import demo as command

    command.run(output, seed)


@app.command()
def info() -> None:
    """Show versions, the kernel in use, installed extras and available encoders."""
    from dejacue.cli import info as command

    command.run()


add_commands(app)
