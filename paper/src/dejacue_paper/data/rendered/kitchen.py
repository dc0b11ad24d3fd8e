"""Drawings of things in a kitchen. Each function fixes an appearance and returns its painter."""

from __future__ import annotations

import numpy as np

from dejacue_paper.data.rendered.drawing import (
    START,
    Canvas,
    Colour,
    Paint,
    arc,
    between,
    darker,
    draw_colour,
    mix,
    moved,
    oval,
    rectangle,
)

WHITE = (250, 250, 248)
DARK = (48, 40, 38)
FRUITS: tuple[tuple[Colour, Colour, str], ...] = (  # skin, flesh, what the cut shows
    ((196, 40, 44), (250, 238, 200), "seeds"),
    ((128, 176, 50), (244, 244, 206), "seeds"),
    ((240, 140, 24), (252, 186, 82), "segments"),
    ((244, 212, 48), (252, 240, 150), "segments"),
    ((122, 88, 48), (138, 192, 62), "seeds"),
    ((40, 116, 54), (230, 66, 70), "seeds"),
    ((176, 48, 96), (250, 190, 160), "seeds"),
)


def cup(rng: np.random.Generator) -> Paint:
    """Return the painter of a glass cup; progress is how full it is."""
    glass = draw_colour(rng, saturation=(0.04, 0.16), value=(0.84, 0.95))
    drink = draw_colour(rng, saturation=(0.45, 0.9), value=(0.3, 0.85))
    top = rng.uniform(0.27, 0.36)
    foot = top * rng.uniform(0.62, 0.95)
    rim = rng.uniform(0.1, 0.28)
    open_ = rng.uniform(0.2, 0.32)  # height over width of the rim, as seen
    handle = rng.random() < 0.5

    def at(level: float) -> tuple[float, float, float]:
        """Return height, half width and half depth of a cross-section."""
        width = foot + (top - foot) * level
        return 0.9 + (rim - 0.9) * level, width, width * open_

    def body(low: float, high: float, shrink: float) -> np.ndarray:
        (y0, w0, d0), (y1, w1, d1) = at(low), at(high)
        return np.concatenate(
            [
                arc(0.5, y1, w1 * shrink, d1 * shrink, 180, 0),
                arc(0.5, y0, w0 * shrink, d0 * shrink, 0, 180),
            ]
        )

    def paint(canvas: Canvas, progress: float) -> None:
        if handle:
            y, width, _ = at(0.55)
            canvas.line(arc(0.5 + width, y, 0.14, 0.2, -95, 95), 0.06, darker(glass, 0.7))
            canvas.line(arc(0.5 + width, y, 0.14, 0.2, -92, 92), 0.03, glass)
        canvas.polygon(body(0, 1, 1), glass, shade=0.18)
        y, width, depth = at(1)
        canvas.ellipse(0.5, y, width, depth, darker(glass, 0.8), shade=-0.2)
        if progress > START:
            level = 0.06 + 0.84 * progress
            canvas.polygon(body(0.06, level, 0.9), drink, shade=0.3, edge=False)
            surface_y, surface_w, surface_d = at(level)
            surface = mix(drink, WHITE, 0.3)
            canvas.ellipse(0.5, surface_y, surface_w * 0.9, surface_d * 0.9, surface, shade=0.1)
        canvas.line(arc(0.5, y, width, depth, 0, 180), 0.016, mix(glass, WHITE, 0.6))
        shine = 0.5 - canvas.view.light * (-1 if canvas.view.mirror else 1) * foot * 0.62
        canvas.line([(shine, 0.8), (shine, rim + 0.2)], 0.035, mix(glass, WHITE, 0.8))

    return paint


