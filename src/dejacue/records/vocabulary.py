"""Vocabulary: the closed list of states that an object can be in, told by words or shown by
examples, which are frames or pictures."""

from __future__ import annotations

import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec import structs
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from dejacue.errors import InputError, counted, unknown
from dejacue.records._html import escaped, table_html
from dejacue.records.arrays import check_names, feature_rows, frozen
from dejacue.records.fields import MAX_FRAME, Finite
from dejacue.records.history import History
from dejacue.records.interval import Window

_CLOCK = r"(\d{1,9}(?:\.\d{1,9})?s|\d{1,6}(?::\d\d){1,2}(?:\.\d{1,9})?)"
_TIMES = re.compile(rf"{_CLOCK}(?:-{_CLOCK})?")
_FRAMES = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")
MAX_EXAMPLES = 50_000
MAX_WEIGHT = 1e6
Unit = Literal["frames", "source", "seconds"]
UNITS: tuple[Unit, ...] = get_args(Unit)
NONE = "none"  # how "none of these" is written


class Example(
    msgspec.Struct, frozen=True, eq=False, omit_defaults=True, forbid_unknown_fields=True
):
    """An example of a state: frames of the history that is read, or something from elsewhere.

    state      that it shows; None: none of the states holds there
    span       first and last frame (inclusive) of the history that is read …
    unit       … counted as its "frames", as "source" frames of the file, or in "seconds"
    source     from elsewhere: a picture, or a frame of another video or history, as text …
    features   … and what an encoder sees there; None until one has looked
    centred    whether the features are measured from the mean of their own history, so that they
               say how this state differs there and not which object it is
    encoder    that the features come from
    weight     for how many pictures it counts

    >>> from dejacue import Example, Vocabulary
    >>> Example("full", (120, 180)), Example("full", (4.5, 6.0), "seconds")
    (<Example full: 120-180>, <Example full: 4.5s-6s>)
    >>> Vocabulary({"empty": "empty cup", "full": "full cup"}).with_examples(full=120).examples
    (<Example full: 120>,)
    """

    state: str | None
    span: tuple[Finite, Finite] | None = None
    unit: Unit = "frames"
    source: str | None = None
    features: NDArray[Any] | None = None
    centred: bool = False
    encoder: str | None = None
    weight: Finite = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.weight, int | float) or not 0 < self.weight <= MAX_WEIGHT:
            raise InputError("an example counts for a number above 0")
        if self.state is not None and (not isinstance(self.state, str) or not self.state.strip()):
            raise InputError(f"an example of {self.state!r}: give the name of a state")
        if (self.span is None) == (self.source is None and self.features is None):
            problem = "an example is either a span of frames of the history being read, or comes"
            raise InputError(f"{problem} from a source")
        if not isinstance(self.unit, str) or self.unit not in UNITS:
            raise InputError(f"an example is given in {', '.join(UNITS)}, not in {self.unit!r}")
        if self.span is not None:
            force_setattr(self, "span", _checked_span(self.span, self.unit))
        if self.features is not None:
            row = feature_rows(np.atleast_2d(self.features), f"the example {self.source or ''}")
            if len(row) != 1:
                raise InputError(f"an example has one row of features, not {len(row)}")
            force_setattr(self, "features", frozen(row[0]))

    @property
    def name(self) -> str:
        """Return how the example is written: 120, 120-180, 4.5s, cup.jpg."""
        if self.span is None:
            return self.source or "features"
        mark = "s" if self.unit == "seconds" else ""
        first, last = (str(value).removesuffix(".0") + mark for value in self.span)
        return first if first == last else f"{first}-{last}"

    def positions(self, history: History) -> tuple[int, int]:
        """Return first position among the observed frames, and the end; equal: not observed.

        Of frames of the file and of seconds, the nearest one that was sampled is meant.
        """
        assert self.span is not None
        first, last = self.span
        column, step = self._counted(history)
        slack = 0.0 if column is history.frames else step / 2 + 1e-9 * abs(first)
        if first == last and column is not history.frames:
            at = int(np.abs(column - first).argmin())
            return (at, at + 1) if abs(column[at] - first) <= slack else (at, at)
        return (
            int(np.searchsorted(column, first - slack)),
            int(np.searchsorted(column, last + slack, side="right")),
        )

    def change_at(self, history: History) -> int:
        """Return the first observed position from there on."""
        assert self.span is not None
        column, _ = self._counted(history)
        return int(np.searchsorted(column, self.span[0] - 1e-9 * abs(self.span[0])))

    def _counted(self, history: History) -> tuple[NDArray[Any], float]:
        """Return the column that its span counts, and the step from one frame to the next."""
        if self.unit == "seconds" and history.times_s is None:
            problem = f"history {history.id} has no times, so the example {self.name} cannot be"
            raise InputError(f"{problem} found; give its frame")
        columns = {"source": history.source_frames, "seconds": history.times_s}
        column = columns.get(self.unit)
        if column is None:
            return history.frames, 1.0
        return column, float(np.median(np.diff(column))) if len(column) > 1 else 1.0

    def __repr__(self) -> str:
        return f"<Example {self.state or NONE}: {self.name}>"


