"""The tracker of the base install: motion and colour, no learned model. Its masks are approximate.

    light_motion.py    where the pixels of an object went
    light_colour.py    which colours are its own
    light_object.py    both together: one object from frame to frame, lost and found
    light_prompts.py   a box or points → its first mask
    light_regions.py   means, pieces and holes of masks

It works on frames of at most about 360 lines; masks have the size of the frame.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue._version import __version__
from dejacue.errors import InputError
from dejacue.sources.tracks.base import Mask, Prompt, Seen, Session
from dejacue.sources.tracks.light_object import Followed, View, part
from dejacue.sources.tracks.light_prompts import check, shown_by

LINES = 360


class Light:
    """A Tracker. ``lines`` is about the shorter side of the frames it works on, in pixels."""

    name = "light"
    approximate = True
    independent = False  # objects share no pixel

    def __init__(self, *, lines: int = LINES) -> None:
        if not isinstance(lines, int) or lines < 48:
            raise InputError(f"light: lines is {lines!r}; give a whole number, 48 or more")
        self.lines = lines
        self.details: Mapping[str, str] = MappingProxyType(
            {
                "device": "cpu", "lines": str(lines), "version": __version__,
                "method": "block motion and colour histograms",
            }
        )  # fmt: skip

    def session(self) -> Session:
        return LightSession(self.lines)


class LightSession:
    """One pass; see base.Session."""

    def __init__(self, lines: int = LINES) -> None:
        self._lines = lines
        self._size: tuple[int, int] | None = None  # of the frames
        self._before: View | None = None
        self._objects: dict[int, Followed] = {}

    def step(self, image: NDArray[np.uint8], prompts: Sequence[Prompt] = ()) -> Mapping[int, Seen]:
        size = self._check(image)
        for prompt in prompts:
            check(prompt, size)
        factor = max(1, round(min(size) / self._lines))
        view = View(_reduced(image, factor))
        # On copies: where a prompt cannot be used, the session stays as it was.
        objects = {number: followed.copy() for number, followed in self._objects.items()}
        if self._before is not None:
            for followed in objects.values():
                followed.follow(self._before, view)
        given: dict[int, Mask] = {}
        for prompt in prompts:
            known = objects.get(prompt.object)
            objects[prompt.object] = shown_by(view, prompt, factor, known)
            if prompt.mask is not None and not prompt.points:
                given[prompt.object] = prompt.mask
        part(objects, {prompt.object for prompt in prompts})
        for followed in objects.values():
            followed.learn(view)
        self._objects, self._before, self._size = objects, view, size
        seen = {}
        for number, followed in sorted(objects.items()):
            kept = None if followed.lost else given.get(number)
            mask = _enlarged(followed, factor, size) if kept is None else kept
            seen[number] = Seen(mask, followed.presence)
        return seen

    def state(self) -> bytes:
        arrays: dict[str, NDArray[Any]] = {"lines": np.array(self._lines)}
        if self._before is not None:
            arrays["size"] = np.array(self._size)
            arrays["picture"] = self._before.picture
        for number, followed in self._objects.items():
            arrays |= {f"{number}.{name}": value for name, value in followed.arrays().items()}
        stream = io.BytesIO()
        np.savez_compressed(stream, allow_pickle=False, **arrays)
        return stream.getvalue()

    def restore(self, state: bytes) -> None:
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            lines = int(arrays.pop("lines"))
            size = arrays.pop("size", None)
            picture = arrays.pop("picture", None)
            parts: dict[int, dict[str, NDArray[Any]]] = {}
            for name, values in arrays.items():
                number, _, part_name = name.partition(".")
                parts.setdefault(int(number), {})[part_name] = values
            objects = {number: Followed.from_arrays(values) for number, values in parts.items()}
            before = None if picture is None else View(picture)
            frame = None if size is None else (int(size[0]), int(size[1]))
        except (
            ValueError, TypeError, KeyError, IndexError, OSError, EOFError,
            zipfile.BadZipFile, zlib.error,
        ) as error:  # fmt: skip
            raise InputError(
                f"the state is not one of the light tracker, or damaged ({error}); start anew"
            ) from None
        self._lines, self._objects, self._before, self._size = lines, objects, before, frame

    def _check(self, image: NDArray[np.uint8]) -> tuple[int, int]:
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise InputError("a frame must be (height, width, 3) with values from 0 to 255")
        size = (int(image.shape[0]), int(image.shape[1]))
        if self._size is not None and size != self._size:
            raise InputError(
                f"the frame has {size[1]} × {size[0]} pixels, those before {self._size[1]} × "
                f"{self._size[0]}; bring all frames to one size"
            )
        return size


def _reduced(image: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """In YCbCr, with one pixel for factor × factor."""
    from PIL import Image

    picture = Image.fromarray(image)
    if factor > 1:
        picture = picture.reduce(factor)
    return np.array(picture.convert("YCbCr"))


def _enlarged(followed: Followed, factor: int, size: tuple[int, int]) -> Mask:
    """The mask in the size of the frame; its border is drawn through the scores."""
    from PIL import Image

    if factor == 1 or not followed.mask.any():
        return followed.mask.copy() if factor == 1 else np.zeros(size, dtype=bool)
    score = Image.fromarray(np.clip(followed.score, -1, 1))
    wide = (factor * score.width, factor * score.height)
    found: Mask = np.asarray(score.resize(wide, Image.Resampling.BILINEAR)) > 0
    return found[: size[0], : size[1]].copy()
