"""The notes beside masks that were tracked: by which tracker, from which prompts, how sure, and
where to look.

``track.json`` inside a folder of masks; ``x.npz.track.json`` beside ``x.npz``, and so for .json.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dejacue.errors import InputError
from dejacue.sources.documents import (
    as_json,
    check_document,
    check_keys,
    named,
    read_json,
    whole_number,
    write_document,
)
from dejacue.sources.masks.rle import decode_rle
from dejacue.sources.masks.write import pack
from dejacue.sources.tracks.base import Prompt
from dejacue.sources.tracks.doubts import KINDS, Doubt
from dejacue.sources.tracks.prompts import Given, Lineages

KIND = "dejacue.track/"
SCHEMA = f"{KIND}1"
MATCHES = ("source", "stem")
_HEAD = (
    "tracker", "approximate", "details", "video", "video_key", "masks", "match", "size", "presence",
    "backward", "lineages", "prompts", "frames", "times_s", "names",
)  # fmt: skip
_OBJECT = ("id", "key", "seen", "cut", "presence", "doubts")


@dataclass(frozen=True, eq=False)
class Follow:
    """One object. ``key`` changes with all that its masks depend on.

    seen       in how many frames it is, in the masks as they were written
    cut        in how many frames others cover some of it, in a folder: one object a pixel
    presence   for each frame, None where the tracker had not met it yet
    doubts     in frames of the file
    """

    key: str
    seen: int
    cut: int
    presence: tuple[float | None, ...]
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, eq=False)
class Notes:
    """All notes of one file or folder of masks.

    video_key        changes with the video and with which of its frames are looked at
    match            how open_masks finds the mask of a frame: "source" or "stem"
    size             (height, width) of the frames
    presence         below it an object counts as not seen
    lineages         the first id of an object and the ids of all its pieces
    prompts          as they were given, in frames of the file
    frames, times_s, names   of the file, for each frame that was looked at
    """

    tracker: str
    approximate: bool
    details: Mapping[str, str]
    video: str
    video_key: str
    masks: str
    match: str
    size: tuple[int, int]
    presence: float
    backward: bool
    lineages: Lineages
    prompts: tuple[Given, ...]
    frames: tuple[int, ...]
    times_s: tuple[float, ...] | None
    names: tuple[str, ...] | None
    objects: Mapping[int, Follow]

    @property
    def shown(self) -> Lineages:
        """The lineages, of ids that are in the masks."""
        seen = {
            root: tuple(one for one in pieces if one in self.objects and self.objects[one].seen)
            for root, pieces in self.lineages.items()
        }
        return {root: pieces for root, pieces in seen.items() if pieces}

    @property
    def problems(self) -> list[str]:
        """Sentences about how the tracker worked, and what is not, or not wholly, in the masks."""
        found = [f"{self.tracker}: {self.details['note']}"] if "note" in self.details else []
        for one, own in self.objects.items():
            if own.cut:
                left = f"in {own.cut} frames" if own.seen else "throughout, and nothing is left"
                found.append(
                    f"object {one} lies under others {left}: these masks hold one object a pixel, "
                    "the lower number; .npz keeps overlapping objects whole"
                )
            elif not own.seen:
                found.append(f"object {one} never appears; check its prompt, or lower --presence")
        return found

    def presence_of(self, objects: Iterable[int] | None = None) -> dict[int, float]:
        """By frame of the file, how sure the tracker was of the pieces together: of the surest.

        objects   ids; None: all
        """
        chosen = [self.objects[one] for one in objects or self.objects if one in self.objects]
        found: dict[int, float] = {}
        for own in chosen:
            for frame, value in zip(self.frames, own.presence, strict=True):
                if value is not None:
                    found[frame] = max(value, found.get(frame, 0.0))
        return found

    def doubts_of(self, objects: Iterable[int] | None = None) -> list[tuple[int, Doubt]]:
        """The object and the doubt, in the order of frames; ``objects`` as above."""
        chosen = [one for one in objects or self.objects if one in self.objects]
        found = [(one, doubt) for one in chosen for doubt in self.objects[one].doubts]
        return sorted(found, key=lambda item: (item[1].first, item[0]))

    def time_s(self, frame: int) -> float | None:
        """The second of a frame of the file."""
        if self.times_s is None or frame not in self.frames:
            return None
        return self.times_s[self.frames.index(frame)]


def notes_path(masks: str | os.PathLike[str]) -> Path:
    """Where the notes of these masks lie."""
    path = Path(masks)
    if path.is_dir() or not path.suffix:
        return path / "track.json"
    return path.with_name(f"{path.name}.track.json")


def has_notes(masks: str | os.PathLike[str]) -> bool:
    """Whether notes of ours lie there, sound or not; another's track.json is none."""
    path = notes_path(masks)
    return path.is_file() and KIND.encode() in path.read_bytes()


def match_of(masks: str | os.PathLike[str]) -> str | None:
    """How open_masks finds the mask of a frame; None where the masks were not tracked."""
    notes = read_notes(masks)
    return None if notes is None else notes.match


