"""Masks: for one frame, the union of each group of objects at the frame's size.

``Matching`` finds which mask belongs to a frame: by file stem, by source ordinal, or by position in
the sample. Nothing is guessed: where two interpretations of the numbers give a frame different
masks, the error explains both and asks the user to choose.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dejacue.errors import InputError, counted, shortened, unknown
from dejacue.masks.reader import Keys, Mask, Rows, resize_nearest
from dejacue.records import Note, Window

if TYPE_CHECKING:
    from dejacue.video.video import Frame

MaskIds = frozenset[int] | None  # ids that are one object; None: whatever the mask shows
MATCHES = ("auto", "stem", "source", "one-based", "index")
CHOOSE = "choose the setting match=source or match=index"
CHOOSE_START = "choose the setting match=source (from 0) or match=index (from 1)"
RENAME_OR_STEM = "rename it, or choose the setting match=stem if frames have the same names"
CHOOSE_ANY = "choose the setting match=source, match=one-based or match=index"
MAX_NAME_LETTERS = 255  # of a file whose name is searched for numbers
MAX_LISTED_IDS = 9  # in a sentence
MAX_STRETCH = 0.02  # by which the aspect ratio of a mask may differ from that of its frame
_DIGITS = re.compile(r"\d+")


class Matching:
    """Finds the row of each frame.

    stem       the name of the row is the name of the frame
    source     the number of the row is the ordinal of the frame in its source, counted from 0
    one-based  the same, counted from 1
    index      the number of the row is the position of the frame in the sampled sequence; file
               names may start anywhere and count in steps: the first belongs to the first frame
    auto       stem where names of that form are given; else source and index, which must agree.
               Masks numbered exactly 1 … n for frames 0, 1, … count from one; when a frame n comes
               as well, they may count from 0 and that is said.

    frames     how many frames are to be expected, if it is known: with n frames named from 0 on,
               masks named 1 … n count from one, too; and more masks than frames of a video file
               are numbered as the frames of the file
    """

    def __init__(self, keys: Keys, match: str, path: Path, frames: int | None = None) -> None:
        if match not in MATCHES:
            raise unknown("match", match, MATCHES)
        self.keys, self.match, self.path, self.frames = keys, match, path, frames
        names = keys.names or ()
        if long := next((name for name in names if len(name) > MAX_NAME_LETTERS), None):
            remedy = f"names have at most {MAX_NAME_LETTERS} characters"
            raise InputError(f'{path}: a mask is named "{shortened(long)}"; {remedy}')
        self.step = 1  # of the frames that are meant, one of so many is looked at
        self._stems = {name: row for row, name in enumerate(names)}
        if len(self._stems) < len(names):
            twice = next(name for row, name in enumerate(names) if self._stems[name] != row)
            raise InputError(f'{path}: two masks are named "{twice}"; keep one')
        self._forms = {_form(name) for name in names}
        if match == "stem" and not names:
            raise self._refusal(f"these masks have no names; {CHOOSE}")

    def _refusal(self, problem: str) -> InputError:
        """Return the error of masks for which another match may be chosen."""
        return InputError(f"{self.path}: {problem}")

    def row(self, frame: Frame) -> int | None:
        """Return the row of this frame, or None if it has no mask."""
        if self.match == "stem" and frame.name is None:
            raise self._refusal(f"frames of a video file have no names to match; {CHOOSE}")
        if self.match == "stem":
            return self._stems.get(frame.name or "")
        if self.match == "source":
            return self.sources.get(frame.source)
        if self.match == "one-based":
            return self.sources.get(frame.source + 1)
        if self.match == "index":
            return self.positions.get(frame.index * self.step)
        if frame.name is not None:
            if _form(frame.name) in self._forms:
                return self._named(frame, frame.name)
            if self.keys.names and not any(map(_DIGITS.search, self.keys.names)):
                raise self._refusal(
                    f"the masks are named {_examples(self.keys.names)}, but the frames "
                    f'"{frame.name}" and so on; use the same names, or choose the setting '
                    "match=index to take them in order"
                )
        return self._numbered(frame)

    def label(self, row: int | None) -> str:
        """Return what a row is called in a sentence."""
        if row is None:
            return "no mask"
        if self.keys.names:
            return f'mask "{self.keys.names[row]}"'
        assert self.keys.numbers is not None
        return f"mask {self.keys.numbers[row]}"

    @cached_property
    def sources(self) -> dict[int, int]:
        """Return the row of each number that a row carries."""
        numbers: Sequence[int] | None = self.keys.numbers
        if numbers is None:
            numbers = _numbers(self.keys.names or (), self.path)
        rows = {number: row for row, number in enumerate(numbers)}
        if len(rows) < len(numbers):
            row = next(row for row, number in enumerate(numbers) if rows[number] != row)
            both = f"{self.label(row)} and {self.label(rows[numbers[row]])}"
            raise InputError(f"{self.path}: {both} have the same number; keep one for each frame")
        return rows

    @cached_property
    def positions(self) -> dict[int, int]:
        """Return the row of each position; numbers in names are counted from the first and in their
        own steps, so that a missing file leaves a gap instead of moving all that follow."""
        if self.keys.numbers is not None and self.keys.firm:
            return self.sources
        if self.keys.numbers is None and not any(map(_DIGITS.search, self.keys.names or ())):
            return {row: row for row in range(len(self.keys))}
        first = min(self.sources)
        step = math.gcd(*(number - first for number in self.sources)) or 1
        return {(n - first) // step: row for n, row in self.sources.items()}

    @cached_property
    def counted_from_one(self) -> bool:
        """Return whether the rows are numbered exactly 1 … n, so that n frames could be meant."""
        if self.keys.numbers is not None and self.keys.firm:
            return False
        with contextlib.suppress(InputError):
            return min(self.sources) == 1 and max(self.sources) == len(self.keys)
        return False

    def _named(self, frame: Frame, name: str) -> int | None:
        """Return the row whose name is the frame's; 7 is 007."""
        if (
            self.frames == len(self.keys)
            and self.counted_from_one
            and frame.source in map(int, _DIGITS.findall(name))  # so the frames count from 0
        ):
            return self._numbered(frame)
        return self._stems.get(name, self._by_name_without_zeros.get(_without_zeros(name)))

    @cached_property
    def _by_name_without_zeros(self) -> dict[tuple[str | int, ...], int]:
        """Return the row of each name without leading zeros; names of two masks are left out."""
        rows: dict[tuple[str | int, ...], list[int]] = {}
        for row, name in enumerate(self.keys.names or ()):
            rows.setdefault(_without_zeros(name), []).append(row)
        return {name: same[0] for name, same in rows.items() if len(same) == 1}

    def _numbered(self, frame: Frame) -> int | None:
        at = frame.index * self.step
        source, index = self.sources.get(frame.source), self.positions.get(at)
        if self.counted_from_one and at == frame.source:
            if frame.source >= len(self.keys):
                count = len(self.keys)
                raise self._refusal(
                    f"the masks are numbered 1 to {count}, but there are more than {count} frames, "
                    f"so the numbers may start at 0 or at 1; {CHOOSE_START}"
                )
            return index
        if source == index:
            return source
        surplus = self.frames is not None and len(self.keys) > self.frames
        if surplus and frame.name is None and not self.counted_from_one:
            return source
        remedy = CHOOSE_ANY if min(self.sources) == 1 and at != frame.source else CHOOSE
        raise self._refusal(
            f"the numbers of the masks are ambiguous: as frames of the source, where sampled frame "
            f"{at} (source frame {frame.source}) has {self.label(source)}, or as positions in the "
            f"sampled sequence, where it has {self.label(index)}; {remedy}"
        )

    def other_frames(self, seen: Sequence[str]) -> InputError:
        """Return the error for masks of which none belongs to any frame, with examples of both."""
        masks = _examples(self.keys.names or [str(number) for number in self.keys.numbers or ()])
        return self._refusal(
            f"no mask belongs to any of these frames: the masks are named {masks}, the frames "
            f"{_examples(seen)}; give the masks of this video, or choose another setting than "
            f"match={self.match}"
        )


