"""Image folders and glob patterns as a source of pictures.

Frames are in natural order of their names (frame2 before frame10), whatever numbers the names
hold; the ordinal is the position in that order. Images have no times unless a rate is given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, named
from dejacue.video._sampling import FrameChoice, Picture, Unreadable
from dejacue.video.sizes import open_picture

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pnm")
)
_ORIENTATION = 0x0112  # the EXIF tag; from 5 on, width and height change places


def is_image(path: str | os.PathLike[str]) -> bool:
    """Return whether a name is that of a picture.

    >>> is_image("cup.JPG"), is_image("cup.mp4"), is_image("._cup.jpg")
    (True, False, False)
    """
    name = os.path.basename(path)
    return os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith(".")


def images_in(folder: Path) -> list[Path]:
    """Return the images of a folder in natural order; other files are ignored.

    >>> [path.name for path in images_in(Path("pictures"))]
    ['cup1.png', 'cup2.png', 'cup10.png']
    """
    entries = list(folder.iterdir())
    images = natural(entry for entry in entries if is_image(entry) and entry.is_file())
    if images:
        return images
    below = [e for e in natural(entries) if e.is_dir() and any(map(is_image, e.iterdir()))]
    if below:
        names = ", ".join(entry.name for entry in below[:3]) + (", …" if below[3:] else "")
        raise InputError(f"the images are in its subfolders {names}; give one of them")
    what = "holds no images" if entries else "is an empty folder"
    raise InputError(f"{what}; give a folder of {', '.join(sorted(SUFFIXES))} files, or a video")


def folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, in natural order; none if it does not exist.

    >>> "pictures" in [path.name for path in folders_in(Path())]
    True
    """
    entries = folder.iterdir() if folder.is_dir() else ()
    return natural(e for e in entries if e.is_dir() and not e.name.startswith("."))


def natural(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Sort paths so that digits count as numbers; equal numbers (1, 01) by their letters.

    >>> [str(path) for path in natural(["frame10.png", "frame2.png"])]
    ['frame2.png', 'frame10.png']
    """
    return sorted(map(Path, paths), key=lambda path: (_parts(os.path.splitext(path)[0]), str(path)))


def _parts(text: str) -> list[tuple[int, str]]:
    pieces = re.split(r"([0-9]+)", text)
    return [(int(piece), "") if at % 2 else (-1, piece) for at, piece in enumerate(pieces)]


class Images:
    """A list of image files; sizes that differ are refused before anything is decoded."""

    def __init__(self, name: str, files: list[Path], rate: float | None) -> None:
        self.name, self.files, self.rate = name, files, rate
        stats = [(file.name, file.stat()) for file in files]
        self.identity = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]

    def expected(self, sampling: FrameChoice) -> int:
        """Return the exact number of frames taken; refuse headers that give different sizes."""
        if sampling.needs_times and self.rate is None:
            remedy = "give their rate, or use start, end and stride"
            raise InputError(f"images have no timestamps; {remedy}")
        taken = [at for at, _ in sampling.select(self.pictures(lambda sentence: None))]
        if not taken:
            problem = f"start is past the last of its {len(self.files)} images"
            raise InputError(f"{problem}; give an earlier one")
        sizes = [(self.files[at].name, size) for at in taken if (size := _size(self.files[at]))]
        for name, (width, height) in sizes:
            first, size = sizes[0]
            if size != (width, height):
                raise InputError(
                    f"{first} has {size[0]} × {size[1]} pixels, but {name} has {width} × {height}; "
                    "resize all images to one size"
                )
        return len(taken)

    def pictures(self, report: Callable[[str], None]) -> Generator[Picture]:
        for at, file in enumerate(self.files):
            time_s = None if self.rate is None else at / self.rate
            yield Picture(time_s, file.stem, partial(read_rgb, file))


def _size(file: Path) -> tuple[int, int] | None:
    """Return width and height as shown, from the header; None where it is damaged: the pass says
    so."""
    try:
        with named(file.name), open_picture(file) as image:
            turned = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
            return image.size[::-1] if turned else image.size
    except InputError:
        raise
    except Exception:  # Pillow's readers raise many kinds of errors
        return None


def read_rgb(file: Path) -> NDArray[np.uint8]:
    """Return (H, W, 3): turned as EXIF says, 16 bits scaled to 8, grey and palettes as colours;
    transparency is dropped and leaves the colours beneath it.

    >>> read_rgb(Path("pictures/cup1.png")).shape
    (32, 64, 3)
    """
    from PIL import Image, ImageOps

    try:
        with open_picture(file) as opened:
            ImageOps.exif_transpose(opened, in_place=True)  # else it is copied
            image: Image.Image = opened
            if image.mode == "F":
                raise Unreadable("floating-point pixels; save it with 8 or 16 bits")
            if image.mode.startswith("I"):
                deep = np.asarray(image).astype(np.int64).clip(0, 65535)
                return np.repeat(((deep + 128) // 257).astype(np.uint8)[..., None], 3, axis=2)
            if image.mode in ("P", "PA"):
                image = image.convert("RGBA")  # RGB directly warns where the palette has alpha
            return np.array(image if image.mode == "RGB" else image.convert("RGB"))
    except Unreadable:
        raise
    except Exception as error:  # Pillow's readers raise many kinds of errors
        raise Unreadable((str(error).splitlines() or [type(error).__name__])[0]) from None
