"""One object that is carried from frame to frame: where its pixels went, and which colours are its.

Where both fail it is lost: its mask is empty until its colours are found again in its shape.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.sources.tracks.base import Mask
from dejacue.sources.tracks.light_colour import (
    Bins,
    Colours,
    bins_of,
    histogram,
    surroundings,
)
from dejacue.sources.tracks.light_motion import (
    BLOCK,
    Picture,
    Shift,
    carried,
    distances,
    overlaps,
    shift_at,
    whole_shift,
)
from dejacue.sources.tracks.light_regions import (
    Plane,
    box_mean,
    box_of,
    filled,
    grown,
    shrunk,
    touching,
)

SMALL_SIDE = 80  # pixels of the shorter side of the picture in which a whole object is looked for
RATE, RATE_OUTSIDE, RATE_LOST = 0.12, 0.3, 0.04  # how fast the colours follow
PLACE, FITS = 1.1, 1.5  # weight of where pixels came from, against colour; more where it fits well
TOGETHER = 2.2  # weight of the neighbours
UNKNOWN = 0.6  # presence of an object that goes on but has none of its first colours
GONE = 0.4  # below this fit an object is lost
FOUND = 0.5  # above this one it is there again
STRANGE_FOUND = 1.8e-4  # a colour never seen hardly counts when an object is looked for again
LIKENESS = 0.2  # mean colour under its shape, −1 to 1, above which a place is tried
ADDING, FORGETTING = 0.3, 0.04  # shares by which the memory of the shape follows the mask
RECALL = 0.4  # what the memory says of the place
SHARP = np.float32(0.5)  # how little the border is blurred before it is moved
FEWEST = 6  # pixels of an object


class View:
    """A frame in the working size: (H, W, 3) YCbCr, the bins of its colours, a small copy."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.bins: Bins = bins_of(picture)
        self.size: tuple[int, int] = (picture.shape[0], picture.shape[1])
        self.factor = max(1, round(min(self.size) / SMALL_SIDE))
        self.small = small(picture, self.factor)


def small(values: NDArray[Any], factor: int) -> Plane:
    """Means over squares; what is left over at the right and below is dropped."""
    height, width = values.shape[0] // factor, values.shape[1] // factor
    cut = values[: height * factor, : width * factor]
    shape = (height, factor, width, factor, *values.shape[2:])
    return np.asarray(cut.reshape(shape).mean(axis=(1, 3), dtype=np.float32))


