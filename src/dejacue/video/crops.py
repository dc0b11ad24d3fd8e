"""A frame and the mask of an object → the picture that the encoder sees (§6).

The tight box of the mask, padded by a fifth of its longer side, with everything that is not the
object in mid-grey; then squashed to a square.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError

if TYPE_CHECKING:
    from dejacue.video.video import Frame

compiled: ModuleType | None
try:
    from dejacue.video import _pixels as compiled  # type: ignore[attr-defined, no-redef]
except ImportError:  # no compiler where it was installed
    compiled = None
Box = tuple[int, int, int, int]
MAX_SIDE = 8192  # pixels that the compiled code takes
FILL = 127  # mid-grey, of what is not the object


class MeasuredArray(np.ndarray[Any, Any]):
    """Numbers or a mask that were measured when they were read; they cannot be changed, and what is
    taken or computed of them is not measured.

    numbers   those that occur
    box       y0, y1, x0, x1 (half-open) of those that are not 0
    """

    numbers: frozenset[int] | None = None
    box: Box | None = None


def measured(
    array: NDArray[Any], box: Box | None, numbers: frozenset[int] | None = None
) -> MeasuredArray:
    """Return an array with what was measured of it.

    >>> measured(np.eye(3, dtype=bool), box=(0, 3, 0, 3)).box
    (0, 3, 0, 3)
    """
    view = array.view(MeasuredArray)
    view.numbers, view.box, view.flags.writeable = numbers, box, False
    return view


def crop(
    image: NDArray[np.uint8], mask: NDArray[np.bool_], padding: float = 0.20, minimum: int = 4
) -> NDArray[np.uint8]:
    """Return the (H, W, 3) pixels in the padded box of a mask, those outside the mask in grey.

    It is always a new array; only pixels of the tight box are looked at. An empty mask is refused.

    >>> image, mask = np.zeros((40, 60, 3), np.uint8), np.zeros((40, 60), bool)
    >>> mask[10:20, 30:50] = True
    >>> crop(image, mask).shape
    (18, 28, 3)
    """
    if image.ndim != 3 or image.shape[:2] != mask.shape:
        raise _other_shape(image, mask)
    tight = tight_box(mask)
    if tight is None:
        raise _empty()
    y0, y1, x0, x1 = tight
    top, bottom, left, right = _padded(tight, mask.shape, padding, minimum)
    out = np.full((bottom - top, right - left, image.shape[2]), FILL, dtype=np.uint8)
    inner = out[y0 - top : y1 - top, x0 - left : x1 - left]
    # fill ^ ((pixel ^ fill) & keep) is the pixel where keep is 255 and fill where it is 0: three
    # passes of plain bytes are several times faster than numpy.where with a mask per pixel
    keep = np.negative(np.asarray(mask[y0:y1, x0:x1], dtype=bool).view(np.uint8))
    np.bitwise_xor(image[y0:y1, x0:x1], np.uint8(FILL), out=inner)
    for channel in range(image.shape[2]):
        inner[..., channel] &= keep
    np.bitwise_xor(inner, np.uint8(FILL), out=inner)
    return out


def fit(crop: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Return (size, size, 3): resized without keeping the aspect ratio by Pillow's antialiased
    bilinear filter, as SigLIP's image processors do; rows first, with every version of Pillow.

    >>> fit(np.zeros((18, 28, 3), np.uint8), 224).shape
    (224, 224, 3)
    """
    from PIL import Image

    height, width = crop.shape[:2]
    if (height, width) == (size, size):
        return crop  # Pillow's filter would change nothing
    narrow = Image.fromarray(crop).resize((size, height), Image.Resampling.BILINEAR)
    return np.asarray(narrow.resize((size, size), Image.Resampling.BILINEAR))


def picture(
    frame: NDArray[np.uint8] | Frame,
    mask: NDArray[np.bool_],
    size: int,
    padding: float = 0.20,
    minimum: int = 4,
) -> NDArray[np.uint8]:
    """Return ``fit(crop(image, mask, …), size)`` of an image or a frame, in compiled code where it
    is available: the same bytes, several times faster, and without blocking other threads. Of a
    frame only the object's box is made RGB.

    >>> mask = np.zeros((40, 60), bool)
    >>> mask[10:20, 30:50] = True
    >>> picture(np.zeros((40, 60, 3), np.uint8), mask, 224).shape
    (224, 224, 3)
    """
    small = compiled is not None and max(*frame.shape, size) <= MAX_SIDE
    if not isinstance(frame, np.ndarray) and not (small and frame.shape == mask.shape):
        frame = frame.image
    place = (0, 0, *mask.shape)  # row and column of the part in the frame, the frame's size
    if isinstance(frame, np.ndarray):
        if not small:
            return fit(crop(frame, mask, padding, minimum), size)
        if frame.shape != (*mask.shape, 3):
            raise _other_shape(frame, mask)
        part = frame
    else:
        box = tight_box(mask)
        if box is None:
            raise _empty()
        part, top, left = frame.part(*box)
        place = (top, left, *mask.shape)
        mask = mask[top : top + part.shape[0], left : left + part.shape[1]]
    assert compiled is not None
    out = np.empty((size, size, 3), np.uint8)
    pixels = np.ascontiguousarray(part, dtype=np.uint8)
    inside = np.ascontiguousarray(mask, dtype=bool).view(np.uint8)
    if not compiled.picture(pixels, inside, out, *mask.shape, padding, minimum, FILL, size, *place):
        raise _empty()
    return out


def _other_shape(image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> InputError:
    return InputError(f"the mask has shape {mask.shape}, but the image has shape {image.shape}")


def _empty() -> InputError:
    return InputError("the mask is empty; a frame without the object has no crop")


def tight_box(mask: NDArray[np.bool_]) -> Box | None:
    """Return y0, y1, x0, x1 (half-open) of the pixels of a mask; None if there are none.

    >>> tight_box(np.eye(8, dtype=bool)[2:])
    (0, 6, 2, 8)
    """
    if isinstance(mask, MeasuredArray) and mask.box is not None:
        return mask.box
    if compiled is not None and mask.size and mask.dtype == bool and mask.flags.c_contiguous:
        box: Box | None = compiled.box(mask.view(np.uint8), *mask.shape)
        return box
    rows = np.flatnonzero(mask.any(axis=1))
    if not rows.size:
        return None
    y0, y1 = int(rows[0]), int(rows[-1]) + 1
    columns = np.flatnonzero(mask[y0:y1].any(axis=0))
    return y0, y1, int(columns[0]), int(columns[-1]) + 1


def _padded(box: Box, shape: tuple[int, ...], padding: float, minimum: int) -> Box:
    """Return the box with max(minimum, round(padding · longer side)) pixels more on every side,
    clipped."""
    y0, y1, x0, x1 = box
    margin = max(minimum, round(padding * max(y1 - y0, x1 - x0)))
    top, left = max(0, y0 - margin), max(0, x0 - margin)
    return top, min(shape[0], y1 + margin), left, min(shape[1], x1 + margin)
