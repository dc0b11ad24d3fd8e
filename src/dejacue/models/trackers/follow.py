"""follow(): prompts → the masks of the objects on disk with notes, or those that are there already.

write_track() does it: what is there and up to date is not made again, and what was there is
replaced only when the new is whole. Of a run that is stopped the backward pass is kept, once it is
done, in a file beside the masks.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dejacue._version import __version__
from dejacue.atomic import (
    check_place,
    is_temporary,
    left_folder,
    resolved,
    temporary_folder,
    write_bytes,
)
from dejacue.errors import Cancelled, DejaCueError, InputError
from dejacue.files.partial import PartialFile
from dejacue.masks import Masks, open_masks, write_masks
from dejacue.masks.write import WRITTEN_AS, unwritable
from dejacue.models.trackers.base import Mask, Prompt, Tracker
from dejacue.models.trackers.doubts import KINDS, PAST_FRAMES, Series, find_doubts
from dejacue.models.trackers.notes import (
    TrackedObject,
    TrackNotes,
    has_notes,
    notes_path,
    raw_prompts,
    read_notes,
    write_notes,
)
from dejacue.models.trackers.prompts import (
    Groups,
    RawPrompt,
    TypedPrompts,
    are_numbers,
    check_prompts,
    drop_repeated_pieces,
    parse_prompts,
    resolve_prompts,
)
from dejacue.models.trackers.propagate import (
    PRESENCE,
    Earlier,
    PackedObservation,
    TrackRequest,
    check_presence,
    follow_back,
    follow_forward,
    load_tracker,
    packed,
)
from dejacue.progress import Progress, silent
from dejacue.records import Note, Window
from dejacue.video.images import is_image
from dejacue.video.video import Frame, Video

_log = logging.getLogger("dejacue")
_UNSEEN = PackedObservation("", 0.0, 0, (0, 0, 0, 0), bytes(64))
_EARLIER = msgspec.msgpack.Decoder(Earlier)


def first_prompts(
    box: Sequence[float] | None = None, point: Sequence[float] | None = None
) -> list[RawPrompt]:
    """Return what shows one object in the first frame."""
    prompts: list[RawPrompt] = []
    if box is not None:
        _check_numbers(box, "box", "(x0, y0, x1, y1)")
        x0, y0, x1, y1 = map(float, box)
        prompts.append(RawPrompt(1, None, box=(x0, y0, x1, y1)))
    if point is not None:
        _check_numbers(point, "point", "(x, y)")
        x, y = map(float, point)
        prompts.append(RawPrompt(1, None, point=(x, y, True)))
    return prompts


def _check_numbers(values: Sequence[float], what: str, form: str) -> None:
    """Refuse what is not as many numbers as ``form`` has."""
    if not are_numbers([values], form.count(",") + 1):
        where = "in pixels from the upper left corner"
        raise InputError(f"{what}: give {form} {where}, not {values!r:.60}")


Prompts = TypedPrompts | Sequence[RawPrompt] | Sequence[Prompt]


@dataclass(frozen=True)
class TrackerOptions:
    """Options with which a tracker follows an object.

    presence   where the tracker is less sure than this, the object is not seen
    backward   whether it is also followed back to the first frame
    fallback   sam2: falls back to the CPU where the memory of the GPU is full
    """

    device: str | None = None
    precision: str | None = None
    presence: float = PRESENCE
    backward: bool = True
    fallback: bool = False

    def __post_init__(self) -> None:
        check_presence(self.presence)

    def load(self, tracker: Tracker | str | None) -> Tracker:
        """Return a tracker by its name; None: the default of load_tracker."""
        if tracker is not None and not isinstance(tracker, str):
            return tracker
        options: dict[str, Any] = {"device": self.device, "precision": self.precision}
        options |= {"fallback": True} if self.fallback else {}
        return load_tracker(tracker, **options)


@dataclass(frozen=True, eq=False)
class Followed:
    """The notes of the masks that were written or reused, and warnings for the user."""

    notes: TrackNotes
    warnings: tuple[str, ...]


def follow(
    video: Video,
    prompts: Prompts,
    output: Path,
    *,
    tracker: Tracker | str | None = None,
    options: TrackerOptions | None = None,
    shots: Sequence[Window] = (),
    progress: Progress = silent,
) -> Followed:
    """Follow the objects and write their masks to ``output`` (a folder, .npz or .json), or take
    those that lie there and are up to date.

    shots   of the video: each object is followed in that of its prompts only
    """
    check_target(output)
    options = options or TrackerOptions()
    placed, groups, earlier = placed_prompts(video, prompts, output)
    loaded = options.load(earlier.tracker if earlier and tracker is None else tracker)
    if earlier:
        _check_same(output, earlier, video, loaded, options)
    request = TrackRequest(video, placed, loaded, options.backward, options.presence, shots)
    path, tracked = notes_path(output), False
    before = path.read_bytes() if path.is_file() else b""

    def report(stage: str, done: int, total: int | None = None, note: str = "") -> None:
        nonlocal tracked
        tracked = True
        progress(stage, done, total, note)

    notes = write_track(output, request, groups=groups, progress=report)
    if not tracked and path.read_bytes() != before:
        _log.info("%s: rewritten from the earlier tracking", output)
    elif not tracked:
        _log.info("reused %s: made from the same video, prompts and tracker", output)
    return Followed(notes, (*video.problems, *notes.problems))


def placed_prompts(
    video: Video, prompts: Prompts, output: Path | None = None
) -> tuple[list[Prompt], Groups, TrackNotes | None]:
    """Return the prompts at their positions, which ids are pieces of one object, and the notes of
    the masks in ``output`` to which the prompts add pieces."""
    before: TrackNotes | None = None
    if isinstance(prompts, TypedPrompts):
        if prompts.adds and not prompts.first and output is not None and output.exists():
            before = read_notes(output)
        known = (before.prompts, before.groups) if before else ((), {})
        raw, groups = parse_prompts(prompts, known)
        if not raw:
            raise InputError(
                f"{video.path}: show where the object is: a box (x0,y0,x1,y1), a point (x,y) or a "
                "mask (a picture), with @FRAME if it is not in the first frame"
            )
        placed, groups = drop_repeated_pieces(resolve_prompts(video, raw), groups)
    else:
        raw = [prompt for prompt in prompts if isinstance(prompt, RawPrompt)]
        sampled = [prompt for prompt in prompts if not isinstance(prompt, RawPrompt)]
        placed = [*(check_prompts(video, sampled) if sampled else ())]
        placed += resolve_prompts(video, raw) if raw else ()
        groups = {object: (object,) for object in sorted({prompt.object for prompt in placed})}
    return placed, groups, before


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
        sampled = _frames(before.frames, len(before.frames))
        now = _frames((frame.source for frame in video), video.length)
        pairs.append((f"{before.video}, {sampled}", f"{video.path}, {now}"))
    for was, now in pairs:
        if was != now:
            remedy = "give the same options to add to it, or all prompts to start over"
            raise InputError(f"{output}: was made with {was}, but now it is {now}; {remedy}")


def _frames(sources: Iterable[int], count: int | None) -> str:
    first = ", ".join(str(source) for source in itertools.islice(sources, 3))
    return f"frames {first}, …" + ("" if count is None else f" ({count} of them)")


def write_track(
    path: str | os.PathLike[str],
    request: TrackRequest,
    *,
    groups: Groups | None = None,
    progress: Progress = silent,
) -> TrackNotes:
    """Follow the objects and write their masks, with notes: into a folder of PNG, .npz or .json.

    Masks that were made from the same video, prompts and tracker are kept; where objects were
    added, only these are followed, and those that were not written whole: in a folder, pixels of
    two objects belong to the lower number. ``groups`` says which objects are pieces of one;
    default: each is its own. ``progress`` is called as by ``track``. Whoever stops it (Cancelled
    raised in progress, or Ctrl-C) gets Cancelled, which says what is kept for the next run.
    """
    target = Path(path)
    check_target(target)
    check_place(_real(target))
    before = _before(target)
    keys = {object: request.key(object) for object in request.objects}
    groups = dict(groups or {object: (object,) for object in keys})
    known = dict(before.objects) if before else {}
    if before and keys == {object: noted.key for object, noted in known.items()}:
        if before.groups != groups:
            before = msgspec.structs.replace(before, groups=groups)
            write_notes(target, before)
        return before
    unchanged = {
        object: noted
        for object, noted in known.items()
        if keys.get(object) == noted.key and not noted.cut
    }
    new = request.only(keys.keys() - unchanged.keys())
    about = ",".join([__version__, *(f"{object}:{keys[object]}" for object in new.objects)])
    kept, has_backward = PartialFile(partial_path(target), about), False
    try:
        if before and not new.prompts:
            rows, size = _without_objects(before), before.size
            prompts = tuple(prompt for prompt in before.prompts if prompt.object in keys)
        else:
            earlier = _follow_back(new, kept, progress)
            has_backward = bool(earlier)
            rows, size = _follow_forward(new, earlier, progress)
            prompts = raw_prompts(request.prompts, {row.index: row.source for row in rows})
        if before and unchanged and before.frames != tuple(row.source for row in rows):
            problem = f"its frames have changed since {target} was made"
            raise DejaCueError(f"{request.video.path}: {problem}; remove {target} and track again")
        objects = {
            object: unchanged.get(object) or _tracked_object(rows, object, size, request)
            for object in keys
        }
        if not any(noted.seen for noted in objects.values()):
            remedy = "mark it more precisely, or lower the presence it needs"
            raise InputError(f"{request.video.path}: the object is not seen in any frame; {remedy}")
        names = [row.name for row in rows if row.name is not None]
        times = [row.time_s for row in rows if row.time_s is not None]
        stems = len(set(names)) == len(rows)
        notes = TrackNotes(
            request.tracker.name,
            dict(request.tracker.details),
            Path(request.video.path).name,
            request.video.key,
            target.name,
            "stem" if stems else "source",
            size,
            request.presence,
            request.backward,
            groups,
            prompts,
            tuple(row.source for row in rows),
            tuple(times) if len(times) == len(rows) else None,
            tuple(names) if stems else None,
            objects,
        )
        old = [object for object, noted in unchanged.items() if noted.seen]
        masks = None if before is None or not old else open_written(target, before)
        return _write(target, _MaskRows(rows, masks, old, notes, target.suffix == ""), kept)
    except (Cancelled, KeyboardInterrupt):
        message = "stopped before anything was kept"
        if has_backward:
            message = f"stopped; the backward pass is kept in {kept.path} and will be reused"
        raise Cancelled(message) from None
    finally:
        kept.close()


def partial_path(target: Path) -> Path:
    """Return the file that keeps the backward pass until the masks are written."""
    return target.with_name(f".{target.name}.partial")


def check_target(target: Path) -> None:
    """Refuse what cannot be written, or must not be written over, before anything is done. What a
    run that was killed has left is completed or removed first."""
    if target.suffix.lower() not in WRITTEN_AS:
        raise unwritable(target)
    if target.name in ("", ".."):
        raise InputError(f"{target}: give the folder for the masks a name, such as masks")
    check_place(target)
    _recover(target)
    if objection := _objection(target):
        raise InputError(f"{target}: {objection}")


def _objection(target: Path) -> str | None:
    """Return why what is there must not be written over; None: it may be."""
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


def open_written(path: str | os.PathLike[str], notes: TrackNotes) -> Masks:
    """Open the masks that these notes are about."""
    return open_masks(path, kind=WRITTEN_AS.get(Path(path).suffix.lower()), match=notes.match)


def _before(target: Path) -> TrackNotes | None:
    """Return the notes of an earlier run, if all that it has written is there and can be read."""
    try:
        notes = read_notes(target) if target.exists() else None
        whole = notes is not None and len(open_written(target, notes)) == len(notes.frames)
    except InputError:
        return None  # whatever it is, it will be made again
    return notes if whole else None


@dataclass(frozen=True, eq=False)
class FrameRecord:
    """A frame without its pixels, and the objects that are seen in it."""

    index: int
    source: int
    time_s: float | None
    name: str | None
    objects: dict[int, PackedObservation]


def _without_objects(notes: TrackNotes) -> list[FrameRecord]:
    times: Sequence[float | None] = notes.times_s or [None] * len(notes.frames)
    names: Sequence[str | None] = notes.names or [None] * len(notes.frames)
    frames = zip(notes.frames, times, names, strict=True)
    return [FrameRecord(at, *frame, {}) for at, frame in enumerate(frames)]


def _follow_back(request: TrackRequest, kept: PartialFile, progress: Progress) -> Earlier:
    """Return what is seen before the first prompts: kept from a run that was stopped, or kept now,
    in a single record, so that it is there whole or not at all."""
    for record in kept.read():
        with suppress(msgspec.DecodeError, RecursionError):
            return _EARLIER.decode(record)
    earlier = follow_back(request, progress)
    if earlier:
        kept.append([msgspec.msgpack.encode(earlier)])
    return earlier


def _follow_forward(
    request: TrackRequest, earlier: Earlier, progress: Progress
) -> tuple[list[FrameRecord], tuple[int, int]]:
    """Return all frames with their objects, and (height, width); what is seen ``earlier`` is used
    up."""
    with closing(iter(request.video)) as frames:  # type: ignore[type-var]
        size = next(frames).shape
    rows: list[FrameRecord] = []

    def report(stage: str, done: int, total: int | None = None, note: str = "") -> None:
        doubt = _latest_doubt(rows, size)
        progress(stage, done, total, note if doubt is None else Note(doubt, "doubtful"))

    for frame, seen in follow_forward(request, report):
        objects = {**earlier.pop(frame.index, {}), **packed(frame, seen)}
        rows.append(FrameRecord(frame.index, frame.source, frame.time_s, frame.name, objects))
    return rows, size


def _latest_doubt(rows: Sequence[FrameRecord], size: tuple[int, int]) -> str | None:
    """Return why the last row is doubtful, as far as its past tells; None: it is not."""
    past = rows[-PAST_FRAMES - 1 :]
    for object in past[-1].objects if past else ():
        series = replace(_series(past, object, size), since=len(past) - 1)
        for doubt in find_doubts(series):
            if doubt.last == past[-1].source:
                return KINDS[doubt.kind]
    return None


def _tracked_object(
    rows: Sequence[FrameRecord], object: int, size: tuple[int, int], request: TrackRequest
) -> TrackedObject:
    presence = tuple(
        row.objects[object].presence if object in row.objects else None for row in rows
    )
    seen, doubts = 0, []
    for shot, starts in request.starts.items():
        if object in starts:
            inside = [row for row in rows if shot is None or shot.start <= row.index <= shot.end]
            series = _series(inside, object, size)
            seen += int((series.area > 0).sum())
            doubts += find_doubts(series)
    doubts.sort(key=lambda doubt: doubt.first)
    return TrackedObject(request.key(object), seen, 0, presence, tuple(doubts))


def _series(rows: Sequence[FrameRecord], object: int, size: tuple[int, int]) -> Series:
    observations = [row.objects.get(object, _UNSEEN) for row in rows]
    return Series(
        np.array([row.source for row in rows]),
        np.array([observation.area for observation in observations]),
        np.array([observation.presence for observation in observations]),
        np.array([observation.box for observation in observations]),
        np.array([observation.signature() for observation in observations]),
        size,
    )


@dataclass
class _MaskRows:
    """Yields the name or number of each frame and the masks of its objects, as write_masks takes
    them; those of ``old`` objects come from ``masks``.

    Names are file stems for a folder of images, numbers those of the file's frames for a video.
    Where ``exclusive``, objects share no pixel: it belongs to the lower number. The objects of the
    rows are used up, so that whoever packs the masks again holds the only copy.
    """

    rows: Sequence[FrameRecord]
    masks: Masks | None
    old: Sequence[int]
    notes: TrackNotes
    exclusive: bool
    seen: Counter[int] = field(default_factory=Counter)
    cut: Counter[int] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[tuple[int | str, dict[int, Mask]]]:
        size = self.notes.size
        blank = np.broadcast_to(np.uint8(0), (*size, 3))
        groups = [frozenset([object]) for object in self.old]
        for row in self.rows:
            objects = {id: packed.mask(size) for id, packed in row.objects.items() if packed.area}
            row.objects.clear()
            if self.masks is not None:
                frame = Frame(row.index, row.source, row.time_s, row.name, blank)
                unions = zip(self.old, self.masks.unions(frame, groups), strict=True)
                objects |= {id: mask for id, mask in unions if mask is not None}
            key = row.name if self.notes.match == "stem" and row.name is not None else row.source
            yield key, self._counted(dict(sorted(objects.items())))

    def _counted(self, objects: dict[int, Mask]) -> dict[int, Mask]:
        taken = np.zeros(self.notes.size, dtype=bool)
        written = {}
        for id, mask in objects.items():
            if self.exclusive and (mask & taken).any():
                self.cut[id] += 1
                mask = mask & ~taken
            taken |= mask
            if mask.any():
                self.seen[id] += 1
                written[id] = mask
        return written


def _real(target: Path) -> Path:
    """Return where a link leads to, so that it stays one."""
    return resolved(target) if target.is_symlink() else target


def _write(target: Path, rows: _MaskRows, kept: PartialFile) -> TrackNotes:
    """Write masks and notes together: what was there is replaced only when the new is whole."""
    with temporary_folder(_real(target)) as folder:
        write_masks(folder / target.name, rows, kind=WRITTEN_AS[target.suffix.lower()])
        objects = {  # with the counts of what was written
            id: msgspec.structs.replace(noted, seen=rows.seen[id], cut=rows.cut[id])
            for id, noted in rows.notes.objects.items()
        }
        notes = msgspec.structs.replace(rows.notes, objects=objects)
        write_notes(folder / target.name, notes)  # from here on, a later run would go on: _recover
        kept.remove()
        _move(folder, target)
    return notes


def _move(folder: Path, target: Path) -> None:
    """Move masks and notes from a temporary folder to where they belong; what is done of it
    already is left as it is."""
    real, new, old = _real(target), folder / target.name, folder / f"{target.name}.old"
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
    """Move to its place what a killed run had written, but not moved; half of it is removed."""
    with left_folder(_real(target)) as folder:
        if folder is None or not has_notes(folder / target.name):
            return
        begun = (folder / f"{target.name}.old").exists() or not (folder / target.name).exists()
        if (begun and target.suffix) or _objection(target) is None:
            partial_path(target).unlink(missing_ok=True)
            _move(folder, target)
