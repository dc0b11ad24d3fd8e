"""``dejacue words``: show what an encoder makes of the words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dejacue
from dejacue.cli import options as o
from dejacue.cli.tables import as_note, escape, make_table, notes, say, show_tables, span

SETTINGS = {**o.ENCODER_SETTINGS, **o.TEMPLATE_SETTINGS}
ALONE = (">frames\nalone", ">frames of\nits state")


def words(
    vocabulary: Annotated[
        Path, typer.Argument(help="Descriptions of each state: .yaml, .json or features (.npz).")
    ],
    history: Annotated[
        Path | None,
        typer.Argument(help="Also check what they find in a history (.npz) or its folder."),
    ] = None,
    encoder: o.EncoderName = None,
    device: o.Device = None,
    settings: Annotated[o.Texts, o.setting(SETTINGS)] = None,
    json: Annotated[bool, o.option("Print JSON instead of tables.", "--json")] = False,
) -> None:
    """Check the words: which ones disagree, look alike to the encoder, or are unknown to it."""
    from dejacue.records.words import decimal

    chosen = o.settings(settings, SETTINGS)
    words, model = o.words_from(vocabulary, chosen), o.encoder_from(encoder, chosen, device)
    report = dejacue.check_words(words, history, encoder=model)
    if json:
        typer.echo(report.to_json())
        notes(*report.notes)
        return
    alone, overlap = (ALONE, [">tIoU"]) if report.history is not None else ((), [])
    descriptions = make_table("descriptions", ("state", "description", ">agrees", *alone))
    for row in report.descriptions:
        windows = [span(window) for window in (row.window, row.state_window) if window]
        descriptions.add_row(escape(row.state), escape(row.text), decimal(row.agreement), *windows)
    columns = ("one", "another", ">similarity", ">cosine", *overlap)
    pairs = make_table("pairs of states", columns)
    for pair in report.state_pairs:
        values = (pair.similarity, pair.cosine, pair.overlap)[: len(columns) - 2]
        pairs.add_row(escape(pair.first), escape(pair.second), *map(decimal, values))
    show_tables(descriptions, pairs)
    say("agrees: with the other descriptions of its state; 1 the same, below 0 it disagrees")
    say("similarity, cosine: of two states as they are, and as they differ from all; 1 the same")
    for note in report.notes:
        say(as_note(note))
