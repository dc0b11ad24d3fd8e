"""check_words: what an encoder makes of the words of a vocabulary, alone and on a history.

The *contrast* of a description is its row less, for every other state, the row there that is most
like it: "lid on the jar" beside "lid off the jar", so that what remains is the state and not the
phrasing. Two descriptions of a state agree as far as their contrasts point the same way.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from dejacue.errors import InputError, StrPath, named, shortened
from dejacue.finding._find import saved_finding
from dejacue.finding._readout import (
    VocabularySource,
    encode_words,
    encoder_for,
    load_words,
    name_of,
)
from dejacue.finding.finding import Finding
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import FALLBACK_BELOW, check_pair, unit_rows
from dejacue.method.localization import locate
from dejacue.method.readout import in_frames
from dejacue.models.encoders import FORMS, Encoder
from dejacue.records import History, Vocabulary, Window
from dejacue.records.arrays import Floats
from dejacue.records.words import DescriptionWords, Spelling, StatePair, WordsReport, decimal

MAX_COMPARED = 30  # descriptions of a state
MAX_PAIRS = 100  # of states
MAX_LISTED = 5  # sentences of a kind, and texts in one
MAX_LETTERS = 60  # of a text in a sentence
MOSTLY_SAME = 0.5  # tIoU of windows that are mostly the same frames
HARD_TO_TELL = 0.5  # cosine of directions that are hardly told apart
SAME = 1 - 1e-6  # cosine of rows that are the same to an encoder


def check_words(
    vocabulary: VocabularySource | Lazy,
    history: History | Finding | StrPath | None = None,
    *,
    encoder: Encoder | str | Lazy | None = None,
) -> WordsReport:
    """Report which descriptions disagree with their state, which states look alike to the encoder,
    and which words it does not know.

    vocabulary   a path, {state: descriptions}, or a Vocabulary; its examples are left out
    history      also look at what the words find on it: a History, its file, a Finding, its folder
    encoder      default: that of the history, or siglip2; words with features (.npz) need none, but
                 only an encoder says which words it knows

    >>> report = check_words({"empty": "an empty cup", "full": "a full cup"}, encoder="mini")
    >>> report.notes[0]
    '"empty" and "full" have only one description, ...'
    """
    finding = None if history is None else _finding(history)
    source, options = unwrapped(vocabulary)
    templates = options.get("templates")
    if finding is not None:
        templates = templates or finding.provenance.prompts
    words, called = load_words(source, templates=templates), name_of(source)
    notes: list[str] = []
    if not words.has_text:
        silent = [state for state, texts in words.states.items() if not texts]
        problem = "words are only used if there are two states or more, all with words"
        remedy = f"describe {_quoted(silent) if silent else 'another state'}"
        raise InputError(f"{called}: {problem}; {remedy}")
    if words.examples or words.changes:
        notes.append("the examples of the vocabulary are ignored: only its words are checked")
        words = replace(words, examples=(), changes=())
    record = None if finding is None else finding.history
    model = _encoder(words, called, record, encoder)
    encoded, _ = encode_words(words, model, templates=templates, name=called)
    if record is not None:
        name = history if isinstance(history, str | os.PathLike) else f"history {record.id}"
        with named(f"{os.fspath(name)} with {called}"):
            check_pair(record, encoded)
        if (meaningless := locate(record, encoded).meaningless) is not None:
            notes.append(meaningless)
            record = None  # what the words find there says nothing of them
    descriptions = _descriptions(encoded, record, model, templates)
    pairs = _state_pairs(encoded, record)
    notes += _notes(encoded, descriptions, pairs)
    return WordsReport(
        encoded.encoder, None if record is None else record.id, descriptions, pairs, tuple(notes)
    )


def _finding(history: History | Finding | StrPath) -> Finding:
    finding = saved_finding(history)
    if finding is None:
        problem = "is neither a history (.npz) nor the folder of a finding"
        remedy = "make one from a video with dejacue encode or dejacue find"
        raise InputError(f"{history}: {problem}; {remedy}")
    return finding


def _encoder(
    words: Vocabulary, called: str, history: History | None, encoder: Encoder | str | Lazy | None
) -> Encoder | None:
    """Return the encoder for the words or, if they have features, to say which words it knows."""
    if words.features is None:
        if history is not None:
            return encoder_for(words, history, encoder, called)
        return loaded_encoder(encoder)
    if unwrapped(encoder)[0] is None:
        return None
    model = loaded_encoder(encoder)
    if words.encoder not in (None, model.identity):
        raise InputError(
            f'{called}: was encoded with "{words.encoder}", not with {model.name}; '
            "leave the encoder out, or give the descriptions as .yaml"
        )
    return model


def _rows_by_state(vocabulary: Vocabulary) -> list[Floats]:
    """Return the unit features of each state's descriptions."""
    assert vocabulary.features is not None
    rows = unit_rows(vocabulary.features)
    return [rows[vocabulary.labels == s] for s in range(len(vocabulary.states))]


