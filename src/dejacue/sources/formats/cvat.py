"""CVAT XML 1.1 ("CVAT for video"): a track for each span, its state as a mutable attribute.

Frames are counted from 0; the box with outside="1" is the first frame after the span. CVAT has no
span without a box: here it is the whole picture where the video can be opened, else one pixel.
"""

from __future__ import annotations

from pathlib import PurePath
from xml.etree.ElementTree import Element

from dejacue.errors import DejaCueError, InputError
from dejacue.sources.documents import named
from dejacue.sources.formats.markup import add, as_xml, parse_xml
from dejacue.sources.formats.spans import Marks, Span, clean, frames
from dejacue.sources.video import open_video

ATTRIBUTE = "state"


def write(marks: Marks) -> str:
    video = marks.one_video("tracks")
    width, height = _size(video)
    last = max((span.frames.end for span in marks.spans), default=0) + 1
    root = Element("annotations")
    add(root, "version", "1.1")
    meta = add(root, "meta")
    task = add(meta, "task")
    for tag, text in (
        ("name", clean(PurePath(video or next(iter(marks.objects), "")).name)),
        ("size", str(last + 1)),
        ("mode", "interpolation"),
        ("overlap", "0"),
        ("start_frame", "0"),
        ("stop_frame", str(last)),
        ("frame_filter", ""),
    ):
        add(task, tag, text)
    labels = add(task, "labels")
    for object in marks.objects:
        label = add(labels, "label")
        add(label, "name", clean(object))
        attribute = add(add(label, "attributes"), "attribute")
        values = "\n".join(" ".join(clean(state).split()) for state in marks.states)
        for tag, text in (
            ("name", ATTRIBUTE),
            ("mutable", "True"),
            ("input_type", "select"),
            ("default_value", ""),
            ("values", f"\n{values}"),
        ):
            add(attribute, tag, text)
    size = add(task, "original_size")
    add(size, "width", str(width))
    add(size, "height", str(height))
    for note in marks.notes:
        add(meta, "note", clean(note))
    for number, span in enumerate(marks.spans):
        _track(root, number, span, width, height)
    return as_xml(root)


def _track(root: Element, number: int, span: Span, width: int, height: int) -> None:
    label = clean(span.object or "")
    track = add(root, "track", id=str(number), label=label, source="auto")
    ends = [(span.frames.start, "0"), (span.frames.end + 1, "1")]
    if span.frames.length > 1:  # readers that do not interpolate see the last frame as well
        ends.insert(1, (span.frames.end, "0"))
    for frame, outside in ends:
        box = add(
            track,
            "box",
            frame=str(frame),
            outside=outside,
            occluded="0",
            keyframe="1",
            xtl="0.0",
            ytl="0.0",
            xbr=f"{width}.0",
            ybr=f"{height}.0",
            z_order="0",
        )
        add(box, "attribute", " ".join(clean(span.state).split()), name=ATTRIBUTE)


def _size(video: str | None) -> tuple[int, int]:
    if video is not None:
        try:
            height, width = next(iter(open_video(video))).shape
        except (DejaCueError, StopIteration):
            pass
        else:
            return width, height
    return 1, 1


def read(text: str) -> list[Span]:
    """The runs of frames in which the attribute "state" of a track stays the same.

    A box holds until the next one of its track; the last one that is not outside, as CVAT writes
    every frame, for its own frame.
    """
    root = parse_xml(text, "annotations", "an export of CVAT for video 1.1")
    if root.find("track") is None and root.find("image") is not None:
        raise InputError('holds images, not tracks; export it as "CVAT for video 1.1"')
    spans = []
    for track in root.iter("track"):
        with named(f'track {track.get("id")} of "{track.get("label")}"'):
            spans += _spans(track)
    return spans


def _spans(track: Element) -> list[Span]:
    shapes: list[tuple[int, str | None]] = []
    for box in track:
        try:
            frame = int(box.get("frame", ""))
        except ValueError:
            raise InputError(f'frame "{box.get("frame")}" is not a whole number') from None
        states = [own.text or "" for own in box.iter("attribute") if own.get("name") == ATTRIBUTE]
        if not states and box.get("outside") != "1":
            raise InputError(f'frame {frame} has no attribute "{ATTRIBUTE}"; add it to the label')
        shapes.append((frame, None if box.get("outside") == "1" else states[0].strip()))
    shapes.sort(key=lambda own: own[0])
    spans: list[Span] = []
    begun: tuple[int, str | None] = -1, None
    for at, (frame, state) in enumerate(shapes):
        if state != begun[1]:
            if begun[1]:
                spans.append(Span(begun[1], frames(begun[0], frame - 1), object=track.get("label")))
            begun = frame, state
        if at == len(shapes) - 1 and state:
            spans.append(Span(state, frames(begun[0], frame), object=track.get("label")))
    return spans
