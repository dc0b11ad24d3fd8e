"""A tracker that looks for lost objects again with a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.models.detectors.base import Detection, overlaps
from dejacue.models.trackers.base import Observation, Prompt, Tracker, bounding_box, box_mask
from dejacue.models.trackers.doubts import colour_signature
from dejacue.models.trackers.propagate import PRESENCE

MAX_WAIT = 60  # times the patience, between two looks for an object that does not come back
SAME_PLACE = 0.3  # intersection over union with an object that is seen: not a lost one


@dataclass
class _Lost:
    """Counts frames of one object.

    missing   since it was last seen
    wait      until it is looked for again
    colours   of the object when it was last seen
    """

    missing: int = 0
    wait: int = 0
    colours: NDArray[np.float64] | None = None


class LookingAgain:
    """Follows objects with another tracker. One that is lost for ``patience`` frames is looked for
    in the picture, with ever longer pauses; where it is detected, it is followed again.

    detect    a picture → the detections that count
    details   of the tracker and of the detector: what is made depends on them
    """

    independent = False  # a detection goes to the lost object that it resembles most

    def __init__(
        self,
        tracker: Tracker,
        detect: Callable[[NDArray[np.uint8]], Sequence[Detection]],
        patience: int,
        details: Mapping[str, str],
    ) -> None:
        self.tracker, self.detect, self.patience = tracker, detect, patience
        self.name, self.every_frame = tracker.name, getattr(tracker, "every_frame", False)
        self.details: Mapping[str, str] = {**tracker.details, **details}

    def session(self) -> _Session:
        return _Session(self)


class _Session:
    def __init__(self, tracker: LookingAgain) -> None:
        self._tracker = tracker
        self._session = tracker.tracker.session()
        self._objects: dict[int, _Lost] = {}
        self._boxes: dict[int, tuple[int, int, int, int]] = {}  # of those seen in the last frame

    def step(
        self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()
    ) -> Mapping[int, Observation]:
        prompted = {prompt.object for prompt in prompts}
        due = [
            id
            for id, lost in self._objects.items()
            if lost.missing >= self._tracker.patience and lost.wait <= 0 and id not in prompted
        ]
        seen = self._session.step(image, [*prompts, *self._look(image, due)])
        self._boxes = {}
        for id, observation in seen.items():
            lost = self._objects.setdefault(id, _Lost())
            box = bounding_box(observation.mask) if observation.presence >= PRESENCE else None
            if box is None:
                lost.missing += 1
                lost.wait -= 1
            else:
                self._boxes[id] = box
                colours = colour_signature(image, observation.mask)
                self._objects[id] = _Lost(colours=colours)
        return seen

    def _look(self, image: NDArray[np.uint8], due: Sequence[int]) -> list[Prompt]:
        """Return where lost objects are detected; each thing is one of them."""
        if not due:
            return []
        for id in due:
            longest = MAX_WAIT * self._tracker.patience
            self._objects[id].wait = min(self._objects[id].missing, longest)
        taken = np.array([*self._boxes.values()], np.float64).reshape(-1, 4)
        free = [
            detection
            for detection in self._tracker.detect(image)
            if not (overlaps(np.array(detection.box), taken) > SAME_PLACE).any()
        ]
        colours = [colour_signature(image, box_mask(thing.box, image)) for thing in free]
        pairs = sorted(
            (float(np.abs(colours[at] - last).sum()), id, at)
            for id in due
            for at in range(len(free))
            if (last := self._objects[id].colours) is not None
        )
        prompts: dict[int, Prompt] = {}
        used: set[int] = set()
        for _, id, at in pairs:
            if id not in prompts and at not in used:
                prompts[id] = Prompt(object=id, box=free[at].box)
                used.add(at)
        return list(prompts.values())
