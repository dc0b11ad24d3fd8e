"""Which frames the encoder looks at: a coarse grid first, then those that can change the answer.

Rows of other frames are filled in between. How far the answer depends on them is measured: rows
that could as well be there are drawn many times, each draw is read like the history, and the
encoder looks next where the draws disagree with the answer. A draw switches at a random place from
the row before to the row after and adds what interpolation misses elsewhere. So draws disagree
between rows that differ much, in long gaps, and at the edges of windows and of their rivals. When
they agree, the edges themselves are bisected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.records import Timeline
from dejacue.records.arrays import Ints

Rows = NDArray[np.float32]
Flags = NDArray[np.bool_]
ALL, AUTO = "all", "auto"
GRID = 0.65  # looks are so many √N frames apart at first
DOUBT = 1.6  # over √N: how far draws may be from the answer, 1 − shared frames over all of both
TOLERANCE = 1  # frames by which another look may move an edge
DRAWS = 12
ROUND = 0.03  # share of all frames that is looked at before the answer is read again
GRID_SHARE = 0.6  # of a budget, at most
SEED = 3407


@dataclass(frozen=True)
class Looks:
    """How many frames of a history the encoder may look at: a number, a share, or as needed."""

    count: int | None = None
    share: float = 1.0

    @classmethod
    def of(cls, value: object) -> Looks | None:
        """Return the budget that a person wrote; None: all frames, in order, are looked at."""
        if value is None or value == ALL or isinstance(value, cls):
            return value if isinstance(value, cls) else None
        text = str(value).strip()
        percent = text.endswith("%")
        if text == AUTO:
            return cls()
        try:
            number = float(text.removesuffix("%")) if isinstance(value, str | int) else math.nan
        except ValueError:
            number = math.nan
        whole = number == math.floor(number) if math.isfinite(number) else False
        good = 0 < number <= 100 if percent else whole and number >= 1
        if isinstance(value, bool) or not good:
            remedy = f'give "{ALL}", "{AUTO}", a number of frames (40), or a share of them ("25%")'
            problem = f"looks {value!r:.40}: no number of frames to look at"
            raise InputError(problem, field="looks", value=value, remedy=remedy)
        return cls(share=number / 100) if percent else cls(count=int(number))

    def limit(self, frames: int) -> int:
        """Return how many of so many frames may be looked at, at least one."""
        share = max(1, math.floor(self.share * frames + 1e-9))
        return share if self.count is None else min(self.count, frames)

    def __str__(self) -> str:
        if self.count is not None:
            return str(self.count)
        return AUTO if self.share == 1 else f"{100 * self.share:g}%"


def fill(rows: Rows, seen: Flags, frames: Ints) -> tuple[Rows, Ints, Ints]:
    """Return rows with those that were not seen filled in, and the rows before and after each.

    They are interpolated by their frames, so that of two looks with a long absence between them
    the nearer one counts; before the first look and after the last they repeat it.
    """
    before, after = neighbours(seen)
    weight = (frames - frames[before]) / np.maximum(frames[after] - frames[before], 1)
    weight = np.clip(weight, 0, 1).astype(np.float32)[:, None]
    return rows[before] * (1 - weight) + rows[after] * weight, before, after


def neighbours(seen: Flags) -> tuple[Ints, Ints]:
    """Return (N,) the last seen position before each, or itself, and the first after it; where one
    side has none, the nearest on the other."""
    at, places = np.arange(len(seen)), np.flatnonzero(seen)
    before = places[np.clip(np.searchsorted(places, at, side="right") - 1, 0, None)]
    return before, places[np.clip(np.searchsorted(places, at), None, len(places) - 1)]


def first_looks(count: int, limit: int, marks: Iterable[int] = ()) -> Ints:
    """Return positions of an even grid, and beside a person's marks."""
    step = max(1.0, GRID * math.sqrt(count), (count - 1) / max(1, GRID_SHARE * limit - 1))
    chosen = dict.fromkeys(near for mark in marks for near in (mark, mark - 1, mark + 1))
    even = np.linspace(0, count - 1, max(2, math.ceil((count - 1) / step) + 1)).round()
    chosen |= dict.fromkeys(even.astype(int).tolist())
    inside = [position for position in chosen if 0 <= position < count]
    return np.array(sorted(inside[:limit]), np.int64)


