"""From annotation passes to their consensus, and to the events that give the references (§8).

template ──▶ two passes, filled in independently ──▶ disagreements ──▶ consensus ──▶ events
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from dejacue.data.annotation_files import (
    CONSENSUS,
    LABELS,
    Decisions,
    Disagreement,
    Pass,
    annotator_key,
    check_frames,
    check_name,
    frames_of,
    runs_of,
)
from dejacue.errors import InputError, counted
from dejacue.records import History, Reference, Window
from dejacue.records.example import NONE

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
        problem = f"history {history}: no observed frame, so there is nothing to annotate"
        raise InputError(problem, field="frames")
    for before, after in pairwise(observed):
        if after <= before:
            problem = (
                f"history {history}: frames are not in order ({before} is followed by {after}); "
                "sort them and keep one of each"
            )
            raise InputError(problem, field="frames", value=after)
    if annotator_key(annotator) == CONSENSUS:
        problem = f'"{annotator}" is reserved for what two annotators agree on; choose another name'
        raise InputError(problem, field="annotator", value=annotator)
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
            f"one pass is for history {first.history}, the other for {second.history}; give two "
            "passes over the same history",
            field="history",
        )
    if first.frames != second.frames:
        raise InputError(
            f"history {first.history}: one pass covers the frames {first.frames}, "
            f"the other {second.frames}; both must label the same frames",
            field="frames",
        )
    if first.states != second.states:
        states = [", ".join(pass_.states or LABELS[:-1]) for pass_ in (first, second)]
        raise InputError(
            f"history {first.history}: one pass distinguishes {states[0]}, the other {states[1]}; "
            "both must have the same states in the same order",
            field="states",
        )
    if annotator_key(first.annotator) == annotator_key(second.annotator):
        problem = f'history {first.history}: both passes are by "{first.annotator.strip()}"'
        remedy = "two annotators must work independently"
        raise InputError(problem, field="annotator", value=second.annotator, remedy=remedy)
    for pass_ in (first, second):
        pass_.check_complete()
        if annotator_key(pass_.annotator) == CONSENSUS:
            problem = f"history {pass_.history}: one of the passes is already a consensus"
            remedy = "give the two passes it was made from"
            raise InputError(problem, field="annotator", value=pass_.annotator, remedy=remedy)
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
            f"{to_decide.history}",
            field="history",
        )
    if decisions is not None and decisions.annotator_keys != to_decide.annotator_keys:
        raise InputError(
            f"the decisions are between {' and '.join(decisions.annotators)}, but the passes are "
            f"by {' and '.join(to_decide.annotators)}; give the same passes in the same order",
            field="annotators",
        )
    decided: dict[int, str | None] = {}
    for row in decisions.rows if decisions else ():
        _check_decision(row, first, second)
        for frame in frames_of(row.window):
            if frame in decided:
                problem = f"frame {frame} is decided twice; keep one decision"
                raise InputError(problem, field="frame", value=frame)
            decided[frame] = row.label
    choices = {
        frame: (row.first, row.second) for row in to_decide.rows for frame in frames_of(row.window)
    }
    missing = sorted(choices.keys() - decided.keys())
    if missing:
        problem = (
            f"frame {missing[0]} is not decided ({' or '.join(choices[missing[0]])}), one of "
            f"{len(missing)} undecided frames on which the passes differ; decide all of them"
        )
        raise InputError(problem, field="frame", value=missing[0])
    frames = zip(frames_of(first.frames), first.labels, strict=True)
    labels = tuple(decided.get(frame, label) for frame, label in frames)
    return Pass(first.history, CONSENSUS, first.frames, labels, first.states)


def _check_decision(row: Disagreement, first: Pass, second: Pass) -> None:
    """Refuse a decision that is open, or does not match what the passes say."""
    if row.window | first.frames != first.frames:
        problem = f"frames {row.window}: the passes cover only {first.frames}"
        raise InputError(problem, field="frames", value=row.window)
    at = slice(row.window.start - first.frames.start, row.window.end - first.frames.start + 1)
    pairs = list(zip(first.labels[at], second.labels[at], strict=True))
    for window, (a, b) in runs_of(pairs, row.window.start):
        if a == b:
            problem = f"frames {window}: both passes say {a} there, so there is nothing to decide"
            raise InputError(problem, field="frames", value=window)
        if (a, b) != (row.first, row.second):
            problem = (
                f"frames {window} are decided between {row.first} and {row.second}, but the "
                f"passes say {a} and {b}; decide them again"
            )
            raise InputError(problem, field="frames", value=window)
    if row.label is None:
        problem = f"frame {row.window.start} is not decided yet ({row.first} or {row.second})"
        remedy = f"replace null with one of {', '.join(first.known)}"
        raise InputError(problem, field="frame", value=row.window.start, remedy=remedy)


def events(pass_: Pass, minimum: int = MINIMUM) -> list[Event]:
    """Return all qualifying events, in order; the earliest gives the references.

    A maximal ``pre`` run of at least ``minimum`` frames, directly followed by a ``transition``
    run, directly followed by a maximal ``post`` run of at least ``minimum`` frames.
    """
    _check_minimum(minimum)
    if pass_.states is not None:
        raise InputError(
            f"history {pass_.history}: the pass names the states {', '.join(pass_.states)}; only "
            "passes of the VOST protocol (pre, transition, post) have events",
            field="states",
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
        problem = f"a stable side needs a minimum of 1 frame or more, not {minimum!r}"
        raise InputError(problem, field="minimum", value=minimum)


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
        problem = (
            f"history {pass_.history}: no state lasts {counted(minimum, 'frame')} or more, so "
            "there is no reference; give a smaller minimum"
        )
        raise InputError(problem, field="minimum", value=minimum)
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
        problem = f'both states are called "{pre}"; give pre and post different names'
        raise InputError(problem, field="post", value=post)
    sides = {pre: (event.pre,), post: (event.post,)}
    return Reference(pass_.history, sides, component, pass_.frames)  # type: ignore[arg-type]
