"""A tracker that follows nothing: the box of the prompt stays until another prompt moves it."""

from __future__ import annotations

from dejacue.errors import InputError
from dejacue.models.trackers.base import Observation, box_mask
from dejacue.models.trackers.prompts import box_of
from dejacue.models.trackers.propagate import TRACKERS

NOTE = "the box stays in place in every frame until another prompt moves it"


class Still:
    """A tracker without a model, as fast as a test wants it; presence is always 1."""

    name, independent = "still", True

    def __init__(self, **options: object) -> None:
        if any(options.values()):
            raise InputError("still has no model to set")
        self.details = {"note": NOTE}

    def session(self):
        return StillSession()


class StillSession:
    def __init__(self) -> None:
        self.boxes = {}

    def step(self, image, prompts=()):
        self.boxes |= {prompt.object: box_of(prompt) for prompt in prompts}
        boxes = sorted(self.boxes.items())
        return {object: Observation(box_mask(box, image), 1.0) for object, box in boxes}


def register() -> None:
    """Let ``--tracker still`` name it, in this process."""
    TRACKERS.built_in["still"] = Still
