"""The contact sheet of a track: a few frames with the masks on them, to see at a glance whether the
right object was followed.

Frames evenly over the video, and those with a doubt, which are framed and say why.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.report.plots import COLOURS

MOST, MOST_DOUBTFUL = 24, 12
COLUMNS, WIDTH, GAP, LINE = 6, 240, 8, 16  # pixels, but for the columns
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

    size = (width, max(1, round(image.shape[0] * width / image.shape[1])))
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
    marks = max(min(2, len(shot.marks)) for shot in shots)
    cell = (width + GAP, height + LINE * (1 + marks) + GAP)
    head = 2 * LINE if title else GAP
    rows = -(-len(shots) // columns)
    sheet = Image.new("RGB", (columns * cell[0] + GAP, head + rows * cell[1]), PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(12)
    if title:
        pen.text((GAP, LINE // 2), _fitting(pen, title, font, sheet.width - 2 * GAP), INK, font)
    for at, shot in enumerate(shots):
        left, top = GAP + at % columns * cell[0], head + at // columns * cell[1]
        sheet.paste(Image.fromarray(shot.image), (left, top))
        if shot.marks:
            box = (left - 2, top - 2, left + width + 1, top + height + 1)
            pen.rectangle(box, outline=WARNING, width=3)
        under = top + height + 2
        pen.text((left, under), shot.title, INK, font)
        room = pen.textlength(shot.text, font)
        pen.text((left + width - room, under), shot.text, INK, font)
        shown = shot.marks if len(shot.marks) <= 2 else (shot.marks[0], "; ".join(shot.marks[1:]))
        for line, mark in enumerate(shown, start=1):
            pen.text((left, under + line * LINE), _fitting(pen, mark, font, width), WARNING, font)
    stream = io.BytesIO()
    kept = PngInfo()
    for name, text in (texts or {}).items():
        kept.add_text(name, text)
    sheet.save(stream, "PNG", optimize=True, pnginfo=kept)
    return stream.getvalue()


def _fitting(pen: Any, text: str, font: Any, room: float) -> str:
    """As much of a text as fits in one line."""
    if pen.textlength(text, font) <= room:
        return text
    while text and pen.textlength(text + "…", font) > room:
        text = text[:-1]
    return text.rstrip() + "…"


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
