"""Whole timelines against whole references, as action segmentation measures them.

A timeline is one label per frame; a segment is a run of equal labels; the background is in no
segment. Labels are integers.

>>> predicted, true = [0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 2]
>>> segment_f1(predicted, true, 0.5), edit_score(predicted, true)
(1.0, 1.0)
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.records.arrays import Ints

BACKGROUND = -1
Segment = tuple[int, int, int]  # label, first frame, end (exclusive)


def segments_of(labels: ArrayLike) -> list[Segment]:
    """Return the runs of equal labels in time, without those of the background.

    >>> segments_of([0, 0, -1, 1, 1])
    [(0, 0, 2), (1, 3, 5)]
    """
    row = _as_labels(labels)
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(row)) + 1, [len(row)])).tolist()
    runs = [(int(row[a]), a, b) for a, b in itertools.pairwise(cuts)]
    return [run for run in runs if run[0] != BACKGROUND]


def frame_accuracy(predicted: ArrayLike, true: ArrayLike) -> float:
    """Return the share of frames with the true label.

    >>> frame_accuracy([0, 0, 1, 1], [0, 1, 1, 1])
    0.75
    """
    labels, expected = _pair(predicted, true)
    return float((labels == expected).mean())


@dataclass(frozen=True)
class SegmentCounts:
    """Segments that were found, that are superfluous, and that were missed; histories add up.

    >>> (SegmentCounts(2, 1, 0) + SegmentCounts(0, 0, 1)).f1.__round__(3)
    0.667
    """

    hits: int = 0
    superfluous: int = 0
    missed: int = 0

    def __add__(self, other: SegmentCounts) -> SegmentCounts:
        return SegmentCounts(
            self.hits + other.hits,
            self.superfluous + other.superfluous,
            self.missed + other.missed,
        )

    @property
    def f1(self) -> float:
        """Return 2 hits over segments found and true; 1 where there are neither."""
        total = 2 * self.hits + self.superfluous + self.missed
        return 2 * self.hits / total if total else 1.0


def match_segments(predicted: ArrayLike, true: ArrayLike, threshold: float) -> SegmentCounts:
    """Count the segments that ``unmatched_segments`` matches, and those that it does not.

    >>> match_segments([0, 0, 0, 1], [0, 0, 1, 1], 0.5)
    SegmentCounts(hits=2, superfluous=0, missed=0)
    """
    superfluous, missed = unmatched_segments(predicted, true, threshold)
    hits = len(segments_of(true)) - len(missed)
    return SegmentCounts(hits, len(superfluous), len(missed))


def unmatched_segments(
    predicted: ArrayLike, true: ArrayLike, threshold: float
) -> tuple[list[Segment], list[Segment]]:
    """Return the segments that are superfluous, and the true segments that were missed.

    Segments are matched in time: each one takes the true segment of its label that it overlaps
    most, if their tIoU reaches the threshold and no segment before it took that one.

    >>> unmatched_segments([0, 0, 0, 1], [0, 0, 1, 1], 0.6)
    ([(1, 3, 4)], [(1, 2, 4)])
    """
    if not 0 < threshold <= 1:
        raise InputError(f"a tIoU threshold is above 0 and at most 1, not {threshold}")
    labels, expected = _pair(predicted, true)
    segments = segments_of(expected)
    starts, stops = [start for _, start, _ in segments], [stop for _, _, stop in segments]
    taken: set[int] = set()
    superfluous = []
    for label, first, end in segments_of(labels):
        best, at = 0.0, -1
        for number in range(bisect_right(stops, first), bisect_left(starts, end)):  # overlapping
            rival, start, stop = segments[number]
            if rival == label:
                common = min(end, stop) - max(first, start)
                overlap = common / (max(end, stop) - min(first, start))
                if overlap > best:
                    best, at = overlap, number
        if best >= threshold and at not in taken:
            taken.add(at)
        else:
            superfluous.append((label, first, end))
    missed = [segment for number, segment in enumerate(segments) if number not in taken]
    return superfluous, missed


def segment_f1(predicted: ArrayLike, true: ArrayLike, threshold: float) -> float:
    """Return F1@threshold of one history.

    >>> segment_f1([0, 0, 0, 1], [0, 0, 1, 1], 0.6)
    0.5
    """
    return match_segments(predicted, true, threshold).f1


def edit_score(predicted: ArrayLike, true: ArrayLike) -> float:
    """Return 1 − the edit distance between the orders of segments over the longer of them.

    >>> edit_score([0, 1, 0, 2], [0, 0, 2, 2])
    0.5
    """
    labels, expected = _pair(predicted, true)
    a = [label for label, _, _ in segments_of(labels)]
    b = np.array([label for label, _, _ in segments_of(expected)])
    if not a and not len(b):
        return 1.0
    row = steps = np.arange(len(b) + 1)  # the distance from the first labels of a to those of b
    for label in a:
        deleted, replaced = row + 1, row[:-1] + (b != label)
        row = np.append(deleted[0], np.minimum(deleted[1:], replaced))
        row = np.minimum.accumulate(row - steps) + steps  # or inserted
    return 1.0 - int(row[-1]) / max(len(a), len(b))


def _pair(predicted: ArrayLike, true: ArrayLike) -> tuple[Ints, Ints]:
    labels, expected = _as_labels(predicted), _as_labels(true)
    if labels.shape != expected.shape:
        raise InputError(f"{len(labels)} labels are compared with {len(expected)}; give as many")
    return labels, expected


def _as_labels(labels: ArrayLike) -> Ints:
    row = np.asarray(labels)
    if row.ndim != 1 or row.dtype.kind not in "iu" or not len(row):
        raise InputError("labels are one whole number per frame, at least one")
    return row.astype(np.int64)
