"""``dejacue data fetch``, ``show`` and ``references``: the public release."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dejacue.cli.tables import say, show_tables
from dejacue.errors import unknown
from dejacue.files.results import write_references
from dejacue_paper.data.release import Entries, Release, fetch_release, load_release

GROUPS = ("vost", "seven", "development")


def fetch(folder: Path | None) -> None:
    target = fetch_release(folder)
    say(f"The release is in {target}")
    terms = target / "DATA_LICENSE.md"
    if terms.is_file():
        say(terms.read_text(encoding="utf-8"))
    else:
        say("It has no DATA_LICENSE.md; read the terms on the data set's page.")


def show(folder: Path | None) -> None:
    release = load_release(folder)
    table = Table(title=escape(str(release.folder)), title_justify="left")
    for column in ("group", "histories", "frames", "states", "descriptions", "missing"):
        words = column in ("group", "missing")
        table.add_column(column, justify="left" if words else "right", overflow="fold")
    for name in GROUPS:
        entries = _group(release, name)
        table.add_row(
            name,
            str(len(entries)),
            str(sum(len(e.history) for e in entries)),
            str(sum(len(e.vocabulary.states) for e in entries)),
            str(sum(len(e.vocabulary) for e in entries)),
            escape("; ".join(entries.missing)),
        )
    show_tables(table)


def references(group: str, folder: Path | None, output: Path) -> None:
    entries = _group(load_release(folder), group)
    path = write_references(output, [entry.reference for entry in entries])
    say(f"references of {len(entries)} histories: {path}")


def _group(release: Release, name: str) -> Entries:
    if name not in GROUPS:
        raise unknown("group", name, GROUPS)
    entries: Entries = getattr(release, name)
    return entries
