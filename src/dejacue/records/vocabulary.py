"""Vocabulary: the closed list of states that an object can be in."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted, unknown
from dejacue.records._html import escaped, table_html
from dejacue.records.arrays import check_names, feature_rows, frozen
from dejacue.records.example import Example, examples_of


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
