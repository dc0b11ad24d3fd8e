"""Masks: for one frame, the union of each lineage of objects at the frame's size."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, counted
from dejacue.sources.masks._matching import Matching
from dejacue.sources.masks.reader import Objects, Rows, resize_nearest

if TYPE_CHECKING:
    from dejacue.sources.video import Frame


class Coverage:
    """Counts frames with and without a mask, and masks without a frame, in the last pass.

    complete   whether the source has a row for a frame without objects, too; if not, a frame
               without a row says nothing

    Frames come in their order; one that does not come after the last starts a new pass.
    """

    def __init__(self, matching: Matching, complete: bool) -> None:
        self._matching, self._complete = matching, complete
        self._begin()

    def _begin(self) -> None:
        self.frames, self.matched, self.last = 0, 0, -1
        self.unsampled = True  # as far as known: an early end of sampling is not noticed
        self._used = bytearray(len(self._matching.keys))
        self._first_missing: int | None = None

    def count(self, frame: Frame, row: int | None) -> None:
        if frame.index <= self.last:
            self._begin()
        self.last = frame.index
        self.frames += 1
        self.unsampled = self.unsampled and frame.index == frame.source
        if row is not None:
            self.matched += 1
            self._used[row] = 1
        elif self._first_missing is None:
            self._first_missing = frame.source

    def problems(self) -> list[str]:
        """Warnings, one sentence each."""
        rows, unused = len(self._used), self._used.count(0)
        found = []
        if self._complete and self.frames and 2 * self.matched <= self.frames:
            few = f"only {self.matched}" if self.matched else "none"
            has = "has" if self.matched < 2 else "have"
            found.append(f"{few} of {counted(self.frames, 'frame')} {has} a mask")
        if self.frames and self.unsampled and 2 * unused > rows:
            belong = "belongs" if unused == 1 else "belong"
            found.append(
                f"{unused} of {counted(rows, 'mask')} {belong} to no frame that was read; check "
                "that they are for this video, and --end"
            )
        if not found and self._one_apart(unused):
            found.append(
                "the masks are numbered from 1 and the frames from 0, so the last mask is "
                'unused; if the first mask belongs to the first frame, choose the match "index" '
                "(--set match=…)"
            )
        return found

    def _one_apart(self, unused: int) -> bool:
        """Names alike, but all of them one apart: 00000 … 00084 and 00001 … 00085."""
        return (
            self._matching.match == "auto"
            and self.unsampled
            and unused == 1
            and self._first_missing == 0
            and self.matched == self.frames - 1
            and self._matching.counted_from_one
        )


SHOWN_IDS = 9  # in a sentence
STRETCH = 0.02  # by how much the shape of a mask may differ from that of its frame


class Masks:
    """The masks of one video. Made by ``open_masks``.

    path   as it was given
    kind   indexed, binary, youtube-vos, stack, coco, boxes, or logits:NUMBER
    match  how frames find their masks: auto, stem, source, one-based or index
    """

    def __init__(
        self, path: Path, kind: str, rows: Rows, match: str, frames: int | None = None
    ) -> None:
        self.path, self.kind, self.match = path, kind, match
        self._rows = rows
        self._matching = Matching(rows.keys, match, str(path), frames)
        self._coverage = Coverage(self._matching, rows.complete)
        self._found: set[int] = set()  # ids that are known to occur
        self._looked = 0  # rows whose ids are among the found
        self._asked: list[str] = []  # the first two frames, for an example
        self._matched = False
        self._resized: list[str] = []  # a sentence about the first one
        self._one = False

    def __len__(self) -> int:
        """For how many frames there are masks."""
        return len(self._rows.keys)

    @cached_property
    def key(self) -> str:
        """Changes when what the files hold, their kind or the matching do; independent of where
        they lie and of when they were written: masks that are tracked again are the same ones."""
        digest = hashlib.sha256(f"{self.kind}\0{self.match}{self._rows.content}".encode())
        for path in self._rows.files:
            with open(path, "rb") as stream:
                held = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"\0{path.name}\0{held}".encode())
        return digest.hexdigest()

    @property
    def in_memory(self) -> bool:
        """Whether they were given as they are, not by a path."""
        return not self._rows.files

    def thinned(self, every: int) -> Masks:
        """The same masks for every n-th of the frames that they are for (``Video.thinned``)."""
        if every == 1:
            return self
        made = copy.copy(self)
        made._matching = copy.copy(self._matching)
        made._matching.every = every
        made._coverage = Coverage(made._matching, self._rows.complete)
        return made

    def ids(self) -> tuple[int, ...]:
        """All object ids, ascending. Looks through all masks where the source lists no ids."""
        self._look_for(None)
        return tuple(sorted(self._found))

    def check_one_object(self) -> None:
        """Refuses masks of several objects: at once, as far as no mask has to be decoded twice for
        it, else as soon as a second one is seen in ``unions``."""
        self._one = True
        self._look_for(None, once=True)
        if len(self._found) > 1:
            raise self._several()

    def _several(self) -> InputError:
        there = sorted(self._found)
        names = ", ".join(map(str, there[:SHOWN_IDS])) + (", …" if len(there) > SHOWN_IDS else "")
        first, second = there[:2]
        return InputError(
            f"{self.path}: holds the objects {names}; choose one with --object {first} "
            f"(objects=[{first}]), join pieces of one with --object {first}+{second}, or take "
            f"several with --objects {first},{second} or --objects all (find_each)"
        )

    def unions(
        self, frame: Frame, lineages: Sequence[frozenset[int] | None]
    ) -> list[NDArray[np.bool_] | None]:
        """For each lineage the (H, W) union of its ids in this frame; None as lineage: any object.

        None where the object is not observed: no mask for this frame, or an empty one. An id that
        occurs in no mask is refused, and the ids that do are listed.
        """
        self._require(one for lineage in lineages if lineage is not None for one in lineage)
        row = self._matching.row(frame)
        self._coverage.count(frame, row)
        if len(self._asked) < 2:
            self._asked.append(frame.name or str(frame.source))
        if row is None:
            return [None] * len(lineages)
        self._matched = True
        shape = frame.shape
        return [self._union(row, shape, lineage) for lineage in lineages]

    @property
    def problems(self) -> list[str]:
        """Sentences about the last pass, where masks and frames do not seem to belong together:
        half of the frames have no mask (an empty one is ordinary), or most masks no frame; and
        where masks of another size were made to fit."""
        return [f"{self.path}: {text}" for text in (*self._coverage.problems(), *self._resized)]

    def check_matched(self) -> None:
        """After a pass: refuses masks that belong to none of the frames."""
        if self._asked and not self._matched:
            raise self._matching.other_frames(self._asked)

    def _union(
        self, row: int, shape: tuple[int, int], lineage: frozenset[int] | None
    ) -> NDArray[np.bool_] | None:
        objects = self._rows.read(row, shape, lineage)
        if self._one and lineage is None:
            self._found |= self._rows.ids_of(row)
            if len(self._found) > 1:
                raise self._several()
        if lineage is not None:
            objects = {one: objects[one] for one in lineage if one in objects}
        return self._united(objects, row, shape)

    def _united(
        self, objects: Objects, row: int, shape: tuple[int, int]
    ) -> NDArray[np.bool_] | None:
        union: NDArray[np.bool_] | None = None
        for mask in objects.values():
            mask = mask if mask.shape == shape else self._fitted(mask, row, shape)
            union = mask if union is None else union | mask
        return union if union is not None and union.any() else None

    def _fitted(
        self, mask: NDArray[np.bool_], row: int, shape: tuple[int, int]
    ) -> NDArray[np.bool_]:
        (height, width), (own_height, own_width) = shape, mask.shape
        label = self._matching.label(row)
        sizes = f"{label} is {own_width}×{own_height}, but the frame is {width}×{height}"
        if abs(own_width * height / (own_height * width) - 1) > STRETCH:
            raise InputError(
                f"{self.path}: {sizes}, a different aspect ratio; give the masks of this video"
            )
        if not self._resized:
            self._resized = [f"{sizes}; masks are resized to the frames (nearest pixel)"]
        return resize_nearest(mask, shape)

    def _require(self, wanted: Iterable[int]) -> None:
        missing = set(wanted) - self._found
        if missing:
            self._look_for(missing)
            missing -= self._found
        if missing:
            held = ", ".join(map(str, sorted(self._found))) or "none"
            absent = ", ".join(map(str, sorted(missing)))
            raise InputError(
                f"{self.path}: has no object {absent}; the ids in these masks are {held}"
            )

    def _look_for(self, wanted: set[int] | None, once: bool = False) -> None:
        """Look through the rows, each once, until the wanted ids (None: all) are found; ``once``:
        or until rows would have to be decoded again."""
        known = self._rows.known_ids()
        if known is not None:
            self._found |= known
            return
        while self._looked < len(self) and (wanted is None or wanted - self._found):
            if once and not self._rows.keeps():
                return
            self._found |= self._rows.ids_of(self._looked)
            self._looked += 1
