"""A video and its masks in memory."""

from __future__ import annotations

import numpy as np

from dejacue.video.video import Frame


class Still:
    """A video of coloured frames."""

    path = name = key = "still"
    problems, step = (), 1

    def __init__(self, frames: int = 10, stop: int | None = None) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (frames, 20, 30, 3), dtype=np.uint8)
        self.length, self.stop = frames, stop

    def lazy_frames(self):
        for k, image in enumerate(self.images):
            if k == self.stop:
                raise KeyboardInterrupt
            yield Frame(k, 2 * k, k / 5, None, image)


class Boxes:
    """Object 1 is gone in frames 4 and 5; object 2 is always there; object 9 never."""

    path = key = "boxes"
    problems, presence = (), {}

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def unions(self, frame, groups):
        masks = []
        for mask_ids in groups:
            mask = np.zeros((20, 30), bool)
            if mask_ids is None or 2 in mask_ids:
                mask[2:6, 3:9] = True
            if mask_ids is not None and 1 in mask_ids and frame.index not in (4, 5):
                mask[8:15, 10 + self.shift : 20] = True
            masks.append(mask if mask.any() else None)
        return masks

    def check_matched(self):
        pass
