"""Pictures as a video, wherever they lie: with times of their own, or laid on white."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line, in_file
from dejacue.video._sampling import FrameChoice, Picture, Unreadable
from dejacue.video.images import Images, read_rgb
from dejacue.video.sizes import open_picture
from dejacue.video.video import Video, _key


def open_pictures(
    name: str,
    files: Sequence[Path],
    times_s: Sequence[float] | None,
    on_white: bool,
    **sampling: Any,
) -> Video:
    """Open pictures in this order; ``sampling`` are the options of FrameChoice.

    times_s    of each, if they have any
    on_white   transparent ones are laid on white, instead of being shown with the colours that
               lie under their transparency
    """
    with in_file(name):
        chosen = FrameChoice(**sampling)
        try:
            source = _Pictures(name, files, times_s, on_white)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    return Video(name, source, chosen, "skip", _key(source, chosen, [times_s, on_white]))


class _Pictures(Images):
    def __init__(
        self, name: str, files: Sequence[Path], times_s: Sequence[float] | None, on_white: bool
    ) -> None:
        super().__init__(name, list(files), rate=None)
        self._times_s, self._read = times_s, _read_on_white if on_white else read_rgb

    def expected(self, sampling: FrameChoice) -> int:
        if self._times_s is not None and sampling.needs_times:
            return sum(1 for _ in sampling.select(self.pictures(lambda sentence: None)))
        return super().expected(sampling)

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        for at, file in enumerate(self.files):
            time_s = None if self._times_s is None else self._times_s[at]
            yield Picture(time_s, file.stem, partial(self._read, file))


def _read_on_white(file: Path) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with open_picture(file) as opened:
            picture = opened.convert("RGBA")
            white = Image.new("RGBA", picture.size, "white")
            return np.array(Image.alpha_composite(white, picture).convert("RGB"))
    except Exception as error:  # Pillow's readers raise many kinds of errors
        raise Unreadable(first_line(error)) from None
