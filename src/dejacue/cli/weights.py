"""``dejacue weights``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dejacue.cli import options as o

if TYPE_CHECKING:
    from dejacue.sources.catalogue import Model

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


def _models(names: list[str]) -> list[Model]:
    """The models of these names, which are all checked before anything is done."""
    from dejacue.sources.catalogue import model_named

    return [model_named(name) for name in names]


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
    from json import dumps

    from rich.markup import escape
    from rich.table import Table

    from dejacue.cli.tables import say, show_tables
    from dejacue.sources.catalogue import catalogue

    models = _models(names) if names else list(catalogue().values())
    if json:
        typer.echo(dumps([_document(model) for model in models], indent=2))
        return
    table = Table()
    for column in ("name", "for", "state"):
        table.add_column(column, no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
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
            known = f"sha256 {expected}" if expected else "no known hash"
            say(f"{name}: {path or 'missing'} ({known})")
        if model.damaged:
            paths = ", ".join(map(str, model.damaged))
            say(f"damaged: {paths}; dejacue weights fetch {model.name}")
        for line in model.lines():
            typer.echo(line)


def _document(model: Model) -> dict[str, Any]:
    from dejacue.sources.encoders.weights import commit

    return {
        "name": model.name,
        "kind": model.kind,
        "state": model.state,
        "licence": model.licence,
        "megabytes": model.megabytes(),
        "needs": model.needs or None,
        "damaged": [str(path) for path in model.damaged],
        "parts": [
            {
                "repository": part.repository,
                "revision": part.revision,
                "commit": next((c for p in part.here().values() if p and (c := commit(p))), None),
                "files": {
                    name: {"path": path and str(path), "sha256": part.expected(name, path)}
                    for name, path in part.here().items()
                },
                "download": part.line(),
            }
            for part in model.parts
        ],
    }


@weights.command()
def fetch(names: Names) -> None:
    """Download missing or damaged files; interrupted downloads resume."""
    from dejacue.cli.tables import say

    for model in _models(names):
        if model.state == "ready":
            say(f"{model.name}: already installed")
            continue
        say(f"{model.name}: {model.size()}, {model.licence}", stderr=True)
        model.fetch()
        say(f"{model.name}: downloaded; dejacue weights check {model.name} tests it")


@weights.command()
def check(names: Names) -> None:
    """Check every hash, load the models and run one batch of images and texts."""
    from dejacue.cli.tables import say
    from dejacue.sources.catalogue import try_model

    for model in _models(names):
        for line in try_model(model):
            say(line)


@weights.command()
def path(names: Names) -> None:
    """Print the paths of the files, one per line."""
    from dejacue.errors import MissingData

    models = _models(names)
    for model in models:
        if lacking := [name for _, name, path in model.files() if path is None]:
            raise MissingData(
                f"{model.name}: {', '.join(lacking)} not on this machine; run dejacue weights "
                f"fetch {model.name}"
            )
    for model in models:
        for _, _, path in model.files():
            typer.echo(path)
