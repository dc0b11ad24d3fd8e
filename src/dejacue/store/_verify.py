"""verify: every byte of a store read again, and compared with what was written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dejacue.progress import Progress
from dejacue.store import _index as index
from dejacue.store._packing import NAMES, checksum
from dejacue.store._segments import HEADER, MEANS, mapped, mean_path, row_path
from dejacue.store._thumbnails import damaged

if TYPE_CHECKING:
    from dejacue.store._store import Store


def verify(store: Store, progress: Progress) -> list[tuple[str | None, str, str]]:
    """(id, segment, what) of each problem."""
    found: list[tuple[str | None, str, str]] = []
    with index.snapshot(store.path) as now:
        for (said,) in now.execute("PRAGMA quick_check"):
            if said != "ok":
                found.append((None, index.NAME, f"the index is damaged ({said})"))
        segments = index.sizes(now)
        lost = (
            "SELECT id, segment FROM histories "
            "WHERE dead = 0 AND segment NOT IN (SELECT number FROM segments)"
        )
        for id, number in now.execute(lost):
            found.append((id, index.NAME, f"there is no segment {number}; {index.REMEDY}"))
        for done, (number, rows, histories) in enumerate(segments):
            found += _segment(store, now, number, rows, histories)
            progress("verify", done + 1, len(segments))
        for id in damaged(now):
            what = f"its thumbnail has changed since it was written; {index.REMEDY}"
            found.append((id, index.NAME, what))
    return found


def _segment(
    store: Store, now: sqlite3.Connection, number: int, rows: int, histories: int
) -> Iterator[tuple[str | None, str, str]]:
    """A file may have been cut short: of what is there, each history is looked at."""
    folder, dimension = store.path / "segments", store.dimension or 1
    parts, name = [], row_path(folder, number).name
    for path, dtype, count in (
        (row_path(folder, number), store.dtype, rows),
        (mean_path(folder, number), MEANS, histories),
    ):
        size = path.stat().st_size if path.is_file() else 0
        there = min(count, max(0, size - HEADER) // (dimension * dtype.itemsize))
        if there < count:
            what = "is truncated" if size else "is missing"
            yield None, path.name, f"{what}: {there} of {count} rows are there"
        parts.append(mapped(path, dtype, dimension, there) if there else None)
    kept, means = parts
    query = (
        f"SELECT first, length, slot, checksum, {NAMES} FROM histories "
        "WHERE segment = ? AND dead = 0 ORDER BY slot"
    )
    for first, length, slot, wanted, *own in now.execute(query, (number,)):
        try:
            index.whole((first, length, slot))
        except sqlite3.DatabaseError:
            yield own[0], name, f"its index entry is damaged; {index.REMEDY}"
            continue
        if kept is None or means is None or first + length > len(kept) or slot >= len(means):
            yield own[0], name, f"its rows are lost; {index.REMEDY}"
        elif checksum(kept[first : first + length], means[slot], own) != wanted:
            yield own[0], name, f"has changed since it was written; {index.REMEDY}"
