"""decode_crop: an item of a manifest → the crops of its objects, a chunk at a time.

It needs no model, only what a model wants its images to be like (Look), so it runs in any process:
``decode_crop(item, look)`` gives Chunk, Chunk, …, and in the end one End or Failed.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError, InputError, first_line, lacks_memory
from dejacue.pipeline._observe import Observed, observe
from dejacue.pipeline.ingest.manifest import ADDRESS, Item, fetched
from dejacue.records.history import COLUMNS, LOOKED_AT, PROBLEMS
from dejacue.report.thumbnails import small_jpeg
from dejacue.sources.build import (
    Lineage,
    encoder_pixels,
    never_visible,
    presence_of,
    recipe,
    sightings,
)
from dejacue.sources.encoders import Encoder
from dejacue.sources.remote import is_remote, listing
from dejacue.sources.sizes import pixel_limit
from dejacue.sources.video import Video, open_video

MOST_CROPS = 256
MOST_BYTES = 32 << 20  # of crops in a chunk
MOST_FIT = 1 << 20  # bytes of a function that scales images; a model is more
SIDE = 128  # of a picture: most have less than a store allows, and stay as they are
MOST_KEPT = 4  # crops of which one becomes the picture of an object
PADDING, MINIMUM = 0.20, 4  # of the crop, as published
Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Look:
    """All of an encoder but the model; small, and sent to other processes."""

    identity: str
    dimension: int
    size: int
    batch: int
    details: Mapping[str, str]
    fit: Callable[[Pixels], Pixels] | None = None
    pace: float | None = None
    padding: float = PADDING
    minimum: int = MINIMUM
    max_pixels: int | None = None
    threads: int | None = None  # that decode an item

    @classmethod
    def of(cls, encoder: Encoder, max_pixels: int | None = None) -> Look:
        fit = getattr(encoder, "fit", None)
        try:
            small = len(pickle.dumps(fit)) <= MOST_FIT
        except Exception:  # pickle raises whatever the object does
            small = False
        if not small:
            raise InputError(
                f"{encoder.name}: its fit cannot be sent to other processes; make it a "
                "module-level function, or a method of a small object other than the encoder"
            )
        return cls(
            encoder.identity,
            encoder.dimension,
            encoder.size,
            encoder.batch,
            dict(encoder.details),
            fit,
            getattr(encoder, "pace", None),
            max_pixels=max_pixels,
        )

    @property
    def chunk(self) -> int:
        """Crops in a chunk: whole batches, where they are not too large."""
        most = max(1, min(MOST_CROPS, MOST_BYTES // (3 * self.size**2)))
        return max(most // self.batch * self.batch, min(most, self.batch))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Crops of an item in the order of its frames.

    crops    (n, size, size, 3); keys: (n, 16) bytes that their pixels determine
    which    (n,) the object, counted as in End.ids
    frames, sources, times   (n,) of the video; times are NaN where it has none
    """

    item: str
    crops: Pixels
    keys: Pixels
    which: NDArray[np.int64]
    frames: NDArray[np.int64]
    sources: NDArray[np.int64]
    times: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class End:
    """All chunks of an item are there.

    ids        of the histories to make of them; those that were not visible are in made no more
    made       made_with of each; presence: how sure a tracker was, by frame of the file
    skipped    ids that are in the store already, made of the same
    pictures   a crop of each as JPEG, to know the object by
    """

    item: str
    ids: tuple[str, ...] = ()
    made: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    presence: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """Nothing of the item can be used; what is a sentence."""

    item: str
    what: str


def decode_crop(item: Item, look: Look) -> Iterator[Chunk | End | Failed]:
    """The crops of an item, then how it ended; errors are Failed, too."""
    try:
        item = addressed(item, look)
        if (end := there_already(item)) is not None:
            yield end
            return
        with fetched(item) as here, pixel_limit(look.max_pixels):
            yield from _decoded(here, look)
    except DejaCueError as error:
        yield Failed(item.name, str(error))
    except Exception as error:
        said = "not enough memory" if lacks_memory(error) else first_line(error)
        yield Failed(item.name, f"{item.video}: {said}")


def addressed(item: Item, look: Look) -> Item:
    """With its address, if all of its files lie elsewhere: whether they have changed is told by
    their listing, and nothing is fetched to find out."""
    if item.address or not (is_remote(item.video) and is_remote(item.masks)):
        return item
    seen = [
        listing(item.video),
        listing(item.masks),
        vars(item.sampling),
        item.objects,
        item.kind,
        item.match,
        look.identity,
        dict(look.details),
        look.padding,
        look.minimum,
    ]
    digest = hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()
    return replace(item, address=digest)


def there_already(item: Item) -> End | None:
    """What became of an item whose histories were made of the same address. They were added
    together, so one of them tells of all."""
    if item.address is None or not item.known:
        return None
    wanted = {ADDRESS: item.address, **(item.extra if item.replace else {})}
    for made in item.known.values():
        if any(made.get(key) != text for key, text in wanted.items()):
            return None
    return End(item.name, skipped=tuple(item.known))


