"""Rendered scenes: short videos of objects that change their state, with exact masks and intervals.

families.py   the objects, their states and the words for them; kitchen.py, house.py and
              outdoors.py paint them
story.py      how far the object has changed at each frame
drawing.py    polygons → drawings of an object → sprites in a frame
scene.py      backdrop, camera, light, hands: the frames and the truth about them
degrade.py    blur, compression blocks, wrong masks
render.py     a seed → a RenderedScene, and a scene → files
demo.py       the scene of ``dejacue demo``
"""

from dejacue_paper.data.rendered.degrade import MASK_NOISES, MaskNoise
from dejacue_paper.data.rendered.families import FAMILIES
from dejacue_paper.data.rendered.render import render, scene_reference, write_scene
from dejacue_paper.data.rendered.scene import RenderedScene
from dejacue_paper.data.rendered.story import TOPOLOGIES, Family

__all__ = [
    "FAMILIES",
    "MASK_NOISES",
    "TOPOLOGIES",
    "Family",
    "MaskNoise",
    "RenderedScene",
    "render",
    "scene_reference",
    "write_scene",
]
