"""The report: one HTML file that opens from disk, with nothing to fetch and nothing to install.

page.html is the skeleton, page.css the looks, page.js a cursor and a zoom; the page is complete
without the script. All drawings share one coordinate system, WIDTH × HEIGHT, and are stretched to
their place, so that they fit a phone, a screen and paper; words stand beside them as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.errors import InputError
from dejacue.records import Evidence, History, Moment, Retrieval
from dejacue.report import markup as m
from dejacue.report.pieces import Doubts, Pieces, References
from dejacue.report.plots import curves
from dejacue.report.timeline import (
    FOOT,
    HEIGHT,
    MOST_POINTS,
    TOP,
    WIDTH,
    curve_path,
    mean_path,
    observed_path,
)

SOURCE = "source frames"  # those of the file, where others are counted


def report_page(
    history: History,
    evidence: Evidence,
    retrieval: Retrieval,
    *,
    references: References | None = None,
    thumbnails: Sequence[tuple[int, bytes]] = (),
    title: str | None = None,
    video: str | None = None,
    object: str | None = None,
    references_note: str | None = None,
    doubts: Doubts = (),
    tracker: str | None = None,
) -> str:
    """The page that shows a retrieval: timeline, table, evidence, and how it was made.

    references        state → its true windows in frames of the file, drawn and compared with
    thumbnails        (frame, JPEG or PNG bytes), shown in the order of the frames
    video, object     their names, for the heading
    references_note   where the references come from
    doubts, tracker   (window in frames of the file, sentence): where the tracker may be wrong
    """
    if evidence.responses.shape != (len(retrieval), len(history)):
        raise InputError(
            f"report of {history.id}: the evidence has shape {evidence.responses.shape}, but there "
            f"are {len(retrieval)} descriptions and {len(history)} observed frames; "
            "take all three from the same history and vocabulary"
        )
    retrieval = retrieval.with_source(history)
    page = _Page(history, retrieval, references, doubts)
    pictures = sorted(thumbnails, key=lambda thumbnail: thumbnail[0])
    body = [
        page.shared(),
        m.section(
            "Timeline",
            page.legend(),
            _ZOOM,
            page.strip(pictures),
            page.states(),
            page.axes(),
            page.doubtful(),
        ),
        m.section("Found", page.table(references_note)),
        m.section("Evidence", page.evidence(evidence), page.axes("below")),
        page.details(),
    ]
    room = files("dejacue.report")
    script = room.joinpath("page.js").read_text(encoding="utf-8")
    return Template(room.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=m.escaped(title or history.id),
        style=room.joinpath("page.css").read_text(encoding="utf-8"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        facts=page.facts(video, object, tracker),
        notes=m.listed("notes", [f"<bdi>{m.escaped(note)}</bdi>" for note in retrieval.notes]),
        body="\n".join(body),
        footer=f"Made with Déjà Cue (dejacue {__version__}).",
        first=f"{page.axis.first:.1f}",
        span=str(page.axis.span),
        wide=str(WIDTH),
        times=m.escaped(json.dumps(page.axis.knots())),
    )


class _Page(Pieces):
    """The results, from top to bottom."""

    def states(self) -> str:
        """Like the bar of a player: one row per state, found above, references below."""
        rows = []
        high = 620 if self.compared else HEIGHT
        for n, state in enumerate(self.names):
            moments = self.retrieval.state(state)
            own = self.drawn(state)
            bars = [self.axis.bar(w, 0, high, "found") for mo in moments for w in self.claimed(mo)]
            bars += [self.axis.bar(window, 700, 300, "reference") for window in own]
            claimed = dict.fromkeys(w for moment in moments for w in self.claimed(moment))
            about = f"Found: {m.spoken(claimed)}."
            about += f" Reference: {m.spoken(own)}." if self.compared else ""
            drawing = m.figure(f"s{n}", f"State {state}", about, _GAPS + "".join(bars))
            rows.append(
                f'<div class="row state" style="{self.colour(state)}"><div class="label">'
                f"{self.badge(state)}<bdi>{m.escaped(state)}</bdi></div>"
                f'<div class="track">{drawing}</div><div class="scale"></div></div>'
            )
        if self.broken:
            about = f"Observed in {m.count(self.history.runs(), 'run')}."
            body = f'<path class="observed" d="{observed_path(self.axis)}"/>'
            rows.append(m.row("seen", "observed", m.figure("seen", "Observed frames", about, body)))
        if self.doubts:
            marks = "".join(self.axis.bar(window, 0, HEIGHT, "doubt") for window, _ in self.doubts)
            about = f"Doubtful: {m.spoken(window for window, _ in self.doubts)}."
            rows.append(m.row("seen", "worth a look", m.figure("doubts", "Doubts", about, marks)))
        return "".join(rows)

    def doubtful(self) -> str:
        """Where the tracker may have been wrong, in words."""
        said = [
            f"frame{'' if w.length == 1 else 's'} "
            f"{w.start if w.length == 1 else self.span(w)}: {m.escaped(text)}"
            for w, text in self.doubts
        ]
        more = [f"… and {len(said) - MOST_DOUBTS} more"] if len(said) > MOST_DOUBTS else []
        return m.listed("soft small", [*said[:MOST_DOUBTS], *more]) if said else ""

    def table(self, references_note: str | None) -> str:
        timed = self.history.times_s is not None
        numbers = ["frames", *([SOURCE] if self.sampled else []), *(["seconds"] if timed else [])]
        numbers += ["score", *(["p"] if self.judged else [])]
        numbers += ["reference", "tIoU"] if self.compared else []
        head = "".join(f'<th scope="col">{name}</th>' for name in ("state", "description"))
        head += "".join(f'<th scope="col" class="number">{name}</th>' for name in numbers)
        rows = []
        for moment, texts in self.retrieval.answers():
            own_span = self.span(moment.window)
            cells = [f"not found <small>({own_span})</small>" if moment.absent else own_span]
            cells += [self.span(moment.in_source)] if self.sampled else []
            cells += [self.seconds(moment.window, moment.times_s)] if timed else []
            cells.append(f"{moment.score:.2f}")
            if self.judged:
                cells.append("" if moment.p_value is None else f"{moment.p_value:.2f}")
            if self.compared:
                own = self.references.get(moment.state, ())
                cells += [
                    m.some([f"<span>{self.span(w)}</span>" for w in own]),
                    self.overlap(moment),
                ]
            remarks = self.remarks(moment)
            rows.append(
                f'<tr class="{"told" if remarks else "plain"}"><th scope="row">'
                f"{self.badge(moment.state)} <bdi>{m.escaped(moment.state)}</bdi></th>"
                f'<td class="words">{self.words(texts)}</td>'
                f"{m.cells(numbers, cells)}</tr>"
            )
            if remarks:
                wide = 1 + len(numbers)
                rows.append(f'<tr class="more"><td></td><td colspan="{wide}">{remarks}</td></tr>')
        about = "Frames are inclusive."
        about += _SAMPLED if self.sampled else ""
        about += " Seconds: when the first and the last frame are shown." if timed else ""
        about += " tIoU: frames in both over frames in either." if self.compared else ""
        about += _JUDGED if self.judged else ""
        about += f" References: <bdi>{m.escaped(references_note)}</bdi>" if references_note else ""
        return (
            f'<div class="wide"><table aria-describedby="about"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
            f'<p id="about" class="soft small">{about}</p>'
        )

    def remarks(self, moment: Moment) -> str:
        """What stands in small type under a moment."""
        words = []
        joining = "and" if self.joint else "or"
        for window, score in moment.alternatives:
            when = self.seconds(window)
            when = f" ({when} s)" if when else ""
            words.append(f"{joining} {self.span(window)}{when}, score {score:.2f}")
        why = moment.diagnostics
        if why is not None:
            words += ["plain similarity was used"] if why.fallback else []
            words += ["the response hardly varies"] if why.floor_active else []
            words += ["touches the edge of its run"] if why.touches_run_edge else []
        return " · ".join(f"<span>{text}</span>" for text in words)

    def evidence(self, evidence: Evidence) -> str:
        thinned = ""
        if len(self.history) > MOST_POINTS:
            thinned = " Pale: least and greatest of neighbouring frames; dark: their mean."
        rows = [
            '<p class="soft">Line: how strongly each frame speaks for the description, compared '
            f"with its siblings; 0 is {self.zero}. Each has its own scale.{thinned}</p>"
        ]
        for q, (moment, texts, row) in enumerate(curves(self.retrieval, evidence)):
            rows.append(self.curve(q, moment, texts, row))
        presence = self.history.presence
        if presence is not None:
            about = "How sure the tracker was."
            drawing, scale = self.drawing(presence, "", "presence", "Presence", about)
            label = '<span></span><div class="words">presence, as tracked</div>'
            label += f'<div class="facts">{_VALUE}</div>'
            rows.append(m.row("curve presence", label, drawing, scale))
        return "".join(rows)

    def curve(self, q: int, moment: Moment, texts: Sequence[str], row: NDArray[Any]) -> str:
        bars = [] if moment.absent else [self.axis.bar(moment.window, 110, 890, "found")]
        kind = (110, 890, "found") if self.joint else (150, 800, "other")
        bars += [self.axis.bar(window, *kind) for window, _ in moment.alternatives]
        own = self.drawn(moment.state)
        bars += [self.axis.bar(window, 20, 70, "reference") for window in own]
        about = f"Calibrated response. Found: frames {self.span(moment.window)}."
        if moment.alternatives:
            about += f" Alternatives: {m.spoken(window for window, _ in moment.alternatives)}."
        about += f" Reference: {m.spoken(own)}." if own else ""
        drawing, scale = self.drawing(
            row, "".join(bars), f"e{q}", f"Evidence for {moment.description}", about
        )
        ranks = "".join(
            f'<span class="rank" style="--x:{self.axis.share(window.start - 0.5):.5f}">{n}</span>'
            for n, (window, _) in enumerate(moment.alternatives, start=2)
            if window.length > 0.015 * self.axis.span and not self.joint
        )
        facts = ["not found" if moment.absent else f"frames {self.span(moment.window)}"]
        if self.history.times_s is not None:
            facts.append(self.seconds(moment.window, moment.times_s) + " s")
        facts.append(f"score {moment.score:.2f}")
        facts += [f"tIoU {self.overlap(moment)}"] if own else []
        listed = " · ".join(f"<span>{fact}</span>" for fact in facts)
        label = (
            f'{self.badge(moment.state)}<div class="words">'
            f"{self.words(texts)}</div>"
            f'<div class="facts">{listed}{_VALUE}</div>'
        )
        made = m.row("curve", label, drawing + ranks, scale)
        return made.replace("<div ", f'<div style="{self.colour(moment.state)}" ', 1)

    def drawing(
        self, row: NDArray[Any], bars: str, name: str, title: str, about: str
    ) -> tuple[str, str]:
        """A curve with what lies behind it, and the numbers of its scale."""
        low, high = min(float(row.min()), 0.0), max(float(row.max()), 0.0)
        unit = max(high - low, 1e-9) / (HEIGHT - FOOT - TOP)
        zero = TOP + high / unit
        mean = mean_path(self.axis, row, low, high)
        body = (
            f'<use href="#grid"/>{_GAPS}<path class="zero" d="M0 {zero:.0f}H{WIDTH}"/>{bars}'
            f'<path class="line{" dense" if mean else ""}" '
            f'd="{curve_path(self.axis, row, low, high)}"/>'
        )
        body += f'<path class="mean" d="{mean}"/>' if mean else ""
        edges = f'data-high="{high + TOP * unit:.5g}" data-low="{low - FOOT * unit:.5g}"'
        marks = {zero: "0"}
        if zero - TOP > 0.25 * HEIGHT:
            marks[TOP] = f"{high:.1f}"
        if HEIGHT - FOOT - zero > 0.25 * HEIGHT:
            marks[HEIGHT - FOOT] = f"{low:.1f}".replace("-", "−")
        scale = "".join(
            f'<span style="top:{100 * y / HEIGHT:.1f}%">{text}</span>' for y, text in marks.items()
        )
        return m.figure(name, title, about, body, edges), scale

    def details(self) -> str:
        history = self.history
        rows = [
            *m.flat("", self.retrieval.settings),
            ("encoder", self.retrieval.encoder or history.encoder or "unnamed"),
            *(history.made_with or {}).items(),
            ("features", f"{len(history)} × {history.dimension}, {history.features.dtype}"),
            ("observed runs", m.some([str(run) for run in history.runs()])),
        ]
        if history.source_frames is not None:
            first, last = history.source_frames[[0, -1]].tolist()
            rows.append(("frames of the source", f"{first} – {last}"))
        return f"<details><summary>Settings and encoder</summary>{m.pairs(rows)}</details>"


_SAMPLED = f" They count what was sampled; {SOURCE}, and references, those of the file."
_JUDGED = " p: the share of unrelated states that fit these frames at least as well."
MOST_DOUBTS = 12  # that are listed
_GAPS = '<use href="#gaps"/>'
_VALUE = '<output class="value"></output>'
_ZOOM = (
    '<div class="zoom" hidden><button data-do="in" aria-label="zoom in">+</button>'
    '<button data-do="out" aria-label="zoom out">−</button>'
    '<button data-do="left" aria-label="earlier">◀</button>'
    '<button data-do="right" aria-label="later">▶</button><button data-do="all">all</button>'
    "<span>or drag over a row; double click for all</span></div>"
)
