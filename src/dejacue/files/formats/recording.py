"""Rerun .rrd: the changes of state of each object on the timeline "video", in seconds.

Rerun knows changes, not spans: the end of a span is a change to "". An object whose states do not
overlap has one lane, OBJECT/state; others have one for each state. Spans of a state that touch
become one. Notes are a text document. The pictures of the video are not in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dejacue.errors import InputError, first_line, need
from dejacue.files.formats.spans import MAX_SECONDS, Marks, Span, times

TIMELINE = "video"
_REMEDY = "pip install rerun-sdk"
_LANE = "state"
_COLUMN = "StateChange:state"


def write(marks: Marks) -> bytes:
    rr = need("rerun", _REMEDY)
    recording = rr.RecordingStream("dejacue", recording_id="dejacue", send_properties=False)
    memory = recording.memory_recording()
    if marks.notes:
        recording.log("notes", rr.TextDocument("\n".join(marks.notes)), static=True)
    for object in marks.objects:
        of_object = [span for span in marks.spans if span.object == object]
        if any(abs(time) > MAX_SECONDS for span in of_object for time in span.seconds):
            raise InputError(f'history "{object}": Rerun holds at most {MAX_SECONDS:g} s')
        for lane, spans in _lanes(of_object).items():
            changes = _changes(spans)
            recording.send_columns(
                rr.new_entity_path([object, lane]),
                indexes=[rr.TimeColumn(TIMELINE, duration=[time for time, _ in changes])],
                columns=rr.StateChange.columns(state=[state for _, state in changes]),
            )
    return bytes(memory.drain_as_bytes())


def _lanes(spans: Sequence[Span]) -> dict[str, list[Span]]:
    ordered = sorted(spans, key=lambda span: span.seconds)
    overlap = any(b.seconds[0] < a.seconds[1] for a, b in pairwise(ordered))
    lanes: dict[str, list[Span]] = {}
    for span in ordered:
        lanes.setdefault(span.state if overlap else _LANE, []).append(span)
    return lanes


def _changes(spans: Sequence[Span]) -> list[tuple[float, str]]:
    """Return (seconds, state or "") in the order of time; only spans of one state may overlap."""
    changes: list[tuple[float, str]] = []
    for span in spans:
        start, end = span.seconds
        if changes and start <= changes[-1][0]:
            end = max(end, changes[-1][0]) if changes[-2][1] == span.state else end
            changes.pop()
        if not changes or changes[-1][1] != span.state:
            changes.append((start, span.state))
        changes.append((end, ""))
    return changes


def read(path: str) -> list[Span]:
    chunk = need("rerun.chunk", _REMEDY)
    rows: dict[str, list[tuple[float, str]]] = {}
    try:
        for piece in chunk.RrdReader(path).stream():
            table = piece.to_record_batch()
            if TIMELINE in piece.timeline_names and _COLUMN in table.schema.names:
                when = table.column(TIMELINE).cast("int64").to_pylist()
                states = table.column(_COLUMN).to_pylist()
                rows.setdefault(piece.entity_path, []).extend(
                    (time / 1e9, str(state[0]) if state else "")
                    for time, state in zip(when, states, strict=True)
                )
    except Exception as error:  # whatever Rust says of a damaged file
        raise InputError(f"cannot be read as a Rerun recording ({first_line(error)})") from None
    if not rows:
        raise InputError(f'has no StateChange on the timeline "{TIMELINE}"')
    return [span for entity, changes in rows.items() for span in _spans(entity, changes)]


def _spans(entity: str, changes: Sequence[tuple[float, Any]]) -> list[Span]:
    parts = re.findall(r"(?:\\.|[^/\\])+", entity)
    object = re.sub(r"\\(.)", r"\1", "/".join(parts[:-1])) or None
    ordered = sorted(changes, key=lambda change: change[0])
    spans = [
        Span(state, None, times(start, end), object)
        for (start, state), (end, _) in pairwise(ordered)
        if state and end > start
    ]
    if ordered[-1][1]:
        problem = f'{entity}: the state "{ordered[-1][1]}" never ends'
        raise InputError(f'{problem}; log a change to "" at its end')
    return spans
