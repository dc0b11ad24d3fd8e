"""Frames in memory, or given by another reader, as a source of pictures.

A list or array of frames, a generator of them (which is read into memory), or a decoder such as
decord.VideoReader or torchcodec's VideoDecoder: what has a length and gives frames by number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.video._sampling import FrameChoice, Picture

NAME = "frames"
HASHED = 16  # frames that tell one source from another; a decoder would decode all of them again


def rate_of(frames: Any) -> float | None:
    """Return the frames a second that a decoder states; None where it does not."""
    if hasattr(frames, "get_avg_fps"):  # decord
        return float(frames.get_avg_fps())
    rate = getattr(getattr(frames, "metadata", None), "average_fps", None)  # torchcodec
    return None if rate is None else float(rate)


class Arrays:
    """Frames by number, each uint8 (height, width, 3) RGB, or channels first as torch has them.

    >>> cup = Arrays(np.zeros((6, 32, 64, 3), np.uint8), rate=10)
    >>> [picture.time_s for picture in cup.pictures(print)][:3]
    [0.0, 0.1, 0.2]
    """

    def __init__(self, frames: Any, rate: float | None) -> None:
        by_number = any(
            hasattr(frames, name) for name in ("__getitem__", "get_frame_at", "get_batch")
        )
        if not (hasattr(frames, "__len__") and by_number):
            if not isinstance(frames, Iterable):
                problem = f"a {type(frames).__name__} is no video"
                raise InputError(f"{problem}; give a path, an array of frames or a list of them")
            frames = list(frames)
        if not len(frames):
            raise InputError("there are no frames; give at least one")
        self.name, self.frames, self.rate = NAME, frames, rate
        digest = hashlib.sha256()
        for at in np.unique(np.linspace(0, len(frames) - 1, HASHED).round()).astype(int).tolist():
            digest.update(self.frame(at).tobytes())
        self.identity = [(digest.hexdigest(), len(frames), 0)]

    def frame(self, at: int) -> NDArray[np.uint8]:
        """Return a frame as (height, width, 3); refuse what is none."""
        if hasattr(self.frames, "__getitem__"):
            given = self.frames[at]
        elif hasattr(self.frames, "get_frame_at"):
            given = self.frames.get_frame_at(at).data
        else:
            given = self.frames.get_batch([at])[0]
        image = np.asarray(given.asnumpy() if hasattr(given, "asnumpy") else given)
        if image.ndim == 3 and image.shape[0] == 3 != image.shape[2]:
            image = image.transpose(1, 2, 0)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
            problem = f"frame {at} is {image.dtype} of shape {image.shape}"
            raise InputError(f"{problem}; give uint8 (height, width, 3)")
        return np.ascontiguousarray(image)

    def expected(self, sampling: FrameChoice) -> int:
        """Return the exact number of frames taken."""
        if sampling.needs_times and self.rate is None:
            raise InputError("frames have no timestamps; give their rate, as in fps=25")
        taken = sum(1 for _ in sampling.select(self.pictures(lambda sentence: None)))
        if not taken:
            problem = f"start is past the last of its {len(self.frames)} frames"
            raise InputError(f"{problem}; give an earlier one")
        return taken

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        for at in range(len(self.frames)):
            time_s = None if self.rate is None else at / self.rate
            yield Picture(time_s, None, partial(self.frame, at))
