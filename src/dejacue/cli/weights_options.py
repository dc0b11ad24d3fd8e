"""The commands of ``dejacue weights``."""

from __future__ import annotations

from typing import Annotated

import typer

from dejacue.cli import options as o

weights = typer.Typer(
    help="Model files of encoders and trackers: list, download and check them.",
    no_args_is_help=True,
)


def _names(incomplete: str) -> list[str]:
    from dejacue.sources.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="Names as in --encoder and --tracker.",
        show_default=False,
        autocompletion=_names,
    ),
]


@weights.command()
def ls(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Only these, with their files and how to download them.",
            autocompletion=_names,
        ),
    ] = None,
    json: Annotated[bool, o.flag("Print JSON instead of tables.", "--json")] = False,
) -> None:
    """List the models: size, licence, revision, and whether they are installed."""
    from dejacue.cli import weights as command

    command.ls(names or [], json)


@weights.command()
def fetch(names: Names) -> None:
    """Download missing or damaged files; interrupted downloads resume."""
    from dejacue.cli import weights as command

    command.fetch(names)


@weights.command()
def check(names: Names) -> None:
    """Check every hash, load the models and run one batch of images and texts."""
    from dejacue.cli import weights as command

    command.check(names)


@weights.command()
def path(names: Names) -> None:
    """Print the paths of the files, one per line."""
    from dejacue.cli import weights as command

    command.path(names)
