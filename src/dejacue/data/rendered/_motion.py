"""How the camera, the light, the hand and the object itself move: one value for every frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._story import Story
from dejacue.errors import InputError

SLIDE = 4  # frames in which an object leaves or comes back

Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Camera:
    """The point looked at, in shares of the frame's shorter side, and the zoom."""

    x: Curve
    y: Curve
    zoom: Curve


def draw_camera(rng: np.random.Generator, frames: int, level: float) -> Camera:
    """Slow pan and zoom, and a shake from frame to frame."""
    pan_x, pan_y, breath = (waves(rng, frames) for _ in range(3))
    shake = 0.012 * level * np.clip(rng.normal(size=(2, frames)), -3, 3)
    return Camera(
        0.1 * level * pan_x + shake[0],
        0.06 * level * pan_y + shake[1],
        1.0 + 0.14 * level * breath,
    )


def draw_light(rng: np.random.Generator, frames: int, level: float) -> Curve:
    """(frames, 3) gains: brightness and colour temperature drift, brightness flickers a little."""
    bright = 1.0 + 0.28 * level * waves(rng, frames) + 0.015 * level * rng.normal(size=frames)
    warm = 0.16 * level * waves(rng, frames)
    return np.stack([bright * (1 + warm), bright, bright * (1 - warm)], axis=1)


def waves(rng: np.random.Generator, frames: int) -> Curve:
    """A smooth curve between −1 and 1."""
    time = np.linspace(0, 2 * np.pi, frames)
    rates, phases = rng.uniform([0.4, 1.0, 2.0], [0.9, 1.8, 3.5]), rng.uniform(0, 2 * np.pi, 3)
    weights = np.array([0.6, 0.3, 0.1])
    curve: Curve = np.sin(time[:, None] * rates + phases) @ weights
    return curve


def draw_exits(rng: np.random.Generator, story: Story, count: int) -> Curve:
    """How far the object has left in every frame: 0 there, ±1 just outside the picture.

    Of every episode at least half of the frames, and at least three, stay in the picture.
    """
    frames = len(story.progress)
    away = np.zeros(frames)
    for _ in range(count):
        for attempt in range(200):
            most = max(3, round(frames * 0.12 * (1 - attempt / 200)))
            length = int(rng.integers(2, most + 1)) + 2 * SLIDE
            start = int(rng.integers(2, max(frames - length - 2, 3)))
            tried = away.copy()
            tried[start : start + length] = _exit(rng, length)[: frames - start]
            free = not away[max(start - 2, 0) : start + length + 2].any()
            if free and start + length < frames - 1 and _enough_left(story, tried):
                away = tried
                break
        else:
            raise InputError(
                f"render: {count} exits do not fit into {frames} frames; use fewer exits or more "
                "frames"
            )
    return away


def _exit(rng: np.random.Generator, length: int) -> Curve:
    ease = np.arange(1, SLIDE + 1) / SLIDE
    sides = rng.choice([-1.0, 1.0], size=2)  # it may come back from the other side
    gone = np.full(length - 2 * SLIDE, sides[1])
    return np.concatenate([sides[0] * ease, gone, sides[1] * ease[::-1]])


def _enough_left(story: Story, away: Curve) -> bool:
    for _, first, last in story.runs():
        there = int((away[first : last + 1] == 0).sum())
        if there < max(3, (last + 1 - first) / 2):
            return False
    return True


@dataclass(frozen=True)
class HandReach:
    """A hand that reaches over the object and draws back: from ``start`` for ``length`` frames."""

    start: int
    length: int
    angle: float  # where it comes from, radians from the right, clockwise
    aside: float  # how far it misses the middle, in sizes of the object
    depth: float  # how far it reaches beyond, likewise

    def reach(self, frame: int) -> float | None:
        """0 outside, 1 where it has reached farthest; None while the hand is out of the picture."""
        at = (frame - self.start + 1) / (self.length + 1)
        return float(np.sin(np.pi * at)) if 0 < at < 1 else None


def draw_reaches(rng: np.random.Generator, frames: int, level: float) -> tuple[HandReach, ...]:
    """Up to three; none at level 0."""
    reaches = []
    for _ in range(int(np.ceil(3 * level))):
        length = int(rng.integers(8, max(9, frames // 7)))
        reaches.append(
            HandReach(
                start=int(rng.integers(0, max(frames - length, 1))),
                length=length,
                angle=float(rng.choice([0.25, 0.6, 2.5, 2.9]) + rng.uniform(-0.2, 0.2)),
                aside=rng.uniform(-0.25, 0.25),
                depth=rng.uniform(-0.25, 0.1 + 0.1 * level),
            )
        )
    return tuple(reaches)