def examples_of(by_state: Mapping[Any, Any]) -> tuple[Example, ...]:
    """Make examples of {state: frames, seconds, windows, (history, frame), rows of features, names
    of sources}; the state None (or "none") is none of them.

    Whole numbers are frames, floats are seconds, (first, last) is a range, a list is several.

    >>> examples_of({"full": [3, (10, 30)], "empty": (4.5, 6.0)})
    (<Example full: 3>, <Example full: 10-30>, <Example empty: 4.5s-6s>)
    """
    if not isinstance(by_state, Mapping):
        raise InputError("examples: expected states with the frames that show them")
    parsed = (
        _example(None if state == NONE else state, item)
        for state, items in by_state.items()
        for item in (items if _several(items) else (items,))
    )
    examples = tuple(islice(parsed, MAX_EXAMPLES + 1))
    if len(examples) > MAX_EXAMPLES:
        problem = f"more than {MAX_EXAMPLES} examples"
        raise InputError(f"{problem}; give spans of frames instead")
    return examples


def _several(items: Any) -> bool:
    single = isinstance(items, str | Window | Example | np.ndarray) or _is_history_frame(items)
    return isinstance(items, Iterable) and not single and not _is_range(items)


def _is_range(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and all(map(_is_number, item))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_history_frame(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], History)


def _example(state: str | None, item: Any) -> Example:
    if isinstance(item, Example):
        return structs.replace(item, state=state)
    if isinstance(item, Window):
        return Example(state, (item.start, item.end))
    if isinstance(item, bool):
        raise InputError(f"an example of {state or NONE} is a frame, not {item}")
    if _is_number(item) or _is_range(item):
        first, last = (item, item) if _is_number(item) else item
        whole = [isinstance(value, int | np.integer) for value in (first, last)]
        if whole[0] != whole[1]:
            problem = f"an example of {state or NONE} is from {first} to {last}"
            raise InputError(f"{problem}; give two frames (whole numbers) or two seconds (floats)")
        if whole[0]:
            return Example(state, (int(first), int(last)))
        return Example(state, (float(first), float(last)), "seconds")
    if _is_history_frame(item):
        return from_history(state, *item)
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind == "f":
        return Example(state, features=item)
    if isinstance(item, str):
        return from_text(state, item)
    raise InputError(
        f"an example of {state or NONE} is a frame, (first, last), (history, frame), a row of "
        f"features or the name of a picture, not {reprlib.repr(item)}"
    )


def from_text(state: str | None, text: str) -> Example:
    """Read 120, 120-180, 4.5s, 4.5s-6s, 1:30 (minutes) as frames; anything else as a source."""
    text = text.strip()
    if not text:
        raise InputError(f"an example of {state or NONE} is empty")
    times = _TIMES.fullmatch(text)
    if times:
        first, last = times[1], times[2] or times[1]
        return Example(state, (seconds_of(first), seconds_of(last)), "seconds")
    frames = _FRAMES.fullmatch(text)
    if frames:
        return Example(state, (int(frames[1]), int(frames[2] or frames[1])))
    return Example(state, source=text)


def seconds_of(text: str) -> float:
    """Return the seconds of 4.5s, 1:30 or 1:02:03; refuse 1:70."""
    parts = [float(part) for part in text.removesuffix("s").split(":")]
    total = 0.0
    for part in parts:
        total = 60 * total + part
    if max(parts[1:], default=0) >= 60:
        problem = f'time "{text}": minutes and seconds after a colon go up to 59'
        raise InputError(f"{problem}; did you mean {total:g}s?")
    return total


