"""SAM 2's ``video_segments``, {frame: {object: mask}}: in memory, or in an ``.npz`` that holds an
array FRAME_OBJECT for each mask.

    np.savez_compressed("masks.npz", **{
        f"{frame}_{one}": mask for frame, own in video_segments.items() for one, mask in own.items()
    })

A mask is (H, W) or (1, H, W): bool, numbers of which those other than 0 are the object, or, where a
threshold is given, logits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.sources.documents import MOST_FRAME, named
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks.reader import ListedRows, Objects
from dejacue.sources.sizes import check_size

IN_MEMORY = Path("video_segments")
SAVE = (
    'np.savez_compressed("masks.npz", **{f"{f}_{o}": m for f, own in video_segments.items() for '
    "o, m in own.items()})"
)
NEED_THRESHOLD = (
    'give the value above which a pixel belongs to the object: the kind "logits" (above 0, as '
    'SAM 2 gives them) or "logits:0.5" (--set kind=…)'
)
_NAME = re.compile(r"(\d{1,9})[_/](\d{1,9})")
Plane = NDArray[np.bool_]


class Segments(ListedRows):
    """Masks by frame and object, each made when it is asked for."""

    def __init__(
        self,
        frames: Mapping[int, Mapping[int, Callable[[], Plane]]],
        files: list[Path],
        content: str = "",
    ) -> None:
        numbers = sorted(frames)
        self.keys, self.files, self.content = Keys(numbers=tuple(numbers)), files, content
        self._objects = [frames[number] for number in numbers]

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        return {one: make() for one, make in self._wanted(row, wanted)}


def from_mapping(given: Mapping[Any, Any], threshold: float | None) -> Segments:
    """Of a dictionary; it is copied, a bit a pixel, so that it may change afterwards."""
    digest = hashlib.sha256()
    frames: dict[int, dict[int, Callable[[], Plane]]] = {}
    with named("masks"):
        for frame, own in given.items():
            if not _is_whole(frame) or not isinstance(own, Mapping):
                raise InputError(
                    f"{frame!r:.40}: a dictionary of masks is {{frame: {{object: mask}}}}, frames "
                    "counted from 0"
                )
            row = frames.setdefault(int(frame), {})
            for one, mask in own.items():
                with named(f"frame {frame}, object {one}"):
                    if not _is_whole(one):
                        raise InputError("the object id is not a whole number; number the objects")
                    plane = as_plane(_array(mask), threshold)
                bits = np.packbits(plane).tobytes()
                digest.update(f"{frame} {one} {plane.shape}\0".encode() + bits)
                row[int(one)] = _unpacking(bits, plane.shape)
        if not any(frames.values()):
            raise InputError("the dictionary holds no masks; it is {frame: {object: mask}}")
    return Segments(frames, [], digest.hexdigest())


def from_arrays(arrays: Mapping[str, Any], path: Path, threshold: float | None) -> Segments | None:
    """Of the members of an .npz file, read when they are asked for; None: it is another kind."""
    names = {name: _NAME.fullmatch(name) for name in arrays}
    if not names or not all(names.values()):
        return None
    frames: dict[int, dict[int, Callable[[], Plane]]] = {}
    for name, found in names.items():
        assert found is not None
        frame, one = int(found[1]), int(found[2])
        with named(name):
            check_plane(arrays[name].shape, arrays[name].dtype, threshold)
            if one in frames.setdefault(frame, {}):
                raise InputError("is the same object of the same frame as another array; keep one")
        frames[frame][one] = _reading(arrays[name], f"{path}: {name}", threshold)
    return Segments(frames, [path])


def check_plane(shape: tuple[int, ...], dtype: Any, threshold: float | None) -> None:
    """Refuses what is not a mask of one object in one frame."""
    if len(shape) < 2 or 0 in shape or any(length != 1 for length in shape[:-2]):
        raise InputError(f"the mask has shape {shape}; give (H, W) or (1, H, W)")
    check_size(shape[-1], shape[-2])
    if dtype.kind not in "biuf":
        raise InputError(f"the mask has type {dtype}; give bool, or logits")
    if dtype.kind == "f" and threshold is None:
        raise InputError(f"the mask has type {dtype}; {NEED_THRESHOLD}")


def as_plane(array: NDArray[Any], threshold: float | None) -> Plane:
    """(H, W) bool."""
    check_plane(array.shape, array.dtype, threshold)
    array = array.reshape(array.shape[-2:])
    return above(array, threshold)


def above(array: NDArray[Any], threshold: float | None) -> Plane:
    """Where the object is: above the threshold, or where there is any number but 0."""
    if threshold is not None and array.dtype.kind != "b":
        return np.asarray(array > threshold)
    return np.asarray(array != 0)


def _array(mask: Any) -> NDArray[Any]:
    if hasattr(mask, "detach"):  # a tensor, perhaps of a GPU
        mask = mask.detach().cpu()
        mask = mask.float() if "bfloat16" in str(mask.dtype) else mask
    return np.asarray(mask)


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and 0 <= int(value) <= MOST_FRAME


def _unpacking(bits: bytes, shape: tuple[int, ...]) -> Callable[[], Plane]:
    count = shape[0] * shape[1]
    packed = np.frombuffer(bits, np.uint8)
    return lambda: np.unpackbits(packed, count=count).view(bool).reshape(shape)


def _reading(array: Any, where: str, threshold: float | None) -> Callable[[], Plane]:
    def read() -> Plane:
        with named(where):
            return as_plane(array.whole(), threshold)

    return read
