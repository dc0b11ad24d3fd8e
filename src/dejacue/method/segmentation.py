"""Segments of a history: stretches of frames that look alike, found without any words.

A segment costs what its frames differ from their mean, Σ‖x‖² − ‖Σx‖²/n over unit frames, and a
penalty. The cheapest cut of all frames into segments is found exactly: by optimal partitioning from
prefix sums, in which starts that can never win again are dropped (PELT). Only where more than
MAX_STARTS of one stretch could still win are the older ones thinned out. Features of many
dimensions are first projected to DIMENSIONS random directions, always the same ones, which keeps
distances to about a tenth; the cut is exact for what is left.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dejacue.errors import InputError
from dejacue.method.state_readout import AUTO, is_count, is_number
from dejacue.method.timeline import Reading
from dejacue.records import History, Window
from dejacue.records.arrays import Floats, Ints, frozen

DIMENSIONS = 64
PENALTY = 0.35
MAX_CORRELATION = 0.9  # neighbouring frames, as far as noise explains it
STILL = 1e-7  # squared distance of frames that look the same: rounding, or one frame shown twice
ENDS_AT_A_TIME = 32
MAX_STARTS = 4096  # that may still win: above it, every other one of the older half goes

Edges = list[int]  # positions at which segments begin, and N


def segments(
    history: History,
    count: int | None = None,
    *,
    penalty: float = PENALTY,
    bridge: int | str = AUTO,
) -> tuple[Window, ...]:
    """Return windows that cover all observed frames, in order, each of frames that look alike.

    >>> segments(History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6))
    (Window(start=0, end=5), Window(start=6, end=11))

    count     about so many, instead of what the penalty gives: of all cuts that are right under
              some penalty, the nearest in number. A long gap ends a segment, whatever the count
    penalty   of a segment, in units of v · log N; v is by how much frames wander by noise alone
              (``noise``). Twice as much gives about half as many segments
    bridge    longest gap in frames that a segment may cross, or "auto", as for windows
    """
    if count is not None and not is_count(count, 1):
        raise InputError(f"{count!r} segments: give a number, 1 or more")
    if not is_number(penalty) or penalty == 0:
        raise InputError(f"the penalty of a segment must be a number above 0, not {penalty!r}")
    cuts, rows = Reading(bridge=bridge).bounds(history), reduced(history)
    if count is None:
        edges = partition(rows, cuts, penalty * noise(rows, cuts) * math.log(len(rows) + 1))
    else:
        edges = _about(rows, cuts, int(count))
    frames = history.frames.tolist()
    return tuple(Window(frames[a], frames[b - 1]) for a, b in pairwise(edges))


def reduced(history: History) -> Floats:
    """Return (N, k) unit frames, projected where they have many dimensions, less their mean."""
    directions = _directions(history.dimension)
    blocks = history.unit_blocks()
    table = np.concatenate([b if directions is None else b @ directions for b in blocks])
    table -= table.mean(axis=0)
    return table


@lru_cache(maxsize=8)
def _directions(dimension: int) -> Floats | None:
    """Return the directions (d, k) to project to; None where there is nothing to save."""
    if dimension <= DIMENSIONS:
        return None
    drawn = np.random.default_rng(0).standard_normal((dimension, DIMENSIONS))
    return frozen(drawn / math.sqrt(DIMENSIONS))


def noise(rows: Floats, cuts: Ints) -> float:
    """Return by how much frames wander around their mean by noise alone: its long-run variance.

    Noise in which neighbours correlate by ρ has d₁ = σ²(1 − ρ) as half the squared distance of
    neighbours and d₂ = σ²(1 − ρ²) two frames apart, and σ²(1 + ρ)/(1 − ρ) in the long run. Both
    are medians over frames that differ, so that the few frames around a change do not move them.
    """
    neighbours, two_apart = _apart(rows, cuts, 1), _apart(rows, cuts, 2)
    correlation = min(max(two_apart / neighbours - 1, 0.0), MAX_CORRELATION)
    return neighbours * (1 + correlation) / (1 - correlation) ** 2


def _apart(rows: Floats, cuts: Ints, steps: int) -> float:
    """Return half the median squared distance of frames so many steps apart, in one stretch."""
    moves = rows[steps:] - rows[:-steps]
    squares = np.einsum("td,td->t", moves, moves)
    stretch = np.searchsorted(cuts, np.arange(len(rows)), side="right")
    squares = squares[(stretch[steps:] == stretch[:-steps]) & (squares > STILL)]
    return float(np.median(squares)) / 2 if len(squares) else STILL / 2


def partition(rows: Floats, cuts: Ints, penalty: float) -> Edges:
    """Return the cheapest segments; of equal ones those that begin first."""
    edges: Edges = [0]
    for first, end in pairwise(cuts.tolist()):
        start, ends = _starts(rows[first:end], penalty), [end]
        while (begins := first + int(start[ends[-1] - first])) > first:
            ends.append(begins)
        edges += ends[::-1]
    return edges


def _starts(rows: Floats, penalty: float) -> Ints:
    """Return (n + 1,) where the last segment of the first t frames of a stretch begins."""
    count = len(rows)
    sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    squares = np.concatenate(([0.0], np.cumsum(np.einsum("td,td->t", rows, rows))))
    lengths = np.einsum("td,td->t", sums, sums)
    best = np.full(count + 1, np.inf)  # cost of the first t frames
    best[0] = -penalty
    start = np.zeros(count + 1, np.int64)
    left = np.zeros(1, np.int64)  # starts that may still win
    for low in range(1, count + 1, ENDS_AT_A_TIME):
        ends = np.arange(low, min(low + ENDS_AT_A_TIME, count + 1))
        left = np.concatenate([left, ends])
        frames = ends[:, None] - left
        apart = lengths[ends, None] + lengths[left] - 2 * sums[ends] @ sums[left].T
        inside = squares[ends, None] - squares[left] - apart / np.maximum(frames, 1)
        inside[frames < 1] = np.inf
        for t, costs in zip(ends.tolist(), inside, strict=True):
            until = best[left] + costs
            chosen = int(until.argmin())
            best[t], start[t] = until[chosen] + penalty, left[chosen]
        left = np.append(left[until <= best[t]], t)  # to cut never costs more than not to
        if len(left) > MAX_STARTS:
            positions = np.arange(len(left))
            recent = positions >= len(left) // 2
            left = left[recent | (positions % 2 == 0) | (left == start[t])]
    return start


def cost(rows: Floats, edges: Edges) -> float:
    """Return the cost of segments without their penalties."""
    sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    squares = np.concatenate(([0.0], np.cumsum(np.einsum("td,td->t", rows, rows))))
    steps = np.diff(sums[edges], axis=0)
    inside = np.diff(squares[edges]) - np.einsum("sd,sd->s", steps, steps) / np.diff(edges)
    return float(inside.sum())


def _about(rows: Floats, cuts: Ints, count: int) -> Edges:
    """Return, of all cuts that are the cheapest under some penalty, the nearest in number.

    They are the corners of a convex line, cost over number: the slope of a chord is the penalty
    under which a corner between its ends is the cheapest, if there is one.
    """
    few, many = cuts.tolist(), list(range(len(rows) + 1))
    while len(few) - 1 < count < len(many) - 1:
        slope = (cost(rows, few) - cost(rows, many)) / (len(many) - len(few))
        if slope <= STILL / 2:
            break  # what looks the same is not cut
        edges = partition(rows, cuts, slope)
        if len(edges) in (len(few), len(many)):
            break
        few, many = (edges, many) if len(edges) - 1 <= count else (few, edges)
    return min(few, many, key=lambda edges: abs(len(edges) - 1 - count))
