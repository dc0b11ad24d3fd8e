"""A process that decodes and crops: items come in on one pipe, chunks go out on another.

Not multiprocessing: that runs the script of its user again. A pipe takes 1.5 GB/s, which is 10,000
crops a second of 224 × 224, where shared memory takes 1.0 on the same busy machine
(benchmarks/ingest.py); it holds a worker back when nobody reads, and ends with the process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from dejacue.pipeline.ingest.crops import Chunk, End, Failed, Look, decode_crop
from dejacue.pipeline.ingest.manifest import Item

_COUNTS = struct.Struct("<2Q")
_START = "import sys; sys.path[:] = {!r}; from dejacue.pipeline.ingest import worker; worker.main()"
_PIPE_BYTES = 1 << 20
ENDING_S = 2.0
# glibc gives large arrays back at once, and taking their pages anew costs more than filling them
_KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(128 << 20)}
Message = Chunk | End | Failed


def main() -> None:
    """Reads a Look, then items, until the pipe ends."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print must not get in between
    look = pickle.load(source)
    try:
        while True:
            item: Item = pickle.load(source)
            for message in decode_crop(item, look):
                _send(target, message)
                del message
    except (EOFError, BrokenPipeError):
        return  # whoever wanted it has gone


def _send(target: IO[bytes], message: Message) -> None:
    buffers: list[Any] = []
    data = pickle.dumps(message, 5, buffer_callback=buffers.append)
    parts = [own.raw() for own in buffers]
    head = struct.pack(f"<{len(parts)}Q", *(own.nbytes for own in parts))
    for part in (_COUNTS.pack(len(data), len(parts)), head, data, *parts):
        _write(target, part)


def _write(target: IO[bytes], data: Any) -> None:
    left = memoryview(data)
    while left:
        left = left[target.write(left) :]


def obituary(item: Item, code: int) -> str:
    """Why there is nothing of the item whose worker has ended with this exit code."""
    how = f"ended with {code}"
    with contextlib.suppress(ValueError):
        how = f"was killed by {signal.Signals(-code).name}"
    return (
        f"{item.video}: the process that decoded it {how}; there may be too little memory (use "
        "fewer --workers), or the file is damaged (re-encode it)"
    )


class Worker:
    """A process, and the pipes to it. EOFError: it has ended."""

    def __init__(self, look: Look) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(list(sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the one that reads
            env={**_KEEP_PAGES, **os.environ},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        with contextlib.suppress(ImportError, AttributeError, OSError):  # it is slower then
            import fcntl

            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._give(look)

    def _give(self, value: Any) -> None:
        try:
            _write(self._in, pickle.dumps(value))
        except OSError:
            raise EOFError from None

    def messages(self, item: Item, make_room: Callable[[int], object]) -> Iterator[Message]:
        """What decode_crop gives; ``make_room`` is called with the bytes of each before they are
        read."""
        self._give(item)
        while True:
            length, count = _COUNTS.unpack(self._read(_COUNTS.size))
            sizes = struct.unpack(f"<{count}Q", self._read(8 * count))
            make_room(sum(sizes))
            data = self._read(length)
            message: Message = pickle.loads(data, buffers=[self._read(own) for own in sizes])
            yield message
            if not isinstance(message, Chunk):
                return
            del message

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            got = self._out.readinto(left)  # type: ignore[attr-defined]
            if not got:
                raise EOFError
            left = left[got:]
        return data

    def kill(self) -> None:
        """Whoever reads from it gets EOFError."""
        self._process.kill()

    def end(self) -> int:
        """Its exit code; it is told to end where it has not."""
        self._in.close()
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._out.close()
        return code
