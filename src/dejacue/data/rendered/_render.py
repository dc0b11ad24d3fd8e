"""A seed → a scene.

Every concern (story, looks, camera, …) draws from its own random stream, so that a seed with a
hand, or with more noise, shows the same object doing the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from dejacue.data.rendered._backdrop import draw_backdrop
from dejacue.data.rendered._degrade import MASK_NOISES, Lens, MaskNoise
from dejacue.data.rendered._drawing import Viewpoint
from dejacue.data.rendered._families import FAMILIES, TOPOLOGIES, Family
from dejacue.data.rendered._motion import (
    HandReach,
    draw_camera,
    draw_exits,
    draw_light,
    draw_reaches,
)
from dejacue.data.rendered._scene import Scene, Thing
from dejacue.data.rendered._sprites import Sprite, hand_from
from dejacue.data.rendered._story import FEWEST_FRAMES, Story, draw_story
from dejacue.errors import InputError, unknown
from dejacue.records import Vocabulary

MOST_OF_A_KIND = 4


def render(
    seed: int,
    *,
    family: str | None = None,
    topology: str | None = None,
    frames: int = 120,
    size: tuple[int, int] = (144, 192),
    rate: float = 12.0,
    camera: float = 0.3,
    lighting: float = 0.3,
    hand: float = 0.0,
    clutter: float = 0.3,
    distractors: int = 0,
    exits: int = 0,
    noise: float = 0.15,
    blur: float = 0.0,
    blocks: float = 0.0,
    mask_noise: str | None = None,
    mask_level: float = 0.5,
    descriptions: int = 2,
) -> Scene:
    """One scene, the same for the same arguments; frames are drawn on access.

    family, topology   names, or None to let the seed choose
    size               height and width in pixels
    camera … blocks    levels from 0 (none) to 1: pan, zoom and shake; drift of brightness and
                       colour temperature; hands reaching over; clutter; grain; blur; JPEG blocks
    distractors        other objects behind the target; every second one is of the same family,
                       in another state
    exits              how often the object leaves the picture and comes back
    mask_noise         erode, dilate, drift, switch (to a distractor; one is added if there is
                       none) or None; at mask_level 1 and a shorter side of 144 pixels: eroded by 8
                       pixels, dilated by 16, drifted by 48 in the last frame; a switch happens
                       after the share 1 − mask_level of the frames
    descriptions       how many sentences per state the vocabulary takes, chosen by the seed
    """
    levels = {
        "camera": camera,
        "lighting": lighting,
        "hand": hand,
        "clutter": clutter,
        "noise": noise,
        "blur": blur,
        "blocks": blocks,
        "mask_level": mask_level,
    }
    _check(seed, frames, size, rate, levels, {"distractors": distractors, "exits": exits})
    distractors = max(distractors, 1) if mask_noise == "switch" else distractors
    kind, topology = _choose(seed, family, topology)
    story = draw_story(_stream(seed, "story"), kind, topology, frames)
    return Scene(
        seed=seed,
        family=kind,
        story=story,
        frames=frames,
        size=size,
        rate=rate,
        vocabulary=_vocabulary(_stream(seed, "words"), kind, story, descriptions),
        target=_target(_stream(seed, "look"), kind),
        distractors=_distractors(seed, kind, story, distractors, size),
        backdrop=draw_backdrop(_stream(seed, "backdrop"), size, clutter),
        camera=draw_camera(_stream(seed, "camera"), frames, camera),
        away=draw_exits(_stream(seed, "exits"), story, exits),
        light=draw_light(_stream(seed, "light"), frames, lighting),
        reaches=_hands(seed, frames, hand),
        lens=Lens.draw(_stream(seed, "lens"), frames, size, lighting, noise, blur, blocks),
        mask_noise=_mask_noise(seed, mask_noise, mask_level, frames, min(size)),
    )


def _stream(seed: int, concern: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(concern.encode())])


def _check(
    seed: int,
    frames: int,
    size: tuple[int, int],
    rate: float,
    levels: Mapping[str, float],
    counts: Mapping[str, int],
) -> None:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"render: seed {seed!r} must be a whole number, 0 or more")
    if frames < FEWEST_FRAMES:
        raise InputError(f"render: {frames} frames are too few; use at least {FEWEST_FRAMES}")
    if len(size) != 2 or not all(side in range(48, 4097) for side in size) or not rate > 0:
        raise InputError(
            f"render: size {size} must be height and width, 48 to 4096 pixels each, "
            "and the rate above 0"
        )
    for name, level in levels.items():
        if not 0 <= level <= 1:
            raise InputError(f"render: {name} is {level}; levels must be between 0 and 1")
    for name, count in counts.items():
        if not 0 <= count <= MOST_OF_A_KIND:
            raise InputError(f"render: {count} {name}; use 0 to {MOST_OF_A_KIND}")


def _choose(seed: int, family: str | None, topology: str | None) -> tuple[Family, str]:
    rng = _stream(seed, "choice")
    if family is not None and family not in FAMILIES:
        raise unknown("family", family, FAMILIES)
    if topology is not None and topology not in TOPOLOGIES:
        raise unknown("topology", topology, TOPOLOGIES)
    if family is None:
        able = [f for f in FAMILIES.values() if topology is None or topology in f.topologies]
        kind = able[rng.integers(len(able))]
    else:
        kind = FAMILIES[family]
    return kind, topology or kind.topologies[rng.integers(len(kind.topologies))]


def _vocabulary(
    rng: np.random.Generator, family: Family, story: Story, descriptions: int
) -> Vocabulary:
    words = {}
    for state in story.states:
        name = family.states[state]
        known = family.descriptions[name]
        if not 1 <= descriptions <= len(known):
            raise InputError(
                f'render: {descriptions} descriptions; "{family.name}" has 1 to {len(known)}'
            )
        words[name] = tuple(str(text) for text in rng.permutation(known)[:descriptions])
    return Vocabulary(words, object=family.object)


def _target(rng: np.random.Generator, family: Family) -> Thing:
    view, side = Viewpoint.draw(rng), rng.uniform(0.56, 0.74)
    x, y = rng.uniform(-0.12, 0.12), rng.uniform(0.0, 0.06)
    return Thing(Sprite(family.make(rng), view), x, y, side)


def _distractors(
    seed: int, family: Family, story: Story, count: int, size: tuple[int, int]
) -> tuple[Thing, ...]:
    """To the left and to the right of the target in turn, farther away and smaller."""
    things = []
    for k in range(count):
        rng = _stream(seed, f"distractor {k}")
        kind = family if k % 2 == 0 else list(FAMILIES.values())[rng.integers(len(FAMILIES))]
        state = int(rng.integers(len(kind.states)))
        if kind is family:
            others = [s for s in range(len(kind.states)) if s != story.labels[-1]]
            state = int(others[rng.integers(len(others))])
        side = rng.uniform(0.36, 0.46)
        aside = (size[1] / min(size) / 2 - 0.55 * side) * (1 - 0.4 * (k // 2))
        x = (aside if (k + seed) % 2 else -aside) + rng.uniform(-0.04, 0.04)
        y = -0.2 * (k // 2) - rng.uniform(0.02, 0.14)
        sprite = Sprite(kind.make(rng), Viewpoint.draw(rng))
        things.append(Thing(sprite, x, y, side, kind.anchor(state)))
    return tuple(things)


def _hands(seed: int, frames: int, level: float) -> tuple[tuple[HandReach, Sprite], ...]:
    """The same person each time."""
    reaches = draw_reaches(_stream(seed, "hand"), frames, level)
    return tuple((reach, hand_from(_stream(seed, "skin"), reach.angle)) for reach in reaches)


def _mask_noise(
    seed: int, kind: str | None, level: float, frames: int, side: int
) -> MaskNoise | None:
    if kind is None:
        return None
    if kind not in MASK_NOISES:
        raise unknown("mask noise", kind, MASK_NOISES)
    return MaskNoise.draw(_stream(seed, "mask"), kind, level, frames, side)