def _windows(history: History | None, words: Vocabulary, pooling: float) -> dict[str, Window]:
    """Return the window of ``contrast`` by state or, without pooling, by description."""
    if history is None:
        return {}
    timeline = locate(history, words, readout=Contrast(pooling=pooling))
    return {row.description or row.state: row.window for row in timeline}


def _descriptions(
    words: Vocabulary, history: History | None, encoder: Encoder | None, templates: str | None
) -> tuple[DescriptionWords, ...]:
    alone, together = (_windows(history, words, pooling) for pooling in (0, 1))
    longest = FORMS.get(templates or "") or max(FORMS.values(), key=len)
    agreements, descriptions = _agreements(_rows_by_state(words)), []
    for state, text in zip(words.state_names, words.descriptions, strict=True):
        windows = alone.get(text), together.get(state)
        spelling = None if encoder is None else encoder.spelling(text)
        prompt = None if encoder is None else encoder.spelling(longest.format(text))
        if spelling and prompt:  # what the longest prompt has no room for is cut
            spelling = Spelling(spelling.unknown, spelling.in_pieces, prompt.cut)
        descriptions.append(DescriptionWords(state, text, next(agreements), spelling, *windows))
    return tuple(descriptions)


def _agreements(by_state: Sequence[Floats]) -> Iterator[float | None]:
    """Yield the mean cosine of each description's contrast with those of the others."""
    for s, rows in enumerate(by_state):
        others, cosines = [*by_state[:s], *by_state[s + 1 :]], defaultdict(list)
        for a, b in combinations(range(min(len(rows), MAX_COMPARED)), 2):
            if (cosine := _agreement(rows[a], rows[b], others)) is not None:
                cosines[a].append(cosine)
                cosines[b].append(cosine)
        for q in range(len(rows)):
            yield float(np.mean(cosines[q])) if q in cosines else None


def _agreement(first: Floats, second: Floats, others: Sequence[Floats]) -> float | None:
    """Return the cosine of the contrasts of two descriptions; None where one vanishes.

    They never use the same row of another state, as far as it has two: sharing one would make them
    alike.
    """
    if first @ second > SAME:
        return 1.0
    contrasts = np.stack([first, second])
    for rows in others:
        likeness = (rows @ first)[:, None] + rows @ second
        if len(rows) > 1:
            np.fill_diagonal(likeness, -np.inf)
        contrasts -= rows[list(divmod(int(likeness.argmax()), len(rows)))] / len(others)
    return _cosine(*contrasts)


def _cosine(first: Floats, second: Floats) -> float | None:
    norms = float(np.linalg.norm(first)), float(np.linalg.norm(second))
    if min(norms) <= FALLBACK_BELOW:
        return None
    return float(np.clip(first @ second / (norms[0] * norms[1]), -1, 1))


def _state_pairs(vocabulary: Vocabulary, history: History | None) -> tuple[StatePair, ...]:
    """Return the pairs of states, first the most alike."""
    names, windows = list(vocabulary.states), _windows(history, vocabulary, 1)
    means = np.stack([rows.mean(axis=0) for rows in _rows_by_state(vocabulary)])
    directions = means - means.mean(axis=0)
    units = directions / np.maximum(np.linalg.norm(directions, axis=1), FALLBACK_BELOW)[:, None]
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-(units @ units.T)[first, second], kind="stable")[:MAX_PAIRS]
    pairs = []
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        cosine = _cosine(directions[a], directions[b]) if len(names) > 2 else None
        overlap = windows[names[a]].iou(windows[names[b]]) if windows else None
        pairs.append(StatePair(names[a], names[b], _cosine(means[a], means[b]), cosine, overlap))
    return tuple(pairs)


# What a report says in sentences: what to look at, and nothing where nothing is wrong.


