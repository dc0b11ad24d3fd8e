"""Timelines of the windows that a readout finds: of a batch, or of one history in detail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.method.coordinates import Directions
from dejacue.method.kernel import Answers
from dejacue.method.scan import Further
from dejacue.records import Diagnostics, History, Note, Timeline, Vocabulary, Window
from dejacue.records.arrays import Ints
from dejacue.records.example import NONE, Example
from dejacue.records.history import MEANINGLESS
from dejacue.records.note import in_order
from dejacue.records.timeline import ALTERNATIVE, ANSWER, NO_FRAME, OCCURRENCE, Subject, read_only

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
def settings_of(readout: Readout, coordinates: str, top: int | None) -> Mapping[str, Any]:
    """Return all settings as plain values, for JSON."""
    settings: dict[str, Any] = {
        "coordinates": coordinates,
        "readout": {"name": readout.name, **readout.settings()},
        "top": 1 if readout.usual_windows == 1 and top is None else top,
    }
    frozen_settings: Mapping[str, Any] = read_only(settings)
    return frozen_settings


def batch_timeline(
    readout: Readout, batch: HistoryBatch, answers: Answers, top: int | None
) -> Timeline:
    """Return the answers of a batch: one row per state or, by the readout's level, description."""
    settings = settings_of(readout, batch.coordinates.name, top)
    return Timeline(_subjects(readout, batch), _answer_columns(readout, batch, answers), settings)


def _answer_columns(
    readout: Readout, batch: HistoryBatch, answers: Answers
) -> dict[str, NDArray[Any]]:
    subject, rows = _answer_rows(batch.vocabularies, readout.level == "state")
    if answers.absent is not None:
        present = ~answers.absent[rows["row"]]
        subject = subject[present]
        rows = {name: column[present] for name, column in rows.items()}
    chosen = rows["row"]
    columns = {
        "subject": subject,
        "start": answers.first[chosen],
        "end": answers.last[chosen],
        "score": answers.score[chosen],
        "state": rows["state"],
        **_times_and_source(batch.histories, subject, answers.start, answers.end, chosen),
    }
    if "description" in rows:
        columns["description"] = rows["description"]
    return columns


def _subjects(readout: Readout, batch: HistoryBatch) -> list[Subject]:
    subjects = [
        Subject(h.id, h.encoder or v.encoder, v.states, _notes(readout, h, v, directions))
        for h, v, directions in zip(
            batch.histories, batch.vocabularies, batch.directions, strict=True
        )
    ]
    if not any(vocabulary.facts for vocabulary in batch.vocabularies):
        return subjects
    return [
        subject._replace(notes=in_order((*subject.notes, *readout.fact_notes(view))))
        if view.vocabulary.facts
        else subject
        for subject, view in zip(subjects, batch.views(), strict=True)
    ]


def _answer_rows(
    vocabularies: Sequence[Vocabulary], per_state: bool
) -> tuple[Ints, dict[str, Ints]]:
    """Return which history each answer is of, its "row" among the descriptions of all histories,
    its "state" and, where descriptions are answered by themselves, its "description"."""
    first = _rows_of(vocabularies[0], per_state)
    count = len(first["row"])
    if len(vocabularies) == 1:
        return np.zeros(count, np.int64), first
    before = np.cumsum([0, *(len(vocabulary) for vocabulary in vocabularies[:-1])])
    if all(vocabulary is vocabularies[0] for vocabulary in vocabularies):
        each = {name: np.tile(column, len(vocabularies)) for name, column in first.items()}
        counts: Any = count
    else:
        parts = [_rows_of(vocabulary, per_state) for vocabulary in vocabularies]
        each = {name: np.concatenate([part[name] for part in parts]) for name in first}
        counts = [len(part["row"]) for part in parts]
    each["row"] = each["row"] + np.repeat(before, counts)
    return np.repeat(np.arange(len(vocabularies)), counts), each


def _rows_of(vocabulary: Vocabulary, per_state: bool) -> dict[str, Ints]:
    """Return the answers of one vocabulary; kept with it. The first description of a state speaks
    for all of them."""

    def compute() -> dict[str, Ints]:
        labels, rows = vocabulary.labels, np.arange(len(vocabulary))
        if per_state:
            states = np.arange(len(vocabulary.states))
            return {"row": np.searchsorted(labels, states), "state": states}
        within_state = rows - np.searchsorted(labels, labels)
        return {"row": rows, "state": labels, "description": within_state}

    return vocabulary.once(("rows", per_state), compute)


def _times_and_source(
    histories: Sequence[History],
    subject: Ints,
    start: Ints,
    end: Ints,
    chosen: Ints | slice = slice(None),
) -> dict[str, NDArray[Any]]:
    """Return seconds and frames of the file of windows given as positions, where they are known.

    subject   (rows,) which history each window is of, ascending
    chosen    which of the windows
    """
    columns: dict[str, NDArray[Any]] = {}
    timed = any(history.times_s is not None for history in histories)
    sampled = any(history.sampled for history in histories)
    if not timed and not sampled:
        return columns
    start, end = start[chosen], end[chosen]
    if timed:
        columns |= {name: np.full(len(start), np.nan) for name in ("start_s", "end_s")}
    if sampled:
        columns |= {name: np.full(len(start), NO_FRAME) for name in ("source_start", "source_end")}
    cuts = np.searchsorted(subject, np.arange(len(histories) + 1))
    for at, history in enumerate(histories):
        rows = slice(int(cuts[at]), int(cuts[at + 1]))
        if history.times_s is not None:
            columns["start_s"][rows] = history.times_s[start[rows]]
            ends_s = history.ends_of(end[rows])
            if ends_s is not None:
                columns["end_s"][rows] = ends_s
        if history.sampled and history.source_frames is not None:
            columns["source_start"][rows] = history.source_frames[start[rows]]
            columns["source_end"][rows] = history.source_frames[end[rows]]
    return columns


