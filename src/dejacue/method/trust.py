"""How far to trust an occurrence: a number that ranks occurrences and is no probability.

    confidence = (L + P) / 2

L is the share of the scatter of looks that lies between the occurrence and the frames of other
states: where both look the same, the occurrence means little. P asks the paper's method for a
second opinion: inside the stretch around the occurrence it takes the best window of each
description, and P is the mean tIoU of these windows with the occurrence. Other videos that teach a
state turn its descriptions towards what they show. Where named frames decide, the confidence is L
alone.

Where L is low for all occurrences of a state, a note names the state as doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dejacue.method import durations, scan
from dejacue.method.coordinates import query_directions
from dejacue.method.known_frames import Smoothing, smoothed_rows
from dejacue.method.readout import PUBLISHED_WIDTH, View
from dejacue.records.arrays import Flags, Floats, Ints

MAX_MOMENTS = 64  # frames, evenly spread, that stand for the looks of a history
ALIKE = 0.22  # the highest L of a state, lowest tenth on half A, by reproduce beyond-trust
LENGTHS = np.array(durations.PUBLISHED, np.int64)
NORMS = scan.NORMS["sqrt"](LENGTHS)


def separation(
    view: View, path: Ints, state: Ints, start: Ints, end: Ints, smoothing: Smoothing
) -> Floats:
    """Return L of each occurrence.

    path   (N,) the label of each frame; state, start, end: of the occurrences, by positions
    """
    count = len(path)
    sampled = np.linspace(0, count - 1, min(count, MAX_MOMENTS)).round().astype(np.int64)
    at = np.union1d(sampled, (start + end) // 2)  # each occurrence has a moment
    looks = smoothed_rows(view.history, at, smoothing)
    squares = np.einsum("md,md->m", looks, looks)

    def mean_and_scatter(part: Flags | slice) -> tuple[Floats, float]:
        mean = looks[part].mean(axis=0)
        return mean, float(squares[part].mean() - mean @ mean)

    beside: dict[int, tuple[int, Floats, float]] = {}  # of each label: what its occurrences share
    for label in np.unique(state).tolist():
        other_count = int((path != label).sum())
        elsewhere = path[at] != label if other_count else np.ones(len(at), bool)
        beside[label] = other_count, *mean_and_scatter(elsewhere)
    shares = np.empty(len(start))
    firsts, ends = np.searchsorted(at, start), np.searchsorted(at, end, side="right")
    for row, label in enumerate(state.tolist()):
        other_count, outside, scatter_outside = beside[label]
        inside, scatter_inside = mean_and_scatter(slice(firsts[row], ends[row]))
        length = int(end[row] - start[row] + 1)
        weight = length / (length + (other_count or count))
        between = weight * (1 - weight) * float((inside - outside) @ (inside - outside))
        within = weight * scatter_inside + (1 - weight) * scatter_outside
        shares[row] = between / max(between + within, 1e-12)
    return shares


def second_opinion(
    view: View, parts: Sequence[tuple[int, int, int]], start: Ints, end: Ints
) -> Floats:
    """Return P of each occurrence; parts: the state, first position and end of its stretch."""
    history, labels = view.history, view.vocabulary.labels
    directions = query_directions(view.vocabulary, view.coordinates, 0.0)
    runs = history.run_offsets
    cosines = view.engine.cosines(history, directions.queries, view.centre)
    responses = view.engine.respond(cosines, runs, PUBLISHED_WIDTH)[0]
    agreement = np.empty(len(parts))
    for row, (state, first, stop) in enumerate(parts):
        inner = runs[(runs > first) & (runs < stop)] - first
        offsets = np.concatenate(([0], inner, [stop - first]))
        rows = responses[labels == state, first:stop]
        starts, ends, _ = view.engine.scan(rows, offsets, LENGTHS, NORMS)
        common = np.minimum(ends + first, end[row]) - np.maximum(starts + first, start[row]) + 1
        common = np.maximum(common, 0)
        either = ends - starts + end[row] - start[row] + 2 - common
        agreement[row] = float((common / either).mean())
    return agreement
