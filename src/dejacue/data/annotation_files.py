"""Annotation passes and the decisions between two of them: JSON → records, and back (§8).

A pass labels every frame from the first to the last. The file is easy to edit by
hand: it lists runs of frames instead of single ones, and anything ambiguous is refused.

Version 1 has the labels of the VOST protocol; version 2 names its states, beside which there are
"none" (none of them, or a change from one to another) and "unobserved".
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec

from dejacue.errors import InputError, in_file, named, unknown
from dejacue.records import Reference, Window
from dejacue.records.example import NONE
from dejacue.sources.documents import FrameNumber, as_json, declared, read_json, write_document

LABELS = ("pre", "transition", "post", "unobserved")
UNOBSERVED = "unobserved"
FURTHER_LABELS = (NONE, UNOBSERVED)  # the labels beside states that are named
PASS_SCHEMA, PASS_SCHEMA_STATES = "dejacue.annotation/1", "dejacue.annotation/2"
DECISIONS_SCHEMA, DECISIONS_SCHEMA_STATES = "dejacue.decisions/1", "dejacue.decisions/2"
CONSENSUS = "consensus"  # the annotator of a consensus; not a person's name
MAX_FRAMES = 1_000_000  # nine hours at 30 frames a second; more is a typing error


@dataclass(frozen=True)
class Pass:
    """The label that one annotator gave to each frame of a history.

    frames   the first and the last frame, none before 0
    labels   one of ``known`` for each frame between them, or None where it is not labelled yet
    states   that are told apart; None: those of the VOST protocol, with its LABELS
    """

    history: str
    annotator: str
    frames: Window
    labels: tuple[str | None, ...]
    states: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name("history", self.history)
        check_name("annotator", self.annotator)
        check_frames(self.frames)
        object.__setattr__(self, "labels", tuple(self.labels))
        known = dict.fromkeys(self.known)
        if len(self.labels) != self.frames.length:
            raise InputError(
                f"history {self.history}: {len(self.labels)} labels for the {self.frames.length} "
                f"frames {self.frames}; give one label per frame",
                field="labels",
            )
        for label in dict.fromkeys(self.labels):
            _check_label(label, known)

    @property
    def known(self) -> tuple[str, ...]:
        return labels_of(self.states)

    def runs(self) -> list[tuple[Window, str | None]]:
        """Return the maximal runs of one label, in order."""
        return runs_of(self.labels, self.frames.start)

    def check_complete(self) -> None:
        """Refuse a pass with a frame that is not labelled."""
        if None in self.labels:
            frame = self.frames.start + self.labels.index(None)
            problem = (
                f"frame {frame} is not labelled yet (pass of {self.annotator} over history "
                f"{self.history}); replace every null with {', '.join(self.known[:-1])} or "
                f"{self.known[-1]}"
            )
            raise InputError(problem, field="frame", value=frame)


@dataclass(frozen=True)
class Disagreement:
    """Frames to which the annotators gave two labels, and the label decided on (None: open)."""

    window: Window
    first: str
    second: str
    label: str | None = None

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise InputError(
                f"frames {self.window}: first and second are both {self.first}; there is nothing "
                "to decide where the passes agree"
            )


@dataclass(frozen=True)
class Decisions:
    """The disagreements of two annotators over one history, decided or still open."""

    history: str
    annotators: tuple[str, str]
    rows: tuple[Disagreement, ...]
    states: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name("history", self.history)
        for annotator in self.annotators:
            check_name("annotator", annotator)
        known = dict.fromkeys(self.known)
        for number, row in enumerate(self.rows):
            with named(f"decisions[{number}]"):
                for label in (row.first, row.second, row.label):
                    _check_label(label, known)

    @property
    def known(self) -> tuple[str, ...]:
        return labels_of(self.states)

    @property
    def annotator_keys(self) -> list[str]:
        return [annotator_key(annotator) for annotator in self.annotators]


class _Run(msgspec.Struct, forbid_unknown_fields=True):
    start: FrameNumber
    end: FrameNumber
    label: str | None

    def __post_init__(self) -> None:  # msgspec says which one fails
        Window(self.start, self.end)


class _Decision(_Run):
    first: str
    second: str

    def __post_init__(self) -> None:
        self.disagreement()

    def disagreement(self) -> Disagreement:
        return Disagreement(Window(self.start, self.end), self.first, self.second, self.label)


class _PassDocument(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    history: str
    annotator: str
    runs: list[_Run]
    states: list[str] | None = None


class _DecisionsDocument(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    history: str
    annotators: tuple[str, str]
    decisions: list[_Decision]
    states: list[str] | None = None


def read_pass(path: str | os.PathLike[str], complete: bool = True) -> Pass:
    """Read a pass from its JSON file; a frame that is not labelled is named and refused, unless the
    pass need not be ``complete``."""
    document = read_json(path)
    with in_file(path):
        read, states = _with_states(document, _PassDocument, PASS_SCHEMA, PASS_SCHEMA_STATES)
        known = dict.fromkeys(labels_of(states))
        for number, run in enumerate(read.runs):
            with named(f"runs[{number}]"):
                _check_label(run.label, known)
        windows = [Window(run.start, run.end) for run in read.runs]
        if not windows:
            raise InputError("has no runs", field="runs", remedy="a pass labels every frame")
        for number, (before, after) in enumerate(pairwise(windows), 1):
            _check_adjacent(number, before, after)
        frames = Window(windows[0].start, windows[-1].end)
        check_frames(frames)  # before one label is taken for each of them
        labels = (run.label for run in read.runs for _ in range(run.start, run.end + 1))
        pass_ = Pass(read.history, read.annotator, frames, tuple(labels), states)
        if complete:
            pass_.check_complete()
        return pass_


def _with_states(
    document: Any, kind: type, schema: str, schema_states: str
) -> tuple[Any, tuple[str, ...] | None]:
    """Return a document of either version, and its states, which only the second has."""
    has_states = isinstance(document, dict) and document.get("schema") == schema_states
    read: Any = declared(document, kind, schema=schema_states if has_states else schema)
    if has_states != (read.states is not None):
        problem = "has no states" if has_states else f"names states, which {schema} does not have"
        raise InputError(problem, field="states", remedy=f"for states, use {schema_states}")
    return read, None if read.states is None else tuple(read.states)


def _check_adjacent(number: int, before: Window, after: Window) -> None:
    if after.start <= before.end:
        problem = (
            f"runs[{number}] starts at frame {after.start}, but runs[{number - 1}] covers "
            f"{before}; runs must be in order and share no frame"
        )
        raise InputError(problem, field="runs", value=after.start)
    if after.start > before.end + 1:
        problem = f"no run covers the frames {Window(before.end + 1, after.start - 1)}"
        remedy = 'label them, as "unobserved" where the object is not visible'
        raise InputError(problem, field="runs", value=before.end + 1, remedy=remedy)


def write_pass(path: str | os.PathLike[str], pass_: Pass, durable: bool = False) -> Path:
    """Write a pass, complete or not, one run a line; durable: it is on the disk then."""
    schema = PASS_SCHEMA if pass_.states is None else PASS_SCHEMA_STATES
    head = {"schema": schema, "history": pass_.history, "annotator": pass_.annotator}
    runs = (_row(window, label=label) for window, label in pass_.runs())
    return write_document(path, head | _states(pass_.states), "runs", runs, durable)


def _states(states: tuple[str, ...] | None) -> dict[str, Any]:
    return {} if states is None else {"states": list(states)}


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read decisions from their JSON file, open ones included."""
    document = read_json(path)
    with in_file(path):
        schemas = DECISIONS_SCHEMA, DECISIONS_SCHEMA_STATES
        read, states = _with_states(document, _DecisionsDocument, *schemas)
        rows = tuple(row.disagreement() for row in read.decisions)
        return Decisions(read.history, read.annotators, rows, states)


