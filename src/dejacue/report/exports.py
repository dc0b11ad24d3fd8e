"""Retrievals as JSON, CSV, Parquet and in the formats of other tools, ready to be written.

Only JSON, CSV and Parquet can say that a state was not found; the others leave it out. All but
ActivityNet and QVHighlights, which have no place for text, carry the notes. Where a readout lists
occurrences, all of them are written.

Frames are inclusive here, seconds there run to the *end* of the last frame. A frame lasts until
the next one is shown: of two neighbouring frames that is the time of the second; before a gap it
is the time of the frame plus its share of the gap (seconds to the next observed frame over frames
to it); the last frame of a history lasts as long as the median frame. All of it comes from the
container's times, never from a frame rate; a history without times is refused.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need, unknown
from dejacue.records import History, Moment, Retrieval
from dejacue.records.columns import Rows
from dejacue.records.retrieval import rows_of, to_source
from dejacue.sources.documents import as_json as json_line

Retrievals = Retrieval | Iterable[Retrieval]
Histories = History | Iterable[History]
Videos = Mapping[str, str]  # history → its video; the id of a history that is not in it
_COLUMNS = ("history", "state", "description", "start", "end", "score", "level", "rank")


def frame_ends_s(history: History) -> NDArray[np.float64]:
    """(N,) seconds at which each observed frame ends, as the module says."""
    times = history.times_s
    if times is None:
        raise InputError(
            f'history "{history.id}" has no times, and this format counts in seconds; build it '
            "from a video, or give times_s (for a folder of images: a rate)"
        )
    if len(times) < 2:
        raise InputError(
            f'history "{history.id}" has a single frame, and nothing says how long it lasts; '
            "export it by frames (CSV, JSON, Parquet)"
        )
    steps, frames = np.diff(times), np.diff(history.frames)
    late = np.flatnonzero(steps <= 0)
    if late.size:
        raise InputError(
            f'history "{history.id}": times_s do not increase at frame '
            f"{history.frames[late[0] + 1]}; order frames by their presentation time"
        )
    lasting = steps / frames
    usual = np.median(lasting[frames == 1]) if (frames == 1).any() else np.median(lasting)
    ends: NDArray[np.float64] = times + np.append(lasting, usual)
    return ends


def as_json(*retrievals: Retrieval) -> str:
    """One retrieval as it is, several as a list."""
    texts = [retrieval.to_json() for retrieval in retrievals]
    return (texts[0] if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]") + "\n"


def as_csv(*retrievals: Retrieval) -> str:
    """The rows of ``Retrieval.to_rows``."""
    rows = [row for retrieval in retrievals for row in retrieval.to_rows()]
    names = dict.fromkeys(name for row in rows for name in row)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def to_parquet_bytes(retrievals: Retrievals) -> bytes:
    """The rows of ``Retrieval.to_rows`` as Parquet; pyarrow writes it, or else polars."""
    columns = {name: [] for name in _COLUMNS} | Rows(_several(retrievals)).table()
    stream = io.BytesIO()
    if find_spec("pyarrow") is None and find_spec("polars") is not None:
        need("polars", "pip install pyarrow").DataFrame(columns).write_parquet(stream)
    else:
        table = need("pyarrow", "pip install pyarrow").table(columns)
        need("pyarrow.parquet", "pip install pyarrow").write_table(table, stream)
    return stream.getvalue()


def to_qvhighlights(
    retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """JSON lines as Moment-DETR's ``standalone_eval`` reads them, one per description.

    pred_relevant_windows are [start_s, end_s, score], the found window first, then the
    alternatives; qid counts from 1. There are no pred_saliency_scores, which are optional there.
    """
    lines: list[str] = []
    for retrieval, moment, windows in _timed(retrievals, histories):
        row = {
            "qid": len(lines) + 1,
            "query": moment.description,
            "vid": _video(retrieval, videos),
            "pred_relevant_windows": [[*span, score] for span, score in windows],
        }
        lines.append(json_line(row) + "\n")
    return "".join(lines)


def to_activitynet(
    retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """ActivityNet detections: {label, score, segment [start_s, end_s]} by video.

    The label is the state; windows and alternatives of all its descriptions are listed, best
    first, and those that several descriptions share once, since a second would count as wrong.
    """
    found: dict[str, dict[tuple[str, float, float], float]] = {}
    for retrieval, moment, windows in _timed(retrievals, histories):
        detections = found.setdefault(_video(retrieval, videos), {})
        for span, score in windows:
            key = (moment.state, *span)
            detections[key] = max(score, detections.get(key, score))
    results = {
        video: [
            {"label": label, "score": score, "segment": [start, end]}
            for (label, start, end), score in sorted(detections.items(), key=lambda item: -item[1])
        ]
        for video, detections in found.items()
    }
    document = {"version": "VERSION 1.3", "results": results, "external_data": {}}
    return json_line(document) + "\n"


def to_webvtt(
    retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """Subtitles of one video: notes, and a cue per found window with its state and description.

    Descriptions of a state that share a window share the cue. Several retrievals are several
    objects of the video, and their cues name them. Times before 0 are cut, since WebVTT has none.
    """
    given = _several(retrievals)
    shown = {_video(retrieval, videos) for retrieval in given} if videos else set()
    if len(shown) > 1:
        raise InputError(f"subtitles belong to one video, not to {', '.join(sorted(shown))}")
    cues: dict[tuple[float, float, str, str], list[str]] = {}
    for retrieval, moment, windows in _timed(given, histories):
        name = retrieval.history_id if len(given) > 1 else ""
        for span, _ in windows[: len(retrieval.windows_of(moment))]:
            cues.setdefault((*span, name, moment.state), []).append(moment.description)
    parts = ["WEBVTT\n", *(f"NOTE {_cue_text(text)}\n" for text in all_notes(given))]
    for number, ((start, end, name, state), texts) in enumerate(sorted(cues.items()), start=1):
        first = max(round(1000 * start), 0)
        last = max(round(1000 * end), first + 1)  # a cue that ends where it starts is not valid
        words = f"{name} · {state}" if name else state
        cue = _cue_text(f"{words}: {' / '.join(texts)}")
        parts.append(f"{number}\n{_stamp(first)} --> {_stamp(last)}\n{cue}\n")
    return "\n".join(parts)


def _stamp(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"


def _cue_text(text: str) -> str:
    """One line without marks of its own: an empty line would end the cue, and so would "-->"."""
    line = " ".join(text.encode("utf-8", "replace").decode().replace("\0", "\ufffd").split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def to_label_studio(
    retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
) -> str:
    """Label Studio tasks with the found windows as predictions, a region per description.

    Frames are counted from 1, both ends inclusive. They are those of the source where the history
    is given and knows them (the first and the last sampled one), else positions in the sequence.
    Occurrences are regions of their own. Notes are in ``data.notes``, a text.
    The tool opens the video itself: ``videos`` gives its path or address.
    The labelling view has ``<Video name="video" value="$video" frameRate=…/>`` with the true rate
    of the video, and ``<TimelineLabels name="states" toName="video">`` with a label per state.
    """
    known = _by_id(histories)
    tasks: dict[str, list[dict[str, Any]]] = {}
    told: dict[str, list[Retrieval]] = {}
    for retrieval in _several(retrievals):
        history = known.get(retrieval.history_id)
        video = _video(retrieval, videos)
        told.setdefault(video, []).append(retrieval)
        regions = tasks.setdefault(video, [])
        for moment in retrieval.found:
            for window, score in retrieval.windows_of(moment):
                start, end = window if history is None else to_source(history, window)
                value = {
                    "ranges": [{"start": start + 1, "end": end + 1}],
                    "timelinelabels": [moment.state],
                }
                regions.append(
                    {"id": f"dejacue-{len(regions) + 1}", "type": "timelinelabels",
                     "from_name": "states", "to_name": "video", "value": value,
                     "score": score, "meta": {"text": [moment.description]}}
                )  # fmt: skip
    rows = [
        {"data": {"video": video} | ({"notes": "\n".join(notes)} if notes else {}),
         "predictions": [{"model_version": "dejacue", "result": regions}]}
        for video, regions in tasks.items()
        for notes in [all_notes(told[video])]
    ]  # fmt: skip
    return json_line(rows) + "\n"


@dataclass(frozen=True)
class Export:
    """A format: call it with one or several retrievals and, where it is ``timed``, their histories.

    timed   it counts in seconds, so that the histories must be given and have times
    opens   its tool opens the video, so that ``videos`` must give paths, not names
    """

    suffix: str
    make: Callable[..., str | bytes]
    timed: bool
    opens: bool = False

    def __call__(
        self, retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
    ) -> bytes:
        made = self.make(retrievals, histories, videos=videos)
        return made if isinstance(made, bytes) else made.encode()


EXPORTS: dict[str, Export] = {
    "json": Export(".json", lambda found, *_, **__: as_json(*_several(found)), timed=False),
    "csv": Export(".csv", lambda found, *_, **__: as_csv(*_several(found)), timed=False),
    "vtt": Export(".vtt", to_webvtt, timed=True),
    "parquet": Export(".parquet", lambda found, *_, **__: to_parquet_bytes(found), timed=False),
    "qvhighlights": Export(".qvhighlights.jsonl", to_qvhighlights, timed=True),
    "activitynet": Export(".activitynet.json", to_activitynet, timed=True),
    "label-studio": Export(".label-studio.json", to_label_studio, timed=False, opens=True),
}


def export_for(path: str | os.PathLike[str], format: str | None = None) -> Export:
    """The format of that name, or else the one that the ending of the file name tells."""
    if format is not None:
        if format not in EXPORTS:
            raise unknown("format", format, EXPORTS)
        return EXPORTS[format]
    suffixes = {export.suffix: export for export in EXPORTS.values()}
    for suffix in sorted(suffixes, key=len, reverse=True):  # .activitynet.json before .json
        if os.fspath(path).lower().endswith(suffix):
            return suffixes[suffix]
    raise InputError(
        f"{os.fspath(path)}: the ending names no format; use one of {', '.join(suffixes)}"
    )


def _several(retrievals: Retrievals) -> list[Retrieval]:
    given = [retrievals] if isinstance(retrievals, Retrieval) else list(retrievals)
    if not given:
        raise InputError("there is no retrieval to export; locate something first")
    return given


def all_notes(retrievals: Sequence[Retrieval]) -> list[str]:
    """The notes of all; those that not all share say whose they are."""
    every = dict.fromkeys(text for own in retrievals for text in own.notes)
    shared = [text for text in every if all(text in own.notes for own in retrievals)]
    return shared + [
        f"{own.history_id}: {text}"
        for own in retrievals
        for text in own.notes
        if text not in shared
    ]


def _by_id(histories: Histories) -> dict[str, History]:
    given = [histories] if isinstance(histories, History) else histories
    return {history.id: history for history in given}


def _video(retrieval: Retrieval, videos: Videos | None) -> str:
    return (videos or {}).get(retrieval.history_id, retrieval.history_id)


Spans = list[tuple[tuple[float, float], float]]


def _timed(
    retrievals: Retrievals, histories: Histories
) -> Iterator[tuple[Retrieval, Moment, Spans]]:
    """Every moment with ((start_s, end_s), score) of its window and of its alternatives."""
    known = _by_id(histories)
    for retrieval in _several(retrievals):
        history = known.get(retrieval.history_id)
        if history is None:
            raise InputError(
                f'history "{retrieval.history_id}" is not given, and this format counts in '
                "seconds, which lie in it; give the history beside the retrieval"
            )
        ends = frame_ends_s(history)
        assert history.times_s is not None
        for moment in retrieval.found:
            spans: Spans = []
            for window, score in moment.windows:
                first, last = rows_of(history, window)
                spans.append(((float(history.times_s[first]), float(ends[last])), score))
            yield retrieval, moment, spans
