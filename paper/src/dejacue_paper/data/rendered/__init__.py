"""Rendered scenes for studies and training: all families, degradations and wrong masks.

    FAMILIES   the objects, their states and the words for them                _families.py
    render     a seed → a DegradedScene; everything else is dejacue.data.rendered

Painters (_kitchen.py, _house.py, _outdoors.py) draw the objects; _degrade.py adds blur,
compression blocks and wrong masks.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dejacue.data.rendered import TOPOLOGIES, Family
from dejacue.data.rendered import render as render_family
from dejacue.data.rendered.render import check_levels, random_stream
from dejacue.errors import unknown
from dejacue_paper.data.rendered._degrade import MASK_NOISES, DegradedScene, MaskNoise
from dejacue_paper.data.rendered._families import FAMILIES

__all__ = ["FAMILIES", "MASK_NOISES", "TOPOLOGIES", "DegradedScene", "MaskNoise", "render"]


def render(
    seed: int,
    *,
    family: str | None = None,
    topology: str | None = None,
    distractors: int = 0,
    blur: float = 0.0,
    blocks: float = 0.0,
    mask_noise: str | None = None,
    mask_level: float = 0.5,
    **options: Any,
) -> DegradedScene:
    """Return one scene, the same for the same arguments; ``options`` as ``dejacue.data.rendered``.

    family, topology   names, or None to let the seed choose
    blur, blocks       levels from 0 (none) to 1: blur; JPEG blocks
    mask_noise         erode, dilate, drift, switch (to a distractor; one is added if there is
                       none) or None; at mask_level 1 and a shorter side of 144 pixels: eroded by 8
                       pixels, dilated by 16, drifted by 48 in the last frame; a switch happens
                       after the share 1 − mask_level of the frames
    """
    check_levels({"blur": blur, "blocks": blocks, "mask_level": mask_level})
    if mask_noise is not None and mask_noise not in MASK_NOISES:
        raise unknown("mask noise", mask_noise, MASK_NOISES)
    kind, topology = _choose(seed, family, topology)
    scene = render_family(
        seed,
        family=kind,
        topology=topology,
        distractors=max(distractors, 1) if mask_noise == "switch" else distractors,
        others=tuple(FAMILIES.values()),
        **options,
    )
    noise = None
    if mask_noise is not None:
        rng = random_stream(seed, "mask")
        noise = MaskNoise.draw(rng, mask_noise, mask_level, scene.frames, min(scene.size))
    parts = {field.name: getattr(scene, field.name) for field in fields(scene)}
    return DegradedScene(**parts, blur=blur, blocks=blocks, mask_noise=noise)


def _choose(seed: int, family: str | None, topology: str | None) -> tuple[Family, str | None]:
    """Return the family and the topology; a topology of None is left to the renderer."""
    if family is not None:
        if family not in FAMILIES:
            raise unknown("family", family, FAMILIES)
        return FAMILIES[family], topology
    if topology is not None and topology not in TOPOLOGIES:
        raise unknown("topology", topology, TOPOLOGIES)
    rng = random_stream(seed, "choice")
    able = [f for f in FAMILIES.values() if topology is None or topology in f.topologies]
    kind = able[rng.integers(len(able))]
    return kind, topology or kind.topologies[rng.integers(len(kind.topologies))]
