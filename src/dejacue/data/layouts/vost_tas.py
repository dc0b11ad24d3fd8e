"""VOST-TAS: vost_tas.json, which says when objects of VOST are transformed, and into what.

The states are what lies between: "before", and after each transformation the objects that it
results in, in the words of the data set; the same objects again are the same state. Frames are
positions in the sorted pictures of the sequence, and anno_end −1 is the last.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._sequences import MASKS, PICTURES, sequences
from dejacue.data.layouts.vost import noun
from dejacue.errors import InputError
from dejacue.records import Vocabulary, Window
from dejacue.sources.documents import declared, read_json

FILE = "vost_tas.json"
BEFORE = "before"
NEEDS = f"{FILE}; with JPEGImages/ and Annotations/ of VOST beside it, clips have pictures"


class _Result(msgspec.Struct):
    desc: str


class _Transformation(msgspec.Struct):
    start_frame: int
    end_frame: int
    result_objects: dict[str, _Result]


class _Instance(msgspec.Struct):
    transformations: list[_Transformation]
    anno_start: int = 0
    anno_end: int = -1


def recognise(folder: Path) -> bool:
    return (folder / FILE).is_file()


def read(folder: Path) -> Dataset:
    path = folder / FILE
    document = read_json(path)
    annotations = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(annotations, dict):
        raise InputError(f'{path}: has no "annotations"; is it the file of VOST-TAS?')
    listed = document.get("frames")
    listed = listed if isinstance(listed, dict) else {}
    names = {own: own.rpartition("_")[0] for own in annotations}
    here, missing = sequences(folder / PICTURES, folder / MASKS, dict.fromkeys(names.values()))
    clips, problems, unchanged = [], [], []
    for name, given in annotations.items():
        sequence = here[names[name]]
        lasting = len(listed[name]) if isinstance(listed.get(name), list) else sequence.frames
        if sequence.frames is not None and lasting != sequence.frames:
            missing.append(
                f"{PICTURES}/{sequence.id}: has {sequence.frames} pictures, but {FILE} lists "
                f"{lasting}"
            )
        try:
            clips.append(_clip(name, declared(given, _Instance), sequence, lasting))
        except InputError as error:
            problems.append(f'"{name}": {error}')
            continue
        if not clips[-1].states:
            unchanged.append(name)
    check(path, problems)
    notes = [f"fewer than two states, so no reference: {', '.join(unchanged)}"] if unchanged else []
    return Dataset("vost-tas", folder, tuple(clips), tuple(dict.fromkeys(missing)), tuple(notes))


def _clip(name: str, given: _Instance, sequence: Clip, frames: int | None) -> Clip:
    number = name.rpartition("_")[2]
    if not (number.isascii() and number.isdigit()):
        raise InputError("is not called SEQUENCE_OBJECT, as in 555_tear_aluminium_foil_1")
    last = given.anno_end
    if last == -1:
        if frames is None:
            raise InputError(
                'is annotated to its end, but neither "frames" nor pictures tell where that is'
            )
        last = frames - 1
    if frames is not None and last >= frames:
        raise InputError(
            f"is annotated up to frame {last}, but has {frames} frames, counted from 0"
        )
    about = noun(sequence.id) or sequence.id
    states = _states(given, last, about)
    words = None
    if len(states) > 1:
        texts = {state: [about if state == BEFORE else state] for state in states}
        words = Vocabulary(texts, object=about)
    sampling: dict[str, Any] = {}
    if given.anno_start:
        sampling["start"] = given.anno_start
    if given.anno_end != -1:
        sampling["end"] = last
    return Clip(
        name,
        video=sequence.video,
        masks=sequence.masks,
        kind=sequence.kind,
        objects=(int(number),),
        object=about,
        states=states if words else {},
        frames=last + 1,
        vocabulary=words,
        component=sequence.id,
        sampling=sampling,
    )


def _states(given: _Instance, last: int, about: str) -> dict[str, tuple[Window, ...]]:
    """State → the windows between transformations in which it holds; an object that results in
    itself is as it was before."""
    found: dict[str, tuple[Window, ...]] = {}
    state, start = BEFORE, given.anno_start
    for own in sorted(given.transformations, key=lambda own: own.start_frame):
        if not start <= own.start_frame <= own.end_frame <= last:
            raise InputError(
                f"the transformation {own.start_frame}–{own.end_frame} is not inside the "
                f"remaining frames {start}–{last}"
            )
        if start < own.start_frame:
            found[state] = (*found.get(state, ()), Window(start, own.start_frame - 1))
        words = _words(own)
        state, start = BEFORE if words == about else words, own.end_frame + 1
    if start <= last:
        found[state] = (*found.get(state, ()), Window(start, last))
    return found


def _words(given: _Transformation) -> str:
    texts = dict.fromkeys(
        own.desc.replace("_", " ").strip() for own in given.result_objects.values()
    )
    texts.pop("", None)
    if not texts:
        raise InputError(
            f"the transformation that starts at frame {given.start_frame} has no results"
        )
    return " and ".join(texts)
