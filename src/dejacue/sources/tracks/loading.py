"""From a name to a tracker."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.arguments import checked
from dejacue.errors import InputError, unknown
from dejacue.plugins import Registry
from dejacue.sources.tracks.base import Box, Mask, Observation, Prompt, Tracker
from dejacue.sources.tracks.prompts import box_of

NOTE = (
    "the object is not tracked: the box stays in place in every frame until another prompt moves "
    "it; to track the object with SAM 2, pip install 'dejacue[track]'"
)


class BoxTracker:
    """The tracker of the base install: the box of the prompt, which stays where it is.

    Nothing is followed. It is right where the object hardly moves and the camera stands still, and
    its error is easy to see; another prompt for the object, in a later frame, moves the box.
    """

    name = "box"
    approximate = True
    independent = True
    details: Mapping[str, str] = MappingProxyType({"note": NOTE})

    def session(self) -> BoxSession:
        return BoxSession()


class BoxSession:
    """See ``base.TrackerSession``. Of a mask the box around it is taken; points beside a box change
    nothing, points alone are refused."""

    def __init__(self) -> None:
        self._boxes: dict[int, Box] = {}

    def step(
        self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()
    ) -> Mapping[int, Observation]:
        self._boxes |= {prompt.object: box_of(prompt) for prompt in prompts}
        boxes = sorted(self._boxes.items())
        return {object: Observation(box_mask(box, image), 1.0) for object, box in boxes}

    def state(self) -> bytes:
        return json.dumps(list(self._boxes.items())).encode()

    def restore(self, state: bytes) -> None:
        self._boxes = {object: (x0, y0, x1, y1) for object, (x0, y0, x1, y1) in json.loads(state)}


def box_mask(box: Box, image: NDArray[np.uint8]) -> Mask:
    """Return the pixels of a frame that a box touches; it may stick out."""
    rows, columns = (
        slice(max(math.floor(start), 0), max(math.ceil(end), 0))
        for start, end in ((box[1], box[3]), (box[0], box[2]))
    )
    mask = np.zeros(image.shape[:2], dtype=bool)
    mask[rows, columns] = True
    return mask


TRACKERS: Registry[Callable[..., Tracker]] = Registry("trackers", {})


def default_tracker() -> str:
    """Return the name of the tracker that is taken where none is named: sam2 if what the extra
    ``track`` brings is installed, otherwise box."""
    installed = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    return "sam2" if installed else "box"


def check_tracker(name: str) -> None:
    """Refuse a name that no tracker has; load nothing."""
    from dejacue.sources.tracks import sam2

    models = ("sam2", "sam3", *sam2.REPOSITORIES)
    if name == "box" or name in TRACKERS or name.partition(":")[0] in models:
        return
    known = ["box", "sam2", *sam2.REPOSITORIES, "sam2:FOLDER", *TRACKERS]
    raise unknown("tracker", name, known)


@checked
def load_tracker(
    name: str | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """Load a tracker by its name; None: the one that default_tracker names.

    box                           the prompt's box, which stays where it is; in the base install
    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    others                        plug-ins (dejacue.trackers)
    """
    unnamed = name is None
    name = default_tracker() if name is None else name
    if name == "box":
        options = {"device": device, "precision": precision, **options}
        unused = [option for option, value in options.items() if value is not None]
        if unused:
            problem = f"the tracker box has no option {', '.join(unused)}"
            raise InputError(problem, field=unused[0], remedy="leave it out")
        return BoxTracker()
    if unnamed:
        from dejacue.sources.catalogue import check_models  # which knows the trackers

        check_models(tracker=name)
    from dejacue.sources.tracks import sam2

    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    check_tracker(name)
    return sam2.load(name, device=device, precision=precision, **options)
