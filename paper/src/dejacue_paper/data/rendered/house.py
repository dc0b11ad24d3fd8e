"""Drawings of things in a house. Each function fixes an appearance and returns its painter."""

from __future__ import annotations

import numpy as np

from dejacue_paper.data.rendered.drawing import (
    START,
    Canvas,
    Paint,
    arc,
    darker,
    draw_colour,
    mix,
    moved,
    oval,
    rectangle,
)

WHITE = (252, 252, 250)
DARK = (46, 40, 40)


def candle(rng: np.random.Generator) -> Paint:
    """Return the painter of a burning candle in its holder; progress is how much of it has
    burnt."""
    wax = draw_colour(rng, saturation=(0.05, 0.6), value=(0.72, 0.97))
    holder = draw_colour(rng, saturation=(0.2, 0.7), value=(0.35, 0.7))
    width, dish = rng.uniform(0.1, 0.14), rng.uniform(0.3, 0.38)
    handle = rng.random() < 0.6
    drips = rng.uniform(0.25, 0.9, size=3)

    def flame(canvas: Canvas, y: float) -> None:
        lean = 0.02 * canvas.flicker
        for size, colour in (
            (1.0, (250, 150, 40)),
            (0.68, (255, 214, 80)),
            (0.36, (255, 250, 214)),
        ):
            low = arc(0.5, y - 0.06, 0.055 * size, 0.055 * size, 0, 180, 12)
            tip = (0.5 + lean, y - 0.06 - (0.13 + 0.015 * canvas.flicker) * size)
            canvas.polygon(np.concatenate([low, [tip]]), colour, shade=0, edge=size == 1)
        canvas.glow = (0.5, y - 0.08, (255, 200, 110), 0.5)

    def paint(canvas: Canvas, progress: float) -> None:
        top = 0.24 + 0.54 * progress
        if handle:
            canvas.line(oval(0.5 + dish, 0.85, 0.1, 0.08), 0.035, darker(holder, 0.8))
        canvas.ellipse(0.5, 0.89, dish, 0.085, darker(holder, 0.7))
        canvas.ellipse(0.5, 0.86, dish, 0.085, holder, shade=0.2)
        pool = width * (1.1 + 1.1 * progress)
        canvas.ellipse(0.5, 0.86, pool, 0.06, darker(wax, 0.92), shade=0.1)
        body = np.concatenate(
            [arc(0.5, top, width, 0.03, 180, 360, 12), arc(0.5, 0.86, width, 0.035, 0, 180, 12)]
        )
        canvas.polygon(body, wax, shade=0.3)
        for k, length in enumerate(drips):
            x = 0.5 + (k - 1) * width * 0.62
            end = top + (0.84 - top) * length
            canvas.line([(x, top + 0.01), (x, end)], 0.035, mix(wax, WHITE, 0.35))
        canvas.ellipse(0.5, top, width, 0.03, mix(wax, WHITE, 0.3), shade=0.05)
        canvas.line([(0.5, top), (0.5, top - 0.05)], 0.016, DARK)
        flame(canvas, top - 0.02)

    return paint


def bulb(rng: np.random.Generator) -> Paint:
    """Return the painter of a light bulb; progress is its brightness."""
    light = draw_colour(rng, saturation=(0.25, 0.6), value=(0.98, 1.0))
    glass = mix(draw_colour(rng, saturation=(0.05, 0.2), value=(0.38, 0.6)), light, 0.12)
    base = draw_colour(rng, saturation=(0.05, 0.4), value=(0.4, 0.65))
    radius, hanging = rng.uniform(0.27, 0.33), rng.random() < 0.5

    def paint(canvas: Canvas, progress: float) -> None:
        def place(points: np.ndarray) -> np.ndarray:
            return points * (1, -1) + (0, 1) if hanging else points

        middle = 0.06 + radius
        shape = np.concatenate(
            [
                arc(0.5, middle, radius, radius, 125, 415, 36),
                [(0.5 + radius * 0.42, 0.72), (0.5 - radius * 0.42, 0.72)],
            ]
        )
        lit = mix(glass, light, progress)
        canvas.polygon(place(shape), lit, shade=0.4 * (1 - progress) + 0.04)
        for size in (0.78, 0.6, 0.42) if progress > 0.05 else ():
            inner = oval(0.5, middle, radius * size, radius * size)
            colour = mix(lit, WHITE, progress * (1.05 - size))
            canvas.polygon(place(inner), colour, shade=0, edge=False)
        wire = np.array(
            [
                (0.46, 0.7),
                (0.42, middle + 0.04),
                (0.46, middle - 0.03),
                (0.5, middle + 0.05),
                (0.54, middle - 0.03),
                (0.58, middle + 0.04),
                (0.54, 0.7),
            ]
        )
        canvas.line(place(wire), 0.02, mix((60, 58, 60), (255, 170, 60), progress))
        if progress < 0.5:
            spot = oval(
                0.5 - radius * 0.45, middle - radius * 0.4, radius * 0.2, radius * 0.1, -0.7
            )
            canvas.polygon(place(spot), mix(lit, WHITE, 0.6), shade=0, edge=False)
        for k in range(4):
            width = radius * (0.46 - 0.05 * (k == 3))
            y = 0.72 + 0.055 * k
            strip = np.array(
                [
                    (0.5 - width, y),
                    (0.5 + width, y),
                    (0.5 + width, y + 0.05),
                    (0.5 - width, y + 0.05),
                ]
            )
            canvas.polygon(place(strip), base, shade=0.4)
        canvas.polygon(place(oval(0.5, 0.95, radius * 0.22, 0.03)), DARK, shade=0)
        if progress > 0.05:
            (x, y), *_ = place(np.array([(0.5, middle)]))
            canvas.glow = (float(x), float(y), light, 0.9 * progress)

    return paint


