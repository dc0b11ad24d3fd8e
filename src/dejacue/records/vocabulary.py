"""Vocabulary: the closed list of alternatives that an object can be in."""

from __future__ import annotations

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


def _checked_states(states: Mapping[str, Any], shown: set[str]) -> dict[str, tuple[str, ...]]:
    if not isinstance(states, Mapping):
        raise InputError("vocabulary: states must map each state to its descriptions")
    checked: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for state, given in states.items():
        if not isinstance(state, str) or not state.strip():
            raise InputError(
                f"vocabulary: state name {state!r} is not text; put it in quotes "
                "(YAML reads yes, no, on, off and numbers as values)"
            )
        if given is not None and (isinstance(given, Mapping) or not isinstance(given, Iterable)):
            raise InputError(
                f'vocabulary: state "{state}" must list its descriptions as text, not {given!r}'
            )
        texts = [given] if isinstance(given, str) else list(() if given is None else given)
        if not texts and state not in shown:
            raise InputError(
                f'vocabulary: state "{state}" has no description; add at least one, or an example'
            )
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise InputError(
                    f'vocabulary: state "{state}" has an empty or non-text description'
                )
            if owner.setdefault(text, state) != state:
                raise InputError(
                    f'vocabulary: "{text}" describes both "{owner[text]}" and "{state}"; '
                    "a description belongs to one state"
                )
        checked[state] = tuple(texts)
    if len(checked) < 2:
        raise InputError(
            f"vocabulary: {len(checked)} state given; at least two alternatives are needed"
        )
    return checked


