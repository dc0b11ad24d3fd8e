"""Masks with one number per pixel: indexed (VOST, DAVIS, YouTube-VOS) or binary.

In an indexed mask 0 is background, 255 is void and always removed, any other number is an object.
In a binary mask whatever is not 0 is the object. Masks whose only number is 255 are binary: void
alone would mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line, in_file, named
from dejacue.masks.buffers import BufferPool
from dejacue.masks.png import read_flat_png
from dejacue.masks.reader import Keys, Objects, Rows
from dejacue.video.crops import MeasuredArray, compiled, measured
from dejacue.video.sizes import open_picture

VOID = 255
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
LOSSY = (".jpg", ".jpeg", ".webp")
INSPECTED_ROWS = 32  # tell binary from indexed; a later row that contradicts is refused
MAX_LABELS = 32  # more numbers in one grey picture look like soft edges, not like objects
INSPECTED_LINES = 64  # of a picture, to recognise a photograph
PHOTOGRAPH_SHARE = 0.25  # of neighbouring pixels that differ; masks are flat
MAX_BLURRED_SHARE = 0.05  # of the pixels of a lossy mask, at its edges
MIN_WHITE = 128  # a lossy mask has its object in white
MAX_BUFFERED_BYTES = 64 << 20  # of rows that were looked at, so that they are decoded once
CHOOSE_VOID = "choose the setting kind=indexed (255 is void) or kind=binary (255 is the object)"
CHOOSE_KIND = "choose the setting kind=indexed or kind=binary"
A_MASK = "a mask has flat values: 0 where there is no object, and one number (or 255) where it is"


class LabelRows(Rows):
    """Rows of which each is one array of numbers.

    read    returns the (H, W) array of a row
    place   returns the context in which errors name a row
    """

    def __init__(
        self,
        keys: Keys,
        files: list[Path],
        read: Callable[[int], NDArray[Any]],
        place: Callable[[int], named],
        kind: str | None,
        known: frozenset[int] | None = None,
    ) -> None:
        self.keys, self.files = keys, files
        self._read_row, self._place = read, place
        self._masks = BufferPool()
        self._values: dict[int, frozenset[int]] = {}
        self._last: tuple[int, NDArray[Any]] | None = None
        self._buffered: dict[int, NDArray[Any]] = {}  # looked at, and not yet read
        self._buffered_bytes = 0
        self._detected = kind is None
        self.binary = self._looks_binary() if kind is None else kind == "binary"
        if self.binary:
            known = frozenset({1}) if known is None or len(known) > 1 else known
        self._known = None if known is None else known - {0, VOID}

    def read(self, row: int, shape: tuple[int, int], ids: frozenset[int] | None) -> Objects:
        array = self._array(row)
        if self.binary:
            flat = isinstance(array, MeasuredArray) and self._row_values(row) <= {VOID}
            if self._detected and not flat and ((array != 0) & (array != VOID)).any():
                others = sorted(self._row_values(row) - {VOID})
                numbers = ", ".join(map(str, others[:4]))
                with self._place(row):
                    problem = f"holds {numbers} but other masks hold only 0 and 255"
                    raise InputError(f"{problem}; {CHOOSE_VOID}")
            mask = np.not_equal(array, 0, self._mask_like(array))
            return dict.fromkeys(self._known or (), _like(array, mask))
        if ids is None:
            if array.dtype == np.uint8 and self._row_values(row) <= {1}:
                return {0: _like(array, array.view(np.bool_))}
            mask = self._mask_like(array)
            if array.dtype == np.uint8:  # neither 0 nor void, in two passes over the same bytes
                np.subtract(array, np.uint8(1), mask.view(np.uint8))
                return {0: np.less(mask.view(np.uint8), VOID - 1, mask)}
            return {0: np.logical_and(array != VOID, array > 0, mask)}
        return {id: np.equal(array, id, self._mask_like(array)) for id in ids}

    def _mask_like(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        return self._masks.empty(array.shape, np.bool_)

    def ids_of(self, row: int) -> frozenset[int]:
        values = self._row_values(row)
        return (self._known or frozenset()) if self.binary and values else values - {VOID}

    def known_ids(self) -> frozenset[int] | None:
        return self._known

    def _array(self, row: int) -> NDArray[Any]:
        if self._last is None or self._last[0] != row:
            array = self._buffered.pop(row, None)
            if array is None:
                with self._place(row):
                    array = self._read_row(row)
            else:
                self._buffered_bytes -= array.nbytes
            self._last = (row, array)
        return self._last[1]

    def has_room(self) -> bool:
        return self._buffered_bytes < MAX_BUFFERED_BYTES

    def _row_values(self, row: int) -> frozenset[int]:
        """Return the numbers above 0 in a row; each row is counted once."""
        if row not in self._values:
            new = self._last is None or self._last[0] != row
            array = self._array(row)
            if new and self.has_room():
                self._buffered[row] = array
                self._buffered_bytes += array.nbytes
            self._values[row] = frozenset(v for v in _occurring(array) if v > 0)
        return self._values[row]

    def _looks_binary(self) -> bool:
        count = len(self.keys)
        step = max(1, -(-count // INSPECTED_ROWS))
        seen = False
        for row in range(0, count, step):
            values = self._row_values(row)
            if len(values) > MAX_LABELS and VOID in values:
                with self._place(row):
                    raise InputError(
                        f"holds {len(values)} different values, which may be object labels or the "
                        f"soft edge of one object; {CHOOSE_KIND}"
                    )
            if values - {VOID}:
                return False
            seen = seen or bool(values)
        # where none of these rows holds anything, the first other that does decides
        rest = (row for row in range(count) if row % step)
        return seen or next((v == {VOID} for v in map(self._row_values, rest) if v), False)


def _like(array: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of all that is not 0 in an array, with its box if that is known."""
    return measured(mask, array.box) if isinstance(array, MeasuredArray) else mask


