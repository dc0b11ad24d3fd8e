"""Things that can be put into a frame: drawn once per progress, scaled and composited per frame."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._drawing import (
    BOARD,
    MARGIN,
    UNIT,
    Canvas,
    Colour,
    Paint,
    Viewpoint,
    arc,
    darker,
)

KEPT = 80  # drawings of one thing, about 190 kB each


class Place(NamedTuple):
    """Where the unit square of a drawing lies in the frame, in pixels."""

    left: float
    top: float
    side: float


class Drawing(NamedTuple):
    image: Any  # premultiplied RGBA
    glow: tuple[float, float, Colour, float] | None
    bounds: tuple[int, int, int, int]  # left, top, right, bottom of what is drawn, on the board
    area: float  # of what is drawn, in squares of the unit


@dataclass(eq=False)
class Sprite:
    """One object with its appearance; drawings are kept, which changes nothing but the speed."""

    paint: Paint
    view: Viewpoint
    _kept: dict[tuple[float, float], Drawing] = field(default_factory=dict, repr=False)

    def drawing(self, progress: float, flicker: float = 0.0) -> Drawing:
        key = (progress, flicker)
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            canvas = Canvas(self.view, flicker)
            self.paint(canvas, progress)
            bounds = canvas.image.getbbox() or (0, 0, BOARD, BOARD)
            glow = canvas.glow
            if glow is not None:
                x, y = ((canvas.pixels([glow[:2]])[0] - MARGIN) / UNIT).tolist()
                glow = (x, y, *glow[2:])
            area = canvas.image.getchannel("A").histogram()[255] / UNIT**2
            self._kept[key] = Drawing(canvas.image.convert("RGBa"), glow, bounds, area)
        return self._kept[key]


def stamp(
    drawing: Drawing,
    place: Place,
    image: NDArray[np.uint8] | None,
    labels: NDArray[np.uint8],
    label: int,
) -> None:
    """Put a drawing over a frame and write its label where it covers more than half of a pixel.

    Without an image only the labels are written.
    """
    from PIL import Image

    height, width = labels.shape
    scale = UNIT / place.side
    left, top = place.left - MARGIN / scale, place.top - MARGIN / scale
    x0, x1 = _covered(left, drawing.bounds[0] / scale, drawing.bounds[2] / scale, scale, width)
    y0, y1 = _covered(top, drawing.bounds[1] / scale, drawing.bounds[3] / scale, scale, height)
    if x1 <= x0 or y1 <= y0:
        return
    source = drawing.image if image is not None else drawing.image.getchannel("a")
    corners = ((x0 - left) * scale, (y0 - top) * scale, (x1 - left) * scale, (y1 - top) * scale)
    box = tuple(min(max(edge, 0.0), float(BOARD)) for edge in corners)  # against rounding
    patch = np.asarray(source.resize((x1 - x0, y1 - y0), Image.Resampling.BILINEAR, box))
    cover = patch if image is None else patch[:, :, 3]
    labels[y0:y1, x0:x1][cover >= 128] = label
    if image is not None:
        under = image[y0:y1, x0:x1]
        rest = (255 - cover).astype(np.uint16)[:, :, None]
        under[:] = np.minimum(patch[:, :, :3] + (under * rest + 127) // 255, 255)


def _covered(
    origin: float, first: float, last: float, scale: float, length: int
) -> tuple[int, int]:
    """The pixels of one axis that a drawing may touch: not outside its board nor the frame."""
    start = max(math.floor(origin + first) - 1, math.ceil(origin), 0)
    end = min(math.ceil(origin + last) + 1, math.floor(origin + BOARD / scale), length)
    return start, end


def cast(drawing: Drawing, place: Place, image: NDArray[np.uint8]) -> None:
    """The soft shadow under an object and the light that it gives; neither belongs to it."""
    left, _, right, bottom = ((edge - MARGIN) / UNIT for edge in drawing.bounds)
    rx = max((right - left) / 2, 0.1) * place.side
    x = place.left + (left + right) / 2 * place.side
    y = place.top + (bottom - 0.02) * place.side
    _blend(image, x, y, rx * 1.15, rx * 0.3, (20, 18, 24), 0.6)
    if drawing.glow is not None:
        gx, gy, colour, strength = drawing.glow
        radius = 0.75 * place.side
        _blend(
            image,
            place.left + gx * place.side,
            place.top + gy * place.side,
            radius,
            radius,
            colour,
            0.75 * strength,
        )


def _blend(
    image: NDArray[np.uint8], x: float, y: float, rx: float, ry: float, colour: Colour, most: float
) -> None:
    """Mix in a colour, most in the middle of an ellipse and not at all at its edge."""
    height, width = image.shape[:2]
    x0, x1 = max(int(x - rx), 0), min(int(x + rx) + 2, width)
    y0, y1 = max(int(y - ry), 0), min(int(y + ry) + 2, height)
    if x1 <= x0 or y1 <= y0:
        return
    dx = ((np.arange(x0, x1, dtype=np.float32) - x) / rx) ** 2
    dy = ((np.arange(y0, y1, dtype=np.float32) - y) / ry) ** 2
    share = most * np.maximum(1 - dx[None] - dy[:, None], 0) ** 1.5
    part = image[y0:y1, x0:x1]
    part[:] = part + (np.array(colour, np.float32) - part) * share[:, :, None]


def hand_from(rng: np.random.Generator, angle: float) -> Sprite:
    """A forearm with a hand whose fingertips end in the middle; it comes from ``angle``."""
    light, deep = np.array([240, 200, 172]), np.array([96, 62, 44])
    skin: Colour = tuple((light + (deep - light) * rng.random()).astype(int).tolist())
    sleeve: Colour = tuple(rng.integers(40, 220, size=3).tolist())

    def paint(canvas: Canvas, progress: float) -> None:
        for k, y in enumerate((0.43, 0.475, 0.52, 0.565)):
            tip, knuckle = (0.54 + (0.02, 0.0, 0.006, 0.03)[k], y), (0.72, y)
            canvas.line([tip, knuckle], 0.05, darker(skin, 0.65))
            canvas.ellipse(*tip, 0.024, 0.024, darker(skin, 0.65), shade=0, edge=False)
            canvas.line([tip, knuckle], 0.038, skin)
            canvas.ellipse(*tip, 0.018, 0.018, skin, shade=0, edge=False)
        canvas.line([(0.74, 0.58), (0.62, 0.65)], 0.062, darker(skin, 0.65))
        canvas.line([(0.74, 0.58), (0.625, 0.647)], 0.05, skin)
        palm = arc(0.73, 0.5, 0.09, 0.1, 90, 270, 16)
        canvas.polygon([*palm, (0.87, 0.44), (0.87, 0.56)], skin, shade=0.15)
        canvas.polygon([(0.84, 0.445), (1.3, 0.42), (1.3, 0.58), (0.84, 0.555)], skin, shade=0.1)
        canvas.polygon([(0.94, 0.41), (1.4, 0.37), (1.4, 0.63), (0.94, 0.59)], sleeve, shade=0.1)

    return Sprite(paint, Viewpoint(tilt=angle))
