"""``dejacue locate``."""

from __future__ import annotations

import csv
import io
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from dejacue.cli.tables import as_text, console, diagnostics_table, retrieval_table
from dejacue.errors import InputError
from dejacue.method.coordinates import check_pair
from dejacue.method.durations import SCHEDULES, as_durations
from dejacue.method.locate import evidence, locate
from dejacue.method.plan import Plan, as_readout
from dejacue.method.view import Readout
from dejacue.records import Retrieval
from dejacue.sources.documents import named
from dejacue.sources.files import read_history, read_vocabulary
from dejacue.sources.npz import write_text


def readout_from(name: str, durations: str | None, norm: str | None, runs: str | None) -> Readout:
    """The named readout with the options that the user gave."""
    readout = as_readout(name)
    given: dict[str, Any] = {"durations": durations, "norm": norm, "runs": runs}
    given = {key: value for key, value in given.items() if value is not None}
    known = {field.name for field in fields(readout)}  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise InputError(f"--{key} does not apply to the readout {name}")
    if "durations" in given and given["durations"] not in SCHEDULES:
        given["durations"] = _lengths(given["durations"])
    return replace(readout, **given) if given else readout  # type: ignore[type-var]


def _lengths(text: str) -> Any:
    parts = [part.strip() for part in text.split(",")]
    try:
        return tuple(int(part) for part in parts if part)
    except ValueError:
        return as_durations(text)  # not a list of numbers: suggests the nearest schedule


def run(
    history_path: Path, vocabulary_path: Path, coordinates: str, readout: Readout, smoothing: int,
    top: int, prompts: str | None, diagnostics: bool, engine: str, format: str | None,
    output: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    Plan.of(coordinates, readout, smoothing, top, diagnostics, engine)  # refuses before reading
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"{plot}: the plot is a PNG picture; give a name that ends in .png")
    if format is None:
        suffix = output.suffix.lower() if output else ""
        format = {".json": "json", ".csv": "csv"}.get(suffix, "table")
    history = read_history(history_path)
    vocabulary = read_vocabulary(vocabulary_path, prompts=prompts)
    if vocabulary.features is None:
        raise InputError(
            f"{vocabulary_path}: holds words only, and no text encoder is installed with this "
            "version; give an .npz that holds their text features (see docs/files.md)"
        )
    with named(f"{history_path} with {vocabulary_path}"):
        check_pair(history, vocabulary)
    with named(str(history_path)):
        retrieval = locate(
            history, vocabulary, coordinates=coordinates, readout=readout, smoothing=smoothing,
            top=top, diagnostics=diagnostics, engine=engine,
        )  # fmt: skip
    if plot is not None:
        from dejacue.report.plots import evidence_figure, save_png

        seen = evidence(
            history, vocabulary, coordinates=coordinates, smoothing=smoothing, engine=engine
        )
        save_png(plot, evidence_figure(history, seen, retrieval))
    if format == "table":
        tables = [retrieval_table(retrieval)]
        tables += [diagnostics_table(retrieval)] if diagnostics else []
        if output is None:
            console().print(*tables, sep="\n")
        else:
            write_text(output, as_text(*tables))
    else:
        text = retrieval.to_json() + "\n" if format == "json" else as_csv(retrieval)
        if output is None:
            typer.echo(text, nl=False)
        else:
            write_text(output, text)
    for note in retrieval.notes:
        console(stderr=True).print(escape(f"note: {note}"), soft_wrap=True)


def as_csv(retrieval: Retrieval) -> str:
    stream = io.StringIO()
    rows = retrieval.to_rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