def _occurring(array: NDArray[Any]) -> Iterable[int]:
    """Return the different numbers; small ones without the memory of sorting."""
    if isinstance(array, MeasuredArray) and array.numbers is not None:
        return array.numbers
    values: Iterable[int]
    if array.dtype.itemsize != 1:
        values = np.unique(array).tolist()
    elif compiled is not None:
        values = compiled.values(np.ascontiguousarray(array.view(np.uint8)))
    else:
        values = np.flatnonzero(np.bincount(array.view(np.uint8).ravel(), minlength=1)).tolist()
    return values


def folder_labels(
    pictures: list[Path], kind: str | None, known: frozenset[int] | None
) -> LabelRows:
    """Return the pictures of a folder as rows; a lossy picture can only be binary."""
    lossy = next((path for path in pictures if path.suffix.lower() in LOSSY), None)
    if lossy is not None and kind == "indexed":
        problem = "JPEG blurs the values, so it cannot hold indexed masks"
        raise InputError(f"{lossy}: {problem}; save it as PNG")
    binary = lossy is not None or kind == "binary"
    pool = BufferPool()
    labels = LabelRows(
        Keys(names=tuple(path.stem for path in pictures)),
        pictures,
        lambda row: read_picture(pictures[row], binary=binary, pool=pool),
        lambda row: in_file(pictures[row]),
        "binary" if binary else kind,
        known,
    )
    labels.ids_of(0)  # photographs are refused at once
    return labels


def read_picture(
    path: Path, *, binary: bool = False, pool: BufferPool | None = None
) -> NDArray[Any]:
    """Return the numbers of a palette or grey picture, (H, W).

    A colour picture is taken if it is grey or ``binary``, a photograph never. JPEG blurs edges:
    there, what is darker than half of the brightest pixel counts as 0.
    """
    with in_file(path):
        try:
            flat = read_flat_png(path, pool)
            if flat is None:
                with open_picture(path) as picture:
                    array, mode = np.asarray(picture), picture.mode
            elif len(flat.numbers or ()) <= MAX_LABELS:
                return flat  # of one channel, and no photograph
            else:
                array, mode = flat, "L"
        except InputError:
            raise
        except FileNotFoundError:
            raise InputError("no such file") from None
        except Exception as error:  # decoders raise many kinds of errors
            problem = f"is not a readable picture, or is damaged ({first_line(error):.120})"
            raise InputError(problem) from None
        if mode == "1":
            return array.astype(np.uint8) * np.uint8(VOID)  # black and white is binary
        refuse_photograph(array)
        if array.ndim == 3:
            array = _without_colour(array, mode, binary)
        if array.dtype.kind not in "iu":
            remedy = "save it as a palette or greyscale picture"
            raise InputError(f"holds {array.dtype} values; {remedy}")
        return _without_blur(array) if path.suffix.lower() in LOSSY else array


def refuse_photograph(array: NDArray[Any]) -> None:
    """Refuse a picture with many different numbers and hardly any flat area."""
    lines = array[:: max(1, len(array) // INSPECTED_LINES)]
    lines = lines if lines.ndim == 2 else lines[..., :3].max(axis=-1)
    differ = lines[:, 1:] != lines[:, :-1]
    share = np.count_nonzero(differ) / max(1, differ.size)
    if share > PHOTOGRAPH_SHARE and len(np.unique(lines)) > MAX_LABELS:
        raise InputError(f"is a photograph, not a mask; {A_MASK}")


def _without_blur(array: NDArray[Any]) -> NDArray[Any]:
    """Return a lossy mask with its blurred edge cut in the middle."""
    top = int(array.max())
    between = (array > top // 4) & (array < top - top // 4)
    if 0 < top < MIN_WHITE or between.mean() > MAX_BLURRED_SHARE:
        problem = "holds more than black and white, but JPEG and WebP blur object numbers"
        raise InputError(f"{problem}; save it as PNG ({A_MASK})")
    return np.where(array > top // 2, array, 0)


def _without_colour(array: NDArray[Any], mode: str, binary: bool) -> NDArray[Any]:
    """Return one channel of a grey picture, or of a ``binary`` one the brightest."""
    if mode in ("RGBA", "LA"):
        if (array[..., -1] != 255).any():
            raise InputError("is partly transparent; save the mask itself, without alpha")
        array = array[..., :-1]
    if binary:
        return np.asarray(array.max(axis=-1))
    if (array != array[..., :1]).any():
        raise InputError(
            "is a colour picture, and colours are not object numbers; save it as palette or "
            "greyscale, or choose the setting kind=binary if everything that is not black is the "
            "object"
        )
    return np.ascontiguousarray(array[..., 0])
