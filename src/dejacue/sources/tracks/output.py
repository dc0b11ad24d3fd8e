"""write_track(): masks and notes on disk; what is there and up to date is not made again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from dejacue._version import __version__
from dejacue.errors import Cancelled, DejaCueError, InputError
from dejacue.progress import Progress, silent
from dejacue.sources.atomic import (
    check_place,
    is_temporary,
    left_folder,
    resolved,
    temporary_folder,
    write_bytes,
)
from dejacue.sources.images import is_image
from dejacue.sources.masks import Masks, open_masks, write_masks
from dejacue.sources.masks.write import WRITTEN_AS
from dejacue.sources.tracks._checkpoint import (
    BACKWARD,
    FORWARD,
    Checkpoint,
    FrameRecord,
    PackedObservation,
)
from dejacue.sources.tracks.base import Mask
from dejacue.sources.tracks.doubts import Series, find_doubts
from dejacue.sources.tracks.notes import (
    Notes,
    TrackedObject,
    has_notes,
    notes_path,
    raw_prompts,
    read_notes,
    write_notes,
)
from dejacue.sources.tracks.prompt_text import Lineages, RawPrompt
from dejacue.sources.tracks.propagate import TrackRequest, propagate
from dejacue.sources.video import Frame

_UNSEEN = PackedObservation("", 0.0, 0, (0, 0, 0, 0), bytes(64))


def write_track(
    path: str | os.PathLike[str],
    request: TrackRequest,
    *,
    lineages: Lineages | None = None,
    progress: Progress = silent,
) -> Notes:
    """Follow the objects and write their masks, with notes: into a folder of PNG, .npz or .json.

    Masks that were made from the same video, prompts and tracker are kept; where objects were
    added, only these are followed, and those that were not written whole: in a folder, pixels of
    two objects belong to the lower number. ``lineages`` says which objects are pieces of one;
    default: each is its own. ``progress`` is told as by ``track``. Whoever stops it (Cancelled
    raised in progress, or Ctrl-C) gets Cancelled, which says what is kept; the next run goes on
    from there.
    """
    target = Path(path)
    check_target(target)
    check_place(_real(target))
    before = _before(target)
    keys = {one: request.key(one) for one in request.firsts}
    whole = dict(lineages or {one: (one,) for one in keys})
    known = dict(before.objects) if before else {}
    if before and keys == {one: own.key for one, own in known.items()}:
        if before.lineages != whole:
            before = msgspec.structs.replace(before, lineages=whole)
            write_notes(target, before)
        return before
    kept = {one: own for one, own in known.items() if keys.get(one) == own.key and not own.cut}
    new = request.only(keys.keys() - kept.keys())
    about = ",".join([__version__, *(f"{one}:{keys[one]}" for one in new.firsts)])
    checkpoint = Checkpoint(partial_path(target), about) if new.prompts else Checkpoint()
    try:
        if before and not new.prompts:
            rows, size = _bare(before), before.size
            prompts = tuple(own for own in before.prompts if own.object in keys)
        else:
            rows, size = _follow(new, checkpoint, progress)
            prompts = raw_prompts(request.prompts, {row.index: row.source for row in rows})
        _check_same_frames(target, request, before if kept else None, rows)
        objects = {one: kept.get(one) or _followed(rows, one, keys[one], size) for one in keys}
        _check_seen(request, objects)
        notes = _notes(target, request, rows, size, whole, prompts, objects)
        old = [one for one, own in kept.items() if own.seen]
        masks = None if before is None or not old else open_written(target, before)
        pictures = _Pictures(rows, size, masks, old, notes, target.suffix == "")
        return _write(target, pictures, checkpoint)
    except (Cancelled, KeyboardInterrupt):
        raise Cancelled(_stopped(target, checkpoint.kept)) from None
    finally:
        checkpoint.close()


def _check_same_frames(
    target: Path, request: TrackRequest, before: Notes | None, rows: Sequence[FrameRecord]
) -> None:
    if before and before.frames != tuple(row.source for row in rows):
        raise DejaCueError(
            f"{request.video.path}: its frames have changed since {target} was made; remove "
            f"{target} and track again"
        )


def _check_seen(request: TrackRequest, objects: Mapping[int, TrackedObject]) -> None:
    if not any(own.seen for own in objects.values()):
        raise InputError(
            f"{request.video.path}: the object is not seen in any frame; mark it more precisely, "
            "or lower --presence"
        )


def _stopped(target: Path, frames: int) -> str:
    if not frames:
        return "stopped before anything was kept"
    what = "1 frame is" if frames == 1 else f"{frames} frames are"
    return f"stopped; {what} kept in {partial_path(target)} and will be reused"


def partial_path(target: Path) -> Path:
    """The file that a stopped run leaves behind."""
    return target.with_name(f".{target.name}.partial")


def check_target(target: Path) -> None:
    """Refuses what cannot be written, or must not be written over, before anything is done. What a
    run that was killed has left is completed or removed first."""
    if target.suffix.lower() not in WRITTEN_AS:
        raise InputError(
            f"{target}: masks are written to a folder, .npz or .json; give one of those"
        )
    if target.name in ("", ".."):
        raise InputError(f"{target}: give the folder for the masks a name, such as masks")
    check_place(target)
    _recover(target)
    if objection := _objection(target):
        raise InputError(f"{target}: {objection}")


def _objection(target: Path) -> str | None:
    """Why what is there must not be written over."""
    if target.suffix:
        if target.is_dir():
            return "is a folder; give the name of a file"
        if target.exists() and not has_notes(target):
            return "was not written by dejacue track; remove it, or give another name"
        return None
    if target.exists() and not target.is_dir():
        return "is a file; give another name for the folder"
    if not target.is_dir():
        return None
    notes = notes_path(target)
    entries = [entry for entry in target.iterdir() if not is_temporary(entry)]
    foreign = [entry.name for entry in entries if entry != notes and not is_image(entry)]
    if entries and (foreign or not has_notes(target)):
        what = f"holds {foreign[0]}" if foreign else "holds pictures"
        return f"{what}, which was not written by dejacue track; choose another folder"
    return None


def open_written(path: str | os.PathLike[str], notes: Notes) -> Masks:
    """The masks that these notes are about."""
    return open_masks(path, kind=WRITTEN_AS.get(Path(path).suffix.lower()), match=notes.match)


def _before(target: Path) -> Notes | None:
    """What an earlier run has written, if all of it is there and can be read."""
    try:
        notes = read_notes(target) if target.exists() else None
        whole = notes is not None and len(open_written(target, notes)) == len(notes.frames)
    except InputError:
        return None  # whatever it is, it will be made again
    return notes if whole else None


def _bare(notes: Notes) -> list[FrameRecord]:
    """The frames without their objects."""
    times: Sequence[float | None] = notes.times_s or [None] * len(notes.frames)
    names: Sequence[str | None] = notes.names or [None] * len(notes.frames)
    known = zip(notes.frames, times, names, strict=True)
    return [FrameRecord(FORWARD, at, *own, {}) for at, own in enumerate(known)]


def _follow(
    request: TrackRequest, checkpoint: Checkpoint, progress: Progress
) -> tuple[list[FrameRecord], tuple[int, int]]:
    with closing(iter(request.video)) as frames:  # type: ignore[type-var]
        height, width = next(frames).image.shape[:2]
    for frame, earlier, seen in propagate(request, checkpoint, progress):
        now = {one: PackedObservation.of(frame.image, own) for one, own in seen.items()}
        checkpoint.add(FrameRecord.of(FORWARD, frame, {**earlier, **now}))
    checkpoint.frames[BACKWARD].clear()  # they are in the others now
    return checkpoint.frames[FORWARD], (height, width)


def _followed(
    rows: Sequence[FrameRecord], one: int, key: str, size: tuple[int, int]
) -> TrackedObject:
    found = [row.objects.get(one, _UNSEEN) for row in rows]
    series = Series(
        np.array([row.source for row in rows]),
        np.array([own.area for own in found]),
        np.array([own.presence for own in found]),
        np.array([own.box for own in found]),
        np.array([own.signature() for own in found]),
        size,
    )
    presence = tuple(row.objects[one].presence if one in row.objects else None for row in rows)
    return TrackedObject(key, int((series.area > 0).sum()), 0, presence, tuple(find_doubts(series)))


def _notes(
    target: Path,
    request: TrackRequest,
    rows: Sequence[FrameRecord],
    size: tuple[int, int],
    lineages: Lineages,
    prompts: tuple[RawPrompt, ...],
    objects: dict[int, TrackedObject],
) -> Notes:
    names = [row.name for row in rows if row.name is not None]
    times = [row.time_s for row in rows if row.time_s is not None]
    stems = len(set(names)) == len(rows)
    tracker = request.tracker
    return Notes(
        tracker.name,
        tracker.approximate,
        dict(tracker.details),
        Path(request.video.path).name,
        request.video.key,
        target.name,
        "stem" if stems else "source",
        size,
        request.presence,
        request.backward,
        lineages,
        prompts,
        tuple(row.source for row in rows),
        tuple(times) if len(times) == len(rows) else None,
        tuple(names) if stems else None,
        objects,
    )


@dataclass
class _Pictures:
    """Names or numbers, and the masks of the objects that are seen; old ones from where they are.

    Names are file stems for a folder of images, numbers those of the file's frames for a video.
    Where they are ``apart``, objects share no pixel: it belongs to the lower number. The objects
    of the rows are used up, so that whoever packs the masks again holds the only copy.
    """

    rows: Sequence[FrameRecord]
    size: tuple[int, int]
    masks: Masks | None
    old: Sequence[int]
    notes: Notes
    apart: bool
    seen: Counter[int] = field(default_factory=Counter)
    cut: Counter[int] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[tuple[int | str, dict[int, Mask]]]:
        blank = np.broadcast_to(np.uint8(0), (*self.size, 3))
        lineages = [frozenset([one]) for one in self.old]
        for row in self.rows:
            found = {one: own.mask(self.size) for one, own in row.objects.items() if own.area}
            row.objects.clear()
            if self.masks is not None:
                frame = Frame(row.index, row.source, row.time_s, row.name, blank)
                there = zip(self.old, self.masks.unions(frame, lineages), strict=True)
                found |= {one: mask for one, mask in there if mask is not None}
            key = row.name if self.notes.match == "stem" and row.name is not None else row.source
            yield key, self._counted(dict(sorted(found.items())))

    def _counted(self, found: dict[int, Mask]) -> dict[int, Mask]:
        taken = np.zeros(self.size, dtype=bool)
        written = {}
        for one, mask in found.items():
            if self.apart and (mask & taken).any():
                self.cut[one] += 1
                mask = mask & ~taken
            taken |= mask
            if mask.any():
                self.seen[one] += 1
                written[one] = mask
        return written

    def noted(self) -> Notes:
        """The notes of what has been given."""
        objects = {
            one: msgspec.structs.replace(own, seen=self.seen[one], cut=self.cut[one])
            for one, own in self.notes.objects.items()
        }
        return msgspec.structs.replace(self.notes, objects=objects)


def _real(target: Path) -> Path:
    """Where it is: a link stays one."""
    return resolved(target) if target.is_symlink() else target


def _write(target: Path, pictures: _Pictures, checkpoint: Checkpoint) -> Notes:
    """Masks and notes together: what was there is replaced only when the new is whole."""
    real = _real(target)
    with temporary_folder(real) as made:
        write_masks(made / target.name, pictures, kind=WRITTEN_AS[target.suffix.lower()])
        notes = pictures.noted()
        write_notes(made / target.name, notes)  # from here on, a later run would go on: _recover
        checkpoint.remove()
        _put(made, target)
    return notes


def _put(made: Path, target: Path) -> None:
    """Masks and notes from the folder in which they were made to where they belong; what is done
    of it already is left as it is."""
    real, new, old = _real(target), made / target.name, made / f"{target.name}.old"
    if target.suffix:
        if notes_path(target).exists():
            os.replace(notes_path(target), old)  # never new masks with old notes
        if new.exists():
            os.replace(new, real)
        write_bytes(notes_path(target), notes_path(new).read_bytes())
        return
    if real.exists():
        os.rename(real, old)
    try:
        os.rename(new, real)
    except BaseException:
        if old.exists():
            os.rename(old, real)
        raise


def _recover(target: Path) -> None:
    """What a killed run had made, but not put in its place, is put there; half of it goes."""
    with left_folder(_real(target)) as made:
        if made is None or not has_notes(made / target.name):
            return
        begun = (made / f"{target.name}.old").exists() or not (made / target.name).exists()
        if (begun and target.suffix) or _objection(target) is None:
            partial_path(target).unlink(missing_ok=True)
            _put(made, target)
