"""``dejacue demo``, ``info`` and ``data``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dejacue._version import __version__
from dejacue.cli.tables import console, retrieval_table
from dejacue.data.release import Entries, Release, fetch_release, load_release
from dejacue.data.synthetic import generate
from dejacue.errors import DejaCueError, unknown
from dejacue.method import kernel
from dejacue.method.locate import evidence, locate
from dejacue.records import Reference
from dejacue.report.plots import evidence_figure, save_png
from dejacue.sources.files import write_history, write_vocabulary
from dejacue.sources.npz import write_text
from dejacue.sources.results import write_references

EXTRAS = ("pandas", "polars")
GROUPS = ("vost", "seven", "development")


def demo(output: Path, seed: int) -> None:
    made = generate(
        seed, states=("empty", "half full", "full"), frames=240, gaps=((70, 14), (171, 6)),
        dimension=128,
    )  # fmt: skip
    retrieval = locate(made.history, made.vocabulary, diagnostics=True)
    seen = evidence(made.history, made.vocabulary)
    title = f"A generated cup, seed {seed}"
    figure = evidence_figure(made.history, seen, retrieval, made.references, title)
    picture = save_png(output / "evidence.png", figure)
    history = write_history(output / "cup.history.npz", made.history)
    vocabulary = write_vocabulary(output / "cup.vocabulary.npz", made.vocabulary)
    result = write_text(output / "retrieval.json", retrieval.to_json() + "\n")
    truth = write_references(
        output / "references.json", [Reference(made.history.id, made.references)]
    )
    screen = console()
    screen.print(retrieval_table(retrieval, dict(made.references)))
    for what, path in (("picture", picture), ("result", result)):
        screen.print(escape(f"{what}: {path}"), soft_wrap=True)
    again = f"dejacue locate {history} --vocabulary {vocabulary}"
    measure = f"dejacue evaluate {result} {truth}"
    for what, command in (("again", again), ("measure", measure)):
        screen.print(escape(f"{what}: {command}"), soft_wrap=True)


def info() -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    builds = kernel.compiled()
    in_use = f"{builds[0]} (also: {', '.join((*builds[1:], 'numpy'))})" if builds else "numpy"
    table.add_row("dejacue", __version__)
    table.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    table.add_row("numpy", importlib.metadata.version("numpy"))
    table.add_row("kernel", in_use)
    if not builds:
        table.add_row("", escape(f"not compiled: {kernel.why_not()}"))
    for name in EXTRAS:
        there = importlib.util.find_spec(name) is not None
        table.add_row(name, importlib.metadata.version(name) if there else "not installed")
    try:
        table.add_row("release", escape(str(load_release().folder)))
    except DejaCueError:
        table.add_row("release", "not here (dejacue data fetch)")
    console().print(table)


def fetch(folder: Path | None) -> None:
    target = fetch_release(folder)
    screen = console()
    screen.print(escape(f"The release is in {target}"), soft_wrap=True)
    terms = target / "DATA_LICENSE.md"
    if terms.is_file():
        screen.print(escape(terms.read_text(encoding="utf-8")), soft_wrap=True)
    else:
        screen.print("No DATA_LICENSE.md came with it; read the terms on the dataset's page.")


def show(folder: Path | None) -> None:
    release = load_release(folder)
    table = Table(title=escape(str(release.folder)), title_justify="left")
    for column in ("group", "histories", "frames", "states", "descriptions", "missing"):
        words = column in ("group", "missing")
        table.add_column(column, justify="left" if words else "right", overflow="fold")
    for name in GROUPS:
        entries = _group(release, name)
        table.add_row(
            name, str(len(entries)), str(sum(len(e.history) for e in entries)),
            str(sum(len(e.vocabulary.states) for e in entries)),
            str(sum(len(e.vocabulary) for e in entries)), escape("; ".join(entries.missing)),
        )  # fmt: skip
    console().print(table)


def references(group: str, folder: Path | None, output: Path) -> None:
    entries = _group(load_release(folder), group)
    path = write_references(output, [entry.reference for entry in entries])
    console().print(escape(f"references of {len(entries)} histories: {path}"), soft_wrap=True)


def _group(release: Release, name: str) -> Entries:
    if name not in GROUPS:
        raise unknown("group", name, GROUPS)
    entries: Entries = getattr(release, name)
    return entries