def box(rng: np.random.Generator) -> Paint:
    """Return the painter of a box seen from above and aside; progress opens its lid."""
    card = draw_colour(rng, saturation=(0.3, 0.75), value=(0.5, 0.9))
    ribbon = draw_colour(rng, saturation=(0.4, 0.9), value=(0.5, 0.95))
    x0, x1 = rng.uniform(0.08, 0.14), rng.uniform(0.64, 0.72)
    top, deep = rng.uniform(0.54, 0.6), np.array([rng.uniform(0.16, 0.24), -rng.uniform(0.13, 0.2)])
    content = draw_colour(rng, saturation=(0.4, 0.8), value=(0.6, 0.95))
    filled = rng.random() < 0.5

    def paint(canvas: Canvas, progress: float) -> None:
        left, right = np.array([x0, top]), np.array([x1, top])
        mouth = np.array([left, right, right + deep, left + deep])
        angle = np.radians(112) * progress
        rise = -deep * np.cos(angle) + np.array([0, -0.36]) * np.sin(angle)
        lid = np.array([left + deep, right + deep, right + deep + rise, left + deep + rise])
        opened = progress > START
        if opened:
            canvas.polygon(lid, darker(card, 0.72 if progress > 0.5 else 1.1), shade=0.15)
            canvas.polygon(mouth, darker(card, 0.3), shade=-0.2)
            back = np.array(
                [left + deep, right + deep, right + deep + (0, 0.08), left + deep + (0.03, 0.08)]
            )
            canvas.polygon(back, darker(card, 0.45), shade=0, edge=False)
            if filled:
                middle = mouth.mean(axis=0)
                canvas.ellipse(middle[0] - 0.08, middle[1] + 0.01, 0.1, 0.06, content)
                canvas.ellipse(middle[0] + 0.1, middle[1] + 0.01, 0.08, 0.05, ribbon)
        side = np.array([right, right + deep, right + deep + (0, 0.92 - top), (x1, 0.92)])
        canvas.polygon(side, darker(card, 0.7), shade=0.1)
        canvas.polygon(rectangle(x0, top, x1, 0.92), card, shade=0.15)
        middle = (x0 + x1) / 2
        canvas.polygon(
            rectangle(middle - 0.045, top, middle + 0.045, 0.92), ribbon, shade=0.15, edge=False
        )
        if not opened:
            canvas.polygon(mouth, darker(card, 1.12), shade=0.1)
            band = np.array([(middle - 0.045, top), (middle + 0.045, top)])
            canvas.polygon(
                np.concatenate([band, band[::-1] + deep]), darker(ribbon, 1.1), edge=False
            )
        elif progress <= 0.5:
            canvas.polygon(lid, darker(card, 1.1), shade=0.15)

    return paint


