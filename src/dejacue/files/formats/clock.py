"""Frames ↔ seconds, by the times of the video itself, never by a frame rate.

``History.ends_s`` says when a frame ends. A window goes from the start of its first frame to the
end of its last. The other way, a frame is in a span if it starts in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.files.formats.spans import stem
from dejacue.files.histories import read_history
from dejacue.records import History, Window
from dejacue.video.video import open_video

_MIN_DURATION_S = 1e-9  # of which a rate can be told


def frame_ends_s(history: History, name: str | None = None) -> NDArray[np.float64]:
    """Return ``history.ends_s``; times that say no end for every frame are refused.

    name   how the message names it; default: the history with its id
    """
    name = name or f'history "{history.id}"'
    if history.times_s is None:
        raise InputError(
            f"{name} has no timestamps, but this format is in seconds; "
            "build it from a video, or give it times (for a folder of images: the setting rate=25)"
        )
    if history.ends_s is None:
        problem = f"{name} has a single frame of unknown duration"
        raise InputError(f"{problem}; export it in frames (CSV, JSON, Parquet)")
    late = np.flatnonzero(np.diff(history.times_s) <= 0)
    if late.size:
        frame = int(history.frames[late[0] + 1])
        problem = f"{name}: its times do not increase at frame {frame}"
        raise InputError(f"{problem}; order frames by presentation time")
    return history.ends_s


def average_rate(history: History) -> float | None:
    """Return the frames of the file per second; None where its times do not say it."""
    return None if history.times_s is None else _rate(_source_frames(history), history.times_s)


def _rate(frames: NDArray[np.int64], times: NDArray[np.float64]) -> float | None:
    duration = float(times[-1] - times[0])
    known = duration > _MIN_DURATION_S and frames[-1] > frames[0]
    return float(frames[-1] - frames[0]) / duration if known else None


def _source_frames(history: History) -> NDArray[np.int64]:
    return history.frames if history.source_frames is None else history.source_frames


@dataclass(frozen=True, eq=False)
class Clock:
    """The times of the frames of a file, all of them or those in which an object was observed.

    frames          (N,) as the file counts them
    starts, ends    (N,) seconds
    whole           whether these are all frames, so that nothing lies behind the last
    """

    name: str
    frames: NDArray[np.int64]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    whole: bool = False

    @classmethod
    def of_history(cls, history: History) -> Clock:
        ends = frame_ends_s(history)
        assert history.times_s is not None
        return cls(f'history "{history.id}"', _source_frames(history), history.times_s, ends)

    @classmethod
    def of_video(cls, path: str) -> Clock:
        """Decode all frames, since some containers tell their times in no other way."""
        read = [(frame.source, frame.time_s) for frame in open_video(path).lazy_frames()]
        if any(time is None for _, time in read):
            remedy = "give a video, or a history made with a rate"
            raise InputError(f"{path}: has no timestamps; {remedy}")
        frames, times = np.array([source for source, _ in read]), np.array([t for _, t in read])
        history = History(np.ones((len(read), 1)), frames, times_s=times.astype(float))
        assert history.times_s is not None
        return cls(path, history.frames, history.times_s, frame_ends_s(history, path), whole=True)

    @property
    def rate(self) -> float | None:
        """Return the frames per second, on average; None where the times do not say it."""
        return _rate(self.frames, self.starts)

    def times_s(self, window: Window) -> tuple[float, float]:
        """Return the start of the window's first frame and the end of its last."""
        first, last = np.searchsorted(self.frames, tuple(window)).tolist()
        if last >= len(self.frames) or tuple(self.frames[[first, last]].tolist()) != tuple(window):
            problem = f"{self.name} does not contain both ends of the window {window}"
            raise InputError(f"{problem}; give the video")
        return float(self.starts[first]), float(self.ends[last])

    def window(self, times_s: tuple[float, float], tolerance_s: float) -> Window:
        """Return the frames that start in a span; ``tolerance_s`` is how exact its times are."""
        start, end = times_s
        if self.whole and end > self.ends[-1] + max(tolerance_s, self.ends[-1] - self.starts[-1]):
            problem = f"{start:g} to {end:g} s is beyond the end of {self.name}"
            raise self._beyond(f"{problem}, {self.ends[-1]:g} s")
        first, last = np.searchsorted(self.starts, np.array(times_s) - tolerance_s).tolist()
        if first >= last:
            raise InputError(f"no frame of {self.name} starts in {start:g} to {end:g} s")
        return Window(int(self.frames[first]), int(self.frames[last - 1]))

    def check(self, window: Window) -> None:
        """Refuse a window that ends after the last frame of a video."""
        if self.whole and window.end > self.frames[-1]:
            problem = f"frames {window} are beyond the end of {self.name}"
            raise self._beyond(f"{problem}, frame {self.frames[-1]}")

    def _beyond(self, problem: str) -> InputError:
        return InputError(f"{problem}; correct it, or give the right video")


class Clocks:
    """Holds a clock for each object of a file.

    source   a video or a history (itself, or the path of either) that serves all, several that are
             found by their names, a mapping of objects to them, or None: the videos that files name
    """

    def __init__(self, source: Any = None) -> None:
        self._by_name: dict[str, Any] = {}
        self._for_all: Any = None
        if isinstance(source, Mapping):
            self._by_name = dict(source)
        elif isinstance(source, Sequence) and not isinstance(source, str):
            for item in source:
                name = item.id if isinstance(item, History) else stem(os.fspath(item))
                self._by_name[name] = item
            self._for_all = source[0] if len(source) == 1 else None
        else:
            self._for_all = source
        self._clocks: dict[str, Clock] = {}

    def of(self, object: str, video: str | None, folder: Path) -> Clock | None:
        """Return the clock of an object; ``folder`` is that of the file that names the video."""
        source = self._source(object, video)
        if source is None and video is not None and not self._by_name:
            places = (Path(video), folder / video, folder / Path(video).name)
            source = next((place for place in places if os.path.exists(place)), None)
        if source is None:
            return None
        key = source.id if isinstance(source, History) else os.fspath(source)
        if key not in self._clocks:
            if not isinstance(source, History) and key.lower().endswith(".npz"):
                source = read_history(key)
            is_history = isinstance(source, History)
            self._clocks[key] = Clock.of_history(source) if is_history else Clock.of_video(key)
        return self._clocks[key]

    def video(self, object: str) -> str | None:
        """Return the path of the video that was given for an object."""
        source = self._source(object, None)
        path = None if source is None or isinstance(source, History) else os.fspath(source)
        return None if path is None or path.lower().endswith(".npz") else path

    def _source(self, object: str, video: str | None) -> Any:
        for name in (object, f"{object}.history", video, stem(video or "")):
            if name in self._by_name:
                return self._by_name[name]
        return self._for_all
