"""How large a picture may be, and in which format: checked before pixels are read.

A few kilobytes of a file can claim a picture that takes minutes and all of the memory.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
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
    """Let pictures have so many pixels within the block; None: as many as before.

    >>> with pixel_limit(10_000 * 10_000):
    ...     check_size(9_000, 9_000)
    """
    if pixels is not None and pixels < 1:
        raise InputError(f"max_pixels {pixels} is less than 1; the default is {MAX_PIXELS}")
    before = _limit.set(_limit.get() if pixels is None else pixels)
    try:
        yield
    finally:
        _limit.reset(before)


def check_size(width: int, height: int) -> None:
    """Refuse a picture of more pixels than may be read.

    >>> check_size(8_192, 8_192)
    """
    limit = _limit.get()
    if width * height > limit:
        raise InputError(
            f"{width} × {height} pixels exceed the limit of {limit}; make it smaller, or allow it "
            f"with the setting max_pixels={width * height} (in Python: video.sizes.pixel_limit)"
        )


def check_regular(path: str | os.PathLike[str]) -> os.stat_result:
    """Return what the system says of a file; refuse a device or a pipe, which may never end.

    >>> check_regular("pictures/cup1.png").st_size > 0
    True
    """
    found = Path(path).stat()
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise InputError("is a device or a pipe; give a file or a folder")
    return found


@contextmanager
def open_picture(path: str | os.PathLike[str]) -> Iterator[Image.Image]:
    """Open a picture that is not larger than allowed with Pillow; its pixels are not yet read.

    >>> with open_picture("pictures/cup1.png") as picture:
    ...     picture.size
    (64, 32)
    """
    from PIL import Image

    check_regular(path)
    with open(path, "rb") as stream:
        check_size(*_size_of_webp(stream.read(30)))  # Pillow makes room for all when it opens one
    with _pillow:  # its own limit warns at one size and fails at another
        of_pillow, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            picture = Image.open(path, formats=FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = of_pillow
    with picture:
        check_size(*picture.size)
        yield picture


def _size_of_webp(head: bytes) -> tuple[int, int]:
    """Return width and height of the canvas as the header says; 0, 0 if it is no WebP."""
    kind = head[12:16] if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else b""
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        sides = int.from_bytes(head[21:25], "little")
        return 1 + (sides & 0x3FFF), 1 + (sides >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = head[26:28], head[28:30]
        return int.from_bytes(width, "little") & 0x3FFF, int.from_bytes(height, "little") & 0x3FFF
    return 0, 0
