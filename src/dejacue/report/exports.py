"""Retrievals as JSON, CSV, Parquet, Arrow and in the formats of other tools, ready to be written.

Only JSON and tables can say that a state was not found; the others leave it out. All but SubRip,
ActivityNet and QVHighlights, which have no place for text, carry the notes. Where a readout lists
occurrences, all of them are written.

Frames are inclusive here, seconds there run to the *end* of the last frame, by the times of the
container (``sources/formats/clock.py``); a history without times is refused.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dejacue.errors import InputError, need, unknown
from dejacue.records import History, Moment, Retrieval, Window
from dejacue.records.columns import Rows
from dejacue.records.retrieval import rows_of, to_source
from dejacue.sources.documents import as_json as json_line
from dejacue.sources.formats.clock import average_rate, frame_ends_s
from dejacue.sources.formats.fiftyone import temporal_detections
from dejacue.sources.formats.label_studio import view
from dejacue.sources.formats.registry import FORMATS
from dejacue.sources.formats.spans import Marks, Span
from dejacue.sources.formats.tables import table_bytes

Retrievals = Retrieval | Iterable[Retrieval]
Histories = History | Iterable[History]
Videos = Mapping[str, str]  # history → its video; the id of a history that is not in it
_COLUMNS = ("history", "state", "description", "start", "end", "score", "level", "rank")


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
    columns = _columns(retrievals)
    if find_spec("pyarrow") is None and find_spec("polars") is not None:
        stream = io.BytesIO()
        need("polars", "pip install pyarrow").DataFrame(columns).write_parquet(stream)
        return stream.getvalue()
    return table_bytes(columns, ".parquet")


def to_arrow_bytes(retrievals: Retrievals) -> bytes:
    """The rows of ``Retrieval.to_rows`` as an Arrow file (IPC, also called Feather)."""
    return table_bytes(_columns(retrievals), ".arrow")


def _columns(retrievals: Retrievals) -> dict[str, Any]:
    return {name: [] for name in _COLUMNS} | Rows(_several(retrievals)).table()


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


def marks_of(
    retrievals: Retrievals,
    histories: Histories = (),
    *,
    videos: Videos | None = None,
    timed: bool = True,
) -> Marks:
    """Every found window once, with the descriptions that share it and the best of their scores.

    Several retrievals are several objects. Frames are those of the source where the history is
    given and knows them, else positions in the sequence; ``timed`` asks for seconds.
    """
    given = _several(retrievals)
    known = _by_id(histories)
    spans: dict[tuple[str, str, Window], Span] = {}
    rates: dict[str, float] = {}
    for retrieval in given:
        name, history = retrieval.history_id, known.get(retrieval.history_id)
        clock = _clock(name, history) if timed else None
        if history is not None and (rate := average_rate(history)) is not None:
            rates[name] = rate
        for moment in retrieval.found:
            for window, score in retrieval.windows_of(moment):
                key = (name, moment.state, window)
                texts: tuple[str, ...] = (moment.description,)
                if key in spans:
                    texts = (*spans[key].descriptions, *texts)
                    score = max(score, spans[key].score or score)
                seconds = None if clock is None else clock(window)
                source = window if history is None else to_source(history, window)
                video = (videos or {}).get(name)
                spans[key] = Span(moment.state, source, seconds, name, video, score, texts)
    objects = {own.history_id: (videos or {}).get(own.history_id) for own in given}
    told: dict[str, list[Retrieval]] = {}
    for own in given:
        told.setdefault(_video(own, videos), []).append(own)
    notes_of = {video: all_notes(some) for video, some in told.items()}
    return Marks(list(spans.values()), objects, all_notes(given), notes_of, rates)


def to_fiftyone(
    retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
) -> dict[str, Any]:
    """Video → ``fiftyone.TemporalDetections``, to be set as a field of its sample; needs the
    package."""
    return temporal_detections(marks_of(retrievals, histories, videos=videos, timed=False))


@dataclass(frozen=True)
class Export:
    """A format: call it with one or several retrievals and, where it is ``timed``, their histories.

    timed   it counts in seconds, so that the histories must be given and have times
    opens   its tool opens the video, so that ``videos`` must give paths, not names
    also    other endings that name it
    beside  the ending and the text of a file that its tool wants as well
    asked   not in the folder of a report, only where it is asked for
    """

    suffix: str
    make: Callable[..., str | bytes]
    timed: bool
    opens: bool = False
    also: tuple[str, ...] = ()
    beside: tuple[str, Callable[[Marks], str]] | None = None
    asked: bool = False

    def __call__(
        self, retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
    ) -> bytes:
        made = self.make(retrievals, histories, videos=videos)
        return made if isinstance(made, bytes) else made.encode()


def _export(name: str, **more: Any) -> Export:
    """A format of another tool."""
    own = FORMATS[name]

    def make(
        retrievals: Retrievals, histories: Histories = (), *, videos: Videos | None = None
    ) -> str | bytes:
        return own.write(marks_of(retrievals, histories, videos=videos, timed=own.timed))

    return Export(own.suffix, make, own.timed, own.opens, own.suffixes[1:], **more)


EXPORTS: dict[str, Export] = {
    "json": Export(".json", lambda found, *_, **__: as_json(*_several(found)), timed=False),
    "csv": Export(".csv", lambda found, *_, **__: as_csv(*_several(found)), timed=False),
    "vtt": _export("vtt"),
    "srt": _export("srt", asked=True),
    "parquet": Export(".parquet", lambda found, *_, **__: to_parquet_bytes(found), timed=False),
    "arrow": Export(
        ".arrow", lambda found, *_, **__: to_arrow_bytes(found), timed=False, asked=True
    ),
    "qvhighlights": Export(".qvhighlights.jsonl", to_qvhighlights, timed=True),
    "activitynet": Export(".activitynet.json", to_activitynet, timed=True),
    "label-studio": _export("label-studio", beside=(".labelstudio.config.xml", view)),
    "fiftyone": _export("fiftyone", asked=True),
    "cvat": _export("cvat", asked=True),
    "eaf": _export("eaf", asked=True),
    "otio": _export("otio", asked=True),
    "rerun": _export("rerun", asked=True),
}


def export_for(path: str | os.PathLike[str], format: str | None = None) -> Export:
    """The format of that name, or else the one that the ending of the file name tells."""
    plug_ins = [name for name in FORMATS.loaded() if name not in FORMATS.built_in]
    known = {**EXPORTS, **{name: _export(name, asked=True) for name in plug_ins}}
    if format is not None:
        if format not in known:
            raise unknown("format", format, known)
        return known[format]
    suffixes = {own.suffix: own for own in known.values()}
    also = {other: own for own in known.values() for other in own.also}
    for suffix in sorted({**suffixes, **also}, key=len, reverse=True):  # .cvat.xml before .xml
        if os.fspath(path).lower().endswith(suffix):
            return {**suffixes, **also}[suffix]
    raise InputError(
        f"{os.fspath(path)}: the file ending matches no format; use one of {', '.join(suffixes)}"
    )


def _several(retrievals: Retrievals) -> list[Retrieval]:
    given = [retrievals] if isinstance(retrievals, Retrieval) else list(retrievals)
    if not given:
        raise InputError("there is no retrieval to export; run locate first")
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


def _clock(name: str, history: History | None) -> Callable[[Window], tuple[float, float]]:
    """Windows of a retrieval → seconds."""
    if history is None:
        raise InputError(
            f'history "{name}" is not given, but this format counts seconds, which come from it; '
            "give the history along with the retrieval"
        )
    own, ends = history, frame_ends_s(history)

    def seconds(window: Window) -> tuple[float, float]:
        first, last = rows_of(own, window)
        assert own.times_s is not None
        return float(own.times_s[first]), float(ends[last])

    return seconds


Spans = list[tuple[tuple[float, float], float]]


def _timed(
    retrievals: Retrievals, histories: Histories
) -> Iterator[tuple[Retrieval, Moment, Spans]]:
    """Every moment with ((start_s, end_s), score) of its window and of its alternatives."""
    known = _by_id(histories)
    for retrieval in _several(retrievals):
        seconds = _clock(retrieval.history_id, known.get(retrieval.history_id))
        for moment in retrieval.found:
            yield retrieval, moment, [(seconds(own), score) for own, score in moment.windows]
