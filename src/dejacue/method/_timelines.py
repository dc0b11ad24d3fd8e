"""Timelines of the windows that a readout finds: of a batch, or of one history in detail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from dejacue.method.coordinates import Directions
from dejacue.method.kernel import Answers
from dejacue.records import Diagnostics, History, Note, Timeline, Vocabulary, Window
from dejacue.records.arrays import Ints
from dejacue.records.example import NONE, Example
from dejacue.records.history import MEANINGLESS
from dejacue.records.note import in_order
from dejacue.records.timeline import NO_FRAME, Subject, read_only

if TYPE_CHECKING:
    from dejacue.method.readout import HistoryBatch, Readout, View

STILL = Note(
    "all frames look the same to the encoder, so the frames found are arbitrary; is this a still "
    "picture, or do the masks cover the background?",
    "meaningless",
)
STILL_WITH_FACTS = Note(
    "all frames look the same to the encoder, so only the frames that you named decide",
    "doubtful",
)
MAX_NAMED_EXAMPLES = 5  # examples of a state, in a note


@lru_cache(maxsize=256)
def settings_of(readout: Readout, coordinates: str) -> Mapping[str, Any]:
    """Return all settings as plain values, for JSON."""
    settings: dict[str, Any] = {
        "coordinates": coordinates,
        "readout": {"name": readout.name, **readout.settings()},
    }
    frozen_settings: Mapping[str, Any] = read_only(settings)
    return frozen_settings


def batch_timeline(batch: HistoryBatch, answers: Answers) -> Timeline:
    """Return what was found in a batch, history by history, in the order of time."""
    settings = settings_of(batch.readout, batch.coordinates.name)
    columns = _columns(batch, answers)[0]
    return Timeline(_subjects(batch), columns, settings)


def _columns(batch: HistoryBatch, answers: Answers) -> tuple[dict[str, NDArray[Any]], Ints]:
    """Return the columns of a timeline, and the row of the answers that each of its rows is."""
    if answers.subject is None or answers.state is None:
        unordered = _of_descriptions(batch.vocabularies)
    else:
        unordered = {"subject": answers.subject, "state": answers.state}
    keys = unordered["state"], answers.end, answers.start, unordered["subject"]
    rows: Ints = np.lexsort(keys)
    columns: dict[str, NDArray[Any]] = {name: column[rows] for name, column in unordered.items()}
    columns |= {
        "start": answers.first[rows],
        "end": answers.last[rows],
        "score": answers.score[rows],
        **times_and_source(batch, columns["subject"], answers, rows),
    }
    if answers.confirmed is not None:
        columns["confirmed"] = answers.confirmed[rows]
    return columns, rows


def _subjects(batch: HistoryBatch) -> list[Subject]:
    subjects = [
        Subject(h.id, h.encoder or v.encoder, v.states, _notes(batch.readout, h, v, directions))
        for h, v, directions in zip(
            batch.histories, batch.vocabularies, batch.directions, strict=True
        )
    ]
    if not any(vocabulary.frame_examples for vocabulary in batch.vocabularies):
        return subjects
    return [
        subject._replace(notes=in_order((*subject.notes, *view.fact_notes())))
        if view.vocabulary.frame_examples
        else subject
        for subject, view in zip(subjects, batch.views, strict=True)
    ]


def _of_descriptions(vocabularies: Sequence[Vocabulary]) -> dict[str, Ints]:
    """Return, for an answer to each description, which history, which state and which description
    of the state it is of."""
    return {
        "subject": np.repeat(np.arange(len(vocabularies)), list(map(len, vocabularies))),
        "state": np.concatenate([vocabulary.labels for vocabulary in vocabularies]),
        "description": np.concatenate([words.numbers_in_state for words in vocabularies]),
    }


def times_and_source(
    batch: HistoryBatch, subject: Ints, answers: Answers, rows: Ints
) -> dict[str, NDArray[Any]]:
    """Return seconds and frames of the file of these rows of the answers, where they are known.

    subject   (rows,) which history each of them is of, ascending
    """
    columns: dict[str, NDArray[Any]] = {}
    histories = batch.histories
    timed = any(history.times_s is not None for history in histories)
    sampled = any(history.sampled for history in histories)
    if not timed and not sampled:
        return columns
    if timed:
        columns |= {name: np.full(len(rows), np.nan) for name in ("start_s", "end_s")}
    if sampled:
        columns |= {name: np.full(len(rows), NO_FRAME) for name in ("source_start", "source_end")}
    cuts = np.searchsorted(subject, np.arange(len(histories) + 1))
    for at, history in enumerate(histories):
        here = slice(int(cuts[at]), int(cuts[at + 1]))
        chosen = rows[here]
        if answers.first_place is not None and answers.last_place is not None:
            filling = batch.fillings[at]
            if filling is not None:
                places = answers.first_place[chosen], answers.last_place[chosen]
                columns["source_start"][here], columns["source_end"][here] = filling.in_file(
                    *places
                )
                if history.times_s is not None:
                    seconds = filling.in_seconds(history, *places)
                    columns["start_s"][here], columns["end_s"][here] = seconds
                continue
        start, end = answers.start[chosen], answers.end[chosen]
        if history.times_s is not None:
            columns["start_s"][here] = history.times_s[start]
            ends_s = history.ends_of(end)
            if ends_s is not None:
                columns["end_s"][here] = ends_s
        if history.sampled and history.source_frames is not None:
            columns["source_start"][here] = history.source_frames[start]
            columns["source_end"][here] = history.source_frames[end]
    return columns


def view_timeline(view: View, diagnostics: bool, hints: bool) -> Timeline:
    """Return everything that a readout says of one history."""
    (subject,) = _subjects(view)
    columns, rows = _columns(view, view.answers)
    if (confidence := view.confidences()) is not None:
        columns["confidence"] = confidence[rows]
    if hints and not view.history.still and not subject.meaningless:
        notes = *_same_windows(view.vocabulary, columns), *view.hints()
        subject = subject._replace(notes=in_order((*subject.notes, *notes)))
    why = _diagnostics(view, rows, columns) if diagnostics else None
    settings = settings_of(view.readout, view.coordinates.name)
    return Timeline([subject], columns, settings, view.evidence, why)


def _notes(
    readout: Readout, history: History, vocabulary: Vocabulary, directions: Directions
) -> tuple[Note, ...]:
    notes = [*readout.notes(history), *_example_notes(history, vocabulary)]
    if history.made_with is not None and (reason := history.made_with.get(MEANINGLESS)):
        notes.append(Note(reason, "meaningless"))
    elif history.still:
        notes.append(STILL_WITH_FACTS if vocabulary.frame_examples or vocabulary.changes else STILL)
    if directions.any_fallback:
        texts = [f'"{vocabulary.descriptions[q]}"' for q in np.flatnonzero(directions.fallback)]
        notes.append(
            Note(
                f"nothing sets {', '.join(texts)} apart from the other descriptions; plain "
                "similarity was used there",
                "doubtful",
            )
        )
    return in_order(notes) if notes else ()


def _example_notes(history: History, vocabulary: Vocabulary) -> list[Note]:
    """Name the examples that were given, since an answer that keeps them is no independent one;
    where frames are sampled, all of them as frames of the file."""
    if not vocabulary.examples and not vocabulary.changes:
        return []
    by_state: dict[str, list[str]] = {}
    for example in vocabulary.examples:
        by_state.setdefault(example.state or NONE, []).append(_source_name(example, history))
    if vocabulary.changes:
        by_state["changes at"] = [_source_name(change, history) for change in vocabulary.changes]
    listed = "; ".join(
        f"{state} {', '.join(names[:MAX_NAMED_EXAMPLES])}"
        + (f" and {len(names) - MAX_NAMED_EXAMPLES} more" if names[MAX_NAMED_EXAMPLES:] else "")
        for state, names in by_state.items()
    )
    counted = " (frames of the file)" if history.sampled and vocabulary.frame_examples else ""
    return [Note(f"read with examples{counted}: {listed}", "information")]


def _source_name(example: Example, history: History) -> str:
    """Return how an example is written, in frames of the file where they have other numbers."""
    source = history.source_frames
    if source is None or not history.sampled or example.span is None or example.unit != "frames":
        return example.name
    at = np.searchsorted(history.frames, example.span).clip(max=len(source) - 1)
    first, last = source[at].tolist()
    return replace(example, span=(first, last)).name


def _same_windows(vocabulary: Vocabulary, columns: Mapping[str, NDArray[Any]]) -> list[Note]:
    """Return a sentence for each window that two states or more have."""
    states_of: dict[tuple[int, int], dict[str, None]] = {}
    names = list(vocabulary.states)
    rows = zip(*(columns[name].tolist() for name in ("start", "end", "state")), strict=True)
    for start, end, state in rows:
        states_of.setdefault((start, end), {})[names[state]] = None
    return [
        Note(
            f"{quoted(states)} have the same window, {in_frames(*window)}; at most one of them can "
            "be true there",
            "doubtful",
        )
        for window, states in states_of.items()
        if len(states) > 1
    ]


def quoted(names: Iterable[str]) -> str:
    """Return '"a", "b" and "c"'."""
    *before, last = (f'"{name}"' for name in names)
    return f"{', '.join(before)} and {last}" if before else last


def in_frames(first: int, last: int) -> str:
    """Return "frame 3" or "frames 3 – 9"."""
    return f"frame {first}" if first == last else f"frames {first} – {last}"


def _diagnostics(view: View, rows: Ints, columns: Mapping[str, NDArray[Any]]) -> list[Diagnostics]:
    """Return why each row of the columns was chosen; rows: of the answers."""
    answers, readout = view.answers, view.readout
    offsets, frames = readout.bounds(view.history), view.history.frames
    evidence, directions = view.evidence, view.query_directions
    labels = view.vocabulary.labels
    query = rows if answers.state is None else np.searchsorted(labels, columns["state"])
    start, end = answers.start[rows], answers.end[rows]
    first = np.searchsorted(offsets, start, side="right") - 1
    last = np.searchsorted(offsets, end, side="right") - 1
    return [
        Diagnostics(
            residual_norm=float(directions.residual_norms[q]),
            fallback=bool(directions.fallback[q]),
            centre=float(evidence.centre[q]),
            scale=float(evidence.scale[q]),
            floor_active=bool(evidence.scale[q] <= readout.scale_floor),
            run=Window(int(frames[offsets[a]]), int(frames[offsets[b + 1] - 1])),
            touches_run_edge=bool(start[row] == offsets[a] or end[row] == offsets[b + 1] - 1),
        )
        for row, (q, a, b) in enumerate(zip(query, first, last, strict=True))
    ]
