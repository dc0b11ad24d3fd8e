"""The commands of ``dejacue data`` and ``dejacue annotate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(help="The public release of frozen features.", no_args_is_help=True)
annotate = typer.Typer(
    help="Two passes over the frames of a history, their consensus, its events.",
    no_args_is_help=True,
)


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
