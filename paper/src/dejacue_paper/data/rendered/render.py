"""Draw a scene from a seed, and write it to disk with its masks, words and truth.

Every concern (story, looks, camera, …) draws from its own random stream, so that a seed with a
hand, or with more noise, shows the same object doing the same.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from dejacue.atomic import write_text, write_whole
from dejacue.errors import InputError, unknown
from dejacue.files.results import write_references
from dejacue.records import Reference, Vocabulary, Window
from dejacue_paper.data.rendered.degrade import MASK_NOISES, MaskNoise
from dejacue_paper.data.rendered.drawing import Sprite, Viewpoint, hand_from
from dejacue_paper.data.rendered.families import FAMILIES
from dejacue_paper.data.rendered.scene import (
    Lens,
    RenderedScene,
    Thing,
    draw_backdrop,
    draw_camera,
    draw_exits,
    draw_light,
    draw_reaches,
)
from dejacue_paper.data.rendered.story import TOPOLOGIES, Family, Story, draw_story

MIN_FRAMES = 24
MAX_COUNT = 4  # of distractors, and of exits


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
) -> RenderedScene:
    """Return one scene, the same for the same arguments; frames are drawn on access.

    family, topology   names, or None to let the seed choose
    size               height and width in pixels
    camera … blocks    levels from 0 (none) to 1: pan, zoom and shake; drift of brightness and
                       colour temperature; hands reaching over; clutter; grain; blur; JPEG blocks
    distractors        other objects behind the target; the first and third are of the same
                       family in another state, the second and fourth of any family
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
    _check(frames, size, rate, levels, {"distractors": distractors, "exits": exits})
    if mask_noise is not None and mask_noise not in MASK_NOISES:
        raise unknown("mask noise", mask_noise, MASK_NOISES)
    kind, topology = _choose(seed, family, topology)
    story = draw_story(random_stream(seed, "story"), kind, topology, frames)
    wrong = None
    if mask_noise is not None:
        rng = random_stream(seed, "mask")
        wrong = MaskNoise.draw(rng, mask_noise, mask_level, frames, min(size))
    if mask_noise == "switch":
        distractors = max(distractors, 1)
    return RenderedScene(
        seed=seed,
        family=kind,
        story=story,
        frames=frames,
        size=size,
        rate=rate,
        vocabulary=_vocabulary(random_stream(seed, "words"), kind, story, descriptions),
        target=_target(random_stream(seed, "look"), kind),
        distractors=_distractors(seed, kind, story, distractors, size),
        backdrop=draw_backdrop(random_stream(seed, "backdrop"), size, clutter),
        camera=draw_camera(random_stream(seed, "camera"), frames, camera),
        away=draw_exits(random_stream(seed, "exits"), story, exits),
        light=draw_light(random_stream(seed, "light"), frames, lighting),
        reaches=tuple(
            (reach, hand_from(random_stream(seed, "skin"), reach.angle))  # always the same person
            for reach in draw_reaches(random_stream(seed, "hand"), frames, hand)
        ),
        lens=Lens.draw(random_stream(seed, "lens"), frames, size, lighting, noise),
        blur=blur,
        blocks=blocks,
        mask_noise=wrong,
    )


def _choose(seed: int, family: str | None, topology: str | None) -> tuple[Family, str]:
    """Return the family and the topology; the seed chooses what is None."""
    if topology is not None and topology not in TOPOLOGIES:
        raise unknown("topology", topology, TOPOLOGIES)
    rng = random_stream(seed, "choice")
    if family is None:
        able = [f for f in FAMILIES.values() if topology is None or topology in f.topologies]
        kind = able[rng.integers(len(able))]
    elif family in FAMILIES:
        kind = FAMILIES[family]
    else:
        raise unknown("family", family, FAMILIES)
    return kind, topology or kind.topologies[rng.integers(len(kind.topologies))]


def random_stream(seed: int, concern: str) -> np.random.Generator:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"render: seed {seed!r} must be a whole number, 0 or more")
    return np.random.default_rng([seed, zlib.crc32(concern.encode())])