def fruit(rng: np.random.Generator) -> Paint:
    """Return the painter of a fruit; progress cuts it into halves or slices."""
    skin, flesh, inside = FRUITS[rng.integers(len(FRUITS))]
    skin = mix(skin, draw_colour(rng), 0.12)
    long = rng.uniform(0.9, 1.25)
    pieces = int(rng.choice([2, 2, 3, 4]))
    leaf = rng.random() < 0.7

    def whole(canvas: Canvas, cut: float) -> None:
        rx, ry = 0.36 * long**0.5, 0.36 / long**0.5
        canvas.ellipse(0.5, 0.56, rx, ry, skin, shade=0.4)
        canvas.ellipse(0.5, 0.56 - ry * 0.86, rx * 0.2, ry * 0.08, darker(skin, 0.6), shade=0)
        canvas.line([(0.5, 0.57 - ry * 0.9), (0.53, 0.46 - ry)], 0.03, (92, 66, 40))
        if leaf:
            canvas.ellipse(0.63, 0.5 - ry, 0.12, 0.045, (78, 140, 56), turn=-0.3)
        side = -canvas.view.light * (-1 if canvas.view.mirror else 1)
        spot = oval(0.5 + side * rx * 0.45, 0.56 - ry * 0.4, rx * 0.2, ry * 0.14, -side * 0.5)
        canvas.polygon(spot, mix(skin, WHITE, 0.55), shade=0, edge=False)
        if cut > 2 * START:
            canvas.line([(0.5, 0.56 - ry), (0.5, 0.56 - ry + 2 * ry * cut)], 0.03, flesh)

    def face(canvas: Canvas, x: float, y: float, rx: float, ry: float) -> None:
        canvas.ellipse(x + rx * 0.2, y, rx, ry, darker(skin, 0.8), shade=0.2)
        canvas.ellipse(x, y, rx, ry, skin, shade=0.1)
        canvas.ellipse(x, y, rx * 0.84, ry * 0.84, flesh, shade=0.08, edge=False)
        if inside == "segments":
            pith = mix(flesh, WHITE, 0.75)
            for angle in np.arange(6) * np.pi / 6:
                dx, dy = 0.82 * rx * np.cos(angle), 0.82 * ry * np.sin(angle)
                canvas.line([(x - dx, y - dy), (x + dx, y + dy)], 0.018, pith)
        else:
            canvas.ellipse(x, y, rx * 0.3, ry * 0.3, mix(flesh, WHITE, 0.4), shade=0, edge=False)
            for angle in np.arange(6) * np.pi / 3 + 0.4:
                dx, dy = rx * 0.42 * np.cos(angle), ry * 0.42 * np.sin(angle)
                canvas.ellipse(x + dx, y + dy, rx * 0.09, ry * 0.1, DARK, shade=0, edge=False)

    def paint(canvas: Canvas, progress: float) -> None:
        if progress < 0.5:
            whole(canvas, 2 * progress)
            return
        apart = 2 * progress - 1
        rx, ry = (0.24, 0.3) if pieces == 2 else (0.2, 0.3)
        step = (1 - 2 * rx - 0.06) / (pieces - 1) * (0.5 + 0.5 * apart)
        for piece in range(pieces):
            x = 0.48 + (piece - (pieces - 1) / 2) * step
            face(canvas, x, 0.58 + 0.05 * (piece % 2), rx, ry)

    return paint


def toast(rng: np.random.Generator) -> Paint:
    """Return the painter of a slice of bread; progress is how long it was in the toaster."""
    crumb = [
        draw_colour(rng, (0.10, 0.14), (0.08, 0.2), (0.94, 0.99)),
        draw_colour(rng, (0.085, 0.11), (0.6, 0.75), (0.78, 0.88)),
        draw_colour(rng, (0.03, 0.08), (0.3, 0.6), (0.13, 0.2)),
    ]
    width, high = rng.uniform(0.34, 0.42), rng.uniform(0.08, 0.2)
    lobes, grill = rng.random() < 0.6, rng.random() < 0.4
    spots = rng.uniform(-1, 1, size=(14, 2)) * (width * 0.75, 0.28)
    sizes = rng.uniform(0.015, 0.045, size=14)

    def outline(shrink: float) -> np.ndarray:
        w, y = width * shrink, 0.5 - 0.4 * shrink
        if lobes:
            crown = np.concatenate(
                [
                    arc(0.5 - w * 0.52, y + high, w * 0.6, high * 1.1, 150, 300, 12),
                    arc(0.5 + w * 0.52, y + high, w * 0.6, high * 1.1, 240, 390, 12),
                ]
            )
        else:
            crown = arc(0.5, y + high, w, high * 1.1, 180, 360)
        foot = 0.5 + 0.4 * shrink
        return np.concatenate([crown, [(0.5 + w * 0.92, foot), (0.5 - w * 0.92, foot)]])

    def paint(canvas: Canvas, progress: float) -> None:
        colour = between(crumb, progress)
        crust = mix(between([(190, 130, 70), (150, 88, 40), (30, 22, 18)], progress), colour, 0.1)
        canvas.polygon(moved(outline(1.0), 0.03, 0.02), darker(crust, 0.75))
        canvas.polygon(outline(1.0), crust)
        canvas.polygon(outline(0.86), colour, shade=0.1, edge=False)
        if grill and progress > 0.2:
            for y in (0.36, 0.5, 0.64, 0.78):
                canvas.line(
                    [(0.5 - width * 0.7, y), (0.5 + width * 0.7, y)], 0.03, darker(colour, 0.72)
                )
        for (x, y), size in zip(spots, sizes, strict=True):
            tone = darker(colour, 0.9 - 0.35 * progress)
            canvas.ellipse(0.5 + x, 0.54 + y, size, size * 0.8, tone, shade=0, edge=False)

    return paint


