"""What is printed on the terminal: tables, notes beside them, and progress while it is one."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.cells import cell_len
from rich.console import Console, Group
from rich.markup import escape as escape_markup
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from dejacue.atomic import write_text
from dejacue.errors import counted

if TYPE_CHECKING:
    from dejacue.models.detectors import ObjectSearch
    from dejacue.records import Timeline, Window
    from dejacue.records.reference import References

FILE_WIDTH = 120  # letters of a line
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
LINE_S = 10.0  # from one line of progress to the next, where the output is a file


def printable(text: str) -> str:
    r"""Return a text whose control characters do nothing on a terminal.

    >>> print(printable("\x1b[31mred.mp4"))
    \x1b[31mred.mp4
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escape(text: str) -> str:
    """Return a text for rich, which prints it as it is."""
    return escape_markup(printable(text))


def console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False)


def say(sentence: str, stderr: bool = False) -> None:
    """Print one line, however long, with the words as they are."""
    console(stderr).print(escape(sentence), soft_wrap=True)


def note(sentence: str) -> None:
    """Print what a reader should know beside the result: one line, on stderr."""
    say(as_note(sentence), stderr=True)


def notes(*sentences: str) -> None:
    from dejacue.records.note import in_order

    for sentence in in_order(sentences):
        note(sentence)


def as_note(sentence: str) -> str:
    """Return the sentence as a line that begins with its severity; information is a "note"."""
    severity = getattr(sentence, "severity", "information")
    head = "note" if severity == "information" else severity
    return f"{head}: {' '.join(sentence.split())}"


def make_table(title: str, columns: Iterable[str], rows: Iterable[Sequence[str]] = ()) -> Table:
    """Return a table of texts, shown as they are; a column named ">name" holds numbers."""
    table = Table(title=escape(title), title_justify="left")
    for column in columns:
        name = escape(column.removeprefix(">"))
        if column.startswith(">"):
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def span(window: Window) -> str:
    return f"{window.start} – {window.end}"


def seconds(times_s: tuple[float, float] | None) -> str:
    return "{:.2f} – {:.2f}".format(*times_s) if times_s else ""


