"""write_track(): masks and notes on disk; what is there and up to date is not made again."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from dejacue._version import __version__
from dejacue.errors import DejaCueError, InputError
from dejacue.sources.images import is_image
from dejacue.sources.masks import Masks, open_masks, write_masks
from dejacue.sources.npz import check_place
from dejacue.sources.tracks.base import Mask
from dejacue.sources.tracks.doubts import Series, doubts
from dejacue.sources.tracks.notes import (
    Follow,
    Notes,
    given,
    notes_path,
    read_notes,
    write_notes,
)
from dejacue.sources.tracks.partial import FORWARD, Partial, Row, Sight
from dejacue.sources.tracks.prompts import Given, Lineages
from dejacue.sources.tracks.tracking import Plan, Progress, passes
from dejacue.sources.video import Frame

KINDS = {"": "indexed", ".npz": "stack", ".json": "coco"}
_UNSEEN = Sight("", 0.0, 0, (0, 0, 0, 0), "00" * 64)


def write_track(
    path: str | os.PathLike[str],
    plan: Plan,
    *,
    lineages: Lineages | None = None,
    progress: Progress | None = None,
) -> Notes:
    """Follow the objects and write their masks, with notes: into a folder of PNG, .npz or .json.

    Masks that were made from the same video, prompts and tracker are kept; where objects were
    added, only these are followed. A stopped run goes on where it was. ``lineages`` says which
    objects are pieces of one; default: each is its own.
    """
    target = Path(path)
    check_target(target)
    check_place(target)
    before = _before(target)
    keys = {one: plan.key(one) for one in plan.firsts}
    whole = dict(lineages or {one: (one,) for one in keys})
    kept = {
        one: own
        for one, own in (before.objects if before else {}).items()
        if keys.get(one) == own.key
    }
    new = plan.only(keys.keys() - kept.keys())
    if before and not new.prompts:
        if kept.keys() == before.objects.keys() and before.lineages == whole:
            return before
        rows = _bare(before)
        partial, size = Partial(), before.size
        prompts = tuple(own for own in before.prompts if own.object in keys)
    else:
        name = ",".join([__version__, *(keys[one] for one in new.firsts)])
        partial = Partial(partial_path(target), name)
        rows, size = _follow(new, partial, progress)
        prompts = given(plan.prompts, {row.index: row.source for row in rows})
    if before and kept and before.frames != tuple(row.source for row in rows):
        raise DejaCueError(
            f"{plan.video.path}: has other frames than when {target} was made; remove that, and "
            "track again"
        )
    objects = {one: kept.get(one) or _followed(rows, one, keys[one], size) for one in keys}
    if not any(own.seen for own in objects.values()):
        raise InputError(
            f"{plan.video.path}: nothing is seen in any frame; show the object more closely, or "
            "take a lower presence"
        )
    notes = _notes(target, plan, rows, size, whole, prompts, objects)
    old = [one for one, own in kept.items() if own.seen]
    masks = None if before is None or not old else open_written(target, before)
    _write(target, _pictures(rows, size, masks, old, notes), notes)
    partial.remove()
    return notes


def partial_path(target: Path) -> Path:
    """The folder that a stopped run leaves behind."""
    return target.with_name(f".{target.name}.partial")


def check_target(target: Path) -> None:
    """Refuses what cannot be written, or must not be written over, before anything is done."""
    if target.suffix.lower() not in KINDS:
        raise InputError(f"{target}: masks are written to a folder, .npz or .json")
    if target.suffix:
        if target.is_dir():
            raise InputError(f"{target}: is a folder; give the name of a file")
        return
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; give another name for the folder")
    if not target.is_dir():
        return
    entries = list(target.iterdir())
    notes = notes_path(target)
    foreign = [entry.name for entry in entries if entry != notes and not is_image(entry)]
    if entries and (foreign or not notes.is_file()):
        what = f"holds {foreign[0]}" if foreign else "holds pictures"
        raise InputError(
            f"{target}: {what}, which was not written by dejacue track; choose another folder"
        )


def open_written(path: str | os.PathLike[str], notes: Notes) -> Masks:
    """The masks that these notes are about."""
    return open_masks(path, kind=KINDS.get(Path(path).suffix.lower()), match=notes.match)


def _before(target: Path) -> Notes | None:
    """What an earlier run has written, if it is there and can be read."""
    try:
        return read_notes(target) if target.exists() else None
    except InputError:
        return None  # whatever it is, it will be made again


def _bare(notes: Notes) -> list[Row]:
    """The frames without their objects."""
    times: Sequence[float | None] = notes.times_s or [None] * len(notes.frames)
    names: Sequence[str | None] = notes.names or [None] * len(notes.frames)
    known = zip(notes.frames, times, names, strict=True)
    return [Row(at, source, time_s, name, {}) for at, (source, time_s, name) in enumerate(known)]


def _follow(
    plan: Plan, partial: Partial, progress: Progress | None
) -> tuple[list[Row], tuple[int, int]]:
    with closing(iter(plan.video)) as frames:  # type: ignore[type-var]
        height, width = next(frames).image.shape[:2]
    for frame, earlier, seen in passes(plan, partial, progress):
        now = {one: Sight.of(frame.image, own) for one, own in seen.items()}
        partial.add(FORWARD, Row.of(frame, {**earlier, **now}))
    return partial.rows[FORWARD], (height, width)


def _followed(rows: Sequence[Row], one: int, key: str, size: tuple[int, int]) -> Follow:
    sights = [row.sights.get(one, _UNSEEN) for row in rows]
    series = Series(
        np.array([row.source for row in rows]),
        np.array([sight.area for sight in sights]),
        np.array([sight.presence for sight in sights]),
        np.array([sight.box for sight in sights]),
        np.array([sight.signature() for sight in sights]),
        size,
    )
    presence = tuple(row.sights[one].presence if one in row.sights else None for row in rows)
    return Follow(key, int((series.area > 0).sum()), presence, tuple(doubts(series)))


def _notes(
    target: Path, plan: Plan, rows: Sequence[Row], size: tuple[int, int], lineages: Lineages,
    prompts: tuple[Given, ...], objects: dict[int, Follow],
) -> Notes:  # fmt: skip
    names = [row.name for row in rows if row.name is not None]
    times = [row.time_s for row in rows if row.time_s is not None]
    stems = len(set(names)) == len(rows)
    return Notes(
        plan.tracker.name, plan.tracker.approximate, dict(plan.tracker.details),
        Path(plan.video.path).name, target.name, "stem" if stems else "source", size,
        plan.presence, plan.backward, lineages, prompts, tuple(row.source for row in rows),
        tuple(times) if len(times) == len(rows) else None, tuple(names) if stems else None,
        objects,
    )  # fmt: skip


def _pictures(
    rows: Sequence[Row], size: tuple[int, int], masks: Masks | None, old: Sequence[int],
    notes: Notes,
) -> Iterator[tuple[int | str, dict[int, Mask]]]:  # fmt: skip
    """Names or numbers, and the masks of the objects that are seen; old ones from where they are.

    Names are file stems for a folder of images, numbers those of the file's frames for a video.
    """
    blank = np.broadcast_to(np.uint8(0), (*size, 3))
    lineages = [frozenset([one]) for one in old]
    for row in rows:
        found = {one: s.mask(size) for one, s in row.sights.items() if s.area}
        if masks is not None:
            frame = Frame(row.index, row.source, row.time_s, row.name, blank)
            there = zip(old, masks.unions(frame, lineages), strict=True)
            found |= {one: mask for one, mask in there if mask is not None}
        key = row.name if notes.match == "stem" and row.name is not None else row.source
        yield key, dict(sorted(found.items()))


def _write(
    target: Path, pictures: Iterator[tuple[int | str, dict[int, Mask]]], notes: Notes
) -> None:
    """Masks and notes together: what was there is replaced only when the new is whole."""
    new = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            write_masks(new, pictures, kind=KINDS[target.suffix.lower()])
        if target.suffix:
            notes_path(target).unlink(missing_ok=True)  # never new masks with old notes
            os.replace(new, target)
            write_notes(target, notes)
        else:
            write_notes(new, notes)
            _replace_folder(new, target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True) if new.is_dir() else new.unlink(missing_ok=True)
        raise
    for warning in said:
        text = str(warning.message).replace(str(new), str(target))
        warnings.warn(text, warning.category, stacklevel=3)


def _replace_folder(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(new, target)
    except BaseException:
        if old.exists():
            os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
