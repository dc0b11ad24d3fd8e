"""Examples from elsewhere: pictures, frames of other videos, frames of other histories.

cup.jpg                    a picture of the object
kitchen.mp4@120            a frame of a video: of the one that is read, a frame of its history;
                           of another one, the whole picture
kitchen.history.npz@120    a frame of a history, or of the folder of a finding
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from dejacue.errors import InputError, named
from dejacue.files.histories import is_there, read_history
from dejacue.models.encoders import Encoder
from dejacue.records import Example, History, Vocabulary
from dejacue.records.example import from_history
from dejacue.video._sampling import Unreadable
from dejacue.video.images import is_image, read_rgb
from dejacue.video.video import open_video

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
