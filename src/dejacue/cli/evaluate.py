"""``dejacue evaluate``: score timelines, and show the tables of an evaluation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import dejacue
from dejacue.cli import options as o
from dejacue.cli.tables import make_table, note, show
from dejacue.errors import InputError

if TYPE_CHECKING:
    from dejacue.evaluation.evaluate import Evaluation
    from dejacue.records import Reference, Timeline

MAX_LISTED_HISTORIES = 20


def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Timelines of one or more methods (.json, .jsonl, .csv, .parquet), then the "
            "references (.json, .csv, .eaf, .srt, …). References that list every occurrence say "
            "so (complete: true), and whole timelines are measured, too.",
            show_default=False,
        ),
    ],
    only_common: Annotated[
        bool, o.option("Compare only what all files share.", "--only-common")
    ] = False,
    times: o.Times = None,
    format: o.OutputFormat = None,
    output: Annotated[Path | None, o.output("Write to a file instead of the screen.")] = None,
) -> None:
    """Score timelines against references and compare methods: recall, overlap, confidence, p.

    With complete references also frame accuracy, F1 and edit score of whole timelines.
    """
    from dejacue.files.formats.registry import format_in

    o.refuse_values(files)
    if len(files) < 2:
        problem = "give the timelines of one or more methods, then the references"
        raise InputError(f"{problem}: dejacue evaluate FOUND.json REFERENCES.json")
    o.check_not_read(output, *files)
    # of the folder of a finding, its timeline
    inside = [path / "timeline.json" for path in files]
    *others, last = (t if os.path.isfile(t) else p for t, p in zip(inside, files, strict=True))
    references = dejacue.files.read_references(last) if format_in(last) is None else None
    timelines = {
        name: dejacue.files.read_timelines(path) for name, path in _methods(others).items()
    }
    if references is None:
        references = _of_another_tool(last, timelines, only_common, times)
    evaluation = dejacue.evaluate(timelines, references, only_common=only_common)
    show(
        format and format.value,
        output,
        lambda: evaluation_tables(evaluation),
        lambda: json.dumps(evaluation.to_dict(), indent=2, ensure_ascii=False) + "\n",
        lambda: as_csv(evaluation.to_rows()),
        below=counts(evaluation),
    )
    for sentence in evaluation.left_out:
        note(f"left out: {sentence}")


def _of_another_tool(
    path: Path, timelines: dict[str, list[Timeline]], only_common: bool, times: list[Path] | None
) -> list[Reference]:
    """Read references whose labels must be states of the timelines; one object needs no name."""
    all_timelines = [timeline for of_method in timelines.values() for timeline in of_method]
    names = {timeline.history_id for timeline in all_timelines}
    states = dict.fromkeys(state for timeline in all_timelines for state in timeline.states)
    return dejacue.files.read_references(
        path,
        times=times,
        states=None if only_common else list(states),
        history=names.pop() if len(names) == 1 else None,
    )


def _methods(paths: list[Path]) -> dict[str, Path]:
    """Return each file by the name of its method: its stem, or its path if stems are alike."""
    stems = {path.stem: path for path in paths}
    named = stems if len(stems) == len(paths) else {str(path): path for path in paths}
    if len(named) < len(paths):
        twice = next(str(path) for path in paths if paths.count(path) > 1)
        raise InputError(f"{twice}: is given twice; give each method once, and the references last")
    return named


def counts(evaluation: Evaluation) -> str:
    """Return how many histories, states … were evaluated, and how intervals were made."""
    one = {"histories": "history"}
    numbers = ", ".join(
        f"{number} {what if number != 1 else one.get(what, what.removesuffix('s'))}"
        for what, number in evaluation.counts.items()
    )
    how = "95 % intervals, components resampled"
    if evaluation.counts["components"] < 2:
        how = "one component gives no confidence interval"
    return "\n".join([f"{numbers}; {how}", *[evaluation.coverage] * bool(evaluation.complete)])


def evaluation_tables(evaluation: Evaluation) -> list[Table]:
    """Return the means of the methods and, where they are compared, their differences; of whole
    timelines, too, where references are complete."""
    from dejacue.evaluation.complete import TIMELINE_METRICS

    tables = [methods_table(evaluation)]
    if evaluation.complete:
        title = "whole timelines, means in %"
        tables += [
            methods_table(evaluation, title, TIMELINE_METRICS),
            _occurrences_table(evaluation),
        ]
    return tables + ([_differences_table(evaluation)] if evaluation.comparisons else [])


def methods_table(
    evaluation: Evaluation,
    title: str = "means in %",
    metrics: Mapping[str, str] | None = None,
) -> Table:
    """Return a row per method; metrics: name → title of its column, default: METRICS."""
    from dejacue.evaluation import METRICS
    from dejacue.evaluation.evaluate import percent

    metrics = METRICS if metrics is None else metrics
    columns = ("method", *(f">{metric}" for metric in metrics.values()))
    rows = [
        (name, *(percent(*estimates[metric]) for metric in metrics))
        for name, estimates in evaluation.methods.items()
    ]
    table = make_table(title, columns, rows)
    table.columns[0].min_width = 10
    return table


def _occurrences_table(evaluation: Evaluation) -> Table:
    """Return how many occurrences each method found, history by history where these are few."""
    rows = []
    for name, by_history in evaluation.occurrences.items():
        listed = by_history if 1 < len(by_history) <= MAX_LISTED_HISTORIES else {}
        for history, of in [*listed.items(), ("all", evaluation.total(name))]:
            numbers = of.hits + of.missed, of.hits, of.missed, of.superfluous
            rows.append((name, history, *map(str, numbers)))
    columns = ("method", "history", ">true", ">found", ">missed", ">superfluous")
    return make_table("occurrences, found at tIoU ≥ .5", columns, rows)


def _differences_table(evaluation: Evaluation) -> Table:
    from dejacue.evaluation.evaluate import FAMILY, METRIC_NAMES, TIMELINE_FAMILY

    rows, families = [], [FAMILY]
    for name, differences in evaluation.comparisons.items():
        for metric, paired in differences.items():
            title = METRIC_NAMES[metric]
            low, high = 100 * paired.low, 100 * paired.high
            mean = f"{100 * paired.delta:+.1f} [{low:+.1f}, {high:+.1f}]"
            names = name.replace(" - ", " − "), title
            rows.append((*names, mean, _p(paired.p), _p(paired.holm_p)))
    columns = ("difference", "metric", ">mean", ">p", ">Holm p")
    table = make_table("paired differences, in points", columns, rows)
    if any("f1_50" in differences for differences in evaluation.comparisons.values()):
        families.append(TIMELINE_FAMILY)
    table.caption, table.caption_justify = "; ".join(families), "left"
    table.columns[0].min_width = 12
    table.columns[1].no_wrap = True
    return table


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 5e-5 else "< 0.0001"


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    from dejacue.files.formats.tables import csv_text

    return csv_text(list(rows[0]), [row.values() for row in rows])
