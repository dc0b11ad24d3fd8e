"""encode: a job → the history of each object, in one pass over the video.

The steps are those of every engine (corpus/ingest): open, observe, leave out what is there, crop,
encode. Here they run one after the other in this process, and histories are kept in files.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dejacue.atomic import check_place
from dejacue.errors import Cancelled, InputError, StrPath
from dejacue.files.findings import (
    DOCUMENT,
    PIXELS,
    Pictures,
    history_path,
    holds_finding,
    pictures_path,
    read_pictures,
    write_pictures,
)
from dejacue.files.histories import read_history, write_history
from dejacue.files.partial import PartialRows
from dejacue.finding.build import EncoderInfo, Watch, build_histories, recipe
from dejacue.finding.job import Job
from dejacue.finding.where import NOTHING_SAVED, Observed
from dejacue.models.encoders import Encoder
from dejacue.progress import Progress, silent
from dejacue.records import History, Note, Timeline
from dejacue.records.history import FRAME_STEP, MEANINGLESS, MINI, PROBLEMS
from dejacue.records.note import in_order
from dejacue.report.thumbnails import PictureAlbum, frame_and_crop
from dejacue.video.frames import open_frames
from dejacue.video.video import Frame

_log = logging.getLogger("dejacue")
MAX_INTERVAL_PICTURES = 24
MINI_ONLY_KNOWS = Note(
    "mini only knows the rendered scenes of this project; for real footage use the encoder siglip2",
    "information",
)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The history of one object, its file if it was written, and pictures if requested."""

    history: History
    file: Path | None = None
    pictures: Pictures = field(default_factory=lambda: Pictures({}, {}))
    warnings: tuple[Note, ...] = ()


def encode(
    job: Job,
    *,
    observed: Observed | None = None,
    encoder: Encoder | None = None,
    limit_fps: bool = True,
    output: StrPath | None = None,
    pictures: bool = True,
    progress: Progress = silent,
    replaces: bool = False,
) -> dict[str, Encoded]:
    """Return the histories of a job by id.

    observed, encoder   of the job, if they are open already
    limit_fps   whether a slow encoder is given fewer frames; else all, unless an existing history
                was made from fewer
    output   a folder, or the .npz file of a single history: what is up to date is reused, and what
             a stopped run has encoded; None: nothing is written
    replaces   whether another finding takes the place of that in the folder; if not, a folder with
             the finding of other histories is refused
    """
    observed = observed or job.observe(None, output, progress)
    encoder = encoder or job.load()
    info = EncoderInfo.of(encoder)
    files = _Files.of(output, observed, info)
    made_with = {name: history.made_with or {} for name, history in files.existing.items()}
    stride = job.stride_for(observed.video, info.max_fps if limit_fps else None, made_with.values())
    observed = observed.thinned(stride)
    missing = missing_objects(observed, info, made_with)
    reused = {
        name: history for name, history in files.existing.items() if name not in missing.objects
    }
    if reused:
        paths = ", ".join(str(files.paths[name]) for name in reused)
        _log.info("reused %s: made from the same video, masks and options", paths)
    if missing.objects and not replaces:
        files.check_finding()
    album = PictureAlbum()
    new: dict[str, History] = {}
    warnings: list[Note] = []
    if missing.objects:
        watch = partial(_add_to, album) if pictures else None
        new = _new_histories(missing, encoder, info, files, bool(reused), watch, progress)
        warnings = [
            Note(
                f"{observed.video.path}: {name} is never visible in these frames; left out",
                "information",
            )
            for name in missing.objects
            if name not in new
        ]
    elif files.partial is not None:
        files.partial.unlink(missing_ok=True)  # of a run that was killed when all was written
    by_name = new | reused
    histories = {name: by_name[name] for name in observed.objects if name in by_name}
    pictures_of: dict[str, Pictures] = {}
    if pictures:
        new_pictures = {n: album.pictures(at) for at, n in enumerate(missing.objects) if n in new}
        objects = {name: observed.objects[name] for name in histories}
        pictures_of = _with_pictures(replace(observed, objects=objects), info, files, new_pictures)
    return {
        name: Encoded(
            history,
            files.paths.get(name),
            pictures_of.get(name, Pictures({}, {})),
            in_order((*warnings, *history_warnings(history))),
        )
        for name, history in histories.items()
    }


