"""What one process sends another of an item: chunks of crops, then how it ended; and the histories
that are made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import DejaCueError
from dejacue.files.partial import PartialRows
from dejacue.finding._encode import (
    Crop,
    Pixels,
    encode_batch,
    histories_of,
    prefetch,
)
from dejacue.models.encoders import Encoder
from dejacue.models.encoders.base import EncoderInfo
from dejacue.records import History

if TYPE_CHECKING:
    from dejacue.corpus.ingest.manifest import Item
    from dejacue.corpus.ingest.writer import Writer


@dataclass(frozen=True, eq=False)
class Chunk:
    """Crops of a video as arrays, in the order of its frames.

    crops    (n, size, size, 3); keys: (n, 16) bytes that their pixels determine
    which    (n,) the object, counted as in End.made
    frames, sources, times   (n,) of the video; times are NaN where it has none
    """

    crops: Pixels
    keys: Pixels
    which: NDArray[np.int64]
    frames: NDArray[np.int64]
    sources: NDArray[np.int64]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, crops: Sequence[Crop], memory: Pixels) -> Chunk:
        """Return crops as arrays; ``memory`` is for their pixels."""
        pixels, keys, *columns = zip(*crops, strict=True)
        keys_of = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, len(keys[0]))
        return cls(np.stack(pixels, out=memory[: len(pixels)]), keys_of, *map(np.stack, columns))

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

    made       made_with of the histories to make of the chunks, by id
    presence   how sure a tracker was, by frame of the file
    skipped    ids of histories that are there already, made of the same
    pictures   a crop of each as JPEG, to know the object by
    """

    made: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    presence: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed:
    """The message that nothing of the video can be used; ``what`` is a sentence."""

    what: str


Message = Chunk | End | Failed


class HistoryBuilder:
    """Collects the chunks of a video, without their crops, and rows by key, for its histories.

    partial   a file that keeps the rows, from which a later run takes them; None: memory only
    """

    def __init__(self, info: EncoderInfo, partial: Path | None = None) -> None:
        self._info = info
        self.problem: str | None = None  # why no history can be made of it
        self.known = PartialRows(partial, info.key)
        self._chunks: list[Chunk] = []

    def encode(self, batch: Chunk, encoder: Encoder) -> None:
        try:
            encode_batch(list(batch.crops), batch.names, encoder, self.known)
        except DejaCueError as error:  # of this item; the others go on
            self.problem = str(error)

    def see(self, chunk: Chunk) -> None:
        self._chunks.append(chunk.without_crops)

    def histories(self, end: End) -> dict[str, History]:
        """Return the histories of the objects that were visible."""
        if not self._chunks:
            return {}
        columns = (
            np.concatenate([getattr(chunk, name) for chunk in self._chunks])
            for name in ("which", "frames", "sources", "times")
        )
        keys = [name for chunk in self._chunks for name in chunk.names]
        return histories_of(end.made, end.presence, [keys, *columns], self.known, self._info)


def encode_chunks(
    messages: Iterable[tuple[Item | None, Message | None]],
    encoder: Encoder,
    info: EncoderInfo,
    writer: Writer,
) -> None:
    """Encode the chunks of many videos, a batch at a time, and give the histories of each to the
    writer.

    messages   each with its item; neither item nor message: nothing comes for a moment

    A batch holds crops of one video, in order: a model may give a crop other last bits beside
    other crops, and rows do not depend on which videos are encoded together.
    """
    builders: dict[str, HistoryBuilder] = {}  # of the items that have begun, by id

    def batches() -> Iterator[tuple[Any, Message | None]]:
        for item, message in messages:
            if item is None or not isinstance(message, Chunk):
                yield item, message
                continue
            if item.id not in builders:
                builders[item.id] = HistoryBuilder(info, writer.partial(item))
            builders[item.id].see(message)
            for at in range(0, len(message), info.batch):
                yield item, message.part(at, at + info.batch)
            del message  # large, and the next one may be a while in coming

    def encode(entry: tuple[Any, Message | None]) -> tuple[Any, Message | None]:
        item, message = entry
        if isinstance(message, Chunk):
            builders[item.id].encode(message, encoder)
        return entry

    try:
        with contextlib.closing(prefetch(encode, batches(), encoder.workers)) as done:
            for item, message in done:
                if isinstance(message, End | Failed):
                    _finish(item, builders.pop(item.id, None), message, writer)
                else:
                    writer.encoded(0 if message is None else len(message))
    finally:
        for builder in builders.values():
            builder.known.close()


def _finish(item: Item, builder: HistoryBuilder | None, end: End | Failed, writer: Writer) -> None:
    if builder is not None:
        builder.known.close()
    if isinstance(end, Failed):
        writer.failed(item, end.what)
    elif builder is not None and builder.problem is not None:
        writer.failed(item, f"{item.video}: {builder.problem}")
    else:
        writer.finished(item, {} if builder is None else builder.histories(end), end)
