"""YouTube-VOS: JPEGImages, Annotations and meta.json, which says what each object is.

Every fifth frame is annotated; JPEGImages holds those, or (all_frames) every frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._sequences import MASKS, PICTURES, has_sequences, sequences
from dejacue.sources.documents import read_json

SPLITS = ("train", "valid", "test", "")
NEEDS = "JPEGImages/, Annotations/, meta.json"


def recognise(folder: Path) -> bool:
    return any(_parts(folder))


def read(folder: Path) -> Dataset:
    clips: list[Clip] = []
    missing: list[str] = []
    for part in _parts(folder):
        above = "" if part == folder else f"{part.name}/"
        document = read_json(part / "meta.json")
        videos: Any = document.get("videos") if isinstance(document, dict) else None
        check(part / "meta.json", _problems(videos))
        found, own = sequences(part / PICTURES, part / MASKS, videos, "youtube-vos")
        missing += [f"{above}{sentence}" for sentence in own]
        for name, clip in found.items():
            if name not in videos:
                missing.append(f'{above}meta.json: does not mention the video "{name}"')
                continue
            clips += _objects(clip, videos[name]["objects"], part.name if above else None)
    return Dataset("youtube-vos", folder, tuple(clips), tuple(missing))


def _objects(clip: Clip, objects: dict[str, Any], split: str | None) -> Iterator[Clip]:
    for number, own in objects.items():
        yield replace(
            clip,
            id=f"{clip.id}-{number}",
            objects=(int(number),),
            object=own.get("category"),
            component=clip.id,
            more={"split": split} if split else {},
        )


def _problems(videos: Any) -> list[str]:
    if not isinstance(videos, dict):
        return ['has no "videos"; is it the meta.json of YouTube-VOS?']
    return [
        f'video "{name}": has no "objects" with their numbers'
        for name, own in videos.items()
        if not isinstance(own, dict)
        or not isinstance(own.get("objects"), dict)
        or not all(
            number.isascii() and number.isdigit() and isinstance(what, dict)
            for number, what in own["objects"].items()
        )
    ]


def _parts(folder: Path) -> Iterator[Path]:
    for split in SPLITS:
        part = folder / split
        if has_sequences(part) and (part / "meta.json").is_file():
            yield part
