"""From a history and words to a Timeline.

load_words     a file, {state: descriptions}, examples → Vocabulary, perhaps without features
encode_words   a vocabulary and an encoder → Vocabulary with features, and notes
read           a history and a vocabulary → Timeline

Examples from elsewhere are pictures, frames of other videos, frames of other histories:

cup.jpg                    a picture of the object
kitchen.mp4@120            a frame of a video: of the one that is read, a frame of its history;
                           of another one, the whole picture
kitchen.history.npz@120    a frame of a history, or of the folder of a finding
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from dejacue.errors import InputError, StrPath, named
from dejacue.files.histories import by_file, is_there, read_history, read_vocabulary
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
from dejacue.method.coordinates import check_pair
from dejacue.method.localization import Plan, ReadOptions
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
from dejacue.records import Example, History, Note, Timeline, Vocabulary
from dejacue.records.vocabulary import NONE, examples_of, from_history
from dejacue.video._sampling import Unreadable
from dejacue.video.images import is_image, read_rgb
from dejacue.video.video import open_video

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
        plan = Plan.of(**options)
        timeline = plan.analyse(plan.view(history, vocabulary), hints=True)
    return timeline.replace(notes=(*notes, *timeline.notes)) if notes else timeline


KINDS = "a picture (cup.jpg), or a frame of a video or history (kitchen.mp4@120)"


def resolved(
    vocabulary: Vocabulary, encoder: Encoder | None, video: str | None = None
) -> Vocabulary:
    """Return the vocabulary with features for examples from elsewhere; frames of ``video``, which
    is the one that is read, become frames of its history."""
    examples: list[Example] = []
    for example in vocabulary.examples:
        if example.source is not None and example.features is None:
            with named(f"the example {example.source} of {example.state or 'none'}"):
                example = _resolved(example, example.source, encoder, video)
        examples.append(example)
    return replace(vocabulary, examples=tuple(examples))


def _resolved(example: Example, source: str, encoder: Encoder | None, video: str | None) -> Example:
    path, frame = _parts(source)
    if frame is not None and video is not None and _same(path, video):
        return structs.replace(example, source=None, span=(frame, frame), unit="source")
    if not is_there(path):
        remedy = f"an example is a frame (120), frames (120-180), a time (4.5s), {KINDS}"
        raise InputError(f"{path} does not exist; {remedy}")
    history = None if frame is None else _history(path)
    if frame is not None and history is not None:
        return structs.replace(from_history(example.state, history, frame), source=source)
    if encoder is None:
        raise InputError("a picture needs an encoder; give the one that made the history")
    row = encoder.encode_images([_picture(path, frame)])[0]
    return structs.replace(example, features=row, encoder=encoder.identity)


def _parts(source: str) -> tuple[Path, int | None]:
    """Return the file and the frame; a name may itself hold an @."""
    head, mark, tail = source.rpartition("@")
    if mark and tail.isascii() and tail.isdecimal() and len(tail) <= 15 and head:
        return Path(head), int(tail)
    return Path(source), None


def _same(path: Path, video: str) -> bool:
    if is_there(path) and is_there(Path(video)):
        return os.path.samefile(path, video)
    return path.name == Path(video).name


def _history(path: Path) -> History | None:
    """Read the history of a file or a folder; return None for a video."""
    if path.is_dir():
        histories = sorted(path.glob("*.history.npz"))
        if len(histories) > 1:
            raise InputError(f"{path} holds {len(histories)} histories; give one of them")
        return read_history(histories[0]) if histories else None
    return read_history(path) if path.suffix.lower() == ".npz" else None


def _picture(path: Path, frame: int | None) -> NDArray[np.uint8]:
    if frame is not None:
        for picture in open_video(path, start=frame, end=frame):
            return picture.image
        raise InputError(f"{path} has no frame {frame}")
    if not is_image(path):
        raise InputError(f"{path} is not a picture; an example is {KINDS}")
    try:
        return read_rgb(path)
    except Unreadable as error:
        raise InputError(f"{path} cannot be read as a picture ({error})") from None
