"""Small pictures of what was looked at: frames with the object outlined, and crops of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.report.contact import grown, small_size
from dejacue.sources.crops import crop
from dejacue.sources.findings import Pictures

T = TypeVar("T")
MOST, WIDTH = 12, 192
LINE = 3  # pixels; thumbnails are shown smaller still
INSIDE, OUTSIDE = (0, 255, 255), (0, 0, 0)  # of the outline: a colour that few things have


class Album(Generic[T]):
    """At most so many of the things that are shown to it, evenly over however many there are."""

    def __init__(self, most: int) -> None:
        self.kept: dict[int, T] = {}
        self._most, self._step = most, 1

    def see(self, index: int, make: Callable[[], T]) -> None:
        """``make`` is called where the thing is kept; the indices grow."""
        if index % self._step:
            return
        self.kept[index] = make()
        if len(self.kept) > self._most:  # the length need not be known
            self._step *= 2
            self.kept = {k: own for k, own in self.kept.items() if k % self._step == 0}


class PictureAlbum:
    """A few pictures of the frames that are shown to it, and of the objects in them."""

    def __init__(self) -> None:
        self._album: Album[list[tuple[bytes, bytes | None]]] = Album(4 * MOST)

    def see(
        self,
        index: int,
        image: Callable[[], NDArray[np.uint8]],
        masks: Sequence[NDArray[np.bool_] | None],
    ) -> None:
        """A frame, whose image is made where it is needed, and the masks of the objects in it."""

        def made() -> list[tuple[bytes, bytes | None]]:
            pixels = image()
            return [
                (thumbnail(pixels, mask), None if mask is None else small_jpeg(crop(pixels, mask)))
                for mask in masks
            ]

        self._album.see(index, made)

    def pictures(self, at: int, first: int = 0) -> Pictures:
        """At most MOST of each, of the object at this place among the masks, from a frame on."""
        every = [(frame, own) for frame, own in self._album.kept.items() if frame >= first]
        last = len(every) - 1
        places = range(len(every)) if last < MOST else (k * last // (MOST - 1) for k in range(MOST))
        chosen = {f: own[at] for f, own in (every[place] for place in places)}
        return Pictures(
            {frame: whole for frame, (whole, _) in chosen.items()},
            {frame: part for frame, (_, part) in chosen.items() if part is not None},
        )


def thumbnail(image: NDArray[np.uint8], mask: NDArray[np.bool_] | None) -> bytes:
    """The whole frame as a small JPEG, with a line around the object."""
    from PIL import Image

    size = small_size(image.shape, WIDTH)
    pixels = np.array(Image.fromarray(image).resize(size, reducing_gap=2.0))
    if mask is not None:
        covered = Image.fromarray(255 * mask.astype(np.uint8)).resize(size, Image.Resampling.BOX)
        object = np.asarray(covered) > 0
        line = grown(object, LINE)
        pixels[grown(line) & ~line] = OUTSIDE
        pixels[line & ~object] = INSIDE
    return _jpeg(Image.fromarray(pixels))


def small_jpeg(pixels: NDArray[np.uint8], side: int = WIDTH) -> bytes:
    """A picture as a JPEG of at most so many pixels a side."""
    from PIL import Image

    found = Image.fromarray(pixels)
    found.thumbnail((side, side))
    return _jpeg(found)


def _jpeg(image: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85, subsampling=0)  # type: ignore[attr-defined]
    return stream.getvalue()
