"""The commands of ``dejacue store``, and ``ingest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o

store = typer.Typer(
    help="Many histories in one folder, and questions over all of them.", no_args_is_help=True
)

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
    path: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Names.")] = None,
    where: Where = None,
) -> None:
    """Take histories out, by their names or as --where says: all of them, or none."""
    from dejacue.cli import store as command

    command.rm(path, ids or [], where or [])


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
    workers: o.Decoders = None,
    retry: Annotated[bool, o.flag("Only what has failed before.", "--retry")] = False,
    replace: o.ReplaceOther = False,
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
