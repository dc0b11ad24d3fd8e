"""The commands of ``dejacue data`` and ``annotate``; ``studio``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o

data = typer.Typer(
    help="The public release of frozen features, and folders of other data sets.",
    no_args_is_help=True,
)
annotate = typer.Typer(
    help="Two passes over the frames of a history, their consensus, its events.",
    no_args_is_help=True,
)


def _layouts() -> list[str]:
    from dejacue.data.layouts import READERS

    return list(READERS)


Layout = Annotated[
    str | None,
    o.option("Its layout, where it may be several (docs/data.md).", "--as", values=_layouts),
]
OwnMasks = Annotated[
    Path | None,
    o.option("Masks or boxes of your own: a folder of ID.csv, ID.npz, ID/ …", "--masks"),
]


@data.command("open")
def open_folder(
    folder: Annotated[Path, typer.Argument(help="The folder of a data set.")],
    layout: Layout = None,
    references: Annotated[
        Path | None, o.option("Write the true windows, for evaluate: .json.", "--references")
    ] = None,
    manifest: Annotated[
        Path | None, o.option("Write a manifest for ingest: .csv.", "--manifest")
    ] = None,
    masks: OwnMasks = None,
    vocabularies: Annotated[
        Path | None, o.option("Write ID.json with the words of each clip.", "--vocabularies")
    ] = None,
    json: Annotated[bool, o.flag("Say what is in it as JSON.", "--json")] = False,
) -> None:
    """Recognise the folder of a data set (VOST, DAVIS, ChangeIt …) and say what is in it."""
    from dejacue.cli import open_data as command

    command.run(folder, layout, references, manifest, masks, vocabularies, json)


@data.command("evaluate")
def evaluate_folder(
    folder: Annotated[Path, typer.Argument(help="The folder of a data set.")],
    store: Annotated[Path, o.option("Where its histories go; made if it is not there.")],
    layout: Layout = None,
    readouts: Annotated[
        str,
        o.option(
            "Names, with commas, or .json files of dejacue learn fit; each is compared with the "
            "first.",
            "--readouts",
            "-r",
        ),
    ] = "contrast,published,whole-history,longest-run",
    masks: OwnMasks = None,
    where: Annotated[
        list[str] | None,
        o.option("Only clips with NAME=PATTERN: id, object, source, split, category …", "--where"),
    ] = None,
    workers: o.Decoders = None,
    replace: o.ReplaceOther = False,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
    output: Annotated[
        Path | None, o.option("Write the table to .json, .csv, .md or .txt.", "--output", "-o")
    ] = None,
    by: Annotated[
        str | None, o.option("Also a table for each object, source, split, category …")
    ] = None,
    retrievals: Annotated[
        Path | None, o.option("Also write READOUT.json with what each found into this folder.")
    ] = None,
) -> None:
    """Encode a data set, ask for its states, and measure readouts by its true windows.

    Run it again to go on: what is in the store is not encoded again.
    """
    from dejacue.cli import evaluate_data as command
    from dejacue.pipeline import EncoderOptions

    command.run(
        folder, layout, store, readouts, masks, where or [], workers, replace,
        encoder,         EncoderOptions(backend, precision, device), output, retrievals, by,
    )  # fmt: skip


@data.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to put it (default: the user's cache).")
    ] = None,
) -> None:
    """Download the release from the Hugging Face hub and show its terms."""
    from dejacue.cli import data as command

    command.fetch(folder)


@data.command()
def show(
    folder: Annotated[Path | None, typer.Argument(help=o.RELEASE)] = None,
) -> None:
    """List what is in the release."""
    from dejacue.cli import data as command

    command.show(folder)


@data.command()
def references(
    group: Annotated[str, typer.Argument(help="vost, seven or development.")],
    output: Annotated[Path, o.option("A .json file.", "--output", "-o")],
    folder: Annotated[Path | None, o.option(o.RELEASE, "--data")] = None,
) -> None:
    """Write the benchmark's references, to evaluate your own retrievals on it."""
    from dejacue.cli import data as command

    command.references(group, folder, output)


@data.command()
def convert(
    given: Annotated[Path, typer.Argument(metavar="IN", help="A file of references.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Its ending names the format.")],
    times: o.Times = None,
    vocabulary: Annotated[
        Path | None, o.option("Refuse labels that are no state of it.", "--vocabulary", "-v")
    ] = None,
) -> None:
    """Turn references or annotations of one tool into those of another."""
    from dejacue.cli import data as command

    command.convert(given, output, times, vocabulary)


