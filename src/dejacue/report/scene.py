"""The scene: everything that a timeline draws of a finding, as one JSON object.

The report, the notebook widget and a web page draw the same scene with static/timeline.js. All
frames in it are those of the history, inclusive. Columns are packed: base64 of little-endian
numbers under the name of their type, {"f32": "…"}.
"""

from __future__ import annotations

import base64
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, extra, need
from dejacue.method.questions import Question
from dejacue.records import History, Interval, Timeline, Vocabulary, Window
from dejacue.records._html import COLOURS
from dejacue.records.reference import References
from dejacue.records.timeline import plain
from dejacue.report._timeline import Axis, curves, scores_of, windows_of

SCHEMA = "dejacue.scene/1"
MAX_KNOTS = 256  # of frames → seconds, where curves are thinned
Json = dict[str, Any]
Packed = dict[str, str]
Run = tuple[int, int]
_KINDS = {"f32": "<f4", "f64": "<f8", "i32": "<i4"}


def scene(
    history: History,
    timeline: Timeline,
    vocabulary: Vocabulary | None = None,
    *,
    references: References | None = None,
    doubts: Iterable[tuple[Window, str]] = (),
    named: Mapping[str | None, Sequence[Window]] | None = None,
    segments: Iterable[Window] | None = None,
    questions: Iterable[Question] | None = None,
    thumbnails: Iterable[tuple[int, str] | tuple[int, str, str | None]] = (),
    video: str | None = None,
    most: int | None = None,
) -> Json:
    """Return a timeline as it is drawn (docs/timeline.md): plain values that JSON has words for.

    vocabulary   for the name of the object and the changes that a person marked
    references   the true windows, and doubts (window, sentence): in frames of the file; a complete
                 Reference also says which occurrences were missed or are superfluous
    named        state (None: none of them) → windows in which a person says that it holds
    thumbnails   (frame, address of a picture and perhaps of one of the object alone)
    most         values of all curves together; longer ones are thinned to extremes
    """
    axis = Axis(history)
    rows = curves(history, timeline)
    room = None if most is None else max(most // (len(rows) + 1), 2)
    texts = {state: list(descriptions) for state, descriptions in timeline.states.items()}
    truth, scores = windows_of(references), scores_of(timeline, references)
    texts |= {state: [] for state in truth if state not in texts}
    with_curves = timeline.meaningless is None
    return {
        "schema": SCHEMA,
        "id": history.id,
        "object": None if vocabulary is None else vocabulary.object,
        "video": video,
        "axis": dict(zip(("first", "last"), axis.frames, strict=True)),
        "observed": [_run(run) for run in history.runs()],
        "times": _times(axis, most),
        "source": _source(history, most),
        "zero": "median" if timeline.evidence is None else timeline.evidence.zero,
        "states": [
            {"name": name, "colour": COLOURS[n % len(COLOURS)], "descriptions": texts[name]}
            for n, name in enumerate(texts)
        ],
        "rows": [
            {
                "state": row.state,
                "description": None if row.whole else " / ".join(row.descriptions),
                "windows": [_span(interval) for interval in row.intervals],
                "evidence": _curve(axis, row.response, room) if with_curves else None,
            }
            for row in rows
        ],
        "presence": _curve(axis, history.presence, room),
        "doubts": [
            {"start": here.start, "end": here.end, "text": text}
            for window, text in doubts
            if (here := axis.from_file(window))
        ],
        "references": None if references is None else _runs(axis, truth),
        "comparison": scores
        and {
            "text": scores.sentence,
            "missed": _runs(axis, scores.missed),
            "superfluous": _runs(axis, scores.superfluous),
        },
        "named": [
            {"state": state, "start": window.start, "end": window.end}
            for state, windows in (named or {}).items()
            for window in windows
        ],
        "changes": [] if vocabulary is None else _changes(history, vocabulary),
        "segments": None if segments is None else [_run(window) for window in segments],
        "questions": None if questions is None else [_question(q) for q in questions],
        "thumbnails": [
            dict(zip(("frame", "url", "crop"), (*picture, None), strict=False))
            for picture in sorted(thumbnails, key=lambda picture: picture[0])
        ],
        "notes": [note.to_dict() for note in timeline.notes],
        "settings": json.loads(json.dumps(_finite(plain(timeline.settings)), default=str)),
    }


def timeline_module() -> str:
    """Return the source of the module that draws scenes: one ES module without imports."""
    return resources.files("dejacue.report").joinpath("static/timeline.js").read_text("utf-8")


@functools.cache
def widget_class() -> Any:
    """Return the class of the widget of a notebook: a scene, and what is done in it."""
    anywidget = need("anywidget", extra("notebook"))
    import traitlets

    class TimelineWidget(anywidget.AnyWidget):  # type: ignore[misc, name-defined]
        _esm = timeline_module()
        scene = traitlets.Dict().tag(sync=True)
        options = traitlets.Dict().tag(sync=True)
        frame = traitlets.Int().tag(sync=True)
        selection = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
        windows = traitlets.List().tag(sync=True)

    return TimelineWidget


def packed(values: NDArray[Any], kind: str) -> Packed:
    """Return a column as text; kind: "f32", "f64" or "i32"."""
    return {kind: base64.b64encode(values.astype(_KINDS[kind]).tobytes()).decode()}


def unpacked(column: Packed) -> NDArray[Any]:
    """Return the column that ``packed`` was given."""
    ((kind, text),) = column.items()
    return np.frombuffer(base64.b64decode(text), _KINDS[kind])


def data_url(frame: int, data: bytes) -> str:
    """Return a picture as an address that holds all of it."""
    kinds = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png"}
    kind = next((kind for start, kind in kinds.items() if data.startswith(start)), None)
    if kind is None:
        raise InputError(f"the thumbnail of frame {frame} is neither JPEG nor PNG; encode it first")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _run(window: Window) -> Run:
    return window.start, window.end


def _runs(axis: Axis, of_file: Mapping[str, Sequence[Window]]) -> dict[str, list[Run]]:
    """Return windows of the file, by state, as far as they lie on the axis."""
    return {
        state: [_run(here) for window in windows if (here := axis.from_file(window))]
        for state, windows in of_file.items()
    }


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, for which JSON has no word, by None."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _span(interval: Interval) -> Json:
    times = interval.times_s
    return {
        "start": interval.start,
        "end": interval.end,
        "score": _finite(float(interval.score)),
        "confidence": _finite(interval.confidence),
        "trust": interval.trust,
        "confirmed": interval.confirmed,
        "times": times if times is not None and math.isfinite(sum(times)) else None,
        "source": None if interval.source_start is None else _run(interval.source),
    }


def _question(question: Question) -> Json:
    fields = vars(question) | {"expects": list(question.expects.items()), "time": question.time_s}
    return {name: value for name, value in fields.items() if name != "time_s"}


def _changes(history: History, vocabulary: Vocabulary) -> list[int]:
    at = (change.change_at(history) for change in vocabulary.changes)
    return [int(history.frames[position]) for position in at if position < len(history)]


def _times(axis: Axis, most: int | None) -> Json | None:
    if not axis.has_clock or axis.known_times is None:
        return None
    return _knots(*axis.known_times, None if most is None else MAX_KNOTS)


def _source(history: History, most: int | None) -> Json | None:
    source = history.source_frames
    if source is None or not history.sampled or (np.diff(source) <= 0).any():
        return None
    return _knots(history.frames, source, most)


def _knots(frames: NDArray[Any], values: NDArray[Any], most: int | None) -> Json:
    """Return points between which the values grow evenly, or at most ``most`` even ones."""
    pace = np.diff(values) / np.diff(frames)
    turns = np.flatnonzero(np.abs(np.diff(pace)) > 1e-9) + 1
    at = np.unique(np.concatenate(([0], turns, [len(frames) - 1])))
    if most is not None and len(at) > most:
        at = np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))
    return {"frames": packed(frames[at], "f64"), "values": packed(values[at], "f64")}


def _curve(axis: Axis, values: NDArray[Any] | None, room: int | None) -> Json | None:
    """Return a value for each observed frame or, if there is no room for all, the least and the
    greatest one in each of equal parts of the axis (NaN: none observed); None without values."""
    if values is None:
        return None
    if room is None or len(values) <= room:
        return packed(values, "f32")
    count = room // 2
    bins = ((axis.history.frames - axis.frames[0]) * (count / axis.span)).astype(np.int64)
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    curve = {}
    for name, extreme in (("low", np.minimum), ("high", np.maximum)):
        of_bins = np.full(count, np.nan, np.float32)
        of_bins[np.minimum(bins[starts], count - 1)] = extreme.reduceat(values, starts)
        curve[name] = packed(of_bins, "f32")
    return curve
