"""Annotation passes, their consensus, and the events that give the references (§8).

    template ──▶ two passes, filled in independently ──▶ disagreements ──▶ consensus ──▶ events

A pass labels every frame from the first to the last. On disk it is JSON made for editing by hand,
runs of frames instead of single ones; nothing that could mean two things is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, unknown
from dejacue.records import Reference, Window
from dejacue.sources.documents import (
    as_json,
    check_document,
    check_keys,
    named,
    read_json,
    window_of,
    write_document,
)

LABELS = ("pre", "transition", "post", "unobserved")
PASS_SCHEMA = "dejacue.annotation/1"
DECISIONS_SCHEMA = "dejacue.decisions/1"
CONSENSUS = "consensus"  # the annotator of a consensus; no person's token
MINIMUM = 5  # frames a stable side needs
MOST_FRAMES = 10_000_000  # four days at 30 frames a second; more is a slip of the pen


@dataclass(frozen=True)
class Pass:
    """One annotator's label for every frame of a history.

    frames   the first and the last frame, none before 0
    labels   one of LABELS for each frame between them, or None where it is not labelled yet
    """

    history: str
    annotator: str
    frames: Window
    labels: tuple[str | None, ...]

    def __post_init__(self) -> None:
        _check_token("history", self.history)
        _check_token("annotator", self.annotator)
        _check_frames(self.frames)
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(self.labels) != self.frames.length:
            raise InputError(
                f"history {self.history}: {len(self.labels)} labels for the "
                f"{self.frames.length} frames {self.frames}; give one per frame"
            )
        for label in self.labels:
            _check_label(label)

    def runs(self) -> list[tuple[Window, str | None]]:
        """The maximal runs of one label, in order."""
        return _runs(self.labels, self.frames.start)

    def check_complete(self) -> None:
        """Refuse a pass with a frame that is not labelled."""
        if None in self.labels:
            frame = self.frames.start + self.labels.index(None)
            raise InputError(
                f"frame {frame} is not labelled yet (pass of {self.annotator} over history "
                f"{self.history}); replace every null by {', '.join(LABELS[:-1])} or {LABELS[-1]}"
            )


@dataclass(frozen=True)
class Disagreement:
    """Frames to which the annotators gave two labels, and the label decided on (None: open)."""

    window: Window
    first: str
    second: str
    label: str | None = None

    def __post_init__(self) -> None:
        for label in (self.first, self.second, self.label):
            _check_label(label)
        if self.first == self.second or None in (self.first, self.second):
            raise InputError(
                f"frames {self.window}: {self.first} and {self.second} are not two "
                "labels that differ"
            )


@dataclass(frozen=True)
class Decisions:
    """The disagreements of two annotators over one history, decided or still open."""

    history: str
    annotators: tuple[str, str]
    rows: tuple[Disagreement, ...]

    def __post_init__(self) -> None:
        _check_token("history", self.history)
        if not isinstance(self.annotators, list | tuple) or len(self.annotators) != 2:
            raise InputError(f"annotators must be two names, not {self.annotators!r:.40}")
        for annotator in self.annotators:
            _check_token("annotator", annotator)
        object.__setattr__(self, "annotators", tuple(self.annotators))

    @property
    def tokens(self) -> list[str]:
        return [_token(annotator) for annotator in self.annotators]


@dataclass(frozen=True)
class Event:
    """A change of state: a stable side, the transition, the other stable side."""

    pre: Window
    transition: Window
    post: Window


def template(history: str, frames: Iterable[int], annotator: str) -> Pass:
    """A pass to fill in: unobserved where frames are missing, no label where they are observed.

    frames   the observed frames, strictly increasing
    """
    observed = [Window(frame, frame).start for frame in frames]  # whole numbers only
    if not observed:
        raise InputError(f"history {history}: no observed frame, so there is nothing to annotate")
    for before, after in pairwise(observed):
        if after <= before:
            raise InputError(
                f"history {history}: frames are not in order ({before} is followed by {after}); "
                "sort them and keep one each"
            )
    if _token(annotator) == CONSENSUS:
        raise InputError(f'"{annotator}" is no annotator: the word is kept for what two agree on')
    window = Window(observed[0], observed[-1])
    _check_frames(window)
    labels: list[str | None] = ["unobserved"] * window.length
    for frame in observed:
        labels[frame - window.start] = None
    return Pass(history, annotator, window, tuple(labels))


def disagreements(first: Pass, second: Pass) -> list[Disagreement]:
    """The maximal runs in which the two passes differ, each with one label on either side.

    The passes must be complete, of one history and the same frames, by different annotators.
    """
    if first.history != second.history:
        raise InputError(
            f"one pass is of history {first.history}, the other of {second.history}; "
            "give two passes over one history"
        )
    if first.frames != second.frames:
        raise InputError(
            f"history {first.history}: one pass covers the frames {first.frames}, "
            f"the other {second.frames}; both must label the same frames"
        )
    if _token(first.annotator) == _token(second.annotator):
        raise InputError(
            f'history {first.history}: both passes are by "{first.annotator.strip()}"; '
            "two annotators must work independently"
        )
    for given in (first, second):
        given.check_complete()
        if _token(given.annotator) == CONSENSUS:
            raise InputError(
                f"history {given.history}: one of the passes is already a consensus; "
                "give the two passes it was made from"
            )
    pairs = list(zip(first.labels, second.labels, strict=True))
    return [
        Disagreement(window, a, b) for window, (a, b) in _runs(pairs, first.frames.start) if a != b
    ]


def open_decisions(first: Pass, second: Pass) -> Decisions:
    """All that has to be decided between two passes."""
    rows = tuple(disagreements(first, second))
    return Decisions(first.history, (first.annotator, second.annotator), rows)


def consensus(first: Pass, second: Pass, decisions: Decisions | None = None) -> Pass:
    """What both passes say, with the decisions where they differ.

    The decisions must cover every disagreeing frame and no other, rest on what the passes say
    now, and may be left out when there is nothing to decide.
    """
    to_decide = open_decisions(first, second)
    if decisions is not None and decisions.history != to_decide.history:
        raise InputError(
            f"the decisions are on history {decisions.history}, the passes on {to_decide.history}"
        )
    if decisions is not None and decisions.tokens != to_decide.tokens:
        raise InputError(
            f"the decisions are between {' and '.join(decisions.annotators)}, the passes are by "
            f"{' and '.join(to_decide.annotators)}; give the same passes in the same order"
        )
    said = {frame: (row.first, row.second) for row in to_decide.rows for frame in _each(row.window)}
    decided: dict[int, str | None] = {}
    for row in decisions.rows if decisions else ():
        for frame in _each(row.window):
            _check_decision(frame, row, said, decided)
            decided[frame] = row.label
    missing = sorted(said.keys() - decided.keys())
    if missing:
        raise InputError(
            f"frame {missing[0]} is not decided ({' or '.join(said[missing[0]])}), one of "
            f"{len(missing)} on which the passes differ; decide each of them"
        )
    frames = zip(_each(first.frames), first.labels, strict=True)
    labels = tuple(decided.get(frame, label) for frame, label in frames)
    return Pass(first.history, CONSENSUS, first.frames, labels)


def _check_decision(
    frame: int, row: Disagreement, said: Mapping[int, tuple[str, str]], decided: Container[int]
) -> None:
    if frame not in said:
        raise InputError(
            f"frame {frame} is decided, but the passes do not differ there; "
            "a decision may not touch what is agreed"
        )
    if (row.first, row.second) != said[frame]:
        raise InputError(
            f"frame {frame} is decided between {row.first} and {row.second}, but the passes say "
            f"{' and '.join(said[frame])}; decide it again"
        )
    if frame in decided:
        raise InputError(f"frame {frame} is decided twice; keep one decision")
    if row.label is None:
        raise InputError(
            f"frame {frame} is not decided yet ({row.first} or {row.second}); "
            f"replace null by one of {', '.join(LABELS)}"
        )


def events(pass_: Pass, minimum: int = MINIMUM) -> list[Event]:
    """All qualifying events, in order; the earliest gives the references.

    A maximal ``pre`` run of at least ``minimum`` frames, directly followed by a ``transition``
    run, directly followed by a maximal ``post`` run of at least ``minimum`` frames.
    """
    if not isinstance(minimum, int) or minimum < 1:
        raise InputError(f"a stable side has at least 1 frame; the minimum cannot be {minimum!r}")
    pass_.check_complete()
    runs = pass_.runs()
    return [
        Event(before, between, after)
        for (before, a), (between, b), (after, c) in zip(runs, runs[1:], runs[2:], strict=False)
        if (a, b, c) == ("pre", "transition", "post")
        and min(before.length, after.length) >= minimum
    ]


def reference(pass_: Pass, event: Event) -> Reference:
    """The stable sides of an event as the reference of the history."""
    sides = {"pre": (event.pre,), "post": (event.post,)}
    return Reference(pass_.history, sides, frames=pass_.frames)


def read_pass(path: str | os.PathLike[str]) -> Pass:
    """A complete pass from its JSON file; a frame that is not labelled is named and refused."""
    document = read_json(path)
    with named(os.fspath(path)):
        check_document(document, PASS_SCHEMA, ("history", "annotator", "runs"), complete=True)
        rows = _rows(document["runs"], "run", "label")
        if not rows:
            raise InputError("has no runs; a pass labels every frame")
        for number, (before, after) in enumerate(pairwise(row["window"] for row in rows), 2):
            _check_adjacent(number, before, after)
        frames = Window(rows[0]["window"].start, rows[-1]["window"].end)
        _check_frames(frames)  # before one label is taken for each
        labels = tuple(row["label"] for row in rows for _ in _each(row["window"]))
        found = Pass(document["history"], document["annotator"], frames, labels)
        found.check_complete()
        return found


def _check_adjacent(number: int, before: Window, after: Window) -> None:
    if after.start <= before.end:
        raise InputError(
            f"run {number} starts at frame {after.start}, but run {number - 1} covers "
            f"{before}; runs come in order and share no frame"
        )
    if after.start > before.end + 1:
        raise InputError(
            f"no run covers the frames {Window(before.end + 1, after.start - 1)}; "
            'label them, "unobserved" where the object is not seen'
        )


def write_pass(path: str | os.PathLike[str], pass_: Pass) -> Path:
    """Write a pass, complete or not, one run a line."""
    head = {"schema": PASS_SCHEMA, "history": pass_.history, "annotator": pass_.annotator}
    runs = (_row(window, label=label) for window, label in pass_.runs())
    return write_document(path, head, "runs", runs)


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Decisions from their JSON file, open ones included."""
    document = read_json(path)
    with named(os.fspath(path)):
        keys = ("history", "annotators", "decisions")
        check_document(document, DECISIONS_SCHEMA, keys, complete=True)
        rows = _rows(document["decisions"], "decision", "first", "second", "label")
        disagreements = tuple(Disagreement(**row) for row in rows)
        return Decisions(document["history"], document["annotators"], disagreements)


