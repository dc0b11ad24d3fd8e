"""References as the benchmarks QVHighlights (JSON lines) and ActivityNet (JSON) hold them.

Seconds; a segment ends where its last frame ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dejacue.errors import InputError
from dejacue.sources.documents import as_json, named, parse_documents, parse_json
from dejacue.sources.formats.spans import Marks, Span, times


def write_qvhighlights(marks: Marks) -> str:
    """A line for each state of an object; the query is its first description, or the state."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for span in marks.spans:
        video = marks.video_of(span.object)
        row = rows.setdefault(
            (video, span.state),
            {
                "qid": len(rows) + 1,
                "query": (*span.descriptions, span.state)[0],
                "vid": video,
                "state": span.state,
                "relevant_windows": [],
            },
        )
        row["relevant_windows"].append(list(span.seconds))
    return "".join(as_json(row) + "\n" for row in rows.values())


def read_qvhighlights(text: str) -> list[Span]:
    spans = []
    for row in parse_documents(text):
        given = row if isinstance(row, dict) else {}
        with named(f"qid {given.get('qid')}"):
            if "pred_relevant_windows" in given:
                raise InputError(
                    "holds predictions (pred_relevant_windows); give references (relevant_windows)"
                )
            state, video = given.get("state", given.get("query")), given.get("vid")
            if not isinstance(state, str) or not isinstance(video, str):
                raise InputError('has no "query" and "vid"')
            for pair in _pairs(given.get("relevant_windows"), "relevant_windows"):
                spans.append(Span(state, None, pair, video=video))
    return spans


def write_activitynet(marks: Marks) -> str:
    videos: dict[str, dict[str, Any]] = {
        marks.video_of(own): {"subset": "validation", "annotations": []} for own in marks.objects
    }
    for span in marks.spans:
        own = {"label": span.state, "segment": list(span.seconds)}
        videos[marks.video_of(span.object)]["annotations"].append(own)
    return as_json({"version": "VERSION 1.3", "database": videos}) + "\n"


def read_activitynet(text: str) -> list[Span]:
    document = parse_json(text)
    if isinstance(document, dict) and "results" in document:
        raise InputError('holds predictions ("results"); references have a "database"')
    videos = document.get("database") if isinstance(document, dict) else None
    if not isinstance(videos, dict):
        raise InputError('has no "database" of videos and their annotations')
    spans = []
    for video, own in videos.items():
        with named(f'video "{video}"'):
            rows = own.get("annotations") if isinstance(own, dict) else None
            for row in rows if isinstance(rows, list) else ():
                if not isinstance(row, dict) or not isinstance(row.get("label"), str):
                    raise InputError('an annotation has no "label"')
                (pair,) = _pairs([row.get("segment")], "segment")
                spans.append(Span(row["label"], None, pair, video=video))
    return spans


def _pairs(given: Any, what: str) -> Iterator[tuple[float, float]]:
    for pair in given if isinstance(given, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f'"{what}" is not a list of pairs of start and end')
        yield times(*pair)
