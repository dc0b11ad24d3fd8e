"""Crop and resize of real footage against a plain loop: ``python benchmarks/crops.py [FOLDER]``.

FOLDER holds JPEGImages and Annotations in VOST's layout (default: DEJACUE_FOOTAGE). The plain
loop finds the box with argwhere, masks the whole frame with numpy.where, and crops and resizes with
Pillow. One thread each; the sides take turns, and the best of several rounds counts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from _common import FOOTAGE, Parser, best, sequences
from PIL import Image

from dejacue import open_masks, open_video
from dejacue.video.crops import crop, fit, picture

SIZE = 224


def plain(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    inside = np.argwhere(mask)
    (y0, x0), (y1, x1) = inside.min(axis=0), inside.max(axis=0) + 1
    margin = max(4, round(0.20 * max(y1 - y0, x1 - x0)))
    masked = np.where(mask[..., None], image, 127).astype(np.uint8)
    height, width = mask.shape
    box = (
        max(0, x0 - margin),
        max(0, y0 - margin),
        min(width, x1 + margin),
        min(height, y1 + margin),
    )
    return np.asarray(
        Image.fromarray(masked).crop(box).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    )


def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOOTAGE)
    options = parser.parse_args()
    print(f"{'sequence':28} {'plain':>9} {'crop + fit':>11} {'compiled':>9}   ratio")
    for sequence in sequences(options.folder, options):
        masks = open_masks(options.folder / "Annotations" / sequence.name)
        pairs = []
        for frame in open_video(sequence):
            mask = masks.unions(frame, [None])[0]
            if mask is not None:
                pairs.append((frame.image, mask))
        sides = (
            lambda: [plain(image, mask) for image, mask in pairs],
            lambda: [fit(crop(image, mask), SIZE) for image, mask in pairs],
            lambda: [picture(image, mask, SIZE) for image, mask in pairs],
        )
        times = best(sides, rounds=15, seconds=0.0 if options.smoke else 1.0)
        a, b, c = (1e3 * time_s / len(pairs) for time_s in times)
        print(f"{sequence.name:28} {a:6.2f} ms {b:8.2f} ms {c:6.3f} ms   {a / c:.1f}x")


if __name__ == "__main__":
    main()
