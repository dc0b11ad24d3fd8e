"""Parts of PNG files for the tests of the compiled reader."""

from __future__ import annotations

import struct
import zlib

import numpy as np


def chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )


def flat(height: int, width: int, seed: int) -> np.ndarray:
    """Draw blobs and noise: runs, copies from the row above, and single numbers."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((height, width), np.uint8)
    for _ in range(rng.integers(0, 5)):
        y, x = rng.integers(height), rng.integers(width)
        rows[y : y + rng.integers(1, 40), x : x + rng.integers(1, 400)] = rng.integers(256)
    noisy = rng.random(rows.shape) < rng.choice([0, 0.01, 0.5])
    rows[noisy] = rng.integers(0, 256, noisy.sum())
    return rows
