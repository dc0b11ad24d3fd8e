"""Teachers: other videos, in which a person has confirmed when states hold.

In each teacher, a state differs from its siblings by the mean of its confirmed frames less the mean
of theirs, at unit length; which object it is, light and background cancel out. A single state is
compared with the frames in which the teacher is in none. The mean over the teachers is the state's
direction. It is used alone, or beside words, weighed by what each has earned: how well words, and
the directions of the other teachers, tell the confirmed frames of a teacher apart.

    earned = (1/2 + Σ over n teachers of (2 AUC − 1)) / (n + 1)      1/2: nothing is known yet

Directions become examples from elsewhere, one per teacher and state, so that every readout, a
store and later corrections use them like any other example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from dejacue.errors import InputError, counted, shortened
from dejacue.method.coordinates import (
    COORDINATES,
    FALLBACK_BELOW,
    WORDS,
    query_directions,
    unit_rows,
)
from dejacue.method.readout import quoted
from dejacue.records import Example, History, Reference, Vocabulary, Window
from dejacue.records.arrays import Flags, Floats

UNKNOWN_SHARE = 0.5  # what is earned before anything is known: 2 AUC − 1
MIN_EARNED = 0.05  # words that mislead keep a twentieth
MIN_SPREAD = 1e-6  # of evidence in a teacher


class Confirmed(Protocol):
    """A history, and windows in which a person has confirmed a state: a Finding, a Teacher."""

    @property
    def history(self) -> History: ...
    @property
    def confirmed(self) -> Mapping[str, Sequence[Window]]: ...


@dataclass(frozen=True, eq=False)
class Teacher:
    """A history with the windows of its states that a person has confirmed, in its frames.

    For true windows that come from elsewhere: ``Teacher(history, reference.states)``; pairs (start,
    end) become Windows. A Finding is a teacher as it is, if frames of it were named.

    >>> from dejacue import locate
    >>> cup = History([[1.0, 0.1]] * 6 + [[0.1, 1.0]] * 6)
    >>> teacher = Teacher(cup, {"empty": [(0, 5)], "full": [(6, 11)]})
    >>> other = History([[0.2, 1.0]] * 6 + [[1.0, 0.2]] * 6)
    >>> locate(other, taught(None, teacher))["full"][0].window
    Window(start=0, end=5)
    """

    history: History
    confirmed: Mapping[str, Sequence[Window]]

    def __post_init__(self) -> None:
        windows: Any = self.confirmed
        object.__setattr__(self, "confirmed", Reference(self.history.id, windows).states)


def as_teachers(like: Any) -> tuple[Confirmed, ...]:
    """Return what states are learnt from: a Finding or a Teacher, or several of them."""
    return (like,) if hasattr(like, "confirmed") else tuple(like)


@dataclass(frozen=True, eq=False)
class Lesson:
    """Holds what a teacher shows: unit frames (N, d), those in each state, differences."""

    history: History
    frames: Floats
    inside: dict[str, Flags]
    differences: dict[str, Floats]

    @classmethod
    def of(cls, teacher: Confirmed, states: Sequence[str]) -> Lesson:
        """Return what a teacher shows of these states; refuse one that has not two of them, or not
        the only one."""
        history, name = teacher.history, shortened(teacher.history.id)
        inside: dict[str, Flags] = {}
        for state, windows in teacher.confirmed.items():
            rows = np.zeros(len(history), bool)
            for window in windows:
                rows |= (history.frames >= window.start) & (history.frames <= window.end)
            if rows.any():
                inside[state] = rows
        labels = getattr(teacher, "labels", ())  # of a finding, which may know other states
        if list(inside) == list(states) and len(states) == 1 and {*labels} <= {*states, None}:
            return cls._alone(history, states[0], inside[states[0]], labels)
        if len(inside) < 2:
            problem = f"has {counted(len(inside), 'state')} with confirmed frames"
            remedy = "a teacher shows how states differ: name frames of two or more in it"
            raise InputError(f"teacher {name} {problem}; {remedy}")
        common = {state: inside[state] for state in states if state in inside}
        if len(common) < 2:
            shared = f'only "{next(iter(common))}"' if common else "no state"
            raise InputError(
                f"teacher {name} has {shared} in common with the vocabulary: it has "
                f"{quoted(inside)}, the vocabulary {quoted(states)}; use the same names for two or "
                "more states"
            )
        frames = unit_rows(history.features)
        means = {state: frames[rows].mean(axis=0) for state, rows in common.items()}
        differences = {}
        for state, mean in means.items():
            residual = mean - np.mean([m for s, m in means.items() if s != state], axis=0)
            length = float(np.linalg.norm(residual))
            if not length > FALLBACK_BELOW:
                problem = f'all frames of "{state}" look like those of other states'
                raise InputError(f"teacher {name}: {problem}; leave this teacher out")
            differences[state] = residual / length
        return cls(history, frames, common, differences)

    @classmethod
    def _alone(
        cls, history: History, state: str, inside: Flags, labels: Sequence[str | None]
    ) -> Lesson:
        """Return what a teacher shows of a single state; labels, where they are known, also tell
        the occurrences that nobody has confirmed."""
        outside = ~inside
        if len(labels):
            outside &= [label is None for label in labels]
        frames = unit_rows(history.features)
        if outside.any():
            residual = frames[inside].mean(axis=0) - frames[outside].mean(axis=0)
            if (length := float(np.linalg.norm(residual))) > FALLBACK_BELOW:
                return cls(history, frames, {state: inside}, {state: residual / length})
        name = shortened(history.id)
        problem = f'teacher {name} does not show what it looks like when it is not "{state}"'
        remedy = "give one that has frames of none of the states, or name another state"
        raise InputError(f"{problem}; {remedy}")

    def span(self, state: str) -> str:
        """Return the first and the last confirmed frame of a state: 120-180."""
        frames = self.history.frames[self.inside[state]]
        return f"{frames[0]}-{frames[-1]}"

    def earned(self, directions: Mapping[str, Floats]) -> tuple[float, float] | None:
        """Return 2 AUC − 1 of these directions over the confirmed frames, and their spread over all
        frames, as means over the states; None where it has none of them."""
        shares, spreads = [], []
        for state in self.inside.keys() & directions.keys():
            evidence = self.frames @ directions[state]
            siblings = np.any([row for s, row in self.inside.items() if s != state], axis=0)
            shares.append(_higher(evidence[self.inside[state]], evidence[siblings]))
            spreads.append(float(evidence.std()))
        return (float(np.mean(shares)), float(np.mean(spreads))) if shares else None


def _higher(inside: Floats, outside: Floats) -> float:
    """Return how much oftener a value inside is the higher one than the lower one, −1 … 1."""
    ordered = np.sort(outside)
    below = np.searchsorted(ordered, inside, side="left")
    above = len(ordered) - np.searchsorted(ordered, inside, side="right")
    return float((below - above).mean()) / len(ordered)


def taught(vocabulary: Vocabulary | None, like: Confirmed | Iterable[Confirmed]) -> Vocabulary:
    """Return the vocabulary with a direction per state that the teachers show.

    vocabulary   with features of its words, where it has any; None: the teachers' states, in the
                 order of the first

    Refuses teachers of several encoders, and one that has not two states with confirmed frames
    that the vocabulary has, too.
    """
    teachers = as_teachers(like)
    if not teachers:
        raise InputError("no teacher is given")
    names = dict.fromkeys(state for teacher in teachers for state in teacher.confirmed)
    states = list(names if vocabulary is None else vocabulary.states)
    lessons = [Lesson.of(teacher, states) for teacher in teachers]
    first = lessons[0].history
    for lesson in lessons[1:]:
        _check_same_space(lesson.history, first.encoder, first.dimension, first.id)
    if vocabulary is None:
        confirmed = {state for lesson in lessons for state in lesson.inside}
        bare = dict.fromkeys((state for state in states if state in confirmed), ())
        return Vocabulary(bare, encoder=first.encoder, examples=_examples(lessons, 1.0))
    if vocabulary.features is not None:
        dimension = vocabulary.features.shape[1]
        _check_same_space(first, vocabulary.encoder, dimension, "the vocabulary")
    by_words = vocabulary.features is not None and len(states) > 1
    weight = _weight(vocabulary, lessons) if by_words else 1.0
    ids = {lesson.history.id for lesson in lessons}  # what they said before is replaced
    before = [e for e in vocabulary.examples if e.name.rpartition("@")[0] not in ids]
    return replace(vocabulary, examples=(*before, *_examples(lessons, weight)))


def looks(teachers: Iterable[Confirmed]) -> Floats:
    """Return (d,) what the objects of the teachers look like, at unit length: every teacher weighs
    the same."""
    total = np.sum([teacher.history.mean_direction for teacher in teachers], axis=0)
    mean: Floats = total / max(float(np.linalg.norm(total)), FALLBACK_BELOW)
    return mean


def _check_same_space(history: History, encoder: str | None, dimension: int, name: str) -> None:
    """Refuse a teacher of another encoder; an unnamed encoder matches any."""
    unlike = None not in (history.encoder, encoder) and history.encoder != encoder
    if unlike or history.dimension != dimension:
        raise InputError(
            f'teacher {shortened(history.id)} was encoded with "{history.encoder or "?"}" '
            f'({history.dimension} dimensions), but {shortened(name)} with "{encoder or "?"}" '
            f"({dimension}); encode its video again with the same encoder"
        )


def _direction(lessons: Iterable[Lesson]) -> dict[str, Floats]:
    """Return the mean difference of each state, over the teachers that show it."""
    rows: dict[str, list[Floats]] = {}
    for lesson in lessons:
        for state, difference in lesson.differences.items():
            rows.setdefault(state, []).append(difference)
    means = {state: np.mean(of_state, axis=0) for state, of_state in rows.items()}
    return {state: m / max(float(np.linalg.norm(m)), FALLBACK_BELOW) for state, m in means.items()}


def _weight(vocabulary: Vocabulary, lessons: Sequence[Lesson]) -> float:
    """Return for how many examples a teacher counts beside words, which count for WORDS.

    All teachers together weigh as much as words, times the ratio of what both have earned; and
    evidence of both is brought to the same spread.
    """
    words = query_directions(
        replace(vocabulary, examples=(), changes=()), COORDINATES["vocabulary"], 1.0
    ).states.astype(np.float64)
    by_words = dict(zip(vocabulary.states, words, strict=True))
    from_words = [lesson.earned(by_words) for lesson in lessons]
    from_others = [
        lesson.earned(_direction(sibling for sibling in lessons if sibling is not lesson))
        for lesson in (lessons if len(lessons) > 1 else ())
    ]
    spread = _mean_spread(from_words)
    if spread < MIN_SPREAD:
        return float(WORDS)
    others_spread = _mean_spread(from_others or [lessons[0].earned(lessons[0].differences)])
    ratio = _share(from_others) / _share(from_words) * spread / max(others_spread, MIN_SPREAD)
    return WORDS * ratio / len(lessons)


def _share(earned: Sequence[tuple[float, float] | None]) -> float:
    shares = [share for share, _ in filter(None, earned)]
    return max((UNKNOWN_SHARE + sum(shares)) / (1 + len(shares)), MIN_EARNED)


def _mean_spread(earned: Sequence[tuple[float, float] | None]) -> float:
    spreads = [spread for _, spread in filter(None, earned)]
    return float(np.mean(spreads)) if spreads else 0.0


def _examples(lessons: Iterable[Lesson], weight: float) -> list[Example]:
    examples: list[Example] = []
    times: Counter[str] = Counter()
    for lesson in lessons:
        name = lesson.history.id
        times[name] += 1
        name = name if times[name] == 1 else f"{name} ({times[name]})"  # two files, two teachers
        examples += [
            Example(
                state,
                source=f"{name}@{lesson.span(state)}",
                features=difference.astype(np.float32),
                centred=True,
                encoder=lesson.history.encoder,
                weight=weight,
            )
            for state, difference in lesson.differences.items()
        ]
    return examples
