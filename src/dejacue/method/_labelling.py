"""The best path through the states of timeline.py, in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.records.arrays import Floats, Ints

MAX_STATES = 7  # of an irreversible change in unknown order: the solver looks at every subset


def numbers_of(order: tuple[str, ...], states: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the states that an order names; refuse other names."""
    for name in order:
        if name not in states:
            raise unknown("state in the order", name, states)
    return tuple(map(states.index, order))


@dataclass(frozen=True, eq=False)
class Nodes:
    """The graph of a labelling: the state of each node, which may come first, what follows what."""

    state: Ints  # (K,)
    first: NDArray[np.uint8]  # (K,)
    follows: NDArray[np.uint8]  # (K, K): from row to column


@lru_cache(maxsize=256)
def nodes_for(count: int, order: tuple[int, ...] | None, irreversible: bool) -> Nodes:
    """Return the nodes of ``count`` states in this cyclic order, or in any; irreversible: none is
    entered twice."""
    if order is not None:
        follows = np.zeros((len(order), len(order)), np.uint8)
        follows[np.arange(len(order) - 1), np.arange(1, len(order))] = 1
        follows[-1, 0] = not irreversible
        return Nodes(np.array(order, np.int64), np.ones(len(order), np.uint8), follows)
    if not irreversible:
        others = 1 - np.eye(count, dtype=np.uint8)
        return Nodes(np.arange(count), np.ones(count, np.uint8), others)
    if count > MAX_STATES:
        raise InputError(
            f"an irreversible change among {count} states needs their order; "
            f"without an order, at most {MAX_STATES} states are possible"
        )
    pairs = [
        (mask, state) for mask in range(1 << count) for state in range(count) if mask >> state & 1
    ]
    masks, states = np.array(pairs).T
    entered = masks[:, None] | (1 << states)[None, :]
    new = (masks[:, None] >> states[None, :] & 1) == 0
    follows = new & (entered == masks[None, :])
    return Nodes(
        np.ascontiguousarray(states),
        (masks == 1 << states).astype(np.uint8),
        follows.astype(np.uint8),
    )


def with_none(nodes: Nodes, none: int, back: bool) -> Nodes:
    """Add a visit to none of the states, as number ``none``, before, between and after them. It
    leads where the state before it leads; ``back``: to that state itself, too."""
    count = len(nodes.state)
    same = np.eye(count, dtype=np.uint8)
    follows = np.zeros((2 * count + 1, 2 * count + 1), np.uint8)
    follows[:count, :count] = nodes.follows
    follows[:count, count:-1] = same
    follows[count:-1, :count] = nodes.follows | same * back
    follows[-1, :count] = nodes.first
    return Nodes(
        np.concatenate([nodes.state, np.full(count + 1, none)]),
        np.concatenate([nodes.first, np.zeros(count, np.uint8), np.ones(1, np.uint8)]),
        follows,
    )


def label(
    responses: Floats, nodes: Nodes, cost: float, stay: int, rounds: int
) -> tuple[Ints, Floats]:
    """Return (N,) the state of each observed frame, and the levels (S,) that decided it."""
    levels = np.zeros(len(responses))
    for _ in range(rounds):
        used = levels
        path = best_path(responses - used[:, None], nodes, cost, stay)
        levels = levels_of(responses, path)
        if np.array_equal(used, levels):
            break
    return path, used


def best_path(responses: Floats, nodes: Nodes, cost: float, stay: int) -> Ints:
    """Return (N,) the states of the path with the highest sum of responses less cost per switch.

    Every visit lasts at least ``stay`` frames. Of equal paths the one that stays longer wins.
    """
    count, kinds = responses.shape[1], len(nodes.state)
    sums = np.concatenate([np.zeros((1, kinds)), np.cumsum(responses[nodes.state], axis=1).T])
    best = np.full((count + 1, kinds), -np.inf)  # after t frames, in a visit that is long enough
    source = np.full((count + 1, kinds), -1)  # −1: one frame longer; K: the first visit; else from
    barred = np.where(nodes.follows > 0, 0.0, -np.inf)
    for t in range(stay, count + 1):
        longer = best[t - 1] + (sums[t] - sums[t - 1])
        if t == stay:
            before, origin = np.where(nodes.first > 0, 0.0, -np.inf), np.full(kinds, kinds)
        else:
            arrive = best[t - stay][:, None] + barred
            origin = arrive.argmax(axis=0)
            before = arrive[origin, np.arange(kinds)] - cost
        enter = before + (sums[t] - sums[t - stay])
        better = enter > longer
        best[t] = np.where(better, enter, longer)
        source[t] = np.where(better, origin, -1)
    path = np.empty(count, np.int64)
    t, node = count, int(best[count].argmax())
    while t > 0:
        step = int(source[t, node])
        length = 1 if step < 0 else stay
        path[t - length : t] = nodes.state[node]
        t -= length
        node = node if step < 0 or step == kinds else step
    return path


def levels_of(responses: Floats, path: Ints) -> Floats:
    """Return half way between the means inside and outside of each state; 0 where one is empty."""
    levels = np.zeros(len(responses))
    for state, row in enumerate(responses):
        inside = path == state
        if inside.any() and not inside.all():
            levels[state] = (row[inside].mean() + row[~inside].mean()) / 2
    return levels