@dataclass(frozen=True)
class Area:
    """A window of the frame; y1 and x1 are not part of it."""

    y0: int
    x0: int
    y1: int
    x1: int

    @classmethod
    def around(cls, box: tuple[int, int, int, int], size: tuple[int, int]) -> Area:
        """With a margin around a box (y0, x0, y1, x1), inside the frame."""
        y0, x0, y1, x1 = box
        margin = max(12, (y1 - y0 + x1 - x0) // 5)
        cut = []
        for low, high, length in ((y0, y1, size[0]), (x0, x1, size[1])):
            low = min(max(low - margin, 0), max(length - 2 * BLOCK, 0))
            cut.append((low, max(min(high + margin, length), min(low + 2 * BLOCK, length))))
        return cls(cut[0][0], cut[1][0], cut[0][1], cut[1][1])

    def joined(self, other: Area) -> Area:
        return Area(
            min(self.y0, other.y0),
            min(self.x0, other.x0),
            max(self.y1, other.y1),
            max(self.x1, other.x1),
        )

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        return values[self.y0 : self.y1, self.x0 : self.x1]

    def blocks_of(self, values: NDArray[Any], shift: Shift = (0, 0)) -> NDArray[Any]:
        """The window, moved against the shift, in whole blocks: edges are drawn out."""
        height, width = values.shape[:2]
        rows = np.arange(self.y0, self.y0 + -(-(self.y1 - self.y0) // BLOCK) * BLOCK) - shift[0]
        columns = np.arange(self.x0, self.x0 + -(-(self.x1 - self.x0) // BLOCK) * BLOCK) - shift[1]
        return values[np.clip(rows, 0, height - 1)[:, None], np.clip(columns, 0, width - 1)[None]]


class Followed:
    """An object and all that is known of it.

    mask      (H, W) in the working size, empty while it is lost
    fit       0 to 1, how well it goes on as before; ``presence`` also asks how much of it still
              has the colours it was shown with
    score     (H, W) above 0 on the mask: how clearly a pixel belongs to it
    memory    (h, w) from 0 to 1, where it has been of late, as if it had not moved; its corner
              lies ``at`` (y, x) in the frame, or beside it when the object is partly outside
    area      the usual number of its pixels
    lost      frames since it was last seen; 0 while it is
    """

    def __init__(self, mask: Mask, colours: Colours) -> None:
        self.mask = mask
        self.colours = colours
        self.score = np.where(mask, np.float32(2), np.float32(-2))
        y0, x0, y1, x1 = box_of(mask) if mask.any() else (0, 0, 1, 1)
        self.memory = mask[y0:y1, x0:x1].astype(np.float32)
        self.at = (y0, x0)
        self.area = float(mask.sum())
        self.fit = self.presence = 1.0
        self.lost = 0

    @classmethod
    def shown(cls, view: View, mask: Mask) -> Followed:
        return cls(mask, Colours.of(view.picture, view.bins, mask, vicinity(mask)))

    def copy(self) -> Followed:
        """A copy that can go on without changing this one; arrays are never changed in place."""
        twin = copy.copy(self)
        twin.colours = copy.copy(self.colours)
        return twin

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, by name; from_arrays takes it back."""
        return {
            "mask": self.mask,
            "score": self.score,
            "memory": self.memory,
            "at": np.array(self.at),
            "first": self.colours.first,
            "inside": self.colours.inside,
            "outside": self.colours.outside,
            "area": np.array(self.area),
            "fit": np.array(self.fit),
            "presence": np.array(self.presence),
            "lost": np.array(self.lost),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Followed:
        colours = Colours(arrays["first"], arrays["inside"], arrays["outside"])
        followed = cls(arrays["mask"], colours)
        followed.score, followed.memory = arrays["score"], arrays["memory"]
        followed.at = (int(arrays["at"][0]), int(arrays["at"][1]))
        followed.area, followed.lost = float(arrays["area"]), int(arrays["lost"])
        followed.fit, followed.presence = float(arrays["fit"]), float(arrays["presence"])
        return followed

    def follow(self, before: View, now: View) -> None:
        """Find the object in the next frame."""
        if self.lost:
            self._search(now)
            return
        self._carry(before, now)
        if self.fit < GONE:
            self._lose()

    def learn(self, now: View) -> None:
        """Take up the colours of the frame, where they are not in doubt, and the shape."""
        if self.lost or not self.mask.any():
            if self.lost > 1:  # what comes into the picture meanwhile is not the object
                self.colours.learn_outside(histogram(now.bins), RATE_LOST)
            return
        sure = shrunk(self.mask, 1) & (self.score > 0.5)
        sure &= self.colours.ratios()[now.bins] > -1
        if self.fit > 0.6 and sure.sum() > FEWEST:
            self.colours.learn_inside(histogram(now.bins[sure]), RATE * self.fit)
        outside = surroundings(now.picture, now.bins, grown(self.mask, 1), vicinity(self.mask))
        self.colours.learn_outside(outside, RATE_OUTSIDE)
        self._remember()

    def _remember(self) -> None:
        """Quick to add to the memory, slow to forget; what is outside the frame is kept."""
        old = box_of(self.memory > 0.1) if (self.memory > 0.1).any() else (0, 0, 1, 1)
        here = box_of(self.mask)
        y0, x0 = min(old[0] + self.at[0], here[0]), min(old[1] + self.at[1], here[1])
        y1, x1 = max(old[2] + self.at[0], here[2]), max(old[3] + self.at[1], here[3])
        memory = lay(self.memory, self.at, Area(y0, x0, y1, x1))
        mask = lay(self.mask.astype(np.float32), (0, 0), Area(y0, x0, y1, x1), beyond=np.nan)
        rate = np.where(mask > memory, np.float32(ADDING), np.float32(FORGETTING))
        self.memory = np.where(np.isnan(mask), memory, memory + rate * (mask - memory))
        self.at = (y0, x0)
        if self.fit > 0.6:
            self.area += 0.1 * (float(self.mask.sum()) - self.area)

    def _carry(self, before: View, now: View) -> None:
        factor = now.factor
        ratios = self.colours.ratios()
        like = small(np.tanh(ratios)[now.bins], factor)
        down, right = whole_shift(before.small, now.small, small(self.mask, factor), like)
        shift = (down * factor, right * factor)
        y0, x0, y1, x1 = box_of(self.mask)
        area = Area.around((y0 + shift[0], x0 + shift[1], y1 + shift[0], x1 + shift[1]), now.size)
        there = area.blocks_of(self.mask, shift)
        place, misfit, rest = carried(
            area.blocks_of(before.picture, shift),
            area.blocks_of(now.picture),
            SHARP * there + (1 - SHARP) * box_mean(there, 1),
            there,
            shift,
        )
        self.at = (self.at[0] + shift[0] + rest[0], self.at[1] + shift[1] + rest[1])
        height, width = self.memory.shape
        whole = Area.around((*self.at, self.at[0] + height, self.at[1] + width), now.size)
        wide = area.joined(whole)
        corner = (area.y0, area.x0)
        moved = lay(place[: area.y1 - area.y0, : area.x1 - area.x0], corner, wide)
        misfit = lay(misfit[: area.y1 - area.y0, : area.x1 - area.x0], corner, wide, beyond=99)
        trust = PLACE + np.float32(FITS) * np.exp(-misfit / 5)
        place = np.maximum(moved, RECALL * lay(self.memory, self.at, wide))
        self._settle(now, wide, place, trust, ratios[wide.of(now.bins)])

    def _settle(
        self, now: View, area: Area, place: Plane, trust: Plane | float, ratio: Plane
    ) -> None:
        """Colour and place → the mask inside the window, and the presence."""
        mask, score = settle(ratio, place, trust)
        self.mask = np.zeros(now.size, dtype=bool)
        self.score = np.full(now.size, -2, dtype=np.float32)
        area.of(self.mask)[...] = mask
        area.of(self.score)[...] = score
        self.fit = self._fit(ratio, mask)
        known = self.colours.known(now.bins[self.mask]) if mask.any() else 0.0
        self.presence = self.fit * (UNKNOWN + (1 - UNKNOWN) * known)

    def _fit(self, ratio: Plane, mask: Mask) -> float:
        """Whether its colours are the object's, times whether there is enough of it."""
        count = int(mask.sum())
        if count < FEWEST:
            return 0.0
        agreement = float((ratio[mask] > 0).mean())
        share = count / max(self.area, 1.0)
        plausible = min(1.0, share / 0.15, 4.0 / share)
        return float(np.clip(1.25 * agreement - 0.125, 0, 1)) * plausible

    def _yield(self, pixels: Mask) -> None:
        self.mask = self.mask & ~pixels
        self.score = np.where(pixels, np.float32(-0.1), self.score)
        if not self.mask.any():
            self._lose()

    def _lose(self) -> None:
        self.lost += 1
        self.fit = self.presence = 0.0
        self.mask = np.zeros_like(self.mask)
        self.score = np.full_like(self.score, -2)

    def _search(self, now: View) -> None:
        """Look for the remembered shape, full of its colours, wherever it may be by now."""
        ratios = self.colours.ratios(strange=STRANGE_FOUND)
        at = self._best_place(small(np.tanh(ratios)[now.bins], now.factor), now.factor)
        self.fit = 0.0
        if at is not None:
            height, width = self.memory.shape
            area = Area.around((*at, at[0] + height, at[1] + width), now.size)
            place = 0.25 + 0.5 * box_mean(lay(self.memory, at, area), 2)
            self._settle(now, area, place, PLACE, ratios[area.of(now.bins)])
        if at is not None and self.fit >= FOUND:
            self.lost, self.at = 0, at
        else:
            self._lose()

    def _best_place(self, like: Plane, factor: int) -> tuple[int, int] | None:
        """Where the shape covers most of its colours (−1 to 1, on the small picture): around its
        last place, farther away with time, and across the borders, where things come in."""
        height, width = like.shape
        shape = small(self.memory, factor)[:height, :width]
        if shape.size == 0 or shape.sum() < 0.5:
            shape = np.ones((1, 1), dtype=np.float32)
        seen, sums = overlaps(shape, [np.ones_like(like), like])
        whole, size = float(shape.sum()), (seen.shape[0], seen.shape[1])
        away = distances(size, (self.at[0] / factor, self.at[1] / factor))
        reach = (0.15 + 0.05 * self.lost) * max(height, width)
        allowed = (seen >= 0.2 * whole) & ((away <= reach**2) | (seen < 0.95 * whole))
        score = np.where(allowed, sums / np.maximum(seen, 1e-3), -1.0)
        score -= 0.1 * (1 - np.minimum(seen / whole, 1))
        best = int(score.argmax())
        if score.flat[best] <= LIKENESS:
            return None
        down, right = shift_at(best, size)
        return down * factor, right * factor


def lay(values: Plane, at: tuple[int, int], area: Area, beyond: float = 0.0) -> Plane:
    """What a window shows of values whose corner lies ``at`` (y, x)."""
    result = np.full((area.y1 - area.y0, area.x1 - area.x0), beyond, dtype=np.float32)
    y, x = at[0] - area.y0, at[1] - area.x0
    height, width = values.shape
    top, left = max(y, 0), max(x, 0)
    bottom, right = min(y + height, result.shape[0]), min(x + width, result.shape[1])
    if bottom > top and right > left:
        result[top:bottom, left:right] = values[top - y : bottom - y, left - x : right - x]
    return result


def settle(
    ratio: Plane, place: Plane, trust: Plane | float = PLACE, sure: float = 0.5
) -> tuple[Mask, Plane]:
    """Colour (log ratio) and place (0 to 1) of each pixel → mask and score.

    Neighbours draw each other to one side; pieces are dropped that lie nowhere on a place above
    ``sure``.
    """
    place = np.clip(place, 0.01, 0.99)
    own = ratio + np.asarray(trust, np.float32) * np.log(place / (1 - place))
    score = own
    for _ in range(3):
        score = own + np.float32(TOGETHER) * box_mean(np.tanh(score / 2), 2)
    mask = touching(score > 0, place > sure, 0.1)
    mask = filled(mask, max(FEWEST, int(mask.sum()) // 50))
    score = np.where(mask, np.maximum(score, 0.1), np.minimum(score, -0.1))
    return mask, score.astype(np.float32)


def vicinity(mask: Mask) -> Mask:
    """The box around an object and a half of it on every side."""
    near = np.zeros_like(mask)
    if mask.any():
        y0, x0, y1, x1 = box_of(mask)
        margin = max(8, (y1 - y0 + x1 - x0) // 4)
        near[max(y0 - margin, 0) : y1 + margin, max(x0 - margin, 0) : x1 + margin] = True
    return near


def part(objects: Mapping[int, Followed], shown: Collection[int] = ()) -> None:
    """A pixel that several objects claim goes to the one with the highest score; in the frame in
    which one of them is shown, to that one."""
    numbers = sorted(objects)
    for k, number in enumerate(numbers):
        for further in numbers[k + 1 :]:
            one, other = objects[number], objects[further]
            both = one.mask & other.mask
            if both.any():
                first = both & (one.score >= other.score)
                if (number in shown) != (further in shown):
                    first = both if number in shown else np.zeros_like(both)
                other._yield(first)
                one._yield(both & ~first)