def write_decisions(
    path: str | os.PathLike[str], decisions: Decisions, durable: bool = False
) -> Path:
    """Write decisions, one a line; open ones have the label null, to be replaced."""
    head = {
        "schema": DECISIONS_SCHEMA if decisions.states is None else DECISIONS_SCHEMA_STATES,
        "history": decisions.history,
        "annotators": list(decisions.annotators),
    }
    rows = (_row(d.window, first=d.first, second=d.second, label=d.label) for d in decisions.rows)
    return write_document(path, head | _states(decisions.states), "decisions", rows, durable)


def _row(window: Window, **labels: str | None) -> str:
    return as_json({"start": window.start, "end": window.end} | labels)


def labels_of(states: Sequence[str] | None) -> tuple[str, ...]:
    """Return the labels of frames with these states; None: those of the VOST protocol."""
    if states is None:
        return LABELS
    if not states:
        raise InputError("no states are named", field="states", remedy="give at least one")
    for state in states:
        check_name("state", state)
        if state in FURTHER_LABELS:
            remedy = "give the state another name"
            problem = f'"{state}" is a label that every pass has'
            raise InputError(problem, field="states", value=state, remedy=remedy)
    if len(set(states)) < len(states):
        state = Counter(states).most_common(1)[0][0]
        problem = f'the state "{state}" is named twice; keep one'
        raise InputError(problem, field="states", value=state)
    return (*states, *FURTHER_LABELS)


