"""The protocol of trackers: a session takes frames one after another and returns masks.

``propagate.track`` decides which frames come in which order; a session only ever sees
the next one, so it runs forward and backward alike and holds no more than it needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dejacue.video.crops import tight_box

Box = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels of the frame
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Prompt:
    """Shows an object in one frame: by a box, points, or a mask; box and points may go together.

    frame      position in the sampled sequence
    object     its id, from 1 on; of a piece 0: the next one that is free
    points     (x, y, inside): a click on the object, or on what does not belong to it
    mask       (H, W) of bool, of the frame's size or scaled
    source     instead of ``frame``: the frame of the file
    piece_of   the object of which this is a piece with an id of its own; 0: of the only one

    >>> Prompt(box=(120, 80, 300, 260), source=45).object
    1
    """

    frame: int = 0
    object: int = 1
    box: Box | None = None
    points: tuple[tuple[float, float, bool], ...] = ()
    mask: Mask | None = None
    source: int | None = None
    piece_of: int | None = None


@dataclass(frozen=True, eq=False)
class Observation:
    """Says where one object is in one frame.

    mask       (H, W), of the frame's size; all false where the object is not seen
    presence   how sure the tracker is that the object is there, 0 to 1
    """

    mask: Mask
    presence: float


class TrackerSession(Protocol):
    """Passes over consecutive frames. An object joins at its first prompt."""

    def step(
        self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()
    ) -> Mapping[int, Observation]:
        """Take the next frame (H, W, 3 RGB) and the prompts for it, one for each object, as
        ``prompts.united`` gives them; return what is seen of each object that has joined, by id."""
        ...


class Tracker(Protocol):
    """Makes sessions. One with ``every_frame = True`` is also given frames between sampled ones.

    name          as ``load_tracker`` takes it: "sam2", "sam2-tiny", "edgetam", …
    independent   whether the masks of an object are the same whichever others are followed with
                  it; if not, all are followed again when one is added
    details       revision, device, precision … as text
    """

    name: str
    independent: bool
    details: Mapping[str, str]

    def session(self) -> TrackerSession: ...


def bounding_box(mask: Mask) -> tuple[int, int, int, int] | None:
    """Return x0, y0, x1, y1 around a mask, ends not included; None where it is empty."""
    box = tight_box(mask)
    return None if box is None else (box[2], box[0], box[3], box[1])


def overlaps(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return (n,) intersection over union of boxes (n, 4), or of one (4,) with each of the others;
    none has less than a pixel, unless it is empty."""
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = sides.clip(min=0).prod(axis=-1)
    areas = (a[..., 2:] - a[..., :2]).prod(axis=-1) + (b[..., 2:] - b[..., :2]).prod(axis=-1)
    return np.asarray(common / np.maximum(areas - common, 1))


def box_mask(box: Box, image: NDArray[np.uint8]) -> Mask:
    """Return the pixels of a frame that a box touches; it may stick out."""
    rows, columns = (
        slice(max(math.floor(start), 0), max(math.ceil(end), 0))
        for start, end in ((box[1], box[3]), (box[0], box[2]))
    )
    mask = np.zeros(image.shape[:2], dtype=bool)
    mask[rows, columns] = True
    return mask
