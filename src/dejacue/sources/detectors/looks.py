"""Which frames of a video a detector looks at, and their pictures.

A detector is slow, so few frames are looked at: the middle of each shot (of each minute of a long
one), then two more, then ever more between these in shots where nothing was found. There is a limit
for the whole video; where it does not suffice, the longest stretches come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError, InputError
from dejacue.sources.frames import Frames, open_frames
from dejacue.sources.video import Video

MAX_LOOKS = 240
FEW_LOOKS = 3  # of a shot, where something was found, too
MAX_STRETCH_S, MAX_STRETCH_FRAMES = 60.0, 1500  # seconds, or frames where times are not known
ALWAYS_ROUNDS = 3  # whatever the distance between looks; later ones keep …
MIN_SPACING_S, MIN_SPACING_FRAMES = 1.0, 10  # … at least this
SAME_TIME_S = 1e-6


@dataclass(frozen=True, slots=True)
class FramePlace:
    """A frame without its pixels; the fields of ``video.Frame``."""

    index: int
    source: int
    time_s: float | None
    name: str | None


@dataclass
class Stretch:
    """A part of a shot: positions ``first`` to ``last`` in the list of places, both included."""

    shot: int
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass
class SearchPlan:
    """Decides, round by round, which positions are looked at.

    places   all frames of the video
    shots    first and last position of each shot
    limit    of all looks together
    """

    places: Sequence[FramePlace]
    shots: Sequence[tuple[int, int]]
    limit: int = MAX_LOOKS
    looked: dict[int, int] = field(default_factory=dict)  # position → shot
    with_objects: set[int] = field(default_factory=set)  # shots
    rounds: int = 0

    def __post_init__(self) -> None:
        self.stretches = [
            stretch
            for shot, (first, last) in enumerate(self.shots)
            for stretch in self._stretches(shot, first, last)
        ]

    def next_round(self) -> list[int]:
        """Return the positions to look at next, in order; none: the search is over."""
        while len(self.looked) < self.limit:
            several = [stretch for stretch in self.stretches if self._deserves_more(stretch)]
            if not several:
                break
            several.sort(key=lambda stretch: (stretch.shot in self.with_objects, -stretch.length))
            positions: dict[int, int] = {}
            for stretch in several:
                for position in _spread(stretch, self.rounds):
                    if position not in self.looked and len(self.looked) + len(positions) < (
                        self.limit
                    ):
                        positions[position] = stretch.shot
            self.rounds += 1
            if positions:
                self.looked |= positions
                return sorted(positions)
        return []

    def mark_found(self, position: int) -> None:
        self.with_objects.add(self.looked[position])

    def _deserves_more(self, stretch: Stretch) -> bool:
        if self.rounds == 0:
            return True
        if stretch.shot in self.with_objects:
            looks = sum(shot == stretch.shot for shot in self.looked.values())
            return self.rounds == 1 and looks < FEW_LOOKS
        if self.rounds < ALWAYS_ROUNDS:
            return True
        parts = 3 << self.rounds  # neighbouring looks are at least one apart, after this round
        seconds = self._seconds(stretch.first, stretch.last)
        if seconds is None:
            return stretch.length / parts >= MIN_SPACING_FRAMES
        return seconds / parts >= MIN_SPACING_S

    def _stretches(self, shot: int, first: int, last: int) -> Iterator[Stretch]:
        """Divide a shot into parts of about equal length, none longer than a stretch may be."""
        seconds, count = self._seconds(first, last), last - first + 1
        parts = count / MAX_STRETCH_FRAMES if seconds is None else seconds / MAX_STRETCH_S
        edges = np.linspace(0, count, min(count, max(1, int(np.ceil(parts)))) + 1).astype(int)
        for start, end in itertools.pairwise(edges):
            yield Stretch(shot, first + int(start), first + int(end) - 1)

    def _seconds(self, first: int, last: int) -> float | None:
        start_s, end_s = self.places[first].time_s, self.places[last].time_s
        return None if start_s is None or end_s is None else end_s - start_s


def _spread(stretch: Stretch, round: int) -> list[int]:
    """Return positions: the middle, then the odd sixths, the odd twelfths, and so on."""
    parts = 2 if round == 0 else 3 * 2**round
    steps = range(1, parts, 2)
    return sorted({stretch.first + stretch.length * step // parts for step in steps})


class PictureReader:
    """The pictures of frames that an earlier pass over the video has seen.

    A file or folder is read at the places that are asked for. Where that is not possible, or does
    not show the same frames, the video is passed over once more for each call.
    """

    def __init__(self, video: Video) -> None:
        self._video = video
        self._frames: Frames | None = None
        try:
            path = Path(video.path)
            if path.exists():
                self._frames = open_frames(path)
        except (DejaCueError, OSError, ValueError):
            pass

    def __enter__(self) -> PictureReader:
        return self

    def __exit__(self, *error: object) -> None:
        if self._frames is not None:
            self._frames.close()

    def pictures(
        self, places: Sequence[FramePlace]
    ) -> Iterator[tuple[FramePlace, NDArray[np.uint8]]]:
        """Yield each place with its (H, W, 3) RGB; places are in order."""
        todo = list(places)
        while self._frames is not None and todo:
            if not _is_at(self._frames, todo[0]):
                break
            try:
                picture = self._frames.image(todo[0].source)
            except InputError:
                break
            yield todo.pop(0), picture
        if not todo:
            return
        by_index = {place.index: place for place in todo}
        for frame in self._video.late():
            if (place := by_index.pop(frame.index, None)) is not None:
                yield place, frame.image
            if not by_index:
                return


def _is_at(frames: Frames, place: FramePlace) -> bool:
    """Return whether a file's frame of this number is the one that the pass has seen."""
    if place.source >= len(frames) or frames.name(place.source) != place.name:
        return False
    if frames.times_s is None or place.time_s is None:
        return frames.times_s is None
    return bool(abs(frames.times_s[place.source] - place.time_s) < SAME_TIME_S)
