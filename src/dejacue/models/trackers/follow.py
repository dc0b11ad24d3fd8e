"""follow(): prompts → the masks of the objects on disk with notes, or those that are there already.

What is there and up to date is not made again; what was there is replaced only when the new is
whole. A run that is stopped leaves nothing, and the next one starts again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import (
    check_place,
    is_temporary,
    left_folder,
    resolved,
    temporary_folder,
    write_bytes,
)
from dejacue.errors import Cancelled, DejaCueError, InputError
from dejacue.masks import Masks, open_masks, write_masks
from dejacue.masks.write import WRITTEN_AS, unwritable
from dejacue.models.trackers.base import Mask, Observation, Prompt, Tracker, bounding_box
from dejacue.models.trackers.doubts import (
    KINDS,
    PAST_FRAMES,
    Doubt,
    Series,
    colour_signature,
    find_doubts,
)
from dejacue.models.trackers.notes import (
    TrackedObject,
    TrackNotes,
    has_notes,
    notes_path,
    read_notes,
    write_notes,
)
from dejacue.models.trackers.prompts import place_prompts, prompt_content
from dejacue.models.trackers.propagate import FORWARD, TrackedFrame, TrackerOptions, tracked_frames
from dejacue.progress import Progress, silent
from dejacue.records import Note, Window
from dejacue.video.images import is_image
from dejacue.video.video import Frame, Video

_log = logging.getLogger("dejacue")


def follow(
    video: Video,
    prompts: Sequence[Prompt],
    output: str | os.PathLike[str],
    *,
    tracker: Tracker | str | None = None,
    options: TrackerOptions | None = None,
    shots: Sequence[Window] = (),
    progress: Progress = silent,
) -> TrackNotes:
    """Follow the objects and write their masks with notes: into a folder of PNG, .npz or .json.

    Masks that were made from the same video, prompts and tracker are kept; where objects were
    added, only these are followed, and those that were not written whole: in a folder, pixels of
    two objects belong to the lower number. Pieces alone are added to what the masks hold.

    shots      of the video: each object is followed in that of its prompts only
    progress   called as by ``track``. Whoever stops it (Cancelled raised in it, or Ctrl-C) gets
               Cancelled: nothing is kept
    """
    target, options = Path(output), options or TrackerOptions()
    check_target(target)
    adds = bool(prompts) and all(prompt.object == 0 for prompt in prompts)
    earlier = read_notes(target) if adds and target.exists() else None
    placed = place_prompts(video, prompts, () if earlier is None else earlier.prompts)
    loaded = options.load(earlier.tracker if earlier and tracker is None else tracker)
    if earlier:
        _check_same(target, earlier, video, loaded, options)
    before = _whole(target)
    keys = {
        object: _key(video, placed, object, loaded, options, shots)
        for object in sorted({prompt.object for prompt in placed})
    }
    if before and keys == {object: noted.key for object, noted in before.objects.items()}:
        notes = msgspec.structs.replace(before, prompts=tuple(placed))
        if notes.groups != before.groups:
            write_notes(target, notes)
        _log.info("reused %s: made from the same video, prompts and tracker", target)
        return notes
    kept = {
        object: noted
        for object, noted in (before.objects if before else {}).items()
        if keys.get(object) == noted.key and not noted.cut
    }
    record = _Record(keys.keys() - kept.keys())

    def report(stage: str, done: int, total: int | None = None, note: str = "") -> None:
        doubt = record.latest_doubt() if stage == FORWARD else None
        progress(stage, done, total, note if doubt is None else Note(doubt, "doubtful"))

    new = [prompt for prompt in placed if prompt.object not in kept]
    frames = tracked_frames(video, new, loaded, options, shots=shots, progress=report)
    drawn = [object for object in sorted(kept) if kept[object].seen]
    masks = open_written(target, before) if before and drawn else None
    real = _real(target)
    try:
        with temporary_folder(real) as folder:
            rows = record.rows(video, frames, masks, drawn, exclusive=not target.suffix)
            write_masks(folder / target.name, rows)
            sources = tuple(frame.source for frame in record.frames)
            if before and kept and before.frames != sources:
                problem = f"its frames have changed since {target} was made"
                raise DejaCueError(f"{video.path}: {problem}; remove {target} and track again")
            times = [frame.time_s for frame in record.frames if frame.time_s is not None]
            objects = {
                object: TrackedObject(
                    key,
                    record.seen[object],
                    record.cut[object],
                    kept[object].presence if object in kept else record.presence(object),
                    kept[object].doubts if object in kept else record.doubts(object, new, shots),
                )
                for object, key in keys.items()
            }
            notes = TrackNotes(
                tracker=loaded.name,
                details=dict(loaded.details),
                video=Path(video.path).name,
                video_key=video.key,
                match="source" if record.frames[0].name is None else "stem",
                presence=options.presence,
                backward=options.backward,
                prompts=tuple(placed),
                frames=sources,
                times_s=tuple(times) if len(times) == len(sources) else None,
                objects=objects,
            )
            write_notes(folder / target.name, notes)
            _move(folder / target.name, real, target)
    except (Cancelled, KeyboardInterrupt):
        raise Cancelled(f"stopped before {target} was written; nothing is kept") from None
    return notes


def _check_same(
    output: Path, before: TrackNotes, video: Video, tracker: Tracker, options: TrackerOptions
) -> None:
    """Refuse to add pieces that would be followed in another way than the others were."""
    ways = {True: "both directions", False: "one direction"}
    pairs = [
        (f"tracker {before.tracker}", f"tracker {tracker.name}"),
        (f"presence {before.presence:g}", f"presence {options.presence:g}"),
        (ways[before.backward], ways[options.backward]),
    ]
    if before.video_key != video.key:
        sampled = _sampled(before.frames, len(before.frames))
        now = _sampled((frame.source for frame in video), video.length)
        pairs.append((f"{before.video}, {sampled}", f"{video.path}, {now}"))
    for was, now in pairs:
        if was != now:
            remedy = "give the same options to add to it, or all prompts to start over"
            raise InputError(f"{output}: was made with {was}, but now it is {now}; {remedy}")


def _sampled(sources: Iterable[int], count: int | None) -> str:
    first = ", ".join(str(source) for source in itertools.islice(sources, 3))
    return f"frames {first}, …" + ("" if count is None else f" ({count} of them)")


def _key(
    video: Video,
    prompts: Sequence[Prompt],
    object: int,
    tracker: Tracker,
    options: TrackerOptions,
    shots: Sequence[Window],
) -> str:
    """Return a hash of all that the masks of an object depend on."""
    others = () if tracker.independent else sorted({prompt.object for prompt in prompts})
    content = [
        video.key,
        tracker.name,
        sorted(tracker.details.items()),
        options.backward,
        options.presence,
        prompt_content(prompts, object),
        [(piece, prompt_content(prompts, piece)) for piece in others],
        *((shot.start, shot.end) for shot in shots),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


class _Seen(NamedTuple):
    """An object in a frame: what doubts are made of; ``colours`` in 255ths."""

    area: int
    presence: float | None
    box: tuple[int, int, int, int]
    colours: NDArray[np.uint8]


_NO_PIXELS = np.zeros((0, 0, 3), np.uint8)
_UNSEEN = _Seen(0, None, (0, 0, 0, 0), np.zeros(64, np.uint8))


class _Record:
    """Collects what the notes say, while frames pass on their way to the masks.

    seen, cut   in how many frames each object is, and others cover some of it
    """

    def __init__(self, objects: Iterable[int]) -> None:
        self.frames: list[Frame] = []  # without pixels
        self.size = (0, 0)
        self.columns: dict[int, list[_Seen]] = {object: [] for object in objects}
        self.seen: Counter[int] = Counter()
        self.cut: Counter[int] = Counter()

    def rows(
        self,
        video: Video,
        frames: Iterable[TrackedFrame],
        masks: Masks | None,
        kept: Sequence[int],
        *,
        exclusive: bool,
    ) -> Iterator[tuple[int | str, Mapping[int, Mask]]]:
        """Yield the name or number of each frame and the masks of its objects, as write_masks takes
        them; those of ``kept`` objects come from ``masks``.

        Names are file stems for a folder of images, numbers those of the file's frames for a video.
        Where ``exclusive``, objects share no pixel: it belongs to the lower number.
        """
        names: set[str] = set()
        groups = [frozenset([object]) for object in kept]
        for tracked in frames:
            frame = tracked.frame
            self._add(frame, tracked.objects)
            drawn = {object: seen.mask for object, seen in tracked.objects.items()}
            unions = [] if masks is None else masks.unions(frame, groups)
            drawn |= {id: mask for id, mask in zip(kept, unions, strict=False) if mask is not None}
            if frame.name in names:
                problem = f"two of its images are called {frame.name}"
                raise InputError(f"{video.path}: {problem}; rename one of them")
            names |= {frame.name} if frame.name is not None else set()
            key = frame.source if frame.name is None else frame.name
            yield key, self._counted(dict(sorted(drawn.items())), exclusive)
        if not self.seen.total():
            problem = "the object is not seen in any frame"
            remedy = "mark it more precisely, or lower the presence it needs"
            raise InputError(f"{video.path}: {problem}; {remedy}")

    def _add(self, frame: Frame, objects: Mapping[int, Observation]) -> None:
        self.frames.append(replace(frame, pixels=_NO_PIXELS))
        self.size = frame.shape
        for object, column in self.columns.items():
            if (observation := objects.get(object)) is None:
                column.append(_UNSEEN)
                continue
            mask = observation.mask
            colours = np.rint(255 * colour_signature(frame.image, mask)).astype(np.uint8)
            box = bounding_box(mask) or (0, 0, 0, 0)
            presence = round(float(observation.presence), 4)
            column.append(_Seen(int(mask.sum()), presence, box, colours))

    def _counted(self, objects: Mapping[int, Mask], exclusive: bool) -> dict[int, Mask]:
        taken = np.zeros(self.size, dtype=bool)
        written = {}
        for id, mask in objects.items():
            if exclusive and (mask & taken).any():
                self.cut[id] += 1
                mask = mask & ~taken
            taken |= mask
            if mask.any():
                self.seen[id] += 1
                written[id] = mask
        return written

    def presence(self, object: int) -> tuple[float | None, ...]:
        return tuple(seen.presence for seen in self.columns[object])

    def doubts(
        self, object: int, prompts: Sequence[Prompt], shots: Sequence[Window]
    ) -> tuple[Doubt, ...]:
        """Return where an object may be lost or confused, in the shots in which it is followed."""
        at = [prompt.frame for prompt in prompts if prompt.object == object]
        doubts = []
        for shot in shots or [Window(0, self.frames[-1].index)]:
            if any(shot.start <= frame <= shot.end for frame in at):
                inside = [shot.start <= frame.index <= shot.end for frame in self.frames]
                first, count = inside.index(True), sum(inside)
                doubts += find_doubts(self._series(object, first, first + count))
        return tuple(sorted(doubts, key=lambda doubt: doubt.first))

    def latest_doubt(self) -> str | None:
        """Return why the last frame is doubtful, as far as its past tells; None: it is not."""
        end = len(self.frames)
        first = max(0, end - PAST_FRAMES - 1)
        for object, column in self.columns.items():
            if column[-1].presence is not None:
                for doubt in find_doubts(self._series(object, first, end, since=end - 1 - first)):
                    if doubt.last == self.frames[-1].source:
                        return KINDS[doubt.kind]
        return None

    def _series(self, object: int, first: int, end: int, since: int = 0) -> Series:
        seen = self.columns[object][first:end]
        return Series(
            np.array([frame.source for frame in self.frames[first:end]]),
            np.array([row.area for row in seen]),
            np.array([row.presence or 0.0 for row in seen]),
            np.array([row.box for row in seen]),
            np.array([row.colours for row in seen]) / 255,
            self.size,
            since,
        )


def check_target(target: Path) -> None:
    """Refuse what cannot be written, or must not be written over, before anything is done. What a
    run that was killed has left is removed first."""
    if target.suffix.lower() not in WRITTEN_AS:
        raise unwritable(target)
    if target.name in ("", ".."):
        raise InputError(f"{target}: give the folder for the masks a name, such as masks")
    check_place(target)
    check_place(real := _real(target))
    with left_folder(real):
        pass
    problem = ""
    if target.suffix and target.is_dir():
        problem = "is a folder; give the name of a file"
    elif target.suffix and target.exists() and not has_notes(target):
        problem = "was not written by dejacue track; remove it, or give another name"
    elif not target.suffix and target.exists() and not target.is_dir():
        problem = "is a file; give another name for the folder"
    elif not target.suffix and target.is_dir():
        entries = [entry for entry in target.iterdir() if not is_temporary(entry)]
        foreign = [e.name for e in entries if e != notes_path(target) and not is_image(e)]
        if entries and (foreign or not has_notes(target)):
            problem = f"holds {foreign[0] if foreign else 'pictures'}, which was not written by "
            problem += "dejacue track; choose another folder"
    if problem:
        raise InputError(f"{target}: {problem}")


def open_written(path: str | os.PathLike[str], notes: TrackNotes) -> Masks:
    """Open the masks that these notes are about."""
    return open_masks(path, kind=WRITTEN_AS.get(Path(path).suffix.lower()), match=notes.match)


def _whole(target: Path) -> TrackNotes | None:
    """Return the notes of an earlier run, if all that it has written is there and can be read."""
    try:
        notes = read_notes(target) if target.exists() else None
        whole = notes is not None and len(open_written(target, notes)) == len(notes.frames)
    except InputError:
        return None  # whatever it is, it will be made again
    return notes if whole else None


def _real(target: Path) -> Path:
    """Return where a link leads to, so that it stays one."""
    return resolved(target) if target.is_symlink() else target


def _move(new: Path, real: Path, target: Path) -> None:
    """Move masks, and notes beside them, to where they belong. Whoever kills this leaves masks that
    fit their notes, or none: they are made again."""
    if target.suffix:
        real.unlink(missing_ok=True)
        write_bytes(notes_path(target), notes_path(new).read_bytes())  # beside the link
        os.replace(new, real)
        return
    old = new.with_name(f"{new.name}.old")
    if real.exists():
        os.rename(real, old)
    try:
        os.rename(new, real)
    except BaseException:
        if old.exists():
            os.rename(old, real)
        raise
