"""``dejacue data``: the folders of data sets and their scores, and the public release."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import dejacue
from dejacue.atomic import check_place
from dejacue.cli import options as o
from dejacue.cli.evaluate import as_csv, counts, evaluation_tables, methods_table
from dejacue.cli.store import conditions
from dejacue.cli.tables import Bars, make_table, note, notes, say, say_written, show, show_tables
from dejacue.errors import InputError, counted

if TYPE_CHECKING:
    from dejacue.evaluation.evaluate import Evaluation
    from dejacue_paper.data.dataset import Measured
    from dejacue_paper.data.layouts import Dataset

RELEASE = "Folder of the release (default: DEJACUE_DATA, else the fetched one)."
MAX_LISTED = 20  # missing files, reasons or warnings; all are in the JSON

data = typer.Typer(
    help="Data sets: their folders and scores, and the public release.",
    no_args_is_help=True,
)


def _layouts() -> list[str]:
    from dejacue_paper.data.layouts import LAYOUTS

    return list(LAYOUTS)


Folder = Annotated[Path, typer.Argument(help="The folder of a data set.")]
Layout = Annotated[
    str | None,
    o.option(
        "Layout of the folder, if it is ambiguous (paper/docs/data.md).", "--as", values=_layouts
    ),
]
MasksFolder = Annotated[
    Path | None,
    o.option("Your own masks or boxes: a folder of ID.csv, ID.npz, ID/ …", "--masks"),
]


@data.command("open")
def open_folder(
    folder: Folder,
    layout: Layout = None,
    references: Annotated[
        Path | None, o.option("Write the true windows to this .json, for evaluate.")
    ] = None,
    manifest: Annotated[Path | None, o.option("Write a manifest to this .csv, for ingest.")] = None,
    masks: MasksFolder = None,
    vocabularies: Annotated[
        Path | None,
        o.option("Write the words of each clip to ID.json in this folder."),
    ] = None,
    json: Annotated[bool, o.option("Print the contents as JSON.", "--json")] = False,
) -> None:
    """Recognise the folder of a data set (VOST, DAVIS, ChangeIt …) and show its contents."""
    from dejacue_paper.data import layouts

    # all that can be refused is refused before the first file is written
    if masks is not None and manifest is None:
        raise InputError("--masks is for a manifest; also give --manifest")
    dataset = _opened(folder, layout)
    for place in (references, manifest):
        if place is not None:
            check_place(place)
    if references is not None and not dataset.references:
        problem = f"{dataset.layout} has no times of states, so there are no references to write"
        raise InputError(f"{folder}: {problem}")
    if manifest is not None:
        layouts.manifest_rows(manifest, dataset, masks)
    if vocabularies is not None:
        layouts.vocabulary_documents(dataset)
        check_place(vocabularies, folder=True)
    _show_contents(dataset, json)
    if references is not None:
        say_written(dejacue.files.write_references(references, dataset.references), "references")
    if manifest is not None:
        left_out = layouts.write_manifest(manifest, dataset, masks)
        say_written(manifest, "manifest")
        for sentence in _by_reason(left_out):
            note(f"not in the manifest: {sentence}")
    if vocabularies is not None:
        written = layouts.write_vocabularies(vocabularies, dataset)
        say_written(vocabularies, counted(len(written), "vocabulary file"))


def _opened(folder: Path, layout: str | None) -> Dataset:
    from dejacue_paper.data.layouts import open_dataset

    with Bars() as bars:
        return open_dataset(folder, layout, progress=bars)


def _show_contents(dataset: Dataset, as_json: bool) -> None:
    contents = dataset.to_dict()
    if as_json:
        typer.echo(json_.dumps(contents, indent=2, ensure_ascii=False))
        return
    counts = {f">{key}": str(value) for key, value in contents.items() if isinstance(value, int)}
    title = f"{dataset.folder}: {dataset.layout}"
    show_tables(make_table(title, counts, [list(counts.values())]))
    notes(*dataset.notes, *(f"missing: {sentence}" for sentence in dataset.missing[:MAX_LISTED]))
    if len(dataset.missing) > MAX_LISTED:
        note(f"missing: {len(dataset.missing) - MAX_LISTED} more; --json lists all")


def _by_reason(left_out: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason, with the first clips that were left out for it."""
    clips: dict[str, list[str]] = {}
    for name, why in left_out.items():
        clips.setdefault(why, []).append(name)
    return [
        f"{counted(len(names), 'clip')} ({', '.join([*names[:3], *(['…'] if names[3:] else [])])})"
        f": {why}"
        for why, names in clips.items()
    ]


