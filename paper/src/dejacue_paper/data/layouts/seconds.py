"""Data sets that label seconds of videos: ChangeIt, ChangeIt-Frames, HowToChange.

changeit          annotations/CATEGORY/VIDEO.fps1.csv, a line "second,label" for each second:
                  0 none, 1 the first state, 2 the action, 3 the second state. Videos are looked
                  for by their name anywhere in the folder
changeit-frames   CATEGORY/VIDEO/frame_NNNN.jpg, one picture a second of those that show a state.
                  frame_NNNN is second NNNN − 1; its label is that of ChangeIt, whose annotations
                  belong beside the pictures. Seconds without a picture are not there, so windows
                  count positions in the sorted pictures
howtochange       howtochange_eval.csv, a line for each clip, its states in seconds from its start.
                  At one frame a second, the interval [s, e] holds from round(s) to round(e) − 1. A
                  clip is VIDEO_NAME.mp4, or start_time to start_time + duration of VIDEO_ID.mp4,
                  anywhere in the folder

Windows are in frames of the video; where it is not here, they count seconds. None of the data sets
has words for its states. Lists of one's own, vocabularies/NAME.yaml in the folder, become those of
the clips of this category; what they do not name is left out of the references.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError, counted, extra, in_file, named, need
from dejacue.files.documents import parse_json, read_text
from dejacue.files.histories import read_vocabulary
from dejacue.progress import Progress
from dejacue.records import Vocabulary, Window
from dejacue.video._containers import video_stream
from dejacue.video._sampling import FrameChoice, Picture
from dejacue.video.images import folders_in
from dejacue_paper.data.layouts.records import (
    Clip,
    Dataset,
    Layout,
    as_path,
    check,
    collected,
    images_in,
)

VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov")
SLACK_S = 1.0  # a second that has begun has a label
VOCABULARIES = "vocabularies"


def videos_in(folder: Path) -> dict[str, list[Path]]:
    """Return stem → the video files of this name, wherever they lie in the folder."""
    videos: dict[str, list[Path]] = {}
    visited: set[str] = set()
    for above, folders, files in os.walk(folder, followlinks=True):
        if os.path.realpath(above) in visited:  # a link that leads back
            folders.clear()
            continue
        visited.add(os.path.realpath(above))
        folders.sort()
        for name in sorted(files):
            if name.lower().endswith(VIDEO_SUFFIXES) and not name.startswith("."):
                videos.setdefault(Path(name).stem, []).append(Path(above, name))
    return videos


def seconds_of(path: Path, start_s: float = 0.0, end_s: float | None = None) -> dict[int, int]:
    """Return second → the frame of the file that is taken for it at one frame a second, from
    ``start_s`` on, which is second 0. No frame is decoded."""
    av = need("av", extra("video"))
    with in_file(path):
        try:
            with av.open(f"file:{path}", metadata_errors="replace") as container:
                stream = video_stream(container)
                stamps = sorted(
                    packet.pts
                    for packet in container.demux(stream)
                    if packet.size and packet.pts is not None and not packet.is_discard
                )
                zero = stamps[0] if stream.start_time is None and stamps else stream.start_time
                times = [float((stamp - zero) * stream.time_base) for stamp in stamps]
        except av.FFmpegError as error:
            raise InputError(f"cannot be read ({error.strerror}); copy it again") from None
        sampling = FrameChoice(start_s=start_s or None, end_s=end_s, fps=1.0)
        taken = [
            (frame, picture.time_s or 0.0)
            for frame, picture in sampling.select(Picture(t, None, _no_pixels) for t in times)
        ]
    return {round(time_s - taken[0][1]): frame for frame, time_s in taken}


def _no_pixels() -> Any:
    raise AssertionError("only timestamps are needed")


def counted_in_frames(dataset: Dataset, progress: Progress) -> Dataset:
    """Return the data set with the windows of clips that have a video in frames of it."""
    waiting = [clip for clip in dataset.clips if clip.in_seconds and clip.video]
    converted: dict[str, Clip] = {}
    problems: list[str] = []
    for done, clip in enumerate(waiting, 1):
        progress("timestamps", done, len(waiting))
        limits = {key: clip.sampling[key] for key in ("start_s", "end_s") if key in clip.sampling}
        with collected(problems):
            states, beyond = in_frames(clip.states, seconds_of(Path(str(clip.video)), **limits))
            problems += [f"{clip.id}: {sentence}" for sentence in beyond]
            converted[clip.id] = replace(clip, states=states, in_seconds=False)
    check(dataset.folder, problems)
    clips = tuple(converted.get(clip.id, clip) for clip in dataset.clips)
    left = sum(clip.in_seconds for clip in clips)
    note = (
        f"the windows of {counted(left, 'clip')} without a video are counted in seconds, as for "
        "pictures taken at 1 fps"
    )
    return replace(dataset, clips=clips, notes=(*dataset.notes, note) if left else dataset.notes)


def in_frames(
    states: Mapping[str, Sequence[Window]], frames: Mapping[int, int]
) -> tuple[dict[str, tuple[Window, ...]], list[str]]:
    """Return windows of seconds as windows of frames, and what lies beyond the video.

    A window begins and ends with the frames that are taken for its first and last second."""
    seconds = np.array(sorted(frames))
    last = int(seconds[-1]) if len(seconds) else 0
    converted: dict[str, tuple[Window, ...]] = {}
    beyond = []
    for state, windows in states.items():
        for window in windows:
            if not len(seconds) or window.end > last + SLACK_S:
                beyond.append(
                    f"{state} lasts until second {window.end}, but the video ends at {last}"
                )
                continue
            inside = seconds[(seconds >= window.start) & (seconds <= window.end)]
            if len(inside):
                here = Window(frames[int(inside[0])], frames[int(inside[-1])])
                converted[state] = (*converted.get(state, ()), here)
    return converted, beyond


def _vocabularies_in(folder: Path, known: Sequence[str]) -> tuple[dict[str, Vocabulary], list[str]]:
    """Return name → the list of words that lies in the folder for it, and what is wrong."""
    vocabularies: dict[str, Vocabulary] = {}
    problems: list[str] = []
    place = folder / VOCABULARIES
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.suffix.lower() not in (".yaml", ".yml", ".json"):
            continue
        with collected(problems):
            vocabularies[path.stem] = vocabulary = read_vocabulary(path)
            unlabelled = [state for state in vocabulary.state_names if state not in known]
            if unlabelled:
                problem = f'the state "{unlabelled[0]}" is not one of the labels {", ".join(known)}'
                raise InputError(f"{VOCABULARIES}/{path.name}: {problem}; rename it")
    return vocabularies, problems


def _states_in(
    states: Mapping[str, Sequence[Window]], words: Vocabulary | None
) -> dict[str, tuple[Window, ...]]:
    """Return the states that the vocabulary has, or all without one."""
    return {
        state: tuple(windows)
        for state, windows in states.items()
        if words is None or state in words.states
    }


# ChangeIt and ChangeIt-Frames

CHANGEIT_SUFFIX = ".fps1.csv"
CHANGEIT_STATES = {1: "state1", 2: "action", 3: "state2"}  # 0: none of them
_WHOLE = re.compile("[0-9]{1,9}")
_FRAME = re.compile(r"frame_([0-9]{1,9})")


def _annotations_in(folder: Path) -> dict[tuple[str, str], Path]:
    """Return (category, video) → its labels."""
    paths = {}
    for root in (folder / "annotations", folder):
        for category in folders_in(root):
            for path in sorted(category.glob(f"*{CHANGEIT_SUFFIX}")):
                paths[category.name, path.name.removesuffix(CHANGEIT_SUFFIX)] = path
        if paths:
            break
    return paths


def _labels_of(path: Path) -> dict[int, int]:
    """Read second → label from a file of ChangeIt."""
    labels: dict[int, int] = {}
    for number, row in enumerate(csv.reader(read_text(path).splitlines()), 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and not any(c.isdigit() for c in cells)):
            continue  # a header
        with named(f"{path.parent.name}/{path.name}, line {number}"):
            if len(cells) != 2 or not all(map(_WHOLE.fullmatch, cells)):
                raise InputError(f'"{",".join(cells)}" is not "second,label"')
            second, label = map(int, cells)
            if label not in (0, *CHANGEIT_STATES):
                raise InputError(f"the label {label} is not one of 0, 1, 2, 3")
            if second in labels:
                raise InputError(f"second {second} already has a label; keep one")
            labels[second] = label
    return labels


def _windows_of(labels: Mapping[int, int]) -> dict[str, list[Window]]:
    """Return state → its windows, from second → label; a second without one ends a window."""
    windows: dict[str, list[Window]] = {state: [] for state in CHANGEIT_STATES.values()}
    at = sorted(labels)
    for (_, label), run in itertools.groupby(
        enumerate(at), lambda item: (item[1] - item[0], labels[item[1]])
    ):
        seconds = [second for _, second in run]
        if label:
            windows[CHANGEIT_STATES[label]].append(Window(seconds[0], seconds[-1]))
    return {state: spans for state, spans in windows.items() if spans}


def _changeit_clip(
    category: str, name: str, labels: Mapping[int, int], words: Vocabulary | None, **fields: Any
) -> Clip:
    return Clip(
        f"{category}-{name}",
        object=category.replace("_", " "),
        states=_states_in(_windows_of(labels), words),
        vocabulary=words,
        component=name,
        columns={"category": category},
        **fields,
    )


def _is_changeit(folder: Path) -> bool:
    if not _annotations_in(folder):
        return False
    return (folder / "videos").is_dir() or _categories_in(folder) is None


def _read_changeit(folder: Path) -> Dataset:
    videos = videos_in(folder)
    words, problems = _vocabularies_in(folder, tuple(CHANGEIT_STATES.values()))
    clips, missing = [], []
    for (category, name), path in _annotations_in(folder).items():
        with collected(problems):
            labels = _labels_of(path)
            paths = videos.get(name, [])
            same = [path for path in paths if path.parent.name == category]
            video = next(map(str, same or paths), None)
            if video is None:
                missing.append(f"{category}/{name}: its video is missing")
            source = {"video": video, "in_seconds": True, "sampling": {"fps": 1.0}}
            clips.append(_changeit_clip(category, name, labels, words.get(category), **source))
    check(folder, problems)
    return Dataset("changeit", folder, tuple(clips), tuple(missing))


def _read_changeit_frames(folder: Path) -> Dataset:
    annotations = _annotations_in(folder)
    words, problems = _vocabularies_in(folder, tuple(CHANGEIT_STATES.values()))
    clips: list[Clip] = []
    missing: list[str] = []
    places = (
        place
        for category in folders_in(_categories_in(folder) or folder)
        for place in folders_in(category)
    )
    for place in places:
        if not (images := _frames_in(place)):
            continue
        category = place.parent.name
        path = annotations.get((category, place.name))
        if path is None:
            missing.append(f"annotations/{category}/{place.name}{CHANGEIT_SUFFIX}: is missing")
        seconds = [int(image.stem.removeprefix("frame_")) - 1 for image in images]
        with collected(problems):
            labels = dict.fromkeys(seconds, 0) if path is None else _labels_of(path)
            problems += [
                f"{category}/{place.name}/{image.name}: second {second} has no label"
                for image, second in zip(images, seconds, strict=True)
                if second not in labels
            ]
            clips.append(
                _changeit_clip(
                    category,
                    place.name,
                    {position: labels.get(second, 0) for position, second in enumerate(seconds)},
                    words.get(category),
                    video=as_path(images),
                    images=tuple(images),
                    frames=len(images),
                    times=tuple(map(float, seconds)),
                )
            )
    check(folder, problems)
    return Dataset("changeit-frames", folder, tuple(clips), tuple(missing))


def _categories_in(folder: Path) -> Path | None:
    """Return where the categories of ChangeIt-Frames lie: here, or one folder below."""
    for root in (folder, *folders_in(folder)):
        for category in folders_in(root):
            if any(_frames_in(place) for place in folders_in(category)[:3]):
                return root
    return None


def _frames_in(place: Path) -> list[Path]:
    return [image for image in images_in(place) if _FRAME.fullmatch(image.stem)]


# HowToChange

HOWTOCHANGE_FILE = "howtochange_eval.csv"
HOWTOCHANGE_STATES = ("initial_state", "transitioning_state", "end_state")
COLUMNS = ("video_name", "video_id", "start_time", "duration", *HOWTOCHANGE_STATES, "osc")


def _read_howtochange(folder: Path) -> Dataset:
    path = folder / HOWTOCHANGE_FILE
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    lacking = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if lacking:
        raise InputError(f"{path}: has no column {', '.join(lacking)}; is it the file of the set?")
    videos = videos_in(folder)
    words, problems = _vocabularies_in(folder, HOWTOCHANGE_STATES)
    clips: list[Clip] = []
    missing: list[str] = []
    for row in rows:
        osc = row["osc"] or ""
        with collected(problems, f"{HOWTOCHANGE_FILE}, "), named(f"line {rows.line_num}"):
            clips.append(_howtochange_clip(row, videos, words.get(osc.replace(" ", "_"))))
            if clips[-1].video is None:
                missing.append(f"{clips[-1].id}: its video is missing")
    check(folder, problems)
    times = Counter(clip.id for clip in clips)
    distinct = (  # a clip that is there for several changes is a history for each
        clip if times[clip.id] == 1 else replace(clip, id=f"{clip.id}-{clip.columns['osc']}")
        for clip in clips
    )
    return Dataset("howtochange", folder, tuple(distinct), tuple(missing))


def _howtochange_clip(
    row: dict[str, Any], videos: Mapping[str, list[Path]], words: Vocabulary | None
) -> Clip:
    name, source, osc = (str(row[key] or "").strip() for key in ("video_name", "video_id", "osc"))
    if not name:
        raise InputError("has no video_name")
    start_s, duration_s = _number(row, "start_time"), _number(row, "duration")
    states = {state: _windows_in(row, state, duration_s) for state in HOWTOCHANGE_STATES}
    if name.lower().endswith(VIDEO_SUFFIXES):
        name = Path(name).stem
    video = next(iter(videos.get(name, ())), None)
    sampling: dict[str, Any] = {"fps": 1.0}
    if video is None and source in videos:
        video = videos[source][0]
        sampling |= {"start_s": start_s, "end_s": start_s + duration_s}
    columns = {"osc": osc}
    if row.get("is_novel_osc"):
        columns["is_novel_osc"] = str(row["is_novel_osc"]).strip()
    return Clip(
        name,
        video=None if video is None else str(video),
        states=_states_in({state: spans for state, spans in states.items() if spans}, words),
        in_seconds=True,
        vocabulary=words,
        component=source or name,
        sampling=sampling,
        columns=columns,
    )


def _number(row: dict[str, Any], key: str) -> float:
    try:
        value = float(row[key])
        if value >= 0 and math.isfinite(value):
            return value
    except (TypeError, ValueError):
        pass
    raise InputError(f'{key} "{row[key]}" is not a number of seconds')


def _windows_in(row: dict[str, Any], state: str, duration_s: float) -> tuple[Window, ...]:
    """Return the seconds of the clip in which a state holds, by the rule of the data set."""
    text = (row[state] or "").strip() or "[]"
    spans = parse_json(text)
    if not isinstance(spans, list):
        raise InputError(f'{state} "{text}" is not a list of [start, end]')
    windows = []
    for span in spans:
        numbers = isinstance(span, list) and all(type(edge) in (int, float) for edge in span)
        if not numbers or len(span) != 2 or not 0 <= span[0] <= span[1]:
            raise InputError(f"{state} {span!r:.40} is not [start, end] in seconds")
        if span[1] > duration_s + SLACK_S:
            raise InputError(f"{state} ends at {span[1]} s, but the clip lasts {duration_s:g} s")
        first, last = round(span[0]), round(span[1]) - 1
        if first <= last:  # shorter than the rule can hold
            windows.append(Window(first, last))
    return tuple(windows)


LAYOUTS = {
    "changeit": Layout(
        _is_changeit,
        _read_changeit,
        "annotations/CATEGORY/VIDEO.fps1.csv, and the videos anywhere below",
    ),
    "changeit-frames": Layout(
        lambda folder: _categories_in(folder) is not None,
        _read_changeit_frames,
        "CATEGORY/VIDEO/frame_NNNN.jpg, and annotations/CATEGORY/VIDEO.fps1.csv of ChangeIt",
    ),
    "howtochange": Layout(
        lambda folder: (folder / HOWTOCHANGE_FILE).is_file(),
        _read_howtochange,
        f"{HOWTOCHANGE_FILE}, and the clips anywhere below",
    ),
}
