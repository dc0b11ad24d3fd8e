"""ChangeIt-Frames: CATEGORY/VIDEO/frame_NNNN.jpg, one picture a second of those that show a state.

frame_NNNN is second NNNN − 1; its label is that of ChangeIt (annotations/CATEGORY/VIDEO.fps1.csv),
which belongs beside the pictures. Seconds without a picture are not there, so windows count
positions in the sorted pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dejacue.data.layouts._labels import STATES, annotations_in, labels_of, told, words_in
from dejacue.data.layouts._records import Clip, Dataset, as_path, check, folders_in
from dejacue.data.layouts._seconds import runs
from dejacue.errors import DejaCueError
from dejacue.records import Vocabulary
from dejacue.sources.images import is_image, natural

NEEDS = "CATEGORY/VIDEO/frame_NNNN.jpg, and annotations/CATEGORY/VIDEO.fps1.csv of ChangeIt"
_FRAME = re.compile(r"frame_([0-9]{1,9})")


def recognise(folder: Path) -> bool:
    return _root(folder) is not None


def read(folder: Path) -> Dataset:
    annotations = annotations_in(folder)
    words, problems = words_in(folder, tuple(STATES.values()))
    clips: list[Clip] = []
    missing: list[str] = []
    for place in _videos(_root(folder) or folder):
        category = place.parent.name
        path = annotations.get((category, place.name))
        if path is None:
            missing.append(f"annotations/{category}/{place.name}.fps1.csv: is missing")
        try:
            clip, unlabelled = _clip(place, path, words.get(category))
        except DejaCueError as error:
            problems.append(str(error))
            continue
        clips.append(clip)
        problems += unlabelled
    check(folder, problems)
    return Dataset("changeit-frames", folder, tuple(clips), tuple(missing))


def _clip(place: Path, path: Path | None, words: Vocabulary | None) -> tuple[Clip, list[str]]:
    """A clip, and which of its pictures have no label."""
    images = list(_images(place))
    seconds = [int(own.stem.removeprefix("frame_")) - 1 for own in images]
    labels = dict.fromkeys(seconds, 0) if path is None else labels_of(path)
    category = place.parent.name
    unlabelled = [
        f"{category}/{place.name}/{own.name}: second {second} has no label"
        for own, second in zip(images, seconds, strict=True)
        if second not in labels
    ]
    row = {at: labels.get(second, 0) for at, second in enumerate(seconds)}
    states = {STATES[label]: own for label, own in sorted(runs(row).items()) if label}
    clip = Clip(
        f"{category}-{place.name}",
        video=as_path(images),
        images=tuple(images),
        object=category.replace("_", " "),
        states=told(states, words),
        frames=len(images),
        vocabulary=words,
        times=tuple(map(float, seconds)),
        component=place.name,
        more={"category": category},
    )
    return clip, unlabelled


def _videos(root: Path) -> Iterator[Path]:
    for category in folders_in(root):
        yield from (place for place in folders_in(category) if any(_images(place)))


def _root(folder: Path) -> Path | None:
    """Where the categories lie: here, or one folder below."""
    for root in (folder, *folders_in(folder)):
        for category in folders_in(root):
            if any(next(_images(place), None) for place in folders_in(category)[:3]):
                return root
    return None


def _images(place: Path) -> Iterator[Path]:
    yield from natural(e for e in place.iterdir() if is_image(e) and _FRAME.fullmatch(e.stem))
