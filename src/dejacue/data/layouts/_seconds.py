"""Labels by the second → windows in frames of a video file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.data.layouts._records import Clip, Dataset, check
from dejacue.errors import DejaCueError, InputError, counted, need
from dejacue.progress import Progress
from dejacue.records import Window
from dejacue.sources._containers import video_stream
from dejacue.sources._sampling import Picture, Sampling
from dejacue.sources.documents import named

SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov")
SLACK_S = 1.0  # a second that has begun has a label


def runs(labels: Mapping[int, int]) -> dict[int, list[Window]]:
    """Label → its windows, from frame → label; a frame without one ends a window."""
    found: dict[int, list[Window]] = {}
    frames = sorted(labels)
    for _, own in itertools.groupby(enumerate(frames), lambda at: (at[1] - at[0], labels[at[1]])):
        held = [frame for _, frame in own]
        found.setdefault(labels[held[0]], []).append(Window(held[0], held[-1]))
    return found


def videos_in(folder: Path) -> dict[str, list[Path]]:
    """Stem → the video files of this name, wherever they lie in the folder."""
    found: dict[str, list[Path]] = {}
    seen: set[str] = set()
    for above, folders, files in os.walk(folder, followlinks=True):
        if os.path.realpath(above) in seen:  # a link that leads back
            folders.clear()
            continue
        seen.add(os.path.realpath(above))
        folders.sort()
        for name in sorted(files):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                found.setdefault(Path(name).stem, []).append(Path(above, name))
    return found


def seconds_of(path: Path, start_s: float = 0.0, end_s: float | None = None) -> dict[int, int]:
    """Second → the frame of the file that is taken for it at one frame a second, from ``start_s``
    on, which is second 0. No frame is decoded."""
    av = need("av", "pip install 'dejacue[video]'")
    with named(str(path)):
        try:
            with av.open(str(path)) as container:
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
        sampling = Sampling(start_s=start_s or None, end_s=end_s, fps=1.0)
        taken = [
            (frame, picture.time_s or 0.0)
            for frame, picture in sampling.select(Picture(t, None, _no_pixels) for t in times)
        ]
    if not taken:
        return {}
    origin = taken[0][1]
    return {round(time_s - origin): frame for frame, time_s in taken}


def _no_pixels() -> Any:
    raise AssertionError("only timestamps are needed")


def counted_in_frames(dataset: Dataset, progress: Progress) -> Dataset:
    """The same with the windows of clips that have a video in frames of it."""
    waiting = [clip for clip in dataset.clips if clip.in_seconds and clip.video]
    made: dict[str, Clip] = {}
    problems: list[str] = []
    for done, clip in enumerate(waiting, 1):
        progress("timestamps", done, len(waiting))
        limits = {key: clip.sampling[key] for key in ("start_s", "end_s") if key in clip.sampling}
        try:
            states, beyond = in_frames(clip.states, seconds_of(Path(str(clip.video)), **limits))
        except DejaCueError as error:
            problems.append(str(error))
            continue
        problems += [f"{clip.id}: {sentence}" for sentence in beyond]
        made[clip.id] = replace(clip, states=states, in_seconds=False)
    check(dataset.folder, problems)
    clips = tuple(made.get(clip.id, clip) for clip in dataset.clips)
    left = sum(clip.in_seconds for clip in clips)
    note = (
        f"the windows of {counted(left, 'clip')} without a video are counted in seconds, as for "
        "pictures taken at 1 fps"
    )
    return replace(dataset, clips=clips, notes=(*dataset.notes, note) if left else dataset.notes)


def in_frames(
    windows: Mapping[str, Sequence[Window]], frames: Mapping[int, int]
) -> tuple[dict[str, tuple[Window, ...]], list[str]]:
    """Windows of seconds as windows of frames, and what lies beyond the video.

    A window begins and ends with the frames that are taken for its first and last second."""
    seconds = np.array(sorted(frames))
    found: dict[str, tuple[Window, ...]] = {}
    beyond = []
    for state, own in windows.items():
        made = []
        for window in own:
            if not len(seconds) or window.end > seconds[-1] + SLACK_S:
                last = int(seconds[-1]) if len(seconds) else 0
                beyond.append(
                    f"{state} lasts until second {window.end}, but the video ends at {last}"
                )
                continue
            inside = seconds[(seconds >= window.start) & (seconds <= window.end)]
            if len(inside):
                made.append(Window(frames[int(inside[0])], frames[int(inside[-1])]))
        if made:
            found[state] = tuple(made)
    return found, beyond
