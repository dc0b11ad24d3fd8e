"""encode: a video, masks and an encoder → the history of each object, in one pass; what is in a
folder already is reused.

    crops: decode ──▶ union of masks ──▶ crop ──▶ in batches ──▶ encode ──▶ histories

``crops`` needs no model, so it may run in another process (corpus/ingest). Decoding and cropping
run ahead of the encoder; nothing holds more than a few batches, nor more than a few frames where
these are large. What has been encoded is kept in a partial file, keyed by the pixels of each crop,
so that a stopped run goes on where it was and a changed mask is never mistaken for an old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.atomic import check_place
from dejacue.errors import Cancelled, InputError, StrPath
from dejacue.files.findings import (
    DOCUMENT,
    PIXELS,
    Pictures,
    history_path,
    holds_finding,
    pictures_path,
    read_document,
    read_pictures,
    write_pictures,
)
from dejacue.files.histories import read_history, read_vocabulary, write_history
from dejacue.files.partial import PartialRows
from dejacue.finding.locate import NOTHING_SAVED, MaskSource, locate_object
from dejacue.finding.request import Lazy, loaded_encoder
from dejacue.masks import MaskIds, Masks
from dejacue.models.encoders.base import MINIMUM, PADDING, Encoder, EncoderInfo
from dejacue.progress import Progress, silent
from dejacue.records import Example, History, Note, Timeline
from dejacue.records.history import FRAME_STEP, LOOKED_AT, MEANINGLESS, MINI, PROBLEMS
from dejacue.report.thumbnails import PictureAlbum, frame_and_crop
from dejacue.video.frames import open_frames
from dejacue.video.video import Frame, Video, open_video

T = TypeVar("T")
U = TypeVar("U")
_log = logging.getLogger("dejacue")
Pixels = NDArray[np.uint8]
Rows = NDArray[np.float32]
Watch = Callable[[Frame, Mapping[str, NDArray[np.bool_] | None]], object]
CROPPERS = 2  # threads
CROPS_PER_TASK = 8  # that a thread takes at a time
MAX_BUFFERED_BYTES = 256 << 20  # of frames that wait or are being cropped
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
    named: Sequence[Example] | None = None,
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
    named      what a person names of the finding that follows: a folder whose finding has named
               frames beside these is refused, since they would be lost with another history; None:
               none follows, and any finding of another history is refused
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
        _check_nothing_lost(paths.values(), named)
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


def _check_nothing_lost(paths: Iterable[Path], named: Sequence[Example] | None) -> None:
    """Refuse a folder whose finding, which goes with its history, has what a person named and does
    not name now."""
    for folder in filter(holds_finding, {path.parent for path in paths}):
        lost = "it"
        if named is not None:
            try:
                words = read_vocabulary(folder / read_document(folder).files["vocabulary"])
            except (InputError, KeyError):
                continue  # damaged: it is made again
            now = {(example.state, example.span, example.unit) for example in named}
            marks = (*words.frame_examples, *words.changes)
            if all((mark.state, mark.span, mark.unit) in now for mark in marks):
                continue
            lost = "what was named in it"
        problem = f"holds a finding of other frames, objects or features; {lost} would be lost"
        raise InputError(f"{folder}: {problem}; give another folder, or remove its finding.json")


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


# One pass over a video


def recipe(video: Video, masks: Masks, info: EncoderInfo, mask_ids: MaskIds) -> dict[str, str]:
    """Return what a history is made with and of: two that agree in it hold the same rows."""
    objects = "all" if mask_ids is None else ",".join(str(id) for id in sorted(mask_ids))
    return {
        **info.details,
        "padding": str(PADDING),
        "minimum": str(MINIMUM),
        "video": video.key,
        "masks": masks.key,
        "objects": objects,
        **({FRAME_STEP: str(video.step)} if video.step > 1 else {}),
    }


class Crop(NamedTuple):
    """Holds what an encoder is given of one object in one frame.

    key      bytes that the pixels determine
    which    the object, as ``crops`` is given them
    time_s   NaN where the video has none
    """

    pixels: Pixels
    key: bytes
    which: int
    frame: int
    source: int
    time_s: float


def crops(
    video: Video,
    masks: Masks,
    objects: Mapping[str, MaskIds],
    info: EncoderInfo,
    *,
    threads: int = 0,
    hashed: bool = True,
    watch: Watch | None = None,
    advance: Callable[[str, int], object] = lambda stage, count: None,
) -> Iterator[Crop]:
    """Decode a video and yield the crops of its objects, in the order of its frames.

    threads    that crop while the next frames are decoded; 0: none
    hashed     whether keys are of the pixels; else each crop has its own
    watch      called with each frame and the masks of its objects
    advance    called with "decode" or "crop" and how many more are done
    """
    numbers, frames = itertools.count(), 0

    def sightings() -> Iterator[tuple[int, Frame, NDArray[np.bool_]]]:
        nonlocal frames
        for frame in video.lazy_frames():
            advance("decode", frame.index + 1 - frames)  # one that cannot be decoded counts, too
            frames = frame.index + 1
            unions = masks.unions(frame, list(objects.values()))
            if watch is not None:
                watch(frame, dict(zip(objects, unions, strict=True)))
            for which, mask in enumerate(unions):
                if mask is not None:
                    yield which, frame, mask

    def cut(sighting: tuple[int, Frame, NDArray[np.bool_]]) -> Crop:
        which, frame, mask = sighting
        pixels = np.ascontiguousarray(info.pixels(frame, mask))
        key = hashlib.sha256(pixels.data).digest() if hashed else next(numbers).to_bytes(16, "big")
        time_s = math.nan if frame.time_s is None else frame.time_s
        return Crop(pixels, key[:16], which, frame.index, frame.source, time_s)

    for found in prefetch(cut, sightings(), threads, CROPS_PER_TASK, lambda seen: seen[1].nbytes):
        advance("crop", 1)
        yield found
        del found  # large, and not needed while the next is decoded


def build_histories(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    objects: Mapping[str, MaskIds],
    *,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    croppers: int = CROPPERS,
    required: bool = True,
    watch: Watch | None = None,
) -> dict[str, History]:
    """Return the history of each object, in one pass over the video; of several, those that are
    never visible are left out.

    partial    file that keeps what is encoded until the caller has written the histories
    progress   called with "decode", "crop" and "encode" (see dejacue.progress)
    croppers   threads that crop
    required   whether it is refused that none of the objects is ever visible
    watch      as in ``crops``
    """
    info = EncoderInfo.of(encoder)
    length = video.length
    total = None if length is None else length * len(objects)
    done = dict.fromkeys(("decode", "crop", "encode"), 0)

    def advance(stage: str, count: int) -> None:
        done[stage] += count
        progress(stage, done[stage], length if stage == "decode" else total, "")

    seen: list[tuple[Any, ...]] = []  # of each crop all but its pixels
    found = crops(
        video,
        masks,
        objects,
        info,
        threads=croppers,
        hashed=partial is not None,
        watch=watch,
        advance=advance,
    )
    with PartialRows(partial, info.key) as rows:

        def encode(batch: list[Crop]) -> list[tuple[Any, ...]]:
            pixels, keys = [crop.pixels for crop in batch], [crop.key for crop in batch]
            encode_batch(pixels, keys, encoder, rows)
            return [crop[1:] for crop in batch]

        batches = (batch for batch, _ in batched(found, info.batch))
        with contextlib.closing(prefetch(encode, batches, encoder.workers)) as encoded:
            for batch in encoded:
                seen += batch
                advance("encode", len(batch))
    if not seen:
        if required:
            check_visible(video, masks, objects)
        return {}
    details = pass_details(video, masks, done["decode"])
    made = {id: recipe(video, masks, info, ids) | details for id, ids in objects.items()}
    return histories_of(made, masks.presence, zip(*seen, strict=True), rows, info)


def check_visible(video: Video, masks: Masks, objects: Iterable[str]) -> None:
    """Refuse, after a pass, objects none of which was visible."""
    masks.check_matched()  # says why, where names or numbers do not fit
    remedy = "check the mask ids and how masks are matched to frames"
    raise InputError(f"{video.path}: {next(iter(objects))} is never visible; {remedy}")


def pass_details(video: Video, masks: Masks, frames: int) -> dict[str, str]:
    """Return what made_with says of a pass over so many frames."""
    problems = "\n".join((*video.problems, *masks.problems))
    return {LOOKED_AT: str(frames), **({PROBLEMS: problems} if problems else {})}


def encode_batch(
    pixels: Sequence[Pixels], keys: Sequence[bytes], encoder: Encoder, rows: PartialRows
) -> None:
    """Encode all of a batch or none, and keep the rows at once, so that a kill costs what is being
    encoded and no more; a batch that is known is not encoded again."""
    if not all(key in rows for key in keys):
        new = encoder.encode_images(list(pixels))
        rows.add(dict(zip(keys, new, strict=True)))


def histories_of(
    made: Mapping[str, Mapping[str, str]],
    presence: Mapping[str, Mapping[int, float]],
    columns: Iterable[Any],
    rows: Mapping[bytes, Rows],
    info: EncoderInfo,
) -> dict[str, History]:
    """Return the histories of the objects that were visible.

    made       made_with by id, in the order of the objects
    presence   how sure a tracker was, by id and frame of the file
    columns    of all crops: those of ``Crop`` but its pixels
    rows       by key
    """
    keys, *numbers = columns
    which, frames, sources, times = map(np.asarray, numbers)
    histories = {}
    for at, (id, details) in enumerate(made.items()):
        own = np.flatnonzero(which == at)
        if not own.size:
            continue
        features = np.stack([rows[keys[row]] for row in own.tolist()])
        sure, seen = presence.get(id, {}), sources[own].tolist()
        known = all(source in sure for source in seen)
        histories[id] = History(
            features,
            frames[own],
            id,
            info.identity,
            times_s=None if np.isnan(times[own]).any() else times[own],
            source_frames=sources[own],
            presence=np.array([sure[source] for source in seen]) if known else None,
            made_with={**details, **info.quality_note(features)},
        )
    return histories


def prefetch(
    function: Callable[[T], U],
    items: Iterable[T],
    workers: int,
    chunk: int = 1,
    size: Callable[[T], int] = lambda _: 0,
) -> Generator[U, None, None]:
    """Yield what ``map`` would, computed in threads a few chunks of items ahead of the taker.

    workers   threads; 0: nothing runs ahead
    size      the bytes of an item: of large ones fewer wait
    """
    if not workers:
        yield from map(function, items)
        return
    running: deque[tuple[Future[list[U]], int]] = deque()
    buffered = 0

    def run(batch: list[T]) -> list[U]:
        return [function(item) for item in batch]

    with ThreadPoolExecutor(workers) as pool:
        try:
            for batch, weight in batched(items, chunk, size, MAX_BUFFERED_BYTES // (2 * workers)):
                running.append((pool.submit(run, batch), weight))
                buffered += weight
                while len(running) > 2 * workers or buffered > MAX_BUFFERED_BYTES:
                    future, done = running.popleft()
                    buffered -= done
                    yield from future.result()
            while running:
                yield from running.popleft()[0].result()
        finally:
            for future, _ in running:
                future.cancel()


def batched(
    items: Iterable[T],
    count: int,
    size: Callable[[T], int] = lambda _: 0,
    max_bytes: float = math.inf,
) -> Iterator[tuple[list[T], int]]:
    """Yield lists of so many items, or of fewer where these are large, and their bytes."""
    batch: list[T] = []
    weight = 0
    for item in items:
        batch.append(item)
        weight += size(item)
        del item  # it waits for the next one otherwise
        if len(batch) == count or weight >= max_bytes:
            yield batch, weight
            batch, weight = [], 0
    if batch:
        yield batch, weight


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
