"""The report: one HTML file that opens from disk, with nothing to fetch and nothing to install.
And what a notebook shows of a video that was searched.

templates/page.html.j2 is the page, page.css its style; static/timeline.js, begun by page.js, draws
the timeline. Without script, bars in a table take its place. Here the plain records are computed
that the template shows.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from dejacue._version import __version__
from dejacue.errors import counted
from dejacue.records import History, Interval, Timeline, Vocabulary, Window
from dejacue.records._html import (
    COLOURS,
    BarRow,
    bars_html,
    clock,
    clock_range,
    escaped,
    printable,
    timeline_html,
)
from dejacue.records.history import MEANINGLESS, PROBLEMS
from dejacue.records.note import SEVERITIES
from dejacue.records.reference import References
from dejacue.report._timeline import Axis, answers, compared, scores_of, windows_of
from dejacue.report.scene import data_url, scene, timeline_module

if TYPE_CHECKING:
    from jinja2 import Template

Named = Mapping[str | None, Sequence[Window]]
Doubts = Sequence[tuple[Window, str]]  # frames of the file, and what is doubtful
Pictures = Sequence[tuple[int, bytes]]  # frame, JPEG or PNG

MAX_DOUBTS = 12  # that are listed
MAX_LISTED = 20  # runs in words
MAX_NOTEBOOK_PICTURES = 8
MANY_FRAMES = 2_000  # more than a screen has pixels for
MAX_CURVE_VALUES = 120_000  # of all curves together; they can be zoomed


def report_page(
    history: History,
    timeline: Timeline,
    *,
    references: References | None = None,
    thumbnails: Pictures = (),
    crops: Pictures = (),
    video: str | None = None,
    film: str | None = None,
    copy: tuple[bytes, int] | None = None,
    object: str | None = None,
    doubts: Doubts = (),
    tracker: str | None = None,
    objects: bytes | None = None,
    named: Named | None = None,
    vocabulary: Vocabulary | None = None,
) -> str:
    """Return the page that shows a timeline, its intervals as a table, and how they were made.
    Where the answer is meaningless, the reason stands in place of the intervals.

    references        the true windows in frames of the file, drawn and compared with; a complete
                      Reference also tells what was missed and what is superfluous
    thumbnails        (frame, JPEG or PNG bytes), shown in the order of the frames
    crops             the same of the object alone, shown under the thumbnail of their frame
    video, object     their names, for the heading
    film              the path of the video relative to the page, which plays it
    copy              instead: a small .mp4 of it, which the page contains, and of how many frames
                      one is in it
    doubts, tracker   (window in frames of the file, sentence): where the tracker may be wrong
    objects           PNG of all objects that were found by name
    named             state (None: none of them) → windows in which a person says that it holds
    vocabulary        for the changes that a person marked
    """
    drawn = scene(
        history,
        timeline,
        vocabulary,
        references=references,
        doubts=doubts,
        named=named,
        video=video,
        most=MAX_CURVE_VALUES,
    )
    page = _Page(history, timeline, references, sorted(frame for frame, _ in thumbnails))
    text = _template().render(
        **_assets(),
        scene=_json(drawn),
        bars=Markup(page.bars()),
        version=__version__,
        title=history.id,
        film=film,
        copied=copy and copy[1],
        address=_address(film, copy),
        facts=page.facts(video, object, tracker),
        notes={kind: [n for n in timeline.notes if n.severity == kind] for kind in SEVERITIES},
        pictures=page.pictures(thumbnails, dict(crops)),
        cropped=bool(crops),
        zero=None if timeline.evidence is None or timeline.meaningless else timeline.evidence.zero,
        many=len(history) > MANY_FRAMES,
        doubts=page.doubts(doubts),
        objects=None if objects is None else data_url(0, objects),
        comparison=page.scores and page.scores.sentence,
        columns=page.columns,
        rows=list(page.table_rows()),
        settings=list(page.settings()),
    )
    return printable(text)  # last, so that it holds for every text in it


def _address(film: str | None, copy: tuple[bytes, int] | None) -> str | None:
    if copy is not None:
        return f"data:video/mp4;base64,{base64.b64encode(copy[0]).decode()}"
    return None if film is None else quote(os.fsencode(film))


def finding_html(history: History, timeline: Timeline, *, thumbnails: Pictures = ()) -> str:
    """Return the timeline with its history; above it what makes it doubtful, and thumbnails."""
    severe = [note for note in timeline.notes if note.severity != "information"]
    parts = [f"<div>\N{WARNING SIGN} {escaped(note.line)}</div>" for note in severe]
    step = -(-len(thumbnails) // MAX_NOTEBOOK_PICTURES) or 1
    for frame, data in sorted(thumbnails, key=lambda thumbnail: thumbnail[0])[::step]:
        parts.append(
            f'<img alt="frame {frame}" title="frame {frame}" src="{data_url(frame, data)}" '
            'style="height:64px;margin:0 2px 2px 0;display:inline-block"/>'
        )
    return f"<div>{''.join(parts)}{timeline_html(timeline, history, len(severe))}</div>"


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dejacue.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


def _assets() -> dict[str, str]:
    """Return the style and the script of the page, and the digest by which its policy knows it."""
    home = resources.files("dejacue.report") / "templates"
    style, begin = ((home / name).read_text("utf-8") for name in ("page.css", "page.js"))
    script = timeline_module() + begin
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": Markup(style), "script": Markup(script), "digest": digest}


def _json(value: Any) -> Markup:
    """Return JSON for a script element, where nothing but "<" could end it."""
    return Markup(json.dumps(value).replace("<", "\\u003c"))


Record = dict[str, Any]  # what the template shows of one thing, by name


class _Page:
    """Turns one timeline into the records that the template shows."""

    def __init__(
        self,
        history: History,
        timeline: Timeline,
        references: References | None,
        pictured: Sequence[int],
    ) -> None:
        self.history, self.timeline, self.references = history, timeline, references
        self.scores = scores_of(timeline, references)
        self.pictured = pictured  # frames
        self.axis, self.answers = Axis(history), answers(timeline)
        self.states = {
            name: {"number": n + 1, "name": name, "colour": COLOURS[n % len(COLOURS)]}
            for n, name in enumerate(timeline.states)
        }
        columns = {
            "frames": True,
            "source frames": history.sampled,
            "time": history.times_s is not None,
            "trust": any(interval.trust for interval in timeline),
            "reference": references is not None,
            "tIoU": references is not None,
            "result": self.scores is not None,
        }
        self.columns = [name for name, is_present in columns.items() if is_present]

    def facts(
        self, video: str | None, object: str | None, tracker: str | None
    ) -> list[tuple[str, str]]:
        history, runs = self.history, self.history.runs()
        when = f"frames {runs[0].start} – {runs[-1].end}"
        if history.times_s is not None:
            ends = history.times_s if history.ends_s is None else history.ends_s
            when += f", {clock(float(history.times_s[0]))} – {clock(float(ends[-1]))}"
        share = f"{100 * len(history) / self.axis.span:.0f}\N{NO-BREAK SPACE}%"
        when += f": {len(history)} of {self.axis.span} ({share}) in {counted(len(runs), 'run')}"
        rows = {
            "Object": object,
            "Video": video,
            "Tracker": tracker,
            "Encoder": self.timeline.encoder or history.encoder or "unnamed",
            "Observed": when,
        }
        return [(name, value) for name, value in rows.items() if value]

    def settings(self) -> Iterator[tuple[str, str]]:
        history = self.history
        yield from _flat("", self.timeline.settings)
        yield "encoder", self.timeline.encoder or history.encoder or "unnamed"
        made_with = history.made_with or {}
        in_notes = PROBLEMS, MEANINGLESS
        yield from ((key, value) for key, value in made_with.items() if key not in in_notes)
        yield "features", f"{len(history)} × {history.dimension}, {history.features.dtype}"
        yield "observed runs", ", ".join(_shortened([str(run) for run in history.runs()]))
        if history.source_frames is not None:
            yield "frames of the source", "{} – {}".format(*history.source_frames[[0, -1]].tolist())

    def pictures(self, thumbnails: Pictures, crops: Mapping[int, bytes]) -> list[Record]:
        records = []
        for frame, data in sorted(thumbnails, key=lambda thumbnail: thumbnail[0]):
            seconds = self.axis.seconds(frame)
            time = "" if seconds is None else clock(seconds)
            records.append(
                {
                    "frame": frame,
                    "time": time,
                    "about": f"frame {frame}, {time}" if time else f"frame {frame}",
                    "source": data_url(frame, data),
                    "crop": data_url(frame, crops[frame]) if frame in crops else "",
                }
            )
        return records

    def bars(self) -> str:
        """Return what was found, observed and true as bars, for readers without script."""
        history, runs = self.history, self.history.runs()
        rows = [
            BarRow(
                answer.state if answer.whole else f"{answer.state}: {answer.descriptions[0]}",
                str(self.states[answer.state]["colour"]),
                [interval.window for interval in answer.intervals],
            )
            for answer in self.answers
        ]
        kinds = {"reference": windows_of(self.references)}
        if self.scores is not None:
            kinds |= {"missed": self.scores.missed, "superfluous": self.scores.superfluous}
        for kind, by_state in kinds.items():
            for state, windows in by_state.items():
                drawn = [here for window in windows if (here := history.from_source(window))]
                if kind == "reference" or drawn:
                    rows.append(BarRow(f"{state}: {kind}", "currentColor", drawn))
        ends = runs[0].start, runs[-1].end
        return bars_html("", rows, *ends, history.times_s, observed=runs)

    def doubts(self, doubts: Doubts) -> list[str]:
        """Return the first doubts as sentences; those outside the axis are left out."""
        inside = [(window, text) for window, text in doubts if self.axis.from_file(window)]
        of = " of the file" if self.history.sampled else ""
        texts = [
            f"frame{f's {_range(w)}' if w.length > 1 else f' {w.start}'}{of}: {text}"
            for w, text in inside[:MAX_DOUBTS]
        ]
        omitted = len(inside) - MAX_DOUBTS
        return [*texts, f"… and {omitted} more"] if omitted > 0 else texts

    def table_rows(self) -> Iterator[Record]:
        """Yield the rows of the table: each occurrence in time, then what was not found. The first
        row of a state has its descriptions."""
        described: set[str] = set()
        for state, interval, true, overlap, result in compared(self.timeline, self.references):
            cells = {
                "frames": self.timeline.without_interval,
                "reference": "" if true is None else _range(true),
                "tIoU": "–" if overlap is None else f"{overlap:.2f}",
                "result": result,
            }
            texts = () if state in described else self.timeline.states[state] or (state,)
            described.add(state)
            sure = None  # how long the bar below the word of trust is
            if interval is not None:
                sure = 1.0 if interval.confirmed else interval.confidence
                cells |= {
                    "frames": _range(interval.window),
                    "source frames": _range(interval.source),
                    "time": clock_range(interval),
                    "trust": interval.trust or "",
                }
                texts = (interval.description,) if interval.description else texts
            yield {
                "state": self.states[state],
                "texts": texts,
                "cells": [cells.get(name, "") for name in self.columns],
                "frame": None if interval is None else self.picture_of(interval),
                "remarks": [] if interval is None else [*_remarks(interval)],
                "sure": sure,
            }

    def picture_of(self, interval: Interval) -> int | None:
        """Return the frame with a picture that is nearest to the middle of the interval."""
        inside = [frame for frame in self.pictured if interval.start <= frame <= interval.end]
        middle = (interval.start + interval.end) / 2
        return min(inside, key=lambda frame: abs(frame - middle), default=None)


def _remarks(interval: Interval) -> Iterator[str]:
    """Yield what stands in small type under an occurrence."""
    why = interval.diagnostics
    if why is not None and why.fallback:
        yield "plain similarity was used"
    if why is not None and why.floor_active:
        yield "the response hardly varies"
    if why is not None and why.touches_run_edge:
        yield "touches the edge of its run"


def _range(window: Window) -> str:
    return f"{window.start} – {window.end}"


def _shortened(words: list[str]) -> list[str]:
    rest = len(words) - MAX_LISTED
    return words[:MAX_LISTED] + ([f"and {rest} more"] if rest > 0 else [])


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield settings, some of them nested, as names with dots."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False, default=str)
