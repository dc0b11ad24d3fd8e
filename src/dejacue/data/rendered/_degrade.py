"""What a camera and a tracker do to a scene: light, blur, noise, blocks; and wrong masks."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MASK_NOISES = ("erode", "dilate", "drift", "switch")
BANK = 64  # spare rows and columns of the noise, to start elsewhere in every frame


@dataclass(frozen=True, eq=False)
class Lens:
    """Light falloff, blur, grain and compression; levels from 0 (none) to 1."""

    falloff: NDArray[np.float32]  # (H, W, 1), about 1
    grain: NDArray[np.float32]  # (H + BANK, W + BANK, 3)
    starts: NDArray[np.int64]  # (frames, 2), where in the grain a frame begins
    blur: float
    blocks: float

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        frames: int,
        size: tuple[int, int],
        lighting: float,
        noise: float,
        blur: float,
        blocks: float,
    ) -> Lens:
        height, width = size
        across = np.linspace(-1, 1, width)[None] * np.cos(turn := rng.uniform(0, 2 * np.pi))
        down = np.linspace(-1, 1, height)[:, None] * np.sin(turn)
        grain = rng.standard_normal((height + BANK, width + BANK, 3), np.float32)
        return cls(
            (1 + 0.18 * lighting * (across + down)).astype(np.float32)[:, :, None],
            grain * np.float32(24 * noise),
            rng.integers(0, BANK, size=(frames, 2)),
            2.2 * blur,
            blocks,
        )

    def expose(
        self, image: NDArray[np.uint8], frame: int, gains: NDArray[np.float64]
    ) -> NDArray[np.uint8]:
        """The frame as it is recorded."""
        height, width = image.shape[:2]
        if self.blur:
            image = _blurred(image, self.blur)
        y, x = self.starts[frame]
        light = image.astype(np.float32)
        light *= self.falloff * gains.astype(np.float32)
        light += self.grain[y : y + height, x : x + width]
        np.clip(light, 0, 255, out=light)
        recorded = light.astype(np.uint8)
        return _compressed(recorded, self.blocks) if self.blocks else recorded


def _blurred(image: NDArray[np.uint8], radius: float) -> NDArray[np.uint8]:
    from PIL import Image, ImageFilter

    return np.asarray(Image.fromarray(image).filter(ImageFilter.BoxBlur(radius)))


def _compressed(image: NDArray[np.uint8], level: float) -> NDArray[np.uint8]:
    """Through JPEG and back."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=round(60 - 54 * level))
    return np.array(Image.open(stream))


@dataclass(frozen=True)
class MaskNoise:
    """How the given mask of the target differs from the true one.

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
        """Rows and columns by which the mask has drifted."""
        if self.kind != "drift":
            return 0, 0
        reach = self.pixels * frame / max(self.frames - 1, 1)
        return round(reach * np.sin(self.angle)), round(reach * np.cos(self.angle))

    def __call__(self, labels: NDArray[np.uint8], frame: int) -> NDArray[np.uint8]:
        """The given labels; those of the distractors stay where the target's do not go."""
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
        given = np.where(target, 0, labels).astype(np.uint8)
        given[moved] = 1
        return given


def grown(mask: NDArray[np.bool_], pixels: int) -> NDArray[np.bool_]:
    """Every pixel within a square of this radius around the mask."""
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
    """Shifted; what leaves the frame is lost."""
    height, width = mask.shape
    out = np.zeros_like(mask)
    if abs(down) < height and abs(right) < width:
        out[max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = mask[
            max(-down, 0) : height + min(-down, 0), max(-right, 0) : width + min(-right, 0)
        ]
    return out
