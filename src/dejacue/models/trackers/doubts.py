"""Where to look: frames in which a track may have gone wrong, from what is known of each frame.

Trackers fail silently. Nothing here knows the truth: a doubt is a step that objects seldom take
and trackers often do. Thresholds were chosen on rendered scenes with known switches, never on
references of real footage (docs/tracking.md has the rates).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import counted
from dejacue.models.trackers.base import overlaps

KINDS = {
    "area": "its area jumps",
    "whole": "the mask fills the frame",
    "borders": "the mask touches all four borders",
    "lost": "it is out of sight",
    "back": "it comes back: is it the same object?",
    "switch": "it looks different: is it the same object?",
    "unsure": "the tracker is unsure",
}
PAST_FRAMES = 15  # seen frames that are a track's own past
MIN_PAST_FRAMES = 5  # before something is called unusual
AREA_JUMP = 2.0  # up or down, against the median of the past
WHOLE_SHARE = 0.95  # of the frame
UNSURE_PRESENCE, UNSURE_FRAMES = 0.7, 3  # below it, for so long
UNUSUAL_Z = 6.0  # robust z of the colour distance to the past
MAX_OVERLAP, MIN_DISTANCE = 0.3, 0.15  # of a switch: with the last box, and of the colours …
NEW_DISTANCE = 0.6  # … or this distance to every frame of the past, wherever it is
_LEVELS = 4
_CHANNEL_STEPS = np.array([_LEVELS**2, _LEVELS, 1])
_MAX_SAMPLED_PIXELS = 20_000
_ROWS_AT_ONCE = 128
Row = tuple[str, int, int, str]  # kind, first and last row of the series, text


@dataclass(frozen=True)
class Doubt:
    """Frames in which a track may be wrong: ``first`` to ``last``, both included, as they are
    numbered in the series. ``kind`` is one of KINDS; ``text`` says it in words."""

    kind: str
    first: int
    last: int
    text: str


@dataclass(frozen=True, eq=False)
class Series:
    """Follows one object frame by frame, as columns.

    frames     (N,) numbers of the frames, increasing
    area       (N,) pixels; 0 where it is not seen
    presence   (N,) from 0 to 1
    boxes      (N, 4) x0, y0, x1, y1 of the mask, ends not included
    colours    (N, 64) shares of its pixels, as colour_signature gives them
    size       (height, width) of the frames
    since      the first row that is compared with the rows before it
    """

    frames: NDArray[np.int64]
    area: NDArray[np.int64]
    presence: NDArray[np.float64]
    boxes: NDArray[np.int64]
    colours: NDArray[np.float64]
    size: tuple[int, int]
    since: int = 0


def colour_signature(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return (64,) the share of the masked pixels in each of 4 × 4 × 4 colours; zeros for an empty
    mask.

    A pixel counts for both neighbouring levels of each channel by its distance to them, so that a
    little light more or less changes little. Of large masks every n-th pixel is taken.
    """
    step = max(1, int(np.count_nonzero(mask)) // _MAX_SAMPLED_PIXELS)
    taken, before = [], 0
    for top in range(0, max(len(mask), 1), _ROWS_AT_ONCE):  # all places would take much memory
        rows = slice(top, top + _ROWS_AT_ONCE)
        places = np.flatnonzero(mask[rows])
        chosen = places[-before % step :: step]
        taken.append(image[rows][np.unravel_index(chosen, mask[rows].shape)])
        before += len(places)
    pixels = np.concatenate(taken)
    return colour_counts(pixels) / max(len(pixels), 1)


def colour_counts(
    pixels: NDArray[np.uint8], groups: NDArray[np.intp] | int = 0, count: int = 1
) -> NDArray[np.float64]:
    """Return (count × 64,) how many of the pixels (N, 3) have each of 4 × 4 × 4 colours, group by
    group; ``groups`` (N,) says to which each belongs."""
    levels = pixels.astype(np.float32) * np.float32((_LEVELS - 1) / 255)
    low = np.minimum(levels.astype(np.intp), _LEVELS - 2)
    upper = levels - low
    shares = [1 - upper, upper]
    first = low @ _CHANNEL_STEPS + _LEVELS**3 * groups
    counts = np.zeros(count * _LEVELS**3)
    for bits in itertools.product((0, 1), repeat=3):
        red, green, blue = (shares[bit][:, channel] for channel, bit in enumerate(bits))
        places = first + int(_CHANNEL_STEPS @ bits)
        counts += np.bincount(places, red * green * blue, minlength=len(counts))
    return counts


def find_doubts(series: Series) -> list[Doubt]:
    """Return all doubts of one object by frame; consecutive ones of a kind are one."""
    if not (series.area > 0).any():
        return []
    doubts = [
        Doubt(kind, int(series.frames[first]), int(series.frames[last]), text)
        for find in (_areas, _fills, _absences, _switches, _unsure)
        for kind, first, last, text in find(series)
    ]
    switches = {doubt.first for doubt in doubts if doubt.kind == "switch"}  # which says more
    doubts = [doubt for doubt in doubts if doubt.kind != "back" or doubt.first not in switches]
    return sorted(doubts, key=lambda doubt: (doubt.first, list(KINDS).index(doubt.kind)))


def _areas(series: Series) -> Iterator[Row]:
    ratio = np.ones(len(series.area))
    for at, past in _pasts(series):
        ratio[at] = series.area[at] / np.median(series.area[past])
    for first, last in _runs((ratio > AREA_JUMP) | (ratio < 1 / AREA_JUMP)):
        run = ratio[first : last + 1]
        extreme = run[np.abs(np.log(run)).argmax()]
        yield "area", first, last, f"{KINDS['area']} to {extreme:.1f} times the usual"


def _fills(series: Series) -> Iterator[Row]:
    height, width = series.size
    whole = series.area >= WHOLE_SHARE * height * width
    x0, y0, x1, y1 = series.boxes.T
    borders = (series.area > 0) & (x0 <= 0) & (y0 <= 0) & (x1 >= width) & (y1 >= height) & ~whole
    for kind, holds in (("whole", whole), ("borders", borders)):
        for first, last in _runs(holds):
            yield kind, first, last, KINDS[kind]


def _absences(series: Series) -> Iterator[Row]:
    seen = series.area > 0
    gone = ~seen
    gone[: int(seen.argmax())] = False  # it counts from its first appearance on
    for first, last in _runs(gone):
        until_end = "" if last + 1 < len(seen) else " to the end"
        frames = int(series.frames[last] - series.frames[first]) + 1  # as the doubt counts them
        yield "lost", first, last, f"{KINDS['lost']}{until_end} ({counted(frames, 'frame')})"
        if not until_end:
            yield "back", last + 1, last + 1, KINDS["back"]


def _switches(series: Series) -> Iterator[Row]:
    """Yield where colours are farther from the track's past than is usual, in another place.

    A change of colour alone is mostly what one looks for, a change of state; another object seldom
    lies where the last one was. Only colours that are new altogether count wherever they are.
    """
    switched = np.zeros(len(series.area), dtype=bool)
    for at, past in _pasts(series):
        colours = series.colours[past]
        centre = np.median(colours, axis=0)
        usual = colour_distance(colours, centre)
        middle = np.median(usual)
        spread = max(1.4826 * np.median(np.abs(usual - middle)), 0.01)
        distance = colour_distance(series.colours[at], centre)
        if distance - middle <= UNUSUAL_Z * spread:
            continue
        boxes = series.boxes[[*past, at]]
        *before, overlap = overlaps(boxes[:-1], boxes[1:])
        elsewhere = overlap < min(MAX_OVERLAP, np.median(before) / 2)
        switched[at] = (elsewhere and distance > MIN_DISTANCE) or (
            colour_distance(colours, series.colours[at]).min() > NEW_DISTANCE
        )
    for first, last in _runs(switched):
        yield "switch", first, last, KINDS["switch"]


def _unsure(series: Series) -> Iterator[Row]:
    low = (series.area > 0) & (series.presence < UNSURE_PRESENCE)
    for first, last in _runs(low):
        if last - first + 1 >= UNSURE_FRAMES:
            least = series.presence[first : last + 1].min()
            yield "unsure", first, last, f"{KINDS['unsure']} (presence down to {least:.2f})"


def _pasts(series: Series) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each seen frame with the seen frames just before it, where there are enough."""
    seen = np.flatnonzero(series.area > 0)
    for place in range(MIN_PAST_FRAMES, len(seen)):
        if seen[place] >= series.since:
            yield int(seen[place]), seen[max(0, place - PAST_FRAMES) : place]


def colour_distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of pixels that would have to change colour."""
    return np.asarray(0.5 * np.abs(a - b).sum(axis=-1))


def _runs(holds: NDArray[np.bool_]) -> Iterable[tuple[int, int]]:
    """Return the first and last place of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]])))
    return [(int(first), int(after) - 1) for first, after in edges.reshape(-1, 2)]
