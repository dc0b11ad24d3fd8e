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


def _names(incomplete: str) -> list[str]:
    from dejacue.models.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="Names, as weights ls lists them.", autocompletion=_names),
]
SomeNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME]...",
        help="Only these, with their files and how to download them.",
        autocompletion=_names,
    ),
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
        typer.echo(dumps([_document(model) for model in models], indent=2))
        return
    table = Table()
    for column in ("name", "for", "state", "size"):
        table.add_column(column, no_wrap=True, justify="right" if column == "size" else "left")
    for column in ("licence", "repository", "revision", "hashes"):
        table.add_column(column, overflow="fold")
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
        for line in model.lines():
            typer.echo(line)


def _document(model: CatalogueEntry) -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": model.kind,
        "state": model.state,
        "licence": model.licence,
        "megabytes": model.megabytes(),
        "needs": model.needs or None,
        "files": [
            {
                "repository": part.repository,
                "revision": part.revision,
                "name": name,
                "path": path and str(path),
                "sha256": part.expected(name, path),
            }
            for part, name, path in model.files()
        ],
        "download": model.lines(),
    }


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
