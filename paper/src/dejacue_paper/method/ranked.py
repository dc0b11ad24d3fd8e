"""Several windows of a description, best first and disjoint, for recall among the first k."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dejacue.method import scan as s
from dejacue.method.contrast import Contrast
from dejacue.method.localization import Plan
from dejacue.method.readout import Readout, View
from dejacue.method.scan_readout import Scan, fitting, schedule_of
from dejacue.method.state_readout import StateView
from dejacue.records import History, Vocabulary

Windows = list[tuple[int, int]]


def ranked_windows(
    history: History,
    vocabulary: Vocabulary,
    count: int,
    *,
    coordinates: str,
    readout: str | Readout,
    kernel: str,
) -> list[Windows]:
    """Return up to ``count`` windows of every description, in frames; of a scan or contrast."""
    plan = Plan.of(coordinates, readout, kernel=kernel)
    view = plan.view(history, vocabulary)
    found, frames = view.windows, history.frames
    ranked = []
    for row, (start, end) in enumerate(zip(found.start.tolist(), found.end.tolist(), strict=True)):
        windows, parts = [(start, end)], pairwise(plan.readout.bounds(history).tolist())
        open_parts = [rest for part in parts for rest in _cut(part, start, end)]
        searched = [(_best_of(view, row, *part), part) for part in open_parts]
        while len(windows) < count and searched:
            top = max(window[2] for window, _ in searched)
            best, part = min(pair for pair in searched if pair[0][2] >= s.tie_threshold(top))
            searched.remove((best, part))
            windows.append(best[:2])
            rests = _cut(part, *best[:2])
            searched += [(_best_of(view, row, *rest), rest) for rest in rests]
        ranked.append([(int(frames[a]), int(frames[b])) for a, b in windows])
    if _of_states(plan.readout):  # which their descriptions share
        return [ranked[state] for state in vocabulary.labels.tolist()]
    return ranked


def _of_states(readout: Readout) -> bool:
    return isinstance(readout, Contrast) and readout.pooling == 1


def _cut(part: tuple[int, int], start: int, end: int) -> list[tuple[int, int]]:
    """Return what is left of a part, first position and end, without a window."""
    first, stop = part
    if end < first or start >= stop:
        return [part]
    return [rest for rest in ((first, start), (end + 1, stop)) if rest[0] < rest[1]]


def _best_of(view: View, row: int, first: int, end: int) -> s.ScoredWindow:
    """Return the best window of a description, or of a state, inside a part."""
    if isinstance(view, StateView):
        part = (np.array([number]) for number in (row, first, end))
        start, last, score = view.engine.search_parts(view.smoothed[0], *part)
        return int(start[0]), int(last[0]), float(score[0])
    readout = view.readout
    assert isinstance(readout, Scan)
    responses = view.evidence.responses[row : row + 1, first:end]
    schedule = schedule_of(fitting(readout.lengths(view.history), end - first), readout.norm)
    start, last, score = view.engine.scan(responses, np.array([0, end - first]), *schedule)
    return first + int(start[0]), first + int(last[0]), float(score[0])
