"""What the index says of histories, without their features."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dejacue.errors import InputError
from dejacue.store import _index as index


class Stored(NamedTuple):
    """What the index says of a history: observed frames, in runs, from start to end; whether it
    has a thumbnail."""

    id: str
    object: str | None
    source: str | None
    frames: int
    runs: int
    start: int
    end: int
    times_s: tuple[float, float] | None
    thumbnail: bool


def listed(path: Path, where: Mapping[str, str] | None) -> Iterator[Stored]:
    with index.snapshot(path) as now:
        wanted, values = index.condition(now, where)
        shown = "EXISTS (SELECT 1 FROM thumbnails WHERE history = number)"
        found = now.execute(
            "SELECT id, object, source, length, runs, substr(times_s, 1, 8), substr(times_s, -8), "
            f"{shown if index.has(now, 'thumbnails') else '0'} "
            f"FROM histories WHERE {wanted} ORDER BY number", values,
        )  # fmt: skip
        for id, object, source, length, blob, start_s, end_s, thumbnail in found:
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
            yield Stored(id, object, source, length, runs, start, end, times, bool(thumbnail))
