"""Tables on the terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dejacue.records import Retrieval, Window


def console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False)


def as_text(*tables: Table) -> str:
    """Tables as plain text, for a file."""
    stream = io.StringIO()
    Console(file=stream, width=120, emoji=False, highlight=False).print(*tables, sep="\n")
    return stream.getvalue()


def retrieval_table(
    retrieval: Retrieval, references: dict[str, tuple[Window, ...]] | None = None
) -> Table:
    """One row per description; with references, the true windows and the overlap."""
    timed = any(moment.times_s for moment in retrieval)
    table = Table(title=f"{escape(retrieval.history_id)}", title_justify="left")
    for column in ("state", "description"):
        table.add_column(column, overflow="fold")
    for column in ("frames", *(["seconds"] if timed else []), "score"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("truth", "tIoU") if references is not None else ():
        table.add_column(column, justify="right", no_wrap=True)
    for moment in retrieval:
        cells = [escape(moment.state), escape(moment.description), _span(moment.window)]
        if timed:
            cells.append("{:.2f} – {:.2f}".format(*moment.times_s) if moment.times_s else "")
        cells.append(f"{moment.score:.2f}")
        if references is not None:
            own = references[moment.state]
            cells.append(", ".join(_span(window) for window in own))
            cells.append(f"{max((moment.window.iou(w) for w in own), default=0.0):.2f}")
        table.add_row(*cells)
        for window, score in moment.alternatives:
            extra: list[Any] = ["", "", f"or {_span(window)}", *([""] if timed else [])]
            table.add_row(*extra, f"{score:.2f}", style="dim")
    return table


def _span(window: Window) -> str:
    return f"{window.start} – {window.end}"


def diagnostics_table(retrieval: Retrieval) -> Table:
    table = Table(title="why", title_justify="left")
    table.add_column("description", overflow="fold")
    for column in ("residual", "centre", "scale", "run", "notes"):
        table.add_column(column, justify="right")
    for moment in retrieval:
        why = moment.diagnostics
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
            escape(moment.description), f"{why.residual_norm:.3f}", f"{why.centre:.4f}",
            f"{why.scale:.4f}", _span(why.run), "; ".join(notes),
        )  # fmt: skip
    return table
