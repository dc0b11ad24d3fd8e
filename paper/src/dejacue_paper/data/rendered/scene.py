"""A scene: one object that changes its state before a camera, with the truth about every frame.

The object, other objects and hands are sprites in front of a backdrop; the camera, the light, the
hands and the object itself move by one value per frame; the lens adds light falloff and grain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.records import Vocabulary, Window
from dejacue_paper.data.rendered.degrade import MaskNoise, blurred, compressed
from dejacue_paper.data.rendered.drawing import (
    UNIT,
    Colour,
    Drawing,
    Placement,
    Sprite,
    cast,
    darker,
    draw_colour,
    stamp,
)
from dejacue_paper.data.rendered.story import Family, Story

MIN_LABELLED_PIXELS = 12  # of an object in a frame; with fewer it is not labelled
SLIDE_FRAMES = 4  # in which an object leaves or comes back
GRAIN_MARGIN = 64  # spare rows and columns of the grain, to start elsewhere in every frame
BACKDROP_SCALE = 1.6  # how much larger than the frame, for the camera to move over
PATTERNS = ("plain", "planks", "tiles", "stripes", "cloth", "ground")

Curve = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Thing:
    """A sprite in the world: its centre, from the middle of the backdrop, and its size; both as
    shares of the frame's shorter side."""

    sprite: Sprite
    x: float
    y: float
    side: float
    progress: float = 0.0


