"""Folders of pictures with a folder of masks each.

vost          JPEGImages, Annotations and ImageSets, a folder for each sequence, which is called
              <digits>_<action>_<noun>; all pieces of an object keep its mask id, 255 is void
vost-tas      vost_tas.json, which says when objects of VOST are transformed, and into what. The
              states are what lies between: "before", and after each transformation the objects that
              it results in, in the words of the data set; the same objects again are the same
              state. Frames are positions in the sorted pictures, and anno_end −1 is the last
davis         JPEGImages/480p, Annotations/480p (or Full-Resolution), ImageSets/YEAR. In 2017 masks
              are ids and 255 is void; in 2016 there is one object, which is 255
youtube-vos   JPEGImages, Annotations and meta.json, which says what each object is. Every fifth
              frame is annotated; JPEGImages holds those, or (all_frames) every frame
mose          JPEGImages and Annotations in train/ and valid/ (or in the folder itself), no lists.
              The videos of valid have a mask for their first picture only
m3-vos        as VOST, and all_phase_label.json, which names the state before and after. It says
              which states there are, not when: clips have vocabularies and no references
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dejacue.errors import InputError
from dejacue.files.documents import declared, read_json, read_text
from dejacue.records import Vocabulary, Window
from dejacue.video.images import folders_in
from dejacue_paper.data.layouts.records import (
    Clip,
    Dataset,
    Layout,
    check,
    check_plain,
    collected,
    images_in,
)

PICTURES, MASKS, LISTS = "JPEGImages", "Annotations", "ImageSets"


def has_sequences(folder: Path) -> bool:
    return (folder / PICTURES).is_dir() and (folder / MASKS).is_dir()


def splits_in(lists: Path) -> dict[str, str]:
    """Return sequence → split, from the .txt files of a folder of ImageSets."""
    splits: dict[str, str] = {}
    for path in sorted(lists.glob("*.txt")) if lists.is_dir() else ():
        for line in read_text(path).split():
            splits.setdefault(line, path.stem)
    return splits


def sequences(
    pictures: Path,
    masks: Path,
    splits: Mapping[str, str] | None = None,
    names: Iterable[str] = (),
    kind: str | None = "indexed",
) -> tuple[dict[str, Clip], list[str]]:
    """Return a clip for each sequence that is named or lies there, and what is missing of them.

    Where only every n-th picture has a mask, the clip takes just those.
    """
    splits = splits or {}
    listed = dict.fromkeys([*splits, *names, *(place.name for place in folders_in(pictures))])
    check_plain(listed)
    clips, missing = {}, []
    for name in listed:
        images, drawn = images_in(pictures / name), images_in(masks / name)
        absent = [what for what, files in (("pictures", images), ("masks", drawn)) if not files]
        if absent:
            missing.append(f"{name}: its {' and '.join(absent)} are missing")
        positions = {image.stem: position for position, image in enumerate(images)}
        alone = [mask.name for mask in drawn if mask.stem not in positions]
        if images and alone:
            missing.append(
                f"{name}: {len(alone)} of its masks have no picture: {', '.join(alone[:3])}"
            )
        clips[name] = Clip(
            name,
            video=str(pictures / name) if images else None,
            masks=masks / name if drawn else None,
            kind=kind,
            frames=len(images) or None,
            sampling=_sampling([positions[m.stem] for m in drawn if m.stem in positions]),
            columns={"split": splits[name]} if name in splits else {},
        )
    return clips, missing


def _sampling(positions: list[int]) -> dict[str, Any]:
    """Return which pictures have masks, where these are every n-th one."""
    step = math.gcd(*(b - a for a, b in itertools.pairwise(positions)))
    if step < 2:
        return {}
    return {"start": positions[0], "stride": step} if positions[0] else {"stride": step}


def _of_object(clip: Clip, number: str, **changes: Any) -> Clip:
    """Return the clip of one object of a sequence."""
    return replace(
        clip, id=f"{clip.id}-{number}", objects=(int(number),), component=clip.id, **changes
    )


MAX_DIGITS = 9  # of the number of an object


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


# VOST

_VOST_SEQUENCE = re.compile(r"[0-9]+_([^_\s]+)_(\S+)")


def _is_vost(folder: Path) -> bool:
    if not has_sequences(folder) or not (folder / LISTS).is_dir() or _m3_labels_in(folder):
        return False
    return any((folder / LISTS).glob("*.txt"))  # DAVIS has folders there


def _read_vost(folder: Path) -> Dataset:
    clips, missing = sequences(folder / PICTURES, folder / MASKS, splits_in(folder / LISTS))
    with_nouns = (replace(clip, object=_noun(name)) for name, clip in clips.items())
    return Dataset("vost", folder, tuple(with_nouns), tuple(missing))


def _noun(sequence: str) -> str | None:
    """Return what a sequence is about, by its name."""
    match = _VOST_SEQUENCE.fullmatch(sequence)
    return match[2].replace("_", " ") if match else None


# VOST-TAS

TAS_FILE = "vost_tas.json"
BEFORE = "before"


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


def _read_vost_tas(folder: Path) -> Dataset:
    path = folder / TAS_FILE
    document = read_json(path)
    annotations = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(annotations, dict):
        raise InputError(f'{path}: has no "annotations"; is it the file of VOST-TAS?')
    listed = document.get("frames")
    listed = listed if isinstance(listed, dict) else {}
    names = {name: name.rpartition("_")[0] for name in annotations}
    here, missing = sequences(folder / PICTURES, folder / MASKS, names=names.values())
    clips: list[Clip] = []
    problems: list[str] = []
    unchanged: list[str] = []
    for name, annotation in annotations.items():
        sequence = here[names[name]]
        frames = len(listed[name]) if isinstance(listed.get(name), list) else sequence.frames
        if sequence.frames is not None and frames != sequence.frames:
            missing.append(
                f"{PICTURES}/{sequence.id}: has {sequence.frames} pictures, but {TAS_FILE} lists "
                f"{frames}"
            )
        with collected(problems, f'"{name}": '):
            clips.append(_tas_clip(name, declared(annotation, _Instance), sequence, frames))
            if not clips[-1].states:
                unchanged.append(name)
    check(path, problems)
    notes = [f"fewer than two states, so no reference: {', '.join(unchanged)}"] if unchanged else []
    return Dataset("vost-tas", folder, tuple(clips), tuple(dict.fromkeys(missing)), tuple(notes))


def _tas_clip(name: str, instance: _Instance, sequence: Clip, frames: int | None) -> Clip:
    number = name.rpartition("_")[2]
    if not _is_number(number):
        raise InputError("is not called SEQUENCE_OBJECT, as in 555_tear_aluminium_foil_1")
    last = instance.anno_end
    if last == -1:
        if frames is None:
            raise InputError(
                'is annotated to its end, but neither "frames" nor pictures tell where that is'
            )
        last = frames - 1
    if frames is not None and last >= frames:
        problem = f"is annotated up to frame {last}, but has {frames} frames, counted from 0"
        raise InputError(problem)
    noun = _noun(sequence.id) or sequence.id
    states = _tas_states(instance, last, noun)
    words = None
    if len(states) > 1:
        texts = {state: [noun if state == BEFORE else state] for state in states}
        words = Vocabulary(texts, object=noun)
    sampling: dict[str, Any] = {}
    if instance.anno_start:
        sampling["start"] = instance.anno_start
    if instance.anno_end != -1:
        sampling["end"] = last
    return replace(
        sequence,
        id=name,
        objects=(int(number),),
        object=noun,
        states=states if words else {},
        frames=last + 1,
        vocabulary=words,
        component=sequence.id,
        sampling=sampling,
    )


def _tas_states(instance: _Instance, last: int, noun: str) -> dict[str, tuple[Window, ...]]:
    """Return state → the windows between transformations in which it holds; an object that results
    in itself is as it was before."""
    states: dict[str, tuple[Window, ...]] = {}
    state, start = BEFORE, instance.anno_start
    for change in sorted(instance.transformations, key=lambda change: change.start_frame):
        if not start <= change.start_frame <= change.end_frame <= last:
            raise InputError(
                f"the transformation {change.start_frame}–{change.end_frame} is not inside the "
                f"remaining frames {start}–{last}"
            )
        if start < change.start_frame:
            states[state] = (*states.get(state, ()), Window(start, change.start_frame - 1))
        words = _result_in_words(change)
        state, start = BEFORE if words == noun else words, change.end_frame + 1
    if start <= last:
        states[state] = (*states.get(state, ()), Window(start, last))
    return states


def _result_in_words(change: _Transformation) -> str:
    texts = dict.fromkeys(
        result.desc.replace("_", " ").strip() for result in change.result_objects.values()
    )
    texts.pop("", None)
    if not texts:
        problem = f"the transformation that starts at frame {change.start_frame} has no results"
        raise InputError(problem)
    return " and ".join(texts)


# DAVIS

SIZES = ("480p", "Full-Resolution", "1080p")


def _read_davis(folder: Path) -> Dataset:
    size = _davis_size(folder) or SIZES[0]
    several = not (folder / LISTS / size).is_dir() or (folder / LISTS / "2017").is_dir()
    splits = splits_in(folder / LISTS / "2017") if several else {}
    kind = "indexed" if several else "binary"
    clips, missing = sequences(folder / PICTURES / size, folder / MASKS / size, splits, kind=kind)
    return Dataset("davis", folder, tuple(clips.values()), tuple(missing))


def _davis_size(folder: Path) -> str | None:
    both = (folder / PICTURES, folder / MASKS)
    return next((size for size in SIZES if all((place / size).is_dir() for place in both)), None)


# MOSE and YouTube-VOS: a part for each split, or the folder itself

SPLITS = ("train", "valid", "test", "")


def _has_part(is_part: Callable[[Path], bool], folder: Path) -> bool:
    return any(is_part(folder / split) for split in SPLITS)


def _read_parts(
    layout: str,
    is_part: Callable[[Path], bool],
    read: Callable[[Path], tuple[Iterable[Clip], list[str]]],
    folder: Path,
) -> Dataset:
    clips: list[Clip] = []
    missing: list[str] = []
    for split in (split for split in SPLITS if is_part(folder / split)):
        of_part, sentences = read(folder / split)
        missing += [f"{split}/{sentence}" if split else sentence for sentence in sentences]
        clips += [replace(clip, columns={"split": split} if split else {}) for clip in of_part]
    return Dataset(layout, folder, tuple(clips), tuple(missing))


def _is_mose(part: Path) -> bool:
    others = (LISTS, "meta.json", TAS_FILE)  # what others have beside their pictures
    other_set = any((part / name).exists() for name in others) or _davis_size(part)
    return has_sequences(part) and not other_set


def _read_mose_part(part: Path) -> tuple[Iterable[Clip], list[str]]:
    clips, missing = sequences(part / PICTURES, part / MASKS)
    return clips.values(), missing


def _is_youtube(part: Path) -> bool:
    return has_sequences(part) and (part / "meta.json").is_file()


def _read_youtube_part(part: Path) -> tuple[Iterable[Clip], list[str]]:
    document = read_json(part / "meta.json")
    videos: Any = document.get("videos") if isinstance(document, dict) else None
    check(part / "meta.json", _youtube_problems(videos))
    by_name, missing = sequences(part / PICTURES, part / MASKS, names=videos, kind="youtube-vos")
    missing += [
        f'meta.json: does not mention the video "{name}"' for name in by_name if name not in videos
    ]
    clips = [
        _of_object(clip, number, object=about.get("category"))
        for name, clip in by_name.items()
        if name in videos
        for number, about in videos[name]["objects"].items()
    ]
    return clips, missing


def _youtube_problems(videos: Any) -> list[str]:
    if not isinstance(videos, dict):
        return ['has no "videos"; is it the meta.json of YouTube-VOS?']
    return [
        f'video "{name}": has no "objects" with their numbers'
        for name, video in videos.items()
        if not isinstance(video, dict)
        or not isinstance(video.get("objects"), dict)
        or not all(
            _is_number(n) and isinstance(about, dict) for n, about in video["objects"].items()
        )
    ]


# M³-VOS

M3_FILE = "all_phase_label.json"
M3_KEYS = ("before_state", "after_state")


def _m3_labels_in(folder: Path) -> Path | None:
    return next((p for p in (folder / M3_FILE, folder / "meta" / M3_FILE) if p.is_file()), None)


def _read_m3_vos(folder: Path) -> Dataset:
    path = _m3_labels_in(folder) or folder / M3_FILE
    labels = read_json(path)
    check(path, _m3_problems(labels))
    splits = splits_in(folder / LISTS)
    by_name, missing = sequences(folder / PICTURES, folder / MASKS, splits, labels)
    clips: list[Clip] = []
    for name, clip in by_name.items():
        if name not in labels:
            missing.append(f'{path.name}: does not mention the sequence "{name}"')
            clips.append(clip)
        clips += [_m3_object(clip, number, o) for number, o in labels.get(name, {}).items()]
    same = [clip.id for clip in clips if clip.objects and clip.vocabulary is None]
    notes = [
        f"{len(same)} objects have the same state before and after, so they have no vocabulary: "
        f"{', '.join(same[:3])}"
    ]
    return Dataset("m3-vos", folder, tuple(clips), tuple(missing), tuple(notes if same else ()))


def _m3_object(clip: Clip, number: str, label: dict[str, str]) -> Clip:
    before, after = (label[key].strip() for key in M3_KEYS)
    words = None if before == after else Vocabulary({before: [before], after: [after]})
    columns = {**clip.columns, "before_state": before, "after_state": after}
    if isinstance(label.get("phase transition"), str):
        columns["transition"] = label["phase transition"]
    return _of_object(clip, number, vocabulary=words, columns=columns)


def _m3_problems(labels: Any) -> list[str]:
    if not isinstance(labels, dict) or not all(isinstance(o, dict) for o in labels.values()):
        return ["must map each sequence to its objects"]
    needed = " and ".join(M3_KEYS)
    return [
        f'sequence "{name}", object "{number}": needs its number and, as text, {needed}'
        for name, objects in labels.items()
        for number, label in objects.items()
        if not (_is_number(number) and isinstance(label, dict))
        or not all(isinstance(label.get(key), str) and label[key].strip() for key in M3_KEYS)
    ]


LAYOUTS = {
    "vost": Layout(_is_vost, _read_vost, "JPEGImages/, Annotations/, ImageSets/"),
    "vost-tas": Layout(
        lambda folder: (folder / TAS_FILE).is_file(),
        _read_vost_tas,
        f"{TAS_FILE}; with JPEGImages/ and Annotations/ of VOST beside it, clips have pictures",
    ),
    "davis": Layout(
        lambda folder: _davis_size(folder) is not None,
        _read_davis,
        "JPEGImages/480p/, Annotations/480p/, ImageSets/",
    ),
    "youtube-vos": Layout(
        partial(_has_part, _is_youtube),
        partial(_read_parts, "youtube-vos", _is_youtube, _read_youtube_part),
        "JPEGImages/, Annotations/, meta.json",
    ),
    "mose": Layout(
        partial(_has_part, _is_mose),
        partial(_read_parts, "mose", _is_mose, _read_mose_part),
        "train/JPEGImages/, train/Annotations/, without ImageSets/, meta.json and vost_tas.json",
    ),
    "m3-vos": Layout(
        lambda folder: has_sequences(folder) and _m3_labels_in(folder) is not None,
        _read_m3_vos,
        f"JPEGImages/, Annotations/, {M3_FILE} (or meta/{M3_FILE})",
    ),
}
