"""From a video, the masks of its objects and an encoder to one row for each observed frame.

    crops: decode ──▶ union of masks ──▶ crop ──▶ chunks ──▶ encode_chunks: batches ──▶ histories

``crops`` needs no model, so it may run in another process; ``encode_chunks`` takes the chunks of
one video or of many. Decoding and cropping run ahead of the encoder; nothing holds more than a few
batches, nor more than a few frames where these are large. What has been encoded is kept in a
partial file, keyed by the pixels of each crop, so that a stopped run goes on where it was and a
changed mask is never mistaken for an old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import json
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError, InputError, unknown
from dejacue.files.partial import PartialRows
from dejacue.models.encoders.base import UNKNOWN_PICTURES, Encoder
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import FRAME_STEP, LOOKED_AT, MEANINGLESS, PROBLEMS
from dejacue.video.crops import crop, picture

if TYPE_CHECKING:
    from dejacue.masks import Masks
    from dejacue.video.video import Frame, Video

T = TypeVar("T")
U = TypeVar("U")
MaskIds = frozenset[int] | None  # ids that are one object; None: whatever the mask shows
Pixels = NDArray[np.uint8]
Rows = NDArray[np.float32]
Watch = Callable[["Frame", list[NDArray[np.bool_] | None]], object]
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


def build_history(
    video: Video | str | os.PathLike[str],
    masks: Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]],
    encoder: Encoder | str = "siglip2",
    *,
    objects: int | Iterable[int] | str | None = None,
    id: str | None = None,
    **options: Any,
) -> History:
    """Return the history of one object.

    video, masks   as open_video and open_masks give them, or paths
    encoder        as load_encoder gives it, or a name
    objects        the mask ids that are its pieces, where the masks hold several
    options        those of build_histories and, for a path, those of open_video (stride, fps, …)
                   and open_masks (kind, match)
    """
    from dejacue.masks import Masks, open_masks
    from dejacue.masks._masks import object_groups
    from dejacue.models.encoders import load_encoder
    from dejacue.models.trackers import match_of
    from dejacue.video.video import open_video

    opened: Video = _opened(video, open_video, options)
    if isinstance(masks, str | os.PathLike):
        options.setdefault("frames", opened.length)
        options.setdefault("match", match_of(masks) or "auto")
    united: Masks = _opened(masks, open_masks, options)
    for name in options:
        if name not in _options(build_histories):
            known = [*_options(build_histories), *_options(open_video), *_options(open_masks)]
            raise unknown("option of build_history", name, known)
    if isinstance(encoder, str):
        encoder = load_encoder(encoder)
    groups = None if objects in (None, "all") else object_groups(objects)
    if objects == "all" or (groups is not None and len(groups) > 1):
        raise InputError(f'objects "{objects!s:.40}": build_history takes one; give its mask ids')
    if groups is None and isinstance(united, Masks):
        united.check_one_object()
    mask_ids = None if groups is None else frozenset(groups[0])
    name = id or opened.name
    return build_histories(opened, united, encoder, {name: mask_ids}, **options)[name]


def _opened(source: Any, opener: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Open a path with those of the options that are for it; return anything else as it is."""
    chosen = {name: options.pop(name) for name in _options(opener) if name in options}
    if isinstance(source, str | os.PathLike | Mapping):
        return opener(source, **chosen)
    if chosen:
        problem = f"build_history: {', '.join(chosen)}: is an option of {opener.__name__}"
        raise InputError(f"{problem}; give it there, or give the path here")
    return source


