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
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import EVERY, LOOKED_AT, PROBLEMS
from dejacue.sources.crops import crop, picture
from dejacue.sources.encoders.base import Encoder
from dejacue.sources.partial import PartialRows

if TYPE_CHECKING:
    from dejacue.sources.masks import Masks
    from dejacue.sources.video import Frame, Video

T = TypeVar("T")
U = TypeVar("U")
Lineage = frozenset[int] | None  # ids that are one object; None: whatever the mask shows
Pixels = NDArray[np.uint8]
Rows = NDArray[np.float32]
Watch = Callable[["Frame", list[NDArray[np.bool_] | None]], object]
ENCODER = ("identity", "dimension", "size", "details", "batch", "workers", "encode_images")
PADDING, MINIMUM = 0.20, 4  # of the crop, as published
CROPPERS = 2
CROPS_PER_TASK = 8  # that a thread takes at a time
MAX_CHUNK_CROPS = 256
MAX_CHUNK_BYTES = 32 << 20
HELD = 256 << 20  # bytes of frames that wait or are being cropped


@dataclass(frozen=True)
class EncoderInfo:
    """All of an encoder but the model; small enough to be sent to other processes."""

    identity: str
    dimension: int
    size: int
    batch: int
    details: Mapping[str, str]
    fit: Callable[[Pixels], Pixels] | None = None
    pace: float | None = None

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderInfo:
        """Refuses an object that lacks what an encoder has."""
        missing = [name for name in ENCODER if not hasattr(encoder, name)]
        if missing:
            raise InputError(
                f"the encoder {type(encoder).__name__} has no {', '.join(missing)}; add what is "
                "missing, preferably by deriving from dejacue.sources.encoders.Encoder"
            )
        return cls(
            encoder.identity,
            encoder.dimension,
            encoder.size,
            encoder.batch,
            dict(encoder.details),
            getattr(encoder, "fit", None),
            getattr(encoder, "pace", None),
        )

    @property
    def chunk(self) -> int:
        """Crops in a chunk for another process: whole batches, as many as are not too large."""
        most = min(MAX_CHUNK_CROPS, MAX_CHUNK_BYTES // (3 * self.size**2))
        return max(1, most // self.batch) * self.batch

    @property
    def key(self) -> str:
        """Changes with all that rows of the same pixels depend on."""
        key = {"encoder": self.identity, **self.details, "dimension": self.dimension}
        return json.dumps(key, sort_keys=True)

    def pixels(
        self,
        frame: Frame | Pixels,
        mask: NDArray[np.bool_],
        padding: float = PADDING,
        minimum: int = MINIMUM,
    ) -> Pixels:
        """Return what the encoder is given of a frame, or of its image."""
        if self.fit is not None:
            image = frame if isinstance(frame, np.ndarray) else frame.image
            return self.fit(crop(image, mask, padding, minimum))
        return picture(frame, mask, self.size, padding, minimum)


def build_history(
    video: Video | str | os.PathLike[str],
    masks: Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]],
    encoder: Encoder | str = "siglip2",
    *,
    objects: int | Iterable[int] | str | None = None,
    id: str | None = None,
    **options: Any,
) -> History:
    """The history of one object.

    video, masks   as open_video and open_masks give them, or paths
    encoder        as load_encoder gives it, or a name
    objects        the mask ids that are its pieces (default: all)
    options        those of build_histories and, for a path, those of open_video (stride, fps, …)
                   and open_masks (kind, match)
    """
    from dejacue.sources.encoders import load_encoder
    from dejacue.sources.masks import open_masks
    from dejacue.sources.masks.objects import object_groups
    from dejacue.sources.tracks import match_of
    from dejacue.sources.video import open_video

    opened: Video = _opened(video, open_video, options)
    if isinstance(masks, str | os.PathLike):
        options.setdefault("frames", getattr(opened, "length", None))
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
    lineage = None if groups is None else frozenset(groups[0])
    name = id or opened.name
    return build_histories(opened, united, encoder, {name: lineage}, **options)[name]


