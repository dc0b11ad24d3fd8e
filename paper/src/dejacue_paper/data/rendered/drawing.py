"""Draw objects as shaded polygons in a unit square, and put the drawings into frames.

Everything is a polygon, so that one affine map can tilt, shear and mirror the whole drawing. It is
drawn about twice as large as it will be shown; scaling it down smooths the edges.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache
from numpy.typing import ArrayLike, NDArray

UNIT = 168  # pixels of the unit square
MARGIN = 24  # what a tilted drawing may need beyond it
BOARD = UNIT + 2 * MARGIN
START = 0.04  # up to this progress nothing is seen to have begun
MAX_CACHED_DRAWINGS = 80  # of one object, about 190 kB each

Colour = tuple[int, int, int]
Points = NDArray[np.float64]
Paint = Callable[["Canvas", float], None]  # draws one object at a progress between 0 and 1

_TURN = np.linspace(0, 2 * np.pi, 40, endpoint=False)
_CIRCLE = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)


@dataclass(frozen=True)
class Viewpoint:
    """The side from which an object is seen, and where the light comes from."""

    tilt: float = 0.0  # radians
    shear: float = 0.0
    squeeze: float = 1.0  # width over height
    mirror: bool = False
    light: int = 1  # 1 from the left, −1 from the right

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Viewpoint:
        return cls(
            tilt=rng.uniform(-0.09, 0.09),
            shear=rng.uniform(-0.08, 0.08),
            squeeze=rng.uniform(0.9, 1.08),
            mirror=bool(rng.random() < 0.5),
            light=1 if rng.random() < 0.5 else -1,
        )

    @property
    def matrix(self) -> Points:
        cos, sin = np.cos(self.tilt), np.sin(self.tilt)
        flip = -self.squeeze if self.mirror else self.squeeze
        skew = np.array([[flip, 0.0], [self.shear, 1.0]])
        matrix: Points = skew @ np.array([[cos, sin], [-sin, cos]])
        return matrix


class Canvas:
    """One drawing of one object, in units: x to the right, y down, both from 0 to 1.

    flicker   −1 … 1, moves flames
    glow      (x, y, colour, strength) of the light that the object gives, set by what is drawn
    """

    def __init__(self, view: Viewpoint | None = None, flicker: float = 0.0) -> None:
        from PIL import Image, ImageDraw

        self.view = view or Viewpoint()
        self.flicker = flicker
        self.glow: tuple[float, float, Colour, float] | None = None
        self.image = Image.new("RGBA", (BOARD, BOARD))
        self._pen = ImageDraw.Draw(self.image)
        self._matrix = self.view.matrix

    def polygon(
        self, points: ArrayLike, colour: Colour, *, shade: float = 0.25, edge: bool = True
    ) -> None:
        """Fill a shape; ``shade`` is how much darker its far side is."""
        pixels = self.pixels(points)
        flat = pixels.ravel().tolist()
        if shade:
            self._shaded(pixels, colour, shade)
        else:
            self._pen.polygon(flat, fill=(*colour, 255))
        if edge:
            self._pen.line([*flat, *flat[:2]], fill=(*darker(colour, 0.55), 255), width=3)

    def ellipse(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        colour: Colour,
        *,
        shade: float = 0.25,
        edge: bool = True,
        turn: float = 0.0,
    ) -> None:
        self.polygon(oval(x, y, rx, ry, turn), colour, shade=shade, edge=edge)

    def line(self, points: ArrayLike, width: float, colour: Colour) -> None:
        """Draw a stroke of a width in units."""
        flat = self.pixels(points).ravel().tolist()
        self._pen.line(flat, fill=(*colour, 255), width=max(2, round(width * UNIT)), joint="curve")

    def pixels(self, points: ArrayLike) -> Points:
        centred = np.asarray(points, dtype=np.float64) - 0.5
        return (centred @ self._matrix + 0.5) * UNIT + MARGIN

    def _shaded(self, pixels: Points, colour: Colour, shade: float) -> None:
        from PIL import Image, ImageDraw

        x0, y0 = np.maximum(np.floor(pixels.min(axis=0)).astype(int), 0).tolist()
        x1, y1 = np.minimum(np.ceil(pixels.max(axis=0)).astype(int) + 1, BOARD).tolist()
        if x1 <= x0 or y1 <= y0:
            return
        mask = Image.new("1", (x1 - x0, y1 - y0))
        ImageDraw.Draw(mask).polygon((pixels - (x0, y0)).ravel().tolist(), fill=1)
        across = np.linspace(1 + 0.5 * shade, 1 - shade, x1 - x0)[:: self.view.light]
        strip = np.full((1, x1 - x0, 4), 255, dtype=np.uint8)
        strip[0, :, :3] = np.clip(across[:, None] * colour, 0, 255)
        self.image.paste(Image.fromarray(strip).resize(mask.size), (x0, y0), mask)


def oval(x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> Points:
    """Return points on an ellipse, clockwise from its right end."""
    cos, sin = np.cos(turn), np.sin(turn)
    points: Points = _CIRCLE * (rx, ry) @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return points


def arc(
    x: float, y: float, rx: float, ry: float, start: float, end: float, count: int = 24
) -> Points:
    """Return points on a piece of an ellipse; degrees, clockwise from the right."""
    angles = np.radians(np.linspace(start, end, count))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=1)


def rectangle(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def moved(points: ArrayLike, right: float, down: float) -> Points:
    shifted: Points = np.asarray(points, dtype=np.float64) + np.array([right, down])
    return shifted


def darker(colour: Colour, factor: float) -> Colour:
    """Multiply by a factor; above 1 it is lighter."""
    return _colour([channel * factor for channel in colour])


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Mix ``first`` (share 0) and ``other`` (share 1)."""
    return _colour([a + (b - a) * share for a, b in zip(first, second, strict=True)])


