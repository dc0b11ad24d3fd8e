"""``dejacue convert``: references from one tool's format to another's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dejacue
from dejacue.cli import options as o
from dejacue.cli.tables import say
from dejacue.errors import InputError, counted, in_file

FILES_OF_REFERENCES = (".json", ".csv", ".parquet", ".arrow")


def convert(
    path: Annotated[Path, typer.Argument(metavar="IN", help="A file of references.")],
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Output file; its suffix sets the format.")
    ],
    times: o.Times = None,
    vocabulary: Annotated[
        Path | None,
        o.option("Reject labels that are not states of this vocabulary.", "--vocabulary", "-v"),
    ] = None,
    complete: Annotated[
        bool,
        o.option(
            "Every occurrence is marked, from the first frame of the video (--times) to its last: "
            "evaluate then measures whole timelines, too.",
            "--complete",
        ),
    ] = False,
) -> None:
    """Convert references or annotations from one tool's format to another's."""
    from dejacue.files.formats.registry import format_of
    from dejacue.files.results import as_complete

    check_suffix(output)
    o.check_not_read(output, path)
    states = None if vocabulary is None else list(dejacue.files.read_vocabulary(vocabulary).states)
    if complete and format_of(output) is not None:
        problem = "cannot say that references are complete"
        raise InputError(f"{output}: {problem}; give a name that ends in .json or .csv")
    references = dejacue.files.read_references(path, times=times, states=states)
    if complete:
        with in_file(path):
            references = as_complete(references, times)
    written = dejacue.files.write_references(output, references, times=times)
    say(f"references of {counted(len(references), 'object')}: {written}")


def check_suffix(output: Path) -> None:
    """Refuse the name of a file whose suffix is no format of references."""
    from dejacue.files.formats.registry import FORMATS, format_of

    if format_of(output) is None and output.suffix.lower() not in FILES_OF_REFERENCES:
        known = [suffix for format in FORMATS.values() for suffix in format.suffixes]
        remedy = f"use one of {', '.join([*FILES_OF_REFERENCES, *known])}"
        raise InputError(f"{output}: the suffix is not a format of references; {remedy}")
