"""Contact sheets: nothing is cut, and each picture has its words."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
from PIL import Image, ImageFont

from dejacue.report.contact_sheet import _lines, contact_sheet, with_boxes

IMAGE = np.full((50, 100, 3), 200, np.uint8)


def test_umlauts_are_written_as_such() -> None:
    pictures = [(IMAGE, words) for words in "üжu"]
    with Image.open(io.BytesIO(contact_sheet(pictures, ""))) as sheet:
        below = np.asarray(sheet.convert("L"))[58:]
    letters = [below[:, 8 + at * 108 : 30 + at * 108] for at in range(3)]
    assert not np.array_equal(letters[0], letters[1])  # as boxes would be
    assert np.array_equal(letters[0][8:], letters[2][8:])  # a u with dots


def test_nothing_that_the_contact_sheet_says_is_cut() -> None:
    font = ImageFont.load_default(12)
    text = f"00012.jpg · 4.00 s · 1 left, 2 middle, 3 right {'x' * 90} 4 right"
    lines = _lines(text, font, 100)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(font.getlength(line) <= 100 for line in lines)
    assert not any(font.getlength(f"{a} {b.split()[0]}") <= 100 for a, b in pairwise(lines))
    assert _lines("", font, 100) == []
    heights = []
    for words in ("0", "x" * 200):
        with Image.open(io.BytesIO(contact_sheet([(IMAGE, words)], ""))) as sheet:
            heights.append(sheet.height)
    assert heights[1] > heights[0] + 2 * 16  # a line for each, however many


def test_each_object_is_framed_in_a_colour_of_its_own() -> None:
    image = np.full((60, 120, 3), 100, np.uint8)
    drawn = with_boxes(image, {1: (10, 20, 40, 50), 2: (60, 20, 110, 50)})
    assert drawn.shape == (240, 480, 3)
    assert tuple(drawn[199, 120]) == (0x00, 0x72, 0xB2)
    assert tuple(drawn[199, 320]) not in {(0x00, 0x72, 0xB2), (100, 100, 100)}
    assert (drawn[200:] == 100).all()