def between(stops: Sequence[Colour], progress: float) -> Colour:
    """Return a colour on the way through several, evenly spaced."""
    position = min(max(progress, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(position), len(stops) - 2)
    return mix(stops[first], stops[first + 1], position - first)


def draw_colour(
    rng: np.random.Generator,
    hue: tuple[float, float] = (0.0, 1.0),
    saturation: tuple[float, float] = (0.5, 0.85),
    value: tuple[float, float] = (0.6, 0.95),
) -> Colour:
    """Draw a random colour; hues from 0 (red) over 1/3 (green) and 2/3 (blue) to 1 (red)."""
    parts = [rng.uniform(*bounds) for bounds in (hue, saturation, value)]
    return _colour([255 * part for part in colorsys.hsv_to_rgb(parts[0] % 1, *parts[1:])])


def _colour(channels: Sequence[Any]) -> Colour:
    red, green, blue = (round(min(max(float(channel), 0.0), 255.0)) for channel in channels)
    return red, green, blue


class Placement(NamedTuple):
    """Where the unit square of a drawing lies in the frame, in pixels."""

    left: float
    top: float
    side: float


class Drawing(NamedTuple):
    image: Any  # premultiplied RGBA
    glow: tuple[float, float, Colour, float] | None
    bounds: tuple[int, int, int, int]  # left, top, right, bottom of what is drawn, on the board


@dataclass(eq=False)
class Sprite:
    """One object with its appearance. Drawings are cached."""

    paint: Paint
    view: Viewpoint
    _cache: LRUCache[tuple[float, float], Drawing] = field(
        default_factory=lambda: LRUCache(MAX_CACHED_DRAWINGS), repr=False
    )

    def drawing(self, progress: float, flicker: float = 0.0) -> Drawing:
        key = (progress, flicker)
        if key not in self._cache:
            canvas = Canvas(self.view, flicker)
            self.paint(canvas, progress)
            bounds = canvas.image.getbbox() or (0, 0, BOARD, BOARD)
            glow = canvas.glow
            if glow is not None:
                x, y = ((canvas.pixels([glow[:2]])[0] - MARGIN) / UNIT).tolist()
                glow = (x, y, *glow[2:])
            self._cache[key] = Drawing(canvas.image.convert("RGBa"), glow, bounds)
        return self._cache[key]


def stamp(
    drawing: Drawing,
    place: Placement,
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
    """Return the pixels of one axis that a drawing may touch, inside its board and the frame."""
    start = max(math.floor(origin + first) - 1, math.ceil(origin), 0)
    end = min(math.ceil(origin + last) + 1, math.floor(origin + BOARD / scale), length)
    return start, end


def cast(drawing: Drawing, place: Placement, image: NDArray[np.uint8]) -> None:
    """Draw the soft shadow under an object and the light that it gives; neither is labelled."""
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
    """Return a forearm whose fingertips end in the middle; it comes from ``angle``."""
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
