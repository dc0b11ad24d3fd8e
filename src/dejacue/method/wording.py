"""The report on words: how descriptions and states of a vocabulary differ, and what is wrong.

The *contrast* of a description is its row less, for every other state, the row there that is most
like it: "lid on the jar" beside "lid off the jar", so that what remains is the state and not the
phrasing. Two descriptions never use the same row, as far as there are two: the cosine of their
contrasts is about 0 where they share nothing, and so is the correlation of their evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, shortened
from dejacue.method._timelines import in_frames
from dejacue.method._timelines import quoted as quoted_whole
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import (
    COORDINATES,
    FALLBACK_BELOW,
    check_pair,
    query_directions,
    unit_rows,
)
from dejacue.method.localization import analyse, locate
from dejacue.records import History, Vocabulary, Window
from dejacue.records.arrays import Floats, Ints
from dejacue.records.words import (
    DescriptionPair,
    DescriptionWords,
    Spelling,
    StatePair,
    StateWords,
    WordsReport,
    decimal,
)

VOCABULARY = COORDINATES["vocabulary"]
MAX_LISTED = 5  # sentences of a kind, and descriptions in one
MAX_LETTERS = 60  # of a description in a sentence
MOSTLY_SAME = 0.5  # tIoU of windows that are mostly the same frames
HARD_TO_TELL = 0.5  # cosine of directions, or correlation of evidence, that are hardly told apart
SAME = 1 - 1e-6  # cosine of rows that are the same to an encoder
NOTHING = 1e-12  # share of the squared length of a row that is rounding


def check_spoken(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary without words."""
    silent = [state for state, texts in vocabulary.states.items() if not texts]
    if len(silent) == len(vocabulary.states):
        problem = "its states have only examples, so there are no words to check"
        raise InputError(problem, field="states")
    if silent:
        raise InputError(
            f'state "{silent[0]}" has no words, and words are used only if every state has some',
            field="states",
            value=silent[0],
            remedy="add a description of it",
        )


def only_words(vocabulary: Vocabulary) -> Vocabulary:
    """Return the vocabulary without examples, and every description once."""
    check_spoken(vocabulary)
    pairs = list(zip(vocabulary.state_names, vocabulary.descriptions, strict=True))
    rows = [q for q, pair in enumerate(pairs) if pairs.index(pair) == q]
    states = {
        state: [vocabulary.descriptions[q] for q in rows if vocabulary.state_names[q] == state]
        for state in vocabulary.states
    }
    features = None if vocabulary.features is None else vocabulary.features[rows]
    return replace(vocabulary, states=states, features=features, examples=(), changes=())


def words_report(
    vocabulary: Vocabulary,
    history: History | None = None,
    spellings: Sequence[Spelling | None] | None = None,
) -> WordsReport:
    """Return what the features, and the evidence on a history, say of the words.

    spellings   of ``only_words(vocabulary).descriptions``
    """
    words = only_words(vocabulary)
    if history is not None:
        check_pair(history, words)
    rows = _Rows(words)
    seen = None if history is None else _Seen(history, rows)
    pairs = {pair: _description_pair(rows, seen, *pair) for pair in rows.siblings()}
    spelled = spellings or [None] * len(words)
    norms = np.linalg.norm(rows.directions, axis=1).tolist()
    windows = [None] * len(norms) if seen is None else seen.windows
    report = WordsReport(
        tuple(_description(rows, seen, pairs, q, spelling) for q, spelling in enumerate(spelled)),
        tuple(pairs.values()),
        tuple(map(StateWords, words.states, norms, windows)),
        tuple(_state_pair(rows, seen, *pair) for pair in combinations(range(len(norms)), 2)),
        words.encoder,
        None if history is None else history.id,
    )
    alike = [(int(a), int(b)) for a, b in np.argwhere(np.triu(rows.likeness > SAME, 1))]
    return replace(report, notes=(*left_out(vocabulary), *_notes(report, words, alike)))


