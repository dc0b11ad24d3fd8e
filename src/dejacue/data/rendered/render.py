"""Draw a scene from a seed, and write it to disk with its masks, words and truth.

Every concern (story, looks, camera, …) draws from its own random stream, so that a seed with a
hand, or with more noise, shows the same object doing the same.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from dejacue.data.rendered.drawing import Sprite, Viewpoint, hand_from
from dejacue.data.rendered.objects import CUP, TOPOLOGIES, Family, Story, draw_story
from dejacue.data.rendered.scene import (
    Lens,
    Scene,
    Thing,
    draw_backdrop,
    draw_camera,
    draw_exits,
    draw_light,
    draw_reaches,
)
from dejacue.errors import InputError, unknown
from dejacue.records import Reference, Vocabulary, Window
from dejacue.sources.atomic import write_text, write_whole
from dejacue.sources.results import write_references

MIN_FRAMES = 24
MAX_COUNT = 4  # of distractors, and of exits


def render(
    seed: int,
    *,
    family: str | Family = CUP,
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
    descriptions: int = 2,
    others: Sequence[Family] = (CUP,),
) -> Scene:
    """Return one scene, the same for the same arguments; frames are drawn on access.

    family             "cup", or a Family; dejacue-paper has more of them
    topology           a name, or None to let the seed choose
    size               height and width in pixels
    camera … noise     levels from 0 (none) to 1: pan, zoom and shake; drift of brightness and
                       colour temperature; hands reaching over; clutter; grain
    distractors        other objects behind the target; the first and third are of the same
                       family in another state, the second and fourth of one of ``others``
    exits              how often the object leaves the picture and comes back
    descriptions       how many sentences per state the vocabulary takes, chosen by the seed
    """
    levels = {
        "camera": camera,
        "lighting": lighting,
        "hand": hand,
        "clutter": clutter,
        "noise": noise,
    }
    _check(frames, size, rate, {"distractors": distractors, "exits": exits})
    check_levels(levels)
    if isinstance(family, str):
        if family != CUP.name:
            raise InputError(
                f'render: no family "{family}"; dejacue has "{CUP.name}", and the render of '
                "dejacue_paper.data.rendered the others"
            )
        family = CUP
    if topology is None:
        rng = random_stream(seed, "choice")
        topology = family.topologies[rng.integers(len(family.topologies))]
    elif topology not in TOPOLOGIES:
        raise unknown("topology", topology, TOPOLOGIES)
    story = draw_story(random_stream(seed, "story"), family, topology, frames)
    return Scene(
        seed=seed,
        family=family,
        story=story,
        frames=frames,
        size=size,
        rate=rate,
        vocabulary=_vocabulary(random_stream(seed, "words"), family, story, descriptions),
        target=_target(random_stream(seed, "look"), family),
        distractors=_distractors(seed, family, story, distractors, size, others),
        backdrop=draw_backdrop(random_stream(seed, "backdrop"), size, clutter),
        camera=draw_camera(random_stream(seed, "camera"), frames, camera),
        away=draw_exits(random_stream(seed, "exits"), story, exits),
        light=draw_light(random_stream(seed, "light"), frames, lighting),
        reaches=tuple(
            (reach, hand_from(random_stream(seed, "skin"), reach.angle))  # always the same person
            for reach in draw_reaches(random_stream(seed, "hand"), frames, hand)
        ),
        lens=Lens.draw(random_stream(seed, "lens"), frames, size, lighting, noise),
    )


def random_stream(seed: int, concern: str) -> np.random.Generator:
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"render: seed {seed!r} must be a whole number, 0 or more")
    return np.random.default_rng([seed, zlib.crc32(concern.encode())])


def check_levels(levels: Mapping[str, float]) -> None:
    for name, level in levels.items():
        if not 0 <= level <= 1:
            raise InputError(f"render: {name} is {level}; levels must be between 0 and 1")


def _check(frames: int, size: tuple[int, int], rate: float, counts: Mapping[str, int]) -> None:
    if frames < MIN_FRAMES:
        raise InputError(f"render: {frames} frames are too few; use at least {MIN_FRAMES}")
    if len(size) != 2 or not all(side in range(48, 4097) for side in size) or not rate > 0:
        raise InputError(
            f"render: size {size} must be height and width, 48 to 4096 pixels each, "
            "and the rate above 0"
        )
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
    seed: int,
    family: Family,
    story: Story,
    count: int,
    size: tuple[int, int],
    others: Sequence[Family],
) -> tuple[Thing, ...]:
    """Place them left and right of the target in turn, farther away and smaller."""
    things = []
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
    scene: Scene,
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

    from dejacue.sources.files import vocabulary_yaml
    from dejacue.sources.masks import write_masks

    target = Path(folder)
    if overwrite and target.is_dir():
        shutil.rmtree(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder}: already exists; remove it or choose another folder")
    if video:
        from dejacue.sources.video import write_video

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


def scene_reference(scene: Scene, name: str | None = None) -> Reference:
    """Return the truth about a scene, for ``evaluate``; the default name is ``scene.id``.

    A state that hands hide throughout is left out.
    """
    seen = {state: windows for state, windows in scene.references.items() if windows}
    return Reference(
        name or scene.id,
        seen,
        frames=Window(0, scene.frames - 1),
        descriptions={state: tuple(scene.vocabulary.states[state]) for state in seen},
    )
