"""OpenTimelineIO .otio: a clip of the video with a marker for each span.

Times are frames at the rate of the video where its frames come at one, else microseconds; a marker
is a start and a duration, so that its end is the end of the last frame. Notes are metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dejacue.errors import InputError, named
from dejacue.sources.documents import as_json, parse_json
from dejacue.sources.formats.spans import Marks, Span, local, member, times

_TOLERANCE_S = 1e-6
_MICROSECONDS = 1_000_000  # as a rate


def write(marks: Marks) -> str:
    clips = [_clip(marks, video, spans) for video, spans in marks.by_video().items()]
    track = {"OTIO_SCHEMA": "Track.1", "name": "states", "kind": "Video", "children": clips}
    document = {
        "OTIO_SCHEMA": "Timeline.1",
        "name": "dejacue",
        "tracks": {"OTIO_SCHEMA": "Stack.1", "name": "tracks", "children": [track]},
        "metadata": {"dejacue": {"notes": list(marks.notes)}},
    }
    return as_json(document) + "\n"


def _clip(marks: Marks, video: str, spans: list[Span]) -> dict[str, Any]:
    first = next(name for name in marks.objects if marks.video_of(name) == video)
    rate = _rate(marks.rates.get(first, 0.0), spans)
    path = marks.objects[first]
    media: dict[str, Any] = {"OTIO_SCHEMA": "MissingReference.1"}
    if path is not None:
        media = {"OTIO_SCHEMA": "ExternalReference.1", "target_url": path}
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


def _rate(rate: float, spans: list[Span]) -> float:
    """Return the video's rate if counting frames by it gives the times of all spans."""
    for span in spans:
        if rate and span.window is not None:
            start, end = span.window.start / rate, (span.window.end + 1) / rate
            if max(abs(start - span.seconds[0]), abs(end - span.seconds[1])) < _TOLERANCE_S:
                continue
        return _MICROSECONDS
    return rate or _MICROSECONDS


def _range(start: float, end: float, rate: float) -> dict[str, Any]:
    first = round(start * rate)
    time = {"OTIO_SCHEMA": "RationalTime.1", "rate": rate}
    return {
        "OTIO_SCHEMA": "TimeRange.1",
        "start_time": {**time, "value": first},
        "duration": {**time, "value": round(end * rate) - first},
    }


def read(text: str) -> list[Span]:
    """Return the markers of clips, which count the time of their media."""
    document = parse_json(text)
    if not isinstance(document, dict) or "OTIO_SCHEMA" not in document:
        problem = "is not an OpenTimelineIO document: it has no OTIO_SCHEMA"
        raise InputError(problem, field="OTIO_SCHEMA")
    return list(_markers(document))


def _markers(document: Any) -> Iterator[Span]:
    pending = [document]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += reversed(item)
        if not isinstance(item, dict):
            continue
        is_clip = str(item.get("OTIO_SCHEMA")).startswith("Clip.")
        for marker in member(item, "markers", list) or ():
            with named(f'marker "{member(marker, "name", str) or ""}"'):
                if not is_clip:
                    problem = "refers to the time of the edit, not of the video"
                    raise InputError(problem, field="markers", remedy="put it on the clip")
                yield _span(marker, _video(item))
        pending += (item.get("children"), item.get("tracks"))


def _video(clip: dict[str, Any]) -> str | None:
    media = clip.get("media_reference")
    if (by_key := member(clip, "media_references", dict)) is not None:
        media = by_key.get(str(clip.get("active_media_reference_key")))
    url = member(media, "target_url", str)
    return local(url) if url else None


def _span(marker: dict[str, Any], video: str | None) -> Span:
    try:
        start, duration = (marker["marked_range"][key] for key in ("start_time", "duration"))
        first = start["value"] / start["rate"]
        last = first + duration["value"] / duration["rate"]
    except (KeyError, TypeError, ZeroDivisionError):
        problem = "has no range with a start, a duration and their rates"
        raise InputError(problem, field="marked_range") from None
    object = member(member(marker.get("metadata"), "dejacue", dict), "object", str)
    return Span(str(marker.get("name")), None, times(first, last), object, video)
