"""From crops to a history of which the encoder saw a part: the stage between crops and rows.

Crops of a video are kept in a file, in order; ``look_less`` (method/looks.py) says which of them
the encoder is given. Those that are the same to within the noise of the video share a look. The
file stays beside the history, so that other words can look further without decoding.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.looks import ALL, Flags, Looks, Rows, look_less
from dejacue.progress import Progress, silent
from dejacue.records import History, Note, Timeline
from dejacue.records.arrays import Ints
from dejacue.records.history import MEANINGLESS, PRELIMINARY, SEEN, seen_text
from dejacue.sources.atomic import missing_folders, remove_empty, unwritten
from dejacue.sources.build import (
    Chunk,
    EncoderInfo,
    End,
    HistoryBuilder,
    Lineage,
    Pixels,
    Watch,
    crops,
)
from dejacue.sources.encoders.base import Encoder

if TYPE_CHECKING:
    from dejacue.sources.masks import Masks
    from dejacue.sources.video import Video

ENCODER_SAW = "the encoder saw"
LOOKS = "looks"  # in made_with: the budget, and a key of the question that was asked
CROPS = "crops"  # in made_with: a key of the kept crops
SHARED = "shared_looks"  # in made_with: how many frames share the look at another one
KEY_BYTES = 16
BLOCK = 64  # crops that are read at a time
MAX_KEPT_BYTES = 8 << 30  # of crops of one object
CELLS = 8  # a small picture has so many rows and columns
NOISE_QUANTILE = (
    0.1  # of the differences between neighbours: those of frames that nearly stand still
)
NOISE_FACTOR = 3.0
NOISE_LEVELS = (0.5, 2.0)  # grey levels of 255: what counts as noise at least, and at most


@dataclass(frozen=True, eq=False)
class LookPlan:
    """Says what histories have to answer while they are made: that decides what is looked at.

    read    returns the answer of a history
    marks   returns positions that a person has named in it
    key     changes with the words, the readout and the budget
    show    called with the history after each round of looks
    """

    looks: Looks
    read: Callable[[History], Timeline]
    marks: Callable[[History], Iterable[int]]
    key: str
    show: Callable[[History], object] = lambda history: None

    @property
    def text(self) -> str:
        """Return what made_with says of it."""
        return f"{self.looks} {self.key}"


class KeptCrops:
    """Crops of one object in a file: for each a key that its pixels determine, then the pixels."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self._size = path, size
        self._unfinished = path.with_name(f".{path.name}.partial")
        self._stream: IO[bytes] | None = None
        self._bytes = 0
        self._new_folders: list[Path] = []

    @property
    def _record(self) -> np.dtype[Any]:
        return np.dtype([("key", "V16"), ("pixels", np.uint8, (self._size, self._size, 3))])

    def append(self, crops: Pixels, keys: Pixels) -> None:
        """Write crops; what cannot be written leaves no file."""
        self._bytes += len(crops) * self._record.itemsize
        if self._bytes > MAX_KEPT_BYTES:
            self.remove()
            problem = f"the crops of the video need more than {MAX_KEPT_BYTES >> 30} GiB"
            remedy = 'use fewer frames (fps, stride), or looks="all", which keeps none'
            raise InputError(problem, file=self.path, field="looks", remedy=remedy)
        try:
            if self._stream is None:
                self._new_folders = missing_folders(self.path.parent)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._unfinished.unlink(missing_ok=True)
                self._stream = open(self._unfinished, "xb")  # noqa: SIM115 (finish, remove)
            for key, pixels in zip(keys, crops, strict=True):
                self._stream.write(key.tobytes() + pixels.tobytes())
        except OSError as error:
            self.remove()
            raise unwritten(error, self.path) from None

    def finish(self) -> None:
        """Give the file its name, if it holds any crops."""
        try:
            if self._stream is not None:
                self._stream.close()
                self._unfinished.replace(self.path)
        except OSError as error:
            self.remove()
            raise unwritten(error, self.path) from None
        self._stream = None

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.close()
        self._stream = None
        for path in (self.path, self._unfinished):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        remove_empty(self._new_folders)

    def records(self) -> NDArray[Any]:
        """Return (N,) keys and pixels, which are read from the file when they are used."""
        return np.memmap(self.path, self._record, "r")

    def fits(self, history: History) -> bool:
        """Return whether these are the crops of a history."""
        key = (history.made_with or {}).get(CROPS)
        try:
            records = self.records()
        except (OSError, ValueError):
            return False
        return len(records) == len(history) and key_of(records["key"]) == key


