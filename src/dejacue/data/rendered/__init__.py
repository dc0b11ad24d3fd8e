"""Rendered scenes: short videos of objects that change their state, with exact masks and intervals.

    objects.py   the cup, its states and the words for them; how far it has changed at each frame
    drawing.py   polygons → drawings of an object → sprites in a frame
    scene.py     backdrop, camera, light, hands: the frames and the truth about them
    render.py    a seed → a Scene, and a scene → files

dejacue-paper has more families of objects, blur, compression and wrong masks
(``dejacue_paper.data.rendered``).
"""

from dejacue.data.rendered.objects import CUP, TOPOLOGIES, Family
from dejacue.data.rendered.render import render, scene_reference, write_scene
from dejacue.data.rendered.scene import Scene

__all__ = ["CUP", "TOPOLOGIES", "Family", "Scene", "render", "scene_reference", "write_scene"]
