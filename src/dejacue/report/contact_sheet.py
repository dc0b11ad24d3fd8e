"""Contact sheets: pictures side by side, with words below each.

Of a search by name: the frames in which objects were found, each framed and numbered. Of a strip:
numbered pictures, with what is believed of each.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from dejacue.method.strips import Strip
from dejacue.models.trackers.base import Box
from dejacue.records._html import COLOURS
from dejacue.records.arrays import Pixels
from dejacue.records.vocabulary import NONE
from dejacue.report.thumbnails import small_size
from dejacue.video.sizes import FORMATS

COLUMNS, WIDTH, GAP, LINE_HEIGHT = 6, 240, 8, 16  # pixels, but for the columns
PAPER, INK = (255, 255, 255), (34, 34, 34)
NO_PICTURE = 200  # grey


def with_boxes(image: Pixels, boxes: Mapping[int, Box]) -> Pixels:
    """Return the frame made small, each object framed in its own colour, with its number."""
    from matplotlib.font_manager import findfont
    from PIL import Image, ImageDraw, ImageFont

    size = small_size(image.shape, 2 * WIDTH)
    picture = Image.fromarray(image).resize(size, Image.Resampling.BOX)
    pen, font = ImageDraw.Draw(picture), ImageFont.truetype(findfont("DejaVu Sans"), 14)
    across, down = size[0] / image.shape[1], size[1] / image.shape[0]
    for id, (x0, y0, x1, y1) in boxes.items():
        colour = COLOURS[(id - 1) % len(COLOURS)]
        corners = [x0 * across, y0 * down, x1 * across - 1, y1 * down - 1]
        pen.rectangle(corners, outline=colour, width=2)
        left, top = corners[:2]
        plate = pen.textbbox((left + 4, top + 2), str(id), font)
        pen.rectangle((left, top, plate[2] + 4, plate[3] + 2), fill=colour)
        pen.text((left + 4, top + 2), str(id), PAPER, font)
    return np.array(picture)


def contact_sheet(pictures: Sequence[tuple[Pixels, str]], title: str) -> bytes:
    """Return the sheet as a PNG: pictures of one size, and what stands below each."""
    from matplotlib.font_manager import findfont
    from PIL import Image, ImageDraw, ImageFont

    columns = min(COLUMNS, len(pictures))
    height, width = pictures[0][0].shape[:2]
    width = max(width, WIDTH // 4)  # room for words
    font = ImageFont.truetype(findfont("DejaVu Sans"), 12)  # Pillow's own has no ü
    head = _lines(title, font, columns * (width + GAP) - GAP)
    captions = [_lines(words, font, width) for _, words in pictures]
    by_row = [captions[at : at + columns] for at in range(0, len(pictures), columns)]
    heights = [height + GAP + LINE_HEIGHT * max(map(len, row)) for row in by_row]
    tops = list(accumulate(heights, initial=GAP + LINE_HEIGHT * len(head)))
    sheet = Image.new("RGB", (columns * (width + GAP) + GAP, tops[-1]), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(head):
        pen.text((GAP, GAP // 2 + number * LINE_HEIGHT), line, INK, font)
    for at, (image, _) in enumerate(pictures):
        left, top = GAP + at % columns * (width + GAP), tops[at // columns]
        sheet.paste(Image.fromarray(image), (left, top))
        for number, line in enumerate(captions[at]):
            pen.text((left, top + height + 2 + number * LINE_HEIGHT), line, INK, font)
    stream = io.BytesIO()
    sheet.save(stream, "PNG", optimize=True)
    return stream.getvalue()


def _lines(text: str, font: Any, room: float) -> list[str]:
    """Return all of a text, in lines that fit; a word that is too long for one is broken."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
            continue
        while font.getlength(word) > room and len(word) > 1:
            fits = next(
                n for n in range(len(word) - 1, 0, -1) if n == 1 or font.getlength(word[:n]) <= room
            )
            lines.append(word[:fits])
            word = word[fits:]
        lines.append(word)
    return lines


def strip_sheet(strip: Strip) -> bytes:
    """Return a PNG of the pictures of a strip, numbered from 1; a missing one is grey."""
    images = [None if data is None else _pixels(data) for data in strip.pictures]
    shape = next((image.shape for image in images if image is not None), (WIDTH, WIDTH, 3))
    blank = np.full((*shape[:2], 3), NO_PICTURE, np.uint8)
    pictures = [
        (
            image if image is not None and image.shape == shape else blank,
            f"{number}  {state or NONE}" if any(strip.believed) else f"{number}",
        )
        for number, (image, state) in enumerate(zip(images, strip.believed, strict=True), start=1)
    ]
    where = "evenly over what is visible"
    if strip.border is not None:
        where = f"at the {strip.border.side} of {strip.border.state}"
    believed = "; below each picture what is believed" if any(strip.believed) else ""
    return contact_sheet(pictures, f"{strip.history.id}: {where}{believed}")


def _pixels(data: bytes) -> Pixels:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
        size = small_size((picture.height, picture.width), WIDTH)
        return np.asarray(picture.convert("RGB").resize(size))
