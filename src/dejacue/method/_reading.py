"""What a caller gets of what a readout found: columns of a batch, the reading of one history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from dejacue.method._tables import Answers
from dejacue.method.coordinates import Directions, unit_rows
from dejacue.method.states import ScoredWindow
from dejacue.records import (
    Alternative,
    Columns,
    Diagnostics,
    History,
    Moment,
    Reading,
    Vocabulary,
    Window,
)
from dejacue.records.columns import Head, timed_columns
from dejacue.records.example import NONE
from dejacue.records.retrieval import read_only, to_source

if TYPE_CHECKING:
    from dejacue.method.view import Batch, Readout, View

STILL = (
    "all frames look the same to the encoder, so the frames found are arbitrary; is this a still "
    "picture, or do the masks cover the background?"
)
_NEARLY = 1e-6  # of a cosine
MOST_NAMED = 5  # examples of a state, in a note
_FIRST_ROWS, _MAX_ROWS = 8, 1024  # compared at a time


@lru_cache(maxsize=256)
def settings_of(readout: Readout, coordinates: str, top: int | None) -> Mapping[str, Any]:
    """All settings as plain values, for JSON."""
    settings: dict[str, Any] = {
        "coordinates": coordinates,
        "readout": {"name": readout.name, **readout.settings()},
        "top": 1 if readout.usual_windows == 1 and top is None else top,
    }
    if readout.lists_occurrences:
        settings["further_windows"] = "occurrences"
    found: Mapping[str, Any] = read_only(settings)
    return found


def columns_of(readout: Readout, batch: Batch, found: Answers, top: int | None) -> Columns:
    """The windows of a batch."""
    counts = [len(vocabulary) for vocabulary in batch.vocabularies]
    times, source = timed_columns(batch.histories, counts, found.start, found.end)
    heads = [
        Head(h.id, h.encoder or v.encoder, v, _notes(readout, h, v, own))
        for h, v, own in zip(batch.histories, batch.vocabularies, batch.directions, strict=True)
    ]
    return Columns(
        heads,
        [0, *accumulate(counts)],
        found.first,
        found.last,
        found.score,
        readout.level,
        settings_of(readout, batch.coordinates.name, top),
        times,
        source,
        found.absent,
    )


def reading_of(
    readout: Readout, view: View, top: int | None, diagnostics: bool, hints: bool
) -> Reading:
    """Everything a readout says of one history."""
    found = readout.find_one(view)
    retrieval = columns_of(readout, view, found, top).retrieval(0)
    moments = list(retrieval)
    more = (readout.usual_windows if top is None else top) - 1
    if more:
        share = readout.usual_share if top is None else None
        moments = [
            replace(moment, alternatives=_alternatives(view.history, moment, windows, share))
            for moment, windows in zip(
                moments, readout.alternatives(view, found, more), strict=True
            )
        ]
    if diagnostics:
        why = _diagnostics(readout, view, found)
        moments = [replace(m, diagnostics=own) for m, own in zip(moments, why, strict=True)]
    notes = retrieval.notes
    if hints and _still(view.history):
        notes += (STILL,)
    elif hints:
        notes += (*_same_windows(moments), *readout.hints(view))
    retrieval = replace(retrieval, moments=tuple(moments), notes=notes)
    return Reading(retrieval, readout.evidence(view), occurrences_of(readout, view))


def occurrences_of(readout: Readout, view: View) -> dict[str, tuple[Moment, ...]] | None:
    """Every window of each state, best first; None where the readout has one each."""
    every = readout.occurrences(view)
    if every is None:
        return None
    return {
        state: tuple(
            _occurrence(view.history, state, (*texts, state)[0], *window) for window in windows
        )
        for (state, texts), windows in zip(view.vocabulary.states.items(), every, strict=True)
    }


def _occurrence(
    history: History, state: str, text: str, first: int, last: int, score: float
) -> Moment:
    own = _alternative(history, first, last, score)
    return Moment(state, text, own.window, score, "state", own.times_s, source=own.source)


def _alternatives(
    history: History, moment: Moment, windows: Sequence[ScoredWindow], share: float | None
) -> tuple[Alternative, ...]:
    """As frames and seconds; those that reach this share of the best score."""
    least = -np.inf if share is None else share * moment.score
    return tuple(_alternative(history, *window) for window in windows if window[2] >= least)


def _alternative(history: History, first: int, last: int, score: float) -> Alternative:
    window = Window(int(history.frames[first]), int(history.frames[last]))
    times = None
    if history.times_s is not None:
        times = (float(history.times_s[first]), float(history.times_s[last]))
    source = to_source(history, window) if history.sampled else None
    return Alternative(window, score, times, source)


def _notes(
    readout: Readout, history: History, vocabulary: Vocabulary, directions: Directions
) -> tuple[str, ...]:
    notes = (*readout.notes(history), *_shown(vocabulary))
    if not directions.any_fallback:
        return notes
    texts = [f'"{vocabulary.descriptions[q]}"' for q in np.flatnonzero(directions.fallback)]
    return (
        *notes,
        f"nothing sets {', '.join(texts)} apart from the other descriptions; plain similarity was "
        "used there",
    )


def _shown(vocabulary: Vocabulary) -> list[str]:
    """What was shown, since an answer that keeps it is no independent one."""
    if not vocabulary.examples and not vocabulary.changes:
        return []
    by_state: dict[str, list[str]] = {}
    for own in vocabulary.examples:
        by_state.setdefault(own.state or NONE, []).append(own.name)
    if vocabulary.changes:
        by_state["changes at"] = [own.name for own in vocabulary.changes]
    listed = "; ".join(
        f"{state} {', '.join(names[:MOST_NAMED])}"
        + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
        for state, names in by_state.items()
    )
    return [f"read with examples: {listed}"]


def _same_windows(moments: Sequence[Moment]) -> list[str]:
    """A sentence for each window that is the answer for two states or more."""
    found: dict[Window, dict[str, None]] = {}
    for moment in moments:
        if not moment.absent:
            found.setdefault(moment.window, {})[moment.state] = None
    return [
        f"{quoted(states)} have the same window, {in_frames(*window)}; at most one of them can be "
        "true there"
        for window, states in found.items()
        if len(states) > 1
    ]


def quoted(names: Iterable[str]) -> str:
    *before, last = (f'"{name}"' for name in names)
    return f"{', '.join(before)} and {last}" if before else last


def in_frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first} – {last}"


def _still(history: History) -> bool:
    """Return whether all its frames look the same to the encoder; most videos soon show another."""
    first, at, rows = unit_rows(history.features[:1])[0], 1, _FIRST_ROWS
    while at < len(history):
        block = unit_rows(history.features[at : at + rows])
        if not (block @ first > 1 - _NEARLY).all():
            return False
        at, rows = at + rows, min(2 * rows, _MAX_ROWS)
    return len(history) > 1


def _diagnostics(readout: Readout, view: View, found: Answers) -> list[Diagnostics]:
    offsets, frames = readout.bounds(view.history), view.history.frames
    seen = readout.evidence(view)
    centre, scale = seen.centre, seen.scale
    first = np.searchsorted(offsets, found.start, side="right") - 1
    last = np.searchsorted(offsets, found.end, side="right") - 1
    directions = view.query_directions
    return [
        Diagnostics(
            residual_norm=float(directions.residual_norms[q]),
            fallback=bool(directions.fallback[q]),
            centre=float(centre[q]),
            scale=float(scale[q]),
            floor_active=bool(scale[q] <= readout.scale_floor),
            run=Window(int(frames[offsets[a]]), int(frames[offsets[b + 1] - 1])),
            touches_run_edge=bool(
                found.start[q] == offsets[a] or found.end[q] == offsets[b + 1] - 1
            ),
        )
        for q, (a, b) in enumerate(zip(first, last, strict=True))
    ]
