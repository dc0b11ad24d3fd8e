"""Vocabulary: the closed list of alternatives that an object can be in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.records._html import escaped, table_html
from dejacue.records.arrays import check_names, feature_rows, frozen


def _checked_states(states: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
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
        if not texts:
            raise InputError(f'vocabulary: state "{state}" has no description; add at least one')
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


@dataclass(frozen=True, eq=False, repr=False)
class Vocabulary:
    """The closed list of alternatives: states, each with one or more descriptions.

    features holds one row per description, state after state in the order of ``states``;
    None until a text encoder has filled it.
    """

    states: Mapping[str, Sequence[str]]
    features: NDArray[Any] | None = None
    encoder: str | None = None
    object: str | None = None
    labels: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        states = _checked_states(self.states)
        check_names("vocabulary", encoder=self.encoder or "", object=self.object or "")
        counts = [len(texts) for texts in states.values()]
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "labels", frozen(np.repeat(np.arange(len(counts)), counts)))
        if self.features is not None:
            rows = feature_rows(self.features, "vocabulary: features")
            if len(rows) != sum(counts):
                raise InputError(
                    f"vocabulary: {sum(counts)} descriptions but {len(rows)} feature rows"
                )
            object.__setattr__(self, "features", rows)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Vocabulary:
        """From ``{state: descriptions}`` or ``{"object": …, "states": {state: descriptions}}``."""
        if not isinstance(document, Mapping):
            raise InputError("vocabulary: expected states and their descriptions")
        if not {"object", "states"} & set(document):
            return cls(document)
        if "states" not in document or len(document) > len({"object", "states"} & set(document)):
            raise InputError(
                'vocabulary: beside "object" there is only "states", which holds them all; '
                f"found {', '.join(str(key) for key in document)}"
            )
        return cls(document["states"], object=document.get("object"))

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """All descriptions, in the order of the feature rows."""
        return tuple(text for texts in self.states.values() for text in texts)

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """The state of each description, in the order of the feature rows."""
        return tuple(state for state, texts in self.states.items() for _ in texts)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """π: what each description weighs when every state weighs the same; sums to one.

        One that is repeated within its state shares its weight among its copies.
        """
        copies = np.array([self.states[s].count(t) for s, texts in self.states.items()
                           for t in texts])  # fmt: skip
        distinct = np.array([len(set(texts)) for texts in self.states.values()])
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
        return f"<Vocabulary {text}: {features}, encoder {self.encoder or 'unnamed'}>"

    def _repr_html_(self) -> str:
        rows = [(escaped(s), "<br/>".join(map(escaped, texts))) for s, texts in self.states.items()]
        features = "not encoded yet" if self.features is None else f"{self.features.shape[1]}-d"
        note = f"{features}, encoder {self.encoder or 'unnamed'}"
        return table_html(self.object or "Vocabulary", ("state", "descriptions"), rows, [note])
