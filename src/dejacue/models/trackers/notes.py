"""The notes beside masks that were tracked: by which tracker, from which prompts, how sure, and
where to look.

``track.json`` inside a folder of masks; ``x.npz.track.json`` beside ``x.npz``, and so for .json.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dejacue.atomic import write_bytes
from dejacue.errors import InputError, first_line
from dejacue.masks.rle import decode_rle, pack
from dejacue.models.trackers.base import Prompt
from dejacue.models.trackers.doubts import Doubt

KIND = "dejacue.track/"
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class TrackedObject(msgspec.Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """Notes what is known of one object. ``key`` changes with all that its masks depend on.

    seen       in how many frames it is, in the masks as they were written
    cut        in how many frames others cover some of it, in a folder: one object a pixel
    presence   for each frame, None where the tracker had not met it yet
    doubts     in frames of the file
    """

    key: str
    seen: Count
    cut: Count
    presence: tuple[Share | None, ...]
    doubts: tuple[Doubt, ...]


class TrackNotes(
    msgspec.Struct,
    frozen=True,
    eq=False,
    forbid_unknown_fields=True,
    tag_field="schema",
    tag=f"{KIND}3",
):
    """Notes all that is known of one file or folder of masks; it is its file.

    video_key   changes with the video and with which of its frames are looked at
    match       how open_masks finds the mask of a frame: "source" or "stem"
    presence    below it an object counts as not seen
    prompts     one for each object and frame
    frames, times_s   of the file, for each frame that was looked at
    """

    tracker: str
    details: Mapping[str, str]
    video: str
    video_key: str
    match: Literal["source", "stem"]
    presence: Share
    backward: bool
    prompts: tuple[Prompt, ...]
    frames: tuple[Count, ...]
    times_s: tuple[float, ...] | None
    objects: Mapping[int, TrackedObject]

    def __post_init__(self) -> None:
        columns = [self.times_s, *(noted.presence for noted in self.objects.values())]
        if any(column is not None and len(column) != len(self.frames) for column in columns):
            raise ValueError("frames, times_s and presence differ in length")

    @property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """Return the ids of all pieces of each object, by its first id."""
        roots = {prompt.object: prompt.piece_of or prompt.object for prompt in self.prompts}
        groups: dict[int, tuple[int, ...]] = {}
        for id, root in sorted(roots.items()):
            groups[root] = (*groups.get(root, ()), id)
        return groups

    @property
    def seen_groups(self) -> dict[int, tuple[int, ...]]:
        """Return the groups of ids that are in the masks."""
        seen = {
            root: tuple(id for id in pieces if id in self.objects and self.objects[id].seen)
            for root, pieces in self.groups.items()
        }
        return {root: pieces for root, pieces in seen.items() if pieces}

    @property
    def problems(self) -> list[str]:
        """Return sentences about how the tracker worked, and what is not wholly in the masks."""
        sentences = [f"{self.tracker}: {self.details['note']}"] if "note" in self.details else []
        for id, noted in self.objects.items():
            if noted.cut:
                left = f"in {noted.cut} frames" if noted.seen else "throughout, and nothing is left"
                sentences.append(
                    f"object {id} lies under others {left}: these masks hold one object per "
                    "pixel, the lower number; .npz keeps overlapping objects whole"
                )
            elif not noted.seen:
                sentences.append(
                    f"object {id} never appears; check its prompt, or lower the presence it needs"
                )
        return sentences

    def presence_of(self, objects: Iterable[int] | None = None) -> dict[int, float]:
        """Return, by frame of the file, the presence of the surest of these objects (None: all)."""
        presence: dict[int, float] = {}
        for id in objects or self.objects:
            if id in self.objects:
                for frame, value in zip(self.frames, self.objects[id].presence, strict=True):
                    if value is not None:
                        presence[frame] = max(value, presence.get(frame, 0.0))
        return presence

    def doubts_of(self, objects: Iterable[int] | None = None) -> list[tuple[int, Doubt]]:
        """Return (object, doubt) of these objects (None: all), in the order of frames."""
        chosen = [id for id in objects or self.objects if id in self.objects]
        doubts = [(id, doubt) for id in chosen for doubt in self.objects[id].doubts]
        return sorted(doubts, key=lambda item: (item[1].first, item[0]))

    def time_s(self, frame: int) -> float | None:
        """Return the second of a frame of the file."""
        if self.times_s is None or frame not in self.frames:
            return None
        return self.times_s[self.frames.index(frame)]


def notes_path(masks: str | os.PathLike[str]) -> Path:
    """Return where the notes of these masks lie."""
    path = Path(masks)
    if os.path.isdir(path) or not path.suffix:
        return path / "track.json"
    return path.with_name(f"{path.name}.track.json")


def has_notes(masks: str | os.PathLike[str]) -> bool:
    """Return whether notes of dejacue lie there, sound or not; another's track.json is none."""
    path = notes_path(masks)
    return os.path.isfile(path) and KIND.encode() in path.read_bytes()


def match_of(masks: str | os.PathLike[str]) -> str | None:
    """Return how open_masks finds the mask of a frame; None where the masks were not tracked."""
    notes = read_notes(masks)
    return None if notes is None else notes.match


def read_notes(masks: str | os.PathLike[str]) -> TrackNotes | None:
    """Read the notes of a file or folder of masks; None where there are none of dejacue."""
    if not has_notes(masks):
        return None
    path = notes_path(masks)
    try:
        return msgspec.json.decode(
            path.read_bytes(),
            type=TrackNotes,
            dec_hook=lambda _, mask: decode_rle(mask),  # that of a prompt, kept as run lengths
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"was not written by this version of dejacue ({first_line(error)})"
        raise InputError(f"{path}: {problem}; remove it, or track again") from None


def write_notes(masks: str | os.PathLike[str], notes: TrackNotes) -> Path:
    """Write the notes of a file or folder of masks."""
    return write_bytes(notes_path(masks), msgspec.json.encode(notes, enc_hook=pack))
