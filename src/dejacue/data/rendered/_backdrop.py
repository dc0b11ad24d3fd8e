"""What is behind the object: a wall or a table with a texture, and clutter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._drawing import Colour, darker, draw_colour

SPAN = 1.6  # the backdrop is so much larger than the frame, for the camera to move over
PATTERNS = ("plain", "planks", "tiles", "stripes", "cloth", "ground")


def draw_backdrop(rng: np.random.Generator, size: tuple[int, int], clutter: float) -> Any:
    """An RGB image, SPAN times the frame, with the frame's centre in the middle."""
    from PIL import Image

    height, width = (round(SPAN * side) for side in size)
    base = np.array(draw_colour(rng, saturation=(0.06, 0.4), value=(0.5, 0.85)), dtype=np.float32)
    tone = _pattern(rng, height, width, min(size))
    horizon = int(height * rng.uniform(0.3, 0.5))
    if rng.random() < 0.6:  # a wall behind the table
        wall = np.array(draw_colour(rng, saturation=(0.03, 0.3), value=(0.6, 0.9)), np.float32)
        colours = np.where(np.arange(height)[:, None, None] < horizon, wall, base)
        tone[:horizon] = 1 + 0.25 * (tone[:horizon] - 1)
        tone[horizon : horizon + 2] *= 0.75
    else:
        colours = np.broadcast_to(base, (height, width, 3))
    tone *= 1 + 0.1 * _clouds(rng, height, width, 5)
    image = Image.fromarray(np.clip(colours * tone[:, :, None], 0, 255).astype(np.uint8))
    for _ in range(round(14 * clutter)):
        _thing(rng, image, min(size))
    return image


def _pattern(rng: np.random.Generator, height: int, width: int, unit: int) -> NDArray[np.float32]:
    """(height, width) brightness around 1."""
    pattern = PATTERNS[rng.integers(len(PATTERNS))]
    y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None]
    period = unit * rng.uniform(0.12, 0.25)
    if pattern == "planks":
        row = (y // period).astype(int)
        tones = rng.uniform(0.88, 1.08, size=int(height // period) + 1)
        grain = _clouds(rng, height, max(width // 24, 2), 3 * height // 8)
        tone = tones[row] * (1 - 0.25 * (y % period < 1.5)) + 0.06 * _stretched(grain, width)
    elif pattern == "tiles":
        joint = np.maximum(y % period < 1.6, x % period < 1.6)
        tone = 1 - 0.22 * joint + np.zeros((height, width))
    elif pattern == "stripes":
        slope = rng.uniform(-0.6, 0.6)
        tone = 1 + 0.07 * np.sign(np.sin((x + slope * y) * 2 * np.pi / period))
    elif pattern == "cloth":
        tone = 1 + 0.07 * (
            np.sign(np.sin(x * 2 * np.pi / period)) + np.sign(np.sin(y * 2 * np.pi / period))
        )
    elif pattern == "ground":
        tone = 1 + 0.16 * _clouds(rng, height, width, 40)
    else:
        tone = np.ones((height, width))
    return np.broadcast_to(tone, (height, width)).astype(np.float32)


def _clouds(rng: np.random.Generator, height: int, width: int, cells: int) -> NDArray[np.float32]:
    """Smooth noise between about −1 and 1."""
    from PIL import Image

    grid = rng.uniform(-1, 1, size=(max(cells, 2), max(cells * width // height, 2)))
    small = Image.fromarray(grid.astype(np.float32))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))


def _stretched(grain: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    from PIL import Image

    image = Image.fromarray(grain).resize((width, len(grain)), Image.Resampling.BICUBIC)
    return np.asarray(image)


def _thing(rng: np.random.Generator, image: Any, unit: int) -> None:
    """A plate, a block, a stick or a sheet, with a shadow; never one of the families."""
    from PIL import ImageDraw

    pen = ImageDraw.Draw(image)
    x, y = rng.uniform(0, image.width), rng.uniform(0.15 * image.height, image.height)
    size = unit * rng.uniform(0.05, 0.13)
    colour = draw_colour(rng, saturation=(0.2, 0.8), value=(0.4, 0.9))
    kind = int(rng.integers(4))
    corners: list[tuple[float, float]]
    if kind == 0:
        _disc(pen, x + 2, y + 3, size * 1.3, size * 0.9, darker(colour, 0.4))
        _disc(pen, x, y, size * 1.3, size * 0.9, colour)
        _disc(pen, x, y, size * 0.8, size * 0.55, darker(colour, 1.2))
        return
    long, wide = ((1.0, 0.7), (2.4, 0.18), (1.3, 1.0))[kind - 1]
    turn = rng.uniform(-0.8, 0.8)
    across, along = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    corners = [
        tuple(np.array([x, y]) + a * long * size * across + b * wide * size * along)
        for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    pen.polygon([(a + 2, b + 3) for a, b in corners], fill=darker(colour, 0.4))
    pen.polygon(corners, fill=colour, outline=darker(colour, 0.6))
    if kind == 3:
        middle = np.mean(corners, axis=0)
        inner = [tuple(middle + 0.6 * (np.array(corner) - middle)) for corner in corners]
        pen.polygon(inner, fill=darker(colour, 1.25))


def _disc(pen: Any, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
    pen.ellipse((x - rx, y - ry, x + rx, y + ry), fill=colour)
