"""The commands of ``dejacue data`` and ``annotate``; ``studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from dejacue.cli import options as o
from dejacue.plugins import check_installed


class Group(typer.core.TyperGroup):
    """Commands; one that belongs to a package that is not installed names the package."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            path = ctx.command_path.split()[1:]
            check_installed("commands", " ".join([*path, args[0]]))
        return super().resolve_command(ctx, args)


data = typer.Typer(
    cls=Group,
    help="Data sets: their folders, formats and scores.",
    no_args_is_help=True,
)
annotate = typer.Typer(
    help="Annotate a history: two independent passes, their consensus and its events.",
    no_args_is_help=True,
)


def _layouts() -> list[str]:
    from dejacue.data.layouts import READERS

    return list(READERS)


Layout = Annotated[
    str | None,
    o.option("Layout of the folder, if it is ambiguous (docs/data.md).", "--as", values=_layouts),
]
OwnMasks = Annotated[
    Path | None,
    o.option("Your own masks or boxes: a folder of ID.csv, ID.npz, ID/ …", "--masks"),
]


@data.command("open")
def open_folder(
    folder: Annotated[Path, typer.Argument(help="The folder of a data set.")],
    layout: Layout = None,
    references: Annotated[
        Path | None, o.option("Write the true windows to this .json, for evaluate.", "--references")
    ] = None,
    manifest: Annotated[
        Path | None, o.option("Write a manifest to this .csv, for ingest.", "--manifest")
    ] = None,
    masks: OwnMasks = None,
    vocabularies: Annotated[
        Path | None,
        o.option("Write the words of each clip to ID.json in this folder.", "--vocabularies"),
    ] = None,
    json: Annotated[bool, o.flag("Print the contents as JSON.", "--json")] = False,
) -> None:
    """Recognise the folder of a data set (VOST, DAVIS, ChangeIt …) and show its contents."""
    from dejacue.cli import data as command

    command.open_folder(folder, layout, references, manifest, masks, vocabularies, json)


@data.command("evaluate")
def evaluate_folder(
    folder: Annotated[Path, typer.Argument(help="The folder of a data set.")],
    store: Annotated[Path, o.option("Store for the histories; created if missing.")],
    layout: Layout = None,
    readouts: Annotated[
        str,
        o.option(
            "Readouts, separated by commas: names, or .json files of dejacue learn fit. Each is "
            "compared with the first.",
            "--readouts",
            "-r",
        ),
    ] = "contrast,published,whole-history,longest-run",
    masks: OwnMasks = None,
    where: Annotated[
        list[str] | None,
        o.option(
            "Only clips that match NAME=PATTERN: id, object, source, split, category …", "--where"
        ),
    ] = None,
    workers: o.Decoders = None,
    replace: o.ReplaceOther = False,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    output: Annotated[
        Path | None,
        o.option("Write the table to this .json, .csv, .md or .txt file.", "--output", "-o"),
    ] = None,
    by: Annotated[
        str | None, o.option("Also show a table per object, source, split, category …")
    ] = None,
    timelines: Annotated[
        Path | None,
        o.option("Also write the results of each readout to READOUT.json in this folder."),
    ] = None,
) -> None:
    """Encode a data set, locate its states, and score readouts against its true windows.

    Run it again to resume: histories already in the store are not encoded again.
    """
    from dejacue.cli import evaluate as command
    from dejacue.pipeline import EncoderOptions

    command.run_dataset(
        folder,
        layout,
        store,
        readouts,
        masks,
        where or [],
        workers,
        replace,
        encoder,
        EncoderOptions(backend, precision, device),
        output,
        timelines,
        by,
    )


@data.command()
def convert(
    given: Annotated[Path, typer.Argument(metavar="IN", help="A file of references.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file; its suffix sets the format.")
    ],
    times: o.Times = None,
    vocabulary: Annotated[
        Path | None,
        o.option("Reject labels that are not states of this vocabulary.", "--vocabulary", "-v"),
    ] = None,
) -> None:
    """Convert references or annotations from one tool's format to another's."""
    from dejacue.cli import data as command

    command.convert(given, output, times, vocabulary)


