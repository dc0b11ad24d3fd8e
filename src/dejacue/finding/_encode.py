"""encode: a video, masks and an encoder → the history of each object, in one pass; what is in a
folder already is reused."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
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
from dejacue.finding.locate import NOTHING_SAVED, MaskSource, locate_object
from dejacue.finding.request import Lazy, loaded_encoder
from dejacue.masks import MaskIds, Masks
from dejacue.models.encoders import Encoder
from dejacue.progress import Progress, silent
from dejacue.records import History, Note, Timeline
from dejacue.records.history import FRAME_STEP, MEANINGLESS, MINI, PROBLEMS
from dejacue.report.thumbnails import PictureAlbum, frame_and_crop
from dejacue.video.frames import open_frames
from dejacue.video.video import Frame, Video, open_video

_log = logging.getLogger("dejacue")
MAX_INTERVAL_PICTURES = 24
MINI_ONLY_KNOWS = Note(
    "mini only knows the rendered scenes of this project; for real footage use the encoder siglip2",
    "information",
)


def encode(
    video: Video | StrPath,
    masks: MaskSource,
    encoder: Encoder | str | Lazy | None = None,
    *,
    max_fps: float | None = None,
    folder: StrPath | None = None,
    replaces: bool = False,
    watch: Watch | None = None,
    progress: Progress = silent,
) -> dict[str, History]:
    """Return the history of each object, by id; objects that are never visible are left out.

    masks      as ``locate_object`` gives them; others, which hold one object, are opened here
    encoder    a name or what load_encoder returns (None: siglip2)
    max_fps    frames a second that are encoded, unless a history that is in the folder was made
               from fewer; None: all that the video has
    folder     where histories are kept, or the .npz file of a single one: what is up to date is
               reused, and what a stopped run has encoded; None: nothing is written
    replaces   whether another finding takes the place of that in the folder; if not, a folder with
               the finding of other histories is refused
    watch      called with each frame that is looked at, and the masks of its objects by id

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> masks = locate_object(scene / "scene.mp4", masks=scene / "Annotations", objects=1)
    >>> histories = encode(scene / "scene.mp4", masks, "mini")
    >>> list(histories), len(histories["scene"])
    (['scene'], 110)
    """
    video = video if isinstance(video, Video) else open_video(video)
    if not isinstance(masks, Masks) or not masks.objects:
        masks = locate_object(video, masks=masks)
    encoder = loaded_encoder(encoder)
    info = EncoderInfo.of(encoder)
    paths = history_paths(folder, masks.objects)
    known = _existing(paths, info)
    made_with = {id: history.made_with or {} for id, history in known.items()}
    stride = stride_for(video, max_fps, made_with.values())
    video, masks = video.thinned(stride), masks.thinned(stride)
    missing = missing_objects(video, masks, info, made_with)
    known = {id: history for id, history in known.items() if id not in missing}
    if known:
        listed = ", ".join(str(paths[id]) for id in known)
        _log.info("reused %s: made from the same video, masks and options", listed)
    place = next(iter(paths.values()), None)
    partial = None if place is None else place.with_name(f".{place.name}.partial")
    if missing:
        if not replaces:
            _check_no_finding(paths.values())
        if place is not None:
            check_place(place)
        made = _made(video, masks, missing, encoder, info, partial, bool(known), watch, progress)
        for id, history in made.items() if paths else ():
            (paths[id].parent / DOCUMENT).unlink(missing_ok=True)  # it speaks of another history
            write_history(paths[id], history)
        known |= made
    if partial is not None:
        partial.unlink(missing_ok=True)
    return {id: known[id] for id in masks.objects if id in known}


def stride_for(
    video: Video, max_fps: float | None, existing: Iterable[Mapping[str, str]] = ()
) -> int:
    """Return n where one in n frames is used. No clock decides: another run agrees.

    max_fps    as in ``encode``; images that are no video are all used
    existing   made_with of earlier histories: one of this video keeps its n
    """
    if max_fps is None:
        return 1
    for made_with in existing:
        stride = int(made_with.get(FRAME_STEP, "1"))
        if made_with.get("video") == video.thinned(stride).key:
            return stride
    return max(1, round(video.rate / max_fps)) if video.rate else 1


def missing_objects(
    video: Video, masks: Masks, info: EncoderInfo, known: Mapping[str, Mapping[str, str]]
) -> dict[str, MaskIds]:
    """Return the objects without a history that was made in the same way from the same pixels;
    ``known`` is made_with of the existing ones."""
    missing = {}
    for id, mask_ids in masks.objects.items():
        needed = recipe(video, masks, info, mask_ids) if id in known else {}
        if not needed or not needed.items() <= known[id].items():
            missing[id] = mask_ids
    return missing


def history_paths(folder: StrPath | None, ids: Iterable[str]) -> dict[str, Path]:
    """Return the file of each history; none without a folder."""
    if folder is None:
        return {}
    place, ids = Path(folder), list(ids)
    if place.suffix != ".npz":
        return {id: history_path(place, id) for id in ids}
    if len(ids) > 1:
        problem = f"is a file, but {len(ids)} objects need a folder"
        raise InputError(f"{place}: {problem}; give the name of a folder")
    return dict.fromkeys(ids, place)


def _existing(paths: Mapping[str, Path], info: EncoderInfo) -> dict[str, History]:
    """Return the histories of this encoder that are there already."""
    existing = {}
    for id, path in paths.items():
        with contextlib.suppress(InputError):  # whatever it is, it will be made again
            history = read_history(path) if path.is_file() else None
            if history is not None and history.encoder == info.identity:
                existing[id] = history
    return existing


def _check_no_finding(paths: Iterable[Path]) -> None:
    """Refuse a folder whose finding is of other histories: it would be removed."""
    for folder in {path.parent for path in paths}:
        if holds_finding(folder):
            problem = "holds a finding of other frames, objects or features, with its marks"
            remedy = "give another folder, or remove its finding.json"
            raise InputError(f"{folder}: {problem}; {remedy}")


def _made(
    video: Video,
    masks: Masks,
    objects: Mapping[str, MaskIds],
    encoder: Encoder,
    info: EncoderInfo,
    partial: Path | None,
    partly: bool,
    watch: Watch | None,
    progress: Progress,
) -> dict[str, History]:
    """Make the histories; say what is kept where it is stopped."""

    def count_saved() -> int:
        return 0 if partial is None else len(PartialRows(partial, info.key))

    if before := count_saved():
        _log.info("resuming after %d encoded crops", before)
    try:
        return build_histories(
            video,
            masks,
            encoder,
            objects,
            partial=partial,
            progress=progress,
            croppers=min(16, os.cpu_count() or 1),
            required=not partly,
            watch=watch,
        )
    except (KeyboardInterrupt, Cancelled):
        if partial is None:
            raise Cancelled(NOTHING_SAVED) from None
        if not (count := count_saved()):
            raise Cancelled("stopped before anything was encoded") from None
        what, of = "frames" if len(objects) == 1 else "crops", ""
        if video.length is not None:
            of = f" of {video.length * len(objects)}"
        kept = f"{count}{of} {what} are kept in {partial}"
        raise Cancelled(f"stopped; {kept} and will be reused") from None


# What goes beside histories: notes and pictures


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


def left_out(video: Video, masks: Masks, histories: Mapping[str, History]) -> list[Note]:
    """Return a note for each object that has no history."""
    return [
        Note(f"{video.path}: {id} is never visible in these frames; left out", "information")
        for id in masks.objects
        if id not in histories
    ]


def pictures_of(
    video: Video,
    masks: Masks,
    histories: Mapping[str, History],
    album: PictureAlbum,
    folder: StrPath | None,
) -> dict[str, Pictures]:
    """Return the pictures of each object, and write new ones beside its history.

    Those that are not in the album are of an earlier run and read; where these are gone, the video
    is decoded once more.
    """
    paths = history_paths(folder, histories)
    pictures: dict[str, Pictures] = {}
    for id, history in histories.items():
        made_with = history.made_with or {}
        pixels = {key: made_with[key] for key in PIXELS}
        path = pictures_path(paths[id]) if paths else None
        if id in album.ids:
            pictures[id] = album.pictures(id)
            if path is not None:
                write_pictures(path, pictures[id], pixels)
        elif path is not None and (earlier := read_pictures(path, pixels)) is not None:
            pictures[id] = earlier
    gone = {id: history for id, history in histories.items() if id not in pictures}
    if gone:
        stride = int((next(iter(gone.values())).made_with or {}).get(FRAME_STEP, 1))
        again, thinned = PictureAlbum(), masks.thinned(stride)
        ids = [masks.objects[id] for id in gone]
        for frame in video.thinned(stride):
            again.watch(frame, dict(zip(gone, thinned.unions(frame, ids), strict=True)))
        pictures |= pictures_of(video, masks, gone, again, folder)
    return pictures


def with_interval_pictures(
    pictures: Pictures, video: Video, masks: Masks, history: History, timeline: Timeline
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
    masks = masks.thinned(int((history.made_with or {}).get(FRAME_STEP, 1)))
    added = Pictures(dict(pictures.thumbnails), dict(pictures.crops))
    with contextlib.suppress(InputError), closing(open_frames(Path(video.path))) as frames:
        for row in sorted(rows):
            index, source = int(history.frames[row]), int(history.source_frames[row])
            frame = Frame(index, source, None, frames.name(source), frames.image(source))
            (mask,) = masks.unions(frame, [masks.objects[history.id]])
            added.thumbnails[index], part = frame_and_crop(frame.image, mask)
            if part is not None:
                added.crops[index] = part
    return added