def _notes(
    vocabulary: Vocabulary, rows: Sequence[DescriptionWords], pairs: Sequence[StatePair]
) -> Iterator[str]:
    for kind in (_same(vocabulary), _unread(rows), _disagreeing(rows), _alike(pairs), _apart(rows)):
        sentences = list(kind)
        yield from sentences[:MAX_LISTED]
        if len(sentences) > MAX_LISTED:
            yield f"… and {len(sentences) - MAX_LISTED} more like these"
    sizes = {state: len(texts) for state, texts in vocabulary.states.items()}
    if single := [state for state, size in sizes.items() if size == 1]:
        yield (
            f"{_quoted(single)} {'has' if len(single) == 1 else 'have'} only one description, so "
            "there is no way to tell whether the encoder understands it as you mean it; add another"
        )
    if max(sizes.values()) > MAX_COMPARED:
        yield f"of each state, only the first {MAX_COMPARED} descriptions are compared"
    if (count := math.comb(len(sizes), 2)) > len(pairs):
        yield f"of {count:,} pairs of states, the {len(pairs)} most alike are listed"


def _quoted(texts: Iterable[str]) -> str:
    """Return texts in quotes, so few and so short that a sentence stays readable."""
    short = [f'"{shortened(text, MAX_LETTERS)}"' for text in dict.fromkeys(texts)]
    if len(short) > MAX_LISTED:
        short[MAX_LISTED:] = [f"{len(short) - MAX_LISTED} more"]
    *before, last = short
    return f"{', '.join(before)} and {last}" if before else last


def _same(vocabulary: Vocabulary) -> Iterator[str]:
    rows, left = np.concatenate(_rows_by_state(vocabulary)), set(range(len(vocabulary)))
    while left:
        first = min(left)
        same = [
            first,
            *(q for q in np.flatnonzero(rows @ rows[first] > SAME).tolist() if q > first),
        ]
        left -= set(same)
        states = list(dict.fromkeys(vocabulary.state_names[q] for q in same))
        sentence = (
            f"{_quoted(vocabulary.descriptions[q] for q in same)} are the same to the encoder"
        )
        if len(states) > 1:
            yield f"{sentence}, so it cannot tell {_quoted(states)} apart by them; use other words"
        elif len(same) > 1:
            yield f"{sentence}, so one of them is enough"


def _unread(rows: Sequence[DescriptionWords]) -> Iterator[str]:
    spellings = [(row.text, row.spelling) for row in rows if row.spelling is not None]
    if unknown := [word for _, spelling in spellings for word in spelling.unknown]:
        yield f"the encoder does not know {_quoted(unknown)}; use other words"
    if in_pieces := [word for _, spelling in spellings for word in spelling.in_pieces]:
        yield (
            f"the encoder splits {_quoted(in_pieces)} into three or more pieces, so it may not "
            "know them as words; are there more common ones?"
        )
    for text, spelling in spellings:
        if spelling.cut:
            yield f"{_quoted([text])} is too long: {_quoted([spelling.cut])} is cut off; shorten it"


def _disagreeing(rows: Sequence[DescriptionWords]) -> Iterator[str]:
    for state in dict.fromkeys(row.state for row in rows):
        compared = [r for r in rows if r.state == state and r.agreement is not None]
        bad = {r.text: r.agreement for r in compared if r.agreement and round(r.agreement, 2) < 0}
        if bad:
            verb = "disagrees" if len(bad) == 1 else "disagree"
            rest = "each other" if len(bad) == len(compared) else "the others"
            yield (
                f'{_quoted(bad)} {verb} with {rest} about "{state}" (cosine '
                f"{decimal(min(bad.values()))}); phrase all states alike, or leave one out"
            )


def _alike(pairs: Sequence[StatePair]) -> Iterator[str]:
    for pair in pairs:
        both = _quoted((pair.first, pair.second))
        if pair.cosine is not None and pair.cosine > HARD_TO_TELL:
            yield f"{both} look alike to the encoder (cosine {decimal(pair.cosine)})"
        if pair.overlap is not None and pair.overlap >= MOSTLY_SAME:
            yield f"{both} get mostly the same frames (tIoU {decimal(pair.overlap)})"


def _apart(rows: Sequence[DescriptionWords]) -> Iterator[str]:
    for row in rows:
        if row.window and row.state_window and not row.window & row.state_window:
            yield (
                f"{_quoted([row.text])} alone finds {in_frames(*row.window)}, and all descriptions "
                f'of "{row.state}" together {in_frames(*row.state_window)}; see which is right'
            )
