"""What the formats of other tools have in common: spans in which a state of an object holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from dejacue.errors import InputError, brief, first_line
from dejacue.records import Window
from dejacue.records.fields import MAX_FRAME

MAX_SECONDS = 1e9
T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """A state and when it holds: in frames of the file, in seconds, or in both.

    window       frames from 0, both ends inclusive
    times_s      from the start of the first frame to the end of the last one
    object       the history; None: the file names none
    video        its path or name; None: not known
    confidence   how far to trust it, 0 … 1: it ranks spans and is no probability
    descriptions the sentences that describe the state, where they are known
    """

    state: str
    window: Window | None = None
    times_s: tuple[float, float] | None = None
    object: str | None = None
    video: str | None = None
    confidence: float | None = None
    descriptions: tuple[str, ...] = ()

    @property
    def frames(self) -> Window:
        assert self.window is not None, "a format in frames is given windows"
        return self.window

    @property
    def seconds(self) -> tuple[float, float]:
        assert self.times_s is not None, "a format in seconds is given times"
        return self.times_s

    @property
    def milliseconds(self) -> tuple[int, int]:
        """Return the times in whole milliseconds: not before 0, and at least one long."""
        start, end = self.seconds
        first = max(round(1000 * start), 0)
        return first, max(round(1000 * end), first + 1)


@dataclass(frozen=True)
class Marks:
    """The spans that are written to one file.

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
        """Return the video of an object, or its own name where the video is not known."""
        return self.objects.get(object or "") or object or ""

    def by_video(self, key: Callable[[str], str] = str) -> dict[str, list[Span]]:
        """Return the spans of each video, also of one without spans, under ``key(video)``."""
        videos: dict[str, list[Span]] = {key(self.video_of(name)): [] for name in self.objects}
        for span in self.spans:
            videos[key(self.video_of(span.object))].append(span)
        return videos

    def one_video(self, what: str) -> str | None:
        """Return the video of all objects (None: not known); several are refused."""
        known = {video for video in self.objects.values() if video is not None}
        if len(known) > 1:
            raise InputError(f"{what} belong to one video, not to {', '.join(sorted(known))}")
        return known.pop() if known else None


def stem(video: str) -> str:
    """Return the name of a video without folder and ending."""
    return PurePath(video.replace("\\", "/").rstrip("/")).stem or video


def member(item: object, key: str, kind: type[T]) -> T | None:
    """Return ``item[key]`` of a JSON object; None where it is missing or of another type."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, kind) else None


def times(start: Any, end: Any, scale: float = 1.0) -> tuple[float, float]:
    """Check the times of a span in a file and return them in seconds; ``scale`` is their unit."""
    seconds = []
    for value in (start, end):
        try:
            number = math.nan if isinstance(value, bool) else scale * float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number) or abs(number) > MAX_SECONDS:
            raise InputError(f"time {brief(value)} is not a finite number; correct it")
        seconds.append(number)
    if seconds[1] <= seconds[0]:
        raise InputError(f"ends at {seconds[1]:g} s, not after its start at {seconds[0]:g} s")
    return seconds[0], seconds[1]


def frames(first: Any, last: Any, base: int = 0) -> Window:
    """Check the frames of a span, counted from ``base`` with both ends inclusive."""
    for value in (first, last):
        if type(value) is not int or not base <= value <= MAX_FRAME:
            raise InputError(f"frame {brief(value)} is not a whole number, {base} or more")
    if last < first:
        raise InputError(f"ends at frame {last}, before its start at frame {first}")
    return Window(first - base, last - base)


def parse_xml(text: str, root: str, what: str) -> Element:
    """Return the root of a document; definitions, which can grow without bounds, are refused."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("defines entities (<!DOCTYPE>), which such files do not need; remove them")
    try:
        element = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"not valid XML, or cut short ({first_line(error)})") from None
    if element.tag != root:
        problem = f"begins with <{element.tag:.40}>, not with <{root}>"
        raise InputError(f"{problem}; check that it is {what}")
    return element


def as_xml(root: Element, *, declaration: bool = True) -> str:
    """Return a document as text, with or without the <?xml …?> line that not every tool takes."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' if declaration else ""
    return f"{head}{ElementTree.tostring(root, 'unicode')}\n"


def add(parent: Element, tag: str, text: str | None = None, **attributes: str) -> Element:
    """Append a child element and return it."""
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child


def add_texts(parent: Element, **texts: str) -> None:
    """Append a child with text for each keyword, which is its tag."""
    for tag, text in texts.items():
        add(parent, tag, text)
