"""Moments as the benchmarks QVHighlights (JSON lines) and ActivityNet (JSON) hold them.

Seconds; a segment ends where its last frame ends. Answers and references have other keys, and
answers are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dejacue.atomic import write_bytes
from dejacue.errors import InputError, StrPath, in_file, named
from dejacue.files.documents import as_json, parse_documents, parse_json, read_text
from dejacue.files.formats.registry import MAX_BYTES, Format
from dejacue.files.formats.spans import Marks, Span, member, times
from dejacue.files.results import references_as, references_in
from dejacue.records import Reference
from dejacue.report.exports import Histories, Timelines, Videos, seconds, with_histories


def qvhighlights_answers(
    timelines: Timelines, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """Return JSON lines as Moment-DETR's ``standalone_eval`` reads them, one per description.

    pred_relevant_windows are [start_s, end_s, score], best first, since R@1 takes the first; qid
    counts from 1. There are no pred_saliency_scores, which are optional there.
    """
    lines: list[str] = []
    for timeline, history in with_histories(timelines, histories):
        for state, texts in timeline.states.items():
            for text in texts or (state,):
                intervals = [i for i in timeline[state] if i.description in (None, text)]
                intervals.sort(key=lambda interval: (not interval.confirmed, -interval.score))
                windows = [[*seconds(timeline, history, i), i.score] for i in intervals]
                row = {
                    "qid": len(lines) + 1,
                    "query": text,
                    "vid": (videos or {}).get(timeline.history_id, timeline.history_id),
                    "pred_relevant_windows": windows,
                }
                lines += [as_json(row) + "\n"] if windows else []
    return "".join(lines)


def activitynet_answers(
    timelines: Timelines, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """Return ActivityNet detections: {label, score, segment [start_s, end_s]} by video.

    The label is the state; its intervals are listed best first, and those that several
    descriptions share once, since a second would count as wrong.
    """
    detections: dict[str, dict[tuple[str, float, float], float]] = {}
    for timeline, history in with_histories(timelines, histories):
        scores = detections.setdefault(
            (videos or {}).get(timeline.history_id, timeline.history_id), {}
        )
        for interval in timeline:
            key = (interval.state, *seconds(timeline, history, interval))
            scores[key] = max(interval.score, scores.get(key, interval.score))
    results = {
        video: [
            {"label": label, "score": score, "segment": [start, end]}
            for (label, start, end), score in sorted(scores.items(), key=lambda item: -item[1])
        ]
        for video, scores in detections.items()
    }
    document = {"version": "VERSION 1.3", "results": results, "external_data": {}}
    return as_json(document) + "\n"


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
                raise InputError(f"{problem}; give references (relevant_windows)")
            state, video = row.get("state", row.get("query")), row.get("vid")
            if not isinstance(state, str) or not isinstance(video, str):
                raise InputError('has no "query" and "vid"')
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
        raise InputError('holds predictions ("results"); references have a "database"')
    videos = member(document, "database", dict)
    if videos is None:
        raise InputError('has no "database" of videos and their annotations')
    spans = []
    for video, content in videos.items():
        with named(f'video "{video}"'):
            for row in member(content, "annotations", list) or ():
                label = member(row, "label", str)
                if label is None:
                    raise InputError('an annotation has no "label"')
                (pair,) = _pairs([row.get("segment")], "segment")
                spans.append(Span(label, None, pair, video=video))
    return spans


def _pairs(pairs: Any, key: str) -> Iterator[tuple[float, float]]:
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f'"{key}" is not a list of pairs of start and end')
        yield times(*pair)


QVHIGHLIGHTS = Format(
    "qvhighlights", (".qvhighlights.jsonl",), 1e-6, write_qvhighlights, read_qvhighlights
)
ACTIVITYNET = Format(
    "activitynet", (".activitynet.json",), 1e-6, write_activitynet, read_activitynet
)
MAKERS = {QVHIGHLIGHTS.name: qvhighlights_answers, ACTIVITYNET.name: activitynet_answers}


def benchmark_of(path: StrPath) -> Format | None:
    """Return the benchmark whose files have this ending."""
    name = os.fspath(path).lower()
    return next(
        (each for each in (QVHIGHLIGHTS, ACTIVITYNET) if name.endswith(each.suffixes)), None
    )


def benchmark_in(path: StrPath) -> Format | None:
    """Return the benchmark of a file that is there, by its ending or, under another name, by what
    it holds; None: neither."""
    if (benchmark := benchmark_of(path)) is not None:
        return benchmark
    name = os.fspath(path)
    if name.lower().endswith(".jsonl"):
        return QVHIGHLIGHTS
    if not name.lower().endswith(".json"):
        return None
    document = parse_json(read_text(name, MAX_BYTES, "split it"))
    is_activitynet = isinstance(document, dict) and {"database", "results"} & set(document)
    return ACTIVITYNET if is_activitynet else None


def write_answers(path: StrPath, timelines: Timelines, histories: Histories = ()) -> Path:
    """Write timelines as predictions of the benchmark whose files have this ending; the histories
    are needed where the timelines have no times."""
    with in_file(path):
        text = MAKERS[_benchmark(path).name](timelines, histories)
        return write_bytes(path, text.encode())


def write_moments(path: StrPath, references: Iterable[Reference], *, times: Any = None) -> Path:
    """Write references; ``times`` as in ``dejacue.files.write_references``."""
    with in_file(path):
        return write_bytes(path, references_as(references, _benchmark(path), times=times))


def read_moments(
    path: StrPath, *, times: Any = None, history: str | None = None
) -> list[Reference]:
    """Read references; the arguments are those of ``dejacue.files.read_references``."""
    with in_file(path):
        benchmark = benchmark_in(path)
        if benchmark is None:
            raise InputError("is no file of QVHighlights or ActivityNet; give a .jsonl or .json")
    return references_in(os.fspath(path), benchmark, times, None, history)


def _benchmark(path: StrPath) -> Format:
    benchmark = benchmark_of(path)
    if benchmark is None:
        endings = f"{QVHIGHLIGHTS.suffix} or {ACTIVITYNET.suffix}"
        raise InputError(f"the file ending names no benchmark; use {endings}")
    return benchmark