def _check(
    frames: int,
    size: tuple[int, int],
    rate: float,
    levels: Mapping[str, float],
    counts: Mapping[str, int],
) -> None:
    if frames < MIN_FRAMES:
        raise InputError(f"render: {frames} frames are too few; use at least {MIN_FRAMES}")
    if len(size) != 2 or not all(side in range(48, 4097) for side in size):
        raise InputError(f"render: size {size} must be height and width, 48 to 4096 pixels each")
    if not rate > 0:
        raise InputError(f"render: rate {rate} must be above 0")
    for name, level in levels.items():
        if not 0 <= level <= 1:
            raise InputError(f"render: {name} is {level}; levels must be between 0 and 1")
    for name, count in counts.items():
        if not 0 <= count <= MAX_COUNT:
            raise InputError(f"render: {count} {name}; use 0 to {MAX_COUNT}")


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
    """Place distractors left and right of the target in turn, farther away and smaller."""
    things = []
    others = tuple(FAMILIES.values())
    for k in range(count):
        rng = random_stream(seed, f"distractor {k}")
        kind = family if k % 2 == 0 else others[int(rng.integers(len(others)))]
        state = int(rng.integers(len(kind.states)))
        if kind is family:
            states = [s for s in range(len(kind.states)) if s != story.labels[-1]]
            state = int(states[rng.integers(len(states))])
        side = rng.uniform(0.36, 0.46)
        aside = (size[1] / min(size) / 2 - 0.55 * side) * (1 - 0.4 * (k // 2))
        x = (aside if (k + seed) % 2 else -aside) + rng.uniform(-0.04, 0.04)
        y = -0.2 * (k // 2) - rng.uniform(0.02, 0.14)
        sprite = Sprite(kind.make(rng), Viewpoint.draw(rng))
        things.append(Thing(sprite, x, y, side, kind.anchor(state)))
    return tuple(things)


def write_scene(
    folder: str | os.PathLike[str],
    scene: RenderedScene,
    *,
    video: bool = True,
    name: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a scene into a new or empty folder; ``overwrite`` removes what is there.

    scene.mp4         or, without ``video``, JPEGImages/00000.jpg, …
    Annotations/      the labels as indexed PNG, 00000.png, …
    vocabulary.yaml   states and descriptions
    references.json   the true windows of the history ``name`` (default: "scene", as the video)
    """
    from PIL import Image

    from dejacue.files.histories import vocabulary_yaml
    from dejacue.masks import write_masks

    target = Path(folder)
    if overwrite and target.is_dir():
        shutil.rmtree(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder}: already exists; remove it or choose another folder")
    if video:
        from dejacue.video.video import write_video

        images = (scene.image(frame) for frame in range(scene.frames))
        write_video(target / "scene.mp4", images, scene.rate)
    else:
        for frame in range(scene.frames):
            picture = Image.fromarray(scene.image(frame))
            path = target / "JPEGImages" / f"{frame:05d}.jpg"
            write_whole(path, partial(picture.save, format="JPEG", quality=95, subsampling=0))
    frames = ((f"{frame:05d}", scene.labels(frame)) for frame in range(scene.frames))
    write_masks(
        target / "Annotations",
        (
            (stem, {int(label): labels == label for label in np.unique(labels) if label})
            for stem, labels in frames
        ),
    )
    vocabulary = scene.vocabulary
    write_text(target / "vocabulary.yaml", vocabulary_yaml(vocabulary.states, vocabulary.object))
    write_references(target / "references.json", [scene_reference(scene, name or "scene")])
    return target


def scene_reference(scene: RenderedScene, name: str | None = None) -> Reference:
    """Return the truth about a scene, for ``evaluate``; the default name is ``scene.id``.

    It is complete: every time that the object is seen in a state. A state that hands hide
    throughout is left out.
    """
    visible = {state: windows for state, windows in scene.references.items() if windows}
    return Reference(
        name or scene.id,
        visible,
        frames=Window(0, scene.frames - 1),
        descriptions={state: tuple(scene.vocabulary.states[state]) for state in visible},
        complete=True,
    )