@data.command("evaluate")
def evaluate_folder(
    folder: Folder,
    store: Annotated[Path, o.option("Store for the histories; created if missing.")],
    layout: Layout = None,
    readouts: Annotated[
        str,
        o.option(
            "Names of readouts, separated by commas. Each is compared with the first.",
            "--readouts",
            "-r",
        ),
    ] = "contrast,published,whole-history,longest-run",
    masks: MasksFolder = None,
    where: Annotated[
        list[str] | None,
        o.option("Only clips that match NAME=PATTERN: id, object, source, split, category …"),
    ] = None,
    workers: o.Decoders = None,
    replace: o.ReplaceOther = False,
    encoder: o.EncoderName = None,
    device: o.Device = None,
    settings: o.EncoderSettings = None,
    output: Annotated[
        Path | None, o.output("Write the table to this .json, .csv, .md or .txt file.")
    ] = None,
    by: Annotated[
        str | None, o.option("Also show a table per object, source, split, category …")
    ] = None,
    timelines: Annotated[
        Path | None,
        o.option("Also write the results of each readout to READOUT.json in this folder."),
    ] = None,
) -> None:
    """Encode a data set, locate its states, and score readouts against its true windows.

    Run it again to resume: histories already in the store are not encoded again. The exit code is
    1 where a video could not be encoded: the table is of the others.
    """
    from dejacue_paper.data.dataset import check_name, evaluate_dataset

    chosen = list(dict.fromkeys(part.strip() for part in readouts.split(",") if part.strip()))
    files = [] if timelines is None else [timelines / f"{name}.json" for name in chosen]
    if output is not None and output.is_dir():
        raise InputError(f"{output}: is a folder; give the name of a file")
    if output is not None:
        check_place(output)
    if timelines is not None:
        check_place(timelines, folder=True)
    dataset = _opened(folder, layout)
    if by is not None:
        check_name(by, dataset)
    with Bars() as bars:
        measured = evaluate_dataset(
            dataset,
            store,
            readouts=chosen,
            encoder=o.encoder_from(encoder, o.settings(settings, o.ENCODER_SETTINGS), device),
            masks=masks,
            where=conditions(where),
            workers=workers,
            replace=replace,
            progress=bars,
        )
    for path, of_readout in zip(files, measured.timelines.values(), strict=False):
        say_written(dejacue.files.write_timelines(path, of_readout), "timelines")
    say(f"{store}: {measured.ingested}", stderr=True)
    _show_scores(measured, by, output)
    _list_problems(measured)
    if measured.ingested.failed:
        raise typer.Exit(1)


def _show_scores(measured: Measured, by: str | None, output: Path | None) -> None:
    """Show or write the scores of all clips, and those of the clips of each value of ``by``."""
    groups: dict[str, Evaluation] = {} if by is None else measured.by(by)
    tables = evaluation_tables(measured.evaluation)
    for value, part in groups.items():
        title = f"{by}={value} ({part.counts['histories']}), means in %"
        tables.append(methods_table(part, title))

    def json() -> str:
        parts = {value: part.to_dict()["methods"] for value, part in groups.items()}
        document = measured.to_dict() | ({} if by is None else {"by": {by: parts}})
        return json_.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def csv() -> str:
        rows = measured.evaluation.to_rows()
        for value, part in groups.items():
            rows += [row | {"kind": f"{by}={value}"} for row in part.to_rows()]
        return as_csv(rows)

    show(None, output, lambda: tables, json, csv, below=counts(measured.evaluation))


def _list_problems(measured: Measured) -> None:
    problems = [
        f"{id}: {text}" for id, texts in measured.ingested.problems.items() for text in texts
    ]
    sentences = [*measured.warnings, *problems]
    notes(*sentences[:MAX_LISTED])
    if (left_out := len(sentences) - MAX_LISTED) > 0:
        note(f"and {left_out} more")
    for sentence in (*_by_reason(measured.left_out)[:MAX_LISTED], *measured.evaluation.left_out):
        note(f"left out: {sentence}")


@data.command()
def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Target folder (default: the user's cache).")
    ] = None,
) -> None:
    """Download the release from the Hugging Face Hub and show its terms."""
    from dejacue_paper.cli import release

    release.fetch(folder)


@data.command("show")
def show_release(
    folder: Annotated[Path | None, typer.Argument(help=RELEASE)] = None,
) -> None:
    """List the contents of the release."""
    from dejacue_paper.cli import release

    release.show(folder)


@data.command()
def references(
    group: Annotated[str, typer.Argument(help="vost, seven or development.")],
    output: Annotated[Path, o.option("A .json file.", "--output", "-o")],
    folder: Annotated[Path | None, o.option(RELEASE, "--data")] = None,
) -> None:
    """Write the references of the benchmark, to evaluate your own timelines."""
    from dejacue_paper.cli import release

    release.references(group, folder, output)