def read_notes(masks: str | os.PathLike[str]) -> Notes | None:
    """The notes of a file or folder of masks; None where there are none of ours."""
    if not has_notes(masks):
        return None
    path = notes_path(masks)
    document = read_json(path)
    with named(str(path)):
        try:
            return _notes(document)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"is not what dejacue track writes ({error}); remove it, or track again"
            ) from None


def write_notes(masks: str | os.PathLike[str], notes: Notes) -> Path:
    """Write the notes of a file or folder of masks, which is there."""
    head: dict[str, Any] = {name: getattr(notes, name) for name in _HEAD}
    head["details"] = dict(notes.details)
    head["lineages"] = list(notes.lineages.values())
    head["prompts"] = [_written(given) for given in notes.prompts]
    rows = [
        {"id": one, **asdict(own), "doubts": [asdict(doubt) for doubt in own.doubts]}
        for one, own in notes.objects.items()
    ]
    return write_document(
        notes_path(masks), {"schema": SCHEMA, **head}, "objects", map(as_json, rows)
    )


def given(prompts: Sequence[Prompt], sources: Mapping[int, int]) -> tuple[Given, ...]:
    """Prompts as they are noted: in frames of the file.

    sources   by position
    """
    found = []
    for own in prompts:
        frame = sources[own.frame]
        if own.box is not None:
            found.append(Given(own.object, frame, box=own.box))
        found += [Given(own.object, frame, point=point) for point in own.points]
        if own.mask is not None:
            found.append(Given(own.object, frame, mask=own.mask))
    return tuple(found)


def _written(own: Given) -> dict[str, Any]:
    row: dict[str, Any] = {"object": own.object, "frame": own.frame}
    if own.box is not None:
        row["box"] = own.box
    if own.point is not None:
        row["point"] = own.point
    if own.mask is not None:
        assert isinstance(own.mask, np.ndarray)
        row["mask"] = pack(own.mask)
    return row


def _notes(document: Any) -> Notes:
    check_document(document, SCHEMA, (*_HEAD, "objects"), complete=True)
    values = {name: document[name] for name in _HEAD}
    for name in ("tracker", "video", "video_key", "masks"):
        _check(name, values[name], lambda value: isinstance(value, str))
    for name in ("approximate", "backward"):
        _check(name, values[name], lambda value: isinstance(value, bool))
    _check("match", values["match"], lambda value: value in MATCHES)
    _check("details", values["details"], lambda value: isinstance(value, dict))
    frames = tuple(whole_number(frame, "frames:") for frame in values["frames"])
    values["frames"] = frames
    for name in ("times_s", "names"):
        if values[name] is not None:
            _check(name, values[name], lambda value: len(value) == len(frames))
            values[name] = tuple(values[name])
    height, width = (whole_number(side, "size:") for side in values["size"])
    values["size"] = (height, width)
    values["presence"] = float(values["presence"])
    pieces = [tuple(whole_number(one, "lineages:") for one in own) for own in values["lineages"]]
    values["lineages"] = {own[0]: own for own in pieces if own}
    values["prompts"] = tuple(_given(row) for row in values["prompts"])
    return Notes(**values, objects=dict(_object(row, len(frames)) for row in document["objects"]))


def _check(name: str, value: Any, holds: Callable[[Any], bool]) -> None:
    if not holds(value):
        raise InputError(f"{name} cannot be {value!r:.40}; track again")


def _object(row: Any, frames: int) -> tuple[int, Follow]:
    check_keys(row, _OBJECT, complete=True)
    with named(f"object {row['id']!r:.20}"):
        presence = tuple(None if value is None else float(value) for value in row["presence"])
        _check("presence", presence, lambda value: len(value) == frames)
        _check("key", row["key"], lambda value: isinstance(value, str))
        doubts = []
        for doubt in row["doubts"]:
            check_keys(doubt, ("kind", "first", "last", "text"), complete=True)
            _check("kind", doubt["kind"], lambda value: value in KINDS)
            _check("text", doubt["text"], lambda value: isinstance(value, str))
            first, last = (whole_number(doubt[name], name) for name in ("first", "last"))
            doubts.append(Doubt(doubt["kind"], first, last, doubt["text"]))
        seen, cut = (whole_number(row[name], name) for name in ("seen", "cut"))
        own = Follow(row["key"], seen, cut, presence, tuple(doubts))
        return whole_number(row["id"], "id"), own


def _given(row: Any) -> Given:
    check_keys(row, ("object", "frame", "box", "point", "mask"))
    box, point, mask = row.get("box"), row.get("point"), row.get("mask")
    if box is not None:
        x0, y0, x1, y1 = map(float, box)
        box = (x0, y0, x1, y1)
    if point is not None:
        x, y, inside = point
        point = (float(x), float(y), bool(inside))
    return Given(
        whole_number(row.get("object"), "object"), whole_number(row.get("frame"), "frame"),
        box, point, None if mask is None else decode_rle(mask),
    )  # fmt: skip
