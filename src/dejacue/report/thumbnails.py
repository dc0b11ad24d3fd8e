"""Small pictures of what was looked at: frames with the object outlined, and crops of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from dejacue.files.findings import Pictures
from dejacue.records.arrays import Flags, Pixels
from dejacue.video.crops import crop

if TYPE_CHECKING:
    from PIL.Image import Image

    from dejacue.video.video import Frame

T = TypeVar("T")
MAX_PICTURES = 12
MIN_WIDTH, WIDTH, CROP_SIDE = 192, 480, 192  # pixels; a frame is made larger only up to the first
MAX_HEIGHT = 3  # times its width; a taller picture is made narrower
LINES_PER_PICTURE = 96  # as wide as the picture: in a strip of thumbnails, a line has one pixel
INSIDE, OUTSIDE = (0, 255, 255), (0, 0, 0)  # of the outline: a colour that few things have


class Album(Generic[T]):
    """Keep at most so many of the things that are shown to it, evenly over however many come."""

    def __init__(self, max_items: int) -> None:
        self.items: dict[int, T] = {}
        self._max_items, self._step = max_items, 1

    def see(self, index: int, make: Callable[[], T]) -> None:
        """Call ``make`` if the thing is kept; the indices grow."""
        if index % self._step:
            return
        self.items[index] = make()
        if len(self.items) > self._max_items:  # the length need not be known
            self._step *= 2
            self.items = {at: item for at, item in self.items.items() if at % self._step == 0}


class PictureAlbum:
    """Keep a few pictures of the frames that are shown to it, and of the objects in them."""

    def __init__(self) -> None:
        self._album: Album[dict[str, tuple[bytes, bytes | None]]] = Album(4 * MAX_PICTURES)

    def see(
        self, index: int, image: Callable[[], Pixels], masks: Mapping[str, Flags | None]
    ) -> None:
        """Take a frame, whose image is made where it is needed, and the masks of its objects."""

        def make() -> dict[str, tuple[bytes, bytes | None]]:
            pixels = image()
            return {id: frame_and_crop(pixels, mask) for id, mask in masks.items()}

        self._album.see(index, make)

    def watch(self, frame: Frame, masks: Mapping[str, Flags | None]) -> None:
        """Take a frame of a video."""
        self.see(frame.index, lambda: frame.image, masks)

    @property
    def ids(self) -> set[str]:
        """Return the objects of which there are pictures."""
        return {id for pictures in self._album.items.values() for id in pictures}

    def pictures(self, id: str, first: int = 0) -> Pictures:
        """Return at most MAX_PICTURES, of one object, from a frame on."""
        frames = [frame for frame in self._album.items if frame >= first]
        last = len(frames) - 1
        if last >= MAX_PICTURES:
            frames = [frames[k * last // (MAX_PICTURES - 1)] for k in range(MAX_PICTURES)]
        chosen = {frame: self._album.items[frame][id] for frame in frames}
        return Pictures(
            {frame: whole for frame, (whole, _) in chosen.items()},
            {frame: part for frame, (_, part) in chosen.items() if part is not None},
        )


def frame_and_crop(image: Pixels, mask: Flags | None) -> tuple[bytes, bytes | None]:
    """Return JPEGs of the whole frame, and of the object alone where it is seen."""
    return thumbnail(image, mask), None if mask is None else small_jpeg(crop(image, mask))


def thumbnail(image: Pixels, mask: Flags | None) -> bytes:
    """Return the whole frame as a small JPEG, with a line around the object."""
    from PIL import Image

    size = small_size(image.shape, min(max(image.shape[1], MIN_WIDTH), WIDTH))
    pixels = np.array(Image.fromarray(image).resize(size, reducing_gap=2.0))
    if mask is not None:
        object = covered(mask, size) > 0
        line = grown(object, max(size[0] // LINES_PER_PICTURE, 1))
        pixels[grown(line) & ~line] = OUTSIDE
        pixels[line & ~object] = INSIDE
    return _jpeg(Image.fromarray(pixels))


def small_jpeg(pixels: Pixels, side: int = CROP_SIDE) -> bytes:
    """Return a picture as a JPEG of at most so many pixels a side."""
    from PIL import Image

    image = Image.fromarray(pixels)
    image.thumbnail((side, side))
    return _jpeg(image)


def small_size(shape: Sequence[int], width: int) -> tuple[int, int]:
    """Return width and height of a frame of this shape (height, width, …) that is made small."""
    if shape[0] > MAX_HEIGHT * shape[1]:
        return max(1, round(shape[1] * MAX_HEIGHT * width / shape[0])), MAX_HEIGHT * width
    return width, max(1, round(shape[0] * width / shape[1]))


def covered(mask: Flags, size: tuple[int, int]) -> Pixels:
    """Return how much of each pixel of a small picture the mask covers, from 0 to 255."""
    from PIL import Image

    whole = Image.fromarray(255 * mask.astype(np.uint8))
    return np.asarray(whole.resize(size, Image.Resampling.BOX))


def grown(mask: Flags, times: int = 1) -> Flags:
    """Add the pixels beside, above and below the mask, so many times."""
    for _ in range(times):
        out = mask.copy()
        out[1:] |= mask[:-1]
        out[:-1] |= mask[1:]
        out[:, 1:] |= mask[:, :-1]
        out[:, :-1] |= mask[:, 1:]
        mask = out
    return mask


def _jpeg(image: Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85, subsampling=0)
    return stream.getvalue()
