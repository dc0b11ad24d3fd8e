"""Unfinished work in a file, so that a stopped run goes on where it was.

A line that says what the work is of, then records, each with its length and a checksum. Records
are only appended, so a file that was cut short is good up to there. Encoded crops
(finding/_encode.py) are kept in such a file until the output is written.
"""

from __future__ import annotations

import contextlib
import glob
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import missing_folders, remove_empty, unwritten

_NUMBER = struct.Struct("<I")


class PartialFile:
    """Records of bytes. ``key``, one line of text, changes with all that the records depend on:
    a file with another key, or none, is empty.

    The file is made with the first record, and errors in writing it name it.
    """

    def __init__(self, path: str | os.PathLike[str], key: str) -> None:
        self.path = Path(path)
        self._head = key.encode() + b"\n"
        self._stream: IO[bytes] | None = None
        self._new_folders: list[Path] = []
        self._good = 0  # bytes of the file that are sound; 0: there is none of this key

    def read(self) -> list[bytes]:
        """Return the records up to the first that is damaged; the next append replaces the rest."""
        data = b""
        with contextlib.suppress(OSError):
            if self.path.is_file():  # to open a pipe would wait for its other end
                data = self.path.read_bytes()
        self._good = at = len(self._head) if data.startswith(self._head) else 0
        records = []
        while at and at + 8 <= len(data):
            sum_at = at + 4 + _NUMBER.unpack_from(data, at)[0]
            if sum_at + 4 > len(data):
                break
            if _NUMBER.unpack_from(data, sum_at)[0] != zlib.crc32(data[at:sum_at]):
                break
            records.append(data[at + 4 : sum_at])
            self._good = at = sum_at + 4
        return records

    def append(self, records: Iterable[bytes]) -> None:
        """Write records: when this returns, they are in the file."""
        data = _packed(records) if self._good else self._head + _packed(records)
        stream = self._stream or self._open()
        try:
            stream.write(data)
            stream.flush()
        except OSError as error:
            self.close()
            raise unwritten(error, self.path, created=True) from None
        self._good += len(data)

    def close(self) -> None:
        """Close the file; remove one without records of this key."""
        with contextlib.suppress(OSError):  # a full disk was named already
            if self._stream is not None:
                self._stream.close()
        self._stream = None
        if self._good <= len(self._head):
            self._good = 0
            with contextlib.suppress(OSError):
                self.path.unlink()
            remove_empty(self._new_folders)

    def remove(self) -> None:
        """Remove the file: the work is done."""
        self._good = 0
        self.close()

    def _open(self) -> IO[bytes]:
        self._new_folders = missing_folders(self.path.parent)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self._good:
                self.path.unlink(missing_ok=True)  # it may be a link to something else
            self._stream = open(self.path, "r+b" if self._good else "xb")  # noqa: SIM115 (close)
            self._stream.seek(self._good)
            self._stream.truncate()
        except OSError as error:
            raise unwritten(error, self.path.parent) from None
        return self._stream


def _packed(records: Iterable[bytes]) -> bytes:
    parts = (_NUMBER.pack(len(record)) + record for record in records)
    return b"".join(part + _NUMBER.pack(zlib.crc32(part)) for part in parts)


class PartialRows(dict[bytes, NDArray[np.float32]]):
    """Encoded crops by 16 bytes that their pixels determine: in memory and, where a path is given,
    in a file from which a later run takes them. Files whose names go on after that path, such as
    those of an engine that keeps each batch in its own, are read as well."""

    def __init__(self, path: str | os.PathLike[str] | None, key: str) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._file = None if path is None else PartialFile(path, key)
        for place in [] if path is None else partial_files(path):
            file = self._file
            if file is None or place != file.path:
                file = PartialFile(place, key)
            for record in file.read():
                self[record[:16]] = np.frombuffer(record[16:], "<f4")

    def __enter__(self) -> PartialRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, which stays for a later run."""
        if self._file is not None:
            self._file.close()

    def add(self, rows: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Add rows, from any thread; of crops with the same pixels, the first one stays."""
        with self._lock:
            new = {key: row for key, row in rows.items() if key not in self}
            if self._file is not None and new:
                self._file.append(
                    key + np.ascontiguousarray(row, "<f4").tobytes() for key, row in new.items()
                )
            self.update(new)


def partial_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return this file, if it is there, and those whose names go on after it."""
    first = Path(path)
    return sorted(first.parent.glob(f"{glob.escape(first.name)}*")) if first.parent.is_dir() else []
