"""ChangeIt: annotations/CATEGORY/VIDEO.fps1.csv, a line "second,label" for each second.

Labels: 0 none, 1 the first state, 2 the action, 3 the second state. Videos are looked for by their
name anywhere in the folder; where one is not here, the windows count seconds.
"""

from __future__ import annotations

from pathlib import Path

from dejacue.data.layouts._labels import STATES, annotations_in, labels_of, told, words_in
from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._seconds import runs, videos_in
from dejacue.data.layouts.changeit_frames import recognise as has_frames
from dejacue.errors import DejaCueError

NEEDS = "annotations/CATEGORY/VIDEO.fps1.csv, and the videos anywhere below"


def recognise(folder: Path) -> bool:
    if not annotations_in(folder):
        return False
    return (folder / "videos").is_dir() or not has_frames(folder)


def read(folder: Path) -> Dataset:
    videos = videos_in(folder)
    words, problems = words_in(folder, tuple(STATES.values()))
    clips, missing = [], []
    for (category, name), path in annotations_in(folder).items():
        try:
            labels = labels_of(path)
        except DejaCueError as error:
            problems.append(str(error))
            continue
        found = videos.get(name, [])
        same = [own for own in found if own.parent.name == category]
        video = next(iter(same or found), None)
        if video is None:
            missing.append(f"{category}/{name}: its video is missing")
        states = {STATES[label]: own for label, own in sorted(runs(labels).items()) if label}
        clips.append(
            Clip(
                f"{category}-{name}",
                video=None if video is None else str(video),
                object=category.replace("_", " "),
                states=told(states, words.get(category)),
                in_seconds=True,
                vocabulary=words.get(category),
                component=name,
                sampling={"fps": 1.0},
                more={"category": category},
            )
        )
    check(folder, problems)
    return Dataset("changeit", folder, tuple(clips), tuple(missing))
