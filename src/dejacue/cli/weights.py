"""``dejacue weights``."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.tables import say, show_tables
from dejacue.errors import MissingData
from dejacue.sources.catalogue import Model, catalogue, model_named
from dejacue.sources.encoders._files import commit
from dejacue.sources.trial import Trial, try_model


def ls(names: list[str], as_json: bool) -> None:
    models = [model_named(name) for name in names] or list(catalogue().values())
    if as_json:
        typer.echo(json.dumps([_document(own) for own in models], indent=2))
        return
    table = Table()
    for column in ("name", "for", "state"):
        table.add_column(column, no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    for column in ("licence", "repository", "revision", "hashes"):
        table.add_column(column, overflow="fold")
    for own in models:
        cells = own.name, own.kind, own.state, own.size(), own.licence, *_origin(own)
        table.add_row(*map(escape, cells))
    show_tables(table)
    if not names:
        say(
            "dejacue weights ls NAME shows how to download it on another machine; dejacue "
            "weights fetch NAME downloads it here"
        )
    for own in models if names else ():
        _describe(own)


def _origin(model: Model) -> tuple[str, str, str]:
    """A line for each repository: its name, revision, and whether hashes are published."""
    pinned = ["published" if all(own.files.values()) else "the hub's" for own in model.parts]
    return (
        "\n".join(own.repository for own in model.parts),
        "\n".join(own.revision[:12] for own in model.parts),
        "\n".join(pinned),
    )


def _describe(model: Model) -> None:
    """Its files, and the lines for a machine with a connection."""
    for own, name, path in model.files():
        expected = own.files[name] if path is None else own.expected(name, path)
        known = f"sha256 {expected}" if expected else "no known hash"
        say(f"{name}: {path or 'missing'} ({known})")
    damaged = model.looked_at[1]
    if damaged:
        say(f"damaged: {', '.join(map(str, damaged))}; dejacue weights fetch {model.name}")
    for line in model.lines():
        typer.echo(line)


def _document(model: Model) -> dict[str, object]:
    parts = [
        {
            "repository": own.repository,
            "revision": own.revision,
            "commit": next((c for p in own.here().values() if p and (c := commit(p))), None),
            "files": {
                name: {
                    "path": path and str(path),
                    "sha256": own.files[name] if path is None else own.expected(name, path),
                }
                for name, path in own.here().items()
            },
            "download": own.line(),
        }
        for own in model.parts
    ]
    return {
        "name": model.name,
        "kind": model.kind,
        "state": model.state,
        "licence": model.licence,
        "megabytes": model.megabytes(),
        "needs": model.needs or None,
        "damaged": [str(path) for path in model.looked_at[1]],
        "parts": parts,
    }


def fetch(names: list[str]) -> None:
    for model in [model_named(name) for name in names]:  # names are checked before the first
        if model.state == "ready":
            say(f"{model.name}: already installed")
            continue
        say(f"{model.name}: {model.size()}, {model.licence}", stderr=True)
        model.fetch()
        say(f"{model.name}: downloaded; dejacue weights check {model.name} tests it")


def check(names: list[str]) -> None:
    for model in [model_named(name) for name in names]:
        _report(model, try_model(model))


def _report(model: Model, trial: Trial) -> None:
    for path, (digest, by) in trial.hashes.items():
        known = "no known hash" if by == "nobody" else f"matches {by}"
        known = "matches the published one" if by == "published" else known
        say(f"{path}: sha256 {digest}, {known}")
    for what, own in trial.norms.items():
        say(
            f"{model.name}: {own.rows} {what}, {own.dimension} numbers each, norms "
            f"{own.least:.4f} to {own.most:.4f}, cosine of two different ones at most "
            f"{own.alike:.3f}"
        )
    for at, (pixels, presence) in enumerate(trial.masks):
        say(f"{model.name}: frame {at}: a mask of {pixels} pixels, presence {presence:.2f}")
    for name, (images, texts) in trial.errors.items():
        say(f"{name}: 1 − cosine with fp32 at most {images:.4f} (images) and {texts:.4f} (texts)")
    say(f"{model.name}: works")


def path(names: list[str]) -> None:
    found: list[Path] = []
    for model in map(model_named, names):
        lacking = [name for _, name, path in model.files() if path is None]
        if lacking:
            raise MissingData(
                f"{model.name}: {', '.join(lacking)} not on this machine; run dejacue weights "
                f"fetch {model.name}"
            )
        found += [path for _, _, path in model.files() if path]
    for own in found:
        typer.echo(own)
