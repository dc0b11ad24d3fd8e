"""The commands of ``dejacue learn``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dejacue.cli import options as o
from dejacue.errors import InputError

learn = typer.Typer(help="Fit readouts to labels.", no_args_is_help=True)

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


@learn.command()
def train(
    decoder: Annotated[
        str, typer.Argument(help="moment, qd, eatr, cg, uvcom, tr, taskweave or sim.")
    ],
    output: Annotated[Path, o.option("Output folder for the trained decoder.", "--output", "-o")],
    histories: Histories = None,
    group: Group = None,
    words: Words = None,
    references: References = None,
    data: o.Release = None,
    seeds: Annotated[str, o.option("Seeds to train in parallel, as in 3407,3408.")] = "3407",
    epochs: Annotated[int, o.option("Passes over the training records.")] = 200,
    rate: Annotated[float, o.option("Learning rate.")] = 1e-4,
    as_published: Annotated[
        bool, o.flag("Use the batches, masks and losses of the published code.", "--as-published")
    ] = False,
    cut: Annotated[bool, o.flag("Cut moments that cross a gap.", "--cut")] = False,
    resume: Annotated[bool, o.flag("Resume an interrupted training.", "--resume")] = False,
    device: Annotated[str | None, o.option("cuda or cpu.")] = None,
) -> None:
    """Train one of the eight decoders."""
    from dejacue.cli import learn as command

    entries = command.labelled(group, data, histories or (), words, references)
    settings = {
        "seeds": _seeds(seeds),
        "epochs": epochs,
        "rate": rate,
        "as_published": as_published,
        "clip": cut,
    }
    command.train(decoder, output, entries, settings, device, resume)


@learn.command(name="eval")
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained decoder.")],
    histories: Histories = None,
    group: Group = None,
    words: Words = None,
    references: References = None,
    data: o.Release = None,
) -> None:
    """Score a trained decoder on labelled histories, and check whether it uses the words."""
    from dejacue.cli import learn as command

    if not histories and group is None:
        group = "seven"
    command.evaluate(model, command.labelled(group, data, histories or (), words, references))


@learn.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a trained decoder.")],
    history: Annotated[Path, typer.Argument(help="Features of one object: an .npz file.")],
    words: Annotated[Path, o.option("Vocabulary: an .npz with features.")],
    seed: Annotated[
        int | None, o.option("Seed of the decoder to use (default: the first).")
    ] = None,
    output: Annotated[Path | None, o.option("A .json file.", "--output", "-o")] = None,
) -> None:
    """Print the windows that a trained decoder finds in a history."""
    from dejacue.cli import learn as command

    command.predict(model, history, words, seed, output)
