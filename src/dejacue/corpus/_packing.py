"""Histories as a store keeps them, and back: rows of features, and columns of the index."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dejacue.corpus._index import REMEDY
from dejacue.errors import InputError, shortened
from dejacue.records import History
from dejacue.records.fields import MAX_FRAME
from dejacue.records.history import COLUMNS

ROWS_AT_A_TIME = 1024
FLOAT16_NORMS = (0.1, 1000.0)  # lengths of rows that float16 holds well
SAME_AS_FRAMES = b""  # stored source_frames that equal the frames


class PackedHistory(NamedTuple):
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


NAMES = ", ".join(PackedHistory._fields)


def packed(history: History, object: str | None, source: str | None) -> PackedHistory:
    """Pack a history; what an export has put into made_with is a column again."""
    made_with = dict(history.made_with or {})
    exported = made_with.pop("object", None), made_with.pop("source", None)
    as_it_was = exported == (None, None) and history.made_with is not None
    source_frames = _bytes(history.source_frames, "<i8")
    if history.source_frames is not None and (history.source_frames == history.frames).all():
        source_frames = SAME_AS_FRAMES
    starts = history.frames[history.run_offsets[:-1]]
    runs = np.stack([starts, np.diff(history.run_offsets)], axis=1)
    return PackedHistory(
        history.id,
        exported[0] if object is None else object,
        exported[1] if source is None else source,
        history.frame_interval_s,
        json.dumps(made_with) if made_with or as_it_was else None,
        runs.astype("<i8", copy=False).tobytes(),
        _bytes(history.times_s, "<f8"),
        source_frames,
        _bytes(history.presence, "<f8"),
    )


def unpacked(store: Path, entry: PackedHistory, rows: NDArray[Any], encoder: str | None) -> History:
    """Return the history of these rows. They were checked when it was added; only what could reach
    beyond a file is checked again."""
    try:
        frames, offsets = _frames(entry.runs, len(rows))
        columns = {
            "times_s": _array(entry.times_s, "<f8", len(rows)),
            "source_frames": _array(entry.source_frames, "<i8", len(rows)),
            "presence": _array(entry.presence, "<f8", len(rows)),
        }
        if entry.source_frames == SAME_AS_FRAMES:
            columns["source_frames"] = frames
        if entry.interval_s is not None and not 0 < entry.interval_s < math.inf:
            raise ValueError
        if not isinstance(entry.id, str):
            raise ValueError
        if not isinstance(entry.object, str | None) or not isinstance(entry.source, str | None):
            raise ValueError
    except (ValueError, TypeError):
        raise _damaged(store, entry.id) from None
    made_with = entry.made_with
    return History.trusted(
        features=rows,
        frames=frames,
        run_offsets=offsets,
        id=entry.id,
        encoder=encoder,
        **columns,
        frame_interval_s=entry.interval_s,
        made_with=None if made_with is None else read_made_with(store, entry.id, made_with),
    )


def _damaged(store: Path, id: object) -> InputError:
    problem = f'the index entry of history "{shortened(str(id))}" is damaged'
    return InputError(f"{store}: {problem}; {REMEDY}")


def _frames(data: bytes, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return frames and where their runs begin; ValueError where they are not so many."""
    if len(data) == 16:  # a single run, as most are
        first, length = struct.unpack("<2q", data)
        if length != count or abs(first) > MAX_FRAME:
            raise ValueError
        frames, offsets = np.arange(first, first + count), np.array([0, count])
    else:
        runs = np.frombuffer(data, "<i8").reshape(-1, 2)
        offsets = np.zeros(len(runs) + 1, np.int64)
        runs[:, 1].cumsum(out=offsets[1:])
        if offsets[-1] != count or (runs[:, 1] < 1).any():
            raise ValueError
        if (runs != runs.clip(-MAX_FRAME, MAX_FRAME)).any():
            raise ValueError
        if (runs[1:, 0] < runs[:-1].sum(axis=1)).any():
            raise ValueError
        frames = (runs[:, 0] - offsets[:-1]).repeat(runs[:, 1])
        frames += np.arange(count)
    frames.flags.writeable = offsets.flags.writeable = False
    return frames, offsets


def _bytes(values: NDArray[Any] | None, dtype: str) -> bytes | None:
    return None if values is None else values.astype(dtype, copy=False).tobytes()


def _array(data: bytes | None, dtype: str, count: int) -> NDArray[Any] | None:
    values = np.frombuffer(data, dtype) if data else None
    if values is not None and len(values) != count:
        raise ValueError
    return values


def stored_rows(
    features: NDArray[Any], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return the rows in the type of the store, and their mean direction.

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
            safe = (norms > FLOAT16_NORMS[0]) & (norms < FLOAT16_NORMS[1])
            rows[part] = block if safe.all() else block / np.where(safe, 1, norms)[:, None]
    mean /= len(features)
    return rows, mean


def _wide(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows as float32. Finite float16 are moved bit by bit, which is exact and several times
    faster than astype: sign, exponent and fraction to their places, then 2^(127 − 15) for the other
    bias."""
    if rows.dtype != np.float16:
        return rows.astype(np.float32, copy=False)
    bits = rows.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70002000)
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


def checksum(rows: NDArray[Any], mean: NDArray[np.float32], columns: Sequence[object]) -> int:
    """Return the CRC-32 of all that is kept of a history."""
    crc = zlib.crc32(mean.data, zlib.crc32(rows.data))
    for value in columns:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
        crc = zlib.crc32(data, crc)
    return crc


def read_made_with(store: Path, id: str, text: str | None) -> dict[str, str]:
    try:
        made_with = json.loads(text or "{}")
        if isinstance(made_with, dict) and all(isinstance(v, str) for v in made_with.values()):
            return made_with
    except (TypeError, ValueError, RecursionError):
        pass
    raise _damaged(store, id)


def manifest_columns(store: Path, id: str, text: str | None) -> dict[str, str]:
    """Return the values in ``made_with`` that are columns of a manifest: {"camera": "left"}."""
    if not isinstance(text, str) or f'"{COLUMNS}"' not in text:  # most have none
        return {}
    made_with = read_made_with(store, id, text)
    names = made_with.get(COLUMNS, "").split("\n")
    return {name: made_with[name] for name in names if name in made_with}
