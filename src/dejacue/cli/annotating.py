"""``dejacue annotate``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from dejacue.cli.tables import console
from dejacue.data import annotation
from dejacue.data.annotation import Disagreement, Event, Pass
from dejacue.errors import InputError
from dejacue.evaluation.agreement import Agreement, cohen_kappa
from dejacue.records import Window
from dejacue.sources.documents import named
from dejacue.sources.files import read_history
from dejacue.sources.results import write_references


def template(
    history: Path | None, annotator: str, output: Path, frames: str | None = None,
    id: str | None = None, force: bool = False,
) -> None:  # fmt: skip
    """A pass to fill in, for a history file or, without one, for the frames FIRST:LAST."""
    if (history is None) == (frames is None):
        raise InputError("give either a history file or --frames FIRST:LAST, one of the two")
    _check_output(output, force, history)
    if history is not None:
        found = read_history(history)
        with named(str(history)):
            made = annotation.template(id or found.id, found.frames.tolist(), annotator)
    else:
        window = _frames(frames or "")
        if not id:
            raise InputError("--frames needs the name of the history, too; give it with --id")
        made = annotation.template(id, range(window.start, window.end + 1), annotator)
    annotation.write_pass(output, made)
    _say(
        f"{output}: {made.frames.length} frames of {made.history} for {made.annotator}; split the "
        f"runs where the state changes and replace every null by {', '.join(annotation.LABELS)}"
    )


def _frames(text: str) -> Window:
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    if not found:
        raise InputError(f'"{text}" is not FIRST:LAST; give two frames, as in --frames 0:299')
    with named(f"--frames {text}"):
        window = Window(int(found[1]), int(found[2]))
        if window.length > annotation.MOST_FRAMES:  # before they are counted out
            raise InputError(f"a pass has at most {annotation.MOST_FRAMES} frames")
    return window


def consensus(
    first: Path, second: Path, decisions: Path | None, output: Path, force: bool = False
) -> None:
    """Agreement of two passes; writes what is to be decided or, once it is, the consensus."""
    _check_output(output, force, first, second, decisions)
    a, b = annotation.read_pass(first), annotation.read_pass(second)
    with named(f"{first} and {second}"):
        to_decide = annotation.open_decisions(a, b)
    if to_decide.rows and decisions is None:
        annotation.write_decisions(output, to_decide)
        done = (
            f"{output}: runs to decide: {len(to_decide.rows)}; replace every null, splitting runs "
            f"where needed, and give the file with --decisions {output} and another output"
        )
    else:
        decided = annotation.read_decisions(decisions) if decisions else None
        with named(str(decisions)):
            agreed = annotation.consensus(a, b, decided)
        annotation.write_pass(output, agreed)
        done = f"{output}: the consensus on {agreed.history}"
    screen = console()
    screen.print(_agreement_table(a, b, cohen_kappa(a.labels, b.labels)))
    if to_decide.rows:
        screen.print(_disagreement_table(a, b, to_decide.rows))
    _say(done)


def events(consensus: Path, minimum: int, output: Path | None) -> None:
    """The qualifying events of a consensus; the earliest one gives the references."""
    _check_output(output, True, consensus)
    found = annotation.read_pass(consensus)
    with named(str(consensus)):
        qualifying = annotation.events(found, minimum)
    if not qualifying:
        console(stderr=True).print(escape(_why_none(found, minimum)), soft_wrap=True)
        raise typer.Exit(1)
    if output is not None:
        write_references(output, [annotation.reference(found, qualifying[0])])
    console().print(_event_table(found, qualifying))
    if found.annotator != annotation.CONSENSUS:
        _say(f"note: this is the pass of {found.annotator} alone, not a consensus")
    if output is not None:
        _say(f"{output}: the references of {found.history}")


def _why_none(found: Pass, minimum: int) -> str:
    longest = {
        side: max((window.length for window, label in found.runs() if label == side), default=0)
        for side in ("pre", "post")
    }
    return (
        f"{found.history} has no qualifying event: a pre run of at least {minimum} frames, "
        f"directly followed by a transition, directly followed by a post run of at least "
        f"{minimum} (its longest pre run has {longest['pre']}, its longest post run "
        f"{longest['post']})"
    )


def _check_output(output: Path | None, force: bool, *inputs: Path | None) -> None:
    """What people have filled in by hand is not written over by accident."""
    if output is None:
        return
    for path in inputs:
        if path is not None and path.resolve() == output.resolve():
            raise InputError(f"{output}: is read by this command; give another output")
    if output.exists() and not force:
        raise InputError(f"{output}: is already there; give another name, or --force to replace it")


def _agreement_table(a: Pass, b: Pass, agreement: Agreement) -> Table:
    title = escape(f"{a.history}: {a.annotator} and {b.annotator}")
    table = Table(title=title, title_justify="left")
    for column in ("frames", "agreed", "exact rate", "by chance", "Cohen's κ"):
        table.add_column(column, justify="right")
    rates = (agreement.observed, agreement.chance, agreement.kappa)
    table.add_row(str(agreement.frames), str(agreement.agreed), *(f"{rate:.3f}" for rate in rates))
    return table


def _disagreement_table(a: Pass, b: Pass, rows: Iterable[Disagreement]) -> Table:
    table = Table(title="disagreements", title_justify="left")
    table.add_column("frames", justify="right", no_wrap=True)
    for annotator in (a.annotator, b.annotator):
        table.add_column(escape(annotator))
    for row in rows:
        table.add_row(_span(row.window), row.first, row.second)
    return table


def _event_table(found: Pass, qualifying: Iterable[Event]) -> Table:
    table = Table(title=escape(found.history), title_justify="left")
    for column in ("event", "pre", "transition", "post", ""):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for number, event in enumerate(qualifying, 1):
        spans = (_span(window) for window in (event.pre, event.transition, event.post))
        table.add_row(str(number), *spans, "earliest: the references" if number == 1 else "")
    return table


def _span(window: Window) -> str:
    return f"{window.start} – {window.end}"


def _say(sentence: str) -> None:
    console().print(escape(sentence), soft_wrap=True)
