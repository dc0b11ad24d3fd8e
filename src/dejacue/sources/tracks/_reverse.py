"""The frames of a video in reverse order, in bounded memory.

Containers cannot be read backwards, and decoding from the start again for every chunk would be
quadratic. So the frames are decoded once and written, packed without loss, to a temporary file
that the system removes when it is closed, whatever ends the run.
"""

from __future__ import annotations

import errno
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError
from dejacue.progress import Progress, silent
from dejacue.sources.video import Frame, Video

READ = "read"  # the stage, as it is told
_NOTHING = np.zeros((0, 0, 3), dtype=np.uint8)


class ReversedVideo(AbstractContextManager["ReversedVideo"]):
    """The frames of ``video`` from position ``last`` down to the first; to be closed.

    progress   called with "read", how many frames are written and how many there will be
    folder     where the temporary file goes; default: where the system puts such files
    """

    def __init__(
        self,
        video: Video,
        last: int,
        progress: Progress = silent,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._frames: list[Frame] = []  # without their pixels
        self._ends = [0]
        self._shape: tuple[int, ...] = ()
        where = os.fspath(folder) if folder is not None else tempfile.gettempdir()
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=where)  # noqa: SIM115 (see __exit__)
        try:
            self._write(video, last, progress)
        except OSError as error:
            with suppress(OSError):  # what is not written yet has no room either
                self._file.close()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise DejaCueError(
                f"{where}: no space left for the frames before the prompt, which are needed in "
                f"reverse order ({self._ends[-1] >> 20} MB were written); free some, set TMPDIR "
                "to another folder, or track the object forward only (--no-backward)"
            ) from None
        except BaseException:
            self._file.close()
            raise

    def _write(self, video: Video, last: int, progress: Progress) -> None:
        with closing(iter(video)) as frames:  # type: ignore[type-var]
            for frame in frames:
                if frame.index > last:
                    break
                packed = _pack(frame.image)
                self._file.write(packed)
                self._frames.append(replace(frame, image=_NOTHING))
                self._ends.append(self._ends[-1] + len(packed))
                self._shape = frame.image.shape
                progress(READ, len(self._frames), last + 1, "")
                if frame.index == last:
                    break
        self._file.flush()  # a full disk shows here

    def __iter__(self) -> Iterator[Frame]:
        for at in range(len(self._frames) - 1, -1, -1):
            self._file.seek(self._ends[at])
            packed = self._file.read(self._ends[at + 1] - self._ends[at])
            yield replace(self._frames[at], image=_unpack(packed, self._shape))

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _pack(image: NDArray[np.uint8]) -> bytes:
    """Differences from the left neighbour, which are small, then deflated."""
    steps = image.copy()
    steps[:, 1:] -= image[:, :-1]
    return zlib.compress(steps.data, 1)


def _unpack(packed: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    steps = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(shape)
    return np.cumsum(steps, axis=1, dtype=np.uint8)
