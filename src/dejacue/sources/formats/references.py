"""References in the formats of other tools: spans → Reference, and back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, in_file, named, unknown
from dejacue.records import Reference, Window
from dejacue.sources.formats.clock import Clocks
from dejacue.sources.formats.registry import Format
from dejacue.sources.formats.spans import Marks, Span, stem


def read(
    path: str | os.PathLike[str],
    format: Format,
    *,
    times: Any = None,
    states: Collection[str] | None = None,
    history: str | None = None,
) -> list[Reference]:
    """Read the references of a file; the arguments are those of ``read_references``."""
    name = os.fspath(path)
    spans = format.spans(path)
    clocks = Clocks(times)
    with in_file(name):
        if not spans:
            raise InputError("marks no state", field="state", remedy="mark at least one span")
        references: dict[str, dict[str, set[Window]]] = {}
        single = len({(span.object, span.video) for span in spans}) == 1
        for span in spans:
            text = span.descriptions[0] if span.descriptions else ""
            if states is not None and span.state not in states and text in states:
                span = replace(span, state=text)  # in ELAN: a tier for the object, not the state
            if not span.state.strip():
                raise InputError("a span has no state", field="state", remedy="give it a label")
            check_state(span.state, states)
            object = span.object or (stem(span.video) if span.video else None) or stem(name)
            object = history if history is not None and single else object
            windows = references.setdefault(object, {}).setdefault(span.state, set())
            with named(f'state "{span.state}"'):
                video = span.video if span.window is None else None  # frames need no times
                clock = clocks.of(object, video, Path(name).parent)
                if span.window is not None:
                    window = span.window
                    if clock is not None:
                        clock.check(window)
                elif clock is None:
                    raise _needs_times("", "history it belongs to")
                else:
                    window = clock.window(span.seconds, format.tolerance_s or 1e-6)
            windows.add(window)
        return [
            Reference(
                object, {state: tuple(sorted(windows)) for state, windows in by_state.items()}
            )
            for object, by_state in references.items()
        ]


def _needs_times(subject: str, history: str) -> InputError:
    problem = f"{subject}is in seconds, and only the video tells the time of each frame"
    remedy = f"give the video or {history} (--times FILE, times=)"
    return InputError(problem, field="times", remedy=remedy)


def check_state(state: str, states: Collection[str] | None) -> None:
    if states is not None and state not in states:
        problem, remedy = unknown("state", state, states), "rename it, or remove it from the file"
        raise InputError(problem, field="state", value=state, remedy=remedy)


def write(references: Iterable[Reference], format: Format, *, times: Any = None) -> bytes:
    """Return the bytes of a file of references; ``times`` as in ``read_references``."""
    clocks = Clocks(times)
    spans, rates, objects = [], {}, {}
    for reference in references:
        object = reference.history_id
        clock = clocks.of(object, reference.component, Path())
        if clock is None and format.timed:
            raise _needs_times(f'history "{object}": {format.suffix} ', "history")
        objects[object] = clocks.video(object)
        if clock is not None and clock.rate is not None:
            rates[object] = clock.rate
        for state, windows in reference.states.items():
            texts = tuple((reference.descriptions or {}).get(state, ()))
            for window in windows:
                with named(f'history "{object}", state "{state}"'):
                    seconds = clock.times_s(window) if clock and format.timed else None
                    if clock is not None:
                        clock.check(window)
                spans.append(Span(state, window, seconds, object, objects[object], None, texts))
    if not objects:
        raise InputError("there are no references to write", field="references")
    content = format.write(Marks(spans, objects, rates=rates, truth=True))
    return content if isinstance(content, bytes) else content.encode()
