"""Annotation passes over a history: files, consensus, and events that give references.

template ──▶ two passes, filled in independently ──▶ disagreements ──▶ consensus ──▶ events

A pass labels every frame from the first to the last. Its file is easy to edit by hand: it lists
runs of frames instead of single ones, and anything ambiguous is refused. Version 1 has the labels
of the VOST protocol; version 2 names its states, beside which there are "none" (none of them, or a
change from one to another) and "unobserved".
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

from dejacue.errors import InputError, counted, in_file, named, unknown
from dejacue.files.documents import as_json, declared, read_json, write_document
from dejacue.records import History, Reference, Window
from dejacue.records.fields import FrameNumber
from dejacue.records.vocabulary import NONE

LABELS = ("pre", "transition", "post", "unobserved")
UNOBSERVED = "unobserved"
FURTHER_LABELS = (NONE, UNOBSERVED)  # the labels beside states that are named
PASS_SCHEMA, DECISIONS_SCHEMA = "dejacue.annotation/", "dejacue.decisions/"  # and the version
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
                f"frames {self.frames}; give one label per frame"
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
            raise InputError(
                f"frame {frame} is not labelled yet (pass of {self.annotator} over history "
                f"{self.history}); replace every null with {', '.join(self.known[:-1])} or "
                f"{self.known[-1]}"
            )


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
        read, states = _with_states(document, _PassDocument, PASS_SCHEMA)
        known = dict.fromkeys(labels_of(states))
        for number, run in enumerate(read.runs):
            with named(f"runs[{number}]"):
                _check_label(run.label, known)
        windows = [Window(run.start, run.end) for run in read.runs]
        if not windows:
            raise InputError("has no runs; a pass labels every frame")
        for number, (before, after) in enumerate(pairwise(windows), 1):
            _check_adjacent(number, before, after)
        frames = Window(windows[0].start, windows[-1].end)
        check_frames(frames)  # before one label is taken for each of them
        labels = (run.label for run in read.runs for _ in range(run.start, run.end + 1))
        pass_ = Pass(read.history, read.annotator, frames, tuple(labels), states)
        if complete:
            pass_.check_complete()
        return pass_


def _with_states(document: Any, kind: type, schema: str) -> tuple[Any, tuple[str, ...] | None]:
    """Return a document of either version, and its states, which only the second has."""
    has_states = isinstance(document, dict) and document.get("schema") == f"{schema}2"
    read: Any = declared(document, kind, schema=f"{schema}{2 if has_states else 1}")
    if has_states != (read.states is not None):
        problem = "has no states" if has_states else f"names states, which {schema}1 does not have"
        raise InputError(f"{problem}; for states, use {schema}2")
    return read, None if read.states is None else tuple(read.states)


def _check_adjacent(number: int, before: Window, after: Window) -> None:
    if after.start <= before.end:
        raise InputError(
            f"runs[{number}] starts at frame {after.start}, but runs[{number - 1}] covers "
            f"{before}; runs must be in order and share no frame"
        )
    if after.start > before.end + 1:
        problem = f"no run covers the frames {Window(before.end + 1, after.start - 1)}"
        raise InputError(f'{problem}; label them, as "unobserved" where the object is not visible')


def write_pass(path: str | os.PathLike[str], pass_: Pass) -> Path:
    """Write a pass, complete or not, one run a line."""
    head = _head(PASS_SCHEMA, pass_, annotator=pass_.annotator)
    runs = (_row(window, label=label) for window, label in pass_.runs())
    return write_document(path, head, "runs", runs)


def _head(schema: str, record: Pass | Decisions, **by: Any) -> dict[str, Any]:
    """Return the fields before the rows: of version 1 or, where states are named, 2."""
    version, states = (1, {}) if record.states is None else (2, {"states": list(record.states)})
    return {"schema": f"{schema}{version}", "history": record.history, **by, **states}


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Read decisions from their JSON file, open ones included."""
    document = read_json(path)
    with in_file(path):
        read, states = _with_states(document, _DecisionsDocument, DECISIONS_SCHEMA)
        rows = tuple(row.disagreement() for row in read.decisions)
        return Decisions(read.history, read.annotators, rows, states)


def write_decisions(path: str | os.PathLike[str], decisions: Decisions) -> Path:
    """Write decisions, one a line; open ones have the label null, to be replaced."""
    head = _head(DECISIONS_SCHEMA, decisions, annotators=list(decisions.annotators))
    rows = (_row(d.window, first=d.first, second=d.second, label=d.label) for d in decisions.rows)
    return write_document(path, head, "decisions", rows)


