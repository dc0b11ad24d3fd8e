"""ChangeIt: annotations/CATEGORY/VIDEO.fps1.csv, a line "second,label" for each second.

Labels: 0 none, 1 the first state, 2 the action, 3 the second state. Videos are looked for by their
name anywhere in the folder; where one is not here, the windows count seconds.
"""

from __future__ import annotations

from pathlib import Path

from dejacue.data.layouts._labels import STATES, annotations_in, labels_of, told, words_in
from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.data.layouts._seconds import in_frames, runs, seconds_of, videos_in
from dejacue.data.layouts.changeit_frames import recognise as has_frames
from dejacue.errors import DejaCueError
from dejacue.records import Vocabulary, Window

NEEDS = "annotations/CATEGORY/VIDEO.fps1.csv, and the videos anywhere below"
SECONDS = "{} have no video here: their windows count seconds, as pictures taken at 1 fps do"


def recognise(folder: Path) -> bool:
    if not annotations_in(folder):
        return False
    return (folder / "videos").is_dir() or not has_frames(folder)


def read(folder: Path) -> Dataset:
    annotations = annotations_in(folder)
    videos = videos_in(folder)
    words, problems = words_in(folder, tuple(STATES.values()))
    clips, missing = [], []
    for (category, name), path in annotations.items():
        found = videos.get(name, [])
        video = next((own for own in found if own.parent.name == category), None)
        video = video or next(iter(found), None)
        if video is None:
            missing.append(f"{category}/{name}: its video is not here")
        try:
            states, beyond = _states(labels_of(path), video)
        except DejaCueError as error:
            problems.append(str(error))
            continue
        problems += [f"{category}/{path.name}: {sentence}" for sentence in beyond]
        clips.append(_clip(category, name, video, states, words.get(category)))
    check(folder, problems)
    notes = (SECONDS.format(f"{len(missing)} clips"),) if missing else ()
    return Dataset("changeit", folder, tuple(clips), tuple(missing), notes)


def _states(
    labels: dict[int, int], video: Path | None
) -> tuple[dict[str, tuple[Window, ...]], list[str]]:
    """State → windows in frames of the video (else seconds), and what lies beyond it."""
    windows = {STATES[label]: tuple(own) for label, own in sorted(runs(labels).items()) if label}
    return (windows, []) if video is None else in_frames(windows, seconds_of(video))


def _clip(
    category: str, name: str, video: Path | None, states: dict[str, tuple[Window, ...]],
    words: Vocabulary | None,
) -> Clip:  # fmt: skip
    return Clip(
        f"{category}-{name}", video=None if video is None else str(video),
        object=category.replace("_", " "), states=told(states, words), vocabulary=words,
        component=name, sampling={"fps": 1.0}, more={"category": category},
    )  # fmt: skip
