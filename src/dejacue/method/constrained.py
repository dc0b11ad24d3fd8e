"""Windows and labellings of a history that agree with the frames that a person has named."""

from __future__ import annotations

import numpy as np

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method.kernel import Engine
from dejacue.method.known_frames import HALF, KnownFrames
from dejacue.method.scan import ScoredWindow
from dejacue.records.arrays import Floats, Ints


def leads(f: Floats, facts: KnownFrames) -> Floats:
    """Return (S, N) by how much f exceeds that of every sibling, and one half where a frame may
    show none of the states."""
    if facts.exhaustive:
        return labelling.leads(f)
    with_half = np.concatenate([f, np.full((1, f.shape[1]), HALF)])
    return labelling.leads(with_half)[:-1]


def windows_around(
    lead: Floats, named: Ints, parts: list[tuple[int, int]]
) -> list[ScoredWindow | None]:
    """Return, for each part, the window with the highest sum of leads around its named frames;
    None where no frame is named.

    named   positions of frames that are known to be in the state, ascending
    """
    windows: list[ScoredWindow | None] = []
    bounds = np.searchsorted(named, np.array(parts, np.int64).reshape(-1, 2)).tolist()
    for (first, end), (before, after) in zip(parts, bounds, strict=True):
        if before == after:
            windows.append(None)
            continue
        low, high = int(named[before]) - first, int(named[after - 1]) - first
        prefix = np.concatenate(([0.0], np.cumsum(lead[first:end])))
        start = low - int(prefix[low::-1].argmin())  # of equal ones the nearest
        stop = high + 1 + int(prefix[high + 1 :].argmax())
        windows.append((first + start, first + stop - 1, float(prefix[stop] - prefix[start])))
    return windows


def window_of_words(
    engine: Engine, evidence: Floats, parts: list[tuple[int, int]]
) -> ScoredWindow | None:
    """Return the best contrast of a state of which no frame is known, inside these parts."""
    if not parts:
        return None
    first, end = np.array(parts, np.int64).T.copy()
    starts, ends, scores = engine.search_parts(evidence[None], np.zeros_like(first), first, end)
    at = int(scores.argmax())
    return int(starts[at]), int(ends[at]), float(scores[at])


def windows(
    engine: Engine, f: Floats, facts: KnownFrames, cuts: Ints, evidence: Floats | None
) -> list[ScoredWindow | None]:
    """Return the window of each state: around its known frames, else the best of words."""
    lead, windows = leads(f, facts), list[ScoredWindow | None]()
    for state, has_named_frame in enumerate(facts.named_states):
        parts = facts.open_parts(state, cuts)
        if has_named_frame:
            around = windows_around(lead[state], facts.named(state), parts)
            windows.append(max((w for w in around if w), key=lambda window: window[2]))
        elif evidence is not None:
            windows.append(window_of_words(engine, evidence[state], parts))
        else:
            windows.append(None)
    return windows


def path(
    engine: Engine,
    rows: Floats,
    facts: KnownFrames,
    nodes: labelling.Nodes,
    cost: float,
    stay: int,
) -> Ints:
    """Return (N,) the best labelling by the rows' sums that keeps every known label, and changes at
    every mark; refuse what no path can keep.

    Other labels lose more at a known frame than a path can gain. After a mark the path goes on in
    a second set of nodes, which is entered from other states only.
    """
    kinds, count = rows.shape
    against = 4.0 * float(np.abs(rows).sum(axis=1).max()) + 4 * cost + 1.0
    bound = rows.copy()
    known = np.flatnonzero(facts.labels >= 0)
    bound[:, known] -= against
    bound[facts.labels[known], known] += against
    if len(facts.marks):
        later = np.searchsorted(facts.marks, np.arange(count), side="right") % 2 == 1
        bound = np.concatenate([bound - against * later, bound - against * ~later])
        nodes = labelling.Nodes(
            np.concatenate([nodes.state, nodes.state + kinds]),
            np.concatenate([nodes.first, np.zeros_like(nodes.first)]),
            np.ascontiguousarray(np.tile(nodes.follows, (2, 2))),
        )
    labels: Ints = engine.label(bound, nodes, cost, stay, 1)[0] % kinds
    unchanged = labels[facts.marks - 1] == labels[facts.marks]
    if (labels[known] != facts.labels[known]).any() or unchanged.any():
        raise InputError(
            "no timeline has all frames and changes that were named; remove one that is wrong, or "
            "the order, irreversible or stay that they do not fit"
        )
    return labels