class _Rows:
    """The features of words: unit rows, means of states, and how far these are from their mean."""

    def __init__(self, words: Vocabulary) -> None:
        self.words = words
        self.residual_norms = query_directions(words, VOCABULARY).residual_norms
        self.unit = unit_rows(words.features)  # type: ignore[arg-type]
        self.likeness = self.unit @ self.unit.T
        self.of_state = [np.flatnonzero(words.labels == s) for s in range(len(words.states))]
        self.means = np.stack([self.unit[members].mean(axis=0) for members in self.of_state])
        self.directions = self.means - self.means.mean(axis=0)

    def siblings(self) -> list[tuple[int, int]]:
        """Return pairs of descriptions of one state."""
        return [pair for rows in self.of_state for pair in combinations(rows.tolist(), 2)]

    def cosine(self, a: int, b: int, states: Sequence[int]) -> float | None:
        """Return the cosine of the contrasts of two descriptions with these states."""
        if self.likeness[a, b] > SAME:
            return 1.0
        others = [self.of_state[state] for state in states]
        return contrast_cosine(self.likeness, self.likeness, a, b, others)

    def rest(self, q: int) -> Ints:
        """Return the other descriptions of its state."""
        rows = self.of_state[self.words.labels[q]]
        rest: Ints = rows[rows != q]
        return rest

    def turned(self, q: int) -> tuple[Floats, Floats]:
        """Return the direction of its state with and without a description, not the only one."""
        state = int(self.words.labels[q])
        others = np.delete(self.means, state, axis=0).mean(axis=0)
        return self.means[state] - others, self.unit[self.rest(q)].mean(axis=0) - others

    def direction_without(self, q: int) -> Floats:
        """Return the latter, or what ``query_directions`` takes where it vanishes."""
        rest = self.unit[self.rest(q)]
        fallback = (self.turned(q)[1], rest.mean(axis=0), rest[0])
        return next(row for row in fallback if np.linalg.norm(row) > FALLBACK_BELOW)


class _Seen:
    """What the words find on a history: each alone, all of a state together, all but one."""

    def __init__(self, history: History, rows: _Rows) -> None:
        words = rows.words
        alone = analyse(history, words, readout=Contrast(pooling=0), top=1)
        together = analyse(history, words, top=1)
        firsts = [int(members[0]) for members in rows.of_state]
        assert alone.evidence is not None
        assert together.evidence is not None
        self.alone = [interval.window for interval in alone]
        self.windows = [interval.window for interval in together]
        self.state_evidence = together.evidence.responses[firsts]
        # not at unit length: that of a difference of rows is the difference of theirs
        scale = alone.evidence.scale * rows.residual_norms
        evidence = alone.evidence.responses * scale[:, None]
        self.products = evidence @ evidence.T
        self.without = self._without(history, rows)

    @staticmethod
    def _without(history: History, rows: _Rows) -> dict[int, Window]:
        """Return description → the window of its state when it is left out."""
        left = [q for q in range(len(rows.words)) if len(rows.rest(q))]
        if not left:
            return {}
        states = {str(q): [str(q)] for q in left}
        directions = Vocabulary(states, np.stack([rows.direction_without(q) for q in left]))
        readout = Contrast(pooling=0)
        timeline = locate(history, directions, coordinates="absolute", readout=readout)
        return {q: interval.window for q, interval in zip(left, timeline, strict=True)}


def contrast_cosine(
    likeness: Floats, products: Floats, a: int, b: int, others: Sequence[Ints]
) -> float | None:
    """Return the cosine of rows a and b, each less the mean of the rows of other states that are
    most like it; the same row for both only where a state has no other. None where one vanishes.

    likeness   (Q, Q) cosines of the features
    products   (Q, Q) inner products of the rows that are compared: features, or evidence
    others     the rows of each other state
    """
    first, second = [a], [b]
    for rows in others:
        both = likeness[rows, a][:, None] + likeness[rows, b]
        if len(rows) > 1:
            np.fill_diagonal(both, -np.inf)
        i, j = divmod(int(both.argmax()), len(rows))
        first.append(int(rows[i]))
        second.append(int(rows[j]))
    weights = np.array([1.0, *(-1 / len(others) for _ in others)])
    squares_a, squares_b, product = (
        float(weights @ products[x][:, y] @ weights)
        for x, y in ((first, first), (second, second), (first, second))
    )
    if min(squares_a, squares_b) <= NOTHING * float(products.diagonal().max()):
        return None
    return float(np.clip(product / np.sqrt(squares_a * squares_b), -1, 1))