def from_history(state: str | None, history: History, frame: int) -> Example:
    """Make an example of a frame of another history, measured from the mean of its frames."""
    at = int(np.searchsorted(history.frames, frame))
    if at == len(history) or history.frames[at] != frame:
        raise InputError(
            f"history {history.id}: frame {frame} cannot be an example; the object is not observed "
            f"there, only in frames from {history.frames[0]} to {history.frames[-1]}"
        )
    row = history.features[at].astype(np.float64)
    row = row / np.linalg.norm(row) - history.mean_direction
    if not np.linalg.norm(row) > 1e-6:
        problem = f"history {history.id}: all frames look the same, so none can be an example"
        raise InputError(problem)
    return Example(
        state,
        source=f"{history.id}@{frame}",
        features=row.astype(np.float32),
        centred=True,
        encoder=history.encoder,
    )


def _checked_span(span: Any, unit: str) -> tuple[float, float]:
    if not isinstance(span, Sequence | np.ndarray) or isinstance(span, str) or np.size(span) != 2:
        raise InputError(f"an example at {span!r:.40}: give (first, last)")
    first, last = span
    for value in (first, last):
        if not _is_number(value) or not -MAX_FRAME <= value <= MAX_FRAME:  # nor is NaN
            raise InputError("an example is at a frame or a second, given as a number within ±2^53")
        if unit != "seconds" and value != int(value):
            raise InputError(f"an example at {value!r}: give a whole frame number, or seconds")
    if last < first:
        raise InputError(f"the example {first}-{last} ends before it starts")
    return (first, last)


def _refusal(problem: str) -> InputError:
    return InputError(f"vocabulary: {problem}")


def _checked_states(states: Mapping[str, Any], exemplified: set[str]) -> dict[str, tuple[str, ...]]:
    if not isinstance(states, Mapping):
        raise _refusal("states must map each state to its descriptions")
    checked: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for state, words in states.items():
        if not isinstance(state, str) or not state.strip():
            remedy = "put it in quotes (YAML reads yes, no, on, off and numbers as values)"
            raise _refusal(f"state name {reprlib.repr(state)} is not text; {remedy}")
        if words is not None and (isinstance(words, Mapping) or not isinstance(words, Iterable)):
            quoted = reprlib.repr(words)  # YAML's aliases may unfold without end
            raise _refusal(f'state "{state}" must list its descriptions as text, not {quoted}')
        texts = [words] if isinstance(words, str) else list(() if words is None else words)
        if not texts and state not in exemplified:
            raise _refusal(f'state "{state}" has no description; add at least one, or an example')
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise _refusal(f'state "{state}" has an empty or non-text description')
            if owner.setdefault(text, state) != state:
                problem = f'"{text}" describes both "{owner[text]}" and "{state}"'
                raise _refusal(f"{problem}; a description belongs to one state")
        checked[state] = tuple(texts)
    if len(checked) < 2 and not exemplified:
        remedy = "describe what it looks like otherwise, too, or show an example of it"
        raise _refusal(f"{len(checked)} state in words alone, which need two or more; {remedy}")
    return checked


def _sentences(texts: Sequence[Any]) -> dict[Any, Any]:
    """Return sentences as states, each described by itself."""
    for text, times in Counter(text for text in texts if isinstance(text, str)).items():
        if times > 1:
            raise _refusal(f'"{text}" is given twice; keep one')
    if not all(isinstance(text, str) for text in texts):
        text = next(text for text in texts if not isinstance(text, str))
        raise _refusal(f"{reprlib.repr(text)} is not a sentence that describes a state")
    return {text: text for text in texts}


