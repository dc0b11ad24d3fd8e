"""From a history and words to a Timeline.

load_words     a file, {state: descriptions}, examples → Vocabulary, perhaps without features
encode_words   a vocabulary and an encoder → Vocabulary with features, and notes
read           a history and a vocabulary → Timeline
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from dejacue.errors import InputError, StrPath, named
from dejacue.files.histories import by_file, read_vocabulary
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
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
from dejacue.records.note import in_order

Examples = Mapping[str | None, Any]
VocabularySource = Vocabulary | Mapping[str, Any] | Sequence[str] | StrPath


def name_of(words: Any) -> str:
    """Return what errors call a vocabulary: its file, where it has one."""
    return os.fspath(words) if isinstance(words, str | os.PathLike) else "the vocabulary"


def load_words(
    source: VocabularySource | None,
    *,
    examples: Examples | None = None,
    changes: Sequence[int | str] = (),
    like: Sequence[Confirmed] = (),
    exhaustive: bool = False,
    templates: str | None = None,
) -> Vocabulary:
    """Read or convert a vocabulary and add what shows its states beside the words; without a
    source, that alone.

    examples, changes   in frames of the file
    like                teachers; they are applied after words are encoded (``encode_words``), or
                        here where there are none
    exhaustive          whether every frame shows one of the states
    templates           which features of an .npz that has several
    """
    if source is not None:
        if isinstance(source, Vocabulary):
            vocabulary = source
        elif isinstance(source, str | os.PathLike):
            of_file = Path(source).suffix.lower() == ".npz"
            vocabulary = read_vocabulary(source, templates=templates if of_file else None)
        else:
            vocabulary = by_file(Vocabulary.from_dict(source))
    elif like:
        vocabulary = taught(None, like)
    else:
        states = [state for state in examples or () if state not in (None, NONE)]
        if not states:
            raise InputError("give a vocabulary, examples of a state, or a finding to learn from")
        shown, ends = examples_of(examples or {}), examples_of({None: list(changes)})
        words = dict.fromkeys(states, ())
        return by_file(Vocabulary(words, examples=shown, changes=ends, exhaustive=exhaustive))
    if exhaustive:
        vocabulary = replace(vocabulary, exhaustive=True)
    if not examples and not changes:
        return vocabulary
    bare = Vocabulary(vocabulary.states, examples=vocabulary.examples)
    additions = by_file(bare.with_examples(examples, changes=changes))
    return replace(
        vocabulary,
        examples=(*vocabulary.examples, *additions.examples[len(vocabulary.examples) :]),
        changes=(*vocabulary.changes, *additions.changes),
    )


def unseen(vocabulary: Vocabulary) -> bool:
    """Return whether some example has still to be looked up."""
    return any(example.features is None for example in vocabulary.external_examples)


def encoder_for(
    vocabulary: Vocabulary,
    history: HasOrigin,
    encoder: Encoder | str | Lazy | None = None,
    name: str = "the vocabulary",
) -> Encoder | None:
    """Return the encoder that goes with an existing history; None: none is needed."""
    if (vocabulary.features is not None or not vocabulary.has_text) and not unseen(vocabulary):
        return None
    chosen, options = unwrapped(encoder)
    if chosen in ENCODERS and history.encoder is not None:
        made_with = encoder_name(history)
        same = made_with, *SAME_ROWS.get(made_with, ())
        if chosen not in same and f"{chosen}:{options.get('precision')}" != made_with:
            problem = f"history {history.id} was made with {made_with}, not with {chosen}"
            raise InputError(f"{problem}; leave the encoder out, or encode the video again")
    with named(name):
        return loaded_encoder(Lazy(chosen or encoder_name(history), options))


def encode_words(
    vocabulary: Vocabulary,
    encoder: Encoder | None,
    *,
    like: Sequence[Confirmed] = (),
    templates: str | None = None,
    name: str = "the vocabulary",
    video: str | None = None,
) -> tuple[Vocabulary, tuple[Note, ...]]:
    """Return the vocabulary with features of its words and examples, and notes.

    encoder     None: there is nothing to encode
    like        teachers that show its states
    templates   how descriptions are phrased (``encode_vocabulary``; None: ensemble)
    name        of the vocabulary, for errors
    video       whose states are looked for: examples may be frames of it
    """
    if unseen(vocabulary):
        from dejacue.finding.examples import resolved

        with named(name):
            vocabulary = resolved(vocabulary, encoder, video)
    has_text = encoder is not None and encoder.has_text and vocabulary.has_text
    shown = bool(like) and vocabulary.features is None and not has_text
    if shown:
        vocabulary = taught(vocabulary, like)
    notes: tuple[Note, ...] = ()
    if vocabulary.features is None and encoder is not None:
        with named(name):
            notes = _notes(vocabulary, encoder)
        vocabulary = encode_vocabulary(vocabulary, encoder, templates=templates or "ensemble")
    return (taught(vocabulary, like) if like and not shown else vocabulary), notes


def _notes(vocabulary: Vocabulary, encoder: Encoder) -> tuple[Note, ...]:
    """Return which words say nothing to the encoder; refuse descriptions that hold no others."""
    if vocabulary.has_text and encoder.has_text:
        strange = encoder.unknown_words(vocabulary.descriptions)
        return (Note(f"{UNKNOWN_WORDS}{', '.join(strange)}", "doubtful"),) if strange else ()
    problem = "not every state has words"
    if all(vocabulary.states.values()):
        problem = "words of one state have nothing to differ from"
    if not encoder.has_text:
        problem = f"{encoder.name} has no words"
    text = f"{problem}, so only the examples define the states"
    return (Note(text, "information"),) if any(vocabulary.states.values()) else ()


def encoded_words(
    words: VocabularySource,
    history: HasOrigin,
    encoder: Encoder | str | Lazy | None = None,
    templates: str | None = None,
) -> tuple[Vocabulary, tuple[Note, ...]]:
    """Return the vocabulary with features of the encoder of a history, and notes."""
    vocabulary, name = load_words(words, templates=templates), name_of(words)
    model = encoder_for(vocabulary, history, encoder, name)
    return encode_words(vocabulary, model, templates=templates, name=name)


def read(
    history: History,
    vocabulary: VocabularySource,
    *,
    encoder: Encoder | str | Lazy | None = None,
    names: tuple[str, str] | None = None,
    **options: Unpack[ReadOptions],
) -> Timeline:
    """Return the timeline of a history: every occurrence of every state, with its evidence and how
    far to trust it.

    vocabulary   a Vocabulary, {state: descriptions}, or a path
    encoder      of words (default: the one that the history was made with)
    names        of history and vocabulary, for errors
    options      readout, coordinates, smoothing, diagnostics, kernel: those of ``locate``

    >>> from dejacue import encode, locate_object
    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> masks = locate_object(scene / "scene.mp4", masks=scene / "Annotations", objects=1)
    >>> history = encode(scene / "scene.mp4", masks, "mini")["scene"]
    >>> timeline = read(history, scene / "vocabulary.yaml")
    >>> [interval.state for interval in timeline]
    ['full', 'half full', 'empty']
    """
    source, words = names or (f"history {history.id}", name_of(vocabulary))
    notes: tuple[Note, ...] = ()
    if not isinstance(vocabulary, Vocabulary) or vocabulary.encoder is None:
        vocabulary, notes = encoded_words(vocabulary, history, encoder)
    with named(f"{source} with {words}"):
        check_pair(history, vocabulary)
    with named(source):
        timeline = analyse(history, vocabulary, **options)
    return timeline.replace(notes=in_order((*notes, *timeline.notes))) if notes else timeline
