"""What all drawings and tables of a timeline share: rows, and where frames lie in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.evaluation.complete import TimelineScores, timeline_scores
from dejacue.records import History, Interval, Reference, Timeline, Window
from dejacue.records._html import clock
from dejacue.records.reference import References

MAX_STEPS = 9  # between the ticks of an axis
_STEPS_S: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_STEPS_S += tuple(60 * minutes for minutes in (1, 2, 5, 10, 15, 30))
_STEPS_S += tuple(3600 * hours for hours in (1, 2, 4, 12, 24))


class TimelineRow(NamedTuple):
    """A row of a drawing: the intervals in time that answer some descriptions of a state.

    whole       whether these are all descriptions of the state
    intervals   empty where the state was not found
    response    (N,) the evidence for these descriptions; None where the timeline has none
    """

    state: str
    descriptions: tuple[str, ...]
    whole: bool
    intervals: list[Interval]
    response: NDArray[np.float64] | None = None


def answers(timeline: Timeline) -> list[TimelineRow]:
    """Return a row for each state, or for each description where the readout answers those."""
    apart = any(interval.description is not None for interval in timeline)
    rows = []
    for state, texts in timeline.states.items():
        descriptions = tuple(texts) or (state,)
        for some in [(text,) for text in descriptions] if apart else [descriptions]:
            intervals = [i for i in timeline[state] if i.description in (None, *some)]
            rows.append(TimelineRow(state, some, some == descriptions, intervals))
    return rows


def curves(history: History, timeline: Timeline) -> list[TimelineRow]:
    """Return the rows with their evidence; descriptions whose evidence differs have rows apart."""
    if timeline.evidence is None:
        return answers(timeline)
    responses = timeline.evidence.responses
    rows = answers(timeline)
    texts = sum(len(row.descriptions) for row in rows)
    if responses.shape != (texts, len(history)):
        raise InputError(
            f"timeline of {timeline.history_id}: the evidence has shape {responses.shape}, but "
            f"there are {texts} descriptions and {len(history)} observed frames; use the history "
            "that the timeline was made from"
        )
    with_evidence: list[TimelineRow] = []
    following = iter(responses)
    for row in rows:
        by_response: dict[bytes, TimelineRow] = {}
        for text in row.descriptions:
            response = next(following)
            key = response.tobytes()
            same = by_response.get(key, row._replace(descriptions=(), response=response))
            by_response[key] = same._replace(descriptions=(*same.descriptions, text))
        whole = row.whole and len(by_response) == 1
        with_evidence += [part._replace(whole=whole) for part in by_response.values()]
    return with_evidence


class ComparedRow(NamedTuple):
    """A row of a table: an occurrence, and the true window that it overlaps most.

    interval   None: nothing was found of the state, or nothing that overlaps the true window
    true       in frames of the file; None: the occurrence overlaps none
    overlap    tIoU; None where no true window of the state is known
    result     with a complete reference "found", "superfluous" or "missed", as its F1@.50 counts;
               "" where it does not count: another interval lies over it
    """

    state: str
    interval: Interval | None
    true: Window | None
    overlap: float | None
    result: str = ""


def windows_of(references: References | None) -> Mapping[str, Sequence[Window]]:
    """Return state → its true windows; none where no references are given."""
    return references.states if isinstance(references, Reference) else references or {}


def scores_of(timeline: Timeline, references: References | None) -> TimelineScores | None:
    """Return how the timeline agrees with a reference that is complete; None without one."""
    if not isinstance(references, Reference) or not references.complete:
        return None
    if set(references.states).isdisjoint(timeline.states):
        return None
    return timeline_scores(timeline, references)


def compared(timeline: Timeline, references: References | None) -> list[ComparedRow]:
    """Return a row for each occurrence in time, then for what was not found: true windows that were
    missed (without a complete reference: that no occurrence overlaps), and states without any."""
    truth, scores = windows_of(references), scores_of(timeline, references)
    rows = []
    for interval in timeline:
        state, source = interval.state, interval.source
        nearest = max(truth.get(state, ()), key=source.iou, default=None)
        overlap = None if nearest is None else source.iou(nearest)
        result = ""
        if scores is not None:
            kinds = {"superfluous": scores.superfluous, "found": scores.matched}
            overlaid = (k for k, by in kinds.items() if any(w & source for w in by.get(state, ())))
            result = next(overlaid, "")
        rows.append(ComparedRow(state, interval, nearest if overlap else None, overlap, result))
    for state in timeline.states:
        windows = [interval.source for interval in timeline[state]]
        if scores is not None:
            missed: Sequence[Window] = scores.missed.get(state, ())
        else:
            missed = [w for w in truth.get(state, ()) if not any(w & window for window in windows)]
        for window in missed:
            overlap = max(map(window.iou, windows), default=0.0)
            rows.append(ComparedRow(state, None, window, overlap, "missed" if scores else ""))
        if not windows and not missed:
            rows.append(ComparedRow(state, None, None, None))
    return rows


@dataclass(frozen=True)
class Axis:
    """The frames that a drawing spans and, where the history has times, their seconds.

    The axis holds the observed frames, from the first to the last, and whatever was looked at
    before and after them, where the history says so.
    """

    history: History

    @property
    def frames(self) -> tuple[int, int]:
        """Return the first and the last frame."""
        first, last = self.history.frames[[0, -1]].tolist()
        looked_at = self.history.frames_looked_at
        if looked_at is not None:
            return min(first, 0), max(last, looked_at - 1)
        return first, last

    @property
    def span(self) -> int:
        """Return the number of frames."""
        first, last = self.frames
        return last - first + 1

    @cached_property
    def known_times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Return frames and seconds to interpolate between; at both ends at the usual pace."""
        frames, times = self.history.frames, self.history.times_s
        if times is None:
            return None
        pace = float(np.median(np.diff(times) / np.diff(frames))) if len(times) > 1 else 0.0
        first, last = self.frames
        if first < frames[0]:
            times = np.append(times[0] - pace * (frames[0] - first), times)
            frames = np.append(first, frames)
        if last > frames[-1]:
            times = np.append(times, times[-1] + pace * (last - frames[-1]))
            frames = np.append(frames, last)
        return frames, times

    @property
    def has_clock(self) -> bool:
        """Return whether the frames have times that grow."""
        times = self.history.times_s
        return times is not None and len(times) > 1 and bool((np.diff(times) > 0).all())

    def seconds(self, frame: float) -> float | None:
        """Return when a frame is shown; between observed frames by interpolation."""
        known = self.known_times
        return None if known is None else float(np.interp(frame, *known))

    def from_file(self, window: Window) -> Window | None:
        """Return a window of the file in frames of the axis, observed or not; None outside."""
        frames, source = self.history.frames, self.history.source_frames
        first, last = self.frames
        if source is not None and len(frames) > 1:
            pace = float(np.median(np.diff(source) / np.diff(frames)))  # frames of the file to one
            before, after = pace * (first - frames[0]), pace * (last - frames[-1])
            known = np.concatenate(([source[0] + before], source, [source[-1] + after]))
            if window.end < known[0] or window.start > known[-1]:
                return None
            here = np.concatenate(([first], frames, [last]))
            ends = np.interp(tuple(window), known, here).tolist()
            start = int(np.ceil(ends[0] - 1e-9))
            window = Window(start, max(int(ends[1] + 1e-9), start))
        if window.end < first or window.start > last:
            return None
        return Window(max(window.start, first), min(window.end, last))

    def ticks(self) -> list[tuple[float, str]]:
        """Return (frame, time in words) for a few round times; none where it has no clock."""
        if not self.has_clock or self.known_times is None:
            return []
        frames, times = self.known_times
        low, high = float(times[0]), float(times[-1])
        days = _STEPS_S[-1] * _round_step((high - low) / _STEPS_S[-1])
        step: float = next((s for s in _STEPS_S if (high - low) / s <= MAX_STEPS), days)
        counts: NDArray[Any] = np.arange(np.ceil(low / step), high / step + 1e-9)
        digits = 0 if step >= 1 else 1 if step >= 0.1 else 2
        where = np.interp(counts * step, times, frames).tolist()
        words = [clock(n * step, digits) for n in counts.tolist()]
        return list(zip(where, words, strict=True))


def _round_step(span: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, … that gives few enough ticks."""
    steps: Iterator[int] = (n * 10**power for power in count() for n in (1, 2, 5))
    return next(step for step in steps if span / step <= MAX_STEPS)