def _row(window: Window, **labels: str | None) -> str:
    return as_json({"start": window.start, "end": window.end} | labels)


def labels_of(states: Sequence[str] | None) -> tuple[str, ...]:
    """Return the labels of frames with these states; None: those of the VOST protocol."""
    if states is None:
        return LABELS
    if not states:
        raise InputError("no states are named; give at least one")
    for state in states:
        check_name("state", state)
        if state in FURTHER_LABELS:
            problem = f'"{state}" is a label that every pass has'
            raise InputError(f"{problem}; give the state another name")
    if len(set(states)) < len(states):
        state = Counter(states).most_common(1)[0][0]
        raise InputError(f'the state "{state}" is named twice; keep one')
    return (*states, *FURTHER_LABELS)


def _check_label(label: object, known: Collection[str]) -> None:
    if label is not None and label not in known:
        raise unknown("label", label, known)


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"{what} must be a name on one line, not {name!r:.40}")


def check_frames(frames: Window) -> None:
    if frames.start < 0:
        raise InputError(f"frames count from 0; there is no frame {frames.start}")
    if frames.length > MAX_FRAMES:
        raise InputError(f"{frames.length} frames ({frames}); a pass has at most {MAX_FRAMES}")


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
                    raise InputError(f"{problem}; a frame has one label: shorten one of the spans")
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
        raise InputError(problem)
    return Reference(pass_.history, {label: tuple(runs) for label, runs in windows.items()})


MINIMUM = 5  # frames a stable side needs
Run = tuple[Window, str | None]  # frames of one label, as Pass.runs gives them


@dataclass(frozen=True)
class Event:
    """A change of state: the object is stable, changes, and is stable again."""

    pre: Window
    transition: Window
    post: Window


@dataclass(frozen=True)
class StateChange:
    """A named state that is followed by another, at once or after frames that show neither."""

    first: str
    before: Window
    between: Window | None
    second: str
    after: Window


def template(
    history: str, frames: Iterable[int], annotator: str, states: Iterable[str] | None = None
) -> Pass:
    """Return a pass to fill in: unobserved where frames are missing, else without a label.

    frames   the observed frames, strictly increasing
    states   that are told apart; None: those of the VOST protocol
    """
    observed = [Window(frame, frame).start for frame in frames]  # whole numbers only
    if not observed:
        raise InputError(f"history {history}: no observed frame, so there is nothing to annotate")
    for before, after in pairwise(observed):
        if after <= before:
            raise InputError(
                f"history {history}: frames are not in order ({before} is followed by {after}); "
                "sort them and keep one of each"
            )
    if annotator_key(annotator) == CONSENSUS:
        problem = f'"{annotator}" is reserved for what two annotators agree on; choose another name'
        raise InputError(problem)
    window = Window(observed[0], observed[-1])
    check_frames(window)
    labels: list[str | None] = ["unobserved"] * window.length
    for frame in observed:
        labels[frame - window.start] = None
    return Pass(
        history, annotator, window, tuple(labels), None if states is None else tuple(states)
    )


def seen(history: History) -> list[int]:
    """Return the frames of the file in which the object is seen, also those that the history did
    not take: people look at the file."""
    runs = [history.to_source(run) for run in history.runs()]
    whole = Window(min(run.start for run in runs), max(run.end for run in runs))
    check_frames(whole)  # before they are counted out
    return [frame for run in runs for frame in range(run.start, run.end + 1)]


def disagreements(first: Pass, second: Pass) -> list[Disagreement]:
    """Return the maximal runs in which two passes differ, each with one label on either side.

    The passes must be complete, of one history and the same frames, by different annotators.
    """
    if first.history != second.history:
        raise InputError(
            f"one pass is for history {first.history}, the other for {second.history}; "
            "give two passes over the same history"
        )
    if first.frames != second.frames:
        raise InputError(
            f"history {first.history}: one pass covers the frames {first.frames}, the other "
            f"{second.frames}; both must label the same frames"
        )
    if first.states != second.states:
        states = [", ".join(pass_.states or LABELS[:-1]) for pass_ in (first, second)]
        raise InputError(
            f"history {first.history}: one pass distinguishes {states[0]}, the other {states[1]}; "
            "both must have the same states in the same order"
        )
    if annotator_key(first.annotator) == annotator_key(second.annotator):
        problem = f'history {first.history}: both passes are by "{first.annotator.strip()}"'
        raise InputError(f"{problem}; two annotators must work independently")
    for pass_ in (first, second):
        pass_.check_complete()
        if annotator_key(pass_.annotator) == CONSENSUS:
            problem = f"history {pass_.history}: one of the passes is already a consensus"
            raise InputError(f"{problem}; give the two passes it was made from")
    pairs = list(zip(first.labels, second.labels, strict=True))
    return [
        Disagreement(window, a, b)
        for window, (a, b) in runs_of(pairs, first.frames.start)
        if a != b
    ]