def _distinct(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Return each example once."""
    kept = {
        (own.state, own.span, own.unit, own.source, own.features is None or id(own)): own
        for own in examples
    }
    return tuple(kept.values())


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The closed list of alternatives: states, each with one or more descriptions.

    features holds one row per description, state after state in the order of ``states``;
    None until a text encoder has filled it.

    examples   looks at states, beside words or instead of them; see ``with_examples``
    changes    frames of the history that is read at which one state ends and another begins
    """

    states: Mapping[str, Sequence[str]]
    features: NDArray[Any] | None = None
    encoder: str | None = None
    object: str | None = None
    examples: Sequence[Example] = ()
    changes: Sequence[Example] = ()
    labels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "examples", tuple(self.examples))
        shown = {own.state for own in self.examples if own.state is not None}
        states = _checked_states(self.states, shown)
        check_names("vocabulary", encoder=self.encoder or "", object=self.object or "")
        self._check_examples(states, shown)
        counts = [max(len(texts), 1) for texts in states.values()]
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "labels", frozen(np.repeat(np.arange(len(counts)), counts)))
        if self.features is not None:
            rows = feature_rows(self.features, "vocabulary: features")
            if len(rows) != sum(counts):
                raise InputError(
                    f"vocabulary: {sum(counts)} descriptions but {len(rows)} feature rows"
                )
            if not all(states.values()):
                raise InputError("vocabulary: has text features, but not every state has words")
            object.__setattr__(self, "features", rows)

    def _check_examples(self, states: Mapping[str, Any], shown: set[str]) -> None:
        for state in shown - set(states):
            raise unknown("state of an example", state, states)
        changes = examples_of({None: self.changes})
        for change in changes:
            if change.span is None or change.span[0] != change.span[1]:
                raise InputError(f"vocabulary: a change is at a single frame, not at {change.name}")
        object.__setattr__(self, "changes", changes)
        for own in self.examples:
            if None not in (own.encoder, self.encoder) and own.encoder != self.encoder:
                raise InputError(
                    f'the example {own.name} was encoded with "{own.encoder}", but the vocabulary '
                    f'with "{self.encoder}"; encode both with the same encoder'
                )

    def with_examples(
        self,
        examples: Mapping[str | None, Any] | None = None,
        /,
        *,
        changes: Any = (),
        **states: Any,
    ) -> Vocabulary:
        """Return the same, also shown: ``with_examples(empty=[12, 40], filled=Window(90, 120))``.

        Each state has a frame of the history that is read, a Window of frames, or several of them;
        or, from elsewhere: (history, frame), a row of features, the name of a picture. The state
        None (or "none") says that none of the states holds there.

        changes   frames at which one state ends and another begins
        """
        given = (*examples_of(examples or {}), *examples_of(states))
        return replace(
            self,
            examples=_distinct((*self.examples, *given)),
            changes=_distinct((*self.changes, *examples_of({None: changes}))),
        )

    @property
    def spoken(self) -> bool:
        """Whether every state has words; if not, none are used."""
        return all(self.states.values())

    @property
    def wordless(self) -> bool:
        """Whether examples alone tell states: not all have words, or the encoder knows none."""
        return self.features is None and (not self.spoken or self.encoder is not None)

    @cached_property
    def facts(self) -> tuple[Example, ...]:
        """The examples that are frames of the history that is read."""
        return tuple(own for own in self.examples if own.span is not None)

    @cached_property
    def elsewhere(self) -> tuple[Example, ...]:
        """The examples that come from elsewhere."""
        return tuple(own for own in self.examples if own.span is None)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Vocabulary:
        """From ``{state: descriptions}`` or ``{"object": …, "states": {state: descriptions}}``.

        Instead of descriptions a state may have ``{"words": descriptions, "examples": …}``; beside
        "states" there may be examples of none of them ("none") and "changes".
        """
        if not isinstance(document, Mapping):
            raise InputError("vocabulary: expected states and their descriptions")
        if not {"object", "states"} & set(document):
            return cls._from_states(document)
        known = {"object", "states", "none", "changes"}
        if "states" not in document or not set(document) <= known:
            raise InputError(
                'vocabulary: a document with "object" or "states" lists all states under "states" '
                'and may add "none" and "changes"; found '
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
        )

    @classmethod
    def _from_states(cls, states: Any, none: Any = (), **more: Any) -> Vocabulary:
        words: dict[Any, Any] = {}
        shown: dict[str | None, Any] = {None: none}
        for state, given in states.items() if isinstance(states, Mapping) else ():
            words[state] = given
            if isinstance(given, Mapping):
                if not set(given) <= {"words", "examples"}:
                    raise InputError(
                        f'vocabulary: state "{state}" can have "words" and "examples", not '
                        f"{', '.join(str(key) for key in given)}"
                    )
                words[state], shown[state] = given.get("words"), given.get("examples", ())
        examples = examples_of({state: own or () for state, own in shown.items()})
        return cls(words if isinstance(states, Mapping) else states, examples=examples, **more)

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """All descriptions, in the order of the feature rows; the name of a state without any."""
        return tuple(text for state, texts in self.states.items() for text in texts or (state,))

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """The state of each description, in the order of the feature rows."""
        return tuple(state for state, texts in self.states.items() for _ in texts or (state,))

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """π: what each description weighs when every state weighs the same; sums to one.

        One that is repeated within its state shares its weight among its copies.
        """
        own = [texts or (state,) for state, texts in self.states.items()]
        copies = np.array([texts.count(text) for texts in own for text in texts])
        distinct = np.array([len(set(texts)) for texts in own])
        return frozen(1.0 / (len(distinct) * distinct[self.labels] * copies))

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """What the method has computed from the features, which never change."""
        return {}

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        text = "; ".join(f"{state} ({len(texts)})" for state, texts in self.states.items())
        features = "no features" if self.features is None else f"{self.features.shape[1]}-d"
        if self.examples:
            features += f", {counted(len(self.examples), 'example')}"
        return f"<Vocabulary {text}: {features}, encoder {self.encoder or 'unnamed'}>"

    def _repr_html_(self) -> str:
        rows = [(escaped(s), "<br/>".join(map(escaped, texts))) for s, texts in self.states.items()]
        features = "not encoded yet" if self.features is None else f"{self.features.shape[1]}-d"
        note = f"{features}, encoder {self.encoder or 'unnamed'}"
        if self.examples:
            note += f", {counted(len(self.examples), 'example')}"
        return table_html(self.object or "Vocabulary", ("state", "descriptions"), rows, [note])
