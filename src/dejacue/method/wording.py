"""Do the words say what they should? Descriptions and states of a vocabulary, beside each other.

The *contrast* of a description is its row less, for every other state, the row there that is most
like it: "lid on the jar" beside "lid off the jar", so that what remains is the state and not the
phrasing. Two descriptions never use the same row, as far as there are two: the cosine of their
contrasts is about 0 where they share nothing, and so is the correlation of their evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method._wording_notes import left_out, notes_of
from dejacue.method.batch import locate_many
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import (
    COORDINATES,
    FALLBACK_BELOW,
    Directions,
    check_pair,
    query_directions,
    unit_rows,
)
from dejacue.method.locate import read
from dejacue.records import History, Vocabulary, Window
from dejacue.records.words import (
    DescriptionPair,
    DescriptionWords,
    Spelling,
    StatePair,
    StateWords,
    WordsReport,
)

Table = NDArray[np.float64]
VOCABULARY = COORDINATES["vocabulary"]
SAME = 1 - 1e-6  # cosine of rows that are the same to an encoder


def check_spoken(vocabulary: Vocabulary) -> None:
    """Refuses a vocabulary without words."""
    silent = [state for state, texts in vocabulary.states.items() if not texts]
    if len(silent) == len(vocabulary.states):
        raise InputError("its states are shown by examples only: there are no words to check")
    if silent:
        raise InputError(
            f'state "{silent[0]}" has no words, and words are used only where every state has '
            "some; add a description of it"
        )


def only_words(vocabulary: Vocabulary) -> Vocabulary:
    """Without examples, and every description once."""
    check_spoken(vocabulary)
    rows, seen = [], set()
    for q, own in enumerate(zip(vocabulary.state_names, vocabulary.descriptions, strict=True)):
        if own not in seen:
            rows.append(q)
            seen.add(own)
    return _chosen(replace(vocabulary, examples=(), changes=()), rows)


def words_report(
    vocabulary: Vocabulary,
    history: History | None = None,
    spellings: Sequence[Spelling | None] | None = None,
) -> WordsReport:
    """What the features, and the evidence on a history, say of the words.

    spellings   of ``only_words(vocabulary).descriptions``
    """
    words = only_words(vocabulary)
    if history is not None:
        check_pair(history, words)
    pooled = query_directions(words, VOCABULARY, 1.0)  # refuses words without features
    unit = unit_rows(words.features)  # type: ignore[arg-type]
    rows = [np.flatnonzero(words.labels == state) for state in range(len(words.states))]
    seen = _Seen(history, words) if history is not None else None
    pairs = [_description_pair(words, unit, rows, seen, *own) for own in _siblings(rows)]
    state_pairs = tuple(
        _state_pair(words, unit, rows, pooled, seen, *own)
        for own in combinations(range(len(rows)), 2)
    )
    windows = seen.windows if seen is not None else [None] * len(rows)
    report = WordsReport(
        tuple(_descriptions(words, pairs, rows, pooled, seen, spellings)),
        tuple(own for _, _, own in pairs),
        tuple(
            map(StateWords, words.states, pooled.residual_norms[pooled.firsts].tolist(), windows)
        ),
        state_pairs,
        words.encoder,
        None if history is None else history.id,
    )
    notes = (*left_out(vocabulary), *notes_of(report, words, _alike(unit)))
    return replace(report, notes=notes)


class _Seen:
    """What the words find on a history: each alone, and all of a state together."""

    def __init__(self, history: History, words: Vocabulary) -> None:
        alone = read(history, words, readout=Contrast(pooling=0), top=1)
        together = read(history, words, top=1)
        firsts = np.searchsorted(words.labels, np.arange(len(words.states)))
        self.history = history
        self.alone = [moment.window for moment in alone.retrieval]
        self.windows = [together.retrieval.moments[q].window for q in firsts]
        # not at unit length: that of a difference of rows is the difference of theirs
        norms = query_directions(words, VOCABULARY).residual_norms
        self.evidence = alone.evidence.responses * (alone.evidence.scale * norms)[:, None]
        self.state_evidence = together.evidence.responses[firsts]

    def without(self, fewer: Sequence[tuple[int, Vocabulary]]) -> list[Window]:
        """The window of a state with each of these vocabularies."""
        found = locate_many([self.history] * len(fewer), [own for _, own in fewer])
        return [
            retrieval[list(own.states)[state]][0].window
            for retrieval, (state, own) in zip(found, fewer, strict=True)
        ]


def _siblings(rows: Sequence[NDArray[np.int64]]) -> list[tuple[int, int]]:
    return [pair for own in rows for pair in combinations(own.tolist(), 2)]


def _chosen(words: Vocabulary, rows: Sequence[int]) -> Vocabulary:
    """The vocabulary with these descriptions only."""
    states: dict[str, list[str]] = {state: [] for state in words.states}
    for q in rows:
        states[words.state_names[q]].append(words.descriptions[q])
    features = None if words.features is None else words.features[list(rows)]
    return replace(words, states=states, features=features)


def _description_pair(
    words: Vocabulary, unit: Table, rows: Sequence[NDArray[np.int64]], seen: _Seen | None,
    a: int, b: int,
) -> tuple[int, int, DescriptionPair]:  # fmt: skip
    state = int(words.labels[a])
    others = [own for s, own in enumerate(rows) if s != state]
    pair = DescriptionPair(
        words.state_names[a], words.descriptions[a], words.descriptions[b],
        contrast_cosine(unit, a, b, others),
    )  # fmt: skip
    if seen is not None:
        told = pair.cosine is not None
        together = _cosine(*contrasts(unit, seen.evidence, a, b, others)) if told else None
        overlap = seen.alone[a].iou(seen.alone[b])
        pair = replace(pair, correlation=together, overlap=overlap)
    return a, b, pair


def contrast_cosine(
    unit: Table, a: int, b: int, others: Sequence[NDArray[np.int64]]
) -> float | None:
    """Of the contrasts of rows a and b with the other states, given as their rows; None where a
    contrast vanishes."""
    if unit[a] @ unit[b] > SAME:
        return 1.0
    return _cosine(*contrasts(unit, unit, a, b, others))


def contrasts(
    unit: Table, table: Table, a: int, b: int, others: Sequence[NDArray[np.int64]]
) -> tuple[Table, Table]:
    """Rows a and b of a table, each less the mean of those of other states that are most like it
    in their features; the same row for both only where a state has no other."""
    beside: tuple[list[int], list[int]] = ([], [])
    for rows in others:
        both = (unit[rows] @ unit[a])[:, None] + unit[rows] @ unit[b]
        if len(rows) > 1:
            np.fill_diagonal(both, -np.inf)
        for own, row in zip(beside, np.unravel_index(both.argmax(), both.shape), strict=True):
            own.append(int(rows[row]))
    return table[a] - table[beside[0]].mean(axis=0), table[b] - table[beside[1]].mean(axis=0)


def _cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> float | None:
    norms = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if min(norms) <= FALLBACK_BELOW:
        return None
    return float(np.clip(a @ b / (norms[0] * norms[1]), -1, 1))


def _correlation(a: NDArray[np.floating], b: NDArray[np.floating]) -> float | None:
    return _cosine(a - a.mean(), b - b.mean())


def _state_pair(
    words: Vocabulary, unit: Table, rows: Sequence[NDArray[np.int64]], pooled: Directions,
    seen: _Seen | None, s: int, t: int,
) -> StatePair:  # fmt: skip
    names = list(words.states)
    found = [
        contrast_cosine(unit, *pair, [rows[other]])
        for own, other in ((s, t), (t, s))
        for pair in combinations(rows[own].tolist(), 2)
    ]
    means = [unit[rows[own]].mean(axis=0) for own in (s, t)]
    told = not pooled.fallback[[rows[s][0], rows[t][0]]].any()
    pair = StatePair(
        names[s], names[t], _cosine(*means) or 0.0, _mean(found),
        _cosine(pooled.states[s], pooled.states[t]) if told else None,
    )  # fmt: skip
    if seen is None:
        return pair
    return replace(
        pair, correlation=_correlation(seen.state_evidence[s], seen.state_evidence[t]),
        overlap=seen.windows[s].iou(seen.windows[t]),
    )  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _descriptions(
    words: Vocabulary, pairs: Sequence[tuple[int, int, DescriptionPair]],
    rows: Sequence[NDArray[np.int64]], pooled: Directions, seen: _Seen | None,
    spellings: Sequence[Spelling | None] | None,
) -> list[DescriptionWords]:  # fmt: skip
    """Each beside the others of its state, and its state with and without it."""
    every = range(len(words))
    fewer = {
        q: (int(words.labels[q]), _chosen(words, [own for own in every if own != q]))
        for q in every
        if len(rows[words.labels[q]]) > 1
    }
    left = dict(zip(fewer, seen.without(list(fewer.values())), strict=True)) if seen else {}
    found = []
    for q in every:
        state = int(words.labels[q])
        agreement = _mean([own.cosine for a, b, own in pairs if q in (a, b)])
        kept = _kept(pooled, *fewer[q]) if q in fewer else None
        own = DescriptionWords(words.state_names[q], words.descriptions[q], agreement, kept)
        if seen is not None:
            window, whole = seen.alone[q], seen.windows[state]
            without = whole.iou(left[q]) if q in left else None
            own = replace(own, window=window, overlap=window.iou(whole), without=without)
        found.append(replace(own, spelling=spellings[q] if spellings is not None else None))
    return found


def _kept(pooled: Directions, state: int, fewer: Vocabulary) -> float | None:
    """Cosine of the state's direction with that of fewer words."""
    other = query_directions(fewer, VOCABULARY, 1.0)
    if pooled.fallback[pooled.firsts[state]] or other.fallback[other.firsts[state]]:
        return None
    return _cosine(pooled.states[state], other.states[state])


def _alike(unit: Table) -> list[tuple[int, int]]:
    """Descriptions that are the same to the encoder."""
    near = unit @ unit.T > SAME
    return [(a, b) for a, b in combinations(range(len(unit)), 2) if near[a, b]]
