"""Masks of objects on disk → which pixels of a frame belong to which object (§6).

    open_masks   a folder, stack, dictionary, COCO file, boxes → Masks     _open.py
    Masks        one frame → the union of each group, or None            _masks.py
    write_masks  objects of each frame → folder, stack or COCO file        write.py
    Region       a box that stays, boxes drawn by a person, the picture    _region.py

The readers (reader.py says what one is): labels.py (one number per pixel), _open.py (one folder per
object), _arrays.py, _coco.py and _boxes.py.
"""

from dejacue.masks._masks import MATCHES as MATCHES
from dejacue.masks._masks import MaskIds as MaskIds
from dejacue.masks._masks import Masks as Masks
from dejacue.masks._open import KINDS as KINDS
from dejacue.masks._open import check_kind as check_kind
from dejacue.masks._open import check_path as check_path
from dejacue.masks._open import open_masks as open_masks
from dejacue.masks._region import Region as Region
from dejacue.masks._region import RegionMasks as RegionMasks
from dejacue.masks._region import sees_whole_picture as sees_whole_picture
from dejacue.masks._region import write_region as write_region
from dejacue.masks.write import write_masks as write_masks
