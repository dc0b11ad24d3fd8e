"""The commands of ``dejacue data``, ``annotate`` and ``store``; ``ingest`` and ``studio``."""

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
store = typer.Typer(
    help="Many histories in one folder, and questions over all of them.", no_args_is_help=True
)


def _layouts() -> list[str]:
    from dejacue.data.layouts import READERS

    return list(READERS)


@data.command("open")
def open_folder(
    folder: Annotated[Path, typer.Argument(help="The folder of a data set.")],
    layout: Annotated[
        str | None,
        o.option("Its layout, where it may be several (docs/data.md).", "--as", values=_layouts),
    ] = None,
    references: Annotated[
        Path | None, o.option("Write the true windows, for evaluate: .json.", "--references")
    ] = None,
    manifest: Annotated[
        Path | None, o.option("Write a manifest for ingest: .csv.", "--manifest")
    ] = None,
    masks: Annotated[
        Path | None,
        o.option("Masks or boxes of your own for it: a folder of ID.csv, ID.npz, ID/ …", "--masks"),
    ] = None,
    vocabularies: Annotated[
        Path | None, o.option("Write ID.json with the words of each clip.", "--vocabularies")
    ] = None,
    json: Annotated[bool, o.flag("Say what is in it as JSON.", "--json")] = False,
) -> None:
    """Recognise the folder of a data set (VOST, DAVIS, ChangeIt …) and say what is in it."""
    from dejacue.cli import open_data as command

    command.run(folder, layout, references, manifest, masks, vocabularies, json)


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


StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of a store.")]
Where = Annotated[
    list[str] | None,
    o.option("NAME=PATTERN: id, object, source or a name that show lists (kitchen*).", "--where"),
]


@store.command()
def create(
    path: StorePath,
    encoder: Annotated[
        str | None, o.option("Its identity (default: that of the first history).")
    ] = None,
    dtype: Annotated[str, o.option("float16 or float32.")] = "float16",
) -> None:
    """Make an empty store."""
    from dejacue.cli import store as command

    command.create(path, encoder, dtype)


@store.command()
def add(
    path: StorePath,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Histories (.npz), or folders of them.")
    ],
    replace: o.Replace = False,
    object: Annotated[str | None, o.option("What they are: cup.")] = None,
    source: Annotated[str | None, o.option("Where they are from: kitchen.mp4.")] = None,
) -> None:
    """Add histories, with a picture of each where one lies beside it: all of them, or none."""
    from dejacue.cli import store as command

    command.add(path, files, replace, object, source)


@store.command()
def failures(
    path: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Only these.")] = None,
    jsonl: Annotated[bool, o.flag("A JSON object for each, a line each.", "--jsonl")] = False,
    clear: Annotated[bool, o.flag("Forget them instead.", "--clear")] = False,
) -> None:
    """List what ingest could not add, and why."""
    from dejacue.cli import store as command

    command.failures(path, ids or [], jsonl, clear)


@store.command()
def ls(
    path: StorePath,
    where: Where = None,
    jsonl: Annotated[bool, o.flag("A JSON object for each, a line each.", "--jsonl")] = False,
) -> None:
    """List the histories."""
    from dejacue.cli import store as command

    command.ls(path, where or [], jsonl)


@store.command("show")
def show_history(
    path: StorePath,
    id: Annotated[str, typer.Argument(help="Name of the history.")],
    thumbnail: Annotated[
        Path | None, o.option("Write its picture to this file (.jpg).", "--thumbnail")
    ] = None,
) -> None:
    """What is known of a history."""
    from dejacue.cli import store as command

    command.show(path, id, thumbnail)


@store.command()
def rm(
    path: StorePath, ids: Annotated[list[str], typer.Argument(metavar="ID", help="Names.")]
) -> None:
    """Take histories out: all of them, or none."""
    from dejacue.cli import store as command

    command.rm(path, ids)


@store.command()
def verify(path: StorePath) -> None:
    """Read every byte again, and name the histories that are damaged (exit code 1)."""
    from dejacue.cli import store as command

    command.verify(path)


@store.command()
def compact(path: StorePath) -> None:
    """Free the bytes of histories that were removed or replaced."""
    from dejacue.cli import store as command

    command.compact(path)


@store.command()
def export(
    path: StorePath,
    output: Annotated[
        str, o.option("A folder, or a .parquet file; also s3://… and others.", "--output", "-o")
    ],
    kind: Annotated[str | None, o.option("npz or parquet (default: by the name).")] = None,
    where: Where = None,
) -> None:
    """Write the histories for others to read."""
    from dejacue.cli import store as command

    command.export(path, output, kind, where or [])


@store.command()
def ask(
    path: StorePath,
    vocabulary: o.Vocabulary,
    readout: o.ReadoutName = "contrast",
    top: Annotated[int, o.option("How many histories; 0: all of them.")] = 10,
    where: Where = None,
    jsonl: Annotated[
        bool, o.flag("A JSON object for each answer, a line each, as they are found.", "--jsonl")
    ] = False,
    output: Annotated[
        Path | None,
        o.option("Write the answers to a .parquet, .csv, .jsonl or .json file.", "--output", "-o"),
    ] = None,
    threads: Annotated[int, o.option("Kernel calls side by side.")] = 1,
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    encoder: o.WordEncoder = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Where are these states, in all histories? The likeliest objects first.

    Histories are ranked by the object score: the mean cosine of their frames
    with what all the words have in common. The score says how clear a window
    is within its history. Neither is a probability.
    """
    from dejacue.cli import store as command
    from dejacue.pipeline import EncoderOptions

    command.ask(
        path, vocabulary, readout, top, where or [], jsonl, output, threads, engine, ray_address,
        encoder,
        EncoderOptions(backend, precision, device),
    )  # fmt: skip


def ingest(
    manifest: Annotated[str, typer.Argument(help="Videos, masks, objects: a .csv or .jsonl.")],
    store: Annotated[Path, o.option("Where they go; made if it is not there.")],
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    actors: Annotated[
        int | None, o.option("Models on Ray (default: one for each GPU or, without, machine).")
    ] = None,
    gpus_per_actor: Annotated[
        float | None, o.option("GPUs of each, or a part of one (default: 1 where there are any).")
    ] = None,
    workers: Annotated[
        int | None, o.option("Processes that decode and crop (default: one less than cores).")
    ] = None,
    retry: Annotated[bool, o.flag("Only what has failed before.", "--retry")] = False,
    replace: Annotated[
        bool, o.flag("Make again what is there but was made of something else.", "--replace")
    ] = False,
    max_pixels: o.MaxPixels = None,
    decoder: Annotated[
        str | None,
        o.option("Of all videos: software, or hardware (default: as the manifest says)."),
    ] = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Turn many videos into histories in a store; run it again to go on."""
    from dejacue.cli import ingest as command
    from dejacue.pipeline import EncoderOptions
    from dejacue.pipeline.ingest import RayOptions

    options = EncoderOptions(backend, precision, device)
    ray = RayOptions(ray_address, actors, gpus_per_actor)
    command.run(
        manifest, store, encoder, options, engine, ray, workers, retry, replace, max_pixels,
        decoder,
    )  # fmt: skip


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
