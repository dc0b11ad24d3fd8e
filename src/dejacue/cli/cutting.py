"""``dejacue locate --cut``: the found intervals as clips."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.markup import escape

from dejacue.cli.encoding import Footage, safe
from dejacue.cli.tables import console
from dejacue.records import History, Retrieval
from dejacue.sources.video import open_video, write_video


def cut(folder: Path, footage: Footage, history: History, retrieval: Retrieval) -> None:
    """One clip per found window of a state, with all source frames of it."""
    assert history.source_frames is not None
    source = dict(zip(history.frames.tolist(), history.source_frames.tolist(), strict=True))
    found = dict.fromkeys((moment.state, moment.window) for moment in retrieval)
    for number, (state, window) in enumerate(found, start=1):
        first, last = source[window.start], source[window.end]
        path = folder / "clips" / f"{number:02d}-{safe(state)}.mp4"
        write_video(path, _frames(footage, first, last), footage.rate or rate_of(history))
        console(stderr=True).print(escape(f"clip: {path}"), soft_wrap=True)


def _frames(footage: Footage, first: int, last: int) -> Iterator[Any]:
    for frame in open_video(footage.video, start=first, end=last, rate=footage.rate):
        yield frame.image


def rate_of(history: History) -> float:
    """Source frames per second, from the times of the history; 25 where there are none."""
    if history.times_s is None or history.source_frames is None or len(history) < 2:
        return 25.0
    seconds = float(history.times_s[-1] - history.times_s[0])
    frames = int(history.source_frames[-1] - history.source_frames[0])
    return round(frames / seconds, 3) if seconds > 0 else 25.0