@dataclass(frozen=True, eq=False, repr=False)
class RenderedScene:
    """What ``render`` returns. Frames are drawn on access, each independently of the others.

    frames         how many there are; size (height, width); rate in frames per second
    vocabulary     the states that occur, in words only
    visible        (frames,) where at least 12 pixels of the target can be seen
    blur, blocks   levels from 0 (none) to 1 of blur and compression
    mask_noise     how ``labels`` differ from ``true_labels``, or None where they do not
    references     state → its windows. A window is one episode of the state, from its first to
                   its last visible frame: it is not split where the object is out of sight.

    Iterating gives (image, labels): (H, W, 3) uint8 and (H, W) uint8, where 0 is background (and
    the hand), 1 the target, 2 … the distractors; only visible pixels are labelled.
    """

    seed: int
    family: Family
    story: Story
    frames: int
    size: tuple[int, int]
    rate: float
    vocabulary: Vocabulary
    target: Thing
    distractors: tuple[Thing, ...]
    backdrop: Any
    camera: Camera
    away: NDArray[np.float64]
    light: NDArray[np.float64]
    reaches: tuple[tuple[HandReach, Sprite], ...]
    lens: Lens
    blur: float = 0.0
    blocks: float = 0.0
    mask_noise: MaskNoise | None = None

    @property
    def id(self) -> str:
        return f"{self.family.name.replace(' ', '-')}-{self.story.topology}-{self.seed}"

    @property
    def topology(self) -> str:
        return self.story.topology

    @property
    def progress(self) -> NDArray[np.float64]:
        """Return (frames,) values from 0 (first state of the family) to 1 (last)."""
        return self.story.progress

    @cached_property
    def states(self) -> tuple[str | None, ...]:
        """Return the state of every frame, visible or not; None in between."""
        names = (*self.family.states, None)
        return tuple(names[label] for label in self.story.labels)

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        return np.array([self._is_visible(frame) for frame in range(self.frames)])

    @cached_property
    def references(self) -> Mapping[str, tuple[Window, ...]]:
        windows: dict[str, tuple[Window, ...]] = dict.fromkeys(self.vocabulary.states, ())
        for label, first, last in self.story.runs():
            visible = first + np.flatnonzero(self.visible[first : last + 1])
            if visible.size:
                state = self.family.states[label]
                windows[state] += (Window(int(visible[0]), int(visible[-1])),)
        return windows

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        for frame in range(self.frames):
            yield self.frame(frame)

    def frame(self, frame: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the image and the labels of one frame; the labels have the mask noise."""
        image = self._background(frame)
        labels = self._compose(frame, image)
        if self.blur:
            image = blurred(image, 2.2 * self.blur)
        image = self.lens.expose(image, frame, self.light[frame])
        if self.blocks:
            image = compressed(image, self.blocks)
        return image, self._with_noise(labels, frame)

    def image(self, frame: int) -> NDArray[np.uint8]:
        return self.frame(frame)[0]

    def labels(self, frame: int) -> NDArray[np.uint8]:
        """Return the labels of one frame with the mask noise."""
        return self._with_noise(self.true_labels(frame), frame)

    def true_labels(self, frame: int) -> NDArray[np.uint8]:
        return self._compose(frame, None)

    def area(self, frame: int) -> float:
        """Return the pixels that the whole target would cover with nothing in front of it."""
        opaque = self._drawing(frame).image.getchannel("a").histogram()[255] / UNIT**2
        return float(opaque * self._place(self.target, frame).side ** 2)

    def _with_noise(self, labels: NDArray[np.uint8], frame: int) -> NDArray[np.uint8]:
        return labels if self.mask_noise is None else self.mask_noise(labels, frame)

    def _background(self, frame: int) -> NDArray[np.uint8]:
        from PIL import Image

        (height, width), zoom, unit = self.size, self.camera.zoom[frame], min(self.size)
        x = self.backdrop.width / 2 + self.camera.x[frame] * unit
        y = self.backdrop.height / 2 + self.camera.y[frame] * unit
        half_w, half_h = width / zoom / 2, height / zoom / 2
        view = (x - half_w, y - half_h, x + half_w, y + half_h)
        return np.array(self.backdrop.resize((width, height), Image.Resampling.BILINEAR, view))

    def _compose(self, frame: int, image: NDArray[np.uint8] | None) -> NDArray[np.uint8]:
        """Draw everything into the image, from the back to the front, and return the labels."""
        labels = np.zeros(self.size, dtype=np.uint8)
        for label, thing in enumerate(self.distractors, start=2):
            drawing, place = thing.sprite.drawing(thing.progress), self._place(thing, frame)
            if image is not None:
                cast(drawing, place, image)
            stamp(drawing, place, image, labels, label)
        drawing, place = self._drawing(frame), self._place(self.target, frame)
        if image is not None:
            cast(drawing, place, image)
        stamp(drawing, place, image, labels, 1)
        for place, sprite in self._hands(frame):
            stamp(sprite.drawing(0.0), place, image, labels, 0)
        for label, count in enumerate(np.bincount(labels.ravel())[1:], start=1):
            if 0 < count < MIN_LABELLED_PIXELS:
                labels[labels == label] = 0
        return labels

    def _drawing(self, frame: int) -> Drawing:
        flicker = (-1.0, 0.2, 1.0, -0.3)[frame % 4] if self.family.animated else 0.0
        return self.target.sprite.drawing(float(self.progress[frame]), flicker)

    def _place(self, thing: Thing, frame: int, *, away: bool = True) -> Placement:
        """Return where a thing is seen; the target may have slid ``away``, out of the picture."""
        height, width = self.size
        scale = min(self.size) * self.camera.zoom[frame]
        side = thing.side * scale
        x = width / 2 + (thing.x - self.camera.x[frame]) * scale
        y = height / 2 + (thing.y - self.camera.y[frame]) * scale
        if away and thing is self.target and self.away[frame]:
            share = self.away[frame]
            outside = width / 2 + np.sign(share) * (width + 1.4 * side) / 2
            x += abs(share) * (outside - x)
        return Placement(x - side / 2, y - side / 2, side)

    def _hands(self, frame: int) -> Iterator[tuple[Placement, Sprite]]:
        height, width = self.size
        object_ = self._place(self.target, frame, away=False)  # a hand does not follow it outside
        for hand, sprite in self.reaches:
            reach = hand.reach(frame)
            if reach is None:
                continue
            side = 1.5 * max(height, width)
            toward = np.array([np.cos(hand.angle), np.sin(hand.angle)])
            tip = np.array([object_.left, object_.top]) + object_.side / 2
            tip += object_.side * hand.aside * np.array([-toward[1], toward[0]])
            tip -= toward * (hand.depth * object_.side - (1 - reach) * 0.8 * width)
            yield Placement(tip[0] - side / 2, tip[1] - side / 2, side), sprite

    def _is_visible(self, frame: int) -> bool:
        """Return whether the target can be seen; nothing is drawn where the answer is clear:
        its middle is well inside, and no hand is there."""
        place, (height, width) = self._place(self.target, frame), self.size
        inside = (
            place.left + place.side > 0.5 * place.side
            and place.left < width - 0.5 * place.side
            and place.top > -0.25 * place.side
            and place.top + place.side < height + 0.25 * place.side
        )
        if inside and not any(hand.reach(frame) is not None for hand, _ in self.reaches):
            return True
        return bool((self.true_labels(frame) == 1).any())

    def __repr__(self) -> str:
        return f"<RenderedScene {self.id}: {self.frames} frames of {self.size[1]}×{self.size[0]}>"


@dataclass(frozen=True, eq=False)
class Lens:
    """Darkens the corners and adds grain."""

    falloff: NDArray[np.float32]  # (H, W, 1), about 1
    grain: NDArray[np.float32]  # (H + GRAIN_MARGIN, W + GRAIN_MARGIN, 3)
    starts: NDArray[np.int64]  # (frames, 2), where in the grain a frame begins

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        frames: int,
        size: tuple[int, int],
        lighting: float,
        noise: float,
    ) -> Lens:
        height, width = size
        across = np.linspace(-1, 1, width)[None] * np.cos(turn := rng.uniform(0, 2 * np.pi))
        down = np.linspace(-1, 1, height)[:, None] * np.sin(turn)
        grain = rng.standard_normal((height + GRAIN_MARGIN, width + GRAIN_MARGIN, 3), np.float32)
        return cls(
            (1 + 0.18 * lighting * (across + down)).astype(np.float32)[:, :, None],
            grain * np.float32(24 * noise),
            rng.integers(0, GRAIN_MARGIN, size=(frames, 2)),
        )

    def expose(
        self, image: NDArray[np.uint8], frame: int, gains: NDArray[np.float64]
    ) -> NDArray[np.uint8]:
        """Return the frame as it is recorded."""
        height, width = image.shape[:2]
        y, x = self.starts[frame]
        light = image.astype(np.float32)
        light *= self.falloff * gains.astype(np.float32)
        light += self.grain[y : y + height, x : x + width]
        np.clip(light, 0, 255, out=light)
        return light.astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Camera:
    """The point looked at, in shares of the frame's shorter side, and the zoom."""

    x: Curve
    y: Curve
    zoom: Curve


def draw_camera(rng: np.random.Generator, frames: int, level: float) -> Camera:
    """Draw slow pan and zoom, and a shake from frame to frame."""
    pan_x, pan_y, breath = (waves(rng, frames) for _ in range(3))
    shake = 0.012 * level * np.clip(rng.normal(size=(2, frames)), -3, 3)
    return Camera(
        0.1 * level * pan_x + shake[0],
        0.06 * level * pan_y + shake[1],
        1.0 + 0.14 * level * breath,
    )


def draw_light(rng: np.random.Generator, frames: int, level: float) -> Curve:
    """Draw (frames, 3) gains: brightness and colour temperature drift, with a little flicker."""
    bright = 1.0 + 0.28 * level * waves(rng, frames) + 0.015 * level * rng.normal(size=frames)
    warm = 0.16 * level * waves(rng, frames)
    return np.stack([bright * (1 + warm), bright, bright * (1 - warm)], axis=1)


def waves(rng: np.random.Generator, frames: int) -> Curve:
    """Draw a smooth curve between −1 and 1."""
    time = np.linspace(0, 2 * np.pi, frames)
    rates, phases = rng.uniform([0.4, 1.0, 2.0], [0.9, 1.8, 3.5]), rng.uniform(0, 2 * np.pi, 3)
    weights = np.array([0.6, 0.3, 0.1])
    curve: Curve = np.sin(time[:, None] * rates + phases) @ weights
    return curve


def draw_exits(rng: np.random.Generator, story: Story, count: int) -> Curve:
    """Draw how far the object has left in every frame: 0 there, ±1 just outside the picture.

    At least half of the frames of every episode, and at least three, stay in the picture.
    """
    frames = len(story.progress)
    away = np.zeros(frames)
    for _ in range(count):
        for attempt in range(200):
            most = max(3, round(frames * 0.12 * (1 - attempt / 200)))
            length = int(rng.integers(2, most + 1)) + 2 * SLIDE_FRAMES
            start = int(rng.integers(2, max(frames - length - 2, 3)))
            tried = away.copy()
            tried[start : start + length] = _exit(rng, length)[: frames - start]
            free = not away[max(start - 2, 0) : start + length + 2].any()
            if free and start + length < frames - 1 and _enough_left(story, tried):
                away = tried
                break
        else:
            raise InputError(
                f"render: {count} exits do not fit into {frames} frames; "
                "use fewer exits or more frames"
            )
    return away


def _exit(rng: np.random.Generator, length: int) -> Curve:
    ease = np.arange(1, SLIDE_FRAMES + 1) / SLIDE_FRAMES
    sides = rng.choice([-1.0, 1.0], size=2)  # it may come back from the other side
    gone = np.full(length - 2 * SLIDE_FRAMES, sides[1])
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
        """Return 0 outside … 1 farthest in, or None while the hand is out of the picture."""
        at = (frame - self.start + 1) / (self.length + 1)
        return float(np.sin(np.pi * at)) if 0 < at < 1 else None


def draw_reaches(rng: np.random.Generator, frames: int, level: float) -> tuple[HandReach, ...]:
    """Draw up to three; none at level 0."""
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


def draw_backdrop(rng: np.random.Generator, size: tuple[int, int], clutter: float) -> Any:
    """Draw an RGB image, BACKDROP_SCALE times the frame, with the frame's centre in the middle."""
    from PIL import Image

    height, width = (round(BACKDROP_SCALE * side) for side in size)
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
    """Draw (height, width) brightness around 1."""
    pattern = PATTERNS[rng.integers(len(PATTERNS))]
    y, x = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None]
    period = unit * rng.uniform(0.12, 0.25)
    if pattern == "planks":
        row = (y // period).astype(int)
        tones = rng.uniform(0.88, 1.08, size=int(height // period) + 1)
        grain = _clouds(rng, height, max(width // 24, 2), 3 * height // 8)
        tone = tones[row] * (1 - 0.25 * (y % period < 1.5)) + 0.06 * _resized(grain, height, width)
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
    """Draw smooth noise between about −1 and 1."""
    grid = rng.uniform(-1, 1, size=(max(cells, 2), max(cells * width // height, 2)))
    return _resized(grid.astype(np.float32), height, width)


def _resized(values: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    from PIL import Image

    return np.asarray(Image.fromarray(values).resize((width, height), Image.Resampling.BICUBIC))


def _thing(rng: np.random.Generator, image: Any, unit: int) -> None:
    """Draw a plate, a block, a stick or a sheet, with a shadow; never one of the families."""
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
