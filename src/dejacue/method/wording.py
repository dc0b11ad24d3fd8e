"""The report on words: how descriptions and states of a vocabulary differ, and what is wrong.

The *contrast* of a description is its row less, for every other state, the row there that is most
like it: "lid on the jar" beside "lid off the jar", so that what remains is the state and not the
phrasing. Two descriptions never use the same row, as far as there are two: the cosine of their
contrasts is about 0 where they share nothing, and so is the correlation of their evidence.

Of very many pairs, those that are most likely to be wrong are compared, so that time and memory
grow with the number of descriptions: the least alike of a state, and the states most alike.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
from dejacue.records import History, Note, Vocabulary, Window
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
MAX_PAIRS = 2_000  # of descriptions of a state, and of states, that are compared
MAX_SIBLINGS = 100  # descriptions of a state that are compared beside one other state, …
MAX_SIBLING_PAIRS = 500_000  # … and pairs of them beside all other states
PAIRS_AT_A_TIME = 200
ROWS_AT_A_TIME = 500
MOSTLY_SAME = 0.5  # tIoU of windows that are mostly the same frames
HARD_TO_TELL = 0.5  # cosine of directions, or correlation of evidence, that are hardly told apart
SAME = 1 - 1e-6  # cosine of rows that are the same to an encoder
NOTHING = 1e-12  # share of the squared length of a row that is rounding


def check_spoken(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary without words."""
    silent = [state for state, texts in vocabulary.states.items() if not texts]
    if len(silent) == len(vocabulary.states):
        raise InputError("its states have only examples, so there are no words to check")
    if silent:
        raise InputError(
            f'state "{silent[0]}" has no words, and words are used only if every state has some; '
            "add a description of it"
        )


