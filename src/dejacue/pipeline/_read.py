"""read: a history and words → a Timeline, with the names of their files in what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, named
from dejacue.method.coordinates import Coordinates, check_pair
from dejacue.method.locate import analyse
from dejacue.method.plan import Plan
from dejacue.method.readout import Readout
from dejacue.pipeline.job import EncoderOptions
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.example import NONE, examples_of
from dejacue.sources.encoders import (
    ENCODERS,
    SAME_ROWS,
    UNKNOWN_WORDS,
    Encoder,
    HasOrigin,
    encoder_name,
)
from dejacue.sources.encoders.base import encode_vocabulary
from dejacue.sources.examples import resolved, unseen
from dejacue.sources.files import by_file, read_vocabulary

Examples = Mapping[str | None, Any]
VocabularySource = Vocabulary | Mapping[str, Any] | str | os.PathLike[str]


@dataclass(frozen=True)
class ReadOptions:
    """How a history is read: the options of dejacue.method.locate.analyse."""

    readout: str | Readout = "contrast"
    coordinates: str | Coordinates | None = None
    smoothing: int | None = None
    top: int | None = None
    diagnostics: bool = False
    engine: str = "auto"

    def check(self) -> None:
        """Refuse options that do not fit each other, before anything is opened."""
        Plan.of(**vars(self))


@dataclass(frozen=True, eq=False)
class MoreExamples:
    """Examples and changes that are given beside a vocabulary, in frames of the file."""

    examples: Examples | None = None
    changes: Sequence[int | str] = ()

    def added(self, vocabulary: Vocabulary) -> Vocabulary:
        if not self.examples and not self.changes:
            return vocabulary
        bare = Vocabulary(vocabulary.states, examples=vocabulary.examples)
        more = by_file(bare.with_examples(self.examples, changes=self.changes))
        return replace(
            vocabulary,
            examples=(*vocabulary.examples, *more.examples[len(vocabulary.examples) :]),
            changes=(*vocabulary.changes, *more.changes),
        )

    def alone(self) -> Vocabulary:
        """Return a vocabulary without words."""
        states = [state for state in self.examples or {} if state not in (None, NONE)]
        if len(states) < 2:
            raise InputError("give a vocabulary, or examples of at least two states")
        vocabulary = Vocabulary(
            dict.fromkeys(states, ()),
            examples=examples_of(self.examples or {}),
            changes=examples_of({None: tuple(self.changes)}),
        )
        return by_file(vocabulary)


@dataclass(frozen=True, eq=False)
class Words:
    """A vocabulary as it is given: perhaps words only, which an encoder has to encode."""

    vocabulary: Vocabulary
    name: str
    options: EncoderOptions

    @classmethod
    def of(
        cls,
        source: VocabularySource | None,
        options: EncoderOptions,
        more: MoreExamples | None = None,
    ) -> Words:
        """Return the vocabulary that is given; plain frames of examples are those of the file,
        unless a Vocabulary holds them."""
        more = more or MoreExamples()
        name = "the vocabulary"
        if source is None:
            vocabulary = more.alone()
        elif isinstance(source, Vocabulary):
            vocabulary = more.added(source)
        elif isinstance(source, Mapping):
            vocabulary = more.added(by_file(Vocabulary.from_dict(source)))
        elif not isinstance(source, str | os.PathLike):
            raise InputError(
                f"vocabulary {source!r:.40}: give a path, {{state: descriptions}} or a Vocabulary"
            )
        else:
            prompts = options.prompts if Path(source).suffix.lower() == ".npz" else None
            name = os.fspath(source)
            vocabulary = more.added(read_vocabulary(source, prompts=prompts))
        return cls(vocabulary, name, options)

    def encoder_for(self, history: HasOrigin, encoder: Encoder | str | None) -> Encoder | None:
        """Return the encoder that goes with an existing history; None: none is needed."""
        if (self.vocabulary.features is None and self.vocabulary.spoken) or unseen(self.vocabulary):
            if encoder in ENCODERS and history.encoder is not None:
                made_with = encoder_name(history)
                same = made_with, *SAME_ROWS.get(made_with, ())
                if encoder not in same and f"{encoder}:{self.options.precision}" != made_with:
                    raise InputError(
                        f"history {history.id} was made with {made_with}, not with {encoder}; "
                        "leave the encoder out, or encode the video again"
                    )
            with named(self.name):
                return self.options.load(encoder or encoder_name(history))
        return None

    def encoded(
        self, encoder: Encoder | None, video: str | None = None
    ) -> tuple[Vocabulary, tuple[str, ...]]:
        """Return the vocabulary with features of words and examples, and warnings.

        video   the one that is read: examples may be frames of it
        """
        with named(self.name):
            vocabulary = resolved(self.vocabulary, lambda: encoder, video)
        if vocabulary.features is not None or encoder is None:
            return vocabulary, ()
        warnings: list[str] = []
        if not encoder.has_text and any(vocabulary.states.values()):
            warnings.append(f"{encoder.name} has no words, so only the examples define the states")
        elif not vocabulary.spoken and any(vocabulary.states.values()):
            warnings.append("not every state has words, so only the examples define the states")
        elif vocabulary.spoken:
            with named(self.name):
                strange = encoder.unknown_words(vocabulary.descriptions)
            warnings += [f"{UNKNOWN_WORDS}{', '.join(strange)}"] if strange else []
        prompts = self.options.prompts or "ensemble"
        return encode_vocabulary(vocabulary, encoder, prompts=prompts), tuple(warnings)


def read(
    history: History,
    vocabulary: Vocabulary,
    options: ReadOptions | None = None,
    *,
    names: tuple[str, str] | None = None,
) -> Timeline:
    """Return the timeline; ``names`` are those of the two files, for error messages."""
    source, words = names or (f"history {history.id}", "the vocabulary")
    with named(f"{source} with {words}"):
        check_pair(history, vocabulary)
    with named(source):
        return analyse(history, vocabulary, **vars(options or ReadOptions()))
