"""``dejacue weights``: list, download and check model files."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli import options as o
from dejacue.cli.tables import say, show_tables

if TYPE_CHECKING:
    from dejacue.models.catalogue import CatalogueEntry

weights = typer.Typer(
    help="Model files of encoders, trackers and detectors: list, download and check them.",
    no_args_is_help=True,
)
COLUMNS = ("name", "for", "state", "size", "licence", "repository", "revision", "hashes")


def _names(incomplete: str) -> list[str]:
    from dejacue.models.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


def _argument(help: str) -> Any:
    return typer.Argument(metavar="NAME", help=help, autocompletion=_names)


Names = Annotated[list[str], _argument("Names, as weights ls lists them.")]
SomeNames = Annotated[
    list[str] | None, _argument("Only these, with their files and how to download them.")
]


def _models(names: list[str] | None) -> list[CatalogueEntry]:
    """Return the models of these names, which are all checked before anything is done."""
    from dejacue.models.catalogue import catalogue, model_named

    return [model_named(name) for name in names] if names else list(catalogue().values())


@weights.command()
def ls(
    names: SomeNames = None,
    json: Annotated[bool, o.option("Print JSON, with the paths of the files.", "--json")] = False,
) -> None:
    """List the models: size, licence, revision, and whether they are installed."""
    models = _models(names)
    if json:
        typer.echo(dumps([model.to_dict() for model in models], indent=2))
        return
    table = Table()
    for column in COLUMNS:
        justify: Any = "right" if column == "size" else "left"
        table.add_column(column, no_wrap=column in COLUMNS[:4], justify=justify, overflow="fold")
    for model in models:
        of_each = [  # a line for each repository
            [part.repository for part in model.parts],
            [part.revision[:12] for part in model.parts],
            ["published" if all(part.files.values()) else "the hub's" for part in model.parts],
        ]
        cells = model.name, model.kind, model.state, model.size(), model.licence
        table.add_row(*map(escape, (*cells, *map("\n".join, of_each))))
    show_tables(table)
    if not names:
        say(
            "dejacue weights ls NAME shows how to download it on another machine; dejacue "
            "weights fetch NAME downloads it here"
        )
        return
    for model in models:
        for part, name, path in model.files():
            expected = part.expected(name, path)
            state = " (damaged)" if path in model.damaged else ""
            known = f"sha256 {expected}" if expected else "no known hash"
            say(f"{name}: {path or 'missing'}{state} ({known})")
        for part in model.parts:
            typer.echo(part.line())


@weights.command()
def fetch(names: Names) -> None:
    """Download missing or damaged files."""
    for model in _models(names):
        if model.state == "ready":
            say(f"{model.name}: already installed")
            continue
        say(f"{model.name}: {model.size()}, {model.licence}", stderr=True)
        model.fetch()
        say(f"{model.name}: downloaded")


@weights.command()
def check(names: Names) -> None:
    """Check every hash, and whether siglip2 is the model of the paper."""
    from dejacue.models.catalogue import check_model

    for model in _models(names):
        for line in check_model(model):
            say(line)