def _form(name: str) -> str:
    """Return a name without its numbers: frames and masks that are named alike share it."""
    return _DIGITS.sub("0", name)


def _without_zeros(name: str) -> tuple[str | int, ...]:
    return (_form(name), *map(int, _DIGITS.findall(name)))


def _examples(names: Sequence[str]) -> str:
    ellipsis = ", …" if len(names) > 2 else ""
    return ", ".join(f'"{name}"' for name in names[:2]) + ellipsis


def _numbers(names: Sequence[str], path: Path) -> list[int]:
    """Return the number in each name: of several, the one in which the names differ."""
    groups = [_DIGITS.findall(name) for name in names]
    for name, numbers in zip(names, groups, strict=True):
        if not numbers:
            problem = f'mask "{name}" has no number in its name that could be a frame'
            raise InputError(f"{path}: {problem}; {RENAME_OR_STEM}")
        if len(numbers) != len(groups[0]):
            patterns = f'the masks "{names[0]}" and "{name}" follow different naming patterns'
            problem = f"{patterns}, so their frame numbers are ambiguous"
            raise InputError(f"{path}: {problem}; name all masks the same way")
    columns = list(zip(*groups, strict=True))
    differ = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    if len(differ) > 1:
        differing = f"{_examples(names)} differ in {len(differ)} numbers"
        problem = f"{differing}, so the frame number is ambiguous"
        raise InputError(f"{path}: {problem}; keep one mask file per frame, with all its objects")
    return [int(number) for number in differ[0]]


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
        """Return warnings, one sentence each."""
        rows, unused = len(self._used), self._used.count(0)
        sentences = []
        if self._complete and self.frames and 2 * self.matched <= self.frames:
            few = f"only {self.matched}" if self.matched else "none"
            has = "has" if self.matched < 2 else "have"
            sentences.append(f"{few} of {counted(self.frames, 'frame')} {has} a mask")
        if self.frames and self.unsampled and 2 * unused > rows:
            belong = "belongs" if unused == 1 else "belong"
            sentences.append(
                f"{unused} of {counted(rows, 'mask')} {belong} to no frame that was read; check "
                "that they are for this video, and where it ends"
            )
        one_apart = (  # names alike: 00000 … 00084 and 00001 … 00085
            self._matching.match == "auto"
            and self.unsampled
            and unused == 1
            and self._first_missing == 0
            and self.matched == self.frames - 1
            and self._matching.counted_from_one
        )
        if not sentences and one_apart:
            sentences.append(
                "the masks are numbered from 1 and the frames from 0, so the last mask is "
                "unused; if the first mask belongs to the first frame, choose the setting "
                "match=index"
            )
        return sentences


