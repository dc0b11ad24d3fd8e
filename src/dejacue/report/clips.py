"""The intervals of a video as clips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dejacue.atomic import TEMPORARY, remove_left_file
from dejacue.errors import InputError
from dejacue.files.histories import file_name
from dejacue.records import History, Timeline
from dejacue.video.video import open_video, write_video

DEFAULT_RATE = 25.0  # frames per second


def cut_clips(
    folder: Path, video: str, history: History, timeline: Timeline, **options: Any
) -> list[Path]:
    """Write a clip for each interval, with all frames of the file in it, and
    return their paths; clips of an earlier run are removed. ``options`` are those of
    ``open_video``."""
    if history.source_frames is None:
        raise InputError(f"history {history.id}: has no frame numbers of {video}; encode it again")
    remove_clips(folder)
    windows = dict.fromkeys((interval.state, history.to_source(interval)) for interval in timeline)
    clips = []
    for number, (state, window) in enumerate(windows, start=1):
        frames = open_video(video, start=window.start, end=window.end, **options)
        times = [frame.time_s for frame in frames]
        images = (frame.image for frame in frames)
        path = folder / f"{number:02d}-{file_name(state)}.mp4"
        stamps = [time - times[0] for time in times if time is not None and times[0] is not None]
        if len(stamps) == len(times) > 1 and stamps[-1] > 0:
            average = (len(times) - 1) / stamps[-1]
            clips.append(write_video(path, images, average, times_s=stamps))
        else:
            clips.append(write_video(path, images, DEFAULT_RATE))
    return clips


def remove_clips(folder: Path) -> None:
    """Remove the clips of an earlier run, and what a killed one has left; not what another run is
    writing now."""
    left = folder.glob(f".[0-9][0-9]*-*.mp4{TEMPORARY}")
    names = [clip.name.removeprefix(".").removesuffix(TEMPORARY) for clip in left]
    for clip in (*folder.glob("[0-9][0-9]*-*.mp4"), *(folder / name for name in names)):
        if clip.name.partition("-")[0].isdecimal():
            remove_left_file(clip)
            clip.unlink(missing_ok=True)
