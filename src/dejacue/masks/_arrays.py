"""Masks as arrays: a stack for all frames, or SAM 2's ``video_segments``, {frame: {object: mask}}.

A stack is an ``.npz`` or ``.npy``, of which only the row at hand is read, since a long one is
larger than the memory:

    masks    (N, H, W) bool, or integer labels as in labels.py; or (N, K, H, W) bool
    frames   (N,) integers, optional: the frame of each row, else 0 … N−1
    names    (N,) text, optional: the file stem of each row's frame
    ids      (K,) integers, optional: the objects of the second axis, else 1 … K; for (N, H, W) bool
             one id for all rows or one for each, and then a frame may have several rows

``video_segments`` is a dictionary in memory, or an ``.npz`` with an array FRAME_OBJECT for each
mask (SAVE writes it), of shape (H, W) or (1, H, W): bool, or numbers of which those other than 0
are the object. With a threshold the masks of either may be logits.
"""

from __future__ import annotations

import hashlib
import math
import re
import weakref
import zipfile
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line, in_file, named
from dejacue.files.npz import is_text, read_header
from dejacue.masks._masks import is_id
from dejacue.masks.labels import LabelRows, refuse_photograph
from dejacue.masks.reader import Keys, ListedRows, Mask, Rows
from dejacue.records.fields import MAX_FRAME
from dejacue.video.sizes import check_size

IN_MEMORY = Path("video_segments")
SAVE = (
    'np.savez_compressed("masks.npz", **{f"{f}_{o}": m for f, own in video_segments.items() for '
    "o, m in own.items()})"
)
SAVE_ARRAYS = f"save plain arrays, such as those of SAM 2 with {SAVE}"
NEED_THRESHOLD = (
    "give the value above which a pixel belongs to the object: the setting "
    "kind=logits (above 0, as SAM 2 gives them) or kind=logits:0.5"
)
_FRAME_OBJECT = re.compile(r"(\d{1,9})[_/](\d{1,9})")
_MAX_COLUMN_BYTES = 1 << 28
_MAX_ROW_BYTES = 1 << 30
_MAX_MASKS = 1 << 22


class _StoredArray:
    """One array of a file, from which single rows are read."""

    def __init__(self, stream: IO[bytes], size: int, name: str) -> None:
        self._stream, self._name = stream, name
        weakref.finalize(self, stream.close)
        self.shape, fortran, self.dtype, self._start = read_header(stream, name, SAVE_ARRAYS)
        if fortran and len(self.shape) > 1:
            raise InputError("is in column-major order; save np.ascontiguousarray of it")
        if size - self._start != math.prod(self.shape) * self.dtype.itemsize:
            raise InputError("is truncated or damaged: its size differs from its header")

    def row(self, row: int) -> NDArray[Any]:
        shape = self.shape[1:]
        return self._read(self._start + row * math.prod(shape) * self.dtype.itemsize, shape)

    def whole(self) -> NDArray[Any]:
        """Return all of it, for one mask or the short columns beside masks."""
        if math.prod(self.shape) * self.dtype.itemsize > _MAX_COLUMN_BYTES:
            raise InputError("is too large")
        array = self._read(self._start, self.shape)
        if self.dtype.kind == "U" and not is_text(array.tobytes(), self.dtype):
            raise InputError("holds text that is not Unicode; the file is damaged")
        return array

    def _read(self, start: int, shape: tuple[int, ...]) -> NDArray[Any]:
        try:
            self._stream.seek(start)
            data = self._stream.read(math.prod(shape) * self.dtype.itemsize)
            return np.frombuffer(data, self.dtype).reshape(shape)
        except Exception as error:  # zip and its codecs raise many kinds of errors
            raise InputError(f"cannot be read; the file is damaged ({first_line(error)})") from None


def open_stack(path: Path, kind: str | None, threshold: float | None = None) -> tuple[str, Rows]:
    """Return the kind and the rows of an .npz or .npy file."""
    with in_file(path):
        arrays = _arrays(path)
        if arrays and all(map(_FRAME_OBJECT.fullmatch, arrays)):
            return stack_kind(threshold), _from_arrays(arrays, path, threshold)
        masks = _masks(arrays, threshold)
        columns: dict[str, NDArray[Any]] = {}
        for name in ("frames", "names", "ids"):
            if name in arrays:
                with named(name):
                    columns[name] = arrays[name].whole()
        keys = _keys(columns, masks.shape[0])
        ids = columns.get("ids")
        if ids is not None and (ids.ndim != 1 or ids.dtype.kind not in "iu" or not ids.size):
            problem = f"ids of type {ids.dtype} and shape {ids.shape}"
            raise InputError(f"{problem}; give a row of integers")
        listed = None if ids is None else [int(number) for number in ids]
        if masks.dtype.kind == "b" or threshold is not None:
            return stack_kind(threshold), _planes(path, masks, keys, listed, threshold)
        if keys.numbers is not None and len(set(keys.numbers)) < len(keys.numbers):
            raise InputError("frames repeat; label masks hold all objects of a frame in one row")
        known = None if listed is None else frozenset(listed)
        read, place = partial(_read_labels, masks), partial(_in_row, path)
        rows = LabelRows(keys, [path], read, place, kind, known)
        return "binary" if rows.binary else "stack", rows


