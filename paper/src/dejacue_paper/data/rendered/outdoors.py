"""Drawings of things to play with and of the street. Each function fixes an appearance and
returns its painter."""

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
LEAF = (84, 150, 70)
LAMPS = ((235, 52, 44), (250, 196, 40), (60, 210, 90))


def cards(rng: np.random.Generator) -> Paint:
    """Return the painter of a stack of cards; progress puts the upper half aside."""
    back = draw_colour(rng, saturation=(0.5, 0.9), value=(0.35, 0.85))
    mark = draw_colour(rng, saturation=(0.1, 0.5), value=(0.85, 0.98))
    half = int(rng.integers(4, 7))
    skew, wide, high = rng.uniform(0.05, 0.1), rng.uniform(0.34, 0.4), rng.uniform(0.32, 0.4)
    step = rng.uniform(0.022, 0.028)

    def stack(canvas: Canvas, x: float, y: float, count: int) -> None:
        card = moved([(skew, 0), (wide + skew, 0), (wide, high), (0, high)], x, y)
        for _ in range(count - 1):
            canvas.polygon(card, (244, 242, 236), shade=0.2)
            card = moved(card, 0, -step)
        canvas.polygon(card, WHITE, shade=0.05)
        middle = card.mean(axis=0)
        canvas.polygon(middle + (card - middle) * 0.84, back, shade=0.12, edge=False)
        diamond = np.array([(0, -0.3), (0.3, 0), (0, 0.3), (-0.3, 0)]) * (wide, high) + middle
        canvas.polygon(diamond, mark, shade=0, edge=False)

    def paint(canvas: Canvas, progress: float) -> None:
        if progress <= START:
            stack(canvas, 0.28, 0.5, 2 * half)
            return
        x, y = 0.28 - 0.26 * progress, 0.5
        stack(canvas, x, y, half)
        lift = half * step * (1 - progress) + 0.12 * np.sin(np.pi * progress)
        stack(canvas, x + 0.5 * progress, y - lift, half)

    return paint


def flower(rng: np.random.Generator) -> Paint:
    """Return the painter of a flower in a pot; progress opens its bud."""
    petal = draw_colour(rng, (-0.25, 0.18), (0.4, 0.9), (0.75, 1.0))
    heart = draw_colour(rng, (0.05, 0.16), (0.6, 0.9), (0.5, 0.95))
    pot = draw_colour(rng, saturation=(0.3, 0.7), value=(0.45, 0.8))
    count, leaf = int(rng.integers(7, 11)), mix(LEAF, draw_colour(rng), 0.15)
    full = rng.uniform(0.075, 0.095)

    def paint(canvas: Canvas, progress: float) -> None:
        x, y = 0.5, 0.38
        canvas.line([(x, y), (0.49, 0.6), (0.5, 0.76)], 0.035, darker(leaf, 0.8))
        canvas.ellipse(0.4, 0.62, 0.11, 0.04, leaf, turn=0.6)
        canvas.ellipse(0.6, 0.66, 0.11, 0.04, leaf, turn=-0.6)
        canvas.polygon([(0.34, 0.76), (0.66, 0.76), (0.61, 0.96), (0.39, 0.96)], pot, shade=0.3)
        canvas.polygon(rectangle(0.32, 0.73, 0.68, 0.79), darker(pot, 1.12), shade=0.3)
        spread = np.radians(6 + 84 * min(2 * progress, 1) + 84 * max(2 * progress - 1, 0))
        length, width = 0.11 + 0.05 * progress, 0.05 + (full - 0.05) * progress
        order = np.argsort(-np.abs(np.arange(count) - (count - 1) / 2), kind="stable")
        for k in order:
            angle = -np.pi / 2 + spread * (2 * k / (count - 1) - 1) * (count - 1) / count
            reach = length * (1.0 if progress > 0.3 else 1.15)
            tip_x, tip_y = x + reach * np.cos(angle), y + reach * np.sin(angle)
            tone = petal if k % 2 else darker(petal, 0.86)
            canvas.ellipse(tip_x, tip_y, length, width, tone, turn=float(angle), shade=0.12)
        if progress > 0.3:
            size = 0.09 * min(1.0, (progress - 0.2) * 1.6)
            canvas.ellipse(x, y, size, size, heart, shade=0.2)
        if progress < 0.75:
            cover = 1 - progress / 0.75
            for side in (-1, 1):
                green = oval(
                    x + side * 0.045,
                    y - 0.07 * cover,
                    0.05 + 0.09 * cover,
                    0.05,
                    -np.pi / 2 + side * (0.15 + 0.5 * progress),
                )
                canvas.polygon(green, darker(leaf, 0.9), shade=0.2)
            canvas.ellipse(x, y + 0.03, 0.06, 0.045, darker(leaf, 0.8), shade=0.2)

    return paint


