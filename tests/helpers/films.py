"""Films of coloured cups with cuts, and a detector, a tracker and an encoder that know colours."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dejacue.models.detectors import Detection
from dejacue.models.encoders.base import ImageEncoder
from dejacue.models.trackers.doubts import colour_signature

HEIGHT, WIDTH, RATE = 48, 96, 10
CUPS = ((240, 30, 30), (30, 200, 30), (40, 60, 240), (220, 200, 20))
BACKGROUNDS = ((150, 140, 150), (90, 95, 90), (180, 175, 165), (120, 120, 125))
MAX_DISTANCE = 45  # of a pixel from the colour of a cup, which compression changes


@dataclass
class Film:
    """Frames, and where each cup is in each frame: x0, y0, x1, y1 or None."""

    frames: list[np.ndarray] = field(default_factory=list)
    places: list[dict[int, tuple[int, int, int, int]]] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)

    def shot(self, length: int, *paths, background: int = 0) -> Film:
        """Add a shot; a path is (cup, x at the start, x at the end, y): outside, it is not seen."""
        self.cuts.append(len(self.frames))
        for at in range(length):
            image = np.full((HEIGHT, WIDTH, 3), BACKGROUNDS[background], np.uint8)
            image[::7] -= 4  # a little texture
            places = {}
            for cup, start, end, y in paths:
                x = round(start + (end - start) * at / max(length - 1, 1))
                x0, x1 = max(x, 0), min(x + 12, WIDTH)
                if x1 - x0 >= 6:
                    image[y : y + 12, x0:x1] = CUPS[cup]
                    places[cup] = (x0, y, x1, y + 12)
            self.frames.append(image)
            self.places.append(places)
        return self


def cup_pixels(image: np.ndarray, cup: int) -> np.ndarray:
    return (np.abs(image.astype(int) - CUPS[cup]) < MAX_DISTANCE).all(axis=2)


class CupDetector:
    """Finds cups, whatever their colour; a score is the share of a cup that is in the picture."""

    name, identity, threshold = "cups", "cups@1", 0.4

    def __init__(self) -> None:
        self.details, self.looks = {}, 0

    def detect(self, picture, names):
        self.looks += 1
        detections = []
        for cup in range(len(CUPS)) if "cup" in names else ():
            rows, columns = np.nonzero(cup_pixels(picture, cup))
            if len(rows) > 20:
                box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
                score = min(len(rows) / 144, 1.0) * (1 - cup / 100)
                detections.append(Detection(tuple(map(float, box)), score, "cup"))
        return sorted(detections, key=lambda detection: -detection.score)


class ColourRows(ImageEncoder):
    """An encoder whose rows are the colours of a picture."""

    name = identity = "colours@1"
    dimension, size, batch = 64, 32, 8

    def __init__(self) -> None:
        self.details = {}

    def encode_images(self, crops):
        rows = [
            colour_signature(crop, (np.ptp(crop.astype(int), axis=2) > 60)) + 1e-3 for crop in crops
        ]
        return np.array(rows, np.float32)
