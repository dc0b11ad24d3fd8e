"""What a run keeps of each frame, in memory and beside the output, so that a stopped one goes on.

A folder with two files: ``rows``, a line of JSON for each frame done, and ``state``, all that the
session needs for the next one. The state is written last and says how much of the rows it stands
for; what lies beyond is done again. Whatever does not fit is thrown away: the run starts anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.atomic import write_bytes
from dejacue.sources.masks.rle import decode_rle
from dejacue.sources.masks.write import pack
from dejacue.sources.tracks.base import Mask, Seen, Session
from dejacue.sources.tracks.doubts import colour_signature
from dejacue.sources.video import Frame

BACKWARD, FORWARD = "backward", "forward"
EVERY_FRAMES, EVERY_S = 50, 30.0  # whichever comes first
_Places = tuple[int, int, int, int]


class Sight(NamedTuple):
    """One object in one frame: the mask as COCO's runs, and what doubts are made of.

    colours   as colour_signature gives them, in 255ths, as hexadecimal text
    """

    counts: str
    presence: float
    area: int
    box: _Places
    colours: str

    @classmethod
    def of(cls, image: NDArray[np.uint8], seen: Seen) -> Sight:
        colours = np.rint(255 * colour_signature(image, seen.mask)).astype(np.uint8)
        return cls(
            pack(seen.mask)["counts"], round(float(seen.presence), 4), int(seen.mask.sum()),
            _bounds(seen.mask), colours.tobytes().hex(),
        )  # fmt: skip

    def mask(self, size: tuple[int, int]) -> Mask:
        return decode_rle({"size": list(size), "counts": self.counts})

    def signature(self) -> NDArray[np.float64]:
        return np.frombuffer(bytes.fromhex(self.colours), np.uint8) / 255


def _bounds(mask: Mask) -> _Places:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@dataclass(frozen=True)
class Row:
    """A frame without its pixels, and the objects in it."""

    index: int
    source: int
    time_s: float | None
    name: str | None
    sights: dict[int, Sight]

    @classmethod
    def of(cls, frame: Frame, sights: dict[int, Sight]) -> Row:
        return cls(frame.index, frame.source, frame.time_s, frame.name, sights)

    def line(self, which: str) -> bytes:
        sights = {str(one): list(sight) for one, sight in self.sights.items()}
        about = [which, self.index, self.source, self.time_s, self.name, sights]
        return json.dumps(about).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> tuple[str, Row]:
        which, index, source, time_s, name, sights = json.loads(line)
        own = {
            int(one): Sight(counts, presence, area, tuple(box), colours)
            for one, (counts, presence, area, box, colours) in sights.items()
        }
        return which, cls(index, source, time_s, name, own)


class Partial:
    """The rows of both passes; kept in ``folder``, where one is given, under ``key``."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, key: str = "") -> None:
        self.rows: dict[str, list[Row]] = {BACKWARD: [], FORWARD: []}
        self._folder = None if folder is None else Path(folder)
        self._key = key
        self._pending: list[bytes] = []
        self._bytes = self._crc = 0
        self._saved: tuple[str, int, bytes] | None = None
        self._clock = time.monotonic()
        if self._folder is not None and not self._read(self._folder):
            shutil.rmtree(self._folder, ignore_errors=True)
            self.rows = {BACKWARD: [], FORWARD: []}
            self._saved, self._bytes, self._crc = None, 0, 0

    def add(self, which: str, row: Row) -> None:
        self.rows[which].append(row)
        if self._folder is not None:
            self._pending.append(row.line(which))

    def begins(self, which: str, session: Session) -> int:
        """How many frames of this pass are done; the session is brought to where it was then."""
        if self._saved is None or self._saved[0] != which:
            return 0
        _, done, state = self._saved
        session.restore(state)
        return done

    def is_over(self, which: str) -> bool:
        """Whether an earlier run has done all of this pass."""
        return which == BACKWARD and self._saved is not None and self._saved[0] == FORWARD

    def step(self, which: str, done: int, session: Session) -> None:
        """After each frame: from time to time all is written."""
        late = time.monotonic() - self._clock >= EVERY_S
        if self._folder is not None and (len(self._pending) >= EVERY_FRAMES or late):
            self._write(self._folder, which, done, session.state())
            self._clock = time.monotonic()

    def remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, folder: Path, which: str, done: int, state: bytes) -> None:
        lines = b"".join(self._pending)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "rows", "ab") as stream:
            stream.truncate(self._bytes)  # what an earlier run wrote beyond its last state
            stream.write(lines)
        self._bytes += len(lines)
        self._crc = zlib.crc32(lines, self._crc)
        self._pending = []
        head = {"key": self._key, "pass": which, "done": done, "bytes": self._bytes,
                "crc": self._crc, "state": zlib.crc32(state)}  # fmt: skip
        write_bytes(folder / "state", json.dumps(head).encode() + b"\n" + state)

    def _read(self, folder: Path) -> bool:
        """Takes over what an earlier run has left; whether there is something that fits."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            head, state = (folder / "state").read_bytes().split(b"\n", 1)
            about: Any = json.loads(head)
            with open(folder / "rows", "rb") as stream:
                rows = stream.read(about["bytes"])
            sound = (
                about["key"] == self._key
                and len(rows) == about["bytes"]
                and zlib.crc32(rows) == about["crc"]
                and zlib.crc32(state) == about["state"]
            )
            if not sound:
                return False
            for line in rows.splitlines():
                which, row = Row.read(line)
                self.rows[which].append(row)
            self._saved = (about["pass"], about["done"], state)
            self._bytes, self._crc = about["bytes"], about["crc"]
            return True
        return False