def _in_row(path: Path, row: int) -> named:
    """Prepend the name of a file and a row of it to an error raised inside."""
    return named(f"{path}, row {row}")


def _read_labels(masks: _StoredArray, row: int) -> NDArray[Any]:
    labels = masks.row(row)
    refuse_photograph(labels)
    return labels if labels.dtype.kind == "u" else np.maximum(labels, 0)  # −1 is background too


def stack_kind(threshold: float | None) -> str:
    return "stack" if threshold is None else f"logits:{threshold:g}"


def _planes(
    path: Path, masks: _StoredArray, keys: Keys, ids: list[int] | None, threshold: float | None
) -> ListedRows:
    """Return the rows of a bool stack: (N, K, H, W), or (N, H, W) with one object in each row."""
    count, *rest = masks.shape[:-2]
    objects: list[dict[int, tuple[int, int | None]]]  # id → row and, of (N, K, H, W), plane
    if rest:
        ids = list(range(1, rest[0] + 1)) if ids is None else ids
        if len(ids) != rest[0] or len(set(ids)) < len(ids):
            raise InputError(f"{len(ids)} ids for {rest[0]} objects; give one for each")
        objects = [{id: (row, plane) for plane, id in enumerate(ids)} for row in range(count)]
    else:
        ids = [1] if ids is None else ids
        if len(ids) not in (1, count):
            raise InputError(f"{len(ids)} ids for {count} rows; give one, or one for each")
        objects = [
            {id: (row, None)} for row, id in enumerate(ids * count if len(ids) == 1 else ids)
        ]
    firsts: dict[Any, int] = {}  # rows of one frame become one row with several objects
    for row, frame in enumerate(keys.names or keys.numbers or ()):
        first = firsts.setdefault(frame, row)
        if first != row:
            if objects[row].keys() & objects[first].keys():
                raise InputError(f"rows {first} and {row} are the same object in the same frame")
            objects[first] |= objects[row]
    rows = list(firsts.values())
    names = None if keys.names is None else tuple(keys.names[row] for row in rows)
    numbers = None if keys.numbers is None else tuple(keys.numbers[row] for row in rows)

    @lru_cache(maxsize=1)
    def read(row: int) -> Mask:
        with _in_row(path, row):
            return _above(masks.row(row), threshold)

    def draw(place: tuple[int, int | None], shape: tuple[int, int]) -> Mask:
        row, plane = place
        return read(row) if plane is None else read(row)[plane]

    return ListedRows(Keys(names, numbers), [path], [objects[row] for row in rows], draw)


def _arrays(path: Path) -> dict[str, _StoredArray]:
    """Open the arrays of a file by name."""
    try:
        if path.suffix.lower() == ".npy":
            return {"masks": _StoredArray(open(path, "rb"), path.stat().st_size, "masks")}
        archive = zipfile.ZipFile(path)
        arrays = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with named(name):
                if member.flag_bits & 0x1:
                    raise InputError("is encrypted; save it without a password")
                arrays[name] = _StoredArray(archive.open(member), member.file_size, name)
        return arrays
    except FileNotFoundError:
        raise InputError("no such file") from None
    except InputError:
        raise
    except Exception as error:  # zip, its codecs and numpy raise many kinds of errors
        raise InputError(f"not a stack of arrays, or a damaged one ({first_line(error)})") from None


def _masks(arrays: Mapping[str, _StoredArray], threshold: float | None = None) -> _StoredArray:
    large = [name for name, array in arrays.items() if len(array.shape) in (3, 4)]
    if "masks" not in arrays and len(large) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        remedy = 'name the array of shape (N, H, W) or (N, K, H, W) "masks"'
        raise InputError(f"holds {listed}; {remedy}")
    masks = arrays["masks" if "masks" in arrays else large[0]]
    with_shape = f"the masks have shape {masks.shape}"
    if len(masks.shape) not in (3, 4) or 0 in masks.shape:
        raise InputError(f"{with_shape}; give a non-empty (N, H, W) or (N, K, H, W)")
    kind = masks.dtype.kind
    if kind in "iu" and len(masks.shape) == 4 and masks.shape[1] == 1:
        masks.shape = (masks.shape[0], *masks.shape[2:])  # (N, 1, H, W), as SAM 2 gives one object
    if kind == "f" and threshold is None:
        raise InputError(f"the masks have type {masks.dtype}; {NEED_THRESHOLD}")
    if kind not in "biuf" or (kind in "iu" and len(masks.shape) == 4 and threshold is None):
        problem = f"the masks have type {masks.dtype} and shape {masks.shape}"
        raise InputError(f"{problem}; give bool, or integer labels of shape (N, H, W)")
    check_size(masks.shape[-1], masks.shape[-2])
    if math.prod(masks.shape[1:]) * masks.dtype.itemsize > _MAX_ROW_BYTES:
        remedy = "leave out objects, or make the masks smaller"
        raise InputError(f"{with_shape}, more than 1 GB per frame; {remedy}")
    if math.prod(masks.shape[:-2]) > _MAX_MASKS:
        raise InputError(f"{with_shape}, more than {_MAX_MASKS} masks; split them")
    return masks