Force = Annotated[bool, o.flag("Replace an output that is already there.", "--force")]


@annotate.command()
def template(
    annotator: Annotated[str, o.option("Who will fill it in.", "--annotator", "-a")],
    output: Annotated[Path, o.option("The pass, as JSON.", "--output", "-o")],
    history: Annotated[
        Path | None, typer.Argument(help="Features of one object: an .npz file.")
    ] = None,
    frames: Annotated[str | None, o.option("FIRST:LAST, both included, instead of a file.")] = None,
    id: Annotated[str | None, o.option("Name of the history.", "--id")] = None,
    states: Annotated[
        str | None, o.option("That are told apart, as empty,full (default: pre, transition, post).")
    ] = None,
    force: Force = False,
) -> None:
    """Write a pass to fill in: every frame from the first to the last observed one."""
    from dejacue.cli import annotate as command

    command.template(history, annotator, output, frames, id, force, states)


@annotate.command("import")
def import_pass(
    given: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What was marked: .eaf, .cvat.xml, .csv, .json …"),
    ],
    annotator: Annotated[str, o.option("Who marked it.", "--annotator", "-a")],
    output: Annotated[Path, o.option("The pass, as JSON.", "--output", "-o")],
    history: Annotated[
        Path | None, typer.Argument(help="Features of the object (.npz), which say its frames.")
    ] = None,
    frames: Annotated[str | None, o.option("FIRST:LAST, both included, instead of a file.")] = None,
    id: Annotated[str | None, o.option("Name of the history.", "--id")] = None,
    states: Annotated[
        str | None, o.option("That are told apart, as empty,full (default: the labels there).")
    ] = None,
    rest: Annotated[
        str | None,
        o.option("Label of frames that are not marked (default: none; open with pre and post)."),
    ] = None,
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Make a pass of what was marked in ELAN, CVAT, Label Studio, FiftyOne, a CSV …"""
    from dejacue.cli import annotate_files as command

    command.take(given, history, annotator, output, frames, id, states, rest, times, force)


@annotate.command("export")
def export_pass(
    given: Annotated[Path, typer.Argument(metavar="PASS", help="A pass or consensus, as JSON.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Its ending names the format.")],
    times: o.Times = None,
    force: Force = False,
) -> None:
    """Give a pass to another tool, to look at or go on with: spans of each label."""
    from dejacue.cli import annotate_files as command

    command.give(given, output, times, force)


@annotate.command()
def consensus(
    first: Annotated[Path, typer.Argument(help="The pass of one annotator.")],
    second: Annotated[Path, typer.Argument(help="The pass of another one.")],
    output: Annotated[
        Path, o.option("The consensus, or what has to be decided first.", "--output", "-o")
    ],
    decisions: Annotated[
        Path | None, o.option("The decisions, filled in.", "--decisions", "-d")
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
    pre: Annotated[str, o.option("The state before, as in the vocabulary.")] = "pre",
    post: Annotated[str, o.option("The state after, as in the vocabulary.")] = "post",
    component: Annotated[
        str | None, o.option("The source (video) they all come from (default: each its own).")
    ] = None,
    minimum: Annotated[int, o.option("Frames that a stable side needs.")] = 5,
    skip: Annotated[bool, o.flag("Leave out files without an event.", "--skip")] = False,
    force: Force = False,
) -> None:
    """List the qualifying events; the earliest one of each history gives the references."""
    from dejacue.cli import annotate as command

    command.events(files, output, minimum, pre, post, component, force, skip)


def studio(
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER|VIDEO]", help="What to open (default: the current folder)."
        ),
    ] = None,
    host: Annotated[str, o.option("Address to listen to; other than this machine's own: with "
                                  "care.")] = "127.0.0.1",
    port: Annotated[int, o.option("0: any that is free.")] = 8765,
    no_browser: Annotated[bool, o.flag("Do not open the page.", "--no-browser")] = False,
    tracker: o.TrackerName = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:  # fmt: skip
    """Open a page to look, correct, compare, track and label: a folder of videos and findings."""
    from dejacue.cli import studio as command
    from dejacue.pipeline import EncoderOptions

    options = {"encoder": encoder, "tracker": tracker,
               "encoder_options": EncoderOptions(backend, precision, device)}  # fmt: skip
    command.run(places or [], host, port, not no_browser, options)
