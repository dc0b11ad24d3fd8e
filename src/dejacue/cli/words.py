"""``dejacue words``: what an encoder makes of the words, and templates for more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from dejacue.cli.tables import as_note, notes, say, show_tables
from dejacue.errors import InputError
from dejacue.method.suggestions import CONSEQUENCE, OBJECT, object_of, suggest
from dejacue.pipeline.options import EncoderOptions
from dejacue.pipeline.words import check_words
from dejacue.records import Vocabulary, Window
from dejacue.records.words import DescriptionWords, WordsReport, decimal
from dejacue.sources.files import read_vocabulary, vocabulary_yaml, yaml_scalar

LONGEST = 24  # letters of a state that is not broken


def run(
    vocabulary: Path,
    history: Path | None,
    encoder: str | None,
    options: EncoderOptions,
    json: bool,
) -> None:
    report = check_words(vocabulary, history, encoder, encoder_options=options)
    if json:
        typer.echo(report.to_json())
        notes(*report.notes)
        return
    show_tables(*tables(report))
    for sentence in report.notes:
        say(as_note(sentence))


def tables(report: WordsReport) -> list[Table]:
    """Of descriptions, of pairs that describe one state, of states, of pairs of states."""
    pairs = [_pairs(report)] if report.pairs else []
    found = [_descriptions(report), *pairs, _states(report), _state_pairs(report)]
    longest = max(cell_len(own.state) for own in report.states)
    for table in found if longest <= LONGEST else ():
        names = table.columns[0]
        names.no_wrap, names.min_width = True, longest  # else names are broken to save a line
    return found


def _table(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in words:
        table.add_column(column, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _descriptions(report: WordsReport) -> Table:
    seen = report.history_id is not None
    more = ("frames\nalone", "tIoU with\nits state", "window\nwithout it") if seen else ()
    numbers = ("agrees", "direction\nwithout it", *more)
    table = _table("descriptions", ("state", "description"), numbers)
    for own in report.descriptions:
        cells = [decimal(own.agreement), decimal(own.kept)]
        if seen:
            cells += [_span(own.window), decimal(own.overlap), decimal(own.without)]
        table.add_row(escape(own.state), escape(_marked(own)), *cells)
    return table


def _marked(own: DescriptionWords) -> str:
    """The description, and below it what the encoder does not read as it is written."""
    spelling = own.spelling
    if spelling is None:
        return own.text
    parts = {"not known": spelling.unknown, "in pieces": spelling.in_pieces}
    lines = [f"{what}: {', '.join(words)}" for what, words in parts.items() if words]
    return "\n".join([own.text, *lines, *([f"cut off: {spelling.cut}"] if spelling.cut else [])])


def _pairs(report: WordsReport) -> Table:
    seen = report.history_id is not None
    numbers = ("cosine", *(("correlation", "tIoU") if seen else ()))
    table = _table("pairs of descriptions of a state", ("state", "one", "another"), numbers)
    for own in report.pairs:
        cells = [decimal(own.cosine)]
        if seen:
            cells += [decimal(own.correlation), decimal(own.overlap)]
        table.add_row(escape(own.state), escape(own.first), escape(own.second), *cells)
    return table


def _states(report: WordsReport) -> Table:
    seen = report.history_id is not None
    table = _table("states", ("state",), ("residual\nnorm", *(("frames",) if seen else ())))
    for own in report.states:
        norm = f"{own.residual_norm:.3f}"
        table.add_row(escape(own.state), norm, *([_span(own.window)] if seen else []))
    return table


def _state_pairs(report: WordsReport) -> Table:
    """Directions, evidence and windows are compared of three states or more: those of two are
    opposite, whatever the words."""
    seen, several = report.history_id is not None, len(report.states) > 2
    numbers = ["similarity", "agreement", *(["cosine"] if several else [])]
    numbers += ["correlation", "tIoU"] if several and seen else []
    table = _table("pairs of states", ("one", "another"), tuple(numbers))
    for own in report.state_pairs:
        cells = [decimal(own.similarity), decimal(own.agreement)]
        cells += [decimal(own.cosine)] if several else []
        cells += [decimal(own.correlation), decimal(own.overlap)] if several and seen else []
        table.add_row(escape(own.first), escape(own.second), *cells)
    return table


def _span(window: Window | None) -> str:
    return "–" if window is None else f"{window.start} – {window.end}"


def run_suggest(vocabulary: Path, others: Mapping[str, object]) -> None:
    """others: options and arguments that say nothing about suggestions."""
    unused = [name for name, value in others.items() if value]
    if unused:
        raise InputError(
            f"--suggest only uses the vocabulary, so {unused[0]} has no effect; leave it out"
        )
    typer.echo(suggested_yaml(read_vocabulary(vocabulary)), nl=False)


def suggested_yaml(vocabulary: Vocabulary) -> str:
    """The vocabulary as YAML, with suggestions that are marked as such."""
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
    for state, made in suggest(vocabulary).items():
        blank = f"{CONSEQUENCE.format(object=thing)}  (what is visible only when it is {state})"
        below[state] = [f"- {yaml_scalar(text)}  # suggested" for text in made]
        below[state].append(f"# - {' '.join(blank.split())}")
    return "\n".join([*lines, vocabulary_yaml(vocabulary.states, thing, below)])
