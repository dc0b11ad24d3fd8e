"""How well a box that stays where it is fits: ``python benchmarks/boxes.py [FOLDER]``.

FOLDER is in VOST's layout (``JPEGImages``, ``Annotations``; default: DEJACUE_FOOTAGE). Each
sequence is followed from the box around its masks in frame ``--first``, by a box that stays and,
where OpenCV is installed (``pip install opencv-contrib-python-headless``; dejacue does not need
it), by those of its trackers that need no weights. The table has the mean overlap (IoU) with the
box around the masks, over the later frames in which there are any, over the first ten of them, and
the frames per second.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from _common import FOOTAGE, Parser, sequences
from rich.console import Console
from rich.table import Table

from dejacue.masks import open_masks
from dejacue.video.video import open_video

Box = tuple[float, float, float, float]
Follow = Callable[[list[np.ndarray], Box], Iterator[Box | None]]
OPENCV = ("CSRT", "KCF", "MIL")


def around(mask: np.ndarray | None) -> Box | None:
    if mask is None or not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def overlap(first: Box | None, other: Box) -> float:
    if first is None:
        return 0.0
    width = min(first[2], other[2]) - max(first[0], other[0])
    height = min(first[3], other[3]) - max(first[1], other[1])
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, other)]
    return common / (sum(areas) - common)


def fixed(images: list[np.ndarray], box: Box) -> Iterator[Box | None]:
    yield from itertools.repeat(box, len(images))


def opencv(name: str) -> Follow:
    import cv2

    def follow(images: list[np.ndarray], box: Box) -> Iterator[Box | None]:
        tracker = getattr(cv2, f"Tracker{name}_create")()
        x0, y0, x1, y1 = map(int, box)
        tracker.init(images[0][..., ::-1].copy(), (x0, y0, x1 - x0, y1 - y0))
        yield box
        for image in images[1:]:
            there, (x, y, width, height) = tracker.update(image[..., ::-1].copy())
            yield (x, y, x + width, y + height) if there else None

    return follow


def methods() -> dict[str, Follow]:
    trackers: dict[str, Follow] = {"fixed box": fixed}
    try:
        trackers |= {f"OpenCV {name}": opencv(name) for name in OPENCV}
    except ImportError:
        print("OpenCV is not installed: measuring only the box that stays")
    return trackers


def measure(folder: Path, first: int, table: Table) -> dict[str, float]:
    """Add a row for each tracker, and return the mean overlap of each."""
    masks = open_masks(folder.parents[1] / "Annotations" / folder.name)
    images, boxes = [], []
    for frame in open_video(folder, start=first):
        images.append(frame.image)
        boxes.append(around(masks.unions(frame, [None])[0]))
    if boxes[0] is None:
        raise SystemExit(f"{folder}: no mask in frame {first}; give another --first")
    means = {}
    for name, follow in methods().items():
        start = time.perf_counter()
        followed = list(follow(images, boxes[0]))
        seconds = time.perf_counter() - start
        pairs = zip(followed[1:], boxes[1:], strict=True)
        fits = [overlap(box, true) for box, true in pairs if true is not None]
        means[name] = float(np.mean(fits))
        values = (f"{means[name]:.2f}", f"{np.mean(fits[:10]):.2f}", f"{len(images) / seconds:.0f}")
        table.add_row(folder.name, name, *values)
    return means


def main() -> None:
    parser = Parser(__doc__, first=1)
    parser.add_argument("folder", type=Path, nargs="?", default=FOOTAGE)
    parser.add_argument("--first", type=int, default=0, help="frame that shows the object")
    options = parser.parse_args()
    table = Table("sequence", "tracker", "box IoU", "first 10 frames", "frames/s")
    boxes = [
        measure(sequence, options.first, table) for sequence in sequences(options.folder, options)
    ]
    table.add_section()
    for name in boxes[0]:
        table.add_row("mean", name, f"{np.mean([row[name] for row in boxes]):.2f}", "", "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
