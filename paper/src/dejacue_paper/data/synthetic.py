"""Generated histories with known states: for tests, documentation and the demo.

A frame is  image offset + object + signal · state + drift(t) + AR(1) noise,
a description  text offset + object + contrast · state + paraphrase, all in one space. So the
difficulties of real features are there: similarity mostly names the object, neighbouring frames
are alike, appearance drifts independently of the state, and images and texts form two clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.records import History, Vocabulary, Window


@dataclass(frozen=True, eq=False)
class Generated:
    """A history, its vocabulary, and the truth: the episodes of each state, gaps not removed."""

    history: History
    vocabulary: Vocabulary
    references: Mapping[str, tuple[Window, ...]]


def generate(
    seed: int = 0,
    *,
    states: Sequence[str] = ("empty", "filled"),
    episodes: Sequence[tuple[str, int]] | None = None,
    frames: int = 240,
    recurrences: int = 1,
    dimension: int = 64,
    descriptions: int = 2,
    signal: float = 1.0,
    noise: float = 1.0,
    correlation: float = 0.6,
    drift: float = 0.5,
    missing: float = 0.0,
    gaps: Sequence[tuple[int, int]] = (),
    object: str = "cup",
    dtype: type = np.float32,
) -> Generated:
    """Return one history, the same for the same arguments.

    episodes      (state, duration) in order; default: the states in turn, ``recurrences`` times,
                  with random durations that add up to ``frames``
    signal        how strongly a frame shows its state, in units of the noise
    correlation   of the AR(1) noise between neighbouring frames (its variance stays the same)
    drift         slow change that all states share
    missing       share of frames removed at random; gaps: (start, length) removed in one piece
    """
    _check(states, correlation, missing, dimension, recurrences, descriptions, gaps)
    try:
        rng = np.random.default_rng(seed)
    except (ValueError, TypeError):
        raise InputError(f"generate: seed {seed!r} must be a whole number, 0 or more") from None
    if episodes is None:
        episodes = _draw_episodes(rng, states, frames, recurrences)
    labels = _labels(states, episodes)
    axes = np.linalg.qr(rng.normal(size=(dimension, len(states) + 6)))[0].T
    shared, image, text, slow, state_axes = axes[0], axes[1], axes[2], axes[3:6], axes[6:]
    features = (
        3 * shared
        + 2 * image
        + 0.5 * signal * state_axes[labels]
        + noise * ar1(rng.normal(size=(len(labels), dimension)), correlation) / np.sqrt(dimension)
        + drift * _waves(rng, len(labels)) @ slow
    )
    observed = rng.random(len(labels)) >= missing
    for start, length in gaps:
        observed[start : start + length] = False
    positions = np.flatnonzero(observed)
    paraphrase = 0.3 * rng.normal(size=(len(states), descriptions, dimension)) / np.sqrt(dimension)
    rows = (3 * shared + 2 * text + state_axes[:, None] + paraphrase).reshape(-1, dimension)
    texts = {state: _texts(state, object, descriptions) for state in states}
    return Generated(
        History(features[positions].astype(dtype), positions, f"generated-{seed}", "generated"),
        Vocabulary(texts, rows.astype(np.float32), "generated", object),
        _references(states, episodes),
    )


def _check(
    states: Sequence[str],
    correlation: float,
    missing: float,
    dimension: int,
    recurrences: int,
    descriptions: int,
    gaps: Sequence[tuple[int, int]],
) -> None:
    if len(set(states)) != len(states) or len(states) < 2:
        raise InputError("generate: give at least two different states")
    if not 0 <= correlation < 1 or not 0 <= missing < 1 or dimension < len(states) + 6:
        raise InputError(
            "generate: correlation and missing must be in [0, 1) and the dimension must exceed "
            "the number of states by 6"
        )
    if recurrences < 1 or descriptions < 1 or any(start < 0 or n < 1 for start, n in gaps):
        raise InputError(
            "generate: recurrences, descriptions and the length of a gap must be at least 1, "
            "and a gap starts at frame 0 or later"
        )


def _labels(states: Sequence[str], episodes: Sequence[tuple[str, int]]) -> NDArray[np.int64]:
    """Return the state shown by every frame."""
    unknown = {state for state, _ in episodes} - set(states)
    if unknown or any(duration < 1 for _, duration in episodes) or not episodes:
        raise InputError("generate: episodes need known states and durations of at least one frame")
    order = [list(states).index(state) for state, _ in episodes]
    return np.repeat(order, [duration for _, duration in episodes])


def _waves(rng: np.random.Generator, frames: int) -> NDArray[np.float64]:
    """Return (frames, 3): slow sines with random phases."""
    phase = rng.uniform(0, 2 * np.pi, size=3)
    time = np.linspace(0, 2 * np.pi, frames)[:, None]
    waves: NDArray[np.float64] = np.sin(time * np.array([0.5, 1.0, 1.7]) + phase)
    return waves


def _texts(state: str, object: str, count: int) -> list[str]:
    forms = [f"{state} {object}", f"{object} that is {state}", f"{object}, {state}"]
    return [*forms[:count], *(f"{state} {object} ({k})" for k in range(4, count + 1))]


def _draw_episodes(
    rng: np.random.Generator, states: Sequence[str], frames: int, recurrences: int
) -> list[tuple[str, int]]:
    order = [state for _ in range(recurrences) for state in states]
    if frames < 4 * len(order):
        raise InputError(f"generate: {frames} frames are too few for {len(order)} episodes")
    shares = rng.dirichlet(np.full(len(order), 3.0))
    durations = 3 + np.floor(shares * (frames - 3 * len(order))).astype(int)
    durations[-1] += frames - durations.sum()
    return list(zip(order, durations.tolist(), strict=True))


def ar1(innovations: NDArray[np.float64], correlation: float) -> NDArray[np.float64]:
    """Return a unit-variance AR(1) process along the first axis; its first value is the first
    innovation."""
    out = innovations.copy()
    scale = np.sqrt(1 - correlation**2)
    for t in range(1, len(out)):
        out[t] = correlation * out[t - 1] + scale * innovations[t]
    return out


def _references(
    states: Sequence[str], episodes: Sequence[tuple[str, int]]
) -> dict[str, tuple[Window, ...]]:
    windows: dict[str, tuple[Window, ...]] = dict.fromkeys(states, ())
    start = 0
    for state, duration in episodes:
        windows[state] = (*windows[state], Window(start, start + duration - 1))
        start += duration
    return windows
