"""Stacks of masks, ``.npz`` or ``.npy``: one array for all frames, read row by row.

    masks    (N, H, W) bool, or integer labels as in labels.py; or (N, K, H, W) bool
    frames   (N,) integers, optional: the frame of each row, else 0 … N−1
    names    (N,) text, optional: the file stem of each row's frame
    ids      (K,) integers, optional: the objects of the second axis, else 1 … K; for (N, H, W) bool
             one id for all rows or one for each, and then a frame may have several rows

With a threshold masks may be logits, of the shapes of bool. An .npz that holds an array
FRAME_OBJECT for each mask is SAM 2's (_segments.py).

A long stack is larger than the memory, so only the row at hand is taken from the file.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line
from dejacue.sources.documents import named
from dejacue.sources.masks._matching import Keys
from dejacue.sources.masks._segments import NEED_THRESHOLD, SAVE, above, from_arrays
from dejacue.sources.masks.labels import Labels, refuse_photograph
from dejacue.sources.masks.reader import ListedRows, Objects, Rows
from dejacue.sources.npz import is_text, read_header
from dejacue.sources.sizes import check_size

SAVE_ARRAYS = f"save plain arrays, such as those of SAM 2 with {SAVE}"
_COLUMNS = ("frames", "names", "ids")
_MOST_COLUMN_BYTES = 1 << 28
_MOST_ROW_BYTES = 1 << 30
_MOST_MASKS = 1 << 22


class _Stack:
    """One array of a file, from which single rows are read."""

    def __init__(self, stream: IO[bytes], size: int, name: str) -> None:
        self._stream = stream
        self.shape, fortran, self.dtype, self._start = read_header(stream, name, SAVE_ARRAYS)
        if fortran and len(self.shape) > 1:
            raise InputError("is in column-major order; save np.ascontiguousarray of it")
        if size - self._start != math.prod(self.shape) * self.dtype.itemsize:
            raise InputError("is truncated or damaged: its size differs from its header")

    def __del__(self) -> None:
        self._stream.close()

    def __getitem__(self, row: int) -> NDArray[Any]:
        own = self.shape[1:]
        size = math.prod(own) * self.dtype.itemsize
        self._stream.seek(self._start + row * size)
        return np.frombuffer(self._stream.read(size), self.dtype).reshape(own)

    def whole(self) -> NDArray[Any]:
        """All of it, for the short columns beside the masks."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > _MOST_COLUMN_BYTES:
            raise InputError("is too large")
        self._stream.seek(self._start)
        data = self._stream.read(size)
        if self.dtype.kind == "U" and not is_text(data, self.dtype):
            raise InputError("holds text that is not Unicode; the file is damaged")
        return np.frombuffer(data, self.dtype).reshape(self.shape)


def open_stack(path: Path, kind: str | None, threshold: float | None = None) -> tuple[str, Rows]:
    """The kind and the rows of a stack."""
    found = "stack" if threshold is None else f"logits:{threshold:g}"
    with named(str(path)):
        arrays = _arrays(path)
        if (segments := from_arrays(arrays, path, threshold)) is not None:
            return found, segments
        masks = _masks(arrays, threshold)
        columns = {name: _column(arrays[name], name) for name in _COLUMNS if name in arrays}
        keys = _keys(columns, masks.shape[0])
        ids = _ids(columns)
        if masks.dtype.kind == "b" or threshold is not None:
            return found, _Planes(path, masks, keys, ids, threshold)
        if keys.numbers is not None and len(set(keys.numbers)) < len(keys.numbers):
            raise InputError("frames repeat; label masks hold all objects of a frame in one row")
        rows = Labels(
            keys,
            [path],
            lambda row: _labels(masks, row, path),
            lambda row: f"{path}, row {row}",
            kind,
            None if ids is None else frozenset(ids),
        )
        return "binary" if rows.binary else "stack", rows


class _Planes(ListedRows):
    """A bool stack: (N, K, H, W), or (N, H, W) with one object in each row."""

    def __init__(
        self,
        path: Path,
        masks: _Stack,
        keys: Keys,
        ids: list[int] | None,
        threshold: float | None = None,
    ) -> None:
        self.files = [path]
        self._path, self._masks, self._threshold = path, masks, threshold
        self._last: tuple[int, NDArray[Any]] | None = None
        self._objects: list[dict[int, tuple[int, int | None]]] = []
        count, *more = masks.shape[:-2]
        if more:
            ids = list(range(1, more[0] + 1)) if ids is None else ids
            if len(ids) != more[0] or len(set(ids)) < len(ids):
                raise InputError(f"{len(ids)} ids for {more[0]} objects; give one for each")
            for row in range(count):
                self._objects.append({one: (row, plane) for plane, one in enumerate(ids)})
        else:
            ids = [1] if ids is None else ids
            if len(ids) not in (1, count):
                raise InputError(f"{len(ids)} ids for {count} rows; give one, or one for each")
            owners = ids * count if len(ids) == 1 else ids
            self._objects += [{owner: (row, None)} for row, owner in enumerate(owners)]
        self.keys = self._grouped(keys)

    def read(self, row: int, shape: tuple[int, int], wanted: frozenset[int] | None) -> Objects:
        return {
            one: self._row(place)[... if plane is None else plane]
            for one, (place, plane) in self._wanted(row, wanted)
        }

    def _row(self, row: int) -> NDArray[Any]:
        if self._last is None or self._last[0] != row:
            with named(f"{self._path}, row {row}"):
                self._last = (row, above(_row(self._masks, row), self._threshold))
        return self._last[1]

    def _grouped(self, keys: Keys) -> Keys:
        """Rows of one frame become one row with several objects."""
        frames = keys.numbers if keys.names is None else keys.names
        assert frames is not None
        groups: dict[Any, int] = {}
        for row, frame in enumerate(frames):
            first = groups.setdefault(frame, row)
            if first != row:
                if self._objects[row].keys() & self._objects[first].keys():
                    raise InputError(
                        f"rows {first} and {row} are the same object in the same frame"
                    )
                self._objects[first] |= self._objects[row]
        kept = list(groups.values())
        self._objects = [self._objects[row] for row in kept]
        names, numbers = keys.names, keys.numbers
        return Keys(
            None if names is None else tuple(names[row] for row in kept),
            None if numbers is None else tuple(numbers[row] for row in kept),
        )