def _distinct(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Return each example once."""
    distinct = {
        (e.state, e.span, e.unit, e.source, e.features is None or id(e)): e for e in examples
    }
    return tuple(distinct.values())


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The closed list of states that exclude each other, each with one or more descriptions.

    features holds one row per description, state after state in the order of ``states``;
    None until a text encoder has filled it.

    examples   of states, beside words or instead of them; see ``with_examples``
    changes    frames of the history that is read at which one state ends and another begins
    exhaustive   whether every observed frame shows one of the states. Words take it for granted;
               beside examples a frame may show none of them, unless this is true.

    >>> from dejacue import Vocabulary
    >>> words = Vocabulary({"empty": ["empty cup", "cup with nothing in it"], "full": "full cup"})
    >>> words
    <Vocabulary empty (2); full (1): no features, encoder unnamed>
    >>> words.with_examples(full=[12, 40]).examples
    (<Example full: 12>, <Example full: 40>)
    """

    states: Mapping[str, Sequence[str]]
    features: NDArray[Any] | None = None
    encoder: str | None = None
    object: str | None = None
    examples: Sequence[Example] = ()
    changes: Sequence[Example] = ()
    exhaustive: bool = False
    labels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "examples", tuple(self.examples))
        exemplified = {e.state for e in self.examples if e.state is not None}
        states = _checked_states(self.states, exemplified)
        names = {"encoder": self.encoder, "object": self.object}
        check_names("vocabulary", **{key: "" if n is None else n for key, n in names.items()})
        self._check_examples(states, exemplified)
        self._check_exhaustive()
        counts = [max(len(texts), 1) for texts in states.values()]
        labels = frozen(np.repeat(np.arange(len(counts)), counts))
        vars(self).update(states=states, labels=labels)
        if self.features is not None:
            rows = feature_rows(self.features, "vocabulary: features")
            if len(rows) != sum(counts):
                raise _refusal(f"{sum(counts)} descriptions but {len(rows)} feature rows")
            if not all(states.values()):
                raise _refusal("has text features, but not every state has words")
            object.__setattr__(self, "features", rows)

    def _check_examples(self, states: Mapping[str, Any], exemplified: set[str]) -> None:
        for state in exemplified - set(states):
            raise unknown("state of an example", state, states)
        changes = examples_of({None: list(self.changes)})
        for change in changes:
            if change.span is None or change.span[0] != change.span[1]:
                raise _refusal(f"a change is at a single frame, not at {change.name}")
        object.__setattr__(self, "changes", changes)
        for example in self.examples:
            if None not in (example.encoder, self.encoder) and example.encoder != self.encoder:
                raise InputError(
                    f'the example {example.name} was encoded with "{example.encoder}", but the '
                    f'vocabulary with "{self.encoder}"; encode both with the same encoder'
                )

    def _check_exhaustive(self) -> None:
        if not isinstance(self.exhaustive, bool):
            problem = f"exhaustive {reprlib.repr(self.exhaustive)}"
            raise _refusal(f"{problem}; true (every frame shows one of the states) or false")
        nothing = next((e for e in self.examples if e.state is None), None)
        if self.exhaustive and nothing is not None:
            problem = f"{nothing.name} shows none of the states, but the vocabulary is exhaustive"
            raise _refusal(f'{problem}; write exhaustive: false, or leave out "none"')
        if self.exhaustive and len(self.states) == 1:
            problem = "one state that every frame shows is found everywhere"
            raise _refusal(f"{problem}; write exhaustive: false, or add a state")

    def with_examples(
        self,
        examples: Mapping[str | None, Any] | None = None,
        /,
        *,
        changes: Any = (),
        **states: Any,
    ) -> Vocabulary:
        """Return it with more examples: ``with_examples(empty=[12, 40], filled=(90, 120))``.

        Each state has a frame of the history that is read, a range of frames (first, last), or a
        list of several; a float is a second; or, from elsewhere: (history, frame), a row of
        features, the name of a picture. The state None (or "none") says that none of the states
        holds there.

        changes   frames at which one state ends and another begins
        """
        added = (*examples_of(examples or {}), *examples_of(states))
        changes = list(changes) if isinstance(changes, tuple) else changes  # none is a range
        return replace(
            self,
            examples=_distinct((*self.examples, *added)),
            changes=_distinct((*self.changes, *examples_of({None: changes}))),
        )

    @property
    def has_text(self) -> bool:
        """Return whether every state has words; if not, or of a single state, none are used."""
        return len(self.states) > 1 and all(self.states.values())

    @property
    def dimension(self) -> int | None:
        """Return the dimension of its features, or of those of its examples; None without any."""
        rows = (self.features, *(example.features for example in self.examples))
        return next((row.shape[-1] for row in rows if row is not None), None)

    @property
    def examples_only(self) -> bool:
        """Return whether only examples tell states: words are unused, or the encoder has none."""
        return not self.has_text or (self.features is None and self.encoder is not None)

    @cached_property
    def frame_examples(self) -> tuple[Example, ...]:
        """Return the examples that are frames of the history that is read."""
        return tuple(example for example in self.examples if example.span is not None)

    @cached_property
    def external_examples(self) -> tuple[Example, ...]:
        """Return the examples that are not frames of the history that is read."""
        return tuple(example for example in self.examples if example.span is None)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any] | Sequence[str]) -> Vocabulary:
        """Make it of ``{state: descriptions}`` or ``{"object": …, "states": {state: …}}``, or of
        sentences, ``["empty cup", "filled cup"]``: each is a state and its description.

        Instead of descriptions a state may have ``{"words": descriptions, "examples": …}``; beside
        "states" there may be examples of none of them ("none"), "changes" and "exhaustive".
        """
        if isinstance(document, Sequence) and not isinstance(document, str | bytes):
            document = _sentences(document)
        if not isinstance(document, Mapping):
            problem = "expected states and their descriptions; a file is read by dejacue.files"
            raise _refusal(f"{problem}.read_vocabulary")
        if isinstance(states := document.get("states"), list | tuple):
            document = {**document, "states": _sentences(states)}
        if not {"object", "states"} & set(document):
            return cls._from_states(document)
        known = {"object", "states", "none", "changes", "exhaustive"}
        if "states" not in document or not set(document) <= known:
            raise _refusal(
                'a document with "object" or "states" lists all states under "states" and may add '
                '"none", "changes" and "exhaustive"; found '
                f"{', '.join(str(key) for key in document)}"
            )
        changes = document.get("changes", ())
        if isinstance(changes, str | Mapping) or not isinstance(changes, Iterable):
            changes = (changes,)
        return cls._from_states(
            document["states"],
            document.get("none", ()),
            object=document.get("object"),
            changes=changes,
            exhaustive=document.get("exhaustive", False),
        )

    @classmethod
    def _from_states(cls, states: Any, none: Any = (), **fields: Any) -> Vocabulary:
        words: dict[Any, Any] = {}
        examples: dict[str | None, Any] = {None: none or ()}
        for state, entry in states.items() if isinstance(states, Mapping) else ():
            words[state] = entry
            if isinstance(entry, Mapping):
                if not set(entry) <= {"words", "examples"}:
                    raise _refusal(
                        f'state "{state}" can have "words" and "examples", not '
                        f"{', '.join(str(key) for key in entry)}"
                    )
                words[state], examples[state] = entry.get("words"), entry.get("examples") or ()
        checked = words if isinstance(states, Mapping) else states
        return cls(checked, examples=examples_of(examples), **fields)

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """Return a text for each feature row: a description, or the name of a state without one."""
        return tuple(text for state, texts in self.states.items() for text in texts or (state,))

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Return the state of each description, in the order of the feature rows."""
        return tuple(state for state, texts in self.states.items() for _ in texts or (state,))

    @cached_property
    def numbers_in_state(self) -> NDArray[np.int64]:
        """Return the number of each description in its state, from 0."""
        return frozen(np.arange(len(self.labels)) - np.searchsorted(self.labels, self.labels))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Return π, the weights of the descriptions: equal for all states, with the sum one.

        A description that is repeated within its state shares its weight among its copies.
        """
        by_state = [texts or (state,) for state, texts in self.states.items()]
        times = [Counter(texts) for texts in by_state]
        copies = [times[k][text] for k, texts in enumerate(by_state) for text in texts]
        distinct = np.array([len(of_state) for of_state in times])
        return frozen(1.0 / (len(distinct) * distinct[self.labels] * np.array(copies)))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        text = "; ".join(f"{state} ({len(texts)})" for state, texts in self.states.items())
        features = "no features" if self.features is None else f"{self.features.shape[1]}-d"
        encoder = self.encoder or "unnamed"
        return f"<Vocabulary {text}: {features}{self._example_count()}, encoder {encoder}>"

    def _repr_html_(self) -> str:
        rows = [(escaped(s), "<br/>".join(map(escaped, texts))) for s, texts in self.states.items()]
        features = "not encoded yet" if self.features is None else f"{self.features.shape[1]}-d"
        note = f"{features}, encoder {self.encoder or 'unnamed'}{self._example_count()}"
        return table_html(self.object or "Vocabulary", ("state", "descriptions"), rows, [note])

    def _example_count(self) -> str:
        return f", {counted(len(self.examples), 'example')}" if self.examples else ""
