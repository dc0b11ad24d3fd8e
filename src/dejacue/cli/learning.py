"""The commands of ``dejacue learn``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o
from dejacue.cli.groups import Group

learn = typer.Typer(cls=Group, help="Fit readouts to labels.", no_args_is_help=True)


@learn.command()
def fit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FINDINGS... REFERENCES",
            help="Folders of findings (or, with --words, histories or a store), then the true "
            "windows of some of their states.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, o.option("The model, a .json file.", "--output", "-o")],
    words: Annotated[
        Path | None, o.option("Descriptions for histories (.npz) or a store.", "--words")
    ] = None,
    features: Annotated[
        str | None,
        o.option(
            "Evidence to weight: vocabulary,absolute,dual,sibling,share,margin,contrast "
            "(default: chosen by cross-validation)."
        ),
    ] = None,
    rule: Annotated[
        str | None, o.option("sum or contrast (default: chosen by cross-validation).")
    ] = None,
    encoder: o.EncoderName = None,
) -> None:
    """Fit a few weights to labels, and report whether they beat contrast."""
    from dejacue.cli import fitting as command

    command.run(files, output, words, features, rule, encoder)