def _opened(given: Any, opener: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What a path leads to, opened with those of the options that are for it."""
    own = {name: options.pop(name) for name in _options(opener) if name in options}
    if isinstance(given, str | os.PathLike | Mapping):
        return opener(given, **own)
    if own:
        raise InputError(
            f"build_history: {', '.join(own)}: is an option of {opener.__name__}; give it there, "
            "or give the path here"
        )
    return given


def _options(function: Callable[..., Any]) -> list[str]:
    """The names that it takes by keyword only."""
    every = inspect.signature(function).parameters.values()
    return [one.name for one in every if one.kind is one.KEYWORD_ONLY]


def build_histories(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    lineages: Mapping[str, Lineage],
    *,
    padding: float = PADDING,
    minimum: int = MINIMUM,
    partial: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    croppers: int = CROPPERS,
) -> dict[str, History]:
    """One history per lineage, in one pass over the video; of several objects, those that are
    never visible are left out.

    padding, minimum   of the crop, as published
    partial            file that keeps what is encoded until the caller has written the histories
    progress           told of "decode", "crop" and "encode" (see dejacue.progress)
    croppers           threads that crop
    """
    info = EncoderInfo.of(encoder)
    tell = stages(video, len(lineages), progress)
    chunks = crops(
        video,
        masks,
        lineages,
        info,
        padding=padding,
        minimum=minimum,
        threads=croppers,
        size=info.batch,
        hashed=partial is not None,
        tell=tell,
    )
    return encode_alone(chunks, encoder, info, partial, tell)


def encode_alone(
    chunks: Iterable[Chunk | End],
    encoder: Encoder,
    info: EncoderInfo,
    partial: str | os.PathLike[str] | None,
    tell: Callable[[str, int], object],
) -> dict[str, History]:
    """Return the histories of one video; ``partial`` keeps what is encoded until it is removed."""
    (made,) = encode_chunks(
        (Incoming(None, own) for own in chunks),
        encoder,
        info,
        lambda _: partial,
        lambda count: tell("encode", count),
        alone=True,
    )
    return made.histories


def stages(video: Video, objects: int, progress: Progress) -> Callable[[str, int], None]:
    """Return a function that counts what is done of each stage, and tells the sum."""
    length = getattr(video, "length", None)
    most = None if length is None else length * objects
    done = dict.fromkeys(("decode", "crop", "encode"), 0)

    def tell(stage: str, count: int) -> None:
        done[stage] += count
        progress(stage, done[stage], length if stage == "decode" else most, "")

    return tell


@dataclass(frozen=True, eq=False)
class Chunk:
    """Crops of a video in the order of its frames.

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
        return Chunk(*(own[first:end] for own in vars(self).values()))

    @property
    def without_crops(self) -> Chunk:
        return replace(self, crops=self.crops[:0])

    @property
    def names(self) -> list[bytes]:
        """The keys, as keys of a dictionary."""
        return [own.tobytes() for own in self.keys]


@dataclass(frozen=True, eq=False)
class End:
    """All chunks of a video are there.

    ids        of the histories to make of them; those that were not visible are in made no more
    made       made_with of each; presence: how sure a tracker was, by frame of the file
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
    """Nothing of the video can be used; what is a sentence."""

    what: str


Message = Chunk | End | Failed


def crops(
    video: Video,
    masks: Masks,
    lineages: Mapping[str, Lineage],
    info: EncoderInfo,
    *,
    padding: float = PADDING,
    minimum: int = MINIMUM,
    threads: int = 0,
    size: int | None = None,
    hashed: bool = True,
    required: bool = True,
    watch: Watch | None = None,
    tell: Callable[[str, int], object] = lambda stage, count: None,
) -> Iterator[Chunk | End]:
    """Decode a video and crop its objects: chunks, then the End.

    threads    that crop while the next frames are decoded; 0: none
    size       crops in a chunk (default: what suits another process)
    hashed     whether keys are of the pixels; else each crop has its own
    required   whether it is refused that none of the objects is ever visible
    watch      called with each frame and the masks of its objects
    tell       called with "decode" or "crop" and how many more are done
    """
    numbers, looked = itertools.count(), 0

    def sightings() -> Iterator[tuple[int, Frame, NDArray[np.bool_]]]:
        nonlocal looked
        wanted = list(lineages.values())
        # a video of one's own need not offer frames that become RGB later
        for frame in getattr(video, "late", video.__iter__)():
            tell("decode", frame.index + 1 - looked)  # one that cannot be decoded counts, too
            looked = frame.index + 1
            found = masks.unions(frame, wanted)
            if watch is not None:
                watch(frame, found)
            for which, mask in enumerate(found):
                if mask is not None:
                    yield which, frame, mask

    def cut(seen: tuple[int, Frame, NDArray[np.bool_]]) -> tuple[Any, ...]:
        which, frame, mask = seen
        pixels = np.ascontiguousarray(info.pixels(frame, mask, padding, minimum))
        key = hashlib.sha256(pixels.data).digest() if hashed else next(numbers).to_bytes(16, "big")
        time_s = float("nan") if frame.time_s is None else frame.time_s
        return pixels, np.frombuffer(key, np.uint8, 16), which, frame.index, frame.source, time_s

    visible: set[int] = set()
    made = ahead(cut, sightings(), threads, CROPS_PER_TASK, lambda seen: seen[1].nbytes)
    for some in batches(_told(made, tell), size or info.chunk):
        chunk = Chunk(*map(np.stack, zip(*some, strict=True)))
        visible.update(chunk.which.tolist())
        del some
        yield chunk
        del chunk  # large, and not needed while the next is decoded
    ids = tuple(lineages)
    if not visible and required:
        masks.check_matched()  # says why, where names or numbers do not fit
        raise InputError(
            f"{video.path}: {ids[0]} is never visible; check the mask ids and how masks are "
            "matched to frames"
        )
    known = (getattr(given, "problems", ()) for given in (video, masks))
    problems = "\n".join(text for some in known for text in some)
    of_the_pass = {LOOKED_AT: str(looked), **({PROBLEMS: problems} if problems else {})}
    seen = {ids[at]: lineages[ids[at]] for at in sorted(visible)}
    yield End(
        ids,
        {
            name: {**recipe(video, masks, info, own, padding, minimum), **of_the_pass}
            for name, own in seen.items()
        },
        {name: sure for name, own in seen.items() if (sure := _presence(masks, own))},
    )


def _told(items: Iterable[T], tell: Callable[[str, int], object]) -> Iterator[T]:
    for item in items:
        tell("crop", 1)
        yield item
        del item


def recipe(
    video: Video,
    masks: Masks,
    info: EncoderInfo,
    lineage: Lineage,
    padding: float = PADDING,
    minimum: int = MINIMUM,
) -> dict[str, str]:
    """What a history is made with and of: two that agree in it hold the same rows."""
    objects = "all" if lineage is None else ",".join(str(id) for id in sorted(lineage))
    every = getattr(video, "every", 1)
    return {
        **info.details,
        "padding": str(padding),
        "minimum": str(minimum),
        "video": video.key,
        "masks": masks.key,
        "objects": objects,
        **({EVERY: str(every)} if every > 1 else {}),
    }


def _presence(masks: Masks, lineage: Lineage) -> Mapping[int, float]:
    """How sure a tracker was, by frame of the file; empty where the masks are none of a tracker."""
    from dejacue.sources.tracks import read_notes

    path = getattr(masks, "path", None)  # masks of one's own need no file
    notes = None if path is None else read_notes(path)
    return {} if notes is None else notes.presence_of(lineage)


class HistoryBuilder:
    """What is known of a video so far: its chunks without their crops, and rows by key.

    partial   a file that keeps the rows, from which a later run takes them; None: memory only
    """

    def __init__(self, info: EncoderInfo, partial: str | os.PathLike[str] | None = None) -> None:
        self._identity = info.identity
        self.problem: str | None = None  # why no history can be made of it
        self.known = PartialRows(partial, info.key)
        self._chunks: list[Chunk] = []
        self._lock = threading.Lock()

    def encode(self, batch: Chunk, encoder: Encoder) -> None:
        """All of a batch or none; a batch that is known is not encoded again."""
        if not all(key in self.known for key in batch.names):
            rows = encoder.encode_images(list(batch.crops))
            with self._lock:
                self.known.add(dict(zip(batch.names, rows, strict=True)))

    def see(self, chunk: Chunk) -> None:
        self._chunks.append(chunk.without_crops)

    def take(self, chunk: Chunk, rows: Rows) -> None:
        """A chunk and all of its rows."""
        self.see(chunk)
        self.known.add(dict(zip(chunk.names, rows, strict=True)))

    def histories(self, end: End) -> dict[str, History]:
        """Of those objects that were visible."""
        if not self._chunks:
            return {}
        keys, which, frames, sources, times = (
            np.concatenate([getattr(own, name) for own in self._chunks])
            for name in ("keys", "which", "frames", "sources", "times")
        )
        made = {}
        for at, id in enumerate(end.ids):
            own = np.flatnonzero(which == at)
            if not own.size:
                continue
            presence, seen = end.presence.get(id, {}), sources[own].tolist()
            known = all(source in presence for source in seen)
            made[id] = History(
                np.stack([self.known[keys[k].tobytes()] for k in own]),
                frames[own],
                id,
                self._identity,
                None if np.isnan(times[own]).any() else times[own],
                sources[own],
                np.array([presence[source] for source in seen]) if known else None,
                end.made[id],
            )
        return made


class Incoming(NamedTuple):
    """A message of a job (None: nothing comes for a moment); release: what to call when it is not
    needed any more."""

    job: Any
    message: Message | None
    release: Callable[[], object] = lambda: None


class Outcome(NamedTuple):
    """What became of a job: its histories and the End, or why there are none."""

    job: Any
    histories: dict[str, History]
    end: End | Failed


def encode_chunks(
    messages: Iterable[Incoming],
    encoder: Encoder,
    info: EncoderInfo,
    partial: Callable[[Any], str | os.PathLike[str] | None],
    tell: Callable[[int], object],
    *,
    alone: bool = False,
) -> Generator[Outcome, None, None]:
    """Encode the chunks of many videos, a batch at a time; give the histories of each.

    partial   the file that keeps the rows of a job; whoever has its histories removes it
    tell      called with how many more crops are encoded
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
        given: tuple[Incoming, HistoryBuilder | None],
    ) -> tuple[Incoming, HistoryBuilder | None]:
        """Rows are kept at once, so that a kill costs what is being encoded and no more."""
        (_, message, _), builder = given
        if isinstance(message, Chunk) and builder is not None:
            try:
                builder.encode(message, encoder)
            except DejaCueError as error:
                if alone:
                    raise
                builder.problem = str(error)
        return given

    try:
        with contextlib.closing(ahead(encode, batches(), encoder.workers)) as done:
            for (job, message, release), builder in done:
                if isinstance(message, End | Failed):
                    yield Outcome(job, *_made(job, builder, message))
                    opened = [own for own in opened if own is not builder]
                else:
                    tell(0 if message is None else len(message))
                release()
    finally:
        for own in opened:
            own.known.close()