def _options(function: Callable[..., Any]) -> list[str]:
    """Return the names that a function takes by keyword only."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def build_histories(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    groups: Mapping[str, MaskIds],
    *,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    croppers: int = CROPPERS,
    required: bool = True,
    watch: Watch | None = None,
) -> dict[str, History]:
    """Return one history per group, in one pass over the video; of several objects, those that
    are never visible are left out.

    partial           file that keeps what is encoded until the caller has written the histories
    progress          called with "decode", "crop" and "encode" (see dejacue.progress)
    croppers          threads that crop
    required, watch   as in ``crops``
    """
    info = EncoderInfo.of(encoder)
    length = video.length
    total = None if length is None else length * len(groups)
    done = dict.fromkeys(("decode", "crop", "encode"), 0)

    def advance(stage: str, count: int) -> None:
        done[stage] += count
        progress(stage, done[stage], length if stage == "decode" else total, "")

    chunks = crops(
        video,
        masks,
        groups,
        info,
        threads=croppers,
        size=info.batch,
        hashed=partial is not None,
        required=required,
        watch=watch,
        advance=advance,
    )
    (outcome,) = encode_chunks(
        (Incoming(None, message) for message in chunks),
        encoder,
        info,
        lambda _: partial,
        lambda count: advance("encode", count),
        alone=True,
    )
    return outcome.histories


@dataclass(frozen=True, eq=False)
class Chunk:
    """Crops of a video that follow the order of its frames.

    crops    (n, size, size, 3); keys: (n, 16) bytes that their pixels determine
    which    (n,) the object, counted as in End.ids
    frames, sources, times   (n,) of the video; times are NaN where it has none
    """

    crops: Pixels
    keys: Pixels
    which: NDArray[np.int64]
    frames: NDArray[np.int64]
    sources: NDArray[np.int64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, first: int, end: int) -> Chunk:
        return Chunk(*(column[first:end] for column in vars(self).values()))

    @property
    def without_crops(self) -> Chunk:
        return replace(self, crops=self.crops[:0])

    @property
    def names(self) -> list[bytes]:
        """Return the keys, as keys of a dictionary."""
        return [key.tobytes() for key in self.keys]


@dataclass(frozen=True, eq=False)
class End:
    """The message that follows the last chunk of a video.

    ids        of the histories to make of the chunks
    made       made_with of those that were visible
    presence   how sure a tracker was, by frame of the file
    skipped    ids of histories that are there already, made of the same
    pictures   a crop of each as JPEG, to know the object by
    """

    ids: tuple[str, ...] = ()
    made: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    presence: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """The message that nothing of the video can be used; ``what`` is a sentence."""

    what: str


Message = Chunk | End | Failed


def crops(
    video: Video,
    masks: Masks,
    groups: Mapping[str, MaskIds],
    info: EncoderInfo,
    *,
    threads: int = 0,
    size: int | None = None,
    hashed: bool = True,
    required: bool = True,
    watch: Watch | None = None,
    advance: Callable[[str, int], object] = lambda stage, count: None,
    empty: Callable[..., NDArray[Any]] = np.empty,
) -> Iterator[Chunk | End]:
    """Decode a video and crop its objects; yield chunks, then the End.

    threads    that crop while the next frames are decoded; 0: none
    size       crops in a chunk (default: what suits another process)
    hashed     whether keys are of the pixels; else each crop has its own
    required   whether it is refused that none of the objects is ever visible
    watch      called with each frame and the masks of its objects
    advance    called with "decode" or "crop" and how many more are done
    empty      allocates the crops of a chunk, as numpy.empty does
    """
    numbers, frames = itertools.count(), 0

    def sightings() -> Iterator[tuple[int, Frame, NDArray[np.bool_]]]:
        nonlocal frames
        for frame in video.lazy_frames():
            advance("decode", frame.index + 1 - frames)  # one that cannot be decoded counts, too
            frames = frame.index + 1
            unions = masks.unions(frame, list(groups.values()))
            if watch is not None:
                watch(frame, unions)
            for which, mask in enumerate(unions):
                if mask is not None:
                    yield which, frame, mask

    def cut(sighting: tuple[int, Frame, NDArray[np.bool_]]) -> tuple[Any, ...]:
        which, frame, mask = sighting
        pixels = np.ascontiguousarray(info.pixels(frame, mask))
        key = hashlib.sha256(pixels.data).digest() if hashed else next(numbers).to_bytes(16, "big")
        time_s = float("nan") if frame.time_s is None else frame.time_s
        return pixels, np.frombuffer(key, np.uint8, 16), which, frame.index, frame.source, time_s

    def count(row: tuple[Any, ...]) -> tuple[Any, ...]:
        advance("crop", 1)
        return row

    visible: set[int] = set()
    rows = prefetch(cut, sightings(), threads, CROPS_PER_TASK, lambda sighting: sighting[1].nbytes)
    most = size or info.chunk
    for batch, _ in _batches(map(count, rows), most):
        pictures, *columns = zip(*batch, strict=True)
        memory = empty((most, *pictures[0].shape), pictures[0].dtype)[: len(pictures)]
        chunk = Chunk(np.stack(pictures, out=memory), *map(np.stack, columns))
        visible.update(chunk.which.tolist())
        del batch, pictures, memory
        yield chunk
        del chunk  # large, and not needed while the next is decoded
    ids = tuple(groups)
    if not visible and required:
        masks.check_matched()  # says why, where names or numbers do not fit
        remedy = "check the mask ids and how masks are matched to frames"
        raise InputError(f"{video.path}: {ids[0]} is never visible; {remedy}")
    problems = "\n".join((*video.problems, *masks.problems))
    of_the_pass = {LOOKED_AT: str(frames), **({PROBLEMS: problems} if problems else {})}
    seen = {ids[at]: groups[ids[at]] for at in sorted(visible)}
    yield End(
        ids,
        {
            id: {**recipe(video, masks, info, mask_ids), **of_the_pass}
            for id, mask_ids in seen.items()
        },
        {id: sure for id, mask_ids in seen.items() if (sure := _presence(masks, mask_ids))},
    )


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


def _presence(masks: Masks, mask_ids: MaskIds) -> Mapping[int, float]:
    """Return how sure a tracker was, by frame of the file; nothing for masks of no tracker."""
    from dejacue.models.trackers import read_notes

    notes = read_notes(masks.path)
    return {} if notes is None else notes.presence_of(mask_ids)


class HistoryBuilder:
    """Collects the chunks of a video, without their crops, and rows by key, for its histories.

    partial   a file that keeps the rows, from which a later run takes them; None: memory only
    """

    def __init__(self, info: EncoderInfo, partial: str | os.PathLike[str] | None = None) -> None:
        self._info = info
        self.problem: str | None = None  # why no history can be made of it
        self.known = PartialRows(partial, info.key)
        self._chunks: list[Chunk] = []
        self._lock = threading.Lock()

    def encode(self, batch: Chunk, encoder: Encoder) -> None:
        """Encode all of a batch or none; a batch that is known is not encoded again."""
        if not all(key in self.known for key in batch.names):
            rows = encoder.encode_images(list(batch.crops))
            with self._lock:
                self.known.add(dict(zip(batch.names, rows, strict=True)))

    def see(self, chunk: Chunk) -> None:
        self._chunks.append(chunk.without_crops)

    def take(self, chunk: Chunk, rows: Rows) -> None:
        """Add a chunk and all of its rows."""
        self.see(chunk)
        self.known.add(dict(zip(chunk.names, rows, strict=True)))

    def histories(self, end: End) -> dict[str, History]:
        """Return the histories of the objects that were visible."""
        if not self._chunks:
            return {}
        keys, which, frames, sources, times = (
            np.concatenate([getattr(chunk, name) for chunk in self._chunks])
            for name in ("keys", "which", "frames", "sources", "times")
        )
        histories = {}
        for at, id in enumerate(end.ids):
            rows = np.flatnonzero(which == at)
            if not rows.size:
                continue
            features = np.stack([self.known[key.tobytes()] for key in keys[rows]])
            presence, seen = end.presence.get(id, {}), sources[rows].tolist()
            known = all(source in presence for source in seen)
            histories[id] = History(
                features,
                frames[rows],
                id,
                self._info.identity,
                times_s=None if np.isnan(times[rows]).any() else times[rows],
                source_frames=sources[rows],
                presence=np.array([presence[s] for s in seen]) if known else None,
                made_with={**end.made[id], **self._info.quality_note(features)},
            )
        return histories


class Incoming(NamedTuple):
    """A message of a job (None: nothing comes for a moment); ``release`` is called when it is not
    needed any more."""

    job: Any
    message: Message | None
    release: Callable[[], object] = lambda: None


class Outcome(NamedTuple):
    """The outcome of a job holds its histories and the End, or says why there are none."""

    job: Any
    histories: dict[str, History]
    end: End | Failed


def encode_chunks(
    messages: Iterable[Incoming],
    encoder: Encoder,
    info: EncoderInfo,
    partial: Callable[[Any], str | os.PathLike[str] | None],
    advance: Callable[[int], object],
    *,
    alone: bool = False,
) -> Generator[Outcome, None, None]:
    """Encode the chunks of many videos, a batch at a time; yield the histories of each.

    partial   the file that keeps the rows of a job; whoever has its histories removes it
    advance   called with how many more crops are encoded
    alone     whether an error of a job is raised; else it fails and the others go on

    A batch holds crops of one video, in order: a model may give a crop other last bits beside
    other crops, and rows do not depend on which videos are encoded together.
    """
    builders: dict[str | None, HistoryBuilder] = {}  # by the id of the job
    opened: list[HistoryBuilder] = []

    def batches() -> Iterator[tuple[Incoming, HistoryBuilder | None]]:
        for job, message, release in messages:
            id = None if job is None else job.id
            if isinstance(message, Chunk):
                if id not in builders:
                    builders[id] = HistoryBuilder(info, partial(job))
                    opened.append(builders[id])
                builders[id].see(message)
                for at in range(0, len(message), info.batch):
                    part = Incoming(job, message.part(at, at + info.batch))
                    last = at + info.batch >= len(message)
                    yield part._replace(release=release) if last else part, builders[id]
            else:
                yield (
                    Incoming(job, message, release),
                    None if message is None else builders.pop(id, None),
                )
            del message  # it is large, and the next one may be a while in coming

    def encode(
        item: tuple[Incoming, HistoryBuilder | None],
    ) -> tuple[Incoming, HistoryBuilder | None]:
        """Keep the rows at once, so that a kill costs what is being encoded and no more."""
        (_, message, _), builder = item
        if isinstance(message, Chunk) and builder is not None:
            try:
                builder.encode(message, encoder)
            except DejaCueError as error:
                if alone:
                    raise
                builder.problem = str(error)
        return item

    try:
        with contextlib.closing(prefetch(encode, batches(), encoder.workers)) as done:
            for (job, message, release), builder in done:
                if isinstance(message, End | Failed):
                    yield _outcome(job, builder, message)
                    opened = [candidate for candidate in opened if candidate is not builder]
                else:
                    advance(0 if message is None else len(message))
                release()
    finally:
        for builder in opened:
            builder.known.close()


def _outcome(job: Any, builder: HistoryBuilder | None, end: End | Failed) -> Outcome:
    if builder is None:
        return Outcome(job, {}, end)
    builder.known.close()
    if isinstance(end, Failed):
        return Outcome(job, {}, end)
    if builder.problem is not None:
        return Outcome(job, {}, Failed(f"{job.video}: {builder.problem}"))
    return Outcome(job, builder.histories(end), end)


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
            for batch, weight in _batches(items, chunk, size, MAX_BUFFERED_BYTES // (2 * workers)):
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


def _batches(
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