def crops_path(history: Path) -> Path:
    return history.with_name(history.name.removesuffix(".npz").removesuffix(".history") + ".crops")


def key_of(keys: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(keys).tobytes()).hexdigest()[:32]


class SmallPictures:
    """Collects small grey pictures of the crops of one object, to see which are the same."""

    def __init__(self) -> None:
        self._pictures: list[NDArray[np.float32]] = []

    def add(self, crops: Pixels) -> None:
        side = max(1, crops.shape[1] // CELLS)
        part = crops[:, : side * CELLS, : side * CELLS].mean(axis=3, dtype=np.float32)
        rows = part.shape[1] // side
        cells = part.reshape(len(part), rows, side, rows, side).mean(axis=(2, 4))
        self._pictures.append(cells.reshape(len(cells), -1))

    def alike(self, runs: Ints) -> Ints:
        """Return for each crop the first one of the stretch to which it belongs: neighbours of a
        run that differ by no more than the noise of the video, in their brightest difference."""
        pictures = np.concatenate(self._pictures)
        steps = np.abs(np.diff(pictures, axis=0)).max(axis=1)
        quiet = float(np.quantile(steps, NOISE_QUANTILE)) if len(steps) else 0.0
        noise = float(np.clip(NOISE_FACTOR * quiet, *NOISE_LEVELS))
        first, begins = np.zeros(len(pictures), np.int64), set(runs.tolist())
        for at in range(1, len(pictures)):
            anchor = first[at - 1]
            far = steps[at - 1] > noise or np.abs(pictures[at] - pictures[anchor]).max() > noise
            first[at] = at if far or at in begins else anchor
        return first


@dataclass(frozen=True, eq=False)
class Looker:
    """Looks at kept crops with an encoder; rows go through a builder, which keeps them."""

    encoder: Encoder
    info: EncoderInfo
    plan: LookPlan
    builder: HistoryBuilder
    advance: Callable[[int], object]

    def history(
        self,
        like: Mapping[str, Any],
        records: NDArray[Any],
        small: SmallPictures,
        known: tuple[Rows, Flags] | None = None,
    ) -> History:
        """Return a history with these columns (all but the features), seen where its answer
        needs it."""
        made_with, frames = dict(like["made_with"]), like["frames"]
        for key in (SEEN, SHARED, MEANINGLESS):  # of an earlier look
            made_with.pop(key, None)
        made_with |= {LOOKS: self.plan.text, CROPS: key_of(records["key"])}
        runs = np.concatenate(([0], np.flatnonzero(np.diff(frames) != 1) + 1, [len(frames)]))

        def of(rows: Rows, seen: Flags, **judged: str) -> History:
            text = {**made_with, **seen_text(frames, seen), **judged}
            return History(**{**like, "features": rows, "made_with": text})

        def look(positions: Ints) -> Rows:
            rows = []
            for first in range(0, len(positions), self.info.batch):
                batch = positions[first : first + self.info.batch]
                rows.append(self._encoded(records[batch]))
                self.advance(len(batch))
            return np.concatenate(rows)

        def read(rows: Rows, seen: Flags) -> Timeline:
            return self.plan.read(of(rows, seen))

        def show(rows: Rows, seen: Flags) -> None:
            saw = f"the encoder saw {int(seen.sum())} frames"
            text = {PRELIMINARY: saw, **seen_text(frames, seen), **self.info.judged(rows[seen])}
            self.plan.show(History(**{**like, "features": rows, "made_with": text}))

        alike = small.alike(runs)
        marks = self.plan.marks(History(**{**like, "features": np.ones((len(frames), 1))}))
        rows, seen = look_less(
            frames,
            look,
            read,
            looks=self.plan.looks,
            known=known,
            marks=marks,
            alike=alike,
            show=show,
        )
        shared = np.isin(alike, alike[seen]).sum() - seen.sum()
        judged = self.info.judged(rows[seen]) | ({SHARED: str(shared)} if shared else {})
        return of(rows, seen, **judged)

    def _encoded(self, records: NDArray[Any]) -> Rows:
        pixels, keys = np.ascontiguousarray(records["pixels"]), records["key"]
        keys = np.frombuffer(keys.tobytes(), np.uint8).reshape(-1, KEY_BYTES)
        empty = np.zeros(len(keys), np.int64)
        batch = Chunk(pixels, keys, empty, empty, empty, empty.astype(np.float64))
        self.builder.encode(batch, self.encoder)
        return np.stack([self.builder.known[name] for name in batch.names])


def look_at_video(
    video: Video,
    masks: Masks,
    encoder: Encoder,
    lineages: Mapping[str, Lineage],
    plan: LookPlan,
    places: Mapping[str, Path],
    *,
    partial: Path | None = None,
    progress: Progress = silent,
    croppers: int = 0,
    required: bool = True,
    watch: Watch | None = None,
) -> dict[str, History]:
    """Return one history per lineage, as ``build_histories`` does, of frames that the encoder saw
    where the answer needs it.

    places   files that keep the crops of each
    """
    info, total = EncoderInfo.of(encoder), getattr(video, "length", None)
    ids, done = tuple(lineages), dict.fromkeys(("decode", "crop", "encode"), 0)
    files = {id: KeptCrops(places[id], info.size) for id in ids}
    small = {id: SmallPictures() for id in ids}
    builder = HistoryBuilder(info, partial)

    def advance(stage: str, count: int) -> None:
        done[stage] += count
        all_frames = total is not None and stage == "decode"
        progress(stage, done[stage], total if all_frames else None, "")

    end = End()
    try:
        for message in crops(
            video,
            masks,
            lineages,
            info,
            threads=croppers,
            size=info.batch,
            required=required,
            watch=watch,
            advance=advance,
        ):
            if isinstance(message, End):
                end = message
                break
            builder.see(message)
            for at, id in enumerate(ids):
                rows = message.which == at
                if rows.any():
                    files[id].append(message.crops[rows], message.keys[rows])
                    small[id].add(message.crops[rows])
        for crops_of in files.values():
            crops_of.finish()
        looker = Looker(encoder, info, plan, builder, lambda count: advance("encode", count))
        return {
            id: looker.history(columns, files[id].records(), small[id])
            for id, _, columns in builder.columns(end)
        }
    except BaseException:
        for crops_of in files.values():
            crops_of.remove()
        raise
    finally:
        builder.known.close()


def saw_note(history: History) -> list[Note]:
    """Return what a reader must know of a history of which the encoder saw a part."""
    if history.seen.all():
        return []
    made_with, count = history.made_with or {}, int(history.seen.sum())
    asked, shared = made_with.get(LOOKS, ALL), made_with.get(SHARED)
    saw, budget = f"{ENCODER_SAW} {count} of {len(history)} frames", Looks.of(asked.split()[0])
    if budget is not None and count > budget.limit(len(history)):
        saw += f" (looks={budget}, and what an earlier run saw)"
    saw += f"; {shared} others look the same as these" if shared else ""
    return [Note(f"{saw}; what lies between is filled in", "information")]


def answers(history: History, plan: LookPlan | None) -> bool:
    """Return whether a history was seen where the plan needs it, or everywhere."""
    asked = (history.made_with or {}).get(LOOKS)
    return bool(history.seen.all()) or (plan is not None and asked == plan.text)


def look_further(
    history: History,
    crops: Path,
    encoder: Encoder,
    info: EncoderInfo,
    plan: LookPlan,
    progress: Progress = silent,
) -> History | None:
    """Return the history with what another plan needs, from kept crops; None: they are gone."""
    file, small, done = KeptCrops(crops, info.size), SmallPictures(), 0
    if not file.fits(history):
        return None

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress("encode", done, None, "")

    records = file.records()
    for first in range(0, len(records), BLOCK):
        small.add(records["pixels"][first : first + BLOCK])
    columns = {item.name: getattr(history, item.name) for item in fields(History) if item.init}
    looker = Looker(encoder, info, plan, HistoryBuilder(info), advance)
    return looker.history(columns, records, small, (history.features, history.seen))
