"""What is said on the terminal: tables, and notes beside them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.cells import cell_len
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from dejacue.records import Timeline, Window

FILE_WIDTH = 120  # letters of a line


def console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False)


def say(sentence: str, stderr: bool = False) -> None:
    """One line, however long, with the words as they are."""
    console(stderr).print(escape(sentence), soft_wrap=True)


def note(sentence: str) -> None:
    """What a reader should know beside the result: one line, on stderr, always in this style."""
    say(as_note(sentence), stderr=True)


def notes(*sentences: str) -> None:
    for sentence in dict.fromkeys(sentences):
        note(sentence)


def as_note(sentence: str) -> str:
    return f"note: {' '.join(sentence.split())}"


def show_tables(*tables: Table) -> None:
    """On the screen; where it is too narrow for a table, its rows become lines of text, so that
    no column is lost."""
    screen = console()
    for at, table in enumerate(tables):
        if at:
            screen.print()
        needed = _least_width(table)
        if needed <= screen.width:
            screen.print(table)
        elif not screen.is_terminal:  # a file or a pipe has no width
            Console(width=max(needed, FILE_WIDTH), highlight=False, emoji=False).print(table)
        else:
            screen.print(_as_lines(table))


def _least_width(table: Table) -> int:
    """Letters that it needs where no word and no number is broken."""
    needed = 1 if table.box else 0
    for column in table.columns:
        texts = [Text.from_markup(str(cell)).plain for cell in (column.header, *column.cells)]
        between = "\n" if column.justify == "right" else None
        parts = [part for text in texts for part in text.split(between)]
        needed += 3 + max(column.min_width or 0, *(cell_len(part) for part in (*parts, "")))
    return needed


def _as_lines(table: Table) -> Group:
    """A row: its words, and under them the numbers with the names of their columns."""
    columns = table.columns
    names = [" ".join(Text.from_markup(str(own.header)).plain.split()) for own in columns]
    words = [column.justify != "right" for column in columns]
    lines: list[Text | Padding] = []
    if table.title:
        lines.append(Text.from_markup(str(table.title), style="italic"))
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [Text.from_markup(str(cell)).plain for cell in row]
        head = [c for c, own in zip(cells, words, strict=True) if own and c]
        if head:
            lines.append(Text(": ".join(head)))
        rest = [f"{n} {c}" for n, c, own in zip(names, cells, words, strict=True) if c and not own]
        if rest:
            lines.append(Padding(Text(" · ".join(rest)), (0, 0, 0, 2)))
    return Group(*lines)


def show(
    format: str | None,
    output: Path | None,
    tables: Callable[[], list[Table]],
    json: Callable[[], str],
    csv: Callable[[], str],
    below: str = "",
) -> None:
    """As a table (with lines ``below``), JSON or CSV, on the screen or in a file, whose name tells
    the format where none is asked for; that of a file may also be Markdown."""
    if format is None:
        suffix = output.suffix.lower() if output else ""
        format = {".json": "json", ".csv": "csv", ".md": "md"}.get(suffix, "table")
    if format == "table" and output is None:
        show_tables(*tables())
        if below:
            say(below)
        return
    text = json() if format == "json" else csv() if format == "csv" else ""
    if not text:
        drawn = as_markdown(*tables()) + "\n" if format == "md" else as_text(*tables())
        text = drawn + (f"{below}\n" if below else "")
    if output is None:
        typer.echo(text, nl=False)
    else:
        from dejacue.sources.atomic import write_text  # not before: --help is quick

        write_text(output, text)
        say_written(output)


def say_written(path: Path | str, what: str = "written") -> None:
    """Where a file is; on stderr, so that the output of a pipe stays what was asked for."""
    say(f"{what}: {path}", stderr=True)


def as_text(*tables: Table) -> str:
    """Tables as plain text, for a file."""
    stream = io.StringIO()
    width = max(FILE_WIDTH, *(_least_width(table) for table in tables))
    Console(file=stream, width=width, emoji=False, highlight=False).print(*tables, sep="\n")
    return stream.getvalue()


def as_markdown(*tables: Table) -> str:
    """Tables with their titles and captions, as Markdown."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: Table) -> str:
    def cell(given: object) -> str:
        text = " ".join(Text.from_markup(str(given)).plain.split())
        return text.replace("\\", "\\\\").replace("|", "\\|")

    columns = table.columns
    rows = [[cell(own.header) for own in columns]]
    rows.append(["---:" if own.justify == "right" else "---" for own in columns])
    rows += [list(map(cell, row)) for row in zip(*(own.cells for own in columns), strict=True)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    above = [cell(table.title), ""] if table.title else []
    below = ["", cell(table.caption)] if table.caption else []
    return "\n".join([*above, *lines, *below, ""])


def timeline_table(
    timeline: Timeline, references: Mapping[str, Sequence[Window]] | None = None
) -> Table:
    """Return a row per interval; with references, the true windows and the overlap.

    References count the frames of the file, and so does the overlap.
    """
    timed = any(one.times_s for one in timeline)
    sampled = any(one.source_start is not None for one in timeline)
    table = Table(title=f"{escape(timeline.history_id)}", title_justify="left")
    for column in ("state", "description"):
        table.add_column(column, overflow="fold")
    numbers = ["frames", *(["source\nframes"] if sampled else []), *(["seconds"] if timed else [])]
    for column in (*numbers, "score"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("truth", "tIoU") if references is not None else ():
        table.add_column(column, justify="right", no_wrap=True)
    for state, texts in timeline.states.items():
        listed = texts[0] if len(texts) == 1 else "\n".join(f"· {text}" for text in texts)
        if not timeline[state]:
            table.add_row(escape(state), escape(listed), "not found")
        for one in timeline[state]:
            first = one.rank == 1
            joining = {"answer": "", "alternative": "or ", "occurrence": "and "}[one.kind]
            told = (one.description or listed) if first else ""
            cells = [escape(state) if first else "", escape(told), joining + _span(one.window)]
            cells += [_span(one.source)] if sampled else []
            cells += [_seconds(one.times_s)] if timed else []
            cells.append(f"{one.score:.2f}")
            if references is not None and first:
                true = references.get(state, ())
                cells.append(", ".join(_span(window) for window in true))
                cells.append(f"{max(one.source.iou(w) for w in true):.2f}" if true else "–")
            table.add_row(*cells, style=None if first else "dim")
    return table


def _span(window: Window) -> str:
    return f"{window.start} – {window.end}"


def _seconds(times_s: tuple[float, float] | None) -> str:
    return "{:.2f} – {:.2f}".format(*times_s) if times_s else ""


def diagnostics_table(timeline: Timeline) -> Table:
    table = Table(title="why", title_justify="left")
    table.add_column("description", overflow="fold")
    for column in ("residual", "centre", "scale", "run"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold")
    for interval in timeline:
        why = interval.diagnostics
        if why is None:
            continue
        notes = [
            text
            for text, holds in (
                ("fallback to the plain description", why.fallback),
                ("response hardly varies", why.floor_active),
                ("touches the edge of its run", why.touches_run_edge),
            )
            if holds
        ]
        table.add_row(
            escape(interval.description or interval.state),
            f"{why.residual_norm:.3f}",
            f"{why.centre:.4f}",
            f"{why.scale:.4f}",
            _span(why.run),
            "; ".join(notes),
        )
    return table
