"""The intervals of a video as clips."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.atomic import TEMPORARY, remove_left_file
from dejacue.errors import InputError
from dejacue.files.histories import file_name
from dejacue.records import History, Timeline
from dejacue.records.arrays import Pixels
from dejacue.video.video import open_video, write_video

DEFAULT_RATE = 25.0  # frames per second
# Of the copy in a page. 480 lines at this quality take 2 to 4 KB a frame.
COPY_LINES, MAX_COPY_BYTES, COPIED_FRAMES = 480, 8_000_000, 2_500
COPY_OPTIONS = {"crf": "30", "mbtree": "0", "movflags": "faststart"}


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


def small_copy(video: str, *, max_bytes: int = MAX_COPY_BYTES, **options: Any) -> tuple[bytes, int]:
    """Return the video as an .mp4 that fits into a page, of the same timestamps, and of how many
    frames one was taken. ``options`` are those of ``open_video``."""
    opened = open_video(video, **options)
    step = -(-(opened.length or 1) // COPIED_FRAMES)
    with tempfile.TemporaryDirectory() as folder:
        while True:
            frames, again = (opened.thinned(step) for _ in range(2))
            times = [frame.time_s or 0.0 for frame in frames.lazy_frames()]
            average = (len(times) - 1) / times[-1] if times[-1] > 0 else DEFAULT_RATE
            path = write_video(
                Path(folder, "copy.mp4"),
                (_scaled(frame.image) for frame in again),
                min(max(average, 0.001), 1000),
                times_s=[time_s - times[0] for time_s in times],
                options=COPY_OPTIONS,
            )
            size = path.stat().st_size
            if size <= max_bytes or len(times) == 1:
                return path.read_bytes(), step
            step = max(step + 1, math.ceil(1.2 * step * size / max_bytes))


def _scaled(image: Pixels) -> Pixels:
    from PIL import Image

    height, width = image.shape[:2]
    if height <= COPY_LINES:
        return image
    size = max(1, round(width * COPY_LINES / height)), COPY_LINES
    return np.asarray(Image.fromarray(image).resize(size, reducing_gap=2.0))


def remove_clips(folder: Path) -> None:
    """Remove the clips of an earlier run, and what a killed one has left; not what another run is
    writing now."""
    left = folder.glob(f".[0-9][0-9]*-*.mp4{TEMPORARY}")
    names = [clip.name.removeprefix(".").removesuffix(TEMPORARY) for clip in left]
    for clip in (*folder.glob("[0-9][0-9]*-*.mp4"), *(folder / name for name in names)):
        if clip.name.partition("-")[0].isdecimal():
            remove_left_file(clip)
            clip.unlink(missing_ok=True)
