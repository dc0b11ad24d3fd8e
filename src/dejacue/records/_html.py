"""Records in a notebook: tables and timelines as HTML with inline SVG.

No script and nothing to fetch; text takes the colour of the notebook, light or dark.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import counted
from dejacue.records.interval import Window
from dejacue.records.note import Note

if TYPE_CHECKING:
    from dejacue.records.history import History
    from dejacue.records.interval import Interval
    from dejacue.records.timeline import Timeline

# Okabe and Ito's colours: told apart with any colour vision, and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
_WIDTH, _HEIGHT = 360, 16  # of a timeline, in pixels
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_SPREAD = f"display:flex;justify-content:space-between;width:{_WIDTH}px;opacity:.7"
MAX_LINES = 8  # intervals of a state that are not folded away
_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"


class BarRow(NamedTuple):
    """A line of a timeline: its windows, and cells of text beside it."""

    label: str
    colour: str
    windows: Sequence[Window]
    cells: Sequence[str] = ()


def printable(text: str) -> str:
    """Return the same without characters that HTML and XML may not hold."""
    return _CONTROL.sub("\ufffd", text.encode("utf-8", "replace").decode())


def escaped(text: str) -> str:
    """Return text as HTML: nothing in it is markup."""
    return html.escape(printable(text))


def clock(seconds: float, digits: int = 2, *, minutes: bool = False) -> str:
    """Return 4.10 s, 1:04.10 or 1:00:04.10; ``minutes``: 0:04.10 instead of seconds alone."""
    whole = round(abs(seconds), digits)
    sign = "−" if seconds < 0 and whole else ""
    if whole < 60 and not minutes:
        return f"{sign}{whole:.{digits}f} s"
    minute, rest = divmod(whole, 60)
    hour, minute = divmod(int(minute), 60)
    words = f"{rest:0{digits + 3 if digits else 2}.{digits}f}"
    return f"{sign}{hour}:{minute:02}:{words}" if hour else f"{sign}{minute}:{words}"


def clock_range(interval: Interval) -> str:
    """Return 4.10 – 12.00 s or 0:04.10 – 1:12.00; the start alone where the end is not known."""
    if interval.start_s is None:
        return ""
    if interval.end_s is None:
        return clock(interval.start_s)
    start = clock(interval.start_s, minutes=round(interval.end_s, 2) >= 60).removesuffix(" s")
    return f"{start} – {clock(interval.end_s)}"


def table_html(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Return a table; title, head and notes are text, the cells HTML already."""
    top = "".join(f'<th style="{_CELL};opacity:.7">{escaped(name)}</th>' for name in head)
    lines = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f'<tr style="background:none">{line}</tr>' for line in lines)
    table = (
        f'<table style="margin:4px 0"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    )
    remarks = "".join(f'<div style="opacity:.7">{escaped(Note(note).line)}</div>' for note in notes)
    return f"<div><strong>{escaped(title)}</strong>{table}{remarks}</div>"


def bars_html(
    title: str,
    rows: Sequence[BarRow],
    first: int,
    last: int,
    seconds: Sequence[float] | NDArray[np.float64] | None = None,
    *,
    head: Sequence[str] = (),
    observed: Sequence[Window] = (),
    notes: Iterable[str] = (),
) -> str:
    """Return windows over the frames first … last, and the seconds of the first and the last.

    head       names of the cells
    observed   what is grey; default: all frames
    """
    scale = _WIDTH / (last - first + 1)

    def bars(windows: Iterable[Window], style: str) -> str:
        spans: list[list[float]] = []
        for window in sorted(windows):
            left, right = (window.start - first) * scale, (window.end + 1 - first) * scale
            if not spans or left - spans[-1][1] > 0.5:  # closer, it cannot be seen
                spans.append([left, left + 1])
            spans[-1][1] = max(right, spans[-1][1])
        box = f'y="1" height="{_HEIGHT - 2}" {style}'
        return "".join(f'<rect x="{a:.1f}" width="{b - a:.1f}" {box}/>' for a, b in spans)

    seen = bars(observed or [Window(first, last)], 'fill="#808080" fill-opacity=".22"')
    table: list[Sequence[str]] = []
    for row in rows:
        drawn = bars(row.windows, f'fill="{row.colour}"')
        about = ", ".join(f"{w.start} to {w.end}" for w in row.windows[:20]) or "no frames"
        size = f'width="{_WIDTH}" height="{_HEIGHT}" style="max-width:none"'
        svg = f'<svg {size} role="img"><title>{about}</title>{seen}{drawn}</svg>'
        badge = f'<span style="color:{row.colour}">\N{BLACK SQUARE}</span>'
        table.append((f"{badge} {escaped(row.label)}", svg, *row.cells))
    ends = f"<span>{first}</span><span>{last}</span>"
    if seconds is not None:
        times = clock(float(seconds[0])), clock(float(seconds[-1]))
        ends = f"<span>{first} · {times[0]}</span><span>{last} · {times[1]}</span>"
    axis = f'<div style="{_SPREAD}">{ends}</div>'
    return table_html(title, ("", "", *head), [*table, ("", axis)], notes)


def timeline_html(timeline: Timeline, history: History | None = None, skip: int = 0) -> str:
    """Return the intervals of one history as a table; with its history also what was observed.
    Of many intervals of a state the first stand there, and below it all are folded away.

    skip   how many of the first notes stand elsewhere
    """
    if len(timeline.subjects) != 1:
        return f"<pre>{escaped(repr(timeline))}</pre>"
    timed = any(interval.times_s for interval in timeline)
    rows, folded = [], False
    for at, (state, texts) in enumerate(timeline.states.items()):
        colour = COLOURS[at % len(COLOURS)]
        groups: dict[str | None, list[Interval]] = {}
        for interval in timeline[state]:
            groups.setdefault(interval.description, []).append(interval)
        for text, intervals in (groups or {None: []}).items():
            shown, rest = intervals[:MAX_LINES], intervals[MAX_LINES:]
            spans = [_span(i.start, i.end) for i in shown]
            folded = folded or bool(rest)
            spans += [f"… and {len(rest)} more"] if rest else []
            cells = [_lines(spans) or timeline.without_interval]
            if timed:
                cells.append(_lines(_whole(clock_range(i)) for i in shown))
            cells.append(_lines(_whole(i.trust or "") for i in shown))
            cells.append(_lines(map(escaped, texts if text is None else (text,))))
            rows.append(BarRow(state, colour, [i.window for i in intervals], cells))
    runs, times = ([], None) if history is None else (history.runs(), history.times_s)
    known = runs or [w for row in rows for w in row.windows] or [Window(0, 0)]
    table = bars_html(
        timeline.history_id,
        rows,
        min(w.start for w in known),
        max(w.end for w in known),
        times,
        head=("frames", *["time"] * timed, "trust", "description"),
        observed=runs,
        notes=timeline.notes[skip:],
    )
    if not folded:
        return table
    everything = table_html(
        "",
        ("state", "frames", *["time"] * timed, "trust"),
        (
            [escaped(i.state), _span(i.start, i.end), *[clock_range(i)] * timed, i.trust or ""]
            for i in timeline
        ),
    )
    summary = f"<summary>all {len(timeline)} intervals</summary>"
    return f"<div>{table}<details>{summary}{everything}</details></div>"


def history_html(history: History) -> str:
    """Return which frames of a history were observed."""
    runs = history.runs()
    seen = f"{len(history)} of {history.span} frames in {counted(len(runs), 'run')}"
    features = f"{history.dimension}-d {history.features.dtype}"
    notes = [f"{seen}; {features}, encoder {history.encoder or 'unnamed'}"]
    row, ends = BarRow("observed", COLOURS[0], runs), (runs[0].start, runs[-1].end)
    return bars_html(history.id, [row], *ends, history.times_s, notes=notes)


def _span(start: object, end: object) -> str:
    return _whole(f"{start} – {end}")


def _lines(texts: Iterable[str]) -> str:
    return "<br/>".join(texts)


def _whole(text: str) -> str:
    return f'<span style="white-space:nowrap">{text}</span>'
