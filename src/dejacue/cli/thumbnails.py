"""Small pictures of what was looked at, with the object outlined, kept beside its history."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.report.contact import grown
from dejacue.sources.build import Lineage
from dejacue.sources.masks import Masks
from dejacue.sources.npz import read_npz, write_npz
from dejacue.sources.video import Frame

MOST, WIDTH = 12, 192
LINE = 3  # pixels; thumbnails are shown smaller still
INSIDE, OUTSIDE = (0, 255, 255), (0, 0, 0)  # of the outline: a colour that few things have
OF = "made_of"
Pictures = dict[int, bytes]  # frame → JPEG


class Watched:
    """Masks that keep a few small pictures of what they are asked for, evenly over the video."""

    def __init__(self, masks: Masks) -> None:
        self.key, self.path, self._masks = masks.key, masks.path, masks
        self.check_matched = masks.check_matched
        self._kept: dict[int, list[bytes]] = {}
        self._step = 1

    def unions(self, frame: Frame, lineages: Sequence[Lineage]) -> list[NDArray[np.bool_] | None]:
        found = self._masks.unions(frame, lineages)
        if frame.index % self._step == 0:
            self._kept[frame.index] = [thumbnail(frame.image, mask) for mask in found]
            if len(self._kept) > 4 * MOST:  # the length need not be known
                self._step *= 2
                self._kept = {k: v for k, v in self._kept.items() if k % self._step == 0}
        return found

    @property
    def problems(self) -> list[str]:
        return self._masks.problems

    def pictures(self, at: int) -> Pictures:
        """At most MOST of them, with the object of this place among the lineages."""
        every = list(self._kept.items())
        count = min(MOST, len(every))
        chosen = (every[k * len(every) // count] for k in range(count))
        return {frame: own[at] for frame, own in chosen}


def thumbnail(image: NDArray[np.uint8], mask: NDArray[np.bool_] | None) -> bytes:
    """The whole frame as a small JPEG, with a line around the object."""
    from PIL import Image

    height, width = image.shape[:2]
    size = (WIDTH, max(1, round(height * WIDTH / width)))
    pixels = np.array(Image.fromarray(image).resize(size, reducing_gap=2.0))
    if mask is not None:
        covered = Image.fromarray(255 * mask.astype(np.uint8)).resize(size, Image.Resampling.BOX)
        object = np.asarray(covered) > 0
        line = grown(object, LINE)
        pixels[grown(line) & ~line] = OUTSIDE
        pixels[line & ~object] = INSIDE
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=85, subsampling=0)
    return stream.getvalue()


def write_pictures(path: Path, pictures: Pictures, of: Mapping[str, str]) -> None:
    rows = {str(frame): np.frombuffer(data, np.uint8) for frame, data in pictures.items()}
    write_npz(path, {OF: json.dumps(dict(of)), **rows})


def read_pictures(path: Path, of: Mapping[str, str]) -> Pictures | None:
    """Those in a file, if they are of the same video, masks and object; None: make them again."""
    try:
        arrays = read_npz(path)
        if json.loads(str(arrays.pop(OF))) != dict(of):
            return None
        return {int(frame): data.tobytes() for frame, data in arrays.items()}
    except (InputError, KeyError, ValueError):
        return None