def _check_label(label: object, known: Collection[str]) -> None:
    if label is not None and label not in known:
        raise unknown("label", label, known)


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        problem = f"{what} must be a name on one line, not {name!r:.40}"
        raise InputError(problem, field=what, value=name)


def check_frames(frames: Window) -> None:
    if frames.start < 0:
        problem = f"frames count from 0; there is no frame {frames.start}"
        raise InputError(problem, field="frames", value=frames.start)
    if frames.length > MAX_FRAMES:
        problem = f"{frames.length} frames ({frames}); a pass has at most {MAX_FRAMES}"
        raise InputError(problem, field="frames", value=frames.length)


def annotator_key(annotator: str) -> str:
    """Return the name without case and outer spaces: equal for the same annotator."""
    return annotator.strip().casefold()


def frames_of(window: Window) -> range:
    return range(window.start, window.end + 1)


def runs_of(labels: Sequence[Any], start: int) -> list[tuple[Window, Any]]:
    """Return the maximal runs of equal labels; the first label is that of the frame ``start``."""
    runs = []
    for label, group in groupby(labels):
        end = start + sum(1 for _ in group) - 1
        runs.append((Window(start, end), label))
        start = end + 1
    return runs


def states_in(labels: Iterable[str]) -> tuple[str, ...] | None:
    """Return the states among these labels, sorted, so that two annotators have the same; None:
    they are those of the VOST protocol."""
    names = set(labels)
    return None if names <= set(LABELS) else tuple(sorted(names - set(FURTHER_LABELS)))


def filled(
    blank: Pass, marks: Mapping[str, Sequence[Window]], rest: str | None = None
) -> tuple[Pass, int]:
    """Return the pass with these labels, and how many marked frames it does not have.

    blank   every frame without a label or unobserved, which stays: nobody sees the object there
    rest    label of frames that are not marked; None: "none" where states are named, else they stay
            open
    """
    known = blank.known
    if rest is None and blank.states is not None:
        rest = NONE
    _check_label(rest, known)
    labels: list[str | None] = [None] * blank.frames.length
    outside = 0
    for label, windows in marks.items():
        _check_label(label, known)
        for window in windows:
            inside = range(
                max(window.start, blank.frames.start), min(window.end, blank.frames.end) + 1
            )
            outside += window.length - len(inside)
            for frame in inside:
                at = frame - blank.frames.start
                if labels[at] not in (None, label):
                    problem = f'frame {frame} is marked both "{labels[at]}" and "{label}"'
                    remedy = "a frame has one label: shorten one of the spans"
                    raise InputError(problem, field="frame", value=frame, remedy=remedy)
                labels[at] = label
    filled_in = (
        UNOBSERVED if before == UNOBSERVED else label or rest
        for before, label in zip(blank.labels, labels, strict=True)
    )
    return replace(blank, labels=tuple(filled_in)), outside


def marks_of(pass_: Pass) -> Reference:
    """Return the windows of each label but "none", which is where nothing is marked."""
    windows: dict[str, list[Window]] = {}
    for window, label in pass_.runs():
        if label not in (None, NONE):
            windows.setdefault(str(label), []).append(window)
    if not windows:
        problem = f"history {pass_.history}: no frame has a label, so there is nothing to mark"
        raise InputError(problem, field="labels")
    return Reference(pass_.history, {label: tuple(runs) for label, runs in windows.items()})
