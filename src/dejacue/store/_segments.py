"""Rows of features in ``.npy`` files that grow at their end, and are read by memory map.

A segment is two files: NUMBER.npy has the rows of its histories one after the other, and
NUMBER.means.npy one row for each history, the mean of its frames at unit length: a question first
asks those. How many rows count is what the index says; the header says the same for other readers
(numpy.load). A number is never given twice, so that a map stays right as long as it is held.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError

MOST_BYTES = 512 << 20  # of a segment, unless one history is larger
FLUSHED_AT_ONCE = 32 << 20  # bytes
HEADER = 128
MEANS = np.dtype("<f4")


class Place(NamedTuple):
    """Where the rows of a history lie: ``first`` in the rows, ``slot`` in the means."""

    segment: int
    first: int
    slot: int


class Segment(NamedTuple):
    """The mapped files."""

    rows: NDArray[Any]
    means: NDArray[np.float32]


def row_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.npy"


def mean_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.means.npy"


def header(rows: int, dtype: Any, dimension: int) -> bytes:
    """Of an .npy file (version 1.0), always of the same length."""
    shape = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({rows}, {dimension}), }}"
    return (
        b"\x93NUMPY\x01\x00"
        + (HEADER - 10).to_bytes(2, "little")
        + (shape.ljust(HEADER - 11) + "\n").encode("ascii")
    )


def mapped(path: Path, dtype: Any, dimension: int, rows: int) -> NDArray[Any]:
    """The first rows of a file, read-only; FileNotFoundError where it is gone."""
    size = HEADER + rows * dimension * dtype.itemsize
    with _opened(path) as stream:
        held = os.fstat(stream.fileno()).st_size
        if held < size:
            raise InputError(
                f"{path}: is truncated: it has {held} of {size} bytes; dejacue store verify lists "
                "the lost histories"
            )
        data = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ)
    return np.frombuffer(data, dtype, rows * dimension, HEADER).reshape(rows, dimension)


def _opened(path: Path) -> Any:
    """To be mapped. Python's maps keep a file open each, and systems allow a process few unless it
    asks for more: 256 GB of segments are a thousand files."""
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
            if not _allowed_more_files():
                raise InputError(
                    f"{path}: this process may not open as many files as the store has segments; "
                    "raise the limit (ulimit -n)"
                ) from None


def _allowed_more_files() -> bool:
    try:
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 4 * now if most == resource.RLIM_INFINITY else min(4 * now, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    except (ImportError, ValueError, OSError):
        return False
    return wanted > now


def gone(error: FileNotFoundError) -> InputError:
    return InputError(
        f"{error.filename}: is missing; dejacue store verify lists the lost histories"
    )


class _Growing:
    """A file that rows are added to; what lies behind the rows that count is cut off first."""

    def __init__(self, path: Path, dtype: Any, dimension: int, rows: int) -> None:
        self.rows: int = rows
        self._dtype, self._dimension = dtype, dimension
        self._stream = open(path, "r+b" if path.exists() else "x+b")  # noqa: SIM115 (see close)
        self._pool, self._unflushed = ThreadPoolExecutor(1), 0
        self._flushing: Future[None] | None = None
        self._stream.truncate(self.size)
        self._stream.seek(self.size)

    @property
    def size(self) -> int:
        return HEADER + self.rows * self._dimension * int(self._dtype.itemsize)

    def add(self, rows: NDArray[Any]) -> int:
        first = self.rows
        self._stream.write(rows.data)
        self.rows += len(rows)
        self._unflushed += rows.nbytes
        if self._unflushed > FLUSHED_AT_ONCE and (not self._flushing or self._flushing.done()):
            self._flush_early()
        return first

    def _flush_early(self) -> None:
        """The disk writes while the next histories are packed."""
        if self._flushing:
            self._flushing.result()  # an error is told once only, so it must not be missed
        self._flushing = self._pool.submit(os.fsync, self._stream.fileno())
        self._unflushed = 0

    def flush(self) -> None:
        """On the disk, not only on its way."""
        if self._flushing:
            self._flushing.result()
        self._stream.seek(0)
        self._stream.write(header(self.rows, self._dtype, self._dimension))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._pool.shutdown()
        with contextlib.suppress(OSError):  # a full disk was told of before
            self._stream.close()


class SegmentWriter:
    """Adds histories at the end of the last segment, or of a new one.

    last        number, rows and histories of the segment to go on with; None: begin one
    new_number  gives the number of a new one
    told        is called with number, rows and histories of each segment, once they are flushed
    """

    def __init__(
        self,
        folder: Path,
        dtype: Any,
        dimension: int,
        last: tuple[int, int, int] | None,
        new_number: Callable[[], int],
        told: Callable[[int, int, int], object],
    ) -> None:
        self._folder, self._dtype, self._dimension = folder, dtype, dimension
        self._new_number, self._told = new_number, told
        self._open: tuple[int, _Growing, _Growing] | None = None
        if last is not None and self._is_there(*last):
            self._begin(*last)

    def _is_there(self, number: int, rows: int, histories: int) -> bool:
        """What is damaged stays as it is: nothing is added where rows are lost."""
        for path, size in (
            (row_path(self._folder, number), rows * self._dtype.itemsize),
            (mean_path(self._folder, number), histories * MEANS.itemsize),
        ):
            if not path.is_file() or path.stat().st_size < HEADER + size * self._dimension:
                return False
        return True

    def _begin(self, number: int, rows: int, histories: int) -> None:
        self._open = (
            number,
            _Growing(row_path(self._folder, number), self._dtype, self._dimension, rows),
            _Growing(mean_path(self._folder, number), MEANS, self._dimension, histories),
        )

    def add(self, rows: NDArray[Any], mean: NDArray[np.float32]) -> Place:
        if self._open is not None:
            _, held, _ = self._open
            if held.rows and held.size + rows.nbytes > MOST_BYTES:
                self.flush()
                self.close()
        if self._open is None:
            self._begin(self._new_number(), 0, 0)
        assert self._open is not None
        number, held, means = self._open
        return Place(number, held.add(rows), means.add(mean[None]))

    def flush(self) -> None:
        if self._open is None:
            return
        number, rows, means = self._open
        rows.flush()
        means.flush()
        flush_folder(self._folder)
        self._told(number, rows.rows, means.rows)

    def close(self) -> None:
        if self._open is not None:
            for own in self._open[1:]:
                own.close()
            self._open = None


def flush_folder(folder: Path) -> None:
    """Names of new files, too, are on the disk then; where a system cannot, it does so itself."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_others(folder: Path, numbers: set[int]) -> None:
    """Removes files that belong to no segment: a killed writer has left them, or compact."""
    kept = {path(folder, own).name for own in numbers for path in (row_path, mean_path)}
    for path in folder.glob("*.npy"):
        if path.name not in kept:
            path.unlink(missing_ok=True)
