"""Coordinates: where descriptions and frames are measured from, and directions of queries (§2).

Similarity to one sentence mostly says "this is a cup". Measured from the centre of all sibling
sentences, what remains says "filled rather than empty".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Flags, Floats, Ints

FALLBACK_BELOW = 1e-8
WORDS = 4  # words weigh as much as so many examples from elsewhere
ORIGINS = (None, "state", "query")


@dataclass(frozen=True)
class Coordinates:
    """The points from which frames and descriptions are measured.

    centred_frames   whether frames are measured from their own median
    origin           of the queries: None (absolute), "state" (every state weighs the same) or
                     "query" (every description does)
    """

    name: str
    centred_frames: bool
    origin: str | None

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise unknown("origin", self.origin, ["state", "query"])


COORDINATES = {
    c.name: c
    for c in (
        Coordinates("absolute", False, None),
        Coordinates("trajectory", True, None),
        Coordinates("vocabulary", False, "state"),
        Coordinates("dual", True, "state"),
        # Diagnostic: duplicating descriptions moves this origin, and must not move ours.
        Coordinates("query-uniform", False, "query"),
        Coordinates("dual-query-uniform", True, "query"),
    )
}


def as_coordinates(name: str | Coordinates) -> Coordinates:
    """Return coordinates by name; coordinates stay as they are."""
    if isinstance(name, Coordinates):
        return name
    if name not in COORDINATES:
        raise unknown("coordinates", name, COORDINATES)
    return COORDINATES[name]


@dataclass(frozen=True, eq=False)
class Directions:
    """Unit query directions (Q, d) float32; ``residual_norms`` before they were scaled."""

    queries: NDArray[np.float32]
    residual_norms: Floats
    fallback: Flags
    firsts: Ints  # (S,) the row of the first description of each state

    @cached_property
    def states(self) -> NDArray[np.float32]:
        """Return the direction of each state, (S, d), where all its descriptions share one."""
        return self.queries[self.firsts]


def unit_rows(rows: NDArray[np.floating]) -> Floats:
    """Return the rows at unit length."""
    wide = rows.astype(np.float64)
    wide /= np.sqrt(np.einsum("nd,nd->n", wide, wide))[:, None]
    return wide


# Remembered, since a corpus is read with the same few vocabularies: for the histories of VOST the
# directions take as long as the scan. A vocabulary is hashed by identity and never changes.
@lru_cache(maxsize=512)
def query_directions(
    vocabulary: Vocabulary, coordinates: Coordinates, pooling: float = 0.0
) -> Directions:
    """Return ũ_q = z̄_q − c and u_q = ũ_q/‖ũ_q‖; where ũ_q vanishes, z̄_q itself (fallback).

    pooling   share of its state's mean in each z̄_q; 0 is the paper, at 1 paraphrases are equal
    """
    by_example = example_directions(vocabulary) if vocabulary.external_examples else None
    if vocabulary.examples_only and (by_example is not None or vocabulary.frame_examples):
        return _without_words(vocabulary, by_example or {})
    by_words = _word_directions(vocabulary, coordinates, pooling)
    return by_words if by_example is None else _combined(vocabulary, by_words, by_example)


def _word_directions(
    vocabulary: Vocabulary, coordinates: Coordinates, pooling: float
) -> Directions:
    if vocabulary.features is None:
        raise InputError(
            "the vocabulary has no text features yet: encode its descriptions with the encoder of "
            "the history, or give an .npz file that contains them"
        )
    unit = unit_rows(vocabulary.features)
    firsts = np.searchsorted(vocabulary.labels, np.arange(len(vocabulary.states)))
    if pooling:
        unit = _pooled(unit, vocabulary, pooling)
    if coordinates.origin is None:
        unit = unit_rows(unit) if pooling else unit
        nothing = np.zeros(len(unit), bool)
        return Directions(unit.astype(np.float32), np.ones(len(unit)), nothing, firsts)
    # c = Σ π_q z̄_q; with the query-uniform origin every description weighs the same
    residual = unit - (vocabulary.weights @ unit if coordinates.origin == "state" else unit.mean(0))
    norms = np.sqrt(np.einsum("nd,nd->n", residual, residual))
    fallback = norms <= FALLBACK_BELOW
    if fallback.any():
        plain = unit_rows(unit) if pooling else unit
        residual = np.where(fallback[:, None], plain, residual / np.maximum(norms, 1e-300)[:, None])
    else:
        residual /= norms[:, None]
    return Directions(residual.astype(np.float32), norms, fallback, firsts)


def _pooled(unit: Floats, vocabulary: Vocabulary, share: float) -> Floats:
    """Move every row towards the mean of its state; where that leaves nothing, take the state's
    first row instead."""
    labels, count = vocabulary.labels, len(vocabulary.states)
    members = np.equal.outer(np.arange(count), labels)
    means = (count * (members * vocabulary.weights) @ unit)[labels]
    rows: Floats = (1 - share) * unit + share * means
    vanished = np.einsum("nd,nd->n", rows, rows) <= FALLBACK_BELOW**2
    rows[vanished] = unit[members.argmax(axis=1)[labels[vanished]]]
    return rows


def example_directions(vocabulary: Vocabulary) -> dict[str, tuple[Floats, float]]:
    """Return how each state that has examples from elsewhere differs from the others that have,
    at unit length, and the weight of its examples; frames of one history count once, since they
    show one object.

    Pictures are measured from the mean of all pictures, in which every state weighs the same;
    frames of other histories already are measured from that of their history.
    """
    kinds: tuple[dict[str, list[Floats]], ...] = ({}, {})
    weights: dict[str, dict[str, float]] = {}
    for example in vocabulary.external_examples:
        state = example.state
        if example.features is None:
            raise InputError(
                f"the example {example.name} is not encoded yet; "
                "find() encodes it, or give its features"
            )
        if state is None:
            raise InputError(
                f'the example {example.name}: "none of the states" can only be shown by frames of '
                "the history being read, not by an example from elsewhere"
            )
        row = example.features.astype(np.float64)
        row = row if example.centred else row / np.linalg.norm(row)
        kinds[example.centred].setdefault(state, []).append(row)
        alone = f"{len(kinds[False].get(state, ()))} pictures"
        witness = example.name.rpartition("@")[0] if example.centred else alone
        weights.setdefault(state, {})[witness] = example.weight
    if len(kinds[False]) == 1:
        (state,) = kinds[False]
        raise InputError(
            f'only "{state}" has pictures; '
            "add pictures of another state for comparison, or use a frame of another history"
        )
    sums: dict[str, Floats] = {}
    for rows in kinds:
        means = {state: np.mean(state_rows, axis=0) for state, state_rows in rows.items()}
        centre = np.mean(list(means.values()), axis=0) if len(means) > 1 else 0.0
        for state, mean in means.items():
            residual = mean - centre
            norm = max(float(np.linalg.norm(residual)), FALLBACK_BELOW)
            sums[state] = sums.get(state, 0.0) + len(rows[state]) * residual / norm
    norms = {state: float(np.linalg.norm(total)) for state, total in sums.items()}
    return {
        state: (sums[state] / norm, sum(weights[state].values()))
        for state, norm in norms.items()
        if norm > FALLBACK_BELOW
    }


def _combined(
    vocabulary: Vocabulary, by_words: Directions, by_example: dict[str, tuple[Floats, float]]
) -> Directions:
    """Return (WORDS · words + n examples) / (WORDS + n), at unit length; n: their weight."""
    queries = by_words.queries.astype(np.float64)
    for q, state in enumerate(vocabulary.state_names):
        if state in by_example:
            direction, count = by_example[state]
            mixed = (WORDS * queries[q] + count * direction) / (WORDS + count)
            norm = np.linalg.norm(mixed)
            queries[q] = mixed / norm if norm > FALLBACK_BELOW else direction
    return replace(by_words, queries=queries.astype(np.float32))


def _without_words(
    vocabulary: Vocabulary, by_example: dict[str, tuple[Floats, float]]
) -> Directions:
    """Return directions without words: no dimensions where frames of the history show states."""
    names = vocabulary.state_names
    queries = np.zeros((len(vocabulary), 0), np.float32)
    if all(state in by_example for state in names):
        queries = np.stack([by_example[state][0] for state in names]).astype(np.float32)
    else:
        named = {example.state for example in vocabulary.frame_examples}
        for state in vocabulary.states:
            if state not in named:
                why, words = "not every state has words", "words for every state"
                if len(vocabulary.states) == 1:
                    why, words = "it is the only state", "describe what it looks like otherwise"
                problem = f'no frame of the history shows "{state}", and {why}'
                raise InputError(f"{problem}; add an example of it, or {words}")
    nothing = np.zeros(len(queries), bool)
    firsts = np.searchsorted(vocabulary.labels, np.arange(len(vocabulary.states)))
    return Directions(queries, np.ones(len(queries)), nothing, firsts)


def check_pair(history: History, vocabulary: Vocabulary) -> None:
    """Refuse a pair of two encoder spaces; an unnamed encoder matches any."""
    _check_space(history, "the vocabulary", vocabulary.encoder, vocabulary.features)
    for example in vocabulary.external_examples:
        _check_space(history, f"the example {example.name}", example.encoder, example.features)


def _check_space(
    history: History, name: str, encoder: str | None, features: NDArray[Any] | None
) -> None:
    if None not in (history.encoder, encoder) and history.encoder != encoder:
        raise InputError(
            f'history {history.id} was encoded with "{history.encoder}", but {name} with '
            f'"{encoder}"; encode both with the same encoder'
        )
    if features is not None and features.shape[-1] != history.dimension:
        raise InputError(
            f"history {history.id} has {history.dimension} dimensions, but {name} has "
            f"{features.shape[-1]}; encode both with the same encoder"
        )
