"""What a WordsReport says in sentences: what to look at, and nothing where nothing is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dejacue.method._reading import in_frames
from dejacue.method._reading import quoted as quoted_whole
from dejacue.records import Vocabulary
from dejacue.records.words import WordsReport, decimal

MOST = 5  # of a kind of sentence, and of descriptions in one
LETTERS = 60  # of a description in a sentence
SHARED = 0.5  # tIoU of windows that are mostly the same frames
CLOSE = 0.5  # cosine of directions, or correlation of evidence, that are hardly told apart


def quoted(texts: Iterable[str]) -> str:
    """In quotes, so many and so long that a sentence stays one."""
    every = [text if len(text) <= LETTERS else f"{text[:LETTERS]}…" for text in texts]
    if len(every) <= MOST:
        return quoted_whole(every)
    shown = ", ".join(f'"{text}"' for text in every[:MOST])
    return f"{shown} and {len(every) - MOST} more"


def left_out(given: Vocabulary) -> Iterator[str]:
    """What of a vocabulary is not looked at."""
    if given.examples or given.changes:
        yield "the examples of the vocabulary are ignored: this check covers only its words"
    yield from _limited(_repeated(given))


def notes_of(
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
    yield from sentences[:MOST]
    if sentences[MOST:]:
        yield f"… and {len(sentences) - MOST} more like these"


def _repeated(given: Vocabulary) -> list[str]:
    counts = Counter(zip(given.state_names, given.descriptions, strict=True))
    return [
        f'{quoted([text])} appears {times} times in "{state}"; it counts once'
        for (state, text), times in counts.items()
        if times > 1
    ]


def _same(words: Vocabulary, alike: Sequence[tuple[int, int]]) -> list[str]:
    found = []
    for a, b in alike:
        states = words.state_names[a], words.state_names[b]
        both = quoted((words.descriptions[a], words.descriptions[b]))
        if states[0] == states[1]:
            found.append(f'{both} ("{states[0]}") are the same to the encoder; one is enough')
        else:
            found.append(
                f"{both} are the same to the encoder, so it cannot tell {quoted(states)} apart by "
                "them; choose other words"
            )
    return found


def _unread(report: WordsReport) -> Iterator[str]:
    for own in report.descriptions:
        spelling = own.spelling
        if spelling is None:
            continue
        if spelling.unknown:
            yield f"{quoted([own.text])}: the encoder does not know {quoted(spelling.unknown)}"
        if spelling.in_pieces:
            yield (
                f"{quoted([own.text])}: the encoder splits {quoted(spelling.in_pieces)} into "
                "three or more pieces, so it may not know it as one word; is there a more common "
                "one?"
            )
        if spelling.cut:
            cut = quoted([spelling.cut])
            yield f"{quoted([own.text])} is too long: {cut} is cut off; shorten it"


def _disagreeing(report: WordsReport) -> Iterator[str]:
    for own in report.pairs:
        if own.cosine is not None and own.cosine < 0:
            seen = f'{quoted((own.first, own.second))} disagree about "{own.state}"'
            yield f"{seen} (cosine {decimal(own.cosine)})"
        elif own.correlation is not None and own.correlation < 0:
            seen = f'{quoted((own.first, own.second))} disagree about "{own.state}"'
            yield f"{seen} on this history (correlation {decimal(own.correlation)})"


def _hanging(report: WordsReport) -> Iterator[str]:
    """States whose window is another one as soon as a description is left out."""
    for state in report.states:
        texts = [
            own.text
            for own in report.descriptions
            if own.state == state.state and own.without is not None and own.without < SHARED
        ]
        if texts and state.window is not None:
            each = "each of " if len(texts) > 1 else ""
            yield (
                f'the window of "{state.state}", {in_frames(*state.window)}, depends on '
                f"{each}{quoted(texts)}: without it, another window is found (tIoU below {SHARED})"
            )


def _confused(report: WordsReport) -> Iterator[str]:
    for own in report.state_pairs:
        both = quoted((own.first, own.second))
        several = len(report.states) > 2  # of two states, the pairs of descriptions say it
        if several and own.agreement is not None and own.agreement < 0:
            yield (
                f"the descriptions of {both} disagree on the difference between the two (cosine "
                f"{decimal(own.agreement)})"
            )
        if own.correlation is not None and own.correlation > CLOSE:
            yield (
                f"{both} are hard to tell apart on this history: their evidence rises and falls "
                f"together (correlation {decimal(own.correlation)})"
            )
        elif own.cosine is not None and own.cosine > CLOSE:
            yield f"{both} point the same way (cosine {decimal(own.cosine)})"
        if own.overlap is not None and own.overlap >= SHARED:
            same = "the same frames" if own.overlap == 1 else "mostly the same frames"
            yield f"{both} get {same} of this history (tIoU {decimal(own.overlap)})"
