"""Rows of features in ``.npy`` files that grow at their end, and are read by memory map.

A segment is two files: NUMBER.npy has the rows of its histories one after the other, and
NUMBER.means.npy one row for each history, the mean of its frames at unit length, by which a query
ranks them. The index says how many rows count; the header says the same for other readers
(numpy.load). A number is never used twice, so that a map stays right as long as it is held.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import sync_folder
from dejacue.corpus import _index as index
from dejacue.errors import InputError

MAX_SEGMENT_BYTES = 512 << 20  # unless one history is larger
FLUSH_BYTES = 32 << 20  # written before they are flushed in the background
HEADER = 128  # bytes
SEE_VERIFY = "dejacue store verify lists the lost histories"
MEANS = np.dtype("<f4")


class RowLocation(NamedTuple):
    """Where the rows of a history lie: ``first`` in the rows, ``slot`` in the means."""

    segment: int
    first: int
    slot: int


class Segment(NamedTuple):
    """Maps the two files of a segment."""

    rows: NDArray[Any]
    means: NDArray[np.float32]


def row_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npy"


def mean_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.means.npy"


def header(rows: int, dtype: Any, dimension: int) -> bytes:
    """Return the header of an .npy file (version 1.0), always of the same length."""
    shape = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}"
    return (
        b"\x93NUMPY\x01\x00"
        + (HEADER - 10).to_bytes(2, "little")
        + (shape.ljust(HEADER - 11) + "\n").encode("ascii")
    )


def mapped(path: Path, dtype: Any, dimension: int, rows: int) -> NDArray[Any]:
    """Map the first rows of a file, read-only; FileNotFoundError where it is gone."""
    size = HEADER + rows * dimension * dtype.itemsize
    with _opened(path) as stream:
        file_size = os.fstat(stream.fileno()).st_size
        if file_size < size:
            raise InputError(
                f"{path}: is truncated: it has {file_size} of {size} bytes; {SEE_VERIFY}"
            )
        data = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
    return np.frombuffer(data, dtype, rows * dimension, HEADER).reshape(rows, dimension)


def _opened(path: Path) -> Any:
    """Open a file to map it. Each of Python's maps keeps a file open, and systems allow a process
    few unless it asks for more: 256 GB of segments are a thousand files."""
    while True:
        try:
            stream = open(path, "rb")  # noqa: SIM115 (whoever maps it closes it)
            os.close(os.dup(stream.fileno()))  # the one that the map will keep
            return stream
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise InputError(f"{path}: cannot be read ({error.strerror})") from None
            if not _raise_file_limit():
                problem = "this process may not open as many files as the store has segments"
                raise InputError(f"{path}: {problem}; raise the limit (ulimit -n)") from None


def _raise_file_limit() -> bool:
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = 4 * soft if hard == resource.RLIM_INFINITY else min(4 * soft, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (ImportError, ValueError, OSError):
        return False
    return limit > soft


def missing_file(error: FileNotFoundError) -> InputError:
    return InputError(f"{error.filename}: is missing; {SEE_VERIFY}")


class _GrowingFile:
    """An .npy file that rows are appended to; what lies behind the rows that count is cut off."""

    def __init__(self, path: Path, dtype: Any, dimension: int, rows: int) -> None:
        self.rows: int = rows
        self._dtype, self._dimension = dtype, dimension
        self._stream = open(path, "r+b" if path.exists() else "x+b")  # noqa: SIM115 (see close)
        self._pool, self._unflushed_bytes = ThreadPoolExecutor(1), 0
        self._flushing: Future[None] | None = None
        self._stream.truncate(self.size)
        self._stream.seek(self.size)

    @property
    def size(self) -> int:
        return HEADER + self.rows * self._dimension * int(self._dtype.itemsize)

    def add(self, rows: NDArray[Any]) -> int:
        """Append rows and return the number of the first one."""
        first = self.rows
        self._stream.write(rows.data)
        self.rows += len(rows)
        self._unflushed_bytes += rows.nbytes
        idle = self._flushing is None or self._flushing.done()
        if idle and self._unflushed_bytes > FLUSH_BYTES:
            self._wait()
            # the disk writes while the next histories are packed
            self._flushing = self._pool.submit(os.fsync, self._stream.fileno())
            self._unflushed_bytes = 0
        return first

    def _wait(self) -> None:
        if self._flushing:
            self._flushing.result()  # an error is reported once only, so it must not be missed

    def flush(self) -> None:
        """Return once all rows are on the disk, not only on their way."""
        self._wait()
        self._stream.seek(0)
        self._stream.write(header(self.rows, self._dtype, self._dimension))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._pool.shutdown()
        with contextlib.suppress(OSError):  # a full disk was reported before
            self._stream.close()


class SegmentWriter:
    """Appends histories to the last segment (``new_segment``: to a new one) in a transaction."""

    def __init__(
        self, folder: Path, dtype: Any, transaction: sqlite3.Connection, new_segment: bool = False
    ) -> None:
        self.transaction = transaction
        self._folder, self._dtype, self._new_segment = folder, dtype, new_segment
        self._open: tuple[int, _GrowingFile, _GrowingFile] | None = None
        self._remove_unused_files()

    def _remove_unused_files(self) -> None:
        """Remove files of no segment: a killed or failed writer has left them, or ``compact``."""
        self._folder.mkdir(exist_ok=True)
        numbers = [number for number, _, _ in index.sizes(self.transaction)]
        used = {path(self._folder, number) for number in numbers for path in (row_path, mean_path)}
        for path in self._folder.glob("*.npy"):
            if path not in used:
                path.unlink(missing_ok=True)

    def add(self, rows: NDArray[Any], mean: NDArray[np.float32]) -> RowLocation:
        if self._open is not None:
            _, row_file, _ = self._open
            if row_file.rows and row_file.size + rows.nbytes > MAX_SEGMENT_BYTES:
                self.flush()
                self.close()
        if self._open is None:
            number, row_count, mean_count = self._segment_to_continue(rows.shape[1])
            self._open = (
                number,
                _GrowingFile(row_path(self._folder, number), self._dtype, rows.shape[1], row_count),
                _GrowingFile(mean_path(self._folder, number), MEANS, len(mean), mean_count),
            )
        number, row_file, mean_file = self._open
        return RowLocation(number, row_file.add(rows), mean_file.add(mean[None]))

    def _segment_to_continue(self, dimension: int) -> tuple[int, int, int]:
        """Return number, rows and histories of the last segment, or of a new one. Where rows of the
        last one are lost, nothing is added to it: what is damaged stays as it is."""
        sizes = [] if self._new_segment else index.sizes(self.transaction)
        self._new_segment = True
        for number, rows, histories in sizes[-1:]:
            needed = {
                row_path(self._folder, number): rows * self._dtype.itemsize,
                mean_path(self._folder, number): histories * MEANS.itemsize,
            }
            if all(
                path.is_file() and path.stat().st_size >= HEADER + size * dimension
                for path, size in needed.items()
            ):
                return number, rows, histories
        cursor = self.transaction.execute("INSERT INTO segments (rows, histories) VALUES (0, 0)")
        assert cursor.lastrowid is not None
        return cursor.lastrowid, 0, 0

    def flush(self) -> None:
        """Write the open files to the disk, then their sizes to the index."""
        if self._open is None:
            return
        number, row_file, mean_file = self._open
        row_file.flush()
        mean_file.flush()
        sync_folder(self._folder)
        sizes = "UPDATE segments SET rows = ?, histories = ? WHERE number = ?"
        self.transaction.execute(sizes, (row_file.rows, mean_file.rows, number))

    def close(self) -> None:
        if self._open is not None:
            for file in self._open[1:]:
                file.close()
            self._open = None