def show_tables(*tables: Table) -> None:
    """Print tables; on a screen that is too narrow for one, its rows become lines of text, so that
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
    """Return the letters that a table needs if no word and no number is broken."""
    needed = 1 if table.box else 0
    for column in table.columns:
        texts = [Text.from_markup(str(cell)).plain for cell in (column.header, *column.cells)]
        between = "\n" if column.justify == "right" else None
        parts = [part for text in texts for part in text.split(between)]
        needed += 3 + max(column.min_width or 0, *(cell_len(part) for part in (*parts, "")))
    return needed


def _as_lines(table: Table) -> Group:
    """Return rows as lines: the words, and under them the numbers with the names of columns."""
    columns = table.columns
    names = [" ".join(Text.from_markup(str(column.header)).plain.split()) for column in columns]
    words = [column.justify != "right" for column in columns]
    lines: list[Text | Padding] = []
    if table.title:
        lines.append(Text.from_markup(str(table.title), style="italic"))
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [Text.from_markup(str(cell)).plain for cell in row]
        head = [cell for cell, word in zip(cells, words, strict=True) if word and cell]
        if head:
            lines.append(Text(": ".join(head)))
        rest = [
            f"{n} {c}" for n, c, word in zip(names, cells, words, strict=True) if c and not word
        ]
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
    """Show a table (with lines ``below``), JSON or CSV on the screen, or write it to a file.

    Without a format, the suffix of the file chooses it, which may also be Markdown.
    """
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
        write_text(output, text)
        say_written(output)


def say_written(path: Path | str, what: str = "written") -> None:
    """Print where a file is; on stderr, so that the output of a pipe stays what was asked for."""
    say(f"{what}: {path}", stderr=True)


def as_text(*tables: Table) -> str:
    """Return tables as plain text, for a file."""
    stream = io.StringIO()
    width = max(FILE_WIDTH, *(_least_width(table) for table in tables))
    Console(file=stream, width=width, emoji=False, highlight=False).print(*tables, sep="\n")
    return stream.getvalue()


def as_markdown(*tables: Table) -> str:
    """Return tables with their titles and captions, as Markdown."""
    return "\n".join(map(_markdown, tables))


def _markdown(table: Table) -> str:
    def cell(markup: object) -> str:
        text = " ".join(Text.from_markup(str(markup)).plain.split())
        return text.replace("\\", "\\\\").replace("|", "\\|")

    columns = table.columns
    rows = [[cell(column.header) for column in columns]]
    rows.append(["---:" if column.justify == "right" else "---" for column in columns])
    cells = zip(*(column.cells for column in columns), strict=True)
    rows += [list(map(cell, row)) for row in cells]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    above = [cell(table.title), ""] if table.title else []
    below = ["", cell(table.caption)] if table.caption else []
    return "\n".join([*above, *lines, *below, ""])


def timeline_table(timeline: Timeline, references: References | None = None) -> Table:
    """Return a row per occurrence in time, then what was not found.

    references   then also the true window that each overlaps most, and by how much; of a complete
                 Reference also what was missed or is superfluous, if anything is

    References count the frames of the file, and so does the overlap.
    """
    return _occurrences(timeline.history_id, [(timeline, references)])


def videos_table(pairs: Sequence[tuple[Timeline, References | None]]) -> Table:
    """Return the rows of several timelines, with a line between them."""
    return _occurrences(counted(len(pairs), "history"), pairs, named=True)


def _occurrences(
    title: str, pairs: Sequence[tuple[Timeline, References | None]], named: bool = False
) -> Table:
    from dejacue.report._timeline import compared

    listed = [(timeline, compared(timeline, references)) for timeline, references in pairs]
    every = [interval for timeline, _ in pairs for interval in timeline]
    has_truth = any(references is not None for _, references in pairs)
    results = [row.result for _, rows in listed for row in rows]
    columns = {
        "history": named,
        "state": True,
        "description": any(interval.description is not None for interval in every),
        ">seconds": any(interval.times_s for interval in every),
        ">frames": True,
        ">source\nframes": any(interval.source_start is not None for interval in every),
        "trust": any(interval.trust for interval in every),
        ">truth": has_truth,
        ">tIoU": has_truth,
        "result": any(result in ("missed", "superfluous") for result in results),
    }
    table = make_table(title, [name for name, is_shown in columns.items() if is_shown])
    for timeline, rows in listed:
        name = timeline.history_id
        for state, interval, true, overlap, result in rows:
            cells = ["", "", timeline.without_interval, "", ""]
            if interval is not None:
                cells = [interval.description or "", seconds(interval.times_s)]
                cells += [span(interval.window), span(interval.source), interval.trust or ""]
            cells.append("" if true is None else span(true))
            cells.append("–" if overlap is None else f"{overlap:.2f}")
            cells = [name, state, *cells, result]
            row = [cell for cell, is_shown in zip(cells, columns.values(), strict=True) if is_shown]
            table.add_row(*map(escape, row), style="dim" if interval is None else None)
            name = ""
        table.add_section()
    return table


def objects_table(search: ObjectSearch, numbers: Iterable[int]) -> Table:
    """Return a row for each object that was found by name and followed."""
    from dejacue.finding.by_name import table_row

    rows = [(str(number), *table_row(search, number)) for number in numbers]
    return make_table("objects found", (">object", "name", "place", ">score", "frames"), rows)


def diagnostics_table(timeline: Timeline) -> Table:
    columns = ("description", ">residual", ">centre", ">scale", ">run", "notes")
    rows = []
    for interval in timeline:
        if (why := interval.diagnostics) is not None:
            flags = {
                "fallback to the plain description": why.fallback,
                "response hardly varies": why.floor_active,
                "touches the edge of its run": why.touches_run_edge,
            }
            numbers = f"{why.residual_norm:.3f}", f"{why.centre:.4f}", f"{why.scale:.4f}"
            notes = "; ".join(text for text, holds in flags.items() if holds)
            rows.append((interval.description or interval.state, *numbers, span(why.run), notes))
    return make_table("why", columns, rows)


class Bars:
    """Shows a progress bar for each stage, with its note, within a ``with`` block.

    clock   that says when the next line is due
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen = console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description:8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._screen,
            transient=True,
            refresh_per_second=5,
        )
        self._tasks: dict[str, TaskID] = {}
        self._seen: dict[str, tuple[float, int, int]] = {}  # when it began, first and last count
        self._clock, self._line_s = clock, clock() + LINE_S

    def __enter__(self) -> Bars:
        if self._screen.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._screen.is_terminal:  # elsewhere it would print an empty line
            self._bar.stop()
        if error is None:
            self._summarise()

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        now = time.perf_counter()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, note="")
        began, first, _ = self._seen.get(stage, (now, done, done))
        self._seen[stage] = began, first, done
        self._bar.update(self._tasks[stage], completed=done, total=total, note=escape(note))
        if not self._screen.is_terminal and self._clock() >= self._line_s:
            self._line_s = self._clock() + LINE_S
            of = "" if total is None else f" of {total}"
            say(f"{stage}: {done}{of}", stderr=True)

    def _summarise(self) -> None:
        """Print how much was done, and how fast."""
        now = time.perf_counter()
        if "follow" in self._seen:
            began, first, last = self._seen["follow"]
            self._say(f"{last - first + 1} frames", last - first + 1, now - began)
        if "crops" in self._seen:
            began, _, crops = self._seen["crops"]
            videos = counted(self._seen["videos"][2], "video")
            self._say(f"{videos}, {counted(crops, 'crop')}", crops, now - began)
        if "decode" in self._seen:
            began, _, frames = self._seen["decode"]
            crops = self._seen.get("encode", (0.0, 0, 0))[2]
            self._say(f"{frames} frames, {crops} crops", crops, now - began)

    def _say(self, what: str, count: int, seconds: float) -> None:
        rate = count / max(seconds, 1e-9)
        self._screen.print(f"{what} in {seconds:.1f} s ({rate:.0f} per second)", soft_wrap=True)
