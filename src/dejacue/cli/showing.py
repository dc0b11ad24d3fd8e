"""``dejacue demo``, ``info`` and ``data``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dejacue._version import __version__
from dejacue.cli.tables import console, show_tables
from dejacue.data.release import Entries, Release, fetch_release, load_release
from dejacue.errors import DejaCueError, unknown
from dejacue.method import kernel
from dejacue.sources.atomic import check_place
from dejacue.sources.encoders import siglip, siglip_onnx, siglip_torch
from dejacue.sources.encoders.weights import FOLDER, Weights
from dejacue.sources.results import write_references

PACKAGES = ("numpy", "onnxruntime", "av")
EXTRAS = ("torch", "transformers", "pyarrow", "pandas", "polars")
GROUPS = ("vost", "seven", "development")


def demo(output: Path, seed: int) -> None:
    """A rendered cup: video and masks → history → windows → report, with the truth beside it."""
    from dejacue.cli import encoding, locating
    from dejacue.cli.settings import PUBLISHED_WIDTH, Settings
    from dejacue.data.rendered import render, write_scene
    from dejacue.method.contrast import Contrast

    check_place(output, folder=True)
    scene = output / "scene"
    shutil.rmtree(scene, ignore_errors=True)
    write_scene(scene, render(seed, family="cup", topology="three", hand=0.3, exits=1))
    footage = encoding.Footage(scene / "scene.mp4", scene / "Annotations", objects="1")
    words = locating.Words(scene / "vocabulary.yaml", encoder="mini")
    settings = Settings("vocabulary", Contrast(), PUBLISHED_WIDTH, None, False, "auto")
    truth = scene / "references.json"
    locating.run(footage, words, settings, locating.Wanted(output=output, references=truth))
    screen = console()
    again = (
        f"dejacue locate {footage.video} --masks {footage.masks} --object 1 "
        f"--vocabulary {words.path} --encoder mini --references {truth} --output {output}"
    )
    measure = f"dejacue evaluate {output / 'retrieval.json'} {truth}"
    for what, command in (("again", again), ("measure", measure)):
        screen.print(escape(f"{what}: {command}"), soft_wrap=True)


def info() -> None:
    builds = kernel.compiled()
    in_use = f"{builds[0]} (also: {', '.join((*builds[1:], 'numpy'))})" if builds else "numpy"
    rows = {
        "dejacue": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "kernel": in_use if builds else f"{in_use}; not compiled: {kernel.why_not()}",
        **{name: _version(name) for name in (*PACKAGES, *EXTRAS)},
        "weights": _weights(),
        "encoders": "; ".join(f"{name}: {ready}" for name, ready in _encoders().items()),
    }
    try:
        rows["release"] = str(load_release().folder)
    except DejaCueError:
        rows["release"] = "not here (dejacue data fetch)"
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


def _weights() -> str:
    return os.environ.get(FOLDER) or f"in the cache of the hub ({FOLDER} is not set)"


def _encoders() -> dict[str, str]:
    """Which encoders need no connection."""
    towers = dict.fromkeys(f"onnx/{tower}_model.onnx" for tower in ("vision", "text"))
    back_ends = {
        "onnx": [Weights(siglip_onnx.REPOSITORY, "main", towers), siglip.TOKENIZER],
        "torch": [Weights(siglip.REPOSITORY, siglip.REVISION, siglip_torch.FILES)],
    }
    there = [
        name
        for name, own in back_ends.items()
        if all(path for weights in own for path in weights.here().values())
    ]
    found = f"ready ({', '.join(there)})" if there else "not here; fetched when it is first used"
    return {"mini": "ready", "siglip2": found}


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
    show_tables(table)


def references(group: str, folder: Path | None, output: Path) -> None:
    entries = _group(load_release(folder), group)
    path = write_references(output, [entry.reference for entry in entries])
    console().print(escape(f"references of {len(entries)} histories: {path}"), soft_wrap=True)


def _group(release: Release, name: str) -> Entries:
    if name not in GROUPS:
        raise unknown("group", name, GROUPS)
    entries: Entries = getattr(release, name)
    return entries
