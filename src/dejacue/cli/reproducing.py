"""``dejacue reproduce``."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.table import Table

from dejacue.cli.tables import console
from dejacue.data.release import load_release
from dejacue.experiments import REGISTRY, experiment
from dejacue.experiments.table import Result
from dejacue.sources.npz import write_text

METRICS = {"r1_03": "R@1 .3", "r1_05": "R@1 .5", "top1_tiou": "Top-1 tIoU"}


def show_list() -> None:
    table = Table("name", "table")
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.title)
    console().print(table)


def run(name: str, data: Path | None, windows: Path | None, engine: str) -> None:
    chosen = experiment(name)
    result = chosen.run(load_release(data), engine)
    if windows is not None:
        write_text(windows, json.dumps({name: result.windows}) + "\n")
    screen = console()
    screen.print(_table(chosen.title, result))
    total = len(result.values)
    screen.print(f"{result.reproduced} of {total} published values reproduced")
    if result.reproduced < total:
        raise typer.Exit(1)


def _table(title: str, result: Result) -> Table:
    table = Table(title=f"{title} (%): here, published", title_justify="left")
    table.add_column("method")
    for metric in METRICS.values():
        table.add_column(metric, justify="right")
    rows: dict[str, list[str]] = {}
    for value in result.values:
        mark = "[green]✓[/]" if value.agrees else "[red]✗[/]"
        cell = f"{100 * value.here:.1f}  {100 * value.published:.1f} {mark}"
        rows.setdefault(value.row, []).append(cell)
    for row, cells in rows.items():
        table.add_row(row, *cells)
    return table
