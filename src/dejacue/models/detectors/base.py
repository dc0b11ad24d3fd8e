"""The protocol of detectors: a picture and the names of things → boxes with scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted, shortened
from dejacue.models.trackers.base import Box
from dejacue.models.trackers.base import overlaps as overlaps

MAX_NAMES = 20
MAX_NAME_LETTERS = 100
MAX_OVERLAP = 0.7  # intersection over union; two boxes that overlap more are on one thing
MAX_CANDIDATES = 50  # boxes of one picture


@dataclass(frozen=True)
class Detection:
    """A thing that was detected in a picture.

    box     in pixels of the picture, inside it
    score   0 to 1; scores of different detectors cannot be compared
    name    the one of the names that were given which fits best
    """

    box: Box
    score: float
    name: str


@runtime_checkable
class Detector(Protocol):
    """Finds things by their names.

    name        what load_detector calls it
    identity    model and hash of its weights: another one may find other boxes
    threshold   the score from which on a box counts as found
    details     device, versions, hashes … as text: recorded in what is made with it
    """

    name: str
    identity: str
    threshold: float
    details: Mapping[str, str]

    def detect(self, picture: NDArray[np.uint8], names: Sequence[str]) -> list[Detection]:
        """Return what a picture (H, W, 3 RGB) shows of these names, best first. Boxes below the
        threshold are returned as well, so that a search can say how near it came."""
        ...


@runtime_checkable
class ExampleDetector(Protocol):
    """A detector that can also be shown what to find.

    example_threshold   the score from which on a box counts as found
    """

    example_threshold: float

    def detect_like(
        self, picture: NDArray[np.uint8], example: NDArray[np.uint8]
    ) -> list[Detection]:
        """Return what looks like the thing in ``example``, a picture of little else, best first;
        their name is empty."""
        ...


def check_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names without needless blanks and repetitions; refuse what names nothing."""
    several = (names,) if isinstance(names, str) else tuple(names)
    if not several:
        raise InputError('no name is given; name the object, such as "cup"')
    cleaned: dict[str, str] = {}
    for name in several:
        words = " ".join(name.split())
        if not any(letter.isalpha() for letter in words):
            problem = f'the name "{shortened(words)}" has no letters'
            raise InputError(f'{problem}; name the object, such as "cup"')
        if len(words) > MAX_NAME_LETTERS:
            problem = f'the name "{shortened(words, 40)}" has {len(words)} letters'
            remedy = f'use a few words, such as "glass cup" (at most {MAX_NAME_LETTERS} letters)'
            raise InputError(f"{problem}; {remedy}")
        cleaned.setdefault(words.lower(), words)
    if len(cleaned) > MAX_NAMES:
        problem = f"{counted(len(cleaned), 'name')} are too many for one search"
        raise InputError(f"{problem}; give at most {MAX_NAMES}")
    return tuple(cleaned.values())


def distinct(
    boxes: NDArray[np.floating],
    scores: NDArray[np.floating],
    size: tuple[int, int],
    limit: int = MAX_CANDIDATES,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return all boxes (n, 4), clipped to a picture of ``size`` (height, width), and the indices of
    those that are kept, best first: at most ``limit``, and one for each thing.

    A box that is narrower than a pixel inside the picture, or is not finite, is not kept. Of two
    that overlap by more than MAX_OVERLAP the one with the higher score is kept, of equal ones the
    first.
    """
    height, width = size
    clipped = np.clip(np.asarray(boxes, np.float64).reshape(-1, 4), 0, [width, height] * 2)
    usable = np.isfinite(clipped).all(axis=1) & np.isfinite(scores)
    usable &= (clipped[:, 2:] - clipped[:, :2] >= 1).all(axis=1)
    waiting = np.flatnonzero(usable)
    waiting = waiting[np.argsort(-np.asarray(scores)[waiting], kind="stable")]
    rows: list[int] = []
    while len(waiting) and len(rows) < limit:
        best, waiting = int(waiting[0]), waiting[1:]
        rows.append(best)
        waiting = waiting[overlaps(clipped[best], clipped[waiting]) <= MAX_OVERLAP]
    return clipped, np.array(rows, np.int64)


def merged(
    detections: Sequence[Detection], size: tuple[int, int], limit: int = MAX_CANDIDATES
) -> list[Detection]:
    """Return the detections of one picture, best first, one for each thing; see ``distinct``."""
    boxes = np.array([detection.box for detection in detections], np.float64)
    scores = np.array([detection.score for detection in detections], np.float64)
    clipped, rows = distinct(boxes, scores, size, limit)
    return [
        Detection(as_box(clipped[at]), detections[at].score, detections[at].name) for at in rows
    ]


def as_box(corners: NDArray[np.floating]) -> Box:
    """Return four numbers of an array as a Box."""
    x0, y0, x1, y1 = (float(corner) for corner in corners)
    return x0, y0, x1, y1