def missing_objects(
    observed: Observed,
    info: EncoderInfo,
    known: Mapping[str, Mapping[str, str]],
    differs: Callable[[str], object] = lambda name: None,
) -> Observed:
    """Leave out the objects whose histories were made in the same way from the same pixels.

    known     made_with of the existing histories
    differs   called with the id of one that was made from something else
    """
    missing = {}
    for name, mask_ids in observed.objects.items():
        if name in known:
            needed = recipe(observed.video, observed.masks, info, mask_ids)
            if all(known[name].get(key) == text for key, text in needed.items()):
                continue
            differs(name)
        missing[name] = mask_ids
    return replace(observed, objects=missing)


def _add_to(album: PictureAlbum, frame: Frame, masks: list) -> None:  # type: ignore[type-arg]
    album.see(frame.index, lambda: frame.image, masks)


@dataclass(frozen=True, eq=False)
class _Files:
    """The files of the histories, and the existing histories of the same encoder."""

    paths: Mapping[str, Path]
    existing: Mapping[str, History]

    @classmethod
    def of(cls, output: StrPath | None, observed: Observed, info: EncoderInfo) -> _Files:
        if output is None:
            return cls({}, {})
        place, names = Path(output), observed.objects
        if place.suffix == ".npz" and len(names) > 1:
            problem = f"is a file, but {len(names)} objects need a folder"
            raise InputError(f"{place}: {problem}; give the name of a folder")
        single = place.suffix == ".npz"
        paths = {name: place if single else history_path(place, name) for name in names}
        existing = {}
        for name, path in paths.items():
            with contextlib.suppress(InputError):  # whatever it is, it will be made again
                history = read_history(path) if path.is_file() else None
                if history is not None and history.encoder == info.identity:
                    existing[name] = history
        return cls(paths, existing)

    def check_finding(self) -> None:
        """Refuse a folder whose finding is of other histories: it would be removed."""
        for folder in {path.parent for path in self.paths.values()}:
            if holds_finding(folder):
                problem = "holds a finding of other frames, objects or features, with its marks"
                remedy = "give another folder, or remove its finding.json"
                raise InputError(f"{folder}: {problem}; {remedy}")

    def write(self, name: str, history: History) -> None:
        """Write the history of an object, if it has a file."""
        if name in self.paths:
            path = self.paths[name]
            (path.parent / DOCUMENT).unlink(missing_ok=True)  # it speaks of another history
            write_history(path, history)

    @property
    def partial(self) -> Path | None:
        first = next(iter(self.paths.values()), None)
        return None if first is None else first.with_name(f".{first.name}.partial")


def _new_histories(
    observed: Observed,
    encoder: Encoder,
    info: EncoderInfo,
    files: _Files,
    partly: bool,
    watch: Watch | None,
    progress: Progress,
) -> dict[str, History]:
    """Make the histories and, where they have files, write them."""
    place, video = files.partial, observed.video

    def count_saved() -> int:
        return 0 if place is None else len(PartialRows(place, info.key))

    if place is not None:
        check_place(next(iter(files.paths.values())))
        if before := count_saved():
            _log.info("resuming after %d encoded crops", before)
    try:
        histories = build_histories(
            video,
            observed.masks,
            encoder,
            observed.objects,
            partial=place,
            progress=progress,
            croppers=min(16, os.cpu_count() or 1),
            required=not partly,
            watch=watch,
        )
    except (KeyboardInterrupt, Cancelled):
        raise _cancelled(place, count_saved(), video.length, len(observed.objects)) from None
    for name, history in histories.items():
        files.write(name, history)
    if place is not None:
        place.unlink(missing_ok=True)
    return histories


