"""The evidence plot: how each description responds over time, the window found, the truth."""

from __future__ import annotations

import contextlib
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.atomic import write_whole
from dejacue.errors import InputError, StrPath
from dejacue.records import History, Interval, Timeline
from dejacue.records._html import COLOURS
from dejacue.records.reference import References
from dejacue.report._timeline import Axis, curves, scores_of, windows_of

TITLE_WIDTH, MAX_LINES = 480, 3  # of a title; its width in points
MAX_LISTED = 3  # windows of a title
DPI = 150
MAX_PIXELS = 60_000  # of a side; a little less than what the library can draw


def evidence_figure(
    history: History,
    timeline: Timeline,
    references: References | None = None,
) -> Any:
    """Draw a matplotlib figure, a panel per description (or state, where its descriptions agree).

    Line: calibrated response (breaks where the object is not observed). Shaded: window found.
    Bar above: reference. Grey: not observed. Below in seconds too, where the history has times.
    With a complete Reference the bar of a missed occurrence is hollow, and what is superfluous is
    hatched.
    """
    from matplotlib.figure import Figure

    if timeline.evidence is None:
        remedy = "make it with dejacue.find, or dejacue.method.localization.analyse"
        raise InputError(f"timeline of {timeline.history_id}: has no evidence to draw; {remedy}")
    rows = curves(history, timeline)
    count = len(rows)
    titles = [
        wrapped(
            " / ".join(row.descriptions),
            f": {_in_words(row.intervals) or timeline.without_interval}",
        )
        for row in rows
    ]
    high = 0.9 + 1.35 * count + 0.16 * sum(text.count("\n") for text in titles)
    figure = Figure(figsize=(8, high), layout="constrained")
    axes = np.atleast_1d(figure.subplots(count, 1, sharex=True))
    states = list(timeline.states)
    truth, scores = windows_of(references), scores_of(timeline, references)
    beside = max(0.5, 1e-14 * float(np.abs(history.frames).max()))  # of 2^53, 0.5 is nothing
    edge = (history.frames[0] - beside, history.frames[-1] + beside)
    for axis, words, row in zip(axes, titles, rows, strict=True):
        response = row.response
        assert response is not None
        colour = COLOURS[states.index(row.state) % len(COLOURS)]
        for before, after in pairwise(history.runs()):
            axis.axvspan(before.end + 0.5, after.start - 0.5, color="#DDDDDD", lw=0, zorder=0)
        for run in np.split(np.arange(len(history)), history.run_offsets[1:-1]):
            axis.plot(
                history.frames[run],
                response[run],
                color=colour,
                lw=1.2,
                marker="." if len(run) == 1 else None,
                markersize=3,
            )
        for start, end in (interval.window for interval in row.intervals):
            axis.axvspan(start - 0.5, end + 0.5, color=colour, alpha=0.22, lw=0, zorder=1)
        axis.axhline(0, color="#BBBBBB", lw=0.6, zorder=0)
        low, high = float(response.min()), float(response.max())
        room = max(high - low, 1e-9)
        axis.set_ylim(low - 0.08 * room, high + (0.34 if references else 0.12) * room)
        missed = () if scores is None else scores.missed.get(row.state, ())
        for window in truth.get(row.state, ()):
            reference = history.from_source(window)
            if reference is None:
                continue  # no frame of it was sampled
            ends = [reference.start - 0.5, reference.end + 0.5]
            bar = axis.plot(
                ends, [high + 0.18 * room] * 2, color="black", lw=3, solid_capstyle="butt"
            )
            if any(window & lost for lost in missed):
                bar[0].set(linewidth=4)
                middle = {"color": "white", "lw": 2, "solid_capstyle": "butt"}
                axis.plot(ends, [high + 0.18 * room] * 2, **middle)
        for window in () if scores is None else scores.superfluous.get(row.state, ()):
            if here := history.from_source(window):
                span = here.start - 0.5, here.end + 0.5
                axis.axvspan(*span, fill=False, edgecolor=colour, hatch="///", lw=0, zorder=1)
        axis.set_title(words, loc="left", fontsize=9, color=colour, pad=3, parse_math=False)
        axis.set_xlim(*edge)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[-1].set_xlabel("frame", fontsize=9)
    if ticks := Axis(history).ticks():
        seconds = axes[-1].secondary_xaxis(-0.38)
        seconds.set_xticks([frame for frame, _ in ticks], [words for _, words in ticks])
        seconds.tick_params(labelsize=8)
        seconds.set_xlabel("time", fontsize=9)
    figure.supylabel("calibrated response", fontsize=9)
    key = timeline.meaningless.line if timeline.meaningless else "shaded: window found"
    key += " · black bar: reference" if references else ""
    key += " · hollow: missed · hatched: superfluous" if scores else ""
    key += " · grey: not observed" if len(history.run_offsets) > 2 else ""
    heading = wrapped(history.id, f" ({key})", points=10)
    figure.suptitle(heading, fontsize=10, parse_math=False)
    return figure


def _in_words(intervals: Sequence[Interval]) -> str:
    windows = [str(interval.window) for interval in intervals]
    further = f" and {len(windows) - MAX_LISTED} more" if windows[MAX_LISTED:] else ""
    return ", ".join(windows[:MAX_LISTED]) + further


def wrapped(text: str, tail: str = "", points: int = 9) -> str:
    """Return the text in lines that fit the figure, the tail last; a very long text is cut."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    words = " ".join(f"{text}{tail}".split())
    with _without_glyph_warnings():
        wide, _, _ = TextToPath().get_text_width_height_descent(
            words, FontProperties(size=points), ismath=False
        )
    line = max(int(len(words) * TITLE_WIDTH / max(wide, 1.0)), 20)
    if len(words) > MAX_LINES * line:
        words = f"{words[: (MAX_LINES - 1) * line].rstrip()} …{tail}"
    return "\n".join(textwrap.wrap(words, line))


@contextlib.contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Drop matplotlib's warning about each character that its font lacks."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for w in caught:
        if "missing from font" not in str(w.message):
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)


def save_png(path: StrPath, figure: Any) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    dpi = min(DPI, int(MAX_PIXELS / max(figure.get_size_inches())))
    with _without_glyph_warnings():
        return write_whole(path, lambda stream: figure.savefig(stream, format="png", dpi=dpi))
