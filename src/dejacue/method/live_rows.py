"""LiveRows: the frames that a live reading keeps; and those put before them to calibrate it."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.method.announced import NOISE_S
from dejacue.method.known_frames import Smoothing
from dejacue.records import History
from dejacue.records.arrays import Floats, Ints

RATE = 5.0  # frames that count as a second, without times
UNKNOWN = -1  # the label of a frame that was not read yet
INTEGERS = ("frame", "source", "label", "since")  # since: where its stretch began, kept or not
NUMBERS = ("seconds", "since_s", "weight")  # sums ÷ weight: the smoothed cosines


class LiveRows:
    """Observed frames, the oldest first; ``table`` has a row for each of the ``features``.

    directions   (R, d) of the states
    horizon_s    seconds that are kept; None: everything

    >>> rows = LiveRows(np.eye(2, dtype=np.float32), horizon_s=1.0)
    >>> for frame in range(9):
    ...     rows.append(np.array([3, 4], np.float32), frame, None, frame)
    >>> rows.table["frame"].tolist(), rows.table["cosines"][-1].astype(float).round(3).tolist()
    ([4, 5, 6, 7, 8], [0.6, 0.8])
    """

    def __init__(self, directions: NDArray[np.float32], horizon_s: float | None) -> None:
        self._directions, self._horizon_s, self._timed = directions, horizon_s, False
        self.features: deque[NDArray[Any]] = deque()
        columns: list[Any] = [(name, np.int64) for name in INTEGERS]
        columns += [(name, np.float64) for name in NUMBERS]
        states = len(directions)
        columns += [("cosines", np.float32, states), ("sums", np.float64, states)]
        self.table = np.empty(0, columns)

    def append(self, row: NDArray[Any], frame: int, time_s: float | None, source: int) -> None:
        """Add a frame, and forget what is older than the horizon."""
        table, old, self._timed = self.table, 0, time_s is not None
        seconds = frame / RATE if time_s is None else time_s
        if self._horizon_s is not None:
            old = int(np.searchsorted(table["seconds"], seconds - self._horizon_s + NOISE_S))
        wide, new = row.astype(np.float32), np.zeros(1, table.dtype)
        new["cosines"] = self._directions @ wide / np.linalg.norm(wide)
        new["frame"], new["source"], new["seconds"], new["label"] = frame, source, seconds, UNKNOWN
        self.table = np.concatenate([table[old:], new])
        for _ in range(old):
            self.features.popleft()
        self.features.append(row)

    def history(self, features: NDArray[Any], id: str = "live", **about: Any) -> History:
        """Return the kept frames with these features."""
        frames, source, seconds = (self.table[name] for name in ("frame", "source", "seconds"))
        times_s = seconds if self._timed else None
        numbers = None if np.array_equal(source, frames) else source
        return History(features, frames, id, times_s=times_s, source_frames=numbers, **about)

    def smooth(self, smoothing: Smoothing) -> None:
        """Add the last frame to the sums of those that it is a neighbour of, and these to its."""
        (cuts, weights), frames = smoothing, self.table["frame"]
        first = max(int(np.searchsorted(frames, frames[-1] - len(weights) + 1)), int(cuts[-2]))
        near, last = self.table[first:], self.table[-1]
        share: Floats = weights[frames[-1] - frames[first:]]
        last["sums"], last["weight"] = share[:-1] @ near["cosines"][:-1], share[:-1].sum()
        near["sums"] += share[:, None] * last["cosines"]
        near["weight"] += share

    def label(self, labels: Ints, cuts: Ints) -> Ints:
        """Take labels, and return those before; cuts: positions at which a stretch begins."""
        table, was = self.table, self.table["label"].copy()
        edge = table[["since", "since_s"]][0].copy()
        begins = np.union1d(np.flatnonzero(np.diff(labels)) + 1, cuts)
        begin = begins[np.searchsorted(begins, np.arange(len(labels)), side="right") - 1]
        table["label"] = labels
        table["since"], table["since_s"] = table["frame"][begin], table["seconds"][begin]
        if was[0] == labels[0]:  # the first stretch may begin before what is kept
            table["since"][begin == 0], table["since_s"][begin == 0] = edge
        return was


def supposed(means: Floats, frames: int) -> tuple[Floats, Ints]:
    """Return smoothed cosines (S, S · frames) and their labels: each state for so many frames, as
    far above the mean as the highest of these means, and all others below.

    >>> rows, labels = supposed(np.array([0.0, 0.4]), 2)
    >>> rows.round(1).tolist(), labels.tolist()
    ([[0.4, 0.4, 0.0, 0.0], [0.0, 0.0, 0.4, 0.4]], [0, 0, 1, 1])
    """
    count, level = len(means), means.mean()
    labels, rise = np.repeat(np.arange(count), frames), means.max() - level
    inside = labels == np.arange(count)[:, None]
    return np.where(inside, level + rise, level - rise / (count - 1)), labels


def levels(rows: Floats, labels: Ints) -> Floats:
    """Return half way between the means of each row inside its state and outside; 0 where one is
    empty. The rows have mean 0, and those after the labels are outside."""
    count, states = rows.shape[1], len(rows)
    inside = np.bincount(labels, minlength=states)
    total = np.bincount(labels, rows[labels, np.arange(len(labels))], states)
    both = (inside > 0) & (inside < count)
    apart = 1 / np.maximum(inside, 1) - 1 / np.maximum(count - inside, 1)
    halves: Floats = np.where(both, total * apart / 2, 0.0)
    return halves
