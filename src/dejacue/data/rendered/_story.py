"""The progress of the object in every frame, by topology; the true states follow from it.

binary        one change, from one state to another
three         three states in order
recurrent     states come back
progressive   slow continuous change; frames between the pure states belong to none
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.data.rendered._families import Family
from dejacue.errors import InputError

STEPS = 64  # progress is a multiple of 1/64, so that drawings can be kept
FEWEST_FRAMES = 24


@dataclass(frozen=True, eq=False)
class Story:
    """progress and state (−1: in between) of every frame; ``states`` are those that occur."""

    topology: str
    states: tuple[int, ...]
    progress: NDArray[np.float64]
    labels: NDArray[np.int64]

    def runs(self) -> list[tuple[int, int, int]]:
        """(state, first, last frame) of each episode, in order of time."""
        edges = np.flatnonzero(np.diff(self.labels)) + 1
        starts, ends = [0, *edges.tolist()], [*(edges - 1).tolist(), len(self.labels) - 1]
        return [
            (int(self.labels[start]), start, end)
            for start, end in zip(starts, ends, strict=True)
            if self.labels[start] >= 0
        ]


def draw_story(rng: np.random.Generator, family: Family, topology: str, frames: int) -> Story:
    """One story of this topology, which the family must have."""
    if topology not in family.topologies:
        raise InputError(
            f'render: family "{family.name}" has no topology "{topology}"; '
            f"it has {', '.join(family.topologies)}"
        )
    if topology == "progressive":
        order = list(range(len(family.states)))
        if family.reversible and rng.random() < 0.5:
            order.reverse()
        progress = _slow(rng, family, order, frames)
    else:
        order = _order(rng, family, topology, frames)
        progress = _episodes(rng, family, order, frames)
    progress = np.round(progress * STEPS) / STEPS
    states = tuple(sorted(set(order)))
    return Story(topology, states, progress, family.states_at(progress, states))


def _order(rng: np.random.Generator, family: Family, topology: str, frames: int) -> list[int]:
    count = len(family.states)
    if topology == "three":
        order = list(range(3))
    else:
        order = sorted(rng.choice(count, size=2, replace=False).tolist())
    if family.reversible and rng.random() < 0.5:
        order.reverse()
    if topology != "recurrent":
        return order
    episodes = int(rng.integers(3, min(max(frames // 20, 3), 5) + 1))
    if count == 3 and episodes == 5 and rng.random() < 0.5:
        return [0, 1, 2, 1, 0] if order[0] < order[1] else [2, 1, 0, 1, 2]
    return [order[k % 2] for k in range(episodes)]


def _episodes(
    rng: np.random.Generator, family: Family, order: list[int], frames: int
) -> NDArray[np.float64]:
    """Each state for a while, with a short way in between."""
    ways = 0 if family.instant else int(rng.integers(2, max(3, min(8, frames // 16))))
    rest = frames - ways * (len(order) - 1)
    least = max(3, frames // (4 * len(order)))
    shares = rng.dirichlet(np.full(len(order), 4.0))
    lengths = least + np.floor(shares * (rest - least * len(order))).astype(int)
    lengths[-1] += rest - lengths.sum()
    pieces: list[NDArray[np.float64]] = []
    level = 0.0
    for k, (state, length) in enumerate(zip(order, lengths.tolist(), strict=True)):
        before, level = level, _level(rng, family, state)
        if k and ways:
            pieces.append(before + (level - before) * np.arange(1, ways + 1) / (ways + 1))
        pieces.append(np.full(length, level))
    return np.concatenate(pieces)


def _slow(
    rng: np.random.Generator, family: Family, order: list[int], frames: int
) -> NDArray[np.float64]:
    """A hold, one slow change through all states, a hold."""
    change = round(frames * rng.uniform(0.45, 0.6))
    first = round((frames - change) * rng.uniform(0.35, 0.65))
    start, end = family.anchor(order[0]), family.anchor(order[-1])
    ramp = np.linspace(0, 1, change + 2)[1:-1] ** rng.uniform(0.85, 1.2)
    share = np.concatenate([np.zeros(first), ramp, np.ones(frames - change - first)])
    return start + (end - start) * share


def _level(rng: np.random.Generator, family: Family, state: int) -> float:
    """A progress at which the state holds: not always the same half full."""
    level = family.anchor(state) + rng.uniform(-0.6, 0.6) * family.tolerance(state)
    return float(min(max(level, 0.0), 1.0))