def _cancelled(partial: Path | None, count: int, length: int | None, objects: int) -> Cancelled:
    if partial is None:
        return Cancelled(NOTHING_SAVED)
    if not count:
        return Cancelled("stopped before anything was encoded")
    what = "frames" if objects == 1 else "crops"
    of = f"{count} {what}" if length is None else f"{count} of {length * objects} {what}"
    return Cancelled(f"stopped; {of} are kept in {partial} and will be reused")


def mini_warning(identity: str | None) -> list[Note]:
    """Return the warning that goes with every answer of mini; nothing for other encoders."""
    return [MINI_ONLY_KNOWS] if (identity or "").startswith(MINI) else []


def history_warnings(history: History) -> list[Note]:
    """Return what a reader must know of how a history was made, whenever that was."""
    made_with = history.made_with or {}
    warnings = [Note(made_with[MEANINGLESS], "meaningless")] if MEANINGLESS in made_with else []
    warnings += [] if warnings else mini_warning(history.encoder)
    warnings += [Note(text, "doubtful") for text in made_with.get(PROBLEMS, "").splitlines()]
    frames = history.frames_looked_at or 0
    if stride := made_with.get(FRAME_STEP):
        text = (
            f"only one in {stride} frames was used ({frames} in all), so that a CPU takes about as "
            "long as the video lasts; a stride of 1 uses all"
        )
        warnings.append(Note(text, "information"))
    if 2 * len(history) < frames:
        text = f"{history.id} is seen in only {len(history)} of {frames} frames"
        warnings.append(Note(text, "doubtful"))
    return warnings


def _with_pictures(
    observed: Observed, info: EncoderInfo, files: _Files, new: Mapping[str, Pictures]
) -> dict[str, Pictures]:
    """Return the pictures of each object, and write new ones beside its history.

    Those of an earlier run are read; where these are gone, the video is decoded once more.
    """
    pictures = dict(new)
    gone = {}
    for name, mask_ids in observed.objects.items():
        details = recipe(observed.video, observed.masks, info, mask_ids)
        pixels = {key: details[key] for key in PIXELS}
        path = pictures_path(files.paths[name]) if name in files.paths else None
        if name in new:
            if path is not None:
                write_pictures(path, new[name], pixels)
        elif path is not None and (earlier := read_pictures(path, pixels)) is not None:
            pictures[name] = earlier
        else:
            gone[name] = mask_ids
    if gone:
        album = PictureAlbum()
        for frame in observed.video:
            _add_to(album, frame, observed.masks.unions(frame, list(gone.values())))
        again = {name: album.pictures(at) for at, name in enumerate(gone)}
        pictures |= _with_pictures(replace(observed, objects=gone), info, files, again)
    return pictures


def with_interval_pictures(
    pictures: Pictures, observed: Observed, history: History, timeline: Timeline
) -> Pictures:
    """Add a picture from the middle of each interval that has none."""
    rows: list[int] = []
    for window in dict.fromkeys(interval.window for interval in timeline):
        pictured = (*pictures.thumbnails, *history.frames[rows].tolist())
        if len(rows) < MAX_INTERVAL_PICTURES and not any(frame in window for frame in pictured):
            first, last = history.rows_of(window)
            rows.append((first + last) // 2)
    if not rows or history.source_frames is None:
        return pictures
    masks = observed.masks.thinned(int((history.made_with or {}).get(FRAME_STEP, 1)))
    added = Pictures(dict(pictures.thumbnails), dict(pictures.crops))
    with contextlib.suppress(InputError), closing(open_frames(Path(observed.video.path))) as frames:
        for row in sorted(rows):
            index, source = int(history.frames[row]), int(history.source_frames[row])
            frame = Frame(index, source, None, frames.name(source), frames.image(source))
            (mask,) = masks.unions(frame, [observed.objects[history.id]])
            added.thumbnails[index], part = frame_and_crop(frame.image, mask)
            if part is not None:
                added.crops[index] = part
    return added
