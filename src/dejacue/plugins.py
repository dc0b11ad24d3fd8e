"""What people add: entry points of installed packages, beside what comes with dejacue.

    [project.entry-points."dejacue.readouts"]
    mine = "my_package:MINE"

Groups, and what an entry point of each leads to:

dejacue.encoders    a callable → Encoder
dejacue.trackers    a callable → Tracker
dejacue.detectors   a callable → Detector
dejacue.readouts    a Readout
dejacue.commands    a callable that adds commands to a typer app, which ours then has, too
"""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

from dejacue.errors import InputError, MissingExtra, first_line

T = TypeVar("T")

# What dejacue-paper adds, so that its names are known where it is not installed.
PAPER: Mapping[str, tuple[str, ...]] = {
    "commands": ("reproduce", "data", "annotate", "moments", "learn"),
    "readouts": (
        "peak",
        "mean-window",
        "boxcar",
        "max-frame",
        "single-median",
        "non-overlap",
        "ordered",
        "equal-parts",
        "whole-history",
        "longest-run",
    ),
}


def check_installed(group: str, name: str) -> None:
    """Raise MissingExtra for a name that belongs to dejacue-paper, which is called where nothing
    else has this name."""
    if name in PAPER.get(group, ()):
        remedy = "pip install dejacue-paper (in a checkout: pip install ./paper)"
        raise MissingExtra(f'"{name}" is part of dejacue-paper, which is not installed; {remedy}')


@cache
def entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by name; nothing is loaded."""
    entries = importlib.metadata.entry_points(group=f"dejacue.{group}")
    return {entry.name: entry for entry in entries}


def packages() -> list[str]:
    """Return the installed packages that add something, with their versions."""
    entries = importlib.metadata.entry_points()
    groups = [group for group in entries.groups if group.startswith("dejacue.")]
    ours = [entry for group in groups for entry in entries.select(group=group)]
    return sorted({f"{entry.dist.name} {entry.dist.version}" for entry in ours if entry.dist})


def load(entry: importlib.metadata.EntryPoint) -> Any:
    """Import what an entry point leads to; an error names its package."""
    try:
        return entry.load()
    except Exception as error:
        raise broken(entry, error) from error


def broken(entry: importlib.metadata.EntryPoint, error: Exception) -> InputError:
    """Return the error to raise where a plug-in has failed; it names the package."""
    package = entry.dist.name if entry.dist else entry.module
    return InputError(
        f'the plug-in "{entry.name}" of the package {package} failed ({type(error).__name__}: '
        f"{first_line(error)}); update or uninstall {package}"
    )


class Registry(Mapping[str, T], Generic[T]):
    """Finds things by their names in a group, ours before plug-ins; loads each on first use.

    A plug-in cannot take a name of ours.
    """

    def __init__(self, group: str, built_in: Mapping[str, T]) -> None:
        self.group = group
        self.built_in = dict(built_in)

    def __getitem__(self, name: str) -> T:
        if name in self.built_in:
            return self.built_in[name]
        value: T = load(entry_points(self.group)[name])
        return value

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in entry_points(self.group)

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in entry_points(self.group) if name not in self.built_in)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def add_commands(app: Any) -> None:
    """Let every plug-in add its commands; one that fails is left out, with a warning."""
    from typer import Typer
    from typer.main import get_group

    for entry in entry_points("commands").values():
        added = Typer()
        try:
            entry.load()(added)
            get_group(added)  # which reads the signatures
        except Exception as error:
            warnings.warn(str(broken(entry, error)), stacklevel=2)
            continue
        app.registered_commands += added.registered_commands
        app.registered_groups += added.registered_groups
