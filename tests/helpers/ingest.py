"""Make small videos and an encoder that counts its crops; read what a store contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dejacue import Store
from dejacue.models.encoders.base import ImageEncoder
from dejacue.video.video import write_video

FRAMES = 40


class Counting(ImageEncoder):
    """Return mean colours of quarters, and count the crops in the length of a file.

    mixing   a crop has other last bits beside other crops, as with real models
    """

    name = identity = "counting"
    dimension, size, batch = 12, 16, 8

    def __init__(self, counter: Path, mixing: bool = False) -> None:
        self.details = {"backend": "none", "precision": "fp32", "mixing": str(mixing)}
        self._counter, self._mixing = counter, mixing

    def encode_images(self, crops: Any) -> Any:
        half = self.size // 2
        quarters = np.stack(crops).reshape(len(crops), 2, half, 2, half, 3)
        rows = quarters.mean(axis=(2, 4)).reshape(len(crops), -1).astype(np.float32) + 1
        if self._mixing:
            rows += np.float32(1e-4) * np.arange(len(crops), dtype=np.float32)[:, None]
        with open(self._counter, "ab", buffering=0) as out:
            out.write(b"." * len(crops))
        return rows

    @property
    def count(self) -> int:
        return self._counter.stat().st_size if self._counter.exists() else 0


def make_video(folder: Path, name: str, seed: int = 0, frames: int = FRAMES) -> dict[str, str]:
    """Write a small video of noise and masks of two objects; the second comes later."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (frames, 32, 48, 3), np.uint8)
    write_video(folder / f"{name}.mp4", images, 10)
    masks = np.zeros((frames, 32, 48), np.uint8)
    masks[:, 4:20, 4:20] = 1
    masks[frames // 2 :, 10:30, 25:45] = 2
    np.savez(folder / f"{name}.masks.npz", masks=masks)
    return {"video": str(folder / f"{name}.mp4"), "masks": str(folder / f"{name}.masks.npz")}


def features_by_id(path: Path) -> dict[str, bytes]:
    """Return the features of every history in a sound store."""
    with Store.open(path) as store:
        assert store.verify() == []
        assert len(store) == len(set(store.ids()))
        return {id: store[id].features.tobytes() for id in store.ids()}
