"""The scene: everything that a timeline draws of a finding, as one JSON object.

The report, the notebook widget and a web page draw the same scene with static/timeline.js. All
frames in it are those of the history, inclusive. Columns are packed: base64 of little-endian
numbers under the name of their type, {"f32": "…"}.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.questions import Question
from dejacue.records import History, Interval, Timeline, Vocabulary, Window
from dejacue.records._html import COLOURS
from dejacue.records.note import Severity
from dejacue.records.timeline import plain
from dejacue.report._timeline import Axis, curves

SCHEMA = "dejacue.scene/1"
MAX_KNOTS = 256  # of frames → seconds, where curves are thinned
Packed = dict[str, str]
Run = tuple[int, int]
_KINDS = {"f32": "<f4", "f64": "<f8", "i32": "<i4"}


class Range(msgspec.Struct, forbid_unknown_fields=True):
    first: int
    last: int


class Knots(msgspec.Struct, forbid_unknown_fields=True):
    """Frames and their values, to interpolate between; both grow."""

    frames: Packed
    values: Packed


class Curve(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A packed value for each observed frame or, thinned, the least and the greatest one in each
    of equal parts of the axis; NaN: none observed."""

    f32: str | None = None
    low: Packed | None = None
    high: Packed | None = None


class State(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    colour: str
    descriptions: list[str]


class SceneSpan(msgspec.Struct, forbid_unknown_fields=True):
    """An interval of a row. times: [start_s, end_s), source: frames of the file, where they are
    known."""

    start: int
    end: int
    score: float | None
    rank: int
    times: tuple[float, float] | None = None
    source: Run | None = None


class SceneRow(msgspec.Struct, forbid_unknown_fields=True):
    """One answer. description: None where it stands for all descriptions of its state; windows:
    what is claimed, empty where the state was not found; evidence: a value for each observed frame,
    or thinned; None: without a curve."""

    state: str
    description: str | None
    windows: list[SceneSpan]
    alternatives: list[SceneSpan]
    evidence: Curve | None


class SceneDoubt(msgspec.Struct, forbid_unknown_fields=True):
    start: int
    end: int
    text: str


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """Frames of which a person says that they show a state; None: none of the states."""

    state: str | None
    start: int
    end: int


class SceneQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """A frame worth an answer; expects: (state or None, its share), likeliest first."""

    frame: int
    expects: list[tuple[str | None, float]]
    gain: float
    source: int | None = None
    time: float | None = None


class Thumbnail(msgspec.Struct, forbid_unknown_fields=True):
    frame: int
    url: str
    crop: str | None = None  # of the object alone


class SceneNote(msgspec.Struct, forbid_unknown_fields=True):
    severity: Severity
    text: str


class SceneDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A timeline for drawing, as docs/timeline.md describes it field by field."""

    schema: str
    id: str
    object: str | None
    video: str | None
    axis: Range
    observed: list[Run]
    seen: list[Run] | None
    times: Knots | None
    source: Knots | None
    zero: str
    states: list[State]
    rows: list[SceneRow]
    presence: Curve | None
    doubts: list[SceneDoubt]
    references: dict[str, list[Run]] | None
    named: list[Named]
    changes: list[int]
    segments: list[Run] | None
    questions: list[SceneQuestion] | None
    thumbnails: list[Thumbnail]
    notes: list[SceneNote]
    settings: dict[str, Any]


def scene(
    history: History,
    timeline: Timeline,
    vocabulary: Vocabulary | None = None,
    *,
    references: Mapping[str, Sequence[Window]] | None = None,
    doubts: Iterable[tuple[Window, str]] = (),
    named: Mapping[str | None, Sequence[Window]] | None = None,
    segments: Iterable[Window] | None = None,
    questions: Iterable[Question] | None = None,
    thumbnails: Iterable[tuple[int, str] | tuple[int, str, str | None]] = (),
    video: str | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """Return a timeline as it is drawn: plain values that JSON has words for.

    vocabulary   for the name of the object and the changes that a person marked
    references   state → its true windows, and doubts (window, sentence): in frames of the file
    named        state (None: none of them) → windows in which a person says that it holds
    thumbnails   (frame, address of a picture and perhaps of one of the object alone)
    most         values of all curves together; longer ones are thinned to extremes
    """
    axis = Axis(history)
    rows = curves(history, timeline)
    room = None if most is None else max(most // (len(rows) + 1), 2)
    texts = {state: list(descriptions) for state, descriptions in timeline.states.items()}
    texts |= {state: [] for state in references or () if state not in texts}
    drawn = SceneDocument(
        SCHEMA,
        history.id,
        None if vocabulary is None else vocabulary.object,
        video,
        Range(*axis.frames),
        [_run(run) for run in history.runs()],
        None if history.seen.all() else _seen(history),
        _times(axis, most),
        _source(history, most),
        "median" if timeline.evidence is None else timeline.evidence.zero,
        [State(name, COLOURS[n % len(COLOURS)], texts[name]) for n, name in enumerate(texts)],
        [
            SceneRow(
                row.state,
                None if row.whole else " / ".join(row.descriptions),
                [_span(interval) for interval in row.claimed],
                [_span(interval) for interval in row.alternatives],
                None
                if row.response is None or timeline.meaningless
                else _curve(axis, row.response, room),
            )
            for row in rows
        ],
        None if history.presence is None else _curve(axis, history.presence, room),
        [
            SceneDoubt(here.start, here.end, text)
            for window, text in doubts
            if (here := axis.from_file(window))
        ],
        None
        if references is None
        else {
            state: [_run(here) for window in windows if (here := axis.from_file(window))]
            for state, windows in references.items()
        },
        [Named(state, *window) for state, windows in (named or {}).items() for window in windows],
        [] if vocabulary is None else _changes(history, vocabulary),
        None if segments is None else [_run(window) for window in segments],
        None
        if questions is None
        else [
            SceneQuestion(q.frame, list(q.expects.items()), q.gain, q.source, q.time_s)
            for q in questions
        ],
        [Thumbnail(*picture) for picture in sorted(thumbnails, key=lambda picture: picture[0])],
        [SceneNote(note.severity, str(note)) for note in timeline.notes],
        json.loads(json.dumps(_finite(plain(timeline.settings)), default=str)),
    )
    document: dict[str, Any] = msgspec.to_builtins(drawn)
    return document


def _seen(history: History) -> list[Run]:
    """Return runs of frames that the encoder saw."""
    frames = history.frames[history.seen]
    ends = np.flatnonzero(np.diff(frames) != 1)
    first, last = np.concatenate(([0], ends + 1)), np.concatenate((ends, [len(frames) - 1]))
    return [(int(a), int(b)) for a, b in zip(frames[first], frames[last], strict=True)]


def timeline_module() -> str:
    """Return the source of the module that draws scenes: one ES module without imports."""
    return resources.files("dejacue.report").joinpath("static/timeline.js").read_text("utf-8")


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
        problem = f"the thumbnail of frame {frame} is neither JPEG nor PNG"
        raise InputError(problem, field="thumbnails", value=frame, remedy="encode it first")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _run(window: Window) -> Run:
    return window.start, window.end


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, for which JSON has no word, by None."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _span(interval: Interval) -> SceneSpan:
    times = interval.times_s
    return SceneSpan(
        interval.start,
        interval.end,
        _finite(float(interval.score)),
        interval.rank,
        times if times is not None and math.isfinite(sum(times)) else None,
        None if interval.source_start is None else _run(interval.source),
    )


def _changes(history: History, vocabulary: Vocabulary) -> list[int]:
    at = (change.change_at(history) for change in vocabulary.changes)
    return [int(history.frames[position]) for position in at if position < len(history)]


def _times(axis: Axis, most: int | None) -> Knots | None:
    if not axis.has_clock or axis.known_times is None:
        return None
    return _knots(*axis.known_times, None if most is None else MAX_KNOTS)


def _source(history: History, most: int | None) -> Knots | None:
    source = history.source_frames
    if source is None or not history.sampled or (np.diff(source) <= 0).any():
        return None
    return _knots(history.frames, source, most)


def _knots(frames: NDArray[Any], values: NDArray[Any], most: int | None) -> Knots:
    """Return points between which the values grow evenly, or at most ``most`` even ones."""
    pace = np.diff(values) / np.diff(frames)
    turns = np.flatnonzero(np.abs(np.diff(pace)) > 1e-9) + 1
    at = np.unique(np.concatenate(([0], turns, [len(frames) - 1])))
    if most is not None and len(at) > most:
        at = np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))
    return Knots(packed(frames[at], "f64"), packed(values[at], "f64"))


def _curve(axis: Axis, values: NDArray[Any], room: int | None) -> Curve:
    """Return a value for each observed frame or, if there is no room for all, extremes of bins."""
    if room is None or len(values) <= room:
        return Curve(packed(values, "f32")["f32"])
    count = room // 2
    bins = ((axis.history.frames - axis.frames[0]) * (count / axis.span)).astype(np.int64)
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    ends = []
    for extreme in (np.minimum, np.maximum):
        of_bins = np.full(count, np.nan, np.float32)
        of_bins[np.minimum(bins[starts], count - 1)] = extreme.reduceat(values, starts)
        ends.append(packed(of_bins, "f32"))
    return Curve(None, *ends)
