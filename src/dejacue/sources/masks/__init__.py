"""Masks of objects on disk → which pixels of a frame belong to which object (§6).

    open_masks   a folder, stack, COCO file or table of boxes → Masks      opening.py
    Masks        one frame → the union of each lineage, or None            source.py
    write_masks  objects of each frame → folder, stack or COCO file        writing.py

What is read lies in labels.py (one number per pixel), folders.py (one folder per object),
stacks.py, coco.py, boxes.py and yolo.py; which mask belongs to which frame is decided in
matching.py, and whether they seem to be of the same video in coverage.py.
"""

from dejacue.sources.masks.matching import MATCHES
from dejacue.sources.masks.opening import KINDS, open_masks
from dejacue.sources.masks.source import Masks
from dejacue.sources.masks.writing import WRITTEN, write_masks

__all__ = ["KINDS", "MATCHES", "WRITTEN", "Masks", "open_masks", "write_masks"]
