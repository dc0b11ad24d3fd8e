"""Reference: the true windows of the states of one history, what a timeline is measured by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from dejacue.errors import InputError
from dejacue.records.fields import Name
from dejacue.records.interval import Window

MAX_LABELLED_FRAMES = 20_000_000  # 185 hours at 30 frames a second; each takes a few bytes


class Reference(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"history_id": "history"},
):
    """The windows in which each state of one history truly holds.

    history_id     the history that timelines name
    states         state → its windows, both ends inclusive, in frames of the file, even if a
                   history took only some of them
    component      the source (video) that it comes from, the unit of resampling; default: its own
    frames         first and last frame of the history: no window lies outside
    descriptions   state → the sentences it was asked with, for all or some states
    complete       whether every occurrence of these states is listed, so that a frame in no window
                   shows none of them; needs the frames; no two windows share a frame, and a state
                   that never occurs lists no window

    >>> from dejacue import Reference
    >>> cup = Reference("cup", {"full": [(0, 9), (20, 29)]}, frames=(0, 39), complete=True)
    >>> cup.states["full"][1].length
    10
    """

    history_id: Name
    states: Mapping[str, tuple[Window, ...]]
    component: str = None  # type: ignore[assignment]  # None: the history is its own source
    frames: Window | None = None
    descriptions: Mapping[str, tuple[str, ...]] | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        named: Any = self.component
        force_setattr(self, "component", self.history_id if named is None else named)
        for name, value in (("history", self.history_id), ("component", self.component)):
            if not isinstance(value, str) or not value.strip():
                raise self._refusal(f"{name} name {value!r} must be non-empty text")
        if self.frames is not None:
            force_setattr(self, "frames", self._window(self.frames, "frames"))
        force_setattr(self, "states", self._checked_states())
        if self.complete:
            self._check_complete()
        if self.descriptions is not None:
            force_setattr(self, "descriptions", self._checked_descriptions(self.descriptions))

    def _refusal(self, problem: str) -> InputError:
        return InputError(f"reference {self.history_id}: {problem}")

    def _window(self, pair: Any, what: str) -> Window:
        try:
            return pair if isinstance(pair, Window) else Window(*pair)
        except InputError as error:
            raise self._refusal(f"{what}: {error}") from None
        except TypeError:
            problem = f"{what}: {pair!r} is not a pair of frames, start and end"
            raise self._refusal(problem) from None

    def _checked_states(self) -> dict[str, tuple[Window, ...]]:
        if not isinstance(self.states, Mapping) or not self.states:
            raise self._refusal("states must map each state to its windows; give at least one")
        checked = {}
        for state, pairs in self.states.items():
            if not isinstance(state, str) or not state.strip():
                raise self._refusal(f"state name {state!r} must be non-empty text")
            if isinstance(pairs, Window) or not isinstance(pairs, Iterable):
                raise self._refusal(f'state "{state}" must list its windows, not {pairs!r}')
            windows = checked[state] = tuple(self._window(p, f'state "{state}"') for p in pairs)
            if not windows and not self.complete:
                raise self._refusal(f'state "{state}" has no window; add one or leave it out')
            for window in windows:
                if self.frames is not None and window & self.frames != window:
                    raise self._refusal(
                        f'window {window} of state "{state}" is not inside the frames {self.frames}'
                    )
        if not any(checked.values()):
            raise self._refusal("no state has a window; add one")
        return checked

    def _check_complete(self) -> None:
        """Refuse what leaves open which state a frame shows."""
        if self.frames is None:
            problem = "is complete but does not say of which frames; give its first and last frame"
            raise self._refusal(problem)
        if self.frames.length > MAX_LABELLED_FRAMES:
            problem = f"has {self.frames.length} frames; at most {MAX_LABELLED_FRAMES} can be"
            raise self._refusal(f"{problem} labelled completely")
        in_time = sorted((window, state) for state, ws in self.states.items() for window in ws)
        for (before, state), (after, next_state) in pairwise(in_time):
            if before & after:
                raise self._refusal(
                    f'is complete, but window {before} of state "{state}" and window {after} of '
                    f'state "{next_state}" share frames; a frame shows one state, in one window'
                )

    def _checked_descriptions(self, by_state: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        if not isinstance(by_state, Mapping):
            raise self._refusal("descriptions must map states to their sentences")
        checked = {}
        for state, sentences in by_state.items():
            if state not in self.states:
                raise self._refusal(f'descriptions of "{state}", which is a state without windows')
            texts = (sentences,) if isinstance(sentences, str) else sentences
            texts = tuple(texts) if isinstance(texts, Iterable) else ()
            if not texts or any(not isinstance(text, str) or not text.strip() for text in texts):
                raise self._refusal(f'state "{state}" has an empty or non-text description')
            if len(set(texts)) < len(texts):
                raise self._refusal(f'state "{state}" lists a description twice')
            checked[state] = texts
        return checked


References = Reference | Mapping[str, Sequence[Window]]  # or state → its true windows alone
