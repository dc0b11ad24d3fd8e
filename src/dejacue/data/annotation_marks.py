"""A pass from what was marked with another tool, and back: labels of frames ↔ windows of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dejacue.data.annotation_files import BESIDE, LABELS, Pass
from dejacue.errors import InputError, unknown
from dejacue.records import Reference, Window
from dejacue.records.example import NONE

UNOBSERVED = BESIDE[1]


def states_in(labels: Iterable[str]) -> tuple[str, ...] | None:
    """The states that these labels tell apart, in the order of their names, so that two annotators
    have the same; None: they are those of the VOST protocol."""
    found = sorted(set(labels))
    if set(found) <= set(LABELS):
        return None
    return tuple(own for own in found if own not in BESIDE)


def filled(
    blank: Pass, marks: Mapping[str, Sequence[Window]], rest: str | None = None
) -> tuple[Pass, int]:
    """The pass with these labels, and how many marked frames it does not have.

    blank   every frame without a label or unobserved, which stays: nobody sees the object there
    rest    label of frames that are not marked; None: "none" where states are named, else they stay
            open
    """
    known = blank.known
    if rest is None and blank.states is not None:
        rest = NONE
    if rest is not None and rest not in known:
        raise unknown("label", rest, known)
    labels: list[str | None] = [None] * blank.frames.length
    outside = 0
    for label, windows in marks.items():
        if label not in known:
            raise unknown("label", label, known)
        for window in windows:
            inside = range(
                max(window.start, blank.frames.start), min(window.end, blank.frames.end) + 1
            )
            outside += window.length - len(inside)
            for frame in inside:
                at = frame - blank.frames.start
                if labels[at] not in (None, label):
                    raise InputError(
                        f'frame {frame} is marked both "{labels[at]}" and "{label}"; a frame has '
                        "one label: shorten one of the spans"
                    )
                labels[at] = label
    made = (
        UNOBSERVED if given == UNOBSERVED else label or rest
        for given, label in zip(blank.labels, labels, strict=True)
    )
    return replace(blank, labels=tuple(made)), outside


def marks_of(pass_: Pass) -> Reference:
    """Windows of each label but "none", which is where nothing is marked."""
    found: dict[str, list[Window]] = {}
    for window, label in pass_.runs():
        if label not in (None, NONE):
            found.setdefault(str(label), []).append(window)
    if not found:
        raise InputError(
            f"history {pass_.history}: no frame has a label, so there is nothing to mark"
        )
    return Reference(pass_.history, {label: tuple(own) for label, own in found.items()})
