"""COCO's run-length encoding and polygons; untrusted input is checked.

pycocotools leaves pixels undefined where the runs do not fill the mask, so runs are counted here
first. Masks are stored column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, need
from dejacue.files.documents import check_object
from dejacue.video.sizes import check_size


def rle_size(value: Any) -> tuple[int, int]:
    """Return (height, width) of a run-length encoded mask."""
    check_object(value, ("size", "counts"))
    size = value.get("size")
    if (
        not isinstance(size, list)
        or len(size) != 2
        or any(type(length) is not int or not 1 <= length < 1 << 31 for length in size)
    ):
        raise InputError(f"size {size!r:.40} is not [height, width]")
    check_size(size[1], size[0])
    return size[0], size[1]


def decode_rle(value: Any) -> NDArray[np.bool_]:
    """Return the (H, W) mask of {"size": [H, W], "counts": list of numbers, or COCO's text}."""
    height, width = rle_size(value)
    counts = value.get("counts")
    if isinstance(counts, str):
        runs = _runs(counts)
    elif isinstance(counts, list) and all(type(run) is int for run in counts):
        runs = np.array([min(max(run, -1), height * width + 1) for run in counts], dtype=np.int64)
    else:
        raise InputError("the counts of a run-length mask are a text or a list of whole numbers")
    if (runs < 0).any() or runs.sum() != height * width:
        problem = f"its runs do not fill {height}×{width} (height × width) pixels"
        raise InputError(f"{problem}; it was made for another size, or is damaged")
    values = np.arange(len(runs)) % 2 == 1  # runs of background and object take turns
    return np.repeat(values, runs).reshape(width, height).T


def pack(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return COCO's run lengths, as in its files; ``decode_rle`` gives the mask back."""
    packed = _coco().encode(np.asfortranarray(mask, dtype=np.uint8))
    return {"size": list(mask.shape), "counts": packed["counts"].decode("ascii")}


def polygon_mask(polygons: Any, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the (H, W) mask of polygons, each a list x, y, x, y, …"""
    parts = [[float(value) for value in corners] for corners in polygons]
    packed = _coco().merge(_coco().frPyObjects(parts, *size))
    return decode_rle({"size": list(size), "counts": packed["counts"].decode("ascii")})


def _coco() -> Any:
    return need("pycocotools.mask", "pip install pycocotools")


def _runs(text: str) -> NDArray[np.int64]:
    """Undo COCO's packing: groups of five bits, low ones first, and from the fourth run on only
    the difference to the run before the last."""
    try:
        codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - 48
    except UnicodeEncodeError:
        codes = np.array([-1])
    ends = np.flatnonzero(codes & 32 == 0)  # the sixth bit says that a run goes on
    if (codes < 0).any() or (codes > 63).any() or not len(ends) or ends[-1] != len(codes) - 1:
        raise InputError("its counts are not COCO's run-length text, or are truncated")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 7:
        raise InputError("its counts are not COCO's run-length text: a run has no end")
    place = np.arange(len(codes)) - np.repeat(starts, lengths)
    values = np.add.reduceat((codes & 31) << (5 * place), starts)
    values -= np.where(codes[ends] & 16, 1 << (5 * lengths), 0)  # the top bit is the sign
    runs = values.copy()
    runs[1::2] = np.cumsum(values[1::2])
    runs[2::2] = np.cumsum(values[2::2])
    return runs