def _made(
    job: Any, builder: HistoryBuilder | None, end: End | Failed
) -> tuple[dict[str, History], End | Failed]:
    if builder is not None:
        builder.known.close()
    if builder is None or isinstance(end, Failed):
        return {}, end
    if builder.problem is not None:
        return {}, Failed(f"{job.video}: {builder.problem}")
    return builder.histories(end), end


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        del item
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def ahead(
    function: Callable[[T], U],
    items: Iterable[T],
    workers: int,
    chunk: int = 1,
    size: Callable[[T], int] = lambda _: 0,
) -> Generator[U, None, None]:
    """``map`` in threads, in order, a few chunks of items ahead of whoever takes the results.

    workers   threads; 0: nothing runs ahead
    size      the bytes of an item: of large ones fewer wait
    """
    if not workers:
        for item in items:
            made = function(item)
            del item
            yield made
            del made
        return
    running: deque[tuple[Future[list[U]], int]] = deque()
    held = 0

    def run(own: list[T]) -> list[U]:
        return [function(item) for item in own]

    with ThreadPoolExecutor(workers) as pool:
        try:
            for own, weight in _chunks(items, chunk, size, HELD // (2 * workers)):
                running.append((pool.submit(run, own), weight))
                held += weight
                while len(running) > 2 * workers or held > HELD:
                    future, done = running.popleft()
                    held -= done
                    yield from future.result()
            while running:
                yield from running.popleft()[0].result()
        finally:
            for future, _ in running:
                future.cancel()


def _chunks(
    items: Iterable[T], most: int, size: Callable[[T], int], most_bytes: int
) -> Iterator[tuple[list[T], int]]:
    """Lists of so many items, or of fewer where these are large, and their bytes."""
    own: list[T] = []
    weight = 0
    for item in items:
        own.append(item)
        weight += size(item)
        del item  # it waits for the next one otherwise
        if len(own) == most or weight >= most_bytes:
            yield own, weight
            own, weight = [], 0
    if own:
        yield own, weight
