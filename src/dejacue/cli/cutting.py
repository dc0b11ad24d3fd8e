"""``dejacue locate --cut``: the found intervals as clips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.markup import escape

from dejacue.cli.encoding import Footage, safe
from dejacue.cli.tables import console
from dejacue.records import History, Retrieval
from dejacue.sources.video import Video, open_video, write_video


def cut(folder: Path, footage: Footage, history: History, retrieval: Retrieval) -> None:
    """One clip per found window of a state, with all source frames of it."""
    assert history.source_frames is not None
    source = dict(zip(history.frames.tolist(), history.source_frames.tolist(), strict=True))
    found = dict.fromkeys((moment.state, moment.window) for moment in retrieval)
    for number, (state, window) in enumerate(found, start=1):
        first, last = source[window.start], source[window.end]
        path = folder / "clips" / f"{number:02d}-{safe(state)}.mp4"
        frames = open_video(footage.video, start=first, end=last, rate=footage.rate)
        times = [frame.time_s for frame in frames]
        if None in times or len(times) < 2:
            write_video(path, _images(frames), 25.0)
        else:
            stamps = [time - times[0] for time in times]  # type: ignore[operator]
            rate = (len(times) - 1) / stamps[-1] if stamps[-1] > 0 else 25.0
            write_video(path, _images(frames), rate, times_s=stamps)
        console(stderr=True).print(escape(f"clip: {path}"), soft_wrap=True)


def _images(frames: Video) -> Iterator[Any]:
    for frame in frames:
        yield frame.image
