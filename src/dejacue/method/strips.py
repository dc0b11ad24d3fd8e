"""The strip: pictures side by side, on which a person marks where each state begins and ends.

Marks become facts (known_frames.py): all frames from the first marked picture to the last. Two
pictures leave a border between them open; a finer strip there closes it, down to a frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal, NamedTuple

import numpy as np

from dejacue.errors import InputError, counted, unknown
from dejacue.method.known_frames import known_frames_of
from dejacue.method.state_readout import is_count
from dejacue.records import History, Timeline, Vocabulary
from dejacue.records.arrays import Ints
from dejacue.records.vocabulary import NONE, Example

Side = Literal["start", "end"]
SIDES: tuple[Side, ...] = ("start", "end")
MAX_PICTURES = 1000
_PICTURES = re.compile(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?")
KNOWN = -2  # label of a picture that is not marked, of which something is known
Load = Callable[[Sequence[int]], Sequence[bytes | None]]  # JPEGs of frames of the history


class Border(NamedTuple):
    """A border of a state that is not known to a frame.

    inside    the outermost frame on this side that is known to show the state; None: none is, and
              the state may be anywhere
    outside   the nearest frame beyond that is known to show something else; None: nothing is known
              up to the end of the history
    """

    state: str
    side: Side
    inside: int | None
    outside: int | None


@dataclass(frozen=True, eq=False)
class Strip:
    """Frames of a history side by side, for a person to mark.

    frames     of the history; all are observed, ascending
    believed   for each picture the state that the finding claims there; None: none of them
    border     where the strip is a finer one: the border that it shows
    """

    history: History
    frames: tuple[int, ...]
    believed: tuple[str | None, ...]
    border: Border | None = None
    load: Load | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def pictures(self) -> tuple[bytes | None, ...]:
        """Return a JPEG for each frame, decoded when it is first asked for; None: there is none."""
        pictures = self.load(self.frames) if self.load is not None else [None] * len(self)
        return tuple(pictures)

    @property
    def missing(self) -> str | None:
        """Return a sentence that says which pictures are not there; None where all are."""
        count = sum(picture is None for picture in self.pictures)
        if not count:
            return None
        if count == len(self):
            return "no pictures: the video is not here, and none were stored with the history"
        which = ", ".join(str(k) for k, data in enumerate(self.pictures, start=1) if data is None)
        return f"no picture {which}: the video is not here, and these were not stored"

    @property
    def proposal(self) -> dict[str, list[tuple[int, int]]]:
        """Return what is believed in the form in which ``mark`` takes it: state → pictures from
        the first to the last, counted from 1."""
        marks: dict[str, list[tuple[int, int]]] = {}
        for state, first, last in _stretches(self.believed):
            if state is not None:
                marks.setdefault(state, []).append((first + 1, last + 1))
        return marks

    def __repr__(self) -> str:
        where = f" at the {self.border.side} of {self.border.state}" if self.border else ""
        spans = "; ".join(
            f"{state} {', '.join(f'{a}-{b}' for a, b in spans)}"
            for state, spans in self.proposal.items()
        )
        return f"<Strip of {counted(len(self), 'picture')}{where}: {spans or 'nothing believed'}>"


def strip_of(
    history: History,
    vocabulary: Vocabulary,
    timeline: Timeline | None,
    count: int,
    *,
    border: Border | Sequence[str] | None = None,
    stored: Sequence[int] | None = None,
    load: Load | None = None,
) -> Strip:
    """Return this many frames, evenly spread over what is observed, or over an open border.

    border   (state, "start" or "end"): the widest such border, or one of ``open_borders``. Of a
             state that is not marked yet, the strip shows all that is not known.
    stored   the only frames of which there are pictures; default: there are of all
    """
    if not is_count(count, 2) or count > MAX_PICTURES:
        raise InputError(f"a strip has from 2 to {MAX_PICTURES} pictures, not {count!r}")
    chosen = None if border is None else _border(history, vocabulary, border)
    if chosen is None:
        at = _even(count, len(history))
    elif chosen.inside is None:
        unknown_at = np.flatnonzero(known_frames_of(history, vocabulary).labels < 0)
        if not len(unknown_at):
            raise InputError(f"every frame is known, and none of them shows {chosen.state}")
        at = unknown_at[_even(count, len(unknown_at))]
    else:
        edge = 0 if chosen.side == "start" else len(history) - 1
        inside = int(np.searchsorted(history.frames, chosen.inside))
        beyond = chosen.outside
        outside = edge if beyond is None else int(np.searchsorted(history.frames, beyond))
        even = np.linspace(inside, outside, min(count, abs(outside - inside) + 1))
        at = even.round().astype(np.int64)
    positions = np.unique(at)
    if stored is not None:
        positions = _nearest(positions, np.searchsorted(history.frames, sorted(stored)))
    frames = history.frames[positions].tolist()
    believed = tuple(timeline.at(frame=f) if timeline is not None else None for f in frames)
    return Strip(history, tuple(frames), believed, chosen, load)


def _even(count: int, size: int) -> Ints:
    """Return this many positions below the size, each in the middle of its share."""
    at = ((np.arange(count) + 0.5) / count * size - 0.5).round()
    return np.clip(at, 0, size - 1).astype(np.int64)


def _nearest(positions: Ints, allowed: Ints) -> Ints:
    """Return for each position the nearest allowed one in its range, each once."""
    allowed = allowed[(allowed >= positions[0]) & (allowed <= positions[-1])]
    if not len(allowed):
        return positions
    nearest: Ints = np.unique(allowed[np.abs(positions[:, None] - allowed[None, :]).argmin(axis=1)])
    return nearest


def open_borders(history: History, vocabulary: Vocabulary) -> tuple[Border, ...]:
    """Return the borders of named stretches that are not known to a frame, the widest first."""
    labels = known_frames_of(history, vocabulary).labels
    known = np.flatnonzero(labels >= 0)
    names, frames = list(vocabulary.states), history.frames
    borders: list[tuple[int, Border]] = []
    for label, first, last in _stretches(labels[known].tolist()):
        if label >= len(names):
            continue
        for side, at, beyond in (("start", first, first - 1), ("end", last, last + 1)):
            inside = int(known[at])
            edge = -1 if side == "start" else len(frames)
            outside = int(known[beyond]) if 0 <= beyond < len(known) else edge
            width = abs(outside - inside) - 1
            if width:
                known_outside = None if outside == edge else int(frames[outside])
                entry = Border(names[label], side, int(frames[inside]), known_outside)  # type: ignore[arg-type]
                borders.append((width, entry))
    return tuple(border for _, border in sorted(borders, key=lambda pair: -pair[0]))


def _border(history: History, vocabulary: Vocabulary, border: Any) -> Border:
    """Return the open border that is meant; refuse what is none."""
    if isinstance(border, str) or not isinstance(border, Sequence) or len(border) not in (2, 4):
        raise InputError(f"border {border!r:.40}: give a state and one of {', '.join(SIDES)}")
    state, side = border[:2]
    if state not in vocabulary.states:
        raise unknown("state of a border", state, vocabulary.states)
    if side not in SIDES:
        raise unknown("side of a border", side, SIDES)
    same = [b for b in open_borders(history, vocabulary) if b[:2] == (state, side)]
    if isinstance(border, Border):
        same = [b for b in same if b == border]
    if same:
        return same[0]
    if not any(example.state == state for example in vocabulary.frame_examples):
        return Border(state, side, None, None)
    raise InputError(f"the {side} of {state} is known to a frame; choose another border")


def marked(
    history: History,
    vocabulary: Vocabulary | None,
    strip: Strip,
    marks: Mapping[str | None, Any],
    *,
    exhaustive: bool = False,
) -> Vocabulary:
    """Return the vocabulary with what a person marked on a strip of this history.

    vocabulary   None: marks name its states; they have no words
    marks   state → pictures, counted from 1: 9, a range (5, 6) with both ends, a list of several,
            [1, (5, 6), 9], or all this as text, "1, 5-6, 9". A state that the vocabulary does not
            have is added to it, described by its name where the others have words. The state None
            (or "none") is none of the states. Pictures that are not marked keep what is known of
            them; else they show none of the states, except where every frame shows a state
            (``exhaustive``): then they stay unknown.
            At a border, if only its state is marked, they show what comes after it; where a
            state is looked for that was not marked before, they stay unknown.
    exhaustive   of a vocabulary that marks make: whether every frame shows one of the states

    Where marks contradict earlier ones, the later ones hold.
    """
    _check_strip(history, strip)
    frames = strip.frames
    known_states = {} if vocabulary is None else vocabulary.states
    named = marked_states(marks) if vocabulary is None else [s for s in marks if s is not None]
    new = {
        state: Example(state, (frames[first], frames[last]))
        for state in named
        if state != NONE and state not in known_states
        for first, last in _spans(state, marks[state], len(strip))[:1]
    }
    worded = bool(known_states) and all(known_states.values())  # then all need words: their names
    states = {**known_states, **{state: (state,) if worded else () for state in new}}
    if vocabulary is None:
        vocabulary = Vocabulary(states, examples=[*new.values()], exhaustive=exhaustive)
    elif new:
        named_now: list[str | None] = [*states, None]
        kept = _overruled(history, vocabulary.examples, [*new.values()], named_now)
        examples = (*kept, *new.values())
        vocabulary = replace(vocabulary, states=states, features=None, examples=examples)
    names: list[str | None] = [*vocabulary.states, None]
    added = [
        Example(names[label], (frames[first], frames[last]))
        for label, first, last in _labelled(vocabulary, strip, marks)
    ]
    known = vocabulary.with_examples(_by_state(added))  # at no time is a state without any
    return replace(
        known, examples=_overruled(history, known.examples, added, names)
    ).with_examples()


def marked_states(marks: Mapping[str | None, Any]) -> list[str]:
    """Return the states that marks name; refuse marks that name none."""
    states = [state for state in marks if state is not None and state != NONE]
    if not states:
        raise InputError("marks name no state; mark pictures of a state, or give a vocabulary")
    return states


def _by_state(examples: Sequence[Example]) -> dict[str | None, list[Example]]:
    by_state: dict[str | None, list[Example]] = {}
    for example in examples:
        by_state.setdefault(example.state, []).append(example)
    return by_state


def _overruled(
    history: History,
    examples: Sequence[Example],
    later: Sequence[Example],
    names: Sequence[str | None],
) -> list[Example]:
    """Return what later examples leave of these."""
    labels = np.full(len(history), -1)
    for example in later:
        first, end = example.positions(history)
        labels[first:end] = names.index(example.state)
    return [part for e in examples for part in _consistent(history, e, labels, names)]


def _consistent(
    history: History, example: Example, new_labels: Ints, names: Sequence[str | None]
) -> Iterator[Example]:
    """Return the parts of an earlier example that later marks do not contradict."""
    if example.span is None:
        yield example
        return
    first, end = example.positions(history)
    agrees = (new_labels[first:end] < 0) | (new_labels[first:end] == names.index(example.state))
    if agrees.all():
        yield example
        return
    for is_kept, a, b in _stretches(agrees.tolist()):
        if is_kept:
            frames = history.frames[[first + a, first + b]].tolist()
            yield Example(example.state, (frames[0], frames[1]))


def _check_strip(history: History, strip: Strip) -> None:
    theirs = strip.history
    if theirs is not history and not (
        theirs.id == history.id
        and np.array_equal(theirs.frames, history.frames)
        and np.array_equal(theirs.features[[0, -1]], history.features[[0, -1]])
    ):
        problem = f"the strip is of {theirs.id}, or another finding of it, not of {history.id}"
        raise InputError(f"{problem}; make a strip of this finding")
    at = np.searchsorted(history.frames, strip.frames)
    seen = history.frames[np.minimum(at, len(history) - 1)] == np.array(strip.frames)
    if not seen.all():
        frame = strip.frames[int(seen.argmin())]
        raise InputError(f"frame {frame} of the strip is not observed; make the strip again")


def _labelled(vocabulary: Vocabulary, strip: Strip, marks: Any) -> list[tuple[int, int, int]]:
    """Return the spans of pictures of which something is said: number of the state, first, last."""
    names = [*vocabulary.states, NONE]
    labels, labelled = [-1] * len(strip), []
    for state, spans in marks.items():
        name = NONE if state is None else state
        if name not in names:
            raise unknown("state", name, names)
        for first, last in _spans(name, spans, len(strip)):
            for k in range(first, last + 1):
                if labels[k] >= 0:
                    both = dict.fromkeys([names[labels[k]], name])
                    raise InputError(
                        f"a picture is marked twice, for {' and '.join(both)}; "
                        "give each picture to one state"
                    )
                labels[k] = names.index(name)
            labelled.append((names.index(name), first, last))
    default = _unmarked(vocabulary, strip, set(labels))
    known = known_frames_of(strip.history, vocabulary).labels
    known = known[np.searchsorted(strip.history.frames, strip.frames)]
    for k in np.flatnonzero(known >= 0).tolist():
        if labels[k] < 0:
            labels[k] = KNOWN
    for label, first, last in _stretches(labels):
        if label == KNOWN:
            continue
        if label < 0 and 0 <= default < len(vocabulary.states):
            labelled.append((default, first, last))
        elif label < 0 and default >= 0:  # between two pictures, something may be
            labelled += [(default, k, k) for k in range(first, last + 1)]
    return labelled


def _unmarked(vocabulary: Vocabulary, strip: Strip, marked: set[int]) -> int:
    """Return what pictures that are not marked show."""
    none, border = len(vocabulary.states), strip.border
    if border is not None and border.inside is None:
        return -1
    if border is not None and border.outside is not None:
        known = known_frames_of(strip.history, vocabulary).labels
        beyond = int(known[np.searchsorted(strip.history.frames, border.outside)])
        if beyond >= 0 and beyond not in marked:
            return beyond
    return -1 if vocabulary.exhaustive else none


def _spans(state: str, spans: Any, count: int) -> list[tuple[int, int]]:
    """Return the positions of the first and the last picture of each mark of a state, from 0;
    refuse what is none."""
    if isinstance(spans, str):
        parts = [_PICTURES.fullmatch(part) for part in spans.split(",")]
        if None in parts:
            problem = f'mark "{state}={spans}"'
            raise InputError(f"{problem}: give pictures, counted from 1, as in 3-6 or 8-9,12")
        spans = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    several = spans if isinstance(spans, list) else [spans]
    pairs = []
    for span in several:
        first, last = (span, span) if is_count(span, 0) else span if _is_pair(span) else (0, 0)
        if not 1 <= first <= last <= count:
            problem = f"a mark of {state} is not a first and a last of the {count} pictures"
            remedy = "give pictures of the strip, counted from 1: 9, (5, 6) or a list of several"
            raise InputError(f"{problem}; {remedy}")
        pairs.append((int(first) - 1, int(last) - 1))
    return pairs


def _is_pair(span: Any) -> bool:
    return isinstance(span, tuple) and len(span) == 2 and all(is_count(end, 0) for end in span)


def _stretches(values: Sequence[Any]) -> Iterator[tuple[Any, int, int]]:
    """Return runs of equal values: the value, its first and its last position."""
    first = 0
    for value, run in groupby(values):
        last = first + sum(1 for _ in run) - 1
        yield value, first, last
        first = last + 1