def _keys(columns: Mapping[str, NDArray[Any]], count: int) -> Keys:
    for name, kinds in (("frames", "iu"), ("names", "U")):
        column = columns.get(name)
        if column is not None and (column.shape != (count,) or column.dtype.kind not in kinds):
            actual = f"type {column.dtype} and shape {column.shape}"
            raise InputError(f"{name} of {actual} for {count} rows of masks")
    frames, names = columns.get("frames"), columns.get("names")
    if frames is not None and (frames < 0).any():
        raise InputError(f"frames contain {frames.min()}; frames count from 0")
    numbers = range(count) if frames is None else frames.tolist()
    return Keys(None if names is None else tuple(names.tolist()), tuple(numbers))


def from_mapping(segments: Mapping[Any, Any], threshold: float | None) -> ListedRows:
    """Return the rows of a dictionary; it is copied, a bit a pixel, so it may change afterwards."""
    digest = hashlib.sha256()
    frames: dict[int, dict[int, Callable[[], Mask]]] = {}
    with named("masks"):
        for frame, objects in segments.items():
            if not _is_number(frame) or not isinstance(objects, Mapping):
                problem = "a dictionary of masks is {frame: {object: mask}}, frames counted from 0"
                raise InputError(f"{frame!r:.40}: {problem}")
            row = frames.setdefault(int(frame), {})
            for object, mask in objects.items():
                with named(f"frame {frame}, object {object}"):
                    if not _is_number(object):
                        raise InputError("the object id is not a whole number; number the objects")
                    plane = _plane(_array(mask), threshold)
                bits = np.packbits(plane).tobytes()
                digest.update(f"{frame} {object} {plane.shape}\0".encode() + bits)
                row[int(object)] = partial(_unpacked, bits, plane.shape)
        if not any(frames.values()):
            raise InputError("the dictionary holds no masks; it is {frame: {object: mask}}")
    return _segment_rows(frames, [], digest.hexdigest())


def _from_arrays(
    arrays: Mapping[str, _StoredArray], path: Path, threshold: float | None
) -> ListedRows:
    """Return the rows of arrays FRAME_OBJECT, which are read when their frame comes."""
    frames: dict[int, dict[int, Callable[[], Mask]]] = {}
    for name, array in arrays.items():
        frame, object = map(int, re.split("[_/]", name))
        with named(name):
            _check_plane(array.shape, array.dtype, threshold)
            if object in frames.setdefault(frame, {}):
                raise InputError("is the same object of the same frame as another array; keep one")
        frames[frame][object] = partial(_read_plane, path, name, array, threshold)
    return _segment_rows(frames, [path])


def _segment_rows(
    frames: Mapping[int, Mapping[int, Callable[[], Mask]]], files: list[Path], content: str = ""
) -> ListedRows:
    keys = Keys(numbers=tuple(sorted(frames)))
    objects = [frames[frame] for frame in sorted(frames)]
    return ListedRows(keys, files, objects, lambda make, shape: make(), content=content)


def _check_plane(shape: tuple[int, ...], dtype: Any, threshold: float | None) -> None:
    """Refuse what is not a mask of one object in one frame."""
    if len(shape) < 2 or 0 in shape or any(length != 1 for length in shape[:-2]):
        raise InputError(f"the mask has shape {shape}; give (H, W) or (1, H, W)")
    check_size(shape[-1], shape[-2])
    if dtype.kind not in "biuf" or (dtype.kind == "f" and threshold is None):
        remedy = NEED_THRESHOLD if dtype.kind == "f" else "give bool, or logits"
        raise InputError(f"the mask has type {dtype}; {remedy}")


def _plane(array: NDArray[Any], threshold: float | None) -> Mask:
    """Return the checked mask of one object, (H, W) bool."""
    _check_plane(array.shape, array.dtype, threshold)
    return _above(array.reshape(array.shape[-2:]), threshold)


def _above(array: NDArray[Any], threshold: float | None) -> Mask:
    """Return where the object is: above the threshold, or where there is any number but 0."""
    if threshold is not None and array.dtype.kind != "b":
        return np.asarray(array > threshold)
    return np.asarray(array != 0)


def _array(mask: Any) -> NDArray[Any]:
    if hasattr(mask, "detach"):  # a tensor, perhaps of a GPU
        mask = mask.detach().cpu()
        mask = mask.float() if "bfloat16" in str(mask.dtype) else mask
    return np.asarray(mask)


def _is_number(value: Any) -> bool:
    return is_id(value) and 0 <= int(value) <= MAX_FRAME


def _unpacked(bits: bytes, shape: tuple[int, int]) -> Mask:
    packed = np.frombuffer(bits, np.uint8)
    return np.unpackbits(packed, count=shape[0] * shape[1]).view(bool).reshape(shape)


def _read_plane(path: Path, name: str, array: _StoredArray, threshold: float | None) -> Mask:
    with in_file(path), named(name):
        return _plane(array.whole(), threshold)
