"""Where to look: frames in which a track may have gone wrong, from what is known of each frame.

Trackers fail silently. Nothing here knows the truth: a doubt is a step that objects seldom take
and trackers often do. Thresholds were chosen on rendered scenes with known switches, never on
references of real footage (docs/tracking.md has the rates).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import counted

KINDS = {
    "area": "its area jumps",
    "whole": "the mask fills the frame",
    "borders": "the mask touches all four borders",
    "lost": "it is out of sight",
    "back": "it comes back: is it the same object?",
    "switch": "it looks different: is it the same object?",
    "unsure": "the tracker is unsure",
}
WINDOW = 15  # seen frames that are a track's own past
FEWEST = 5  # of them before something is called unusual
JUMP = 2.0  # of the area, up or down, against the median of the past
WHOLE = 0.95  # of the frame
UNSURE, UNSURE_FRAMES = 0.7, 3  # presence, and for how long
UNUSUAL = 6.0  # robust z of the colour distance to the past
ELSEWHERE, OTHER = 0.3, 0.15  # overlap with the last box, and colour distance, of a switch …
ALL_OTHER = 0.6  # … or this distance to every frame of the past, wherever it is
_LEVELS = 4
_MOST_PIXELS = 20_000


@dataclass(frozen=True)
class Doubt:
    """``kind`` is one of KINDS; frames ``first`` to ``last``, both included, as they are numbered
    in the series; ``text`` says it in words."""

    kind: str
    first: int
    last: int
    text: str


@dataclass(frozen=True, eq=False)
class Series:
    """One object, frame by frame.

    frames     (N,) numbers of the frames, increasing
    area       (N,) pixels; 0 where it is not seen
    presence   (N,) from 0 to 1
    boxes      (N, 4) x0, y0, x1, y1 of the mask, ends not included
    colours    (N, 64) shares of its pixels, as colour_signature gives them
    size       (height, width) of the frames
    """

    frames: NDArray[np.int64]
    area: NDArray[np.int64]
    presence: NDArray[np.float64]
    boxes: NDArray[np.int64]
    colours: NDArray[np.float64]
    size: tuple[int, int]


def colour_signature(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(64,) the share of the masked pixels in each of 4 × 4 × 4 colours; zeros for an empty mask.

    A pixel counts for both neighbouring levels of each channel by its distance to them, so that a
    little light more or less changes little. Of large masks every n-th pixel is taken.
    """
    chosen = image[mask]
    chosen = chosen[:: max(1, len(chosen) // _MOST_PIXELS)]
    pixels = chosen.astype(np.float32) * np.float32((_LEVELS - 1) / 255)
    low = np.minimum(pixels.astype(np.int64), _LEVELS - 2)
    upper = pixels - low
    found = np.zeros(_LEVELS**3)
    for corner in range(8):
        bits = np.array([corner >> 2 & 1, corner >> 1 & 1, corner & 1])
        places = (low + bits) @ np.array([_LEVELS**2, _LEVELS, 1])
        weights = np.where(bits, upper, 1 - upper).prod(axis=1)
        found += np.bincount(places, weights, minlength=_LEVELS**3)
    return found / max(len(pixels), 1)


def find_doubts(series: Series) -> list[Doubt]:
    """All doubts of one object, in the order of frames; consecutive ones of a kind are one."""
    if not (series.area > 0).any():
        return []
    found = [
        *_areas(series),
        *_fills(series),
        *_absences(series),
        *_switches(series),
        *_unsure(series),
    ]
    other = {doubt.first for doubt in found if doubt.kind == "switch"}  # which says more
    found = [doubt for doubt in found if doubt.kind != "back" or doubt.first not in other]
    return sorted(found, key=lambda doubt: (doubt.first, list(KINDS).index(doubt.kind)))


def _areas(series: Series) -> Iterator[Doubt]:
    ratio = np.ones(len(series.area))
    for at, past in _pasts(series):
        ratio[at] = series.area[at] / np.median(series.area[past])
    for first, last in _runs((ratio > JUMP) | (ratio < 1 / JUMP)):
        most = ratio[first : last + 1]
        extreme = most[np.abs(np.log(most)).argmax()]
        text = f"{KINDS['area']} to {extreme:.1f} times the usual"
        yield _doubt(series, "area", first, last, text)


def _fills(series: Series) -> Iterator[Doubt]:
    height, width = series.size
    whole = series.area >= WHOLE * height * width
    x0, y0, x1, y1 = series.boxes.T
    borders = (series.area > 0) & (x0 <= 0) & (y0 <= 0) & (x1 >= width) & (y1 >= height) & ~whole
    for kind, holds in (("whole", whole), ("borders", borders)):
        for first, last in _runs(holds):
            yield _doubt(series, kind, first, last, KINDS[kind])


def _absences(series: Series) -> Iterator[Doubt]:
    """From its first appearance on."""
    seen = series.area > 0
    start = int(seen.argmax())
    gone = ~seen
    gone[:start] = False
    for first, last in _runs(gone):
        more = "" if last + 1 < len(seen) else " to the end"
        frames = int(series.frames[last] - series.frames[first]) + 1  # as the doubt counts them
        text = f"{KINDS['lost']}{more} ({counted(frames, 'frame')})"
        yield _doubt(series, "lost", first, last, text)
        if not more:
            yield _doubt(series, "back", last + 1, last + 1, KINDS["back"])


def _switches(series: Series) -> Iterator[Doubt]:
    """Colours farther from the track's own past than is usual for it, in another place.

    A change of colour alone is mostly what one looks for, a change of state; another object seldom
    lies where the last one was. Only colours that are new altogether count wherever they are.
    """
    other = np.zeros(len(series.area), dtype=bool)
    for at, past in _pasts(series):
        own = series.colours[past]
        centre = np.median(own, axis=0)
        usual = _distance(own, centre)
        middle = np.median(usual)
        spread = max(1.4826 * np.median(np.abs(usual - middle)), 0.01)
        distance = _distance(series.colours[at], centre)
        if distance - middle <= UNUSUAL * spread:
            continue
        boxes = series.boxes[[*past, at]]
        *before, overlap = _overlaps(boxes[:-1], boxes[1:])
        elsewhere = overlap < min(ELSEWHERE, np.median(before) / 2)
        other[at] = (elsewhere and distance > OTHER) or (
            _distance(own, series.colours[at]).min() > ALL_OTHER
        )
    for first, last in _runs(other):
        yield _doubt(series, "switch", first, last, KINDS["switch"])


def _unsure(series: Series) -> Iterator[Doubt]:
    low = (series.area > 0) & (series.presence < UNSURE)
    for first, last in _runs(low):
        if last - first + 1 >= UNSURE_FRAMES:
            least = series.presence[first : last + 1].min()
            text = f"{KINDS['unsure']} (presence down to {least:.2f})"
            yield _doubt(series, "unsure", first, last, text)


def _pasts(series: Series) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every seen frame with the seen frames just before it, where there are enough."""
    seen = np.flatnonzero(series.area > 0)
    for place in range(FEWEST, len(seen)):
        yield int(seen[place]), seen[max(0, place - WINDOW) : place]


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of pixels that would have to change colour."""
    return np.asarray(0.5 * np.abs(one - other).sum(axis=-1))


def _overlaps(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) intersection over union of boxes."""
    sides = np.minimum(one[:, 2:], other[:, 2:]) - np.maximum(one[:, :2], other[:, :2])
    common = sides.clip(min=0).prod(axis=1)
    areas = (one[:, 2:] - one[:, :2]).prod(axis=1) + (other[:, 2:] - other[:, :2]).prod(axis=1)
    return np.asarray(common / np.maximum(areas - common, 1))


def _runs(holds: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """First and last place of every run in which it holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]])))
    return [(int(first), int(after) - 1) for first, after in edges.reshape(-1, 2)]


def _doubt(series: Series, kind: str, first: int, last: int, text: str) -> Doubt:
    return Doubt(kind, int(series.frames[first]), int(series.frames[last]), text)