def view_timeline(
    readout: Readout, view: View, top: int | None, diagnostics: bool, hints: bool
) -> Timeline:
    """Return everything that a readout says of one history."""
    answers = readout.find_one(view)
    alternatives = (readout.usual_windows if top is None else top) - 1
    share = readout.usual_share if top is None else None
    least = None if share is None else share * answers.score
    further: Further = [()] * len(answers.start)
    if alternatives:
        further = readout.alternatives(view, answers, alternatives, least)
    if least is not None and any(further):
        further = [
            [w for w in windows if w[2] >= score or readout.holds(view, q, w)]
            for q, (score, windows) in enumerate(zip(least.tolist(), further, strict=True))
        ]
    (subject,) = _subjects(readout, view)
    if hints and not view.history.still and not subject.meaningless:
        notes = *_same_windows(view.vocabulary, answers), *readout.hints(view, answers, further)
        subject = subject._replace(notes=in_order((*subject.notes, *notes)))
    why = _diagnostics(readout, view, answers) if diagnostics else None
    columns, reasons = _ranked_columns(readout, view, answers, further, why)
    settings = settings_of(readout, view.coordinates.name, top)
    return Timeline([subject], columns, settings, readout.evidence(view), reasons)


def _ranked_columns(
    readout: Readout,
    view: View,
    answers: Answers,
    further: Further,
    why: Sequence[Diagnostics] | None,
) -> tuple[dict[str, NDArray[Any]], list[Diagnostics | None] | None]:
    """Return the answers, each followed by its further windows, and the diagnostics of each row."""
    if why is None and not any(further):
        return _answer_columns(readout, view, answers), None
    columns = _rows_of(view.vocabulary, readout.level == "state")
    best = zip(answers.start.tolist(), answers.end.tolist(), answers.score.tolist(), strict=True)
    windows = [[window, *others] for window, others in zip(best, further, strict=True)]
    rows: list[tuple[int, int, int, int, int]] = []  # place among the answers, window, rank, kind
    scores: list[float] = []
    reasons: list[Diagnostics | None] = []
    for at, q in enumerate(columns["row"].tolist()):
        if answers.absent is not None and answers.absent[q]:
            continue
        for rank, (first, last, score) in enumerate(windows[q], start=1):
            kind = ANSWER
            if rank > 1:
                holds = readout.holds(view, q, (first, last, score))
                kind = OCCURRENCE if holds else ALTERNATIVE
            rows.append((at, first, last, rank, kind))
            scores.append(score)
            reasons.append(why[q] if why is not None and rank == 1 else None)
    place, starts, ends, ranks, kinds = np.array(rows, np.int64).reshape(-1, 5).T
    frames = view.history.frames
    return {
        "state": columns["state"][place],
        **({"description": columns["description"][place]} if "description" in columns else {}),
        "start": frames[starts],
        "end": frames[ends],
        "score": np.array(scores),
        "rank": ranks,
        "kind": kinds,
        **_times_and_source([view.history], np.zeros(len(rows), np.int64), starts, ends),
    }, None if why is None else reasons


def _notes(
    readout: Readout, history: History, vocabulary: Vocabulary, directions: Directions
) -> tuple[Note, ...]:
    notes = [*readout.notes(history), *_example_notes(history, vocabulary)]
    if history.made_with is not None and (reason := history.made_with.get(MEANINGLESS)):
        notes.append(Note(reason, "meaningless"))
    elif history.still:
        notes.append(STILL_WITH_FACTS if vocabulary.facts or vocabulary.changes else STILL)
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
    counted = " (frames of the file)" if history.sampled and vocabulary.facts else ""
    return [Note(f"read with examples{counted}: {listed}", "information")]


def _source_name(example: Example, history: History) -> str:
    """Return how an example is written, in frames of the file where they have other numbers."""
    source = history.source_frames
    if source is None or not history.sampled or example.span is None or example.unit != "frames":
        return example.name
    at = np.searchsorted(history.frames, example.span).clip(max=len(source) - 1)
    first, last = source[at].tolist()
    return replace(example, span=(first, last)).name


def _same_windows(vocabulary: Vocabulary, answers: Answers) -> list[Note]:
    """Return a sentence for each window that is the answer for two states or more."""
    states_of: dict[tuple[int, int], dict[str, None]] = {}
    windows = zip(answers.first.tolist(), answers.last.tolist(), strict=True)
    for q, (state, window) in enumerate(zip(vocabulary.state_names, windows, strict=True)):
        if answers.absent is None or not answers.absent[q]:
            states_of.setdefault(window, {})[state] = None
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


def _diagnostics(readout: Readout, view: View, answers: Answers) -> list[Diagnostics]:
    offsets, frames = readout.bounds(view.history), view.history.frames
    evidence = readout.evidence(view)
    centre, scale = evidence.centre, evidence.scale
    first = np.searchsorted(offsets, answers.start, side="right") - 1
    last = np.searchsorted(offsets, answers.end, side="right") - 1
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
                answers.start[q] == offsets[a] or answers.end[q] == offsets[b + 1] - 1
            ),
        )
        for q, (a, b) in enumerate(zip(first, last, strict=True))
    ]
