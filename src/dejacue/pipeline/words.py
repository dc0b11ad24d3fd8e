"""check_words: what an encoder makes of the words of a vocabulary, alone and on a history."""

from __future__ import annotations

import os
from dataclasses import replace

from dejacue.errors import InputError, StrPath, named
from dejacue.method.coordinates import check_pair
from dejacue.method.wording import left_out, only_words, words_report
from dejacue.pipeline._encode import mini_warning
from dejacue.pipeline._find import saved_finding
from dejacue.pipeline._readout import LoadedVocabulary, VocabularySource
from dejacue.pipeline.finding import Finding
from dejacue.pipeline.job import EncoderOptions
from dejacue.records import History, Vocabulary
from dejacue.records.note import in_order
from dejacue.records.words import Spelling, WordsReport
from dejacue.sources.encoders import FORMS, Encoder, HasOrigin


def check_words(
    vocabulary: VocabularySource,
    history: History | Finding | StrPath | None = None,
    *,
    encoder: Encoder | str | None = None,
    encoder_options: EncoderOptions | None = None,
) -> WordsReport:
    """Report which descriptions disagree, which states the encoder cannot tell apart, which words
    it does not know, and what each description adds.

    vocabulary   a path, {state: descriptions}, or a Vocabulary; its examples are left out
    history      also look at what the words find on it: a History, its file, a Finding, its folder
    encoder      default: that of the history, or siglip2; words with features (.npz) need none, but
                 only an encoder says which words it knows
    """
    finding = None if history is None else _finding(history)
    templates = finding.provenance.prompts if finding is not None else None
    words = LoadedVocabulary.load(
        vocabulary, encoder_options or EncoderOptions(templates=templates)
    )
    with words.place:
        spoken = replace(words, vocabulary=only_words(words.vocabulary))
    record = None if finding is None else finding.history
    model = _encoder(spoken, record, encoder)
    encoded, _ = spoken.encoded(model)
    if record is not None:
        name = f"history {record.id}"
        if isinstance(history, str | os.PathLike):
            name = os.fspath(history)
        with named(f"{name} with {words.name}"):
            check_pair(record, encoded)
    report = words_report(encoded, record, _spellings(encoded, model, spoken.options.templates))
    return replace(report, notes=in_order((*left_out(words.vocabulary), *report.notes)))


def encoded_words(
    vocabulary: VocabularySource,
    history: HasOrigin,
    encoder: Encoder | str | None = None,
    options: EncoderOptions | None = None,
) -> tuple[Vocabulary, tuple[str, ...]]:
    """Return the vocabulary with features of the encoder of a history, and warnings."""
    words = LoadedVocabulary.load(vocabulary, options or EncoderOptions())
    encoded, warnings = words.encoded(words.encoder_for(history, encoder))
    return encoded, (*mini_warning(history.encoder), *warnings)


def _finding(history: History | Finding | StrPath) -> Finding:
    finding = saved_finding(history)
    if finding is None:
        problem = "is neither a history (.npz) nor the folder of a finding"
        remedy = "make one from a video with dejacue encode or dejacue find"
        raise InputError(f"{history}: {problem}; {remedy}")
    return finding


def _encoder(
    words: LoadedVocabulary, history: History | None, encoder: Encoder | str | None
) -> Encoder | None:
    """Return the encoder for the words or, if they have features, to say which words it knows."""
    if words.vocabulary.features is None:
        if history is not None:
            return words.encoder_for(history, encoder)
        return words.options.load(encoder)
    if encoder is None:
        return None
    model = words.options.load(encoder)
    if words.vocabulary.encoder not in (None, model.identity):
        raise InputError(
            f'{words.name}: was encoded with "{words.vocabulary.encoder}", not with {model.name}; '
            "leave the encoder out, or give the descriptions as .yaml"
        )
    return model


def _spellings(
    vocabulary: Vocabulary, encoder: Encoder | None, templates: str | None
) -> list[Spelling | None]:
    """Return the spelling of each description; what its longest prompt has no room for is cut."""
    longest = FORMS.get(templates or "") or max(FORMS.values(), key=len)
    spellings: list[Spelling | None] = []
    for text in vocabulary.descriptions:
        spelling = encoder and encoder.spelling(text)
        prompt = encoder and encoder.spelling(longest.format(text))
        spellings.append(replace(spelling, cut=prompt.cut) if spelling and prompt else None)
    return spellings
