"""The drawing board: shaded polygons in a unit square, seen from a slightly different viewpoint
each time.

Everything is a polygon, so that one affine map can tilt, shear and mirror the whole drawing. It is
drawn about twice as large as it will be shown; scaling it down smooths the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

UNIT = 168  # pixels of the unit square
MARGIN = 24  # what a tilted drawing may need beyond it
BOARD = UNIT + 2 * MARGIN
START = 0.04  # up to this progress nothing is seen to have begun

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
        own = np.array([[flip, 0.0], [self.shear, 1.0]])
        matrix: Points = own @ np.array([[cos, sin], [-sin, cos]])
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
        """A filled shape; ``shade`` is how much darker its far side is."""
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

    def box(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        colour: Colour,
        *,
        shade: float = 0.25,
        edge: bool = True,
    ) -> None:
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], colour, shade=shade, edge=edge)

    def line(self, points: ArrayLike, width: float, colour: Colour) -> None:
        """A stroke of a width in units."""
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
    """Points on an ellipse, clockwise from its right end."""
    cos, sin = np.cos(turn), np.sin(turn)
    points: Points = _CIRCLE * (rx, ry) @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return points


def arc(
    x: float, y: float, rx: float, ry: float, start: float, end: float, count: int = 24
) -> Points:
    """Points on a piece of an ellipse; degrees, clockwise from the right."""
    angles = np.radians(np.linspace(start, end, count))
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=1)


def moved(points: ArrayLike, right: float, down: float) -> Points:
    shifted: Points = np.asarray(points, dtype=np.float64) + np.array([right, down])
    return shifted


def darker(colour: Colour, factor: float) -> Colour:
    """Times a factor; above 1 it is lighter."""
    return _colour([channel * factor for channel in colour])


def mix(one: Colour, other: Colour, share: float) -> Colour:
    """From ``one`` (share 0) to ``other`` (share 1)."""
    return _colour([a + (b - a) * share for a, b in zip(one, other, strict=True)])


def between(stops: Sequence[Colour], progress: float) -> Colour:
    """A colour on the way through several, evenly spaced."""
    at = min(max(progress, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(at), len(stops) - 2)
    return mix(stops[first], stops[first + 1], at - first)


def draw_colour(
    rng: np.random.Generator,
    hue: tuple[float, float] = (0.0, 1.0),
    saturation: tuple[float, float] = (0.5, 0.85),
    value: tuple[float, float] = (0.6, 0.95),
) -> Colour:
    """A random colour; hues from 0 (red) over 1/3 (green) and 2/3 (blue) to 1 (red)."""
    import colorsys

    parts = [rng.uniform(*bounds) for bounds in (hue, saturation, value)]
    return _colour([255 * part for part in colorsys.hsv_to_rgb(parts[0] % 1, *parts[1:])])


def _colour(channels: Sequence[Any]) -> Colour:
    red, green, blue = (round(min(max(float(channel), 0.0), 255.0)) for channel in channels)
    return red, green, blue
