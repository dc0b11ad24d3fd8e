"""Masks of objects on disk → which pixels of a frame belong to which object (§6).

    open_masks   a folder, stack, dictionary, COCO file, boxes → Masks     _open.py
    Masks        one frame → the union of each lineage, or None            _masks.py
    write_masks  objects of each frame → folder, stack or COCO file        write.py

The readers: labels.py (one number per pixel), _open.py (one folder per object), _stacks.py,
_segments.py (SAM 2's dictionaries), _coco.py, _boxes.py and _yolo.py. objects.py says which ids are
one object, _matching.py which mask belongs to which frame.
"""

from dejacue.sources.masks._masks import Masks
from dejacue.sources.masks._matching import MATCHES
from dejacue.sources.masks._open import KINDS, check_kind, check_path, open_masks
from dejacue.sources.masks.write import WRITTEN, write_masks

__all__ = [
    "KINDS",
    "MATCHES",
    "WRITTEN",
    "Masks",
    "check_kind",
    "check_path",
    "open_masks",
    "write_masks",
]
