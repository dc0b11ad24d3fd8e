"""Where descriptions and frames are measured from (§2).

Similarity to one sentence mostly says "this is a cup". Measured from the centre of all sibling
sentences, what remains says "filled rather than empty".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    """name, whether frames are measured from their own median, and the origin of the queries:
    None (absolute), "state" (every state weighs the same) or "query" (every description does)."""

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


def as_coordinates(given: str | Coordinates) -> Coordinates:
    if isinstance(given, Coordinates):
        return given
    if given not in COORDINATES:
        raise unknown("coordinates", given, COORDINATES)
    return COORDINATES[given]


@dataclass(frozen=True, eq=False)
class Directions:
    """Unit query directions (Q, d) float32, and what they were before normalisation."""

    queries: NDArray[np.float32]
    residual_norms: Floats
    fallback: Flags
    firsts: Ints  # (S,) the row of the first description of each state

    @cached_property
    def any_fallback(self) -> bool:
        return bool(self.fallback.any())

    @cached_property
    def states(self) -> NDArray[np.float32]:
        """(S, d): the direction of each state, where all its descriptions share one."""
        return self.queries[self.firsts]


def unit_rows(rows: NDArray[np.floating]) -> Floats:
    wide = rows.astype(np.float64)
    wide /= np.sqrt(np.einsum("nd,nd->n", wide, wide))[:, None]
    return wide


def query_directions(
    vocabulary: Vocabulary, coordinates: Coordinates, pooling: float = 0.0
) -> Directions:
    """Return ũ_q = z̄_q − c and u_q = ũ_q/‖ũ_q‖; where ũ_q vanishes, z̄_q itself (fallback).

    pooling   share of its state's mean in each z̄_q; 0 is the paper, at 1 paraphrases are equal

    Computed once per vocabulary, which keeps them.
    """
    key = (coordinates.origin, pooling)
    known: Directions | None = vocabulary.derived.get(key)
    if known is None:
        known = vocabulary.derived[key] = _directions(vocabulary, coordinates, pooling)
    return known


def _directions(vocabulary: Vocabulary, coordinates: Coordinates, pooling: float) -> Directions:
    shown = shown_directions(vocabulary) if vocabulary.elsewhere else None
    if vocabulary.wordless and (shown is not None or vocabulary.facts):
        return _shown_only(vocabulary, shown or {})
    spoken = _spoken_directions(vocabulary, coordinates, pooling)
    return spoken if shown is None else _both(vocabulary, spoken, shown)


def _spoken_directions(
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
    """Every row moved towards the mean of its state; where that leaves nothing, the state's first
    row instead."""
    labels, count = vocabulary.labels, len(vocabulary.states)
    members = np.equal.outer(np.arange(count), labels)
    means = (count * (members * vocabulary.weights) @ unit)[labels]
    rows: Floats = (1 - share) * unit + share * means
    vanished = np.einsum("nd,nd->n", rows, rows) <= FALLBACK_BELOW**2
    rows[vanished] = unit[members.argmax(axis=1)[labels[vanished]]]
    return rows


def shown_directions(vocabulary: Vocabulary) -> dict[str, tuple[Floats, int]]:
    """How each state that is shown by examples from elsewhere differs from the others that are,
    at unit length, and the number of its examples; frames of one history are one, since they
    show one object.

    Pictures are measured from the mean of all pictures, in which every state weighs the same;
    frames of other histories already are measured from that of their history.
    """
    kinds: tuple[dict[str, list[Floats]], ...] = ({}, {})
    witnesses: dict[str, set[str]] = {}
    for own in vocabulary.elsewhere:
        if own.features is None:
            raise InputError(
                f"the example {own.name} is not encoded yet; find() encodes it, or give its "
                "features"
            )
        if own.state is None:
            raise InputError(
                f'the example {own.name}: "none of the states" can only be shown by frames of the '
                "history being read, not by an example from elsewhere"
            )
        row = own.features.astype(np.float64)
        row = row if own.centred else row / np.linalg.norm(row)
        kinds[own.centred].setdefault(own.state, []).append(row)
        alone = f"{len(kinds[False].get(own.state, ()))} pictures"
        witness = own.name.rpartition("@")[0] if own.centred else alone
        witnesses.setdefault(own.state, set()).add(witness)
    if len(kinds[False]) == 1:
        raise InputError(
            f'only "{next(iter(kinds[False]))}" has pictures; add pictures of another state for '
            "comparison, or use a frame of another history"
        )
    sums: dict[str, Floats] = {}
    for rows in kinds:
        means = {state: np.mean(own, axis=0) for state, own in rows.items()}
        centre = np.mean(list(means.values()), axis=0) if len(means) > 1 else 0.0
        for state, mean in means.items():
            residual = mean - centre
            norm = max(float(np.linalg.norm(residual)), FALLBACK_BELOW)
            sums[state] = sums.get(state, 0.0) + len(rows[state]) * residual / norm
    norms = {state: float(np.linalg.norm(total)) for state, total in sums.items()}
    return {
        state: (sums[state] / norm, len(witnesses[state]))
        for state, norm in norms.items()
        if norm > FALLBACK_BELOW
    }


def _both(
    vocabulary: Vocabulary, spoken: Directions, shown: dict[str, tuple[Floats, int]]
) -> Directions:
    """Return (WORDS · words + n examples) / (WORDS + n), at unit length."""
    queries = spoken.queries.astype(np.float64)
    for q, state in enumerate(vocabulary.state_names):
        if state in shown:
            direction, count = shown[state]
            mixed = (WORDS * queries[q] + count * direction) / (WORDS + count)
            norm = np.linalg.norm(mixed)
            queries[q] = mixed / norm if norm > FALLBACK_BELOW else direction
    return Directions(
        queries.astype(np.float32), spoken.residual_norms, spoken.fallback, spoken.firsts
    )


def _shown_only(vocabulary: Vocabulary, shown: dict[str, tuple[Floats, int]]) -> Directions:
    """Return directions without words: no dimensions where frames of the history show states."""
    hidden = [state for state in vocabulary.states if state not in shown]
    named = {own.state for own in vocabulary.facts}
    for state in hidden and vocabulary.states:
        if state not in named:
            raise InputError(
                f'no frame of the history shows "{state}", and not every state has words; add an '
                "example of it, or words for every state"
            )
    queries = np.zeros((len(vocabulary), 0), np.float32)
    if not hidden:
        queries = np.stack([shown[state][0] for state in vocabulary.state_names]).astype(np.float32)
    nothing = np.zeros(len(queries), bool)
    firsts = np.searchsorted(vocabulary.labels, np.arange(len(vocabulary.states)))
    return Directions(queries, np.ones(len(queries)), nothing, firsts)


def check_pair(history: History, vocabulary: Vocabulary) -> None:
    """Refuse a pair of two encoder spaces; an unnamed encoder matches any."""
    if not isinstance(history, History) or not isinstance(vocabulary, Vocabulary):
        raise InputError(
            f"expected a History and a Vocabulary, in this order, not {type(history).__name__} "
            f"and {type(vocabulary).__name__}"
        )
    if None not in (history.encoder, vocabulary.encoder) and history.encoder != vocabulary.encoder:
        raise InputError(
            f'history {history.id} was encoded with "{history.encoder}", but the vocabulary with '
            f'"{vocabulary.encoder}"; encode both with the same encoder'
        )
    if vocabulary.features is not None and vocabulary.features.shape[1] != history.dimension:
        raise InputError(
            f"history {history.id} has {history.dimension} dimensions, but the vocabulary has "
            f"{vocabulary.features.shape[1]}; encode both with the same encoder"
        )
    for own in vocabulary.elsewhere:
        if own.encoder is not None and history.encoder not in (None, own.encoder):
            raise InputError(
                f'history {history.id} was encoded with "{history.encoder}", but the example '
                f'{own.name} with "{own.encoder}"; encode both with the same encoder'
            )
        if own.features is not None and len(own.features) != history.dimension:
            raise InputError(
                f"history {history.id} has {history.dimension} dimensions, but the example "
                f"{own.name} has {len(own.features)}; encode both with the same encoder"
            )