class Masks:
    """The masks of one video, as ``open_masks`` opens them.

    path   as it was given
    kind   indexed, binary, youtube-vos, stack, coco, boxes, or logits:NUMBER
    match  how frames find their masks: auto, stem, source, one-based or index

    >>> from dejacue import open_masks
    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> masks = open_masks(scene / "Annotations")
    >>> masks.kind, masks.match, masks.ids()
    ('indexed', 'auto', (1,))

    What ``locate_object`` says of them:

    objects    the id of a history → the mask ids that are its pieces (None: all)
    notes      what a reader must know of how they were made
    tracker    what made them; None: they were given, and not made by dejacue
    doubts     by history, where the tracker may be wrong, in frames of the file
    presence   by history, how sure the tracker was, by frame of the file
    temporary  whether their files go when nothing reads them any more
    """

    objects: Mapping[str, MaskIds] = {}
    notes: tuple[Note, ...] = ()
    tracker: str | None = None
    doubts: Mapping[str, tuple[tuple[Window, str], ...]] = {}
    presence: Mapping[str, Mapping[int, float]] = {}
    temporary = False

    def __init__(
        self, path: Path, kind: str, rows: Rows, match: str, frames: int | None = None
    ) -> None:
        self.path, self.kind, self.match = path, kind, match
        self.rows = rows
        self._matching = Matching(rows.keys, match, path, frames)
        self._coverage = Coverage(self._matching, rows.complete)
        self._known: set[int] = set()  # ids that occur, as far as rows were looked at
        self._looked = 0  # rows whose ids are known
        self._first_frames: list[str] = []  # two of them, for an example
        self._matched = False
        self._resized: list[str] = []  # a sentence about the first that is
        self._single = False  # several objects are refused

    def __len__(self) -> int:
        """Return for how many frames there are masks."""
        return len(self.rows.keys)

    @cached_property
    def key(self) -> str:
        """Return a hash of what the files hold, their kind and the matching; independent of where
        they lie and of when they were written: masks that are tracked again are the same ones."""
        digest = hashlib.sha256(f"{self.kind}\0{self.match}{self.rows.content}".encode())
        for path in self.rows.files:
            with open(path, "rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"\0{path.name}\0{content}".encode())
        return digest.hexdigest()

    @property
    def in_memory(self) -> bool:
        """Return whether they were given as they are, not by a path."""
        return not self.rows.files

    def described(self, **known: Any) -> Masks:
        """Return the same masks with what is known of them: objects, notes, tracker, …"""
        described = copy.copy(self)
        vars(described).update(known)
        return described

    def thinned(self, step: int) -> Masks:
        """Return the same masks for every n-th of their frames (``Video.thinned``)."""
        if step == 1:
            return self
        thinned = copy.copy(self)
        thinned._matching = copy.copy(self._matching)
        thinned._matching.step = step
        thinned._coverage = Coverage(thinned._matching, self.rows.complete)
        return thinned

    def ids(self) -> tuple[int, ...]:
        """Return all object ids, ascending; looks through all masks if the source lists no ids."""
        self._look_for(None)
        return tuple(sorted(self._known))

    def check_one_object(self) -> None:
        """Refuse masks of several objects: at once, as far as no mask has to be decoded twice for
        it, else as soon as a second one is seen in ``unions``."""
        self._single = True
        self._look_for(None, once=True)
        if len(self._known) > 1:
            raise self._several()

    def _several(self) -> InputError:
        ids = sorted(self._known)
        ellipsis = ", …" if len(ids) > MAX_LISTED_IDS else ""
        names = ", ".join(map(str, ids[:MAX_LISTED_IDS])) + ellipsis
        first, second = ids[:2]
        return InputError(
            f"{self.path}: holds the objects {names}; choose one (objects {first}), join pieces of "
            f"one (objects {first}+{second}), or take several with a history each (objects "
            f"{first},{second} or all)"
        )

    def unions(self, frame: Frame, groups: Sequence[frozenset[int] | None]) -> list[Mask | None]:
        """Return for each group the (H, W) union of its ids in this frame; a group None is any
        object.

        A union is None where the object is not observed: no mask for this frame, or an empty one.
        An id that occurs in no mask is refused, and the ids that do are listed.
        """
        self._require(id for mask_ids in groups if mask_ids is not None for id in mask_ids)
        row = self._matching.row(frame)
        self._coverage.count(frame, row)
        if len(self._first_frames) < 2:
            self._first_frames.append(frame.name or str(frame.source))
        if row is None:
            return [None] * len(groups)
        self._matched = True
        return [self._union(row, frame.shape, mask_ids) for mask_ids in groups]

    @property
    def problems(self) -> list[str]:
        """Return sentences about the last pass, if masks and frames do not seem to belong together:
        half of the frames have no mask (an empty one is ordinary), or most masks no frame; and
        where masks of another size were made to fit."""
        return [
            f"{self.path}: {text}"
            for text in (*self._coverage.problems(), *self._resized, *self.rows.notes)
        ]

    def check_matched(self) -> None:
        """Refuse, after a pass, masks that belong to none of the frames."""
        if self._first_frames and not self._matched:
            raise self._matching.other_frames(self._first_frames)

    def _union(
        self, row: int, shape: tuple[int, int], mask_ids: frozenset[int] | None
    ) -> Mask | None:
        objects = self.rows.read(row, shape, mask_ids)
        if self._single and mask_ids is None:
            self._known |= self.rows.ids_of(row)
            if len(self._known) > 1:
                raise self._several()
        union: Mask | None = None
        for id in objects if mask_ids is None else mask_ids & objects.keys():
            mask = objects[id]
            mask = mask if mask.shape == shape else self._fitted(mask, row, shape)
            union = mask if union is None else union | mask
        if union is None or not (getattr(union, "box", None) or union.any()):
            return None
        return union

    def _fitted(self, mask: Mask, row: int, shape: tuple[int, int]) -> Mask:
        (height, width), (mask_height, mask_width) = shape, mask.shape
        label = self._matching.label(row)
        sizes = f"{label} is {mask_width}×{mask_height}, but the frame is {width}×{height}"
        if abs(mask_width * height / (mask_height * width) - 1) > MAX_STRETCH:
            problem = f"{sizes}, a different aspect ratio"
            raise InputError(f"{self.path}: {problem}; give the masks of this video")
        if not self._resized:
            self._resized = [f"{sizes}; masks are resized to the frames (nearest pixel)"]
        return resize_nearest(mask, shape)

    def _require(self, ids: Iterable[int]) -> None:
        missing = set(ids) - self._known
        if missing:
            self._look_for(missing)
            missing -= self._known
        if missing:
            absent = ", ".join(map(str, sorted(missing)))
            remedy = f"the ids in these masks are {', '.join(map(str, self.ids())) or 'none'}"
            raise InputError(f"{self.path}: has no object {absent}; {remedy}")

    def _look_for(self, ids: set[int] | None, once: bool = False) -> None:
        """Look through the rows, each once, until these ids (None: all) are known; ``once``: or
        until rows would have to be decoded again."""
        known = self.rows.known_ids()
        if known is not None:
            self._known |= known
            return
        while self._looked < len(self) and (ids is None or ids - self._known):
            if once and not self.rows.has_room():
                return
            self._known |= self.rows.ids_of(self._looked)
            self._looked += 1


def object_groups(objects: Any) -> list[list[int]]:
    """Return the ids of each object, in the order given: from text as above, or from Python, an id,
    ids that are the pieces of one object, or a list of these for each of several."""
    groups: list[list[Any]] = []
    if isinstance(objects, str):
        quoted = f'"{shortened(objects, 40)}"'
        with contextlib.suppress(ValueError):
            groups = [[int(id) for id in part.split("+")] for part in objects.split(",")]
    else:
        quoted = f"{objects!r:.40}"
        values = list(objects) if isinstance(objects, Iterable) else [objects]
        if values and all(map(is_id, values)):
            values = [values]
        groups = [list(value) if isinstance(value, Iterable) else [value] for value in values]
    ids = [id for group in groups for id in group]
    if not ids or not all(groups) or not all(map(is_id, ids)):
        raise InputError(
            f"objects {quoted}: give at least one mask id: one (1), several (1,2), the pieces of "
            'one (1+2), or "all"'
        )
    if len(set(ids)) < len(ids):
        raise InputError(f"objects {quoted}: an id appears twice; each id belongs to one object")
    return [[int(id) for id in group] for group in groups]


def object_name(ids: Iterable[int]) -> str:
    """Return what one of several objects is called after the name of its video."""
    return "+".join(map(str, ids))


def is_id(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
