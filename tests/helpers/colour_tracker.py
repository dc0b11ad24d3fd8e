"""A rendered scene of moving colours, and a tracker that follows them without error."""

from __future__ import annotations

import numpy as np

from dejacue.models.trackers.base import Observation

COLOURS = {1: (250, 10, 10), 2: (10, 250, 10), 3: (10, 10, 250)}
FRAMES, HEIGHT, WIDTH = 24, 40, 60
GONE = range(10, 13)  # where object 1 is not in the picture


class Colour:
    """A tracker that sees every pixel of about the colour in the middle of the first prompt.

    It counts its steps and remembers, as a real one does; ``stop`` ends the run in that step.
    """

    name, independent = "colour", True

    def __init__(self, stop: int | None = None) -> None:
        self.details = {"device": "none"}
        self.stop, self.steps = stop, 0
        self.sessions: list[ColourSession] = []

    def session(self):
        self.sessions.append(ColourSession(self))
        return self.sessions[-1]


class ColourSession:
    def __init__(self, tracker: Colour) -> None:
        self.tracker, self.colours, self.count = tracker, {}, 0

    def step(self, image, prompts=()):
        self.tracker.steps += 1
        if self.tracker.steps == self.tracker.stop:
            raise KeyboardInterrupt
        self.count += 1
        for prompt in prompts:
            if prompt.mask is not None:
                y, x = np.argwhere(prompt.mask).mean(axis=0).astype(int)
            elif prompt.box is not None:
                x0, y0, x1, y1 = prompt.box
                x, y = int(x0 + x1) // 2, int(y0 + y1) // 2
            else:
                x, y = (int(side) for side in prompt.points[0][:2])
            self.colours[prompt.object] = image[y, x].tolist()
        objects = {}
        for id, colour in self.colours.items():
            mask = (np.abs(image.astype(int) - colour) < 60).all(axis=2)
            # the presence tells how many steps came before: it must not change by resuming
            objects[id] = Observation(mask, (0.9 + self.count / 1000) if mask.any() else 0.1)
        return objects


def truth(id: int, at: int) -> np.ndarray:
    """Return the mask of an object: 1 moves to the right, 2 to the left, 3 comes in frame 8."""
    mask = np.zeros((HEIGHT, WIDTH), bool)
    if id == 1 and at not in GONE:
        mask[4:12, 2 + at : 10 + at] = True
    if id == 2:
        mask[18:26, 50 - at : 58 - at] = True
    if id == 3 and at >= 8:
        mask[30:38, 20:28] = True
    return mask


def picture(at: int) -> np.ndarray:
    """Draw the objects of a frame on grey."""
    image = np.full((HEIGHT, WIDTH, 3), 128, np.uint8)
    for id, colour in COLOURS.items():
        image[truth(id, at)] = colour
    return image


def box(id: int, at: int) -> tuple[float, ...]:
    rows, columns = np.nonzero(truth(id, at))
    return (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
