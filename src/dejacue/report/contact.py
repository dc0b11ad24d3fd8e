"""The contact sheet of a track: a few frames with the masks on them, to see at a glance whether the
right object was followed.

Frames evenly over the video, and those with a doubt, which are framed and say why.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.report.plots import COLOURS

MOST, MOST_DOUBTFUL = 24, 12
COLUMNS, WIDTH, GAP, LINE = 6, 240, 8, 16  # pixels, but for the columns
TALLEST = 3  # times its width is a small picture high; what is taller is made narrower
PAPER, INK, WARNING = (255, 255, 255), (34, 34, 34), (200, 30, 30)


@dataclass(frozen=True, eq=False)
class Shot:
    """One picture of the sheet, small already.

    image   (H, W, 3) with the masks drawn on it
    title   such as "frame 120 · 4.0 s"
    text    such as "presence 0.93"
    marks   the doubts of this frame, in words
    """

    image: NDArray[np.uint8]
    title: str
    text: str = ""
    marks: tuple[str, ...] = ()


def chosen(count: int, doubtful: Sequence[int] = ()) -> list[int]:
    """Positions of the frames to show, of ``count``: evenly from the first to the last, and the
    doubtful ones, the first of them where they are many."""
    even = np.linspace(0, count - 1, min(MOST, count)).round().astype(int).tolist()
    extra = [at for at in dict.fromkeys(doubtful) if 0 <= at < count and at not in even]
    return sorted({*even, *extra[:MOST_DOUBTFUL]})


def drawn(
    image: NDArray[np.uint8], masks: Mapping[int, NDArray[np.bool_]], width: int = WIDTH
) -> NDArray[np.uint8]:
    """The frame made small, each object tinted and outlined in its own colour."""
    from PIL import Image

    size = small_size(image.shape, width)
    pixels = np.array(Image.fromarray(image).resize(size, Image.Resampling.BOX))
    for one, mask in masks.items():
        if not mask.any():
            continue
        covered = Image.fromarray(255 * mask.astype(np.uint8)).resize(size, Image.Resampling.BOX)
        share = np.asarray(covered)
        inside = (share > 127) | (share == share.max())  # a small object does not vanish
        colour = np.array(_colour(one))
        pixels[inside] = (0.65 * pixels[inside] + 0.35 * colour).astype(np.uint8)
        line = grown(inside) & ~inside
        pixels[grown(line | inside) & ~line & ~inside] = PAPER
        pixels[line] = colour
    return pixels


def small_size(shape: Sequence[int], width: int) -> tuple[int, int]:
    """Width and height of a frame of this shape (height, width, …) that is made small."""
    if shape[0] > TALLEST * shape[1]:
        return max(1, round(shape[1] * TALLEST * width / shape[0])), TALLEST * width
    return width, max(1, round(shape[0] * width / shape[1]))


def contact_sheet(
    shots: Sequence[Shot], title: str = "", texts: Mapping[str, str] | None = None
) -> bytes:
    """The sheet as a PNG; ``shots`` in the order in which they are shown.

    texts   kept in the file, not shown
    """
    from PIL import Image, ImageDraw, ImageFont
    from PIL.PngImagePlugin import PngInfo

    columns = min(COLUMNS, len(shots))
    height, width = shots[0].image.shape[:2]
    width = max(width, WIDTH // 4)  # room for words
    font = ImageFont.load_default(12)
    head = _lines(title, font, columns * (width + GAP) - GAP)
    captions = [_caption(shot, font, width) for shot in shots]
    by_row = [captions[at : at + columns] for at in range(0, len(shots), columns)]
    tall = [height + GAP + LINE * max(map(len, row)) for row in by_row]
    tops = list(accumulate(tall, initial=GAP + LINE * len(head)))
    sheet = Image.new("RGB", (columns * (width + GAP) + GAP, tops[-1]), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, line in enumerate(head):
        pen.text((GAP, GAP // 2 + number * LINE), line, INK, font)
    for at, (shot, caption) in enumerate(zip(shots, captions, strict=True)):
        left, top = GAP + at % columns * (width + GAP), tops[at // columns]
        sheet.paste(Image.fromarray(shot.image), (left, top))
        if shot.marks:
            box = (left - 2, top - 2, left + width + 1, top + height + 1)
            pen.rectangle(box, outline=WARNING, width=3)
        for number, (line, colour) in enumerate(caption):
            pen.text((left, top + height + 2 + number * LINE), line, colour, font)
    stream = io.BytesIO()
    kept = PngInfo()
    for name, text in (texts or {}).items():
        kept.add_text(name, text)
    sheet.save(stream, "PNG", optimize=True, pnginfo=kept)
    return stream.getvalue()


def _caption(shot: Shot, font: Any, room: float) -> list[tuple[str, tuple[int, int, int]]]:
    """Lines and their colours: what it shows, and every doubt."""
    said = [(f"{shot.title} · {shot.text}" if shot.text else shot.title, INK)]
    said += [(mark, WARNING) for mark in shot.marks]
    return [(line, colour) for text, colour in said for line in _lines(text, font, room)]


def _lines(text: str, font: Any, room: float) -> list[str]:
    """All of a text, in lines that fit; a word that is too long for one is broken."""
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


def _colour(one: int) -> tuple[int, int, int]:
    text = COLOURS[(one - 1) % len(COLOURS)]
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def grown(mask: NDArray[np.bool_], times: int = 1) -> NDArray[np.bool_]:
    """With the pixels beside, above and below it, so many times."""
    for _ in range(times):
        out = mask.copy()
        out[1:] |= mask[:-1]
        out[:-1] |= mask[1:]
        out[:, 1:] |= mask[:, :-1]
        out[:, :-1] |= mask[:, 1:]
        mask = out
    return mask