def observed(first: Pass, second: Pass) -> tuple[list[str | None], list[str | None]]:
    """Return the labels of each pass, without the frames that both call unobserved."""
    pairs = zip(first.labels, second.labels, strict=True)
    seen_by_one = [pair for pair in pairs if set(pair) != {"unobserved"}]
    return [a for a, _ in seen_by_one], [b for _, b in seen_by_one]


def open_decisions(first: Pass, second: Pass) -> Decisions:
    """Return all that has to be decided between two passes."""
    rows = tuple(disagreements(first, second))
    return Decisions(first.history, (first.annotator, second.annotator), rows, first.states)


def consensus(first: Pass, second: Pass, decisions: Decisions | None = None) -> Pass:
    """Return what both passes say, with the decisions where they differ.

    The decisions must cover every disagreeing frame and no other, match what the passes say
    now, and may be left out when there is nothing to decide.
    """
    to_decide = open_decisions(first, second)
    if decisions is not None and decisions.history != to_decide.history:
        raise InputError(
            f"the decisions are for history {decisions.history}, but the passes are for "
            f"{to_decide.history}"
        )
    if decisions is not None and decisions.annotator_keys != to_decide.annotator_keys:
        raise InputError(
            f"the decisions are between {' and '.join(decisions.annotators)}, but the passes are "
            f"by {' and '.join(to_decide.annotators)}; give the same passes in the same order"
        )
    decided: dict[int, str | None] = {}
    for row in decisions.rows if decisions else ():
        _check_decision(row, first, second)
        for frame in frames_of(row.window):
            if frame in decided:
                raise InputError(f"frame {frame} is decided twice; keep one decision")
            decided[frame] = row.label
    choices = {
        frame: (row.first, row.second) for row in to_decide.rows for frame in frames_of(row.window)
    }
    missing = sorted(choices.keys() - decided.keys())
    if missing:
        raise InputError(
            f"frame {missing[0]} is not decided ({' or '.join(choices[missing[0]])}), one of "
            f"{len(missing)} undecided frames on which the passes differ; decide all of them"
        )
    frames = zip(frames_of(first.frames), first.labels, strict=True)
    labels = tuple(decided.get(frame, label) for frame, label in frames)
    return Pass(first.history, CONSENSUS, first.frames, labels, first.states)


def _check_decision(row: Disagreement, first: Pass, second: Pass) -> None:
    """Refuse a decision that is open, or does not match what the passes say."""
    if row.window | first.frames != first.frames:
        raise InputError(f"frames {row.window}: the passes cover only {first.frames}")
    at = slice(row.window.start - first.frames.start, row.window.end - first.frames.start + 1)
    pairs = list(zip(first.labels[at], second.labels[at], strict=True))
    for window, (a, b) in runs_of(pairs, row.window.start):
        if a == b:
            problem = f"frames {window}: both passes say {a} there, so there is nothing to decide"
            raise InputError(problem)
        if (a, b) != (row.first, row.second):
            raise InputError(
                f"frames {window} are decided between {row.first} and {row.second}, but the passes "
                f"say {a} and {b}; decide them again"
            )
    if row.label is None:
        problem = f"frame {row.window.start} is not decided yet ({row.first} or {row.second})"
        raise InputError(f"{problem}; replace null with one of {', '.join(first.known)}")


def events(pass_: Pass, minimum: int = MINIMUM) -> list[Event]:
    """Return all qualifying events, in order; the earliest gives the references.

    A maximal ``pre`` run of at least ``minimum`` frames, directly followed by a ``transition``
    run, directly followed by a maximal ``post`` run of at least ``minimum`` frames.
    """
    _check_minimum(minimum)
    if pass_.states is not None:
        raise InputError(
            f"history {pass_.history}: the pass names the states {', '.join(pass_.states)}; "
            "only passes of the VOST protocol (pre, transition, post) have events"
        )
    pass_.check_complete()
    runs = pass_.runs()
    return [
        Event(before, between, after)
        for (before, a), (between, b), (after, c) in zip(runs, runs[1:], runs[2:], strict=False)
        if (a, b, c) == ("pre", "transition", "post")
        and min(before.length, after.length) >= minimum
    ]


