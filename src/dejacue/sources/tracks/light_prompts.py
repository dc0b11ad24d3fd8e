"""A box, points or a mask in one frame → the object in it, told from its surroundings by colour."""

from __future__ import annotations

import math

import numpy as np

from dejacue.errors import InputError
from dejacue.sources.tracks.base import Mask, Prompt
from dejacue.sources.tracks.light_colour import STRANGE_OUTSIDE, Colours, histogram, surroundings
from dejacue.sources.tracks.light_motion import WEIGHTS
from dejacue.sources.tracks.light_object import FEWEST, Followed, View, settle, vicinity
from dejacue.sources.tracks.light_regions import barriers, box_mean, grown, touching

ROUNDS = 4
MOST_OF_FRAME = 0.6  # what grows over more from a point is not an object
TOLERANCES = np.arange(8, 57, 4)  # differences of colour up to which a region grows


def check(prompt: Prompt, size: tuple[int, int]) -> None:
    """Whether a prompt can be used on a frame of this height and width; the driver names it."""
    height, width = size
    where = f"object {prompt.object}"
    if prompt.box is None and prompt.mask is None and not prompt.points:
        raise InputError(f"{where}: nothing is given; give a box, a point or a mask")
    if prompt.mask is not None:
        if prompt.mask.shape != size:
            given = " × ".join(str(side) for side in prompt.mask.shape[::-1])
            raise InputError(
                f"{where}: the mask has {given} pixels, the frame {width} × {height}; "
                "give a mask of the frame's size"
            )
        if not prompt.mask.any():
            raise InputError(f"{where}: the mask is empty; mark the object in it")
    if prompt.box is not None:
        x0, y0, x1, y1 = prompt.box
        cut = min(x1, width) - max(x0, 0), min(y1, height) - max(y0, 0)
        if not (all(map(math.isfinite, prompt.box)) and min(cut) >= 1):
            raise InputError(
                f"{where}: the box {x0:g},{y0:g},{x1:g},{y1:g} covers nothing of the "
                f"{width} × {height} frame; give x0,y0,x1,y1 with x0 < x1 and y0 < y1 inside it"
            )
    for x, y, _ in prompt.points:
        if not (0 <= x < width and 0 <= y < height):
            raise InputError(
                f"{where}: the point {x:g},{y:g} is outside the {width} × {height} frame; "
                "give x,y inside it"
            )


def shown_by(view: View, prompt: Prompt, factor: int, known: Followed | None) -> Followed:
    """The object as prompted in this frame, of which one pixel is ``factor`` of the real one.

    A mask or box starts it anew, but the colours it was first shown with stay; points alone add
    to, or take from, what is already known of the object.
    """
    if prompt.mask is not None:
        mask = _reduced(prompt.mask, factor)
    elif prompt.box is not None:
        mask = _in_box(view, prompt, factor)
    else:
        mask = np.zeros(view.size, dtype=bool) if known is None else known.mask
    mask = _with_points(view, mask, prompt, factor)
    if int(mask.sum()) < 1:
        raise InputError(
            f"object {prompt.object}: nothing stands out there from its "
            "surroundings; give a box around the object, or its mask"
        )
    followed = Followed.shown(view, mask)
    if known is not None:
        followed.colours.first = np.float32(0.5) * (followed.colours.first + known.colours.first)
    return followed


