"""Parts of the report's page: names, colours, heading, legend, pictures, axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dejacue.records import History, Moment, Retrieval, Window
from dejacue.report import markup as m
from dejacue.report.plots import COLOURS
from dejacue.report.timeline import HEIGHT, WIDTH, Axis, clock, gaps_path

MOST_THREADED = 14  # thumbnails that fit beside each other
References = Mapping[str, Sequence[Window]]
Doubts = Sequence[tuple[Window, str]]  # frames of the file, and what is doubtful


def on_axis(axis: Axis, window: Window) -> Window | None:
    """A window of the file among the frames of the axis, observed or not; None outside of them."""
    frames, source = axis.history.frames, axis.history.source_frames
    first, last = axis.frames
    if source is not None and len(frames) > 1:
        pace = float(np.median(np.diff(source) / np.diff(frames)))  # frames of the file to one here
        ends = (source[0] + pace * (first - frames[0]), source[-1] + pace * (last - frames[-1]))
        known = np.concatenate((ends[:1], source, ends[1:]))
        here = np.concatenate(([first], frames, [last]))
        start, end = np.interp(tuple(window), known, here).tolist()
        if window.end < known[0] or window.start > known[-1]:
            return None
        window = Window(
            int(np.ceil(start - 1e-9)), max(int(end + 1e-9), int(np.ceil(start - 1e-9)))
        )
    if window.end < first or window.start > last:
        return None
    return Window(max(window.start, first), min(window.end, last))


class Pieces:
    """What the parts of a page share, and those that frame them; each as HTML."""

    def __init__(
        self,
        history: History,
        retrieval: Retrieval,
        references: References | None,
        doubts: Doubts = (),
    ) -> None:
        self.history, self.retrieval = history, retrieval
        self.references = references or {}
        self.compared = references is not None
        self.sampled = any(moment.source for moment in retrieval)
        self.axis = Axis(history)
        self.names = list(dict.fromkeys(moment.state for moment in retrieval))
        self.names += [state for state in self.references if state not in self.names]
        self.further = any(moment.alternatives for moment in retrieval)
        self.broken = len(history) < self.axis.span
        self.judged = any(moment.p_value is not None for moment in retrieval)
        how = retrieval.settings.get("readout")
        name = how.get("name") if isinstance(how, dict) else None
        self.joint = name == "joint"  # further windows are occurrences, not alternatives
        self.zero = "the mean frame" if name in ("contrast", "joint") else "the median frame"
        mapped = ((on_axis(self.axis, window), text) for window, text in doubts)
        self.doubts = [(window, text) for window, text in mapped if window is not None]

    # Small pieces

    def colour(self, state: str) -> str:
        return f"--c:{COLOURS[self.names.index(state) % len(COLOURS)]}"

    def badge(self, state: str) -> str:
        number = self.names.index(state) + 1
        return f'<span class="badge" style="{self.colour(state)}">{number}</span>'

    def words(self, texts: Sequence[str]) -> str:
        """Descriptions that share an answer, one under the other."""
        return "<br>".join(f"<bdi>{m.escaped(text)}</bdi>" for text in texts)

    def span(self, window: Window) -> str:
        return f"{window.start} – {window.end}"

    def seconds(self, window: Window, times: tuple[float, float] | None = None) -> str:
        found = times or (self.axis.seconds(window.start), self.axis.seconds(window.end))
        return "" if found[0] is None else f"{found[0]:.2f} – {found[1]:.2f}"

    def overlap(self, moment: Moment) -> str:
        own = self.references.get(moment.state, ())
        return f"{max(moment.in_source.iou(window) for window in own):.2f}" if own else "–"

    def claimed(self, moment: Moment) -> list[Window]:
        """What stands on the timeline for a moment: nothing if it is absent, all occurrences."""
        further = [window for window, _ in moment.alternatives] if self.joint else []
        return [] if moment.absent else [moment.window, *further]

    def drawn(self, state: str) -> list[Window]:
        """The references of a state as the axis counts frames."""
        given = self.references.get(state, ())
        own = [on_axis(self.axis, window) or (None if self.sampled else window) for window in given]
        return [window for window in own if window is not None]

    # Around the results

    def facts(self, video: str | None, object: str | None, tracker: str | None = None) -> str:
        history = self.history
        runs = history.runs()
        share = 100 * len(history) / self.axis.span
        when = f"frames {runs[0].start} – {runs[-1].end}"
        if history.times_s is not None:
            first, last = history.times_s[[0, -1]].tolist()
            when += f", {clock(first)} – {clock(last)}"
        seen = f"{len(history)} of {self.axis.span} ({share:.0f}\N{NO-BREAK SPACE}%)"
        when += f": {seen} in {m.count(runs, 'run')}"
        encoder = self.retrieval.encoder or history.encoder or "unnamed"
        rows = [
            ("Object", object or history.id), ("Video", video), ("Followed by", tracker),
            ("Encoder", encoder), ("Observed", when),
        ]  # fmt: skip
        return m.pairs((name, value) for name, value in rows if value)

    def shared(self) -> str:
        """What every drawing uses: drawn once, shown many times."""
        grid = "".join(f"M{round(WIDTH * x)} 0V{HEIGHT}" for x, _, _ in self.axis.ticks("frame"))
        return (
            '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
            f'<path id="grid" class="grid" d="{grid or "M0 0"}"/>'
            f'<path id="gaps" class="gaps" d="{gaps_path(self.axis)}"/></defs></svg>'
        )

    def legend(self) -> str:
        found = '<rect class="found" x="1" y="1" width="24" height="11"/>'
        keys = [(found, "window found")]
        if self.further and not self.joint:
            keys.append((found.replace("found", "other"), "alternatives, by rank"))
        if self.compared:
            bar = '<rect class="reference" x="1" y="4" width="24" height="5"/>'
            keys.append((bar, "reference"))
        if self.broken:
            keys.append((found.replace("found", "gaps"), "not observed"))
        if self.doubts:
            keys.append((found.replace("found", "doubt"), "where the tracker may be wrong"))
        drawn = (
            f'<li class="key"><svg viewBox="0 0 26 13" aria-hidden="true">{icon}</svg>{words}</li>'
            for icon, words in keys
        )
        return f'<ul class="keys">{"".join(drawn)}</ul>'

    def strip(self, pictures: Sequence[tuple[int, bytes]]) -> str:
        if not pictures:
            return ""
        items, threads = [], []
        for n, (frame, data) in enumerate(pictures):
            when = self.axis.seconds(frame)
            words = f"frame {frame}" + ("" if when is None else f", {clock(when)}")
            time = "" if when is None else f"<br>{clock(when)}"
            items.append(
                f'<li><img src="{m.picture(frame, data)}" alt="{words}" title="{words}">'
                f"<small>{frame}{time}</small></li>"
            )
            threads.append(
                f'<line x1="{round(WIDTH * (n + 0.5) / len(pictures))}" y1="0" '
                f'x2="{self.axis.x(frame)}" y2="{HEIGHT}" data-x="{self.axis.share(frame):.5f}"/>'
            )
        many = len(pictures) > MOST_THREADED
        rows = m.row(
            "strips", "", f'<ul class="strip{" many" if many else ""}">{"".join(items)}</ul>'
        )
        if many:
            return rows
        return rows + m.row("threads", "", m.svg("".join(threads), 'aria-hidden="true"'))

    def axes(self, place: str = "") -> str:
        rows = []
        for unit in ("frame", "time") if self.axis.timed else ("frame",):
            ticks = "".join(
                f'<span class="tick{" minor" if minor else ""}'
                f'{" first" if x < 0.03 else " last" if x > 0.97 else ""}" '
                f'style="--x:{x:.5f}">{label}</span>'
                for x, label, minor in self.axis.ticks(unit)
            )
            reading = '<output class="reading"></output>' if unit == "frame" else ""
            row = m.row("axis", reading, ticks, unit)
            rows.append(row.replace("<div ", f'<div data-unit="{unit}" ', 1))
        return f'<div class="axes {place}">{"".join(rows)}</div>'
