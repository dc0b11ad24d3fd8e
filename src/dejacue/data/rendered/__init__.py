"""Rendered scenes: short videos of objects that change their state, with exact masks and intervals.

    FAMILIES      the objects, their states and the words for them       _families.py
    render        a seed → a Scene (_scene.py)                           _render.py
    write_scene   a scene → video or pictures, masks, words, truth       _files.py

The story (_story.py) sets how far an object has changed at each frame; a painter (_kitchen.py,
_house.py, _outdoors.py, which use _drawing.py) draws it. The drawings become sprites (_sprites.py)
in front of a backdrop (_backdrop.py); camera, light and hands move (_motion.py), and noise, blur
and wrong masks are added (_degrade.py).
"""

from dejacue.data.rendered._degrade import MASK_NOISES, MaskNoise
from dejacue.data.rendered._families import FAMILIES, TOPOLOGIES, Family
from dejacue.data.rendered._files import scene_reference, write_scene
from dejacue.data.rendered._render import render
from dejacue.data.rendered._scene import Scene

__all__ = [
    "FAMILIES",
    "TOPOLOGIES",
    "MASK_NOISES",
    "Family",
    "Scene",
    "MaskNoise",
    "render",
    "scene_reference",
    "write_scene",
]