def balloon(rng: np.random.Generator) -> Paint:
    """Return the painter of a balloon on a stick; progress blows it up."""
    skin = draw_colour(rng, saturation=(0.55, 0.9), value=(0.6, 0.98))
    base = draw_colour(rng, saturation=(0.2, 0.7), value=(0.4, 0.8))
    long, limp = rng.uniform(1.0, 1.25), rng.choice([-1, 1])

    def limp_skin(canvas: Canvas, size: float) -> None:
        spine = np.array([(0.5, 0.66), (0.52, 0.56), (0.58, 0.53), (0.66, 0.58), (0.7, 0.7)])
        width = np.array([0.025, 0.05, 0.075, 0.07, 0.04]) * (1 + 2 * size)
        across = np.array([(1.0, 0.0), (0.7, 0.7), (0, 1.0), (-0.6, 0.8), (-1.0, 0.2)])
        shape = np.concatenate(
            [spine - across * width[:, None], (spine + across * width[:, None])[::-1]]
        )
        shape[:, 0] = 0.5 + limp * (shape[:, 0] - 0.5)
        canvas.polygon(shape, darker(skin, 0.85), shade=0.2)
        for k in (1, 2, 3):
            x, y = 0.5 + limp * (spine[k, 0] - 0.5), spine[k, 1]
            canvas.line([(x - 0.03, y - 0.02), (x + 0.03, y + 0.03)], 0.012, darker(skin, 0.5))

    def paint(canvas: Canvas, progress: float) -> None:
        canvas.line([(0.5, 0.64), (0.5, 0.9)], 0.022, (236, 236, 232))
        canvas.polygon([(0.4, 0.88), (0.6, 0.88), (0.65, 0.96), (0.35, 0.96)], base, shade=0.3)
        if progress < 0.12:
            limp_skin(canvas, progress)
            return
        rx = (0.08 + 0.28 * progress) / long**0.5
        ry = min(rx * long, 0.31)
        y = 0.63 - ry
        canvas.polygon(
            [(0.5, y + ry - 0.01), (0.54, 0.67), (0.46, 0.67)], darker(skin, 0.8), shade=0
        )
        canvas.ellipse(0.5, y, rx, ry, skin, shade=0.35)
        side = -canvas.view.light * (-1 if canvas.view.mirror else 1)
        shine = oval(0.5 + side * rx * 0.45, y - ry * 0.45, rx * 0.2, ry * 0.13, -side * 0.7)
        canvas.polygon(shine, mix(skin, WHITE, 0.3 + 0.5 * progress), shade=0, edge=False)

    return paint


def traffic_light(rng: np.random.Generator) -> Paint:
    """Return the painter of a traffic light; progress 0 is red, ½ yellow, 1 green."""
    case = draw_colour(rng, saturation=(0.05, 0.6), value=(0.2, 0.42))
    if rng.random() < 0.3:
        case = draw_colour(rng, (0.1, 0.15), (0.6, 0.85), (0.6, 0.8))
    lamps = [mix(lamp, draw_colour(rng), 0.08) for lamp in LAMPS]
    wide, pole = rng.uniform(0.19, 0.24), rng.random() < 0.6
    hoods, bottom = rng.random() < 0.6, 0.84

    def paint(canvas: Canvas, progress: float) -> None:
        if pole:
            canvas.polygon(rectangle(0.47, bottom, 0.53, 0.98), (110, 112, 116), shade=0.4)
        body = np.concatenate(
            [
                arc(0.5, 0.07, wide, 0.04, 180, 360, 10),
                arc(0.5, bottom - 0.02, wide, 0.04, 0, 180, 10),
            ]
        )
        canvas.polygon(body, case, shade=0.3)
        on = round(progress * 2 + 1e-9)
        for k, lamp in enumerate(lamps):
            y = 0.18 + 0.25 * k
            lit = k == on
            colour = lamp if lit else darker(mix(lamp, (90, 90, 90), 0.5), 0.4)
            canvas.ellipse(0.5, y, 0.108, 0.108, darker(case, 0.5), shade=0)
            canvas.ellipse(0.5, y, 0.096, 0.096, colour, shade=0.05 if lit else 0.3, edge=False)
            if lit:
                canvas.ellipse(0.5, y, 0.06, 0.06, mix(lamp, WHITE, 0.45), shade=0, edge=False)
                canvas.glow = (0.5, y, lamp, 0.35)
            if hoods:
                canvas.line(arc(0.5, y, 0.115, 0.115, 190, 350, 14), 0.028, darker(case, 0.7))

    return paint
