"""read: a history and words → a Reading, with the names of their files in what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.errors import InputError
from dejacue.method.confidence import content_words
from dejacue.method.coordinates import check_pair
from dejacue.pipeline.options import EncoderOptions, ReadOptions
from dejacue.records import History, Reading, Vocabulary
from dejacue.sources.documents import named
from dejacue.sources.encoders import Encoder, encode_vocabulary, encoder_name
from dejacue.sources.files import read_vocabulary

Given = Vocabulary | Mapping[str, Any] | str | os.PathLike[str]
UNKNOWN_WORDS = "words that mini does not know: "


@dataclass(frozen=True, eq=False)
class Words:
    """A vocabulary as it is given: perhaps words only, which an encoder has to encode."""

    vocabulary: Vocabulary
    name: str
    options: EncoderOptions

    @classmethod
    def of(cls, given: Given, options: EncoderOptions) -> Words:
        if isinstance(given, Vocabulary):
            return cls(given, "the vocabulary", options)
        if isinstance(given, Mapping):
            return cls(Vocabulary.from_dict(given), "the vocabulary", options)
        if not isinstance(given, str | os.PathLike):
            raise InputError(
                f"vocabulary {given!r:.40}: give a path, {{state: descriptions}} or a Vocabulary"
            )
        prompts = options.prompts if Path(given).suffix.lower() == ".npz" else None
        return cls(read_vocabulary(given, prompts=prompts), os.fspath(given), options)

    def encoder_for(
        self, history: History, encoder: Encoder | str | None, reading: ReadOptions
    ) -> Encoder | None:
        """The one that goes with a history that is there already; None where none is needed: of
        words with features, only p-values need one, which must be named."""
        if self.vocabulary.features is None:
            if encoder in ("mini", "siglip2") and history.encoder is not None:
                made_with = encoder_name(history)
                if encoder != made_with:
                    raise InputError(
                        f"history {history.id} was made with {made_with}, not with {encoder}; "
                        "leave the encoder out, or encode the video again"
                    )
            with named(self.name):
                return self.options.load(encoder or encoder_name(history))
        if encoder is None or reading.absent_at is None:
            return None
        return self.options.load(encoder)

    def encoded(self, encoder: Encoder | None) -> tuple[Vocabulary, tuple[str, ...]]:
        """The vocabulary with features, and warnings."""
        if self.vocabulary.features is not None or encoder is None:
            return self.vocabulary, ()
        said: list[str] = []
        if encoder.name == "mini":
            said = self._unknown_words(encoder.words)  # type: ignore[attr-defined]
        prompts = self.options.prompts or "ensemble"
        return encode_vocabulary(self.vocabulary, encoder, prompts=prompts), tuple(said)

    def _unknown_words(self, tokenizer: Any) -> list[str]:
        """A warning about words that mini does not know; refused where it knows none but such as
        "the" and "with"."""
        texts = self.vocabulary.descriptions
        if content_words(texts).isdisjoint(tokenizer.known):
            raise InputError(
                f"{self.name}: mini knows none of its words, so that whatever it finds means "
                "nothing; describe the states in other words, or use --encoder siglip2"
            )
        strange = dict.fromkeys(w for text in texts for w in tokenizer.unknown_words(text))
        return [UNKNOWN_WORDS + ", ".join(strange)] if strange else []

    def unrelated(self, encoder: Encoder | None, reading: ReadOptions) -> list[Vocabulary]:
        """What p-values compare with; nothing where none are asked for."""
        if reading.absent_at is None:
            return []
        if encoder is None:
            raise InputError(
                f"{self.name}: absent_at compares with other words, which need an encoder; give "
                "the descriptions as .yaml or .json"
            )
        from dejacue.data.unrelated import unrelated_vocabularies

        return unrelated_vocabularies(encoder, self.options.prompts or "ensemble")


def read(
    history: History,
    vocabulary: Vocabulary,
    options: ReadOptions | None = None,
    *,
    unrelated: Sequence[Vocabulary] = (),
    names: tuple[str, str] | None = None,
) -> Reading:
    """All that a readout says.

    unrelated   other vocabularies, which p-values compare with
    names       of the files, for what goes wrong
    """
    source, words = names or (f"history {history.id}", "the vocabulary")
    with named(f"{source} with {words}"):
        check_pair(history, vocabulary)
    with named(source):
        return (options or ReadOptions()).read(history, vocabulary, unrelated)