def _cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> float | None:
    norms = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if min(norms) <= FALLBACK_BELOW:
        return None
    return float(np.clip(a @ b / (norms[0] * norms[1]), -1, 1))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _description_pair(rows: _Rows, seen: _Seen | None, a: int, b: int) -> DescriptionPair:
    words = rows.words
    others = [state for state in range(len(words.states)) if state != words.labels[a]]
    cosine = rows.cosine(a, b, others)
    pair = DescriptionPair(
        words.state_names[a], words.descriptions[a], words.descriptions[b], cosine
    )
    if seen is None:
        return pair
    beside = [rows.of_state[state] for state in others]
    together = contrast_cosine(rows.likeness, seen.products, a, b, beside)
    return replace(
        pair,
        correlation=None if cosine is None else together,
        overlap=seen.alone[a].iou(seen.alone[b]),
    )


def _description(
    rows: _Rows,
    seen: _Seen | None,
    pairs: Mapping[tuple[int, int], DescriptionPair],
    q: int,
    spelling: Spelling | None,
) -> DescriptionWords:
    words = rows.words
    agreement = _mean(row.cosine for pair, row in pairs.items() if q in pair)
    direction = _cosine(*rows.turned(q)) if len(rows.rest(q)) else None
    row = DescriptionWords(
        words.state_names[q], words.descriptions[q], agreement, direction, spelling=spelling
    )
    if seen is None:
        return row
    whole = seen.windows[words.labels[q]]
    without = seen.without.get(q)
    return replace(
        row,
        window=seen.alone[q],
        overlap=seen.alone[q].iou(whole),
        without=None if without is None else without.iou(whole),
    )


def _state_pair(rows: _Rows, seen: _Seen | None, s: int, t: int) -> StatePair:
    names = list(rows.words.states)
    agreement = _mean(
        rows.cosine(*pair, [other])
        for state, other in ((s, t), (t, s))
        for pair in combinations(rows.of_state[state].tolist(), 2)
    )
    pair = StatePair(
        names[s],
        names[t],
        _cosine(rows.means[s], rows.means[t]),
        agreement,
        _cosine(rows.directions[s], rows.directions[t]),
    )
    if seen is None:
        return pair
    return replace(
        pair,
        correlation=_cosine(seen.state_evidence[s], seen.state_evidence[t]),
        overlap=seen.windows[s].iou(seen.windows[t]),
    )


# What a report says in sentences: what to look at, and nothing where nothing is wrong.


def quoted(texts: Iterable[str]) -> str:
    """Return texts in quotes, so few and so short that a sentence stays readable."""
    short = [shortened(text, MAX_LETTERS) for text in texts]
    if len(short) <= MAX_LISTED:
        return quoted_whole(short)
    listed = ", ".join(f'"{text}"' for text in short[:MAX_LISTED])
    return f"{listed} and {len(short) - MAX_LISTED} more"


def left_out(vocabulary: Vocabulary) -> Iterator[str]:
    """Yield sentences on what of a vocabulary is ignored."""
    if vocabulary.examples or vocabulary.changes:
        yield "the examples of the vocabulary are ignored: this check covers only its words"
    yield from _limited(_repeated(vocabulary))


def _notes(
    report: WordsReport, words: Vocabulary, alike: Sequence[tuple[int, int]]
) -> Iterator[str]:
    yield from _limited(_same(words, alike))
    for kind in (_unread, _disagreeing, _hanging, _confused):
        yield from _limited(list(kind(report)))
    single = [state for state, texts in words.states.items() if len(texts) == 1]
    if single:
        yield (
            f"{quoted(single)} {'has' if len(single) == 1 else 'have'} only one description, so "
            "there is no way to tell whether the encoder understands it as you mean it; dejacue "
            "words --suggest prints more"
        )