def write_decisions(path: str | os.PathLike[str], decisions: Decisions) -> Path:
    """Write decisions, one a line; open ones have the label null, to be replaced."""
    head = {
        "schema": DECISIONS_SCHEMA,
        "history": decisions.history,
        "annotators": list(decisions.annotators),
    }
    rows = (_row(d.window, first=d.first, second=d.second, label=d.label) for d in decisions.rows)
    return write_document(path, head, "decisions", rows)


def _row(window: Window, **labels: str | None) -> str:
    return as_json({"start": window.start, "end": window.end} | labels)


def _rows(rows: Any, what: str, *labels: str) -> list[dict[str, Any]]:
    """The window and the labels of each row; a row has nothing else."""
    if not isinstance(rows, list):
        raise InputError(f"{what}s must be a list, not {rows!r:.40}")
    keys = ("start", "end", *labels)
    checked = []
    for number, row in enumerate(rows, 1):
        with named(f"{what} {number}"):
            check_keys(row, keys, complete=True)
            checked.append({"window": window_of(row)} | {key: row[key] for key in labels})
            for key in labels:
                _check_label(row[key])
    return checked


def _check_label(label: object) -> None:
    if label is not None and label not in LABELS:
        raise unknown("label", label, LABELS)


def _check_token(what: str, token: object) -> None:
    if not isinstance(token, str) or not token.strip() or not token.isprintable():
        raise InputError(f"{what} must be a name on one line, not {token!r:.40}")


def _check_frames(frames: Window) -> None:
    if frames.start < 0:
        raise InputError(f"frames count from 0; there is no frame {frames.start}")
    if frames.length > MOST_FRAMES:
        raise InputError(f"frames {frames} are {frames.length}; a pass has at most {MOST_FRAMES}")


def _token(annotator: str) -> str:
    return annotator.strip().casefold()


def _each(window: Window) -> range:
    return range(window.start, window.end + 1)


def _runs(labels: Sequence[Any], start: int) -> list[tuple[Window, Any]]:
    """The maximal runs of equal labels; the first label belongs to the frame ``start``."""
    runs = []
    for label, group in groupby(labels):
        end = start + sum(1 for _ in group) - 1
        runs.append((Window(start, end), label))
        start = end + 1
    return runs
