"""``dejacue demo``, ``info`` and ``data``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dejacue._version import __version__
from dejacue.cli.tables import console
from dejacue.data.release import Entries, Release, fetch_release, load_release
from dejacue.errors import DejaCueError, unknown
from dejacue.method import kernel
from dejacue.sources.results import write_references

EXTRAS = ("pandas", "polars")
GROUPS = ("vost", "seven", "development")


def demo(output: Path, seed: int) -> None:
    """A rendered cup: video and masks → history → windows → report, with the truth beside it."""
    from dejacue.cli import encoding, locating
    from dejacue.data.rendered import render, write_scene
    from dejacue.method.readouts import Scan

    scene = output / "scene"
    shutil.rmtree(scene, ignore_errors=True)
    write_scene(scene, render(seed, family="cup", topology="three", hand=0.3, exits=1))
    footage = encoding.Footage(scene / "scene.mp4", scene / "Annotations", objects="1")
    words = locating.Words(scene / "vocabulary.yaml", encoder="mini")
    settings = locating.Settings("vocabulary", Scan(), 3, 1, False, "auto")
    truth = scene / "references.json"
    locating.run(footage, words, settings, None, output, None, truth, False)
    screen = console()
    again = (
        f"dejacue locate {footage.video} --masks {footage.masks} --object 1 "
        f"--vocabulary {words.path} --encoder mini --references {truth} --output {output}"
    )
    measure = f"dejacue evaluate {output / 'retrieval.json'} {truth}"
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