def _check_minimum(minimum: int) -> None:
    if not isinstance(minimum, int) or minimum < 1:
        raise InputError(f"a stable side needs a minimum of 1 frame or more, not {minimum!r}")


def changes(pass_: Pass, minimum: int = MINIMUM) -> list[StateChange]:
    """Return the changes from one stable state to another, in order, of a complete pass that names
    its states: runs of at least ``minimum`` frames, side by side or with frames of none between
    them."""
    _check_minimum(minimum)
    pass_.check_complete()
    runs, changes = pass_.runs(), []
    for at, (before, first) in enumerate(runs):
        rest = runs[at + 1 : at + 3]
        between = rest.pop(0)[0] if rest and rest[0][1] == NONE else None
        if first not in (pass_.states or ()) or not rest:
            continue
        after, second = rest[0]
        stable = min(before.length, after.length) >= minimum
        if stable and first != second and second in (pass_.states or ()):
            changes.append(StateChange(str(first), before, between, str(second), after))
    return changes


def stable_reference(
    pass_: Pass, minimum: int = MINIMUM, component: str | None = None
) -> Reference:
    """Return every stable run of every named state, as the reference of the history."""
    _check_minimum(minimum)
    pass_.check_complete()
    windows: dict[str, tuple[Window, ...]] = {
        state: runs
        for state in pass_.states or ()
        if (runs := tuple(_stable_runs(pass_, state, minimum)))
    }
    if not windows:
        raise InputError(
            f"history {pass_.history}: no state lasts {counted(minimum, 'frame')} or more, so "
            "there is no reference; give a smaller minimum"
        )
    return Reference(pass_.history, windows, component, pass_.frames)  # type: ignore[arg-type]


def nearest_miss(pass_: Pass, minimum: int = MINIMUM) -> str:
    """Return why a complete pass has no qualifying event: what is wrong at the transition that is
    nearest to one, the earliest of those equally near. Empty if it has an event."""
    runs = pass_.runs()
    neighbours = zip([None, *runs[:-1]], runs, [*runs[1:], None], strict=True)
    misses = [
        _miss(before, between, after, minimum)
        for before, (between, label), after in neighbours
        if label == "transition"
    ]
    if not misses:
        return "no frame is labelled transition"
    return min(misses, key=lambda miss: miss[:2])[2]


def _miss(
    before: Run | None, transition: Window, after: Run | None, minimum: int
) -> tuple[int, int, str]:
    """Return how far it is from an event: neighbours of another label, frames too few, and both in
    words."""
    if before and after and (before[1], after[1]) == ("post", "pre"):
        reversed_ = f"the transition {transition} leads from post to pre, not from pre to post"
        return 2, 0, f"{reversed_}; the earlier state is pre"
    others, too_few, words = 0, 0, []
    for run, side, where, verb in (
        (before, "pre", "before", "preceded"),
        (after, "post", "after", "followed"),
    ):
        window, label = run or (None, "nothing")
        if window is None or label != side:
            others += 1
            words.append(f"the transition {transition} is {verb} by {label}, not by {side}")
        elif window.length < minimum:
            too_few += minimum - window.length
            has = counted(window.length, "frame")
            words.append(
                f"{where} the transition {transition}, the {side} run {window} has {has}, but "
                f"{minimum} are needed"
            )
    return others, too_few, "; ".join(words)


def other_runs(pass_: Pass, event: Event, minimum: int = MINIMUM) -> dict[str, list[Window]]:
    """Return the stable runs of ``pre`` and of ``post`` that are not the sides of the event."""
    return {
        side: [run for run in _stable_runs(pass_, side, minimum) if run != window]
        for side, window in (("pre", event.pre), ("post", event.post))
    }


def _stable_runs(pass_: Pass, label: str, minimum: int) -> list[Window]:
    return [run for run, name in pass_.runs() if name == label and run.length >= minimum]


def reference(
    pass_: Pass, event: Event, pre: str = "pre", post: str = "post", component: str | None = None
) -> Reference:
    """Return the stable sides of an event as the reference of the history.

    pre, post   what the vocabulary calls these states
    component   the source (video) that the history comes from; default: its own
    """
    for what, name in (("state", pre), ("state", post), ("component", component)):
        if name is not None:
            check_name(what, name)
    if pre == post:
        raise InputError(f'both states are called "{pre}"; give pre and post different names')
    sides = {pre: (event.pre,), post: (event.post,)}
    return Reference(pass_.history, sides, component, pass_.frames)  # type: ignore[arg-type]
