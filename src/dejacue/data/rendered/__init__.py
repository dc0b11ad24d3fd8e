"""Rendered scenes: short videos of objects that change their state, with exact masks and intervals.

    FAMILIES      the objects, their states and the words for them       families.py
    render        a seed → a Scene (scene.py)                            making.py
    write_scene   a scene → video or pictures, masks, words, truth       writing.py
    crops         many scenes → crops to train an encoder on             training.py

Progress (story.py) moves a painter (kitchen.py, house.py, outdoors.py on drawing.py); its drawings
are put as sprites (sprites.py) before a backdrop (backdrop.py), where camera, light and hands move
(motion.py), and are recorded by an imperfect camera and tracker (spoil.py).
"""

from dejacue.data.rendered.families import FAMILIES, TOPOLOGIES, Family
from dejacue.data.rendered.making import render
from dejacue.data.rendered.scene import Scene
from dejacue.data.rendered.spoil import MASK_NOISES
from dejacue.data.rendered.training import FIRST_TRAINING_SEED, Crop, crops
from dejacue.data.rendered.writing import scene_reference, write_scene

__all__ = [
    "FAMILIES",
    "TOPOLOGIES",
    "MASK_NOISES",
    "FIRST_TRAINING_SEED",
    "Family",
    "Scene",
    "Crop",
    "render",
    "crops",
    "scene_reference",
    "write_scene",
]