Force = Annotated[bool, o.flag("Replace an existing output.", "--force")]
Annotator = Annotated[str, o.option("Name of the annotator.", "--annotator", "-a")]
PassOutput = Annotated[Path, o.option("The pass, as JSON.", "--output", "-o")]
Frames = Annotated[str | None, o.option("FIRST:LAST, both included, instead of a history file.")]
HistoryId = Annotated[str | None, o.option("Name of the history.", "--id")]


@annotate.command()
def template(
    annotator: Annotator,
    output: PassOutput,
    history: Annotated[
        Path | None, typer.Argument(help="Features of one object: an .npz file.")
    ] = None,
    frames: Frames = None,
    id: HistoryId = None,
    states: Annotated[
        str | None, o.option("States to label, as in empty,full (default: pre, transition, post).")
    ] = None,
    force: Force = False,
) -> None:
    """Write a blank pass to fill in, from the first to the last observed frame."""
    from dejacue.cli import annotate as command

    command.template(history, annotator, output, frames, id, force, states)


@annotate.command("import")
def import_pass(
    given: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="File with the annotations: .eaf, .cvat.xml, .csv, .json …"
        ),
    ],
    annotator: Annotator,
    output: PassOutput,
    history: Annotated[
        Path | None, typer.Argument(help="History of the object (.npz), which defines the frames.")
    ] = None,
    frames: Frames = None,
    id: HistoryId = None,
    states: Annotated[
        str | None, o.option("States to label, as in empty,full (default: the labels in the file).")
    ] = None,
    rest: Annotated[
        str | None,
        o.option("Label for unmarked frames (default: none; with pre and post, left open)."),
    ] = None,
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Make a pass from annotations in ELAN, CVAT, Label Studio, FiftyOne, CSV …"""
    from dejacue.cli import annotate as command

    command.take(given, history, annotator, output, frames, id, states, rest, times, force)


@annotate.command("export")
def export_pass(
    given: Annotated[Path, typer.Argument(metavar="PASS", help="A pass or consensus, as JSON.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file; its suffix sets the format.")
    ],
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Export a pass for another tool, as spans of each label."""
    from dejacue.cli import annotate as command

    command.give(given, output, times, force)


@annotate.command()
def consensus(
    first: Annotated[Path, typer.Argument(help="The pass of one annotator.")],
    second: Annotated[Path, typer.Argument(help="The pass of the other annotator.")],
    output: Annotated[
        Path,
        o.option("The consensus, or the disagreements to decide first.", "--output", "-o"),
    ],
    decisions: Annotated[
        Path | None, o.option("The decisions file, filled in.", "--decisions", "-d")
    ] = None,
    force: Force = False,
) -> None:
    """Compare two passes; write their disagreements or, with decisions, the consensus."""
    from dejacue.cli import annotate as command

    command.consensus(first, second, decisions, output, force)


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
        Path | None, o.option("Write the references to this file.", "--output", "-o")
    ] = None,
    pre: Annotated[str, o.option("State before the event, as named in the vocabulary.")] = "pre",
    post: Annotated[str, o.option("State after the event, as named in the vocabulary.")] = "post",
    component: Annotated[
        str | None, o.option("Source (video) that all files come from (default: each its own).")
    ] = None,
    minimum: Annotated[int, o.option("Minimum number of frames of a stable side.")] = 5,
    skip: Annotated[bool, o.flag("Skip files without an event.", "--skip")] = False,
    force: Force = False,
) -> None:
    """List the qualifying events; the earliest of each history gives the references."""
    from dejacue.cli import annotate as command

    command.events(files, output, minimum, pre, post, component, force, skip)


def studio(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER|VIDEO]", help="What to open (default: the current folder)."
        ),
    ] = None,
    host: Annotated[
        str, o.option("Address to listen on; take care with any other than localhost.")
    ] = "127.0.0.1",
    port: Annotated[int, o.option("Port; 0 picks a free one.")] = 8765,
    no_browser: Annotated[bool, o.flag("Do not open a browser.", "--no-browser")] = False,
    tracker: o.TrackerName = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Open a page to view, correct, compare, track and label videos and findings in a folder."""
    from dejacue.cli import studio as command
    from dejacue.pipeline import EncoderOptions

    options = {
        "encoder": encoder,
        "tracker": tracker,
        "encoder_options": EncoderOptions(backend, precision, device),
    }
    command.run(places or [], host, port, not no_browser, options)
