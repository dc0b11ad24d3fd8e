"""The report: one HTML file that opens from disk, with nothing to fetch and nothing to install.

templates/page.html.j2 is the page, page.css its style; static/timeline.js, begun by page.js, draws
the timeline that can be zoomed. The page is complete without script and on paper. Here the plain
records are computed that the template shows.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.errors import InputError, counted
from dejacue.records import Evidence, History, Moment, Reading, Retrieval, Vocabulary, Window
from dejacue.records._html import printable
from dejacue.records.history import PROBLEMS
from dejacue.report import _timeline as timeline
from dejacue.report._timeline import HEIGHT, WIDTH, Axis, Bar, clock
from dejacue.report.plots import COLOURS, curves
from dejacue.report.scene import data_url, scene, timeline_module

if TYPE_CHECKING:
    from jinja2 import Template

References = Mapping[str, Sequence[Window]]
Named = Mapping[str | None, Sequence[Window]]
Doubts = Sequence[tuple[Window, str]]  # frames of the file, and what is doubtful
Pictures = Sequence[tuple[int, bytes]]  # frame, JPEG or PNG

MAX_CONNECTED = 14  # thumbnails that fit beside each other
MAX_DOUBTS = 12  # that are listed
MAX_LISTED = 20  # runs or references in words
MOST_VALUES = 120_000  # of the curves that can be zoomed


def report_page(
    history: History,
    evidence: Evidence,
    retrieval: Retrieval,
    *,
    references: References | None = None,
    thumbnails: Pictures = (),
    crops: Pictures = (),
    title: str | None = None,
    video: str | None = None,
    object: str | None = None,
    references_note: str | None = None,
    doubts: Doubts = (),
    tracker: str | None = None,
    warnings: Sequence[str] = (),
    named: Named | None = None,
    vocabulary: Vocabulary | None = None,
) -> str:
    """The page that shows a retrieval: timeline, table, evidence, and how it was made.

    references        state → its true windows in frames of the file, drawn and compared with
    thumbnails        (frame, JPEG or PNG bytes), shown in the order of the frames
    crops             the same of the object alone, shown under the thumbnail of their frame
    video, object     their names, for the heading
    references_note   where the references come from
    doubts, tracker   (window in frames of the file, sentence): where the tracker may be wrong
    warnings          sentences that stand above everything else
    named             state (None: none of them) → windows in which a person says that it holds
    vocabulary        for the changes that a person marked
    """
    if evidence.responses.shape != (len(retrieval), len(history)):
        raise InputError(
            f"report of {history.id}: the evidence has shape {evidence.responses.shape}, but there "
            f"are {len(retrieval)} descriptions and {len(history)} observed frames; "
            "use the same history and vocabulary for all three"
        )
    drawn = scene(
        history,
        Reading(retrieval, evidence),
        vocabulary,
        references=references,
        doubts=doubts,
        named=named,
        video=video,
        most=MOST_VALUES,
    )
    page = _Page(history, retrieval.with_source(history), references, named or {})
    made = _template().render(
        **_assets(),
        **page.shared(),
        scene=_json(drawn),
        version=__version__,
        warnings=warnings,
        title=title or history.id,
        facts=page.facts(video, object, tracker),
        notes=retrieval.notes,
        references_note=references_note,
        pictures=page.pictures(thumbnails, dict(crops)),
        cropped=bool(crops),
        connected=len(thumbnails) <= MAX_CONNECTED,
        zero=evidence.zero,
        doubts=page.doubts(doubts),
        evidence=[page.evidence_row(*row) for row in curves(page.retrieval, evidence)],
    )
    return printable(made)  # last, so that it holds for every text in it


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
    """What of ours goes into the page as it is, and how its policy knows the script."""
    home = resources.files("dejacue.report") / "templates"
    style, begin = ((home / name).read_text("utf-8") for name in ("page.css", "page.js"))
    script = timeline_module() + begin
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": Markup(style), "script": Markup(script), "digest": digest}


def _json(value: Any) -> Markup:
    """Inside a script element, where nothing but "<" could end it."""
    return Markup(json.dumps(value).replace("<", "\\u003c"))


Record = dict[str, Any]  # what the template shows of one thing, by name


class _Page:
    """One retrieval as the records that the template shows."""

    def __init__(
        self, history: History, retrieval: Retrieval, references: References | None, named: Named
    ) -> None:
        self.history, self.retrieval, self.named = history, retrieval, named
        self.compared = references is not None
        self.references = references or {}
        self.axis = Axis(history)
        self.sampled = any(moment.source for moment in retrieval)
        self.occurrences = retrieval.lists_occurrences
        names = dict.fromkeys([*(moment.state for moment in retrieval), *self.references])
        self.states = {
            name: {"number": n + 1, "name": name, "colour": COLOURS[n % len(COLOURS)]}
            for n, name in enumerate(names)
        }
        shown = {
            "frames": True,
            "source frames": self.sampled,
            "seconds": history.times_s is not None,
            "score": True,
            "p": any(moment.p_value is not None for moment in retrieval),
            "reference": self.compared,
            "tIoU": self.compared,
        }
        self.columns = [name for name, wanted in shown.items() if wanted]

    def shared(self) -> dict[str, Any]:
        """What needs nothing but the history, the retrieval and the references."""
        axis, history, presence = self.axis, self.history, self.history.presence
        units = [(unit, axis.ticks(unit)) for unit in ("frame", "time")[: 1 + axis.has_clock]]
        further = any(moment.alternatives for moment in self.retrieval)
        return {
            "width": WIDTH,
            "height": HEIGHT,
            "units": units,
            "grid": "".join(f"M{round(WIDTH * t.share)} 0V{HEIGHT}" for t in units[0][1]) or "M0 0",
            "gaps": timeline.gaps_path(axis),
            "observed": timeline.observed_path(axis) if len(history) < axis.span else "",
            "runs": counted(len(history.runs()), "run"),
            "alternatives": further and not self.occurrences,
            "compared": self.compared,
            "named": bool(self.named),
            "none_named": bool(self.named.get(None)),
            "thinned": len(history) > timeline.MAX_POINTS,
            "states": [self.state_row(state) for state in self.states.values()],
            "columns": self.columns,
            "answers": [self.answer(*answer) for answer in self.retrieval.answers()],
            "presence": None
            if presence is None
            else self.curve(presence, "Presence", "How sure the tracker was.", []),
            "settings": list(self.settings()),
        }

    def facts(
        self, video: str | None, object: str | None, tracker: str | None
    ) -> list[tuple[str, str]]:
        history, runs = self.history, self.history.runs()
        when = f"frames {runs[0].start} – {runs[-1].end}"
        if history.times_s is not None:
            first, last = history.times_s[[0, -1]].tolist()
            when += f", {clock(first)} – {clock(last)}"
        share = f"{100 * len(history) / self.axis.span:.0f}\N{NO-BREAK SPACE}%"
        when += f": {len(history)} of {self.axis.span} ({share}) in {counted(len(runs), 'run')}"
        rows = {
            "Object": object or history.id,
            "Video": video,
            "Tracker": tracker,
            "Encoder": self.retrieval.encoder or history.encoder or "unnamed",
            "Observed": when,
        }
        return [(name, value) for name, value in rows.items() if value]

    def settings(self) -> Iterator[tuple[str, str]]:
        history = self.history
        yield from _flat("", self.retrieval.settings)
        yield "encoder", self.retrieval.encoder or history.encoder or "unnamed"
        made = history.made_with or {}  # problems are among the warnings
        yield from ((key, made[key]) for key in made if key != PROBLEMS)
        yield "features", f"{len(history)} × {history.dimension}, {history.features.dtype}"
        yield "observed runs", ", ".join(_shortened([str(run) for run in history.runs()]))
        if history.source_frames is not None:
            yield "frames of the source", "{} – {}".format(*history.source_frames[[0, -1]].tolist())

    def pictures(self, thumbnails: Pictures, crops: Mapping[int, bytes]) -> list[Record]:
        made = []
        for frame, data in sorted(thumbnails, key=lambda thumbnail: thumbnail[0]):
            seconds = self.axis.seconds(frame)
            time = "" if seconds is None else clock(seconds)
            made.append(
                {
                    "frame": frame,
                    "time": time,
                    "about": f"frame {frame}, {time}" if time else f"frame {frame}",
                    "source": data_url(frame, data),
                    "crop": data_url(frame, crops[frame]) if frame in crops else "",
                    "x": self.axis.x(frame),
                }
            )
        return made

    def doubts(self, doubts: Doubts) -> Record | None:
        mapped = ((self.axis.from_file(window), window, text) for window, text in doubts)
        placed = [(drawn, window, text) for drawn, window, text in mapped if drawn is not None]
        if not placed:
            return None
        of = " of the file" if self.history.sampled else ""
        texts = [
            f"frame{f's {_range(w)}' if w.length > 1 else f' {w.start}'}{of}: {text}"
            for _, w, text in placed[:MAX_DOUBTS]
        ]
        texts += [f"… and {len(placed) - MAX_DOUBTS} more"] if len(placed) > MAX_DOUBTS else []
        bars = self.axis.bars([drawn for drawn, _, _ in placed], 0, HEIGHT, "doubt")
        about = f"Doubtful: {_in_words(w for _, w, _ in placed)}{of}."
        return {"about": about, "bars": bars, "texts": texts}

    def state_row(self, state: Record) -> Record:
        """Like the bar of a player: windows found above, references below."""
        moments = self.retrieval.state(state["name"])
        found = list(dict.fromkeys(w for m in moments for w, _ in self.retrieval.windows_of(m)))
        bars = self.axis.bars(found, 0, 620 if self.compared else HEIGHT, "found")
        about = f"Found: {_in_words(found)}."
        if self.compared:
            true = self.reference_windows(state["name"])
            bars += self.axis.bars(true, 700, 300, "reference")
            about += f" Reference: {_in_words(true)}."
        own = self.named.get(state["name"], ())
        bars += self.axis.bars(self.named.get(None, ()), 400, 200, "none-named")
        bars += self.axis.bars(own, 200, 600, "named")
        about += f" Named by a person: {_in_words(own)}." if own else ""
        return {"state": state, "about": about, "bars": bars}

    def answer(self, moment: Moment, texts: Sequence[str]) -> Record:
        true = _shortened([_range(w) for w in self.references.get(moment.state, ())])
        values: dict[str, str | list[str]] = {
            "frames": _range(moment.window),
            "source frames": _range(moment.in_source),
            "seconds": self.seconds(moment.window, moment.times_s),
            "score": f"{moment.score:.2f}",
            "p": "" if moment.p_value is None else f"{moment.p_value:.2f}",
            "reference": true,
            "tIoU": self.overlap(moment),
        }
        return {
            "state": self.states[moment.state],
            "texts": texts,
            "absent": moment.absent,
            "cells": [values[name] for name in self.columns],
            "remarks": list(self.remarks(moment)),
        }

    def remarks(self, moment: Moment) -> Iterator[str]:
        """What stands in small type under a moment."""
        joining = "and" if self.occurrences else "or"
        for other in moment.alternatives:
            seconds = self.seconds(other.window, other.times_s)
            when = [f"{_range(other.source)} of the file"] if other.source else []
            when += [f"{seconds} s"] if seconds else []
            also = f" ({', '.join(when)})" if when else ""
            yield f"{joining} {_range(other.window)}{also}, score {other.score:.2f}"
        why = moment.diagnostics
        if why is not None and why.fallback:
            yield "plain similarity was used"
        if why is not None and why.floor_active:
            yield "the response hardly varies"
        if why is not None and why.touches_run_edge:
            yield "touches the edge of its run"

    def evidence_row(self, moment: Moment, texts: Sequence[str], response: NDArray[Any]) -> Record:
        further, true = [w for w, _ in moment.alternatives], self.reference_windows(moment.state)
        found = [window for window, _ in self.retrieval.windows_of(moment)]
        bars = self.axis.bars(found, 110, 890, "found")
        about = f"Calibrated response. Found: frames {_range(moment.window)}."
        about += f" Alternatives: {_in_words(further)}." if further else ""
        about += f" Reference: {_in_words(true)}." if true else ""
        ranks = []
        if not self.occurrences:
            bars += self.axis.bars(further, 150, 800, "other")
            ranks = [
                (rank, self.axis.share(window.start - 0.5))
                for rank, window in enumerate(further, start=2)
                if window.length > 0.015 * self.axis.span
            ]
        bars += self.axis.bars(true, 20, 70, "reference")
        bars += self.axis.bars(self.named.get(moment.state, ()), 910, 90, "named")
        seconds = self.seconds(moment.window, moment.times_s)
        facts = ["not found" if moment.absent else f"frames {_range(moment.window)}"]
        facts += [f"{seconds} s"] if seconds else []
        facts += [f"score {moment.score:.2f}"]
        facts += [f"tIoU {self.overlap(moment)}"] if true else []
        curve = self.curve(response, f"Evidence for {moment.description}", about, bars)
        return {
            "state": self.states[moment.state],
            "texts": texts,
            "facts": facts,
            "curve": curve,
            "ranks": ranks,
        }

    def curve(self, values: NDArray[Any], title: str, about: str, bars: list[Bar]) -> Record:
        """A line with what lies behind it, and the numbers of its scale."""
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        top, foot = timeline.TOP, HEIGHT - timeline.FOOT
        unit = max(high - low, 1e-9) / (foot - top)
        zero = top + high / unit
        marks: list[tuple[float, str]] = [(zero, "0")]
        if zero - top > 0.25 * HEIGHT:
            marks.append((top, f"{high:.1f}"))
        if foot - zero > 0.25 * HEIGHT:
            marks.append((foot, f"{low:.1f}".replace("-", "−")))
        return {
            "title": title,
            "about": about,
            "bars": bars,
            "marks": marks,
            "zero": round(zero),
            "line": timeline.curve_path(self.axis, values, low, high),
            "mean": timeline.mean_path(self.axis, values, low, high),
        }

    def seconds(self, window: Window, times: tuple[float, float] | None = None) -> str:
        found = times or (self.axis.seconds(window.start), self.axis.seconds(window.end))
        return "" if found[0] is None else f"{found[0]:.2f} – {found[1]:.2f}"

    def overlap(self, moment: Moment) -> str:
        true = self.references.get(moment.state, ())
        return f"{max(moment.in_source.iou(window) for window in true):.2f}" if true else "–"

    def reference_windows(self, state: str) -> list[Window]:
        """The references of a state as the axis counts frames."""
        given = self.references.get(state, ())
        placed = ((self.axis.from_file(w), None if self.sampled else w) for w in given)
        return [window for on_axis, off in placed if (window := on_axis or off) is not None]


def _range(window: Window) -> str:
    return f"{window.start} – {window.end}"


def _in_words(windows: Iterable[Window]) -> str:
    return ", ".join(f"frames {w.start} to {w.end}" for w in windows) or "none"


def _shortened(words: list[str]) -> list[str]:
    rest = len(words) - MAX_LISTED
    return words[:MAX_LISTED] + ([f"and {rest} more"] if rest > 0 else [])


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Settings, some of them nested, as names with dots."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, str):
        yield name, value
    else:
        yield name, json.dumps(value, ensure_ascii=False, default=str)
