"""CVAT XML 1.1 ("CVAT for video"): a track for each span, its state as a mutable attribute.

Frames are counted from 0; the box with outside="1" is the first frame after the span, of which one
that lasts to the end of the video has none. CVAT has no span without a box: here it is the whole
picture where the video can be opened, else one pixel.
"""

from __future__ import annotations

from itertools import groupby, zip_longest
from pathlib import PurePath
from xml.etree.ElementTree import Element

from dejacue.errors import DejaCueError, InputError, named
from dejacue.files.formats.spans import Marks, Span, add, add_texts, as_xml, frames, parse_xml
from dejacue.records._html import printable
from dejacue.video.video import open_video

ATTRIBUTE = "state"


def write(marks: Marks) -> str:
    video = marks.one_video("tracks")
    width, height, count = _extent(video)
    last = max((span.frames.end for span in marks.spans), default=0)
    last = count - 1 if count is not None and last < count else last + 1
    root = Element("annotations")
    add(root, "version", "1.1")
    meta = add(root, "meta")
    task = add(meta, "task")
    add_texts(
        task,
        name=printable(PurePath(video or next(iter(marks.objects), "")).name),
        size=str(last + 1),
        mode="interpolation",
        overlap="0",
        start_frame="0",
        stop_frame=str(last),
        frame_filter="",
    )
    labels = add(task, "labels")
    values = "\n".join(_one_line(state) for state in marks.states)
    for object in marks.objects:
        label = add(labels, "label")
        add(label, "name", printable(object))
        add_texts(
            add(add(label, "attributes"), "attribute"),
            name=ATTRIBUTE,
            mutable="True",
            input_type="select",
            default_value="",
            values=f"\n{values}",
        )
    add_texts(add(task, "original_size"), width=str(width), height=str(height))
    for note in marks.notes:
        add(meta, "note", printable(note))
    for number, span in enumerate(marks.spans):
        track = add(
            root, "track", id=str(number), label=printable(span.object or ""), source="auto"
        )
        ends = [(span.frames.start, "0")]
        if span.frames.length > 1:  # readers that do not interpolate see the last frame as well
            ends.append((span.frames.end, "0"))
        if span.frames.end < last:
            ends.append((span.frames.end + 1, "1"))
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
            add(box, "attribute", _one_line(span.state), name=ATTRIBUTE)
    return as_xml(root)


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _extent(video: str | None) -> tuple[int, int, int | None]:
    """Return the width and height of a video, and how many frames it has as far as is known."""
    if video is not None:
        try:
            opened = open_video(video)
            height, width = next(iter(opened)).shape
        except (DejaCueError, StopIteration):
            pass
        else:
            return width, height, opened.length
    return 1, 1, None


def read(text: str) -> list[Span]:
    """Return the runs of frames in which the attribute "state" of a track stays the same.

    A box holds until the next one of its track; the last one that is not outside, as CVAT writes
    every frame, for its own frame.
    """
    root = parse_xml(text, "annotations", "an export of CVAT for video 1.1")
    if root.find("track") is None and root.find("image") is not None:
        raise InputError('holds images, not tracks; export it as "CVAT for video 1.1"')
    spans = []
    for track in root.findall("track"):
        label = track.get("label")
        with named(f'track {track.get("id")} of "{label}"'):
            shapes = sorted(map(_shape, track), key=lambda shape: shape[0])
            runs = [
                (state, [frame for frame, _ in run])
                for state, run in groupby(shapes, key=lambda shape: shape[1])
            ]
            for (state, numbers), following in zip_longest(runs, runs[1:]):
                if state:
                    last = following[1][0] - 1 if following else numbers[-1]
                    spans.append(Span(state, frames(numbers[0], last), object=label))
    return spans


def _shape(box: Element) -> tuple[int, str | None]:
    """Return the frame of a box and its state; None: the object is outside."""
    try:
        frame = int(box.get("frame", ""))
    except ValueError:
        raise InputError(f'frame "{box.get("frame")}" is not a whole number') from None
    if box.get("outside") == "1":
        return frame, None
    for attribute in box.findall("attribute"):
        if attribute.get("name") == ATTRIBUTE:
            return frame, (attribute.text or "").strip()
    raise InputError(f'frame {frame} has no attribute "{ATTRIBUTE}"; add it to the label')
