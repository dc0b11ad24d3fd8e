"""How large a picture may be, and in which format: checked before pixels are read.

A few kilobytes of a file can claim a picture that takes minutes and all of the memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from dejacue.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

MAX_PIXELS = 1 << 26  # 8192 × 8192; 8K video has half of that
# whatever a file is called: Pillow would hand PostScript to Ghostscript, which runs it
FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM")
_limit: ContextVar[int] = ContextVar("dejacue_max_pixels", default=MAX_PIXELS)
_pillow = threading.Lock()


@contextmanager
def pixel_limit(pixels: int | None) -> Iterator[None]:
    """Let pictures have so many pixels within the block; None: as many as before."""
    if pixels is not None and pixels < 1:
        raise InputError(f"max_pixels {pixels} is less than 1; the default is {MAX_PIXELS}")
    before = _limit.set(_limit.get() if pixels is None else pixels)
    try:
        yield
    finally:
        _limit.reset(before)


def check_size(width: int, height: int) -> None:
    """Refuse a picture of more pixels than may be read."""
    limit = _limit.get()
    if width * height > limit:
        raise InputError(
            f"{width} × {height} pixels exceed the limit of {limit}; make it smaller, or allow it "
            f"with the setting max_pixels={width * height} (in Python: video.sizes.pixel_limit)"
        )


@contextmanager
def open_picture(path: str | os.PathLike[str]) -> Iterator[Image.Image]:
    """Open a picture that is not larger than allowed with Pillow; its pixels are not yet read."""
    from PIL import Image

    with _pillow:  # its own limit warns at one size and fails at another
        of_pillow, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            picture = Image.open(path, formats=FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = of_pillow
    with picture:
        check_size(*picture.size)
        yield picture