def _decoded(item: Item, look: Look) -> Iterator[Chunk | End]:
    video = open_video(item.video, **vars(item.sampling), threads=look.threads)
    observed = observe(
        video,
        masks=item.masks,
        objects=item.objects,
        kind=item.kind,
        match=item.match,
        at_once=False,
    )
    every = item.sampling.every(video, look.pace, item.known.values())
    video = video.thinned(every)
    observed = replace(observed, masks=observed.masks.thinned(every))
    named = {item.name + name.removeprefix(video.name): o for name, o in observed.objects.items()}
    recipes = {name: _recipe(video, observed, look, own) for name, own in named.items()}
    skipped = tuple(name for name in named if _is_there(item, name, recipes[name]))
    wanted = {name: own for name, own in named.items() if name not in skipped}
    if not wanted:
        yield End(item.name, skipped=skipped)
        return
    ids, masks = tuple(wanted), observed.masks
    looked = 0
    seen: dict[int, _Album] = {}

    def tell(_: str, count: int) -> None:
        nonlocal looked
        looked += count

    building = _Building(item.name, look)
    order = sightings(video, masks, range(len(ids)), list(wanted.values()), tell)
    for which, frame, mask in order:
        pixels = encoder_pixels(look, frame, mask, look.padding, look.minimum)  # type: ignore[arg-type]
        seen.setdefault(which, _Album()).see(pixels)
        if building.add(pixels, which, frame):
            yield building.taken()
        del frame, mask, pixels  # large, and not needed while the next is decoded
    if building.count:
        yield building.taken()
    if not seen and not skipped:
        masks.check_matched()
        raise never_visible(video, item.name)
    problems = "\n".join((*video.problems, *masks.problems))
    of_the_pass = {LOOKED_AT: str(looked), **({PROBLEMS: problems} if problems else {})}
    if item.address:
        of_the_pass[ADDRESS] = item.address
    if item.extra:
        of_the_pass[COLUMNS] = "\n".join(item.extra)
    visible = [ids[at] for at in sorted(seen)]
    yield End(
        item.name,
        ids,
        {name: {**recipes[name], **item.extra, **of_the_pass} for name in visible},
        {name: own for name in visible if (own := presence_of(masks, wanted[name]))},
        skipped,
        {ids[at]: own.middle() for at, own in seen.items()},
    )


def _recipe(video: Video, observed: Observed, look: Look, own: Lineage) -> dict[str, str]:
    return recipe(video, observed.masks, look, own, look.padding, look.minimum)  # type: ignore[arg-type]


def _is_there(item: Item, name: str, wanted: Mapping[str, str]) -> bool:
    """Whether a history of the same is in the store; another one is in the way."""
    if name not in item.known:
        return False
    made = item.known[name]
    if item.replace:
        wanted = {**wanted, **item.extra}
    if all(made.get(key) == text for key, text in wanted.items()):
        return True
    if item.replace:
        return False
    raise InputError(
        f'{item.video}: history "{name}" is already in the store, made from another video, masks '
        "or options; give another id, or replace it (--replace)"
    )


class _Album:
    """A few crops of an object, evenly over however many there are."""

    def __init__(self) -> None:
        self._kept: dict[int, Pixels] = {}
        self._step, self._count = 1, 0

    def see(self, pixels: Pixels) -> None:
        if self._count % self._step == 0:
            self._kept[self._count] = pixels.copy()
            if len(self._kept) > MOST_KEPT:
                self._step *= 2
                self._kept = {at: own for at, own in self._kept.items() if at % self._step == 0}
        self._count += 1

    def middle(self) -> bytes:
        at = min(self._kept, key=lambda own: abs(2 * own - self._count))
        return small_jpeg(self._kept[at], SIDE)


class _Building:
    """The chunk that is being filled."""

    def __init__(self, item: str, look: Look) -> None:
        self._item, self._look, self.count = item, look, 0
        self._begin()

    def _begin(self) -> None:
        self._crops: Pixels | None = None
        self._keys: list[bytes] = []
        self._rows: list[tuple[int, int, int, float]] = []
        self.count = 0

    def add(self, pixels: Pixels, which: int, frame: Any) -> bool:
        """True: it is full."""
        if self._crops is None:
            self._crops = np.empty((self._look.chunk, *pixels.shape), np.uint8)
        self._crops[self.count] = pixels
        self._keys.append(hashlib.sha256(self._crops[self.count].data).digest()[:16])
        time_s = float("nan") if frame.time_s is None else frame.time_s
        self._rows.append((which, frame.index, frame.source, time_s))
        self.count += 1
        return self.count == self._look.chunk

    def taken(self) -> Chunk:
        assert self._crops is not None
        which, frames, sources, times = zip(*self._rows, strict=True)
        made = Chunk(
            self._item,
            self._crops[: self.count],
            np.frombuffer(b"".join(self._keys), np.uint8).reshape(-1, 16),
            np.array(which),
            np.array(frames),
            np.array(sources),
            np.array(times, np.float64),
        )
        self._begin()
        return made
