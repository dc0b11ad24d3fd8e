"""``dejacue reproduce``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from dejacue.atomic import check_place, write_text, write_whole
from dejacue.cli.tables import console, show_tables
from dejacue.errors import InputError, MissingData
from dejacue_paper.experiments import ON_REQUEST, REGISTRY, experiment
from dejacue_paper.experiments.captions import CAPTIONS, LEGEND
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.output import (
    as_csv,
    as_json,
    as_markdown,
    as_windows,
    by_reason,
    lines,
    summary,
)
from dejacue_paper.experiments.table import ABOUT, NO, YES, Experiment, Result

COLOUR = {YES: "green", ABOUT: "yellow", NO: "red"}
FOLDER = Path("out/reproduce")
WIDTHS = (25, 22, 22, 7)  # metric, here, published, difference: 80 columns with the mark


def show_list() -> None:
    table = Table("name", "what", "why it is missing", box=SIMPLE_HEAD)
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.title, entry.reason)
    for entry in ON_REQUEST.values():
        table.add_row(entry.name, entry.title, "only by name, not part of all")
    show_tables(table)


def run(
    names: Sequence[str],
    data: Path | None,
    windows: Path | None,
    out: Path | None,
    figures: bool,
    engine: str,
) -> None:
    chosen = _chosen(names)
    folder = out or (FOLDER if figures else None)
    if folder is not None:  # before the work, not after it
        check_place(folder, folder=True)
    if windows is not None:
        check_place(windows)
    results, absent = _run(chosen, Benchmark(data, engine), everything="all" in names)
    screen = console()
    if len(chosen) > 1:
        _overview(results, absent)
    if folder is not None:
        drawn = _write(folder, chosen, results, absent, figures, " ".join(names))
        if figures and not drawn:
            screen.print(f"there is no figure for {', '.join(results)}")
        screen.print(escape(f"written to {folder}"), soft_wrap=True)
    if windows is not None:
        write_text(windows, as_windows(results))
    if any(result.compared for result in results.values()):  # with something published
        screen.print(LEGEND, style="dim")
        screen.print(summary(results.values(), len(absent)), soft_wrap=True)
    if any(result.unexplained for result in results.values()):
        raise typer.Exit(1)


def _chosen(names: Sequence[str]) -> list[Experiment]:
    chosen = [experiment(name) for name in dict.fromkeys(names) if name != "all"]
    if "all" in names:
        return [*REGISTRY.values(), *(entry for entry in chosen if entry.on_request)]
    for entry in chosen:
        if entry.run is None:
            raise InputError(f'"{entry.name}" cannot be computed here: {entry.reason}')
    return chosen


def _run(
    chosen: Sequence[Experiment], benchmark: Benchmark, everything: bool
) -> tuple[dict[str, Result], dict[str, str]]:
    """Run the experiments, show each result as soon as it is there, and return the results and why
    others are missing, by name."""
    results: dict[str, Result] = {}
    absent: dict[str, str] = {}
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=console(stderr=True),
        transient=True,
        disable=not console(stderr=True).is_terminal,
    )
    with bar:
        task = bar.add_task("")
        for entry in chosen:
            bar.update(task, description=entry.title)
            if entry.run is None:
                absent[entry.name] = entry.reason
                continue
            try:
                results[entry.name] = entry.run(benchmark)
            except MissingData as error:
                if not everything:
                    raise
                absent[entry.name] = str(error)
                continue
            _show(entry, results[entry.name])
    return results, absent


def _show(entry: Experiment, result: Result) -> None:
    """Print rows as headings and their metrics in fixed columns: 80 characters hold them."""
    screen = console()
    screen.print(f"[bold]{escape(f'{entry.name}: {entry.title}')}[/]")
    screen.print(_columns("", "here", "published", "differs", ""), style="dim", soft_wrap=True)
    last = None
    for line in lines(result):
        if line.row != last:
            screen.print(escape(line.row), soft_wrap=True)
            last = line.row
        text = _columns(f"  {line.metric}", line.here, line.published, line.difference, line.mark)
        colour = COLOUR.get(line.mark)
        text = escape(text)
        if colour:
            text = text[: -len(line.mark)] + f"[{colour}]{line.mark}[/]"
        screen.print(text, soft_wrap=True)
    for remark in result.remarks:
        screen.print(escape(remark), style="dim")
    screen.print()


def _columns(metric: str, here: str, published: str, difference: str, mark: str) -> str:
    a, b, c, d = WIDTHS
    return f"{metric:<{a}}{here:>{b}} {published:>{c}} {difference:>{d}} {mark}"


def _overview(results: Mapping[str, Result], absent: Mapping[str, str]) -> None:
    screen = console()
    table = Table("table", YES, ABOUT, NO, box=SIMPLE_HEAD)
    for name, result in results.items():
        table.add_row(name, *(str(result.count(mark) or "") for mark in (YES, ABOUT, NO)))
    show_tables(table)
    for reason, names in by_reason(absent).items():
        screen.print(escape(f"not run: {', '.join(names)}: {reason}"))


def _write(
    folder: Path,
    chosen: Sequence[Experiment],
    results: Mapping[str, Result],
    absent: Mapping[str, str],
    figures: bool,
    names: str,
) -> list[str]:
    """Write the page, and the figures if asked for; return the names of the figures."""
    drawn: list[str] = []
    if figures:
        from dejacue.report.plots import save_png

        for result in results.values():
            for name, draw in result.figures.items():
                picture = draw()
                save_png(folder / "figures" / f"{name}.png", picture)
                _save_pdf(folder / "figures" / f"{name}.pdf", picture)
                drawn.append(name)
    write_text(folder / "reproduce.json", as_json(results, absent))
    write_text(folder / "reproduce.csv", as_csv(results))
    captioned = [name for name in drawn if name in CAPTIONS]
    write_text(folder / "reproduce.md", as_markdown(chosen, results, absent, captioned, names))
    return drawn


def _save_pdf(path: Path, figure: Any) -> Path:
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    FigureCanvasPdf(figure)
    still = {"CreationDate": None}  # the same picture gives the same file
    return write_whole(path, lambda stream: figure.savefig(stream, format="pdf", metadata=still))
