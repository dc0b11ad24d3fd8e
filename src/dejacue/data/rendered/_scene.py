"""A scene: one object that changes its state before a camera, with the truth about every frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._degrade import Lens, MaskNoise
from dejacue.data.rendered._families import Family
from dejacue.data.rendered._motion import Camera, HandReach
from dejacue.data.rendered._sprites import Drawing, Place, Sprite, cast, stamp
from dejacue.data.rendered._story import Story
from dejacue.records import Vocabulary, Window

FEWEST_PIXELS = 12  # of an object in a frame; with fewer it is not labelled


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
class Scene:
    """What ``render`` gives. Frames are drawn on access, each independently of the others.

    frames       how many there are; size (height, width); rate in frames per second
    vocabulary   the states that occur, in words only
    visible      (frames,) where at least 12 pixels of the target can be seen
    references   state → its windows. A window is one episode of the state, from its first to its
                 last visible frame: it is not split where the object is out of sight for a while.
    mask_noise   how the given masks differ from the true ones, or None

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
    mask_noise: MaskNoise | None

    @property
    def id(self) -> str:
        return f"{self.family.name.replace(' ', '-')}-{self.story.topology}-{self.seed}"

    @property
    def topology(self) -> str:
        return self.story.topology

    @property
    def progress(self) -> NDArray[np.float64]:
        """(frames,) from 0 (first state of the family) to 1 (last)."""
        return self.story.progress

    @cached_property
    def states(self) -> tuple[str | None, ...]:
        """The state of every frame, visible or not; None in between."""
        names = (*self.family.states, None)
        return tuple(names[label] for label in self.story.labels)

    @cached_property
    def visible(self) -> NDArray[np.bool_]:
        return np.array([self._is_visible(frame) for frame in range(self.frames)])

    @cached_property
    def references(self) -> Mapping[str, tuple[Window, ...]]:
        found: dict[str, tuple[Window, ...]] = dict.fromkeys(self.vocabulary.states, ())
        for label, first, last in self.story.runs():
            seen = first + np.flatnonzero(self.visible[first : last + 1])
            if seen.size:
                state = self.family.states[label]
                found[state] = (*found[state], Window(int(seen[0]), int(seen[-1])))
        return found

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        for frame in range(self.frames):
            yield self.frame(frame)

    def frame(self, frame: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """(image, given labels) of one frame."""
        image, labels = self._composed(frame)
        return self.lens.expose(image, frame, self.light[frame]), self._given(labels, frame)

    def image(self, frame: int, *, target: bool = True) -> NDArray[np.uint8]:
        """One frame; without the target, what it casts (shadow, light) stays."""
        image, _ = self._composed(frame, target=target)
        return self.lens.expose(image, frame, self.light[frame])

    def labels(self, frame: int) -> NDArray[np.uint8]:
        """The given labels of one frame: with the mask noise."""
        return self._given(self.true_labels(frame), frame)

    def true_labels(self, frame: int) -> NDArray[np.uint8]:
        """The labels of one frame without mask noise."""
        labels = np.zeros(self.size, dtype=np.uint8)
        self._put_everything(frame, None, labels, target=True)
        return labels

    def area(self, frame: int) -> float:
        """The pixels that the target would cover with nothing in front, all in the picture."""
        return self._drawing(frame).area * self._place(self.target, frame).side ** 2

    def _given(self, labels: NDArray[np.uint8], frame: int) -> NDArray[np.uint8]:
        return labels if self.mask_noise is None else self.mask_noise(labels, frame)

    def _composed(
        self, frame: int, *, target: bool = True
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        image = self._background(frame)
        labels = np.zeros(self.size, dtype=np.uint8)
        self._put_everything(frame, image, labels, target=target)
        return image, labels

    def _background(self, frame: int) -> NDArray[np.uint8]:
        from PIL import Image

        (height, width), zoom, unit = self.size, self.camera.zoom[frame], min(self.size)
        x = self.backdrop.width / 2 + self.camera.x[frame] * unit
        y = self.backdrop.height / 2 + self.camera.y[frame] * unit
        half_w, half_h = width / zoom / 2, height / zoom / 2
        view = (x - half_w, y - half_h, x + half_w, y + half_h)
        return np.array(self.backdrop.resize((width, height), Image.Resampling.BILINEAR, view))

    def _put_everything(
        self,
        frame: int,
        image: NDArray[np.uint8] | None,
        labels: NDArray[np.uint8],
        *,
        target: bool,
    ) -> None:
        """From the back to the front."""
        for label, thing in enumerate(self.distractors, start=2):
            drawing, place = thing.sprite.drawing(thing.progress), self._place(thing, frame)
            if image is not None:
                cast(drawing, place, image)
            stamp(drawing, place, image, labels, label)
        drawing, place = self._drawing(frame), self._place(self.target, frame)
        if image is not None:
            cast(drawing, place, image)
        if target:
            stamp(drawing, place, image, labels, 1)
        for reach, sprite in self._hands(frame):
            stamp(sprite.drawing(0.0), reach, image, labels, 0)
        for label, count in enumerate(np.bincount(labels.ravel())[1:], start=1):
            if 0 < count < FEWEST_PIXELS:
                labels[labels == label] = 0

    def _drawing(self, frame: int) -> Drawing:
        flicker = (-1.0, 0.2, 1.0, -0.3)[frame % 4] if self.family.animated else 0.0
        return self.target.sprite.drawing(float(self.progress[frame]), flicker)

    def _place(self, thing: Thing, frame: int, *, away: bool = True) -> Place:
        """Where a thing is seen; the target may have slid ``away``, out of the picture."""
        height, width = self.size
        scale = min(self.size) * self.camera.zoom[frame]
        side = thing.side * scale
        x = width / 2 + (thing.x - self.camera.x[frame]) * scale
        y = height / 2 + (thing.y - self.camera.y[frame]) * scale
        if away and thing is self.target and self.away[frame]:
            share = self.away[frame]
            outside = width / 2 + np.sign(share) * (width + 1.4 * side) / 2
            x += abs(share) * (outside - x)
        return Place(x - side / 2, y - side / 2, side)

    def _hands(self, frame: int) -> Iterator[tuple[Place, Sprite]]:
        height, width = self.size
        object_ = self._place(self.target, frame, away=False)  # a hand does not follow it outside
        for own, sprite in self.reaches:
            reach = own.reach(frame)
            if reach is None:
                continue
            side = 1.5 * max(height, width)
            toward = np.array([np.cos(own.angle), np.sin(own.angle)])
            tip = np.array([object_.left, object_.top]) + object_.side / 2
            tip += object_.side * own.aside * np.array([-toward[1], toward[0]])
            tip -= toward * (own.depth * object_.side - (1 - reach) * 0.8 * width)
            yield Place(tip[0] - side / 2, tip[1] - side / 2, side), sprite

    def _is_visible(self, frame: int) -> bool:
        """Without drawing where the middle of the object is well inside and no hand is there."""
        place, (height, width) = self._place(self.target, frame), self.size
        inside = (
            place.left + place.side > 0.5 * place.side
            and place.left < width - 0.5 * place.side
            and place.top > -0.25 * place.side
            and place.top + place.side < height + 0.25 * place.side
        )
        if inside and not any(own.reach(frame) is not None for own, _ in self.reaches):
            return True
        return bool((self.true_labels(frame) == 1).any())

    def __repr__(self) -> str:
        return f"<Scene {self.id}: {self.frames} frames of {self.size[1]}×{self.size[0]}>"
