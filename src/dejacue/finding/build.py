"""From a video, the masks of its objects and an encoder to one row for each observed frame.

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
import json
import math
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.files.partial import PartialRows
from dejacue.models.encoders.base import UNKNOWN_PICTURES, Encoder
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import FRAME_STEP, LOOKED_AT, MEANINGLESS, PROBLEMS
from dejacue.video.crops import crop, picture

if TYPE_CHECKING:
    from dejacue.masks import MaskIds, Masks
    from dejacue.video.video import Frame, Video

T = TypeVar("T")
U = TypeVar("U")
Pixels = NDArray[np.uint8]
Rows = NDArray[np.float32]
Watch = Callable[["Frame", Mapping[str, NDArray[np.bool_] | None]], object]
ENCODER_FIELDS = ("identity", "dimension", "size", "details", "batch", "workers", "encode_images")
PADDING, MINIMUM = 0.20, 4  # of the crop, as published
CROPPERS = 2  # threads
CROPS_PER_TASK = 8  # that a thread takes at a time
MAX_CHUNK_CROPS = 256
MAX_CHUNK_BYTES = 32 << 20
MAX_BUFFERED_BYTES = 256 << 20  # of frames that wait or are being cropped


@dataclass(frozen=True)
class EncoderInfo:
    """All of an encoder but the model; small enough to be sent to other processes."""

    identity: str
    dimension: int
    size: int
    batch: int
    details: Mapping[str, str]
    fit: Callable[[Pixels], Pixels] | None = None
    max_fps: float | None = None
    knows_pictures: Callable[[Rows], bool] = Encoder.knows_pictures

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderInfo:
        """Describe an encoder; refuse an object that lacks what one has."""
        missing = [name for name in ENCODER_FIELDS if not hasattr(encoder, name)]
        if missing:
            raise InputError(
                f"the encoder {type(encoder).__name__} has no {', '.join(missing)}; "
                "add what is missing, preferably by deriving from dejacue.models.encoders.Encoder"
            )
        return cls(
            encoder.identity,
            encoder.dimension,
            encoder.size,
            encoder.batch,
            dict(encoder.details),
            encoder.fit,
            encoder.max_fps,
            encoder.knows_pictures,
        )

    def quality_note(self, rows: Rows) -> dict[str, str]:
        """Return what made_with says of a history of these rows: why it has no meaning, if so."""
        return {} if self.knows_pictures(rows) else {MEANINGLESS: UNKNOWN_PICTURES}

    @property
    def chunk(self) -> int:
        """Return the crops in a chunk for another process: whole batches, not too large."""
        largest = min(MAX_CHUNK_CROPS, MAX_CHUNK_BYTES // (3 * self.size**2))
        return max(1, largest // self.batch) * self.batch

    @property
    def key(self) -> str:
        """Return a text that changes with all that rows of the same pixels depend on."""
        key = {"encoder": self.identity, **self.details, "dimension": self.dimension}
        return json.dumps(key, sort_keys=True)

    def pixels(self, frame: Frame | Pixels, mask: NDArray[np.bool_]) -> Pixels:
        """Return what the encoder is given of a frame, or of its image."""
        if self.fit is not None:
            image = frame if isinstance(frame, np.ndarray) else frame.image
            return self.fit(crop(image, mask, PADDING, MINIMUM))
        return picture(frame, mask, self.size, PADDING, MINIMUM)


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
    """What an encoder is given of one object in one frame.

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
