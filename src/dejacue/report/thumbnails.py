"""Small pictures of what was looked at: frames with the object outlined, and crops of it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dejacue.report.contact import grown, small_size
from dejacue.sources.build import Lineage
from dejacue.sources.crops import crop
from dejacue.sources.findings import Pictures
from dejacue.sources.masks import Masks
from dejacue.sources.video import Frame

MOST, WIDTH = 12, 192
LINE = 3  # pixels; thumbnails are shown smaller still
INSIDE, OUTSIDE = (0, 255, 255), (0, 0, 0)  # of the outline: a colour that few things have


class PictureAlbum:
    """A few pictures of the frames that are shown to it, evenly over however many there are."""

    def __init__(self) -> None:
        self._kept: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self._step = 1

    def wants(self, index: int) -> bool:
        return index % self._step == 0

    def see(
        self, index: int, image: NDArray[np.uint8], masks: Sequence[NDArray[np.bool_] | None]
    ) -> None:
        """A frame and the masks of the objects in it."""
        if not self.wants(index):
            return
        self._kept[index] = [
            (thumbnail(image, mask), None if mask is None else _crop(image, mask)) for mask in masks
        ]
        if len(self._kept) > 4 * MOST:  # the length need not be known
            self._step *= 2
            self._kept = {k: v for k, v in self._kept.items() if k % self._step == 0}

    def pictures(self, at: int, first: int = 0) -> Pictures:
        """At most MOST of each, of the object at this place among the masks, from a frame on."""
        every = [(frame, own) for frame, own in self._kept.items() if frame >= first]
        last = len(every) - 1
        places = range(len(every)) if last < MOST else (k * last // (MOST - 1) for k in range(MOST))
        chosen = {f: own[at] for f, own in (every[place] for place in places)}
        return Pictures(
            {frame: whole for frame, (whole, _) in chosen.items()},
            {frame: part for frame, (_, part) in chosen.items() if part is not None},
        )


class PictureMasks(PictureAlbum):
    """Masks that keep a few pictures of the frames they are asked for."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self.key, self.path, self._masks = masks.key, masks.path, masks
        self.check_matched = masks.check_matched

    def unions(self, frame: Frame, lineages: Sequence[Lineage]) -> list[NDArray[np.bool_] | None]:
        found = self._masks.unions(frame, lineages)
        if self.wants(frame.index):  # of others, no image is made
            self.see(frame.index, frame.image, found)
        return found

    @property
    def problems(self) -> list[str]:
        return self._masks.problems


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


def _crop(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> bytes:
    return small_jpeg(crop(image, mask))


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
