"""Degrade a frame with blur and compression blocks, and masks as a bad tracker does."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MASK_NOISES = ("erode", "dilate", "drift", "switch")


def blurred(image: NDArray[np.uint8], radius: float) -> NDArray[np.uint8]:
    from PIL import Image, ImageFilter

    return np.asarray(Image.fromarray(image).filter(ImageFilter.BoxBlur(radius)))


def compressed(image: NDArray[np.uint8], level: float) -> NDArray[np.uint8]:
    """Encode as JPEG and decode again."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=round(60 - 54 * level))
    return np.array(Image.open(stream, formats=["JPEG"]))


@dataclass(frozen=True)
class MaskNoise:
    """Settings that say how the noisy mask of the target differs from the true one.

    erode, dilate   by ``pixels`` in every frame
    drift           it slides off, by ``pixels`` in the last frame, in the direction ``angle``
    switch          from frame ``after`` on it is the mask of the first distractor
    """

    kind: str
    pixels: int
    angle: float
    after: int
    frames: int

    @classmethod
    def draw(
        cls, rng: np.random.Generator, kind: str, level: float, frames: int, side: int
    ) -> MaskNoise:
        full = {"erode": 8, "dilate": 16, "drift": 48}.get(kind, 0)  # on frames of 144 pixels
        return cls(
            kind,
            round(full * level * side / 144),
            rng.uniform(0, 2 * np.pi),
            round((1 - level) * frames),
            frames,
        )

    def shift(self, frame: int) -> tuple[int, int]:
        """Return the rows and columns by which the mask has drifted."""
        if self.kind != "drift":
            return 0, 0
        reach = self.pixels * frame / max(self.frames - 1, 1)
        return round(reach * np.sin(self.angle)), round(reach * np.cos(self.angle))

    def __call__(self, labels: NDArray[np.uint8], frame: int) -> NDArray[np.uint8]:
        """Return the noisy labels; those of the distractors stay where the target's do not go."""
        target = labels == 1
        if self.kind == "switch":
            if frame < self.after:
                return labels
            moved = labels == 2
        elif self.kind == "drift":
            moved = _moved(target, *self.shift(frame))
        elif self.kind == "dilate":
            moved = grown(target, self.pixels)
        else:
            moved = ~grown(~target, self.pixels) & target
        noisy = np.where(target, 0, labels).astype(np.uint8)
        noisy[moved] = 1
        return noisy


def grown(mask: NDArray[np.bool_], pixels: int) -> NDArray[np.bool_]:
    """Return every pixel within a square of this radius around the mask."""
    out = mask.copy()
    for axis in (0, 1):
        source = out.copy()
        for step in range(1, min(pixels, mask.shape[axis] - 1) + 1):
            if axis == 0:
                out[step:] |= source[:-step]
                out[:-step] |= source[step:]
            else:
                out[:, step:] |= source[:, :-step]
                out[:, :-step] |= source[:, step:]
    return out


def _moved(mask: NDArray[np.bool_], down: int, right: int) -> NDArray[np.bool_]:
    """Shift a mask; what leaves the frame is lost."""
    height, width = mask.shape
    out = np.zeros_like(mask)
    if abs(down) < height and abs(right) < width:
        out[max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = mask[
            max(-down, 0) : height + min(-down, 0), max(-right, 0) : width + min(-right, 0)
        ]
    return out
