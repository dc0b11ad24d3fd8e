"""The commands of ``dejacue store``, and ``ingest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o

store = typer.Typer(
    help="A folder of many histories, and queries over all of them.", no_args_is_help=True
)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the store.")]
Where = Annotated[
    list[str] | None,
    o.option(
        "Only histories that match NAME=PATTERN: id, object, source (kitchen*), or a name listed "
        "by show.",
        "--where",
    ),
]


@store.command()
def create(
    path: StorePath,
    encoder: Annotated[
        str | None, o.option("Identity of the encoder (default: that of the first history).")
    ] = None,
    dtype: Annotated[str, o.option("Type of the stored features: float16 or float32.")] = "float16",
) -> None:
    """Create an empty store."""
    from dejacue.cli import store as command

    command.create(path, encoder, dtype)


@store.command()
def add(
    path: StorePath,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Histories (.npz), or folders of them.")
    ],
    replace: o.Replace = False,
    object: Annotated[str | None, o.option("Name of the object, such as cup.")] = None,
    source: Annotated[str | None, o.option("Source of the histories, such as kitchen.mp4.")] = None,
) -> None:
    """Add histories, with the pictures beside them: all of them, or none."""
    from dejacue.cli import store as command

    command.add(path, files, replace, object, source)


@store.command()
def failures(
    path: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Only these.")] = None,
    jsonl: Annotated[bool, o.flag("Print one JSON object per line.", "--jsonl")] = False,
    clear: Annotated[
        bool, o.flag("Clear the failures instead of listing them.", "--clear")
    ] = False,
) -> None:
    """List what ingest could not add, and why."""
    from dejacue.cli import store as command

    command.failures(path, ids or [], jsonl, clear)


@store.command()
def ls(
    path: StorePath,
    where: Where = None,
    jsonl: Annotated[bool, o.flag("Print one JSON object per line.", "--jsonl")] = False,
) -> None:
    """List the histories."""
    from dejacue.cli import store as command

    command.ls(path, where or [], jsonl)


@store.command("show")
def show_history(
    path: StorePath,
    id: Annotated[str, typer.Argument(help="Name of the history.")],
    thumbnail: Annotated[
        Path | None, o.option("Write the thumbnail to this file (.jpg).", "--thumbnail")
    ] = None,
) -> None:
    """Show the details of a history."""
    from dejacue.cli import store as command

    command.show(path, id, thumbnail)


@store.command()
def rm(
    path: StorePath,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Names of histories.")
    ] = None,
    where: Where = None,
) -> None:
    """Remove histories, by name or with --where: all of them, or none."""
    from dejacue.cli import store as command

    command.rm(path, ids or [], where or [])


@store.command()
def verify(path: StorePath) -> None:
    """Read every byte and list damaged histories (then the exit code is 1)."""
    from dejacue.cli import store as command

    command.verify(path)


@store.command()
def compact(path: StorePath) -> None:
    """Free the space of removed or replaced histories."""
    from dejacue.cli import store as command

    command.compact(path)


@store.command()
def export(
    path: StorePath,
    output: Annotated[
        str,
        o.option("A folder or a .parquet file; also s3://… and others.", "--output", "-o"),
    ],
    kind: Annotated[str | None, o.option("npz or parquet (default: by the suffix).")] = None,
    where: Where = None,
) -> None:
    """Export the histories as files for other tools."""
    from dejacue.cli import store as command

    command.export(path, output, kind, where or [])


@store.command()
def ask(
    path: StorePath,
    vocabulary: o.Vocabulary,
    readout: o.ReadoutName = "contrast",
    top: Annotated[int, o.option("Number of histories to list; 0: all.")] = 10,
    where: Where = None,
    jsonl: Annotated[
        bool,
        o.flag("Print one JSON object per answer, one per line, as answers are found.", "--jsonl"),
    ] = False,
    output: Annotated[
        Path | None,
        o.option("Write the answers to a .parquet, .csv, .jsonl or .json file.", "--output", "-o"),
    ] = None,
    threads: Annotated[int, o.option("Number of parallel kernel calls.")] = 1,
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    encoder: o.WordEncoder = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Find these states in all histories, the likeliest objects first.

    Histories are ranked by the object score: the mean cosine of their frames
    with what all the words have in common. The score says how clear a window
    is within its history. Neither is a probability.
    """
    from dejacue.cli import store as command
    from dejacue.pipeline import EncoderOptions

    command.ask(
        path,
        vocabulary,
        readout,
        top,
        where or [],
        jsonl,
        output,
        threads,
        engine,
        ray_address,
        encoder,
        EncoderOptions(backend, precision, device),
    )


def ingest(
    manifest: Annotated[
        str, typer.Argument(help="Manifest of videos, masks and objects: a .csv or .jsonl file.")
    ],
    store: Annotated[Path, o.option("Store for the histories; created if missing.")],
    engine: o.Workers = "local",
    ray_address: o.RayAddress = None,
    actors: Annotated[
        int | None,
        o.option("Number of models on Ray (default: one per GPU; without GPUs, one per machine)."),
    ] = None,
    gpus_per_actor: Annotated[
        float | None,
        o.option("GPUs per model, or a fraction of one (default: 1 if there are any)."),
    ] = None,
    workers: o.Decoders = None,
    retry: Annotated[bool, o.flag("Only retry what failed before.", "--retry")] = False,
    replace: o.ReplaceOther = False,
    max_pixels: o.MaxPixels = None,
    decoder: Annotated[
        str | None,
        o.option("Decoder for all videos: software or hardware (default: as in the manifest)."),
    ] = None,
    encoder: o.EncoderName = None,
    backend: o.Backend = None,
    precision: o.Precision = None,
    device: o.Device = None,
) -> None:
    """Turn many videos into histories in a store; run it again to resume."""
    from dejacue.cli import ingest as command
    from dejacue.pipeline import EncoderOptions
    from dejacue.pipeline.ingest import RayOptions

    options = EncoderOptions(backend, precision, device)
    ray = RayOptions(ray_address, actors, gpus_per_actor)
    command.run(
        manifest,
        store,
        encoder,
        options,
        engine,
        ray,
        workers,
        retry,
        replace,
        max_pixels,
        decoder,
    )
