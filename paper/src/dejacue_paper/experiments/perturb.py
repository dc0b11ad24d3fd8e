"""Histories made worse on purpose: frames lost, features mixed, identity switched, shifted.

Every function takes its random generator; ``seeded`` makes the published one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dejacue.records import History
from dejacue_paper.data.release import ReleaseEntry


def seeded(seed: int, condition: str, group: str) -> np.random.Generator:
    """Return a generator whose seed is the first 8 bytes of sha256("{seed}\\0{condition}\\0{object
    group}"), big-endian."""
    digest = hashlib.sha256(f"{seed}\0{condition}\0{group}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def keep(history: History, observed: NDArray[np.bool_]) -> History:
    return replace(history, features=history.features[observed], frames=history.frames[observed])


def drop_frames(entry: ReleaseEntry, rng: np.random.Generator, rate: float) -> History:
    """Drop round(rate · N) frames, any of them."""
    count = len(entry.history)
    observed = np.ones(count, bool)
    observed[rng.choice(count, size=round(rate * count), replace=False)] = False
    return keep(entry.history, observed)


def drop_span(entry: ReleaseEntry, rng: np.random.Generator, fraction: float) -> History:
    """Drop one stretch of round(fraction · span) frame indices that touches neither end."""
    frames = entry.history.frames
    span = int(frames[-1] - frames[0]) + 1
    length = round(fraction * span)
    start = int(frames[0]) + int(rng.integers(1, span - length))
    return keep(entry.history, (frames < start) | (frames >= start + length))


def mix_tracks(entry: ReleaseEntry, rng: np.random.Generator, rate: float, share: float) -> History:
    """Draw frames among those that another track shares; each takes ``share`` of that track.

    Then, frame by frame in order, one of the tracks present there, in the order of their ids.
    """
    history = entry.history
    tracks = sorted(entry.tracks, key=lambda track: track.id)
    present = np.array([np.isin(history.frames, t.history.frames) for t in tracks])
    shared = np.flatnonzero(present.any(axis=0))
    chosen = np.sort(rng.choice(shared, size=round(rate * len(shared)), replace=False))
    rows = []
    for at in chosen:
        track = tracks[int(rng.choice(np.flatnonzero(present[:, at])))].history
        rows.append(track.features[np.searchsorted(track.frames, history.frames[at])])
    features = history.features.astype(np.float32)
    features[chosen] = unit((1 - share) * unit(features[chosen]) + share * unit(np.array(rows)))
    return replace(history, features=features)


def switch_identity(entry: ReleaseEntry, fraction: float) -> History | None:
    """Let the track with the longest overlap take over after ``fraction`` of the frames. Return
    None where no track shares a frame with that part.

    None where no track shares a frame with that part.
    """
    history = entry.history
    switch = history.frames[int(fraction * len(history))]
    suffix = history.frames[history.frames >= switch]
    intruder: History | None = None
    taken = suffix[:0]
    for track in sorted(entry.tracks, key=lambda track: track.id):
        shared = np.intersect1d(suffix, track.history.frames)
        if len(shared) > len(taken):
            intruder, taken = track.history, shared
    if intruder is None:
        return None
    features = history.features.astype(np.float32)
    rows = np.searchsorted(history.frames, taken)
    features[rows] = intruder.features[np.searchsorted(intruder.frames, taken)]
    return replace(history, features=features)


def unit(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    wide: NDArray[np.float64] = rows.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return wide


def shift_order(history: History, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return positions after rolling every run of more than one frame by a random, non-zero
    offset."""
    order = np.arange(len(history))
    for first, last in zip(history.run_offsets[:-1], history.run_offsets[1:], strict=True):
        if last - first > 1:
            offset = int(rng.integers(1, last - first))
            order[first:last] = np.roll(order[first:last], offset)
    return order
