"""Example: frames or pictures that show a state, instead of words that describe it."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.records.arrays import feature_rows, frozen
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
        return replace(item, state=state)
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
