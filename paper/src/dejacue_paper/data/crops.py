"""Crops of many scenes, to train an encoder on: what it would see of histories, with words.

The scenes have seeds from FIRST_TRAINING_SEED on; smaller seeds are for tests, demos and
measurements, so that training and measurement never share a scene.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue_paper.data.rendered import FAMILIES, RenderedScene, render

FIRST_TRAINING_SEED = 1 << 32
PER_SCENE = 6
SCENES_PER_SEED = 1 << 24
FRAMES = 48


class Crop(NamedTuple):
    """Holds what the encoder sees of one frame; state is None between states."""

    image: NDArray[np.uint8]  # (size, size, 3)
    family: str
    state: str | None
    progress: float


def crops(
    seed: int, count: int, *, size: int = 64, between: float = 0.0, least: float = 0.35
) -> Iterator[Crop]:
    """Yield ``count`` crops from as many scenes as it takes: all families, and their states, in
    turn.

    Camera, light, hands, noise, blur, blocks and slightly wrong masks are drawn for each scene.
    Different seeds give different scenes.

    between   the share of crops from frames in which no state holds
    least     share of the object that must be seen in a crop
    """
    if not 0 <= seed < SCENES_PER_SEED or count < 0 or not 0 <= between <= 1 or size < 8:
        raise InputError(
            f"crops: seed {seed} must be in 0 … {SCENES_PER_SEED - 1}, the count 0 or more, "
            "between in 0 … 1 and the size at least 8"
        )
    names = list(FAMILIES)
    yielded = scene_number = 0
    while yielded < count:
        scene_seed = FIRST_TRAINING_SEED + seed * SCENES_PER_SEED + scene_number
        rng = np.random.default_rng([scene_seed, 0])
        scene = _draw_scene(rng, scene_seed, names[scene_number % len(names)])
        for crop in _of_scene(rng, scene, min(PER_SCENE, count - yielded), size, between, least):
            yielded += 1
            yield crop
        scene_number += 1


def _draw_scene(rng: np.random.Generator, seed: int, family: str) -> RenderedScene:
    def sometimes(share: float, most: float) -> float:
        return float(rng.uniform(0, most)) if rng.random() < share else 0.0

    noise = rng.choice(["erode", "dilate", "drift"]) if rng.random() < 0.25 else None
    return render(
        seed,
        family=family,
        frames=FRAMES,
        camera=float(rng.random()),
        lighting=float(rng.random()),
        hand=sometimes(0.3, 0.6),
        clutter=sometimes(0.5, 0.6),
        noise=sometimes(0.8, 0.5),
        blur=sometimes(0.3, 0.5),
        blocks=sometimes(0.3, 0.7),
        mask_noise=None if noise is None else str(noise),
        mask_level=float(rng.uniform(0.05, 0.25)),
    )


def _of_scene(
    rng: np.random.Generator,
    scene: RenderedScene,
    count: int,
    size: int,
    between: float,
    least: float,
) -> Iterator[Crop]:
    from dejacue.video.crops import picture

    labels = scene.story.labels
    pure = [np.flatnonzero(labels == state) for state in scene.story.states]
    way = np.flatnonzero(labels < 0)
    for k in range(count):
        among = way if way.size and rng.random() < between else pure[k % len(pure)]
        frame = int(rng.choice(among))
        image, mask_labels = scene.frame(frame)
        mask = mask_labels == 1
        if mask.any() and mask.sum() >= least * scene.area(frame):
            yield Crop(
                picture(image, mask, size),
                scene.family.name,
                scene.states[frame],
                float(scene.progress[frame]),
            )
