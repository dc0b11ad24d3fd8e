"""Masks of objects on disk → which pixels of a frame belong to which object (§6).

    open_masks   a folder, stack, dictionary, COCO file, boxes → Masks     _open.py
    Masks        one frame → the union of each lineage, or None            _masks.py
    write_masks  objects of each frame → folder, stack or COCO file        write.py
    Region       a box that stays, boxes drawn by a person, the picture    _region.py

The readers (reader.py says what one is): labels.py (one number per pixel), _open.py (one folder per
object), _arrays.py, _coco.py and _boxes.py. objects.py says which ids are one object.
"""

from dejacue.sources.masks._masks import MATCHES, Masks
from dejacue.sources.masks._open import KINDS, check_kind, check_path, open_masks
from dejacue.sources.masks._region import Region, RegionMasks, sees_whole_picture, write_region
from dejacue.sources.masks.write import write_masks

__all__ = [
    "KINDS",
    "MATCHES",
    "Masks",
    "Region",
    "RegionMasks",
    "check_kind",
    "check_path",
    "open_masks",
    "sees_whole_picture",
    "write_masks",
    "write_region",
]
