"""``dejacue words``: show what an encoder makes of the words, and templates for more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

import dejacue
from dejacue.cli import options as o
from dejacue.cli.tables import as_note, make_table, notes, say, show_tables, span
from dejacue.errors import InputError

if TYPE_CHECKING:
    from dejacue.records import Vocabulary, Window
    from dejacue.records.words import DescriptionWords, WordsReport

MAX_UNBROKEN_LETTERS = 24  # of the name of a state
SETTINGS = {**o.ENCODER_SETTINGS, **o.TEMPLATE_SETTINGS}
LEGEND = {  # docs/words.md says more
    "agrees": "cosine with the other descriptions of its state; below 0 they disagree",
    "direction without it": "1.00: the description adds nothing new",
    "frames alone": "what the description finds by itself",
    "tIoU with its state": "overlap of these frames with those that all descriptions find",
    "window without it": "1.00: the state has the same frames without the description",
    "residual norm": "distance of a state from the centre of all; compare within the table",
    "similarity": "cosine of two states as wholes",
    "agreement": "1.00: all descriptions tell the two states apart in the same way",
    "cosine": "of what sets the two apart from the other states",
    "correlation": "of their evidence over the frames",
    "tIoU": "overlap of the frames that each finds",
}


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
    suggest: Annotated[
        bool, o.option("Only print suggested descriptions as YAML, for you to edit.", "--suggest")
    ] = False,
    json: Annotated[bool, o.option("Print JSON instead of tables.", "--json")] = False,
) -> None:
    """Check the words: which ones disagree, look alike to the encoder, or are unknown to it."""
    if suggest:
        names = ("the history", "--encoder", "--device", "--set", "--json")
        for name, value in zip(names, (history, encoder, device, settings, json), strict=True):
            if value:
                problem = f"--suggest only uses the vocabulary, so {name} has no effect"
                raise InputError(f"{problem}; leave it out")
        typer.echo(suggested_yaml(dejacue.files.read_vocabulary(vocabulary)), nl=False)
        return
    options = o.encoder_options(o.settings(settings, SETTINGS), device)
    report = dejacue.check_words(vocabulary, history, encoder=encoder, encoder_options=options)
    if json:
        typer.echo(report.to_json())
        notes(*report.notes)
        return
    report_tables = tables(report)
    headers = {
        str(column.header).replace("\n", " ") for table in report_tables for column in table.columns
    }
    legend = make_table("legend", ("column", "meaning"))
    for column in filter(headers.__contains__, LEGEND):
        legend.add_row(column, LEGEND[column])
    show_tables(*report_tables, legend)
    for sentence in report.notes:
        say(as_note(sentence))


def tables(report: WordsReport) -> list[Table]:
    """Return the tables of descriptions, of their pairs, of states, and of pairs of states."""
    on_history = report.history_id is not None
    seen = (">correlation", ">tIoU") if on_history else ()
    columns = ("state", "description", ">agrees", ">direction\nwithout it")
    alone = (">frames\nalone", ">tIoU with\nits state", ">window\nwithout it")
    descriptions = make_table("descriptions", (*columns, *(alone if on_history else ())))
    columns = ("state", "one", "another", ">cosine")
    pairs = make_table("pairs of descriptions of a state", (*columns, *seen))
    states = make_table(
        "states", ("state", ">residual\nnorm", *([">frames"] if on_history else []))
    )
    # the directions of two states are opposite, whatever the words
    comparison = (">cosine", *seen) if len(report.states) > 2 else ()
    columns = ("one", "another", ">similarity", ">agreement")
    state_pairs = make_table("pairs of states", (*columns, *comparison))
    for text in report.descriptions:
        values = (text.agreement, text.kept, text.window, text.overlap, text.without)
        _add_row(descriptions, text.state, _marked(text), *values)
    for pair in report.pairs:
        words = pair.state, pair.first, pair.second
        _add_row(pairs, *words, pair.cosine, pair.correlation, pair.overlap)
    for state in report.states:
        _add_row(states, state.state, f"{state.residual_norm:.3f}", state.window)
    for two in report.state_pairs:
        alike = two.similarity, two.agreement, two.cosine, two.correlation, two.overlap
        _add_row(state_pairs, two.first, two.second, *alike)
    tables = [descriptions, *([pairs] if report.pairs else []), states, state_pairs]
    longest = max(cell_len(state.state) for state in report.states)
    for table in tables if longest <= MAX_UNBROKEN_LETTERS else ():
        names = table.columns[0]
        names.no_wrap, names.min_width = True, longest  # else names are broken to save a line
    return tables


def _add_row(table: Table, *values: str | float | Window | None) -> None:
    """Add a row; values beyond the columns of the table are left out."""
    from dejacue.records.words import decimal

    cells = []
    for value in values[: len(table.columns)]:
        if isinstance(value, str):
            cells.append(escape(value))
        elif value is None or isinstance(value, float):
            cells.append(decimal(value))
        else:
            cells.append(span(value))
    table.add_row(*cells)


def _marked(row: DescriptionWords) -> str:
    """Return the description, and below it what the encoder does not read as it is written."""
    spelling = row.spelling
    if spelling is None:
        return row.text
    parts = {"not known": spelling.unknown, "in pieces": spelling.in_pieces}
    lines = [f"{what}: {', '.join(words)}" for what, words in parts.items() if words]
    return "\n".join([row.text, *lines, *([f"cut off: {spelling.cut}"] if spelling.cut else [])])


def suggested_yaml(vocabulary: Vocabulary) -> str:
    """Return the vocabulary as YAML, with suggestions that are marked as such."""
    from dejacue.method.suggestions import CONSEQUENCE, OBJECT, object_of, suggest
    from dejacue.sources.files import vocabulary_yaml, yaml_scalar

    thing = object_of(vocabulary)
    lines = [
        "# Suggestions to edit: fixed templates, filled in with the names of the object and its",
        "# states. Keep those that are true of your video, and phrase all states the same way.",
    ]
    if vocabulary.examples or vocabulary.changes:
        lines.append("# Examples are not repeated here; keep the ones in your file.")
    if vocabulary.object is None:
        guess = "no object is named" if thing == OBJECT else "the word that all descriptions share"
        lines.append(f"# The object is taken to be {yaml_scalar(thing)} ({guess}).")
    below = {}
    for state, suggestions in suggest(vocabulary).items():
        blank = f"{CONSEQUENCE.format(object=thing)}  (what is visible only when it is {state})"
        below[state] = [f"- {yaml_scalar(text)}  # suggested" for text in suggestions]
        below[state].append(f"# - {' '.join(blank.split())}")
    return "\n".join([*lines, vocabulary_yaml(vocabulary.states, thing, below)])
