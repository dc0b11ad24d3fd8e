"""apply_readout: a history and words → a Timeline; errors name the files of both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, StrPath, in_file, named
from dejacue.files.histories import by_file, read_vocabulary
from dejacue.finding.examples import resolved, unseen
from dejacue.finding.job import EncoderOptions
from dejacue.method.coordinates import check_pair
from dejacue.method.localization import analyse
from dejacue.method.plan import ReadOptions
from dejacue.method.teaching import Confirmed, taught
from dejacue.models.encoders import (
    ENCODERS,
    SAME_ROWS,
    UNKNOWN_WORDS,
    Encoder,
    HasOrigin,
    encoder_name,
)
from dejacue.models.encoders.base import encode_vocabulary
from dejacue.records import History, Note, Timeline, Vocabulary
from dejacue.records.example import NONE, examples_of

Examples = Mapping[str | None, Any]
VocabularySource = Vocabulary | Mapping[str, Any] | Sequence[str] | StrPath


@dataclass(frozen=True, eq=False)
class MoreExamples:
    """Examples and changes that are given beside a vocabulary, in frames of the file; teachers,
    other findings that show its states; and whether every frame shows one of them."""

    examples: Examples | None = None
    changes: Sequence[int | str] = ()
    like: Sequence[Confirmed] = ()
    exhaustive: bool = False

    @property
    def shows_states(self) -> bool:
        return bool(self.examples or self.changes or self.like)

    def added_to(self, vocabulary: Vocabulary) -> Vocabulary:
        if self.exhaustive:
            vocabulary = replace(vocabulary, exhaustive=True)
        if not self.examples and not self.changes:
            return vocabulary
        bare = Vocabulary(vocabulary.states, examples=vocabulary.examples)
        additions = by_file(bare.with_examples(self.examples, changes=self.changes))
        return replace(
            vocabulary,
            examples=(*vocabulary.examples, *additions.examples[len(vocabulary.examples) :]),
            changes=(*vocabulary.changes, *additions.changes),
        )

    def as_vocabulary(self) -> Vocabulary:
        """Return a vocabulary without words."""
        if self.like:
            return self.added_to(taught(None, self.like))
        examples = self.examples or {}
        states = [state for state in examples if state not in (None, NONE)]
        if not states:
            raise InputError("give a vocabulary, examples of a state, or a finding to learn from")
        vocabulary = Vocabulary(
            dict.fromkeys(states, ()),
            examples=examples_of(examples),
            changes=examples_of({None: tuple(self.changes)}),
            exhaustive=self.exhaustive,
        )
        return by_file(vocabulary)


@dataclass(frozen=True, eq=False)
class LoadedVocabulary:
    """A vocabulary, perhaps of words only, which an encoder has to encode.

    place   prepends the name of its file to errors
    like    teachers that show its states; they are applied after its words are encoded
    """

    vocabulary: Vocabulary
    place: named
    options: EncoderOptions
    like: Sequence[Confirmed] = ()

    @property
    def name(self) -> str:
        return self.place.name

    @classmethod
    def load(
        cls,
        source: VocabularySource | None,
        options: EncoderOptions,
        examples: MoreExamples | None = None,
    ) -> LoadedVocabulary:
        """Read or convert a vocabulary and add examples to it.

        Plain numbers in examples are frames of the file, unless a Vocabulary holds them.
        """
        examples = examples or MoreExamples()
        place = named("the vocabulary")
        if source is None:
            return cls(examples.as_vocabulary(), place, options)
        if isinstance(source, Vocabulary):
            vocabulary = source
        elif isinstance(source, str | os.PathLike):
            templates = options.templates if Path(source).suffix.lower() == ".npz" else None
            place = in_file(source)
            vocabulary = read_vocabulary(source, templates=templates)
        else:
            vocabulary = by_file(Vocabulary.from_dict(source))
        return cls(examples.added_to(vocabulary), place, options, examples.like)

    def encoder_for(self, history: HasOrigin, encoder: Encoder | str | None) -> Encoder | None:
        """Return the encoder that goes with an existing history; None: none is needed."""
        if (self.vocabulary.features is None and self.vocabulary.has_text) or unseen(
            self.vocabulary
        ):
            if encoder in ENCODERS and history.encoder is not None:
                made_with = encoder_name(history)
                same = made_with, *SAME_ROWS.get(made_with, ())
                if encoder not in same and f"{encoder}:{self.options.precision}" != made_with:
                    problem = f"history {history.id} was made with {made_with}, not with {encoder}"
                    raise InputError(f"{problem}; leave the encoder out, or encode the video again")
            with self.place:
                return self.options.load(encoder or encoder_name(history))
        return None

    def encoded(
        self, encoder: Encoder | None, video: str | None = None
    ) -> tuple[Vocabulary, tuple[Note, ...]]:
        """Return the vocabulary with features of words and examples, and warnings.

        video   whose states are located: examples may be frames of it
        """
        with self.place:
            vocabulary = resolved(self.vocabulary, lambda: encoder, video)
        has_text = encoder is not None and encoder.has_text and vocabulary.has_text
        if self.like and vocabulary.features is None and not has_text:
            return self._encoded(taught(vocabulary, self.like), encoder)
        vocabulary, warnings = self._encoded(vocabulary, encoder)
        return (taught(vocabulary, self.like) if self.like else vocabulary), warnings

    def _encoded(
        self, vocabulary: Vocabulary, encoder: Encoder | None
    ) -> tuple[Vocabulary, tuple[Note, ...]]:
        with self.place:
            if vocabulary.features is not None or encoder is None:
                return vocabulary, ()
            warnings: tuple[Note, ...] = ()
            if not vocabulary.has_text or not encoder.has_text:
                problem = "not every state has words"
                if all(vocabulary.states.values()):
                    problem = "words of one state have nothing to differ from"
                if not encoder.has_text:
                    problem = f"{encoder.name} has no words"
                if any(vocabulary.states.values()):
                    text = f"{problem}, so only the examples define the states"
                    warnings = (Note(text, "information"),)
            elif strange := encoder.unknown_words(vocabulary.descriptions):
                warnings = (Note(f"{UNKNOWN_WORDS}{', '.join(strange)}", "doubtful"),)
        templates = self.options.templates or "ensemble"
        return encode_vocabulary(vocabulary, encoder, templates=templates), warnings


def encoded_words(
    vocabulary: VocabularySource,
    history: HasOrigin,
    encoder: Encoder | str | None = None,
    options: EncoderOptions | None = None,
) -> tuple[Vocabulary, tuple[Note, ...]]:
    """Return the vocabulary with features of the encoder of a history, and warnings."""
    words = LoadedVocabulary.load(vocabulary, options or EncoderOptions())
    return words.encoded(words.encoder_for(history, encoder))


def apply_readout(
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
        return analyse(history, vocabulary, **(options or {}))