def book(rng: np.random.Generator) -> Paint:
    """Return the painter of a book; progress turns its cover over."""
    cover = draw_colour(rng, saturation=(0.4, 0.85), value=(0.35, 0.8))
    title = draw_colour(rng, saturation=(0.1, 0.6), value=(0.8, 0.98))
    paper = draw_colour(rng, (0.08, 0.16), (0.03, 0.16), (0.9, 0.98))
    high, lean = rng.uniform(0.3, 0.38), rng.uniform(0.02, 0.1)
    picture = draw_colour(rng)
    wide = 0.44

    def leaf(reach: float, lift: float, shrink: float = 0.0) -> np.ndarray:
        """Draw half a book from the spine to ``reach`` (negative: to the left)."""
        end, up = 0.5 + reach * wide * (1 - shrink), 0.52 - lift
        h = high * (1 - shrink)
        return np.array(
            [
                (0.5, 0.54 - h),
                (end, up - h - lean * abs(reach)),
                (end, up + h - lean * abs(reach)),
                (0.5, 0.54 + h),
            ]
        )

    def text(canvas: Canvas, sheet: np.ndarray, lines: int) -> None:
        for k in range(lines):
            share = 0.2 + 0.62 * k / max(lines - 1, 1)
            inner = sheet[0] + (sheet[3] - sheet[0]) * share
            outer = sheet[1] + (sheet[2] - sheet[1]) * share
            ends = [inner + (outer - inner) * 0.14, inner + (outer - inner) * 0.86]
            canvas.line(ends, 0.018, (120, 116, 116))

    def paint(canvas: Canvas, progress: float) -> None:
        turned = 0.0 if progress <= START else np.pi * progress
        reach, lift = np.cos(turned), 0.16 * np.sin(turned)
        canvas.polygon(moved(leaf(1, 0), 0.015, 0.035), darker(cover, 0.6))
        canvas.polygon(moved(leaf(1, 0, 0.03), 0.008, 0.02), darker(paper, 0.8), shade=0.1)
        page = leaf(1, 0, 0.05)
        canvas.polygon(page, paper, shade=0.08)
        if progress > START:
            text(canvas, page, 7)
        if reach < 0:
            canvas.polygon(moved(leaf(reach, lift), -0.015, 0.035), darker(cover, 0.8))
            back = leaf(reach, lift, 0.05)
            canvas.polygon(back, paper, shade=-0.1)
            text(canvas, back, 4)
            x, y = back.mean(axis=0)
            canvas.ellipse(x, y + 0.09, 0.11 * abs(reach), 0.08, picture, shade=0.1)
        else:
            front = leaf(reach, lift)
            canvas.polygon(front, cover, shade=0.2)
            strip = front[[0, 0, 3, 3]] + (front[[0, 1, 2, 3]] - front[[0, 0, 3, 3]]) * 0.14
            canvas.polygon(strip, darker(cover, 0.7), edge=False)
            x, y = front.mean(axis=0)
            x, side = x + 0.03 * reach, 0.11 * reach
            canvas.ellipse(x, y - 0.1, 1.1 * side, 0.1, title, shade=0.05)
            canvas.line([(x - side, y + 0.14), (x + side, y + 0.14)], 0.04, title)

    return paint


def umbrella(rng: np.random.Generator) -> Paint:
    """Return the painter of an umbrella; progress opens it."""
    cloth = draw_colour(rng, saturation=(0.45, 0.9), value=(0.45, 0.95))
    stripe = draw_colour(rng) if rng.random() < 0.5 else darker(cloth, 0.82)
    stick = draw_colour(rng, (0.05, 0.1), (0.3, 0.7), (0.3, 0.55))
    panels = int(rng.integers(5, 8))

    def paint(canvas: Canvas, progress: float) -> None:
        half = 0.075 + 0.385 * progress
        low = 0.76 - 0.27 * progress
        hook = arc(0.44, 0.89, 0.06, 0.07, 0, 170, 14)
        canvas.line(np.concatenate([[(0.5, 0.12), (0.5, 0.89)], hook]), 0.03, stick)
        edges = 0.5 + half * np.sin(np.linspace(-np.pi / 2, np.pi / 2, panels + 1))
        for k in range(panels):
            a, b = edges[k], edges[k + 1]
            hem = arc((a + b) / 2, low, (b - a) / 2, 0.05 * progress + 0.01, 0, -180, 8)
            bulge = 0.62 * progress
            up = [
                (0.5 + (x - 0.5) * (0.75 + 0.2 * bulge), 0.1 + (low - 0.1) * (0.55 - 0.32 * bulge))
                for x in (a, b)
            ]
            gore = np.concatenate([[(0.5, 0.1), up[1]], hem, [up[0]]])
            canvas.polygon(gore, cloth if k % 2 else stripe, shade=0.12)
        canvas.line([(0.5, 0.12), (0.5, 0.04)], 0.025, stick)
        if progress < 0.2:
            canvas.polygon(
                rectangle(0.42, 0.58, 0.58, 0.63), darker(cloth, 0.5), shade=0.1, edge=False
            )

    return paint
