"""``dejacue evaluate``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.data import by_reason
from dejacue.cli.readouts import readout_named
from dejacue.cli.store import conditions
from dejacue.cli.tables import note, notes, say, say_written, show
from dejacue.data.layouts import UnusableDataset, open_dataset
from dejacue.errors import InputError, counted
from dejacue.evaluation import METRICS
from dejacue.evaluation.evaluate import FAMILY, Estimate, Evaluation, evaluate
from dejacue.evaluation.resampling import Paired
from dejacue.pipeline.dataset import Measured, check_name, evaluate_dataset
from dejacue.pipeline.options import EncoderOptions
from dejacue.records import Reference, Timeline
from dejacue.sources.atomic import check_place
from dejacue.sources.formats.registry import format_in
from dejacue.sources.results import read_references, read_timelines, write_timelines


def format_from(format: str | None, json: bool, csv: bool) -> str | None:
    """The one format that --format, --json and --csv ask for; None: by the name of the output."""
    asked = {format, "json" if json else None, "csv" if csv else None} - {None}
    if len(asked) > 1:
        raise InputError("--format, --json and --csv ask for different formats; give one of them")
    return asked.pop() if asked else None


def run(
    files: list[Path],
    format: str | None,
    output: Path | None,
    only_common: bool,
    times: list[Path] | None = None,
) -> None:
    """The last file holds the references, each of the others the timelines of a method."""
    if len(files) < 2:
        raise InputError(
            "give the timelines of one or more methods, then the references: dejacue evaluate "
            "FOUND.json REFERENCES.json"
        )
    if output is not None and any(_same(output, path) for path in files):
        raise InputError(f"{output}: is read by this command; give another output")
    *others, last = files
    references = read_references(last) if format_in(last) is None else None
    timelines = {name: read_timelines(path) for name, path in _methods(others).items()}
    if references is None:
        references = _of_another_tool(last, timelines, only_common, times)
    found = evaluate(timelines, references, only_common=only_common)
    show_evaluation(found, found.to_dict(), format, output)
    for sentence in found.left_out:
        note(f"left out: {sentence}")


def show_evaluation(
    found: Evaluation,
    document: dict[str, Any],
    format: str | None,
    output: Path | None,
    groups: Mapping[str, Evaluation] | None = None,
) -> None:
    """As tables, CSV or Markdown, or the document as JSON.

    groups   the same for some of the histories, by what these are
    """
    tables = [_methods_table(found), *([_differences_table(found)] if found.comparisons else [])]
    tables += [_methods_table(own, name) for name, own in (groups or {}).items()]
    show(
        format,
        output,
        lambda: tables,
        lambda: json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        lambda: _as_csv(found, groups or {}),
        below=_counts(found),
    )


def _of_another_tool(
    path: Path, timelines: dict[str, list[Timeline]], only_common: bool, times: list[Path] | None
) -> list[Reference]:
    """Its labels must be states that were asked for; a single object needs no name."""
    every = [timeline for some in timelines.values() for timeline in some]
    names = {timeline.history_id for timeline in every}
    states = dict.fromkeys(state for timeline in every for state in timeline.states)
    return read_references(
        path,
        times=times,
        states=None if only_common else list(states),
        history=names.pop() if len(names) == 1 else None,
    )


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _methods(paths: list[Path]) -> dict[str, Path]:
    """Each file under the name of its method: its stem, or its path if two stems are alike."""
    stems = {path.stem: path for path in paths}
    named = stems if len(stems) == len(paths) else {str(path): path for path in paths}
    if len(named) < len(paths):
        twice = next(str(path) for path in paths if paths.count(path) > 1)
        raise InputError(f"{twice}: is given twice; give each method once, and the references last")
    return named


def _counts(found: Evaluation) -> str:
    counts = ", ".join(f"{number} {_noun(what, number)}" for what, number in found.counts.items())
    if found.counts["components"] < 2:
        return f"{counts}; one component gives no interval"
    return f"{counts}; 95 % intervals, components resampled"


def _noun(plural: str, number: int) -> str:
    if number != 1:
        return plural
    return "history" if plural == "histories" else plural.removesuffix("s")


def _methods_table(found: Evaluation, group: str = "") -> Table:
    of = f"{group} ({found.counts['histories']}), " if group else ""
    table = Table(title=escape(f"{of}means in %"), title_justify="left")
    table.add_column("method", overflow="fold", min_width=10)
    for metric in METRICS.values():
        table.add_column(metric, justify="right")
    for name, own in found.methods.items():
        table.add_row(escape(name), *(_mean(own[metric]) for metric in METRICS))
    return table


def _mean(estimate: Estimate) -> str:
    mean = f"{100 * estimate.mean:.1f}"
    if estimate.low is None or estimate.high is None:
        return mean
    return escape(f"{mean} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]")


def _differences_table(found: Evaluation) -> Table:
    table = Table(
        title="paired differences, in points",
        title_justify="left",
        caption=FAMILY,
        caption_justify="left",
    )
    table.add_column("difference", overflow="fold", min_width=12)
    table.add_column("metric", no_wrap=True)
    for column in ("mean", "p", "Holm p"):
        table.add_column(column, justify="right")
    for name, own in found.comparisons.items():
        for metric, title in METRICS.items():
            paired = own[metric]
            cells = (_difference(paired), _p(paired.p), _p(paired.holm_p))
            table.add_row(escape(name.replace(" - ", " − ")), title, *cells)
    return table


def _difference(paired: Paired) -> str:
    return escape(f"{100 * paired.delta:+.1f} [{100 * paired.low:+.1f}, {100 * paired.high:+.1f}]")


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 5e-5 else "< 0.0001"


def _as_csv(found: Evaluation, groups: Mapping[str, Evaluation]) -> str:
    stream = io.StringIO()
    rows = found.to_rows()
    rows += [row | {"kind": name} for name, own in groups.items() for row in own.to_rows()]
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


MOST_NAMED = 20  # reasons and warnings; all are in the JSON


def run_dataset(
    folder: Path,
    layout: str | None,
    store: Path,
    readouts: str,
    masks: Path | None,
    where: Sequence[str],
    workers: int | None,
    replace: bool,
    encoder: str | None,
    options: EncoderOptions,
    output: Path | None,
    timelines: Path | None,
    by: str | None,
) -> None:
    """Exit code 1 where a video could not be encoded: the table is of the others."""
    chosen = {own: readout_named(own) for part in readouts.split(",") if (own := part.strip())}
    files = [] if timelines is None else [timelines / f"{Path(own).stem}.json" for own in chosen]
    if len(set(files)) < len(files):
        raise InputError(
            f"--readouts {readouts}: two of them have the same name; give only one of them"
        )
    if output is not None:
        if output.is_dir():
            raise InputError(f"{output}: is a folder; give the name of a file")
        check_place(output)
    if timelines is not None:
        check_place(timelines, folder=True)
    try:
        with Bars() as bars:
            dataset = open_dataset(folder, layout, progress=bars)
            if by is not None:
                check_name(by, dataset)
            found = evaluate_dataset(
                dataset,
                store,
                readouts=chosen,
                encoder=encoder,
                masks=masks,
                where=conditions(where),
                workers=workers,
                replace=replace,
                encoder_options=options,
                progress=bars,
            )
    except UnusableDataset as error:
        notes(*error.problems)
        raise
    groups = found.by(by) if by is not None else {}
    document = found.to_dict()
    if by is not None:
        document["by"] = {by: {value: own.to_dict()["methods"] for value, own in groups.items()}}
    for path, some in zip(files, found.timelines.values(), strict=False):
        say_written(write_timelines(path, some), "timelines")
    say(f"{store}: {found.ingested}", stderr=True)
    named = {f"{by}={value}": own for value, own in groups.items()}
    show_evaluation(found.evaluation, document, None, output, named)
    _say_what_is_missing(found)
    if found.ingested.failed:
        raise typer.Exit(1)


def _say_what_is_missing(found: Measured) -> None:
    problems = [
        f"{id}: {text}" for id, several in found.ingested.problems.items() for text in several
    ]
    told = [*found.warnings, *problems]
    notes(*told[:MOST_NAMED])
    if len(told) > MOST_NAMED:
        note(f"and {len(told) - MOST_NAMED} more")
    for why, names in list(by_reason(found.left_out).items())[:MOST_NAMED]:
        first = ", ".join(names[:3]) + (", …" if names[3:] else "")
        note(f"left out: {counted(len(names), 'clip')} ({first}): {why}")
    for sentence in found.evaluation.left_out:
        note(f"left out: {sentence}")
