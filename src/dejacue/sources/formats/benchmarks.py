"""References as the benchmarks QVHighlights (JSON lines) and ActivityNet (JSON) hold them.

Seconds; a segment ends where its last frame ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dejacue.errors import InputError, named
from dejacue.sources.documents import as_json, parse_documents, parse_json
from dejacue.sources.formats.spans import Marks, Span, member, times


def write_qvhighlights(marks: Marks) -> str:
    """Return a line for each state of a video; its query is the first description or the state."""
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
    for document in parse_documents(text):
        row = document if isinstance(document, dict) else {}
        with named(f"qid {row.get('qid')}"):
            if "pred_relevant_windows" in row:
                problem = "holds predictions (pred_relevant_windows)"
                remedy = "give references (relevant_windows)"
                raise InputError(problem, field="pred_relevant_windows", remedy=remedy)
            state, video = row.get("state", row.get("query")), row.get("vid")
            if not isinstance(state, str) or not isinstance(video, str):
                raise InputError('has no "query" and "vid"', field="query")
            for pair in _pairs(row.get("relevant_windows"), "relevant_windows"):
                spans.append(Span(state, None, pair, video=video))
    return spans


def write_activitynet(marks: Marks) -> str:
    videos = {
        video: {
            "subset": "validation",
            "annotations": [{"label": span.state, "segment": list(span.seconds)} for span in spans],
        }
        for video, spans in marks.by_video().items()
    }
    return as_json({"version": "VERSION 1.3", "database": videos}) + "\n"


def read_activitynet(text: str) -> list[Span]:
    document = parse_json(text)
    if isinstance(document, dict) and "results" in document:
        problem, remedy = 'holds predictions ("results")', 'references have a "database"'
        raise InputError(problem, field="results", remedy=remedy)
    videos = member(document, "database", dict)
    if videos is None:
        raise InputError('has no "database" of videos and their annotations', field="database")
    spans = []
    for video, content in videos.items():
        with named(f'video "{video}"'):
            for row in member(content, "annotations", list) or ():
                label = member(row, "label", str)
                if label is None:
                    raise InputError('an annotation has no "label"', field="label")
                (pair,) = _pairs([row.get("segment")], "segment")
                spans.append(Span(label, None, pair, video=video))
    return spans


def _pairs(pairs: Any, key: str) -> Iterator[tuple[float, float]]:
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f'"{key}" is not a list of pairs of start and end', field=key)
        yield times(*pair)
