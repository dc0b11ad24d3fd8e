"""A family of objects with its states, the story of one scene, and the cup.

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

from dejacue.data.rendered.drawing import START, Canvas, Paint, arc, darker, draw_colour, mix
from dejacue.errors import InputError

TOPOLOGIES = ("binary", "three", "recurrent", "progressive")
PROGRESS_STEPS = 64  # progress is a multiple of 1/64, so that drawings can be cached
WHITE = (250, 250, 248)


@dataclass(frozen=True, eq=False)
class Family:
    """One kind of object.

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


def _draw_cup(rng: np.random.Generator) -> Paint:
    """Fix the appearance of a glass cup and return its painter; progress is how full it is."""
    glass = draw_colour(rng, saturation=(0.04, 0.16), value=(0.84, 0.95))
    drink = draw_colour(rng, saturation=(0.45, 0.9), value=(0.3, 0.85))
    top = rng.uniform(0.27, 0.36)
    foot = top * rng.uniform(0.62, 0.95)
    rim = rng.uniform(0.1, 0.28)
    open_ = rng.uniform(0.2, 0.32)  # height over width of the rim, as seen
    handle = rng.random() < 0.5

    def at(level: float) -> tuple[float, float, float]:
        """Height, half width and half depth of a cross-section."""
        width = foot + (top - foot) * level
        return 0.9 + (rim - 0.9) * level, width, width * open_

    def body(low: float, high: float, shrink: float) -> np.ndarray:
        (y0, w0, d0), (y1, w1, d1) = at(low), at(high)
        return np.concatenate(
            [
                arc(0.5, y1, w1 * shrink, d1 * shrink, 180, 0),
                arc(0.5, y0, w0 * shrink, d0 * shrink, 0, 180),
            ]
        )

    def paint(canvas: Canvas, progress: float) -> None:
        if handle:
            y, width, _ = at(0.55)
            canvas.line(arc(0.5 + width, y, 0.14, 0.2, -95, 95), 0.06, darker(glass, 0.7))
            canvas.line(arc(0.5 + width, y, 0.14, 0.2, -92, 92), 0.03, glass)
        canvas.polygon(body(0, 1, 1), glass, shade=0.18)
        y, width, depth = at(1)
        canvas.ellipse(0.5, y, width, depth, darker(glass, 0.8), shade=-0.2)
        if progress > START:
            level = 0.06 + 0.84 * progress
            canvas.polygon(body(0.06, level, 0.9), drink, shade=0.3, edge=False)
            surface_y, surface_w, surface_d = at(level)
            surface = mix(drink, WHITE, 0.3)
            canvas.ellipse(0.5, surface_y, surface_w * 0.9, surface_d * 0.9, surface, shade=0.1)
        canvas.line(arc(0.5, y, width, depth, 0, 180), 0.016, mix(glass, WHITE, 0.6))
        shine = 0.5 - canvas.view.light * (-1 if canvas.view.mirror else 1) * foot * 0.62
        canvas.line([(shine, 0.8), (shine, rim + 0.2)], 0.035, mix(glass, WHITE, 0.8))

    return paint


CUP = Family(
    "cup",
    "cup",
    {
        "empty": (
            "empty cup",
            "cup with nothing in it",
            "cup without any drink",
            "clear cup holding no liquid",
            "drained cup",
        ),
        "half full": (
            "half full cup",
            "cup filled halfway",
            "cup with some drink left in it",
            "cup with liquid up to the middle",
            "half empty cup",
        ),
        "full": (
            "full cup",
            "cup filled to the brim",
            "cup full of drink",
            "cup with liquid up to the rim",
            "filled up cup",
        ),
    },
    _draw_cup,
)