def _limited(sentences: Sequence[str]) -> Iterator[str]:
    yield from sentences[:MAX_LISTED]
    if sentences[MAX_LISTED:]:
        yield f"… and {len(sentences) - MAX_LISTED} more like these"


def _repeated(vocabulary: Vocabulary) -> list[str]:
    counts = Counter(zip(vocabulary.state_names, vocabulary.descriptions, strict=True))
    return [
        f'{quoted([text])} appears {times} times in "{state}"; it counts once'
        for (state, text), times in counts.items()
        if times > 1
    ]


def _same(words: Vocabulary, alike: Sequence[tuple[int, int]]) -> list[str]:
    sentences = []
    for a, b in alike:
        states = words.state_names[a], words.state_names[b]
        both = quoted((words.descriptions[a], words.descriptions[b]))
        if states[0] == states[1]:
            sentences.append(f'{both} ("{states[0]}") are the same to the encoder; one is enough')
        else:
            sentences.append(
                f"{both} are the same to the encoder, so it cannot tell {quoted(states)} apart by "
                "them; choose other words"
            )
    return sentences


def _unread(report: WordsReport) -> Iterator[str]:
    for row in report.descriptions:
        spelling = row.spelling
        if spelling is None:
            continue
        if spelling.unknown:
            yield f"{quoted([row.text])}: the encoder does not know {quoted(spelling.unknown)}"
        if spelling.in_pieces:
            yield (
                f"{quoted([row.text])}: the encoder splits {quoted(spelling.in_pieces)} into "
                "three or more pieces, so it may not know it as one word; is there a more common "
                "one?"
            )
        if spelling.cut:
            cut = quoted([spelling.cut])
            yield f"{quoted([row.text])} is too long: {cut} is cut off; shorten it"


def _disagreeing(report: WordsReport) -> Iterator[str]:
    for row in report.pairs:
        both = f'{quoted((row.first, row.second))} disagree about "{row.state}"'
        if row.cosine is not None and row.cosine < 0:
            yield f"{both} (cosine {decimal(row.cosine)})"
        elif row.correlation is not None and row.correlation < 0:
            yield f"{both} on this history (correlation {decimal(row.correlation)})"


def _hanging(report: WordsReport) -> Iterator[str]:
    """Name states whose window is another one as soon as a description is left out."""
    for state in report.states:
        texts = [
            row.text
            for row in report.descriptions
            if row.state == state.state and row.without is not None and row.without < MOSTLY_SAME
        ]
        if texts and state.window is not None:
            each = "each of " if len(texts) > 1 else ""
            yield (
                f'the window of "{state.state}", {in_frames(*state.window)}, depends on '
                f"{each}{quoted(texts)}: without it, another window is found (tIoU below "
                f"{MOSTLY_SAME})"
            )


def _confused(report: WordsReport) -> Iterator[str]:
    for row in report.state_pairs:
        both = quoted((row.first, row.second))
        several = len(report.states) > 2  # of two states, the pairs of descriptions say it
        if several and row.agreement is not None and row.agreement < 0:
            yield (
                f"the descriptions of {both} disagree on the difference between the two (cosine "
                f"{decimal(row.agreement)})"
            )
        if row.correlation is not None and row.correlation > HARD_TO_TELL:
            yield (
                f"{both} are hard to tell apart on this history: their evidence rises and falls "
                f"together (correlation {decimal(row.correlation)})"
            )
        elif row.cosine is not None and row.cosine > HARD_TO_TELL:
            yield f"{both} point the same way (cosine {decimal(row.cosine)})"
        if row.overlap is not None and row.overlap >= MOSTLY_SAME:
            same = "the same frames" if row.overlap == 1 else "mostly the same frames"
            yield f"{both} get {same} of this history (tIoU {decimal(row.overlap)})"