def look_less(
    frames: Ints,
    look: Callable[[Ints], Rows],
    read: Callable[[Rows, Flags], Timeline],
    *,
    looks: Looks,
    known: tuple[Rows, Flags] | None = None,
    marks: Iterable[int] = (),
    alike: Ints | None = None,
    show: Callable[[Rows, Flags], object] = lambda rows, seen: None,
    seed: int = SEED,
) -> tuple[Rows, Flags]:
    """Look at frames until the answer is settled or the budget is used; return the rows of all
    frames and which of them were seen.

    frames   (N,) of the history
    look     returns the rows of positions, (n, d); it is called with several at a time
    read     returns the answer of rows, of which some were filled in
    known    rows of an earlier search, and which of them were seen: they cost nothing
    marks    positions that a person has named: these and the frames beside them come first
    alike    (N,) the first position of the stretch of frames that share a look; None: none do
    show     called with rows and flags after each round
    seed     of the draws
    """
    count = len(frames)
    limit = left = looks.limit(count)
    stretch = np.arange(count) if alike is None else alike
    seen = np.zeros(count, bool) if known is None else known[1].copy()
    rows: Rows | None = None if known is None else np.array(known[0], np.float32)
    if rows is not None:
        _share(rows, stretch, np.flatnonzero(seen))
    random, marks = np.random.default_rng(seed), list(marks)
    settled = 1 - DOUBT / math.sqrt(count)
    wanted = first_looks(count, limit, marks)
    while True:
        new = wanted[~np.isin(stretch[wanted], stretch[seen])]
        new = new[np.sort(np.unique(stretch[new], return_index=True)[1])]
        if new.size:
            encoded = np.asarray(look(new), np.float32)
            rows = np.zeros((count, encoded.shape[1]), np.float32) if rows is None else rows
            rows[new], seen[new] = encoded, True
            _share(rows, stretch, new)
            left -= len(new)
        assert rows is not None
        have = np.isin(stretch, stretch[seen])
        units = rows / np.linalg.norm(np.where(have[:, None], rows, 1), axis=1, keepdims=True)
        filled, before, after = fill(units, have, frames)
        filled[have] = rows[have]  # as the encoder gave them
        timeline = read(filled, seen)
        show(filled, seen)
        if not left or have.all():
            return filled, seen
        claims = _claims(timeline, frames)
        votes, agreement = np.zeros(count), 0.0
        for drawn in _draws(units, filled, frames, have, before, after, random):
            drawn_claims = _claims(read(drawn, seen), frames)
            votes += (claims != drawn_claims).sum(axis=0)
            agreement += _overlap(claims, drawn_claims) / DRAWS
        votes[have] = 0
        if agreement < settled and votes.any():
            wanted = _middles(votes, have, min(left, math.ceil(ROUND * count)))
        else:
            wanted = _at_edges(timeline, frames, have)[:left]
            if not wanted.size:
                return filled, seen


def _share(rows: Rows, stretch: Ints, positions: Ints) -> None:
    """Copy the rows of positions to the others of their stretches."""
    source = np.full(len(rows), -1)
    source[stretch[positions]] = positions
    source = source[stretch]
    source[positions] = positions
    rows[source >= 0] = rows[source[source >= 0]]


def _claims(timeline: Timeline, frames: Ints) -> Flags:
    """Return (S, N): whether a state is claimed at a position."""
    states = list(timeline.states)
    claims = np.zeros((len(states), len(frames)), bool)
    for interval in timeline.claimed:
        first, last = np.searchsorted(frames, (interval.start, interval.end)).tolist()
        claims[states.index(interval.state), first : last + 1] = True
    return claims


def _overlap(a: Flags, b: Flags) -> float:
    """Return shared frames over all frames of both, the mean over states."""
    union = (a | b).sum(axis=1)
    return float(np.where(union > 0, (a & b).sum(axis=1) / np.maximum(union, 1), 1.0).mean())


def _draws(
    rows: Rows,
    filled: Rows,
    frames: Ints,
    seen: Flags,
    before: Ints,
    after: Ints,
    random: np.random.Generator,
) -> Iterator[Rows]:
    """Yield rows as they could be: a switch somewhere in each gap, and noise as elsewhere."""
    places, unseen = np.flatnonzero(seen), np.flatnonzero(~seen)
    a, b, c = places[:-2], places[1:-1], places[2:]
    weight = ((b - a) / (c - a)).astype(np.float32)[:, None]
    missed = rows[b] - rows[a] * (1 - weight) - rows[c] * weight
    start, end = before[unseen], after[unseen]
    share = (frames[unseen] - frames[start]) / np.maximum(frames[end] - frames[start], 1)
    _, gap = np.unique(start, return_inverse=True)
    for _ in range(DRAWS):
        drawn = filled.copy()
        switched = share >= random.random(int(gap.max()) + 1)[gap]
        drawn[unseen] = rows[np.where(switched, end, start)]
        if len(missed):
            sign = random.choice(np.array([-1, 1], np.float32), len(unseen))[:, None]
            drawn[unseen] += sign * missed[random.integers(0, len(missed), len(unseen))]
        yield drawn


def _middles(votes: NDArray[np.float64], seen: Flags, most: int) -> Ints:
    """Return the middle of the gaps with most votes, times their length: more is missed in a long
    one."""
    edges = np.diff(np.concatenate(([1], seen.astype(np.int8), [1])))
    first, last = np.flatnonzero(edges == -1), np.flatnonzero(edges == 1) - 1
    total = np.concatenate(([0.0], np.cumsum(votes)))
    of_gap = (total[last + 1] - total[first]) * (last - first + 1)
    best = np.argsort(-of_gap, kind="stable")[:most]
    best = best[of_gap[best] > 0]
    return np.sort((first[best] + last[best]) // 2)


def _at_edges(timeline: Timeline, frames: Ints, seen: Flags) -> Ints:
    """Return the middle of each gap in which an edge of an interval may lie elsewhere, those of
    answers first. An edge where the object goes or comes stays there."""
    places = np.concatenate(([-1], np.flatnonzero(seen), [len(frames)]))
    chosen: dict[int, None] = {}
    for interval in sorted(timeline, key=lambda interval: interval.kind == "alternative"):
        first, last = np.searchsorted(frames, (interval.start, interval.end)).tolist()
        for low, high in ((first - 1, first), (last, last + 1)):
            if low < 0 or high == len(frames) or frames[high] - frames[low] > 1:
                continue
            after = int(np.searchsorted(places, high))
            left = places[after - 1]
            if places[after] - left > 1 + TOLERANCE:
                chosen[int(left + places[after]) // 2] = None
    return np.array(list(chosen), np.int64)
