"""check_words: what an encoder makes of the words of a vocabulary, alone and on a history."""

from __future__ import annotations

import os
from dataclasses import replace

from dejacue.errors import InputError
from dejacue.method._wording_notes import left_out
from dejacue.method.coordinates import check_pair
from dejacue.method.wording import only_words, words_report
from dejacue.pipeline._encode import mini_warning
from dejacue.pipeline._find import saved_finding
from dejacue.pipeline._read import Given, Words
from dejacue.pipeline.finding import Finding
from dejacue.pipeline.job import Place
from dejacue.pipeline.options import EncoderOptions
from dejacue.records import History, Vocabulary
from dejacue.records.words import Spelling, WordsReport
from dejacue.sources.documents import named
from dejacue.sources.encoders import FORMS, Encoder, HasOrigin


def check_words(
    vocabulary: Given,
    history: History | Finding | Place | None = None,
    encoder: Encoder | str | None = None,
    *,
    encoder_options: EncoderOptions | None = None,
) -> WordsReport:
    """Which descriptions disagree, which states the encoder cannot tell apart, which words it does
    not know, and what each description adds.

    vocabulary   a path, {state: descriptions}, or a Vocabulary; its examples are left out
    history      also look at what the words find on it: a History, its file, a Finding, its folder
    encoder      default: that of the history, or siglip2; words with features (.npz) need none, but
                 only an encoder says which words it knows
    """
    found = None if history is None else _opened(history)
    prompts = found.made.prompts if found is not None else None
    words = Words.of(vocabulary, encoder_options or EncoderOptions(prompts=prompts))
    with named(words.name):
        spoken = replace(words, vocabulary=only_words(words.vocabulary))
    own = None if found is None else found.history
    model = _encoder(spoken, own, encoder)
    described, _ = spoken.encoded(model)
    source = os.fspath(history) if isinstance(history, str | os.PathLike) else None
    if own is not None:
        with named(f"{source or f'history {own.id}'} with {words.name}"):
            check_pair(own, described)
    report = words_report(described, own, _spellings(described, model, spoken.options.prompts))
    return replace(report, notes=(*left_out(words.vocabulary), *report.notes))


def encoded_words(
    vocabulary: Given,
    history: HasOrigin,
    encoder: Encoder | str | None = None,
    options: EncoderOptions | None = None,
) -> tuple[Vocabulary, tuple[str, ...]]:
    """The vocabulary with features of the encoder that made this history, and warnings."""
    words = Words.of(vocabulary, options or EncoderOptions())
    described, said = words.encoded(words.encoder_for(history, encoder))
    return described, (*mini_warning(history.encoder), *said)


def _opened(history: History | Finding | Place) -> Finding:
    found = saved_finding(history)
    if found is None:
        raise InputError(
            f"{history}: is neither a history (.npz) nor the folder of a finding; make one from a "
            "video with dejacue encode or dejacue find"
        )
    return found


def _encoder(
    words: Words, history: History | None, encoder: Encoder | str | None
) -> Encoder | None:
    """The one that encodes the words or, where they have features, says which of them it knows."""
    if words.vocabulary.features is None:
        if history is not None:
            return words.encoder_for(history, encoder)
        return words.options.load(encoder)
    if encoder is None:
        return None
    found = words.options.load(encoder)
    if words.vocabulary.encoder not in (None, found.identity):
        raise InputError(
            f'{words.name}: was encoded with "{words.vocabulary.encoder}", not with {found.name}; '
            "leave the encoder out, or give the descriptions as .yaml"
        )
    return found


def _spellings(
    vocabulary: Vocabulary, encoder: Encoder | None, prompts: str | None
) -> list[Spelling | None]:
    """Of each description; cut off is what the longest form of the prompts leaves no room for."""
    longest = FORMS.get(prompts or "") or max(FORMS.values(), key=len)
    found: list[Spelling | None] = []
    for text in vocabulary.descriptions:
        own = encoder and encoder.spelling(text)
        whole = encoder and encoder.spelling(longest.format(text))
        found.append(replace(own, cut=whole.cut) if own and whole else None)
    return found
