"""OpenTimelineIO .otio: a clip of the video with a marker for each span.

Times are frames at the rate of the video where its frames come at one, else microseconds; a marker
is a start and a duration, so that its end is the end of the last frame. Notes are metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dejacue.errors import InputError
from dejacue.sources.documents import as_json, named, parse_json
from dejacue.sources.formats.spans import Marks, Span, local, times

_EXACT_S = 1e-6
_TICKS = 1_000_000


def write(marks: Marks) -> str:
    clips = [_clip(marks, video) for video in dict.fromkeys(map(marks.video_of, marks.objects))]
    track = {"OTIO_SCHEMA": "Track.1", "name": "states", "kind": "Video", "children": clips}
    stack = {"OTIO_SCHEMA": "Stack.1", "name": "tracks", "children": [track]}
    document = {
        "OTIO_SCHEMA": "Timeline.1",
        "name": "dejacue",
        "tracks": stack,
        "metadata": {"dejacue": {"notes": list(marks.notes)}},
    }
    return as_json(document) + "\n"


def _clip(marks: Marks, video: str) -> dict[str, Any]:
    objects = [own for own in marks.objects if marks.video_of(own) == video]
    spans = [span for span in marks.spans if span.object in objects]
    rate = _rate(marks, objects, spans)
    known = marks.objects[objects[0]]
    media: dict[str, Any] = {"OTIO_SCHEMA": "MissingReference.1"}
    if known is not None:
        media = {"OTIO_SCHEMA": "ExternalReference.1", "target_url": known}
    end = max((span.seconds[1] for span in spans), default=0.0)
    return {
        "OTIO_SCHEMA": "Clip.2",
        "name": video,
        "source_range": _range(0.0, end, rate),
        "media_references": {"DEFAULT_MEDIA": media},
        "active_media_reference_key": "DEFAULT_MEDIA",
        "markers": [
            {
                "OTIO_SCHEMA": "Marker.2",
                "name": span.state,
                "color": "GREEN",
                "marked_range": _range(*span.seconds, rate),
                "metadata": {
                    "dejacue": {
                        "object": span.object,
                        "score": span.score,
                        "descriptions": list(span.descriptions),
                    }
                },
            }
            for span in spans
        ],
    }


def _rate(marks: Marks, objects: list[str], spans: list[Span]) -> float:
    """That of the video, if counting frames by it gives the times that they have."""
    rate = marks.rates.get(objects[0], 0.0)
    for span in spans:
        if rate and span.window is not None:
            start, end = span.window.start / rate, (span.window.end + 1) / rate
            if max(abs(start - span.seconds[0]), abs(end - span.seconds[1])) < _EXACT_S:
                continue
        return _TICKS
    return rate or _TICKS


def _range(start: float, end: float, rate: float) -> dict[str, Any]:
    first = round(start * rate)
    return {
        "OTIO_SCHEMA": "TimeRange.1",
        "start_time": {"OTIO_SCHEMA": "RationalTime.1", "rate": rate, "value": first},
        "duration": {
            "OTIO_SCHEMA": "RationalTime.1",
            "rate": rate,
            "value": round(end * rate) - first,
        },
    }


def read(text: str) -> list[Span]:
    """The markers of clips, which count the time of their media."""
    document = parse_json(text)
    if not isinstance(document, dict) or "OTIO_SCHEMA" not in document:
        raise InputError("is not an OpenTimelineIO document: it has no OTIO_SCHEMA")
    return list(_markers(document))


def _markers(item: Any) -> Iterator[Span]:
    if isinstance(item, list):
        for own in item:
            yield from _markers(own)
    if not isinstance(item, dict):
        return
    is_clip = str(item.get("OTIO_SCHEMA")).startswith("Clip.")
    for marker in item.get("markers") or ():
        with named(f'marker "{marker.get("name") if isinstance(marker, dict) else marker}"'):
            if not is_clip:
                raise InputError(
                    "refers to the time of the edit, not of the video; put it on the clip"
                )
            yield _span(marker, _video(item))
    for key in ("tracks", "children"):
        yield from _markers(item.get(key))


def _video(clip: dict[str, Any]) -> str | None:
    media = clip.get("media_reference")
    several = clip.get("media_references")
    if isinstance(several, dict):
        media = several.get(str(clip.get("active_media_reference_key")))
    url = media.get("target_url") if isinstance(media, dict) else None
    return local(url) if isinstance(url, str) and url else None


def _span(marker: dict[str, Any], video: str | None) -> Span:
    try:
        start, lasting = (marker["marked_range"][key] for key in ("start_time", "duration"))
        first = start["value"] / start["rate"]
        last = first + lasting["value"] / lasting["rate"]
    except (KeyError, TypeError, ZeroDivisionError):
        raise InputError("has no range with a start, a duration and their rates") from None
    more = marker.get("metadata", {})
    own = more.get("dejacue") if isinstance(more, dict) else None
    own = own if isinstance(own, dict) else {}
    object = own.get("object")
    return Span(
        str(marker.get("name")),
        None,
        times(first, last),
        object if isinstance(object, str) else None,
        video,
    )