def pizza(rng: np.random.Generator) -> Paint:
    """Return the painter of a pizza of eight slices on a plate; progress is how much is eaten."""
    plate = draw_colour(rng, (0.35, 0.75), (0.02, 0.3), (0.8, 0.97))  # not like a pizza
    crust = draw_colour(rng, (0.07, 0.1), (0.5, 0.7), (0.65, 0.82))
    sauce = draw_colour(rng, (0.02, 0.13), (0.6, 0.8), (0.8, 0.95))
    topping = draw_colour(rng, (-0.05, 0.35), (0.6, 0.85), (0.4, 0.75))
    flat, start = rng.uniform(0.72, 1.0), rng.uniform(0, 360)
    where = rng.uniform(0.3, 0.75, size=16)

    def wedge(radius: float, angles: float) -> np.ndarray:
        rim = arc(0.5, 0.52, radius, radius * flat, start, start + angles, 40)
        return rim if angles >= 360 else np.concatenate([[(0.5, 0.52)], rim])

    def paint(canvas: Canvas, progress: float) -> None:
        left = 8 - round(progress * 7 + 1e-9)
        canvas.ellipse(0.5, 0.54, 0.47, 0.47 * flat, darker(plate, 0.75))
        canvas.ellipse(0.5, 0.52, 0.47, 0.47 * flat, plate, shade=0.12)
        canvas.ellipse(0.5, 0.52, 0.36, 0.36 * flat, darker(plate, 0.92), shade=-0.1)
        canvas.polygon(wedge(0.41, 45 * left), crust)
        canvas.polygon(wedge(0.35, 45 * left), sauce, shade=0.12, edge=False)
        for piece in range(left):
            cut = arc(0.5, 0.52, 0.41, 0.41 * flat, start + 45 * piece, start + 45 * piece, 1)
            canvas.line([(0.5, 0.52), cut[0]], 0.014, darker(crust, 0.7))
            for k in (0, 1):
                r, angle = where[2 * piece + k] * 0.38, start + 45 * piece + 14 + 17 * k
                (x, y), *_ = arc(0.5, 0.52, r, r * flat, angle, angle, 1)
                canvas.ellipse(x, y, 0.042, 0.042 * flat, topping, shade=0.1)

    return paint


def bottle(rng: np.random.Generator) -> Paint:
    """Return the painter of a bottle; progress moves its cap up and aside."""
    glass = draw_colour(rng, saturation=(0.2, 0.7), value=(0.4, 0.85))
    cap = draw_colour(rng, saturation=(0.5, 0.9), value=(0.5, 0.95))
    paper = draw_colour(rng, saturation=(0.05, 0.4), value=(0.85, 0.98))
    width, neck = rng.uniform(0.2, 0.27), rng.uniform(0.085, 0.115)
    shoulder = rng.uniform(0.42, 0.52)
    stays = rng.random() < 0.6  # the cap lies beside the bottle

    def lid(canvas: Canvas, x: float, y: float) -> None:
        w = neck * 1.3
        canvas.polygon(rectangle(x - w, y - 0.13, x + w, y), cap, shade=0.35)
        for k in (-0.5, 0.0, 0.5):
            canvas.line([(x + k * w, y - 0.09), (x + k * w, y - 0.02)], 0.012, darker(cap, 0.65))
        canvas.ellipse(x, y - 0.13, w, 0.035, darker(cap, 1.15), shade=0.1)

    def paint(canvas: Canvas, progress: float) -> None:
        x = 0.44 if stays else 0.5
        canvas.polygon(
            np.concatenate(
                [
                    [(x - neck, 0.2), (x + neck, 0.2), (x + neck, 0.3)],
                    arc(x + neck, shoulder, width - neck, shoulder - 0.32, -80, 0, 8),
                    arc(x, 0.92, width, 0.06, 0, 180),
                    arc(x - neck, shoulder, width - neck, shoulder - 0.32, 180, 260, 8),
                    [(x - neck, 0.3)],
                ]
            ),
            glass,
            shade=0.35,
        )
        canvas.polygon(rectangle(x - width, 0.58, x + width, 0.82), paper, shade=0.2)
        canvas.line([(x - width * 0.6, 0.7), (x + width * 0.6, 0.7)], 0.05, cap)
        canvas.line(
            [(x - width * 0.72, 0.52), (x - width * 0.72, 0.9)], 0.03, mix(glass, WHITE, 0.5)
        )
        if progress <= START:
            lid(canvas, x, 0.26)
            return
        for y in (0.235, 0.275):
            canvas.line([(x - neck, y), (x + neck, y + 0.012)], 0.014, darker(glass, 0.6))
        canvas.ellipse(x, 0.19, neck * 1.05, 0.042, mix(glass, WHITE, 0.45), shade=0)
        canvas.ellipse(x, 0.19, neck * 0.75, 0.026, DARK, shade=0, edge=False)
        if progress < 0.5:
            lid(canvas, x + 0.5 * progress, 0.26 - 0.3 * progress)
        elif stays:
            share = 2 * progress - 1
            lid(canvas, x + 0.25 + 0.14 * share, 0.11 + 0.85 * share)

    return paint
