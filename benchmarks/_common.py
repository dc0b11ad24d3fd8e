"""This library is shared by all benchmarks: their command line, data, timing and tables.

Files in this folder whose names begin with an underscore are libraries; all others are benchmarks.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from unittest.mock import MagicMock

FOOTAGE = Path(os.environ.get("DEJACUE_FOOTAGE") or "footage")


class Parser(argparse.ArgumentParser):
    """Print a docstring as help, and take --smoke, which sets other defaults: those in smoke."""

    def __init__(self, doc: str | None, **smoke: Any) -> None:
        super().__init__(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.smoke = smoke
        self.add_argument(
            "--smoke",
            action="store_true",
            help="tiny sizes, to see that it starts; the figures mean nothing",
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options = super().parse_args(args, namespace)
        if options.smoke:
            self.set_defaults(**self.smoke)
            options = super().parse_args(args, namespace)
            if getattr(options, "write", None):
                self.error("figures of --smoke mean nothing; leave out --write")
        return options


def one_thread() -> None:
    """Limit the libraries behind numpy to one thread; call this before numpy is imported."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"


class _Struct:
    def __init_subclass__(cls, **options: Any) -> None: ...


def _cached(cache: dict[Any, Any], key: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            if (at := key(*values)) not in cache:
                cache[at] = function(*values)
            return cache[at]

        return call

    return decorate


def replace_missing_packages() -> None:
    """Put stand-ins in the place of packages that dejacue imports and a benchmark of torch models
    does not use, where they are not installed: a machine with a GPU may have torch alone."""
    stand_ins: dict[str, ModuleType] = {
        "msgspec": MagicMock(Struct=_Struct),
        "cachetools": MagicMock(cached=_cached),
    }
    for name, stand_in in stand_ins.items():
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = stand_in


def missing(message: str, options: argparse.Namespace) -> NoReturn:
    """Stop because data is missing, which is an error unless this is only --smoke."""
    print(message)
    raise SystemExit(0 if options.smoke else 1)


def sequences(folder: Path, options: argparse.Namespace) -> list[Path]:
    """Return the image folders of footage in VOST's layout, with --smoke only the first."""
    if not (folder / "JPEGImages").is_dir():
        missing(f"{folder} contains no JPEGImages; give a folder in VOST's layout", options)
    return sorted((folder / "JPEGImages").iterdir())[: 1 if options.smoke else None]


def chromium() -> str | None:
    """Return the path of Chromium, or None for the one that playwright may have installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def timed(side: Callable[[], object]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    side()
    return time.perf_counter() - start


def best(
    sides: Sequence[Callable[[], object]], rounds: int = 7, seconds: float = 1.0
) -> list[float]:
    """Return the best time of each side in seconds.

    The sides take turns; quick ones are repeated within a turn. Each runs once if seconds is 0.
    """
    times = [timed(side) for side in sides]
    if not seconds:
        return times
    counts = [min(1000, max(1, int(seconds / rounds / max(once, 1e-9) / 2))) for once in times]
    for _ in range(rounds):
        for at, (side, count) in enumerate(zip(sides, counts, strict=True)):
            times[at] = min(times[at], *(timed(side) for _ in range(count)))
    return times


def put_table(page: Path, made_by: str, lines: list[str]) -> None:
    """Replace what stands in the page between the mark of this benchmark and the next end mark."""
    start, end = f"<!-- made by {made_by} -->", "<!-- end -->"
    head, marker, rest = page.read_text(encoding="utf-8").partition(start)
    _, ended, tail = rest.partition(end)
    if not (marker and ended):
        raise SystemExit(f"{page}: has no {start} followed by {end}; add them to the page")
    text = "\n".join([start, *lines, end])
    page.write_text(f"{head}{text}{tail}", encoding="utf-8")


def markdown(table: Any) -> list[str]:
    """Return a rich table as lines of Markdown."""
    columns = [list(column.cells) for column in table.columns]
    rows = [[str(column.header) for column in table.columns], ["---"] * len(columns)]
    rows += [list(row) for row in zip(*columns, strict=True)]
    return [f"| {' | '.join(row)} |" for row in rows]
