"""build_history(): a video, the masks of an object, an encoder → one row per observed frame.

    decode ──▶ union of masks ──▶ crop ──▶ encode, a batch at a time

Decoding and cropping run ahead of the encoder in threads; nothing holds more than a few batches,
nor more than a few frames where these are large.
What has been encoded is kept in a partial file, keyed by the pixels of each crop, so that a
stopped run goes on where it was and a changed mask is never mistaken for an old one.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.progress import Progress, silent
from dejacue.records import History
from dejacue.records.history import EVERY, LOOKED_AT
from dejacue.sources.crops import crop, frame_picture, picture
from dejacue.sources.encoders.base import Encoder
from dejacue.sources.partial import PartialFile

if TYPE_CHECKING:
    from dejacue.sources.masks import Masks
    from dejacue.sources.video import Frame, Video

T = TypeVar("T")
U = TypeVar("U")
Lineage = frozenset[int] | None  # ids that are one object; None: whatever the mask shows
Pixels = NDArray[np.uint8]
ENCODER = ("identity", "dimension", "size", "details", "batch", "workers", "encode_images")
CROPPERS = 2
CHUNK = 8  # frames a thread takes at a time
HELD = 256 << 20  # bytes of frames that wait or are being cropped


@dataclass
class Track:
    """What is known of one object so far."""

    id: str
    indices: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    rows: list[NDArray[np.float32]] = field(default_factory=list)

    def see(self, index: int, source: int, time_s: float | None, row: NDArray[np.float32]) -> None:
        self.indices.append(index)
        self.sources.append(source)
        self.times.append(time_s)
        self.rows.append(row)


@dataclass(frozen=True, eq=False)
class Crop:
    """One object in one frame, whose index, source and time are its place."""

    track: Track
    place: tuple[int, int, float | None]
    key: bytes
    pixels: Pixels


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


def check_encoder(encoder: Any) -> None:
    """Refuses an object that lacks what an encoder has."""
    missing = [name for name in ENCODER if not hasattr(encoder, name)]
    if missing:
        raise InputError(
            f"the encoder {type(encoder).__name__} has no {', '.join(missing)}; add what is "
            "missing, preferably by deriving from dejacue.sources.encoders.Encoder"
        )


def build_histories(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    lineages: Mapping[str, Lineage],
    *,
    padding: float = 0.20,
    minimum: int = 4,
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
    check_encoder(encoder)
    tracks = [Track(name) for name in lineages]
    length = getattr(video, "length", None)
    most = None if length is None else length * len(tracks)
    done = dict.fromkeys(("decode", "crop", "encode"), 0)

    def tell(stage: str, count: int) -> None:
        done[stage] += count
        progress(stage, done[stage], length if stage == "decode" else most, "")

    with Partial(partial, encoder) as known:

        def cut(given: tuple[Track, Frame, NDArray[np.bool_]]) -> Crop:
            track, frame, mask = given
            pixels = encoder_pixels(encoder, frame, mask, padding, minimum)
            place = frame.index, frame.source, frame.time_s
            return Crop(track, place, known.key(pixels), pixels)

        def crops() -> Iterator[Crop]:
            seen = sightings(video, masks, tracks, list(lineages.values()), tell)
            for made in ahead(cut, seen, croppers, CHUNK, lambda one: one[1].nbytes):
                tell("crop", 1)
                yield made

        encode = functools.partial(_encode, encoder, known)
        for batch, new in ahead(encode, batches(crops(), encoder.batch), encoder.workers):
            known.add(new)
            for own in batch:
                own.track.see(*own.place, known[own.key])
            tell("encode", len(batch))
    visible = [track for track in tracks if track.rows]
    if not visible:
        masks.check_matched()  # says why, where names or numbers do not fit
    found = {}
    for track in visible or tracks:
        made = recipe(video, masks, encoder, lineages[track.id], padding, minimum)
        made[LOOKED_AT] = str(done["decode"])
        found[track.id] = _history(track, video, masks, encoder, lineages[track.id], made)
    return found


def _encode(
    encoder: Encoder, known: Partial, batch: list[Crop]
) -> tuple[list[Crop], dict[bytes, NDArray[np.float32]]]:
    """All of a batch or none: a model may give a crop other last bits beside other crops."""
    if all(own.key in known for own in batch):
        return batch, {}
    rows = encoder.encode_images([own.pixels for own in batch])
    return batch, dict(zip((own.key for own in batch), rows, strict=True))


def sightings(
    video: Video,
    masks: Masks,
    tracks: Sequence[T],
    wanted: Sequence[Lineage],
    tell: Callable[[str, int], object],
) -> Iterator[tuple[T, Frame, NDArray[np.bool_]]]:
    """Each object in each frame in which it is visible."""
    before = -1
    # a video of one's own need not offer frames that become RGB later
    for frame in getattr(video, "late", video.__iter__)():
        tell("decode", frame.index - before)  # one that cannot be decoded counts, too
        before = frame.index
        for track, mask in zip(tracks, masks.unions(frame, wanted), strict=True):
            if mask is not None:
                yield track, frame, mask


def encoder_pixels(
    encoder: Encoder,
    frame: Frame | Pixels,
    mask: NDArray[np.bool_],
    padding: float = 0.20,
    minimum: int = 4,
) -> Pixels:
    """What an encoder is given of a frame, or of its image."""
    fit = getattr(encoder, "fit", None)
    if fit is not None:
        image = frame if isinstance(frame, np.ndarray) else frame.image
        own: Pixels = fit(crop(image, mask, padding, minimum))
        return own
    if isinstance(frame, np.ndarray):
        return picture(frame, mask, encoder.size, padding, minimum)
    return frame_picture(frame, mask, encoder.size, padding, minimum)


def recipe(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    lineage: Lineage,
    padding: float = 0.20,
    minimum: int = 4,
) -> dict[str, str]:
    """What a history is made with and of: two that agree in it hold the same rows."""
    objects = "all" if lineage is None else ",".join(str(id) for id in sorted(lineage))
    every = getattr(video, "every", 1)
    return {
        **encoder.details,
        "padding": str(padding),
        "minimum": str(minimum),
        "video": video.key,
        "masks": masks.key,
        "objects": objects,
        **({EVERY: str(every)} if every > 1 else {}),
    }


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _history(
    track: Track,
    video: Video,
    masks: Masks,
    encoder: Encoder,
    lineage: Lineage,
    made: dict[str, str],
) -> History:
    if not track.rows:
        raise never_visible(video, track.id)
    times = None if None in track.times else np.array(track.times, dtype=np.float64)
    presence = presence_of(masks, lineage)
    known = bool(track.sources) and all(source in presence for source in track.sources)
    sure = np.array([presence[source] for source in track.sources]) if known else None
    return History(
        np.stack(track.rows),
        np.array(track.indices),
        track.id,
        encoder.identity,
        times,
        np.array(track.sources),
        sure,
        made,
    )


def never_visible(video: Video, name: str) -> InputError:
    return InputError(
        f"{video.path}: {name} is never visible; check the mask ids and how masks are matched to "
        "frames"
    )


def presence_of(masks: Masks, lineage: Lineage) -> Mapping[int, float]:
    """How sure a tracker was, by frame of the file; empty where the masks are none of a tracker."""
    from dejacue.sources.tracks import read_notes

    path = getattr(masks, "path", None)  # masks of one's own need no file
    notes = None if path is None else read_notes(path)
    return {} if notes is None else notes.presence_of(lineage)


def ahead(
    function: Callable[[T], U],
    items: Iterable[T],
    workers: int,
    chunk: int = 1,
    size: Callable[[T], int] = lambda _: 0,
) -> Generator[U, None, None]:
    """``map`` in threads, in order, a few chunks of items ahead of whoever takes the results.

    size   the bytes of an item: of large ones fewer wait
    """
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


class Partial:
    """Encoded crops by the hash of their pixels: in memory and, where a path is given, in a file
    from which a later run with the same encoder takes them."""

    def __init__(self, path: str | os.PathLike[str] | None, encoder: Encoder) -> None:
        key = {"encoder": encoder.identity, **encoder.details, "dimension": encoder.dimension}
        self._file = None
        self.rows: dict[bytes, NDArray[np.float32]] = {}
        self._counter = itertools.count()
        if path is not None:
            self._file = PartialFile(path, json.dumps(key, sort_keys=True))
            for record in self._file.read():
                self.rows[record[:16]] = np.frombuffer(record[16:], "<f4")

    def __enter__(self) -> Partial:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def key(self, pixels: Pixels) -> bytes:
        """16 bytes that the pixels determine; without a file, any that no other crop has."""
        if self._file is None:
            return next(self._counter).to_bytes(16, "big")
        return hashlib.sha256(np.ascontiguousarray(pixels).data).digest()[:16]

    def __contains__(self, key: bytes) -> bool:
        return key in self.rows

    def __getitem__(self, key: bytes) -> NDArray[np.float32]:
        return self.rows[key]

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, rows: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Of crops with the same pixels, the first one stays."""
        new = {key: row for key, row in rows.items() if key not in self.rows}
        if self._file is not None and new:
            own = new.items()
            self._file.append(key + np.ascontiguousarray(row, "<f4").tobytes() for key, row in own)
        self.rows.update(new)


def kept(path: str | os.PathLike[str], encoder: Encoder) -> int:
    """How many encoded crops a partial file holds for this encoder."""
    return len(Partial(path, encoder))
