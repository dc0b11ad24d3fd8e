"""``dejacue weights`` and ``info``: list, download and check what is installed here."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dejacue import plugins
from dejacue._version import __version__
from dejacue.cli import options as o
from dejacue.cli.tables import console, say, show_tables
from dejacue.errors import MissingData

if TYPE_CHECKING:
    from dejacue.sources.catalogue import CatalogueEntry

PACKAGES = ("numpy", "onnxruntime", "av", "torch", "transformers", "open_clip_torch", "timm")
EXTRAS = ("fastapi", "uvicorn", "pyarrow", "pandas", "polars", "fsspec")
FAMILIES = {"hf:": "transformers", "openclip:": "open_clip_torch", "timm:": "timm"}

weights = typer.Typer(
    help="Model files of encoders, trackers and detectors: list, download and check them.",
    no_args_is_help=True,
)


def _names(incomplete: str) -> list[str]:
    from dejacue.sources.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME",
        help="Names, as weights ls lists them.",
        show_default=False,
        autocompletion=_names,
    ),
]


def _models(names: list[str]) -> list[CatalogueEntry]:
    """Return the models of these names, which are all checked before anything is done."""
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
    json: Annotated[bool, o.option("Print JSON instead of tables.", "--json")] = False,
    paths: Annotated[
        bool, o.option("Only print the paths of the files, one per line.", "--paths")
    ] = False,
) -> None:
    """List the models: size, licence, revision, and whether they are installed."""
    from dejacue.sources.catalogue import catalogue

    models = _models(names) if names else list(catalogue().values())
    if paths:
        for model in models if names else ():
            if lacking := [name for _, name, path in model.files() if path is None]:
                problem = f"{model.name}: {', '.join(lacking)} not on this machine"
                raise MissingData(f"{problem}; run dejacue weights fetch {model.name}")
        for file in filter(None, (path for model in models for _, _, path in model.files())):
            typer.echo(file)
        return
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
            files = ", ".join(map(str, model.damaged))
            say(f"damaged: {files}; dejacue weights fetch {model.name}")
        for line in model.lines():
            typer.echo(line)


def _document(model: CatalogueEntry) -> dict[str, Any]:
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
    from dejacue.sources.catalogue import try_model

    for model in _models(names):
        for line in try_model(model):
            say(line)


def info() -> None:
    """Show versions, the kernel in use, installed extras and available encoders."""
    from dejacue.method import kernel
    from dejacue.sources.encoders.weights import FOLDER

    used = kernel.engine("auto").name
    others = [name for name in (*kernel.compiled(), "numpy") if name != used]
    known = f"{used} (also: {', '.join(others)})" if others else used
    rows = {
        "dejacue": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "engine": known if others else f"{known}; not compiled: {kernel.why_not()}",
        **{name: _version(name) for name in (*PACKAGES, *EXTRAS)},
        "weights": os.environ.get(FOLDER) or f"in the Hugging Face cache ({FOLDER} is not set)",
        "encoders": "; ".join(f"{name}: {ready}" for name, ready in _encoders().items()),
        "others": _others(),
        "plug-ins": ", ".join(plugins.packages()) or "none",
    }
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console().print(table)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _encoders() -> dict[str, str]:
    """Return the names of the encoders by whether their files are here."""
    from dejacue.sources.catalogue import catalogue

    models = {name: model for name, model in catalogue().items() if model.kind == "encoder"}
    names = {"ready": ", ".join(name for name, model in models.items() if model.state == "ready")}
    damaged = {str(path): model.name for model in models.values() for path in model.damaged}
    absent = [name for name, model in models.items() if model.state in ("absent", "partial")]
    if damaged:
        again = " ".join(sorted(set(damaged.values())))
        names["damaged"] = f"{', '.join(sorted(damaged))} (dejacue weights fetch {again})"
    return {**names, **({"not here": ", ".join(absent)} if absent else {})}


def _others() -> str:
    """Return the encoders that are given by a name, and what each needs that is not installed."""
    parts = []
    for family, package in FAMILIES.items():
        lacking = [name for name in ("torch", package) if _version(name) == "not installed"]
        parts.append(f"{family}NAME" + (f" (needs {', '.join(lacking)})" if lacking else ""))
    return "; ".join(parts)
