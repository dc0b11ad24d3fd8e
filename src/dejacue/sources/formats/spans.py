"""What the formats of other tools have in common: spans in which a state of an object holds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from dejacue.errors import InputError, shown
from dejacue.records import Window
from dejacue.sources.documents import MOST_FRAME

MOST_SECONDS = 1e9
_NOT_TEXT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # what XML cannot hold


@dataclass(frozen=True)
class Span:
    """A state and when it holds: in frames of the file, in seconds, or in both.

    window       frames from 0, both ends inclusive
    times_s      from the start of the first frame to the end of the last one
    object       the history; None: the file names none
    video        its path or name; None: not known
    descriptions the sentences that were asked, where they are known
    """

    state: str
    window: Window | None = None
    times_s: tuple[float, float] | None = None
    object: str | None = None
    video: str | None = None
    score: float | None = None
    descriptions: tuple[str, ...] = ()

    @property
    def frames(self) -> Window:
        """Its window, where the format counts frames."""
        assert self.window is not None, "a format in frames is given windows"
        return self.window

    @property
    def seconds(self) -> tuple[float, float]:
        """Its times, where the format counts seconds."""
        assert self.times_s is not None, "a format in seconds is given times"
        return self.times_s

    @property
    def milliseconds(self) -> tuple[int, int]:
        """Not before 0, and not empty: no format of milliseconds has a place for that."""
        start, end = self.seconds
        first = max(round(1000 * start), 0)
        return first, max(round(1000 * end), first + 1)


@dataclass(frozen=True)
class Marks:
    """What is written to one file.

    objects   every history → its video (None: not known), also where nothing was found
    notes     sentences that a reader must know; notes_of: those of one video
    rates     frames a second of each history, on average, where its times are known
    truth     whether these are references, not answers
    """

    spans: Sequence[Span]
    objects: Mapping[str, str | None]
    notes: Sequence[str] = ()
    notes_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    truth: bool = False

    @property
    def states(self) -> list[str]:
        return list(dict.fromkeys(span.state for span in self.spans))

    def video_of(self, object: str | None) -> str:
        """Its video, or the name of the object where that is not known."""
        return self.objects.get(object or "") or object or ""

    def one_video(self, what: str) -> str | None:
        """The video of all; None: not known."""
        known = {video for video in self.objects.values() if video is not None}
        if len(known) > 1:
            raise InputError(f"{what} belong to one video, not to {', '.join(sorted(known))}")
        return known.pop() if known else None


def squashed(score: float) -> float:
    """A score, which has no bounds, between 0 and 1 in the same order; no probability."""
    return 0.5 + 0.5 * score / (1 + abs(score))


def clean(text: str) -> str:
    """As any file can hold it: no control characters, no half characters."""
    return _NOT_TEXT.sub("\ufffd", text.encode("utf-8", "replace").decode())


def stem(video: str) -> str:
    """kitchen, of clips/kitchen.mp4."""
    return PurePath(video.replace("\\", "/").rstrip("/")).stem or video


def local(url: str) -> str:
    """The path that a file:// address leads to; anything else as it is."""
    return unquote(url.removeprefix("file://")) if url.startswith("file://") else url


def times(start: Any, end: Any, scale: float = 1.0) -> tuple[float, float]:
    """Seconds that a file gives, checked; ``scale`` of them are its unit."""
    found = []
    for value in (start, end):
        try:
            number = float("nan") if isinstance(value, bool) else scale * float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number) or abs(number) > MOST_SECONDS:
            raise InputError(f"time {shown(value)} is not a finite number; correct it")
        found.append(number)
    if found[1] <= found[0]:
        raise InputError(f"ends at {found[1]:g} s, not after its start at {found[0]:g} s")
    return found[0], found[1]


def frames(first: Any, last: Any, base: int = 0) -> Window:
    """A window of frames that a file counts from ``base``, both ends inclusive, checked."""
    for value in (first, last):
        if type(value) is not int or not base <= value <= MOST_FRAME:
            raise InputError(f"frame {shown(value)} is not a whole number, {base} or more")
    if last < first:
        raise InputError(f"ends at frame {last}, before its start at frame {first}")
    return Window(first - base, last - base)