def _labels(masks: _Stack, row: int, path: Path) -> NDArray[Any]:
    with named(f"{path}, row {row}"):
        labels = _row(masks, row)
        refuse_photograph(labels)
    return labels if labels.dtype.kind == "u" else np.maximum(labels, 0)  # −1 is background too


def _row(masks: _Stack, row: int) -> NDArray[Any]:
    try:
        return masks[row]
    except Exception as error:  # zip and its codecs raise many kinds of errors
        raise InputError(f"cannot be read; the file is damaged ({first_line(error)})") from None


def _column(array: _Stack, name: str) -> NDArray[Any]:
    with named(name):
        try:
            return array.whole()
        except InputError:
            raise
        except Exception as error:  # as above
            raise InputError(f"cannot be read; the file is damaged ({first_line(error)})") from None


def _arrays(path: Path) -> dict[str, _Stack]:
    try:
        if path.suffix.lower() == ".npy":
            return {"masks": _Stack(open(path, "rb"), path.stat().st_size, "masks")}
        archive = zipfile.ZipFile(path)
        found = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            with named(name):
                if member.flag_bits & 0x1:
                    raise InputError("is encrypted; save it without a password")
                found[name] = _Stack(archive.open(member), member.file_size, name)
        return found
    except FileNotFoundError:
        raise InputError("no such file") from None
    except InputError:
        raise
    except Exception as error:  # zip, its codecs and numpy raise many kinds of errors
        raise InputError(f"not a stack of arrays, or a damaged one ({first_line(error)})") from None


def _masks(arrays: Mapping[str, _Stack], threshold: float | None = None) -> _Stack:
    large = [name for name, array in arrays.items() if len(array.shape) in (3, 4)]
    if "masks" not in arrays and len(large) != 1:
        held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        raise InputError(f'holds {held}; name the array of shape (N, H, W) or (N, K, H, W) "masks"')
    masks = arrays["masks" if "masks" in arrays else large[0]]
    if len(masks.shape) not in (3, 4) or 0 in masks.shape:
        raise InputError(
            f"the masks have shape {masks.shape}; give a non-empty (N, H, W) or (N, K, H, W)"
        )
    kind = masks.dtype.kind
    if kind in "iu" and len(masks.shape) == 4 and masks.shape[1] == 1:
        masks.shape = (masks.shape[0], *masks.shape[2:])  # (N, 1, H, W), as SAM 2 gives one object
    if kind == "f" and threshold is None:
        raise InputError(f"the masks have type {masks.dtype}; {NEED_THRESHOLD}")
    if kind not in "biuf" or (kind in "iu" and len(masks.shape) == 4 and threshold is None):
        raise InputError(
            f"the masks have type {masks.dtype} and shape {masks.shape}; give bool, or integer "
            "labels of shape (N, H, W)"
        )
    check_size(masks.shape[-1], masks.shape[-2])
    if math.prod(masks.shape[1:]) * masks.dtype.itemsize > _MOST_ROW_BYTES:
        raise InputError(
            f"the masks have shape {masks.shape}, more than 1 GB per frame; leave out objects, or "
            "make the masks smaller"
        )
    if math.prod(masks.shape[:-2]) > _MOST_MASKS:
        raise InputError(
            f"the masks have shape {masks.shape}, more than {_MOST_MASKS} masks; split them"
        )
    return masks


def _keys(columns: Mapping[str, NDArray[Any]], count: int) -> Keys:
    for name, kinds in (("frames", "iu"), ("names", "U")):
        column = columns.get(name)
        if column is not None and (column.shape != (count,) or column.dtype.kind not in kinds):
            raise InputError(
                f"{name} of type {column.dtype} and shape {column.shape} for {count} rows of masks"
            )
    frames, names = columns.get("frames"), columns.get("names")
    if frames is not None and (frames < 0).any():
        raise InputError(f"frames contain {frames.min()}; frames count from 0")
    numbers = range(count) if frames is None else frames.tolist()
    return Keys(None if names is None else tuple(names.tolist()), tuple(numbers))


def _ids(columns: Mapping[str, NDArray[Any]]) -> list[int] | None:
    ids = columns.get("ids")
    if ids is None:
        return None
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not ids.size:
        raise InputError(f"ids of type {ids.dtype} and shape {ids.shape}; give a row of integers")
    return [int(one) for one in ids]
