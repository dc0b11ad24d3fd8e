"""What the index says of histories, without their features."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dejacue.errors import InputError, shortened
from dejacue.records.history import COLUMNS
from dejacue.store import _index as index


class Stored(NamedTuple):
    """What the index says of a history: observed frames, in runs, from start to end; whether it
    has a thumbnail; the columns of the manifest that it was made from."""

    id: str
    object: str | None
    source: str | None
    frames: int
    runs: int
    start: int
    end: int
    times_s: tuple[float, float] | None
    thumbnail: bool
    columns: dict[str, str]


class Origin(NamedTuple):
    """How a history was made."""

    id: str
    encoder: str | None
    made_with: Mapping[str, str]


class Failure(NamedTuple):
    """What could not be added: the id that it would have had, its source, and why."""

    id: str
    source: str | None
    what: str


def listed(path: Path, where: Mapping[str, str] | None) -> Iterator[Stored]:
    with index.snapshot(path) as now:
        wanted, values = index.condition(now, where)
        shown = "EXISTS (SELECT 1 FROM thumbnails WHERE history = number)"
        found = now.execute(
            "SELECT id, object, source, length, runs, substr(times_s, 1, 8), substr(times_s, -8), "
            f"{shown if index.has(now, 'thumbnails') else '0'}, made_with "
            f"FROM histories WHERE {wanted} ORDER BY number",
            values,
        )
        for id, object, source, length, blob, start_s, end_s, thumbnail, made in found:
            runs = len(blob) // 16 if isinstance(blob, bytes) else 0
            if not runs:
                raise InputError(f'{path}: the index entry of "{id}" is damaged')
            (start,), (last, count) = (
                struct.unpack_from(own, blob, at) for own, at in (("<q", 0), ("<2q", -16))
            )
            times = None
            if isinstance(start_s, bytes) and len(start_s) == 8:
                times = struct.unpack("<2d", start_s + end_s)
            end = last + count - 1
            span = (length, runs, start, end, times)
            yield Stored(id, object, source, *span, bool(thumbnail), columns_of(path, id, made))


def read_made_with(path: Path, id: str, text: str | None) -> dict[str, str]:
    try:
        made = json.loads(text or "{}")
        if isinstance(made, dict) and all(isinstance(own, str) for own in made.values()):
            return made
    except (TypeError, ValueError):
        pass
    raise InputError(f'{path}: the index entry of "{shortened(id)}" is damaged; {index.REMEDY}')


def columns_in(made_with: Mapping[str, str]) -> dict[str, str]:
    """Those of the manifest, of all that a history was made with."""
    names = made_with.get(COLUMNS, "").split("\n")
    return {name: made_with[name] for name in names if name in made_with}


def columns_of(path: Path, id: str, text: str | None) -> dict[str, str]:
    if not isinstance(text, str) or f'"{COLUMNS}"' not in text:  # most have none
        return {}
    return columns_in(read_made_with(path, id, text))


def failed(path: Path) -> list[Failure]:
    with index.snapshot(path) as now:
        if not index.has(now, "failures"):
            return []
        found = now.execute("SELECT id, source, what FROM failures ORDER BY rowid")
        return [Failure(*own) for own in found]