def only_words(vocabulary: Vocabulary) -> Vocabulary:
    """Return the vocabulary without examples, and every description once."""
    check_spoken(vocabulary)
    rows: dict[tuple[str, str], int] = {}
    for q, pair in enumerate(zip(vocabulary.state_names, vocabulary.descriptions, strict=True)):
        rows.setdefault(pair, q)
    states = {state: list(dict.fromkeys(texts)) for state, texts in vocabulary.states.items()}
    features = None if vocabulary.features is None else vocabulary.features[list(rows.values())]
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
    reason: tuple[Note, ...] = ()
    if history is not None:
        check_pair(history, words)
        if meaningless := locate(history, words).meaningless:
            history, reason = None, (meaningless,)  # what they find there says nothing of them
    rows = _Rows(words)
    seen = None if history is None else _Seen(history, rows)
    siblings = _lowest_pairs(rows.unit, rows.of_state)
    pairs = _description_pairs(rows, seen, siblings)
    agreements = defaultdict(list)
    for pair, row in zip(siblings, pairs, strict=True):
        for q in pair:
            agreements[q].append(row.cosine)
    directions = rows.directions / np.maximum(_norms(rows.directions), FALLBACK_BELOW)[:, None]
    state_pairs = _lowest_pairs(directions, [np.arange(len(directions))], sign=-1)
    most = max(2, min(MAX_SIBLINGS, math.isqrt(MAX_SIBLING_PAIRS // len(state_pairs))))
    spelled = spellings or [None] * len(words)
    windows = [None] * len(words.states) if seen is None else seen.windows
    report = WordsReport(
        tuple(
            _description(rows, seen, _mean(agreements[q]), q, spelling)
            for q, spelling in enumerate(spelled)
        ),
        tuple(pairs),
        tuple(map(StateWords, words.states, _norms(rows.directions).tolist(), windows)),
        tuple(_state_pair(rows, seen, most, *pair) for pair in state_pairs),
        words.encoder,
        None if history is None else history.id,
    )
    notes = (
        *reason,
        *left_out(vocabulary),
        *_not_compared(rows, most),
        *_same(rows),
        *_notes(report, words),
    )
    return replace(report, notes=notes)


class _Rows:
    """The features of words: unit rows, means of states, and how far these are from their mean."""

    def __init__(self, words: Vocabulary) -> None:
        self.words, self.names = words, list(words.states)
        self.residual_norms = query_directions(words, VOCABULARY).residual_norms
        self.unit = unit_rows(words.features)  # type: ignore[arg-type]
        self.of_state = [np.flatnonzero(words.labels == s) for s in range(len(words.states))]
        self.means = np.stack([self.unit[members].mean(axis=0) for members in self.of_state])
        self.total = self.means.sum(axis=0)
        self.directions = self.means - self.means.mean(axis=0)

    def rest(self, q: int) -> Ints:
        """Return the other descriptions of its state."""
        rows = self.of_state[self.words.labels[q]]
        rest: Ints = rows[rows != q]
        return rest

    def mean_without(self, q: int) -> Floats:
        """Return the mean of the other descriptions of its state."""
        state = self.words.labels[q]
        count = len(self.of_state[state])
        mean: Floats = (count * self.means[state] - self.unit[q]) / (count - 1)
        return mean

    def turned(self, q: int) -> tuple[Floats, Floats]:
        """Return the direction of its state with and without a description, not the only one."""
        state, count = self.words.labels[q], len(self.means)
        others = (self.total - self.means[state]) / (count - 1)
        return self.means[state] - others, self.mean_without(q) - others

    def direction_without(self, q: int) -> Floats:
        """Return the latter, or what ``query_directions`` takes where it vanishes."""
        fallback = (self.turned(q)[1], self.mean_without(q), self.unit[self.rest(q)[0]])
        return next(row for row in fallback if np.linalg.norm(row) > FALLBACK_BELOW)


class _Seen:
    """The windows of words on a history: each alone, all of a state together, all but one."""

    def __init__(self, history: History, rows: _Rows) -> None:
        words = rows.words
        alone = analyse(history, words, readout=Contrast(pooling=0))
        together = analyse(history, words, readout=Contrast())
        firsts = [int(members[0]) for members in rows.of_state]
        assert alone.evidence is not None
        assert together.evidence is not None
        windows = {(row.state, row.description): row.window for row in alone}
        pairs = zip(words.state_names, words.descriptions, strict=True)
        self.alone = [windows[pair] for pair in pairs]
        self.windows = [together[state][0].window for state in words.states]
        self.state_evidence = together.evidence.responses[firsts]
        # not at unit length: that of a difference of rows is the difference of theirs
        scale = alone.evidence.scale * rows.residual_norms
        self.evidence = alone.evidence.responses * scale[:, None]
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
        return {q: timeline[str(q)][0].window for q in left}


def _norms(rows: Floats) -> Floats:
    norms: Floats = np.linalg.norm(rows, axis=1)
    return norms


def _later_products(rows: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield the first of some rows, and their products with it and all later ones; NaN in place of
    those of a row with itself and those before it."""
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        table = rows[first : first + ROWS_AT_A_TIME] @ rows[first:].T
        table[np.tril_indices(len(table), m=table.shape[1])] = np.nan
        yield first, table


def _lowest_pairs(rows: Floats, groups: Iterable[Ints], *, sign: int = 1) -> list[tuple[int, int]]:
    """Return the MAX_PAIRS pairs of rows of one group with the lowest products times ``sign``."""
    pairs, values, limit = np.empty((0, 2), np.int64), np.empty(0), np.inf
    for members in groups:
        for first, table in _later_products(rows[members]):
            lower = sign * table < limit
            pairs = np.concatenate((pairs, members[np.argwhere(lower) + first]))
            values = np.concatenate((values, sign * table[lower]))
            if len(values) > MAX_PAIRS:
                lowest = np.argpartition(values, MAX_PAIRS)[:MAX_PAIRS]
                pairs, values = pairs[lowest], values[lowest]
                limit = float(values.max())
    return sorted((int(a), int(b)) for a, b in pairs)


def _most_alike(likeness: Floats, labels: Ints) -> tuple[Ints, Floats]:
    """Return, for each row of ``likeness`` (P, Q), the column of each state that is highest, and
    that value, (P, S); the first of equal ones."""
    values = np.maximum.reduceat(likeness, np.flatnonzero(np.diff(labels, prepend=-1)), axis=1)
    row, column = np.nonzero(likeness == values[:, labels])
    columns = np.empty(values.shape, np.int64)
    columns[row[::-1], labels[column[::-1]]] = column[::-1]  # the last one that is written stays
    return columns, values


def contrast_weights(unit: Floats, labels: Ints, pairs: Ints) -> tuple[Floats, Floats]:
    """Return what each row weighs in the contrasts of the first and second of each pair, (P, Q):
    the row itself, less the mean of the rows of other states that are most like it; the same row
    for both only where a state has no other.

    unit     (Q, d) features
    labels   (Q,) the state of each row, ascending
    pairs    (P, 2) rows of one state
    """
    pair_rows = np.arange(len(pairs))[:, None]
    chosen, second_best = [], []
    for rows in pairs.T:
        likeness = unit[rows] @ unit.T
        best = _most_alike(likeness, labels)
        likeness[pair_rows, best[0]] = -np.inf
        chosen.append(best)
        second_best.append(_most_alike(likeness, labels))
    (first, first_value), (second, second_value) = chosen
    (next_first, next_first_value), (next_second, next_second_value) = second_best
    clash = (first == second) & (np.bincount(labels) > 1)
    first_moved, second_moved = next_first_value + second_value, first_value + next_second_value
    moves = (first_moved > second_moved) | ((first_moved == second_moved) & (next_first < first))
    weights = []
    for rows, columns in zip(
        pairs.T,
        (np.where(clash & moves, next_first, first), np.where(clash & ~moves, next_second, second)),
        strict=True,
    ):
        table = np.zeros((len(pairs), len(unit)))
        table[pair_rows, columns] = -1 / labels[-1]  # the number of other states
        table[labels[rows][:, None] == labels] = 0
        table[pair_rows[:, 0], rows] = 1
        weights.append(table)
    return weights[0], weights[1]


def _contrast_cosines(
    unit: Floats, labels: Ints, pairs: Sequence[tuple[int, int]], evidence: Floats | None = None
) -> Iterator[tuple[float | None, float | None]]:
    """Yield for each pair the cosine of their contrasts and, with evidence, of the evidence of
    these; None where one vanishes."""
    for first in range(0, len(pairs), PAIRS_AT_A_TIME):
        some = np.array(pairs[first : first + PAIRS_AT_A_TIME])
        weights = contrast_weights(unit, labels, some)
        cosines = _row_cosines(weights[0] @ unit, weights[1] @ unit, 1.0)
        same = np.einsum("pd,pd->p", unit[some[:, 0]], unit[some[:, 1]]) > SAME
        cosines = [1.0 if alike else c for alike, c in zip(same.tolist(), cosines, strict=True)]
        seen: list[float | None] = [None] * len(cosines)
        if evidence is not None:
            longest = float(np.einsum("qn,qn->q", evidence, evidence).max())
            seen = _row_cosines(weights[0] @ evidence, weights[1] @ evidence, longest)
        for cosine, correlation in zip(cosines, seen, strict=True):
            yield cosine, None if cosine is None else correlation


def _row_cosines(a: Floats, b: Floats, longest: float) -> list[float | None]:
    """Return the cosine of each row of a with that of b; None where one vanishes beside rows of
    the squared length ``longest``."""
    squares = np.einsum("pd,pd->p", a, a), np.einsum("pd,pd->p", b, b)
    vanish = np.minimum(*squares) <= NOTHING * longest
    lengths = np.sqrt(np.where(vanish, 1, squares[0] * squares[1]))
    cosines = np.clip(np.einsum("pd,pd->p", a, b) / lengths, -1, 1)
    return [None if gone else c for gone, c in zip(vanish.tolist(), cosines.tolist(), strict=True)]


def _cosine(a: NDArray[np.floating], b: NDArray[np.floating]) -> float | None:
    norms = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if min(norms) <= FALLBACK_BELOW:
        return None
    return float(np.clip(a @ b / (norms[0] * norms[1]), -1, 1))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _description_pairs(
    rows: _Rows, seen: _Seen | None, pairs: Sequence[tuple[int, int]]
) -> list[DescriptionPair]:
    words, evidence = rows.words, None if seen is None else seen.evidence
    cosines = _contrast_cosines(rows.unit, words.labels, pairs, evidence)
    return [
        DescriptionPair(
            words.state_names[a],
            words.descriptions[a],
            words.descriptions[b],
            cosine,
            correlation,
            None if seen is None else seen.alone[a].iou(seen.alone[b]),
        )
        for (a, b), (cosine, correlation) in zip(pairs, cosines, strict=True)
    ]


def _description(
    rows: _Rows, seen: _Seen | None, agreement: float | None, q: int, spelling: Spelling | None
) -> DescriptionWords:
    words = rows.words
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


def _state_pair(rows: _Rows, seen: _Seen | None, most: int, s: int, t: int) -> StatePair:
    members = [rows.of_state[state][:most] for state in (s, t)]
    sizes = [len(group) for group in members]
    within = [*combinations(range(sizes[0]), 2), *combinations(range(sizes[0], sum(sizes)), 2)]
    cosines = _contrast_cosines(
        rows.unit[np.concatenate(members)], np.repeat([0, 1], sizes), within
    )
    agreement = _mean(cosine for cosine, _ in cosines)
    pair = StatePair(
        rows.names[s],
        rows.names[t],
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


def _not_compared(rows: _Rows, most: int) -> Iterator[str]:
    """Yield sentences on what a report leaves out because there is too much of it."""
    sizes = [len(members) for members in rows.of_state]
    pairs, state_pairs = sum(map(math.comb, sizes, [2] * len(sizes))), math.comb(len(sizes), 2)
    if pairs > MAX_PAIRS:
        yield (
            f"of {pairs:,} pairs of descriptions of a state, only the {MAX_PAIRS:,} that are least "
            "alike are compared"
        )
    if state_pairs > MAX_PAIRS:
        yield (
            f"of {state_pairs:,} pairs of states, only the {MAX_PAIRS:,} whose directions are most "
            "alike are compared"
        )
    if max(sizes) > most:
        yield f"of each state, only the first {most} descriptions tell how it agrees with another"


def _notes(report: WordsReport, words: Vocabulary) -> Iterator[str]:
    for kind in (_unread, _disagreeing, _hanging, _confused):
        yield from _limited(list(kind(report)))
    single = [state for state, texts in words.states.items() if len(texts) == 1]
    if single:
        yield (
            f"{quoted(single)} {'has' if len(single) == 1 else 'have'} only one description, so "
            "there is no way to tell whether the encoder understands it as you mean it; dejacue "
            "words --suggest prints more"
        )


def _limited(sentences: Sequence[str], omitted: int = 0) -> Iterator[str]:
    yield from sentences[:MAX_LISTED]
    omitted += len(sentences[MAX_LISTED:])
    if omitted:
        yield f"… and {omitted} more like these"


def _repeated(vocabulary: Vocabulary) -> list[str]:
    counts = Counter(zip(vocabulary.state_names, vocabulary.descriptions, strict=True))
    return [
        f'{quoted([text])} appears {times} times in "{state}"; it counts once'
        for (state, text), times in counts.items()
        if times > 1
    ]


def _same(rows: _Rows) -> Iterator[str]:
    """Name descriptions that are the same to the encoder."""
    words, count, sentences = rows.words, 0, []
    alike: list[list[int]] = []
    for first, table in _later_products(rows.unit):
        same = table > SAME
        count += int(same.sum())
        alike += (np.argwhere(same)[: MAX_LISTED - len(alike)] + first).tolist()
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
    return _limited(sentences, count - len(alike))


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
    by_state = defaultdict(list)
    for row in report.descriptions:
        if row.without is not None and row.without < MOSTLY_SAME:
            by_state[row.state].append(row.text)
    for state in report.states:
        texts = by_state[state.state]
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
