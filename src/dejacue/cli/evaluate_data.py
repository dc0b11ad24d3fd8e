"""``dejacue data evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from dejacue.cli.bars import Bars
from dejacue.cli.evaluate import show_evaluation
from dejacue.cli.open_data import by_reason
from dejacue.cli.readouts import readout_named
from dejacue.cli.store import conditions
from dejacue.cli.tables import note, notes, say, say_written
from dejacue.data.layouts import UnusableDataset, open_dataset
from dejacue.errors import InputError, counted
from dejacue.pipeline.dataset import Measured, check_name, evaluate_dataset
from dejacue.pipeline.options import EncoderOptions
from dejacue.sources.atomic import check_place
from dejacue.sources.results import write_timelines

MOST_NAMED = 20  # reasons and warnings; all are in the JSON


def run(
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
