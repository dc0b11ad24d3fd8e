"""The strip as a picture: numbered pictures side by side, with what is believed of each."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from dejacue.method.strips import Strip
from dejacue.records.example import NONE
from dejacue.report.thumbnails import small_size
from dejacue.report.track_sheet import WIDTH, Shot, contact_sheet

NO_PICTURE = 200  # grey


def strip_sheet(strip: Strip) -> bytes:
    """Return a PNG of the pictures of a strip, numbered from 1; a missing one is grey."""
    images = [None if data is None else _pixels(data) for data in strip.pictures]
    shape = next((image.shape for image in images if image is not None), (WIDTH, WIDTH, 3))
    blank = np.full((*shape[:2], 3), NO_PICTURE, np.uint8)
    shots = [
        Shot(
            image if image is not None and image.shape == shape else blank,
            f"{number}  {state or NONE}",
            (),
        )
        for number, (image, state) in enumerate(zip(images, strip.believed, strict=True), start=1)
    ]
    where = "evenly over what is visible"
    if strip.border is not None:
        where = f"at the {strip.border.side} of {strip.border.state}"
    title = f"{strip.history.id}: {where}; below each picture what is believed"
    return contact_sheet(shots, title)


def _pixels(data: bytes) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        size = small_size((picture.height, picture.width), WIDTH)
        return np.asarray(picture.convert("RGB").resize(size))
