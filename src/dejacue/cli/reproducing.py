"""``dejacue reproduce``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from dejacue.cli.tables import console
from dejacue.errors import InputError, MissingData
from dejacue.experiments import REGISTRY, experiment
from dejacue.experiments.study import Study
from dejacue.experiments.table import ABOUT, NO, YES, Experiment, Result
from dejacue.experiments.writing import (
    as_csv,
    as_json,
    as_markdown,
    as_windows,
    by_reason,
    lines,
    summary,
)
from dejacue.sources.npz import write_text

COLOUR = {YES: "green", ABOUT: "yellow", NO: "red"}
FOLDER = Path("out/reproduce")


def show_list() -> None:
    table = Table("name", "what", "")
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.title, "" if entry.run else f"not here: {entry.reason}")
    console().print(table)


def run(
    names: Sequence[str], data: Path | None, windows: Path | None, out: Path | None, figures: bool,
    engine: str,
) -> None:  # fmt: skip
    chosen = _chosen(names)
    study = Study(data, engine)
    results, absent = _run(chosen, study, every="all" in names)
    screen = console()
    for entry in chosen:
        if entry.name in results:
            _show(entry, results[entry.name])
    if figures or out is not None:
        folder = out or FOLDER
        _write(folder, chosen, results, absent, figures, " ".join(names))
    if windows is not None:
        write_text(windows, as_windows(results))
    if len(chosen) > 1:
        _overview(results, absent)
    screen.print(summary(results.values()))
    if figures or out is not None:
        screen.print(f"written to {escape(str(folder))}")
    if any(result.unexplained for result in results.values()):
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[Experiment]:
    if "all" in names:
        return list(REGISTRY.values())
    chosen = [experiment(name) for name in dict.fromkeys(names)]
    for entry in chosen:
        if entry.run is None:
            raise InputError(f'"{entry.name}" cannot be computed here: {entry.reason}')
    return chosen


def _run(
    chosen: Sequence[Experiment], study: Study, every: bool
) -> tuple[dict[str, Result], dict[str, str]]:
    """Results by name, and why the others are missing."""
    results: dict[str, Result] = {}
    absent: dict[str, str] = {}
    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=console(stderr=True),
        transient=True, disable=not console(stderr=True).is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("")
        for entry in chosen:
            bar.update(task, description=entry.title)
            if entry.run is None:
                absent[entry.name] = entry.reason
                continue
            try:
                results[entry.name] = entry.run(study)
            except MissingData as error:
                if not every:
                    raise
                absent[entry.name] = str(error)
    return results, absent


def _show(entry: Experiment, result: Result) -> None:
    screen = console()
    table = Table(title=f"{entry.name}: {entry.title}", title_justify="left", box=SIMPLE_HEAD)
    for column in ("row", "metric"):
        table.add_column(column, overflow="fold")
    for column in ("here", "published", "difference"):
        table.add_column(column, justify="right")
    table.add_column("")
    last = None
    for line in lines(result):
        mark = f"[{COLOUR[line.mark]}]{line.mark}[/]" if line.mark in COLOUR else line.mark
        row = "" if line.row == last else escape(line.row)
        table.add_row(
            row, line.metric, escape(line.here), escape(line.published), line.difference, mark
        )
        last = line.row
    screen.print(table)
    for remark in result.remarks:
        screen.print(escape(remark), style="dim")
    screen.print()


def _overview(results: Mapping[str, Result], absent: Mapping[str, str]) -> None:
    screen = console()
    table = Table("name", YES, ABOUT, NO, title="all", title_justify="left", box=SIMPLE_HEAD)
    for name, result in results.items():
        table.add_row(name, *(str(result.count(mark) or "") for mark in (YES, ABOUT, NO)))
    screen.print(table)
    for reason, names in by_reason(absent).items():
        screen.print(escape(f"not run: {', '.join(names)}: {reason}"))


def _write(
    folder: Path, chosen: Sequence[Experiment], results: Mapping[str, Result],
    absent: Mapping[str, str], figures: bool, asked: str,
) -> None:  # fmt: skip
    drawn: list[str] = []
    if figures:
        from dejacue.report.plots import save_pdf, save_png

        for result in results.values():
            for name, draw in result.figures.items():
                picture = draw()
                save_png(folder / "figures" / f"{name}.png", picture)
                save_pdf(folder / "figures" / f"{name}.pdf", picture)
                drawn.append(name)
    write_text(folder / "reproduce.json", as_json(results, absent))
    write_text(folder / "reproduce.csv", as_csv(results))
    write_text(folder / "reproduce.md", as_markdown(chosen, results, absent, drawn, asked))