def _reduced(mask: Mask, factor: int) -> Mask:
    height, width = mask.shape
    padded = np.pad(mask, ((0, -height % factor), (0, -width % factor)))
    parts = padded.reshape(padded.shape[0] // factor, factor, -1, factor).mean(axis=(1, 3))
    half = parts >= 0.5
    found: Mask = half if half.any() else parts > 0
    return found


def _in_box(view: View, prompt: Prompt, factor: int) -> Mask:
    """What is in a box and unlike what is around it, told apart in a few rounds."""
    assert prompt.box is not None
    height, width = view.size
    x0, y0, x1, y1 = (side / factor for side in prompt.box)
    left, top = max(math.floor(x0 + 0.5), 0), max(math.floor(y0 + 0.5), 0)
    left, top = min(left, width - 1), min(top, height - 1)
    right = min(max(math.floor(x1 + 0.5), left + 1), width)
    bottom = min(max(math.floor(y1 + 0.5), top + 1), height)
    box = np.zeros(view.size, dtype=bool)
    box[top:bottom, left:right] = True
    # The place: what has an edge around it, the more the nearer to the middle.
    y = np.linspace(-1, 1, bottom - top)[:, None]
    x = np.linspace(-1, 1, right - left)[None]
    outside = ~box
    if not outside.any():  # the box is the whole frame
        outside[[0, -1]], outside[:, [0, -1]] = True, True
    barrier = barriers(view.picture, outside, WEIGHTS)[top:bottom, left:right]
    scale = max(float(np.percentile(barrier, 75)), 4.0)
    place = np.zeros(view.size, dtype=np.float32)
    place[top:bottom, left:right] = (
        0.15 + 0.75 * np.minimum(barrier / scale, 1) - 0.1 * np.maximum(np.abs(x), np.abs(y)) ** 3
    )
    near = vicinity(box)
    inside = histogram(view.bins, place * box)
    colours = Colours(inside, inside, surroundings(view.picture, view.bins, box, near))
    mask = box
    for _ in range(ROUNDS):
        ratio = colours.ratios(strange=STRANGE_OUTSIDE)[view.bins]
        found, _ = settle(ratio, place, sure=0.3)
        found &= box
        if found.sum() < max(FEWEST, 0.03 * box.sum()):
            break
        mask = found
        colours = Colours.of(view.picture, view.bins, mask, near)
    return mask


def _with_points(view: View, mask: Mask, prompt: Prompt, factor: int) -> Mask:
    """A mask with the regions around the points inside, without those around the others."""
    refused: Mask = np.zeros_like(mask)
    for x, y, inside in prompt.points:
        if not inside:
            refused |= _region(view, (int(y // factor), int(x // factor)), mask & ~refused)
    for x, y, inside in prompt.points:
        at = int(y // factor), int(x // factor)
        if not inside or (mask[at] and not refused[at]):
            continue
        region = _region(view, at, None) & ~refused
        if region.sum() > MOST_OF_FRAME * region.size:
            raise InputError(
                f"object {prompt.object}: the point {x:g},{y:g} is not on "
                "anything that stands out; click on the object, or give a box around it"
            )
        mask = mask | _refined(view, region)
    return mask & ~refused


def _refined(view: View, region: Mask) -> Mask:
    """A region up to its border, by its colours."""
    colours = Colours.of(view.picture, view.bins, region, vicinity(region))
    place = 0.05 + 0.9 * box_mean(region, 2)
    found, _ = settle(colours.ratios()[view.bins], place)
    return region | (found & grown(region, 2))


def _region(view: View, at: tuple[int, int], within: Mask | None) -> Mask:
    """What has the colour of a point and hangs together with it.

    The tolerance is the one at which the region changes least: a thing has a border, the
    background has none. ``within`` restricts it; a point elsewhere then gives nothing.
    """
    y, x = at
    if within is not None and not within[at]:
        return np.zeros(view.size, dtype=bool)
    patch = view.picture[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].reshape(-1, 3)
    colour = np.median(patch, axis=0).astype(np.float32)
    difference = np.abs(view.picture.astype(np.float32) - colour) @ WEIGHTS
    difference = box_mean(difference, 1)
    seed = np.zeros(view.size, dtype=bool)
    seed[at] = True
    difference[at] = 0
    if within is not None:
        difference = np.where(within, difference, np.float32(np.inf))
    regions = [touching(difference <= tolerance, seed) for tolerance in TOLERANCES]
    areas = np.array([int(region.sum()) for region in regions], dtype=float)
    growth = (areas[2:] - areas[:-2]) / areas[1:-1]
    usable = (areas[1:-1] <= MOST_OF_FRAME * seed.size) & (areas[1:-1] >= FEWEST)
    if not usable.any():
        return regions[1]
    return regions[1 + int(np.where(usable, growth, np.inf).argmin())]
