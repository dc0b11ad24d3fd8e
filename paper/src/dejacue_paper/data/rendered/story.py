"""A family of objects with its states, and the story of one scene.

The story gives the progress of the object in every frame, by topology; the true states follow:

binary        one change, from one state to another
three         three states in order
recurrent     states come back
progressive   slow continuous change; frames between the pure states belong to none
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue_paper.data.rendered.drawing import START, Paint

TOPOLOGIES = ("binary", "three", "recurrent", "progressive")
PROGRESS_STEPS = 64  # progress is a multiple of 1/64, so that drawings can be cached


@dataclass(frozen=True, eq=False)
class Family:
    """A kind of object that can be drawn in its states.

    descriptions   state → at least four paraphrases; the keys are the states in order
    make           fixes an appearance and returns its painter
    progressive    the way between two states is a slow, continuous change
    reversible     it can also go back, so the states may recur
    instant        there is no way between: one frame is in one state, the next in another
    animated       the drawing moves even when nothing changes

    Progress runs from 0 (first state) to 1 (last). A state holds where progress is within
    ``tolerance`` of its own: 0.04 at the ends, 0.1 in the middle.
    """

    name: str
    object: str
    descriptions: Mapping[str, tuple[str, ...]]
    make: Callable[[np.random.Generator], Paint]
    progressive: bool = True
    reversible: bool = True
    instant: bool = False
    animated: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(self.descriptions)

    @property
    def topologies(self) -> tuple[str, ...]:
        """Return the ways in which its states can follow each other."""
        possible = {
            "binary": True,
            "three": len(self.states) >= 3,
            "recurrent": self.reversible,
            "progressive": self.progressive,
        }
        return tuple(name for name in TOPOLOGIES if possible[name])

    def anchor(self, state: int) -> float:
        """Return the progress at which a state is reached."""
        return state / (len(self.states) - 1)

    def tolerance(self, state: int) -> float:
        return START if state in (0, len(self.states) - 1) else 0.1

    def states_at(
        self, progress: NDArray[np.float64], among: tuple[int, ...] | None = None
    ) -> NDArray[np.int64]:
        """Return the state that holds at each progress, −1 where none does."""
        states = np.full(len(progress), -1)
        for state in among if among is not None else range(len(self.states)):
            near = np.abs(progress - self.anchor(state)) <= self.tolerance(state) + 1e-9
            states[near] = state
        return states


@dataclass(frozen=True, eq=False)
class Story:
    """Progress and state (−1: in between) of every frame; ``states`` are those that occur."""

    topology: str
    states: tuple[int, ...]
    progress: NDArray[np.float64]
    labels: NDArray[np.int64]

    def runs(self) -> list[tuple[int, int, int]]:
        """Return (state, first, last frame) of each episode, in order of time."""
        edges = np.flatnonzero(np.diff(self.labels)) + 1
        starts, ends = [0, *edges.tolist()], [*(edges - 1).tolist(), len(self.labels) - 1]
        return [
            (int(self.labels[start]), start, end)
            for start, end in zip(starts, ends, strict=True)
            if self.labels[start] >= 0
        ]


def draw_story(rng: np.random.Generator, family: Family, topology: str, frames: int) -> Story:
    """Draw a story of this topology; InputError if the family does not have it."""
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
    progress = np.round(progress * PROGRESS_STEPS) / PROGRESS_STEPS
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
    """Hold each state for a while, with a short change in between."""
    ways = 0 if family.instant else int(rng.integers(2, max(3, min(8, frames // 16))))
    rest = frames - ways * (len(order) - 1)
    least = max(3, frames // (4 * len(order)))
    shares = rng.dirichlet(np.full(len(order), 4.0))
    lengths = least + np.floor(shares * (rest - least * len(order))).astype(int)
    lengths[-1] += rest - lengths.sum()
    pieces = []
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
    """Hold the first state, change slowly through all states, hold the last."""
    change = round(frames * rng.uniform(0.45, 0.6))
    first = round((frames - change) * rng.uniform(0.35, 0.65))
    start, end = family.anchor(order[0]), family.anchor(order[-1])
    ramp = np.linspace(0, 1, change + 2)[1:-1] ** rng.uniform(0.85, 1.2)
    share = np.concatenate([np.zeros(first), ramp, np.ones(frames - change - first)])
    return start + (end - start) * share


def _level(rng: np.random.Generator, family: Family, state: int) -> float:
    """Draw a progress at which the state holds: "half full" is not always the same."""
    level = family.anchor(state) + rng.uniform(-0.6, 0.6) * family.tolerance(state)
    return float(min(max(level, 0.0), 1.0))
