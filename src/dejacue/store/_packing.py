"""A history as a store keeps it, and back: rows of features, and the columns of the index."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, shortened
from dejacue.records import History
from dejacue.records.history import MOST_FRAME
from dejacue.store._index import REMEDY

ROWS_AT_A_TIME = 1024
SAFE = (0.1, 1000.0)  # lengths of rows that float16 holds well
SAME = b""  # source_frames that are the frames


class Packed(NamedTuple):
    """Columns of the index; arrays as little-endian bytes, frames as pairs (first, count) of their
    runs."""

    id: str
    object: str | None
    source: str | None
    interval_s: float | None
    made_with: str | None
    runs: bytes
    times_s: bytes | None
    source_frames: bytes | None
    presence: bytes | None


NAMES = ", ".join(Packed._fields)


def packed(history: History, object: str | None, source: str | None) -> Packed:
    own, source_frames = history.source_frames, None
    if own is not None:
        source_frames = _bytes(own, "<i8") if (own != history.frames).any() else SAME
    made = None if history.made_with is None else json.dumps(dict(history.made_with))
    starts = history.frames[history.run_offsets[:-1]]
    runs = np.stack([starts, np.diff(history.run_offsets)], axis=1)
    return Packed(
        history.id,
        object,
        source,
        history.frame_interval_s,
        made,
        _bytes(runs, "<i8"),
        _optional(history.times_s, "<f8"),
        source_frames,
        _optional(history.presence, "<f8"),
    )


def unpacked(own: Packed, rows: NDArray[Any], encoder: str | None) -> History:
    """The history of these rows, without looking at them: they were checked when it was added.
    Only what could reach beyond a file is looked at."""
    try:
        frames, offsets = _frames(own.runs, len(rows))
        columns = {
            "times_s": _array(own.times_s, "<f8"),
            "source_frames": _array(own.source_frames, "<i8"),
            "presence": _array(own.presence, "<f8"),
            "made_with": None if own.made_with is None else json.loads(own.made_with),
        }
        if own.source_frames == SAME:
            columns["source_frames"] = frames
        for name in ("times_s", "source_frames", "presence"):
            if columns[name] is not None and len(columns[name]) != len(rows):
                raise ValueError
        if own.interval_s is not None and not 0 < own.interval_s < math.inf:
            raise ValueError
        if not isinstance(own.id, str) or not isinstance(columns["made_with"], dict | None):
            raise ValueError
    except (ValueError, TypeError):
        raise InputError(
            f'the index entry of history "{shortened(own.id)}" is damaged; {REMEDY}'
        ) from None
    return History.trusted(
        features=rows,
        frames=frames,
        run_offsets=offsets,
        id=own.id,
        encoder=encoder,
        **columns,
        frame_interval_s=own.interval_s,
    )


def _frames(data: bytes, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Frames and where their runs begin; ValueError where they are not so many."""
    if len(data) == 16:  # a single run, as most are
        first, length = struct.unpack("<2q", data)
        if length != count or abs(first) > MOST_FRAME:
            raise ValueError
        frames, offsets = np.arange(first, first + count), np.array([0, count])
    else:
        runs = np.frombuffer(data, "<i8").reshape(-1, 2)
        offsets = np.zeros(len(runs) + 1, np.int64)
        runs[:, 1].cumsum(out=offsets[1:])
        if offsets[-1] != count or (runs[:, 1] < 1).any():
            raise ValueError
        if (runs != runs.clip(-MOST_FRAME, MOST_FRAME)).any():
            raise ValueError
        if (runs[1:, 0] < runs[:-1].sum(axis=1)).any():
            raise ValueError
        frames = (runs[:, 0] - offsets[:-1]).repeat(runs[:, 1])
        frames += np.arange(count)
    frames.flags.writeable = offsets.flags.writeable = False
    return frames, offsets


def _bytes(values: NDArray[Any], dtype: str) -> bytes:
    return values.astype(dtype, copy=False).tobytes()


def _optional(values: NDArray[Any] | None, dtype: str) -> bytes | None:
    return None if values is None else _bytes(values, dtype)


def _array(data: bytes | None, dtype: str) -> Any:
    return np.frombuffer(data, dtype) if data else None


def stored_rows(
    features: NDArray[Any], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """The rows in the type of the store, and their mean direction.

    Rows that float16 would not hold are brought to unit length: only their direction matters.
    """
    rows: NDArray[Any] = features
    if features.dtype != dtype:
        rows = np.empty(features.shape, dtype)
    mean = np.zeros(features.shape[1], np.float32)
    for first in range(0, len(features), ROWS_AT_A_TIME):
        part = slice(first, first + ROWS_AT_A_TIME)
        block = _wide(features[part])
        norms = np.sqrt(np.einsum("nd,nd->n", block, block))
        mean += (1 / norms) @ block
        if rows is not features:
            safe = (norms > SAFE[0]) & (norms < SAFE[1])
            rows[part] = block if safe.all() else block / np.where(safe, 1, norms)[:, None]
    mean /= len(features)
    return rows, mean


def _wide(rows: NDArray[Any]) -> NDArray[np.float32]:
    """As float32. Finite float16 are moved bit by bit, which is exact and several times faster than
    astype: sign, exponent and fraction to their places, then 2^(127 − 15) for the other bias."""
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    found = bits.view(np.float32)
    found *= np.float32(2.0**112)
    return found


def checksum(rows: NDArray[Any], mean: NDArray[np.float32], own: Sequence[Any]) -> int:
    """CRC-32 of all that is kept of a history."""
    found = zlib.crc32(mean, zlib.crc32(rows))  # type: ignore[arg-type]
    for value in own:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
        found = zlib.crc32(data, found)
    return found
