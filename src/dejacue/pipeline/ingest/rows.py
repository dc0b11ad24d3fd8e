"""Chunks of crops → rows of features → the histories of an item."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.pipeline.ingest.crops import Chunk, End, Look
from dejacue.records import History
from dejacue.sources.build import Partial
from dejacue.sources.encoders import Encoder

Rows = NDArray[np.float32]


def encode_chunk(encoder: Encoder, chunk: Chunk) -> Rows:
    """A row for each crop, in the encoder's own batches."""
    crops = list(chunk.crops)
    firsts = range(0, len(crops), encoder.batch)
    return np.concatenate([encoder.encode_images(crops[at : at + encoder.batch]) for at in firsts])


def partial_files(path: str | os.PathLike[str]) -> list[Path]:
    """Those that keep rows of an item: this one and, of an engine that keeps each batch in its own,
    those whose names go on with a number."""
    own = Path(path)
    return sorted(own.parent.glob(f"{own.name}*")) if own.parent.is_dir() else []


def kept_rows(path: str | os.PathLike[str], look: Look) -> dict[bytes, Rows]:
    """What is in these files."""
    found: dict[bytes, Rows] = {}
    for own in partial_files(path):
        found |= Partial(own, look).rows  # type: ignore[arg-type]
    return found


class Gathered:
    """What is known of an item so far: its chunks without their crops, and rows by key.

    partial   a file that keeps the rows, from which a later run takes them; None: memory only
    """

    def __init__(self, look: Look, partial: str | os.PathLike[str] | None = None) -> None:
        self._look = look
        self.problem: str | None = None  # why no history can be made of it
        self.known = Partial(partial, look)  # type: ignore[arg-type]
        if partial is not None:
            self.known.add(kept_rows(partial, look))
        self._chunks: list[Chunk] = []

    def see(self, chunk: Chunk) -> None:
        self._chunks.append(replace(chunk, crops=chunk.crops[:0]))

    def add(self, rows: Mapping[bytes, Rows]) -> None:
        self.known.add(rows)

    def take(self, chunk: Chunk, rows: Rows) -> None:
        """A chunk and all of its rows."""
        self.see(chunk)
        self.add(dict(zip(keys_of(chunk), rows, strict=True)))

    def histories(self, end: End) -> list[History]:
        """Of those objects that were visible."""
        if not self._chunks:
            return []
        names = ("keys", "which", "frames", "sources", "times")
        keys, which, frames, sources, times = (
            np.concatenate([getattr(own, name) for own in self._chunks]) for name in names
        )
        made = []
        for at, id in enumerate(end.ids):
            own = np.flatnonzero(which == at)
            if not own.size:
                continue
            presence = end.presence.get(id, {})
            sure = None
            if all(source in presence for source in sources[own].tolist()):
                sure = np.array([presence[source] for source in sources[own].tolist()])
            made.append(
                History(
                    np.stack([self.known[keys[k].tobytes()] for k in own]),
                    frames[own],
                    id,
                    self._look.identity,
                    None if np.isnan(times[own]).any() else times[own],
                    sources[own],
                    sure,
                    end.made[id],
                )
            )
        return made

    def close(self) -> None:
        """Its file stays for a later run."""
        self.known.__exit__()


def keys_of(chunk: Chunk) -> list[bytes]:
    return [own.tobytes() for own in chunk.keys]


def depends_on_batch(encoder: Encoder) -> bool:
    """Whether a crop has other last bits beside other crops, as far as a few batches tell: then
    batches are made of one video each, as ``encode`` makes them."""
    noise = np.random.default_rng(0)
    shape = (encoder.size, encoder.size, 3)
    crops = list(noise.integers(0, 256, (max(2, encoder.batch), *shape), np.uint8))
    alone, pair = encoder.encode_images(crops[:1]), encoder.encode_images(crops[1::-1])
    if not np.array_equal(alone[0], pair[1]):
        return True
    full = encoder.encode_images(crops)
    part = encoder.encode_images(crops[len(crops) // 3 :: -1])[::-1]
    return not (np.array_equal(full[0], alone[0]) and np.array_equal(full[: len(part)], part))
