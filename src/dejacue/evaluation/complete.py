"""A timeline against a complete reference: metrics of all frames, and what was missed.

A results file holds intervals, so the label of a frame is the state of the interval it lies in; the
dense labels of a finding, which come from whole stretches, are not read. Frames in no interval,
and frames of states that only one of the two knows, show no state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dejacue.errors import InputError, counted
from dejacue.evaluation.segmentation import (
    BACKGROUND,
    SegmentCounts,
    edit_score,
    frame_accuracy,
    segment_f1,
    segments_of,
    unmatched_segments,
)
from dejacue.records import Reference, Timeline, Window
from dejacue.records.arrays import Ints

TIMELINE_METRICS = {
    "accuracy": "accuracy",
    "f1_10": "F1@.10",
    "f1_25": "F1@.25",
    "f1_50": "F1@.50",
    "edit": "edit score",
}
MATCH_AT = 0.5  # tIoU at which an occurrence counts as found
Occurrences = Mapping[str, tuple[Window, ...]]  # state → windows, in frames of the file


@dataclass(frozen=True)
class TimelineScores:
    """Says how one timeline agrees with a complete reference; shares are fractions.

    metrics       the TIMELINE_METRICS by name
    matched       state → occurrences of the timeline that match a true one at a tIoU of .5
    superfluous   state → occurrences of the timeline that match none
    missed        state → true occurrences that none of the timeline matches
    """

    metrics: Mapping[str, float]
    matched: Occurrences
    superfluous: Occurrences
    missed: Occurrences

    @property
    def counts(self) -> SegmentCounts:
        hits, superfluous, missed = (
            sum(map(len, occurrences.values()))
            for occurrences in (self.matched, self.superfluous, self.missed)
        )
        return SegmentCounts(hits, superfluous, missed)

    @property
    def sentence(self) -> str:
        """Return the counts and the main metrics in words."""
        counts = self.counts
        true = counted(counts.hits + counts.missed, "true occurrence")
        percent = {name: f"{100 * value:.1f}" for name, value in self.metrics.items()}
        return (
            f"{counts.hits} of {true} found (tIoU ≥ .5), {counts.missed} missed, "
            f"{counts.superfluous} superfluous; frame accuracy {percent['accuracy']} %, "
            f"F1@.50 {percent['f1_50']} %, edit score {percent['edit']} %"
        )


def timeline_scores(
    timeline: Timeline, reference: Reference, states: Collection[str] | None = None
) -> TimelineScores:
    """Return how the intervals of one history agree with its complete reference.

    states    those that count; default: what the timeline and the reference share

    Frames are those of the file, as far as the reference goes. Where intervals overlap, the one
    with the best score counts.

    >>> from dejacue import Interval, Reference, Timeline
    >>> true = Reference("cup", {"full": [(0, 9), (20, 29)]}, frames=(0, 39), complete=True)
    >>> found = Timeline.of([Interval("full", 0, 7)], {"full": []}, history_id="cup")
    >>> timeline_scores(found, true).counts
    SegmentCounts(hits=1, superfluous=0, missed=1)
    """
    if not reference.complete or reference.frames is None:
        problem = f"reference {reference.history_id}: does not list every occurrence"
        raise InputError(f'{problem}; say so: "complete": true')
    shared = [
        state
        for state in reference.states
        if state in timeline.states and (states is None or state in states)
    ]
    frames = reference.frames
    true = _labels(
        ((window, at) for at, state in enumerate(shared) for window in reference.states[state]),
        frames,
    )
    best_first = sorted(timeline, key=lambda interval: interval.score, reverse=True)
    predicted = _labels(
        ((row.source, shared.index(row.state)) for row in best_first[::-1] if row.state in shared),
        frames,
    )
    f1 = {f"f1_{100 * at:.0f}": segment_f1(predicted, true, at) for at in (0.1, 0.25, 0.5)}
    superfluous, missed = unmatched_segments(predicted, true, MATCH_AT)

    def by_state(segments: Iterable[tuple[int, int, int]]) -> Occurrences:
        windows: dict[str, tuple[Window, ...]] = dict.fromkeys(shared, ())
        for label, first, end in segments:
            window = Window(frames.start + first, frames.start + end - 1)
            windows[shared[label]] += (window,)
        return windows

    return TimelineScores(
        metrics={
            "accuracy": frame_accuracy(predicted, true),
            **f1,
            "edit": edit_score(predicted, true),
        },
        matched=by_state(s for s in segments_of(predicted) if s not in superfluous),
        superfluous=by_state(superfluous),
        missed=by_state(missed),
    )


def _labels(spans: Iterable[tuple[Window, int]], frames: Window) -> Ints:
    """Return a number for every frame; where spans overlap, the last one counts."""
    labels = np.full(frames.length, BACKGROUND, np.int64)
    for window, number in spans:
        if inside := window & frames:
            labels[inside.start - frames.start : inside.end - frames.start + 1] = number
    return labels
