"""The commands that this package adds to ``dejacue``, and their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o
from dejacue.errors import InputError
from dejacue_paper.cli.annotate import annotate
from dejacue_paper.cli.data import RELEASE
from dejacue_paper.cli.data import data as data_group
from dejacue_paper.cli.moments import moments

Release = Annotated[Path | None, o.option(RELEASE)]
Histories = Annotated[
    list[Path] | None, typer.Argument(help="Histories (.npz), instead of a group of the release.")
]
Group = Annotated[str | None, o.option("Group of the release: development, seven or vost.")]
Words = Annotated[Path | None, o.option("Vocabulary of the histories: an .npz with features.")]
References = Annotated[Path | None, o.option("True windows of each state: .json or .csv.")]


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f'--seeds "{text}": give whole numbers, as in 3407,3408') from None


def add(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command(rich_help_panel="Evaluation")(reproduce)
    app.add_typer(data_group, name="data", rich_help_panel="Evaluation")
    app.add_typer(annotate, name="annotate", rich_help_panel="Evaluation")
    app.add_typer(moments, name="moments", rich_help_panel="Evaluation")
    learn = typer.Typer(help="Learn from labels.", no_args_is_help=True)
    learn.command()(fit)
    learn.command()(train)
    learn.command(name="eval")(evaluate)
    learn.command()(predict)
    app.add_typer(learn, name="learn", rich_help_panel="Evaluation")


def tables() -> list[str]:
    """Return what ``dejacue reproduce`` can be asked for."""
    from dejacue_paper.experiments import ON_REQUEST, REGISTRY

    return ["all", *REGISTRY, *ON_REQUEST]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tables (see --list), or all; default: main.", autocompletion=tables),
    ] = None,
    data: Release = None,
    out: Annotated[Path | None, o.option("Write JSON, CSV and Markdown into this folder.")] = None,
    figures: Annotated[
        bool, o.option("Also draw the figures (default folder: out/reproduce).", "--figures")
    ] = False,
    windows: Annotated[
        Path | None, o.option("Write every selected window to this JSON file.")
    ] = None,
    engine: o.Engine = "auto",
    list_: Annotated[
        bool, o.option("List the tables, and those whose data are not released.", "--list")
    ] = False,
) -> None:
    """Recompute published tables and show them beside the published figures."""
    from dejacue_paper.cli import reproduce as command

    o.refuse_values(names or ())
    if list_:
        command.show_list()
    else:
        command.run(names or ["main"], data, windows, out, figures, engine)


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
    output: Annotated[Path, o.output("The model, a .json file.")],
    words: Annotated[Path | None, o.option("Descriptions for histories (.npz) or a store.")] = None,
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
    from dejacue_paper.cli import fit as command

    command.fit(files, output, words, features, rule, encoder)


def train(
    decoder: Annotated[
        str, typer.Argument(help="moment, qd, eatr, cg, uvcom, tr, taskweave or sim.")
    ],
    output: Annotated[Path, o.option("Output folder for the trained decoder.", "--output", "-o")],
    histories: Histories = None,
    group: Group = None,
    words: Words = None,
    references: References = None,
    data: Release = None,
    seeds: Annotated[str, o.option("Seeds to train in parallel, as in 3407,3408.")] = "3407",
    epochs: Annotated[int, o.option("Passes over the training records.")] = 200,
    rate: Annotated[float, o.option("Learning rate.")] = 1e-4,
    as_published: Annotated[
        bool, o.option("Use the batches, masks and losses of the published code.", "--as-published")
    ] = False,
    cut: Annotated[bool, o.option("Cut moments that cross a gap.", "--cut")] = False,
    resume: Annotated[bool, o.option("Resume an interrupted training.", "--resume")] = False,
    device: Annotated[str | None, o.option("cuda or cpu.")] = None,
) -> None:
    """Train one of the eight decoders."""
    from dejacue_paper.cli import learn as command

    entries = command.labelled(group, data, histories or (), words, references)
    settings = {
        "seeds": _seeds(seeds),
        "epochs": epochs,
        "rate": rate,
        "as_published": as_published,
        "clip": cut,
    }
    command.train(decoder, output, entries, settings, device, resume)


def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained decoder.")],
    histories: Histories = None,
    group: Group = None,
    words: Words = None,
    references: References = None,
    data: Release = None,
) -> None:
    """Score a trained decoder on labelled histories, and check whether it uses the words."""
    from dejacue_paper.cli import learn as command

    if not histories and group is None:
        group = "seven"
    command.evaluate(model, command.labelled(group, data, histories or (), words, references))


def predict(
    model: Annotated[
        Path, typer.Argument(help="Folder of a trained decoder, or a fitted model (.json).")
    ],
    history: Annotated[Path, typer.Argument(help="Features of one object: an .npz file.")],
    words: Annotated[Path, o.option("Vocabulary: an .npz with features.")],
    seed: Annotated[
        int | None, o.option("Seed of the decoder to use (default: the first).")
    ] = None,
    output: Annotated[Path | None, o.option("A .json file.", "--output", "-o")] = None,
) -> None:
    """Print the windows that a trained decoder or a fitted model finds in a history."""
    from dejacue_paper.cli import learn as command

    command.predict(model, history, words, seed, output)
