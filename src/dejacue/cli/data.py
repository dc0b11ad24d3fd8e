"""``dejacue data convert``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say, say_written, show_tables
from dejacue.data.layouts import (
    Dataset,
    UnusableDataset,
    manifest_rows,
    open_dataset,
    vocabulary_documents,
    write_manifest,
    write_vocabularies,
)
from dejacue.errors import InputError, counted
from dejacue.sources.atomic import check_place
from dejacue.sources.files import read_vocabulary
from dejacue.sources.formats.registry import FORMATS, format_of
from dejacue.sources.results import read_references, write_references

OWN = (".json", ".csv", ".parquet", ".arrow")


def convert(given: Path, output: Path, times: list[Path] | None, vocabulary: Path | None) -> None:
    check_ending(output)
    if output.exists() and given.exists() and output.samefile(given):
        raise InputError(f"{output}: is read by this command; give another output")
    states = None if vocabulary is None else list(read_vocabulary(vocabulary).states)
    found = read_references(given, times=times, states=states)
    path = write_references(output, found, times=times)
    say(f"references of {counted(len(found), 'object')}: {path}")


def check_ending(output: Path) -> None:
    if format_of(output) is None and output.suffix.lower() not in OWN:
        known = [suffix for own in FORMATS.loaded().values() for suffix in own.suffixes]
        raise InputError(
            f"{output}: the suffix is not a format of references; use one of "
            f"{', '.join([*OWN, *known])}"
        )


MOST_NAMED = 20  # of what is missing; all are in the JSON


def open_folder(
    folder: Path,
    layout: str | None,
    references: Path | None,
    manifest: Path | None,
    masks: Path | None,
    vocabularies: Path | None,
    as_json: bool,
) -> None:
    """All that can be refused is refused before the first file is written."""
    if masks is not None and manifest is None:
        raise InputError("--masks is for a manifest; also give --manifest")
    try:
        with Bars() as bars:
            dataset = open_dataset(folder, layout, progress=bars)
    except UnusableDataset as error:
        notes(*error.problems)
        raise
    for place in (references, manifest):
        if place is not None:
            check_place(place)
    if references is not None and not dataset.references:
        raise InputError(
            f"{folder}: {dataset.layout} has no times of states, so there are no references to "
            "write"
        )
    if manifest is not None:
        manifest_rows(manifest, dataset, masks)
    if vocabularies is not None:
        vocabulary_documents(dataset)
        check_place(vocabularies, folder=True)
    _say_what_is_in_it(dataset, as_json)
    if references is not None:
        say_written(write_references(references, dataset.references), "references")
    if manifest is not None:
        left_out = write_manifest(manifest, dataset, masks)
        say_written(manifest, "manifest")
        for why, names in by_reason(left_out).items():
            first = ", ".join(names[:3]) + (", …" if names[3:] else "")
            notes(f"not in the manifest: {counted(len(names), 'clip')} ({first}): {why}")
    if vocabularies is not None:
        made = write_vocabularies(vocabularies, dataset)
        say_written(vocabularies, counted(len(made), "vocabulary file"))


def _say_what_is_in_it(dataset: Dataset, as_json: bool) -> None:
    found = dataset.to_dict()
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    table = Table(title=escape(f"{dataset.folder}: {dataset.layout}"), title_justify="left")
    counts = {key: value for key, value in found.items() if isinstance(value, int)}
    for column in counts:
        table.add_column(column, justify="right")
    table.add_row(*map(str, counts.values()))
    show_tables(table)
    notes(*dataset.notes, *(f"missing: {sentence}" for sentence in dataset.missing[:MOST_NAMED]))
    if len(dataset.missing) > MOST_NAMED:
        notes(f"missing: {len(dataset.missing) - MOST_NAMED} more; --json lists all")


def by_reason(left_out: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in left_out.items():
        found.setdefault(why, []).append(name)
    return found
