"""A small picture of each history, to know it by: JPEG, in a table of its own, which neither
opening a store nor asking it looks at."""

from __future__ import annotations

import io
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, shortened
from dejacue.store import _index as index

MOST_BYTES = 8192
_SIZES = (160, 128, 96, 64)  # pixels of the longer side, tried one after the other
_BEGINS = b"\xff\xd8\xff"


def put(now: sqlite3.Connection, path: Path, id: str, number: int, given: Any) -> None:
    """Keeps the picture of the history with this number in the index."""
    data = small(path, id, given)
    row = (number, zlib.crc32(data), data)
    now.execute("INSERT INTO thumbnails (history, checksum, jpeg) VALUES (?, ?, ?)", row)


def get(now: sqlite3.Connection, number: int) -> bytes | None:
    if not index.has(now, "thumbnails"):  # made before there were any
        return None
    query = "SELECT jpeg FROM thumbnails WHERE history = ?"
    found = now.execute(query, (number,)).fetchone()
    if found is not None and not isinstance(found[0], bytes):
        raise sqlite3.DatabaseError("a thumbnail that is none")
    return None if found is None else bytes(found[0])


def damaged(now: sqlite3.Connection) -> Iterator[str]:
    """Histories whose pictures are not as they were written."""
    if index.has(now, "thumbnails"):
        query = (
            "SELECT id, thumbnails.checksum, jpeg FROM thumbnails JOIN histories ON number = "
            "history WHERE dead = 0 ORDER BY number"
        )
        for id, wanted, data in now.execute(query):
            if not isinstance(data, bytes) or zlib.crc32(data) != wanted:
                yield id


def small(path: Path, id: str, given: Any) -> bytes:
    """The picture itself, or made smaller until it has at most MOST_BYTES."""
    which = f'{path}: the thumbnail of history "{shortened(id)}"'
    if not isinstance(given, bytes) or not given.startswith(_BEGINS):
        raise InputError(f"{which} is not a JPEG; give the bytes of one")
    if len(given) <= MOST_BYTES:
        return given
    from PIL import Image

    try:
        with Image.open(io.BytesIO(given), formats=["JPEG"]) as opened:
            image = opened.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{which} cannot be decoded ({error}); give another one") from None
    for side in _SIZES:
        image.thumbnail((side, side))
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=75)
        if stream.tell() <= MOST_BYTES:
            break
    return stream.getvalue()
