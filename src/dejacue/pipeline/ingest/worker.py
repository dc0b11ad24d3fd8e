"""A process that decodes and crops: items come in on one pipe, chunks go out on another.

Not multiprocessing: that runs the script of its user again. A pipe takes 1.5 GB/s, which is 10,000
crops a second of 224 × 224, where shared memory takes 1.0 on the same busy machine
(benchmarks/ingest.py); it holds a worker back when nobody reads, and ends with the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from dejacue.errors import DejaCueError, InputError, first_line, lacks_memory
from dejacue.pipeline._encode import missing_objects
from dejacue.pipeline.ingest.manifest import ADDRESS, Item, fetched
from dejacue.records.history import COLUMNS
from dejacue.report.thumbnails import Album, small_jpeg
from dejacue.sources.build import MINIMUM, PADDING, Chunk, EncoderInfo, End, Failed, Message, crops
from dejacue.sources.encoders import Encoder
from dejacue.sources.remote import is_remote, listing
from dejacue.sources.sizes import pixel_limit

MAX_FIT_BYTES = 1 << 20  # of a function that scales images; a model is more
PICTURE_SIDE = 128  # most crops have less than a store allows, and stay as they are
MAX_KEPT_CROPS = 4  # of which one becomes the picture of an object
_START = "import sys; sys.path[:] = {!r}; from dejacue.pipeline.ingest import worker; worker.main()"
_PIPE_BYTES = 1 << 20
ENDING_S = 2.0
# glibc gives large arrays back at once, and taking their pages anew costs more than filling them
_KEEP_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(128 << 20)}


@dataclass(frozen=True)
class Decoding:
    """How items are decoded and cropped: all that another process is told.

    threads   that decode an item
    """

    encoder: EncoderInfo
    max_pixels: int | None = None
    threads: int | None = None

    @classmethod
    def of(cls, encoder: Encoder, max_pixels: int | None = None) -> Decoding:
        info = EncoderInfo.of(encoder)
        try:
            small = len(pickle.dumps(info.fit)) <= MAX_FIT_BYTES
        except Exception:  # pickle raises whatever the object does
            small = False
        if not small:
            raise InputError(
                f"{encoder.name}: its fit cannot be sent to other processes; make it a "
                "module-level function, or a method of a small object other than the encoder"
            )
        return cls(info, max_pixels)


def decode(item: Item, how: Decoding) -> Iterator[Message]:
    """The crops of an item, then how it ended; errors are Failed, too."""
    try:
        with pixel_limit(how.max_pixels):
            yield from _decoded(item, how)
    except DejaCueError as error:
        yield Failed(str(error))
    except Exception as error:
        said = "not enough memory" if lacks_memory(error) else first_line(error)
        yield Failed(f"{item.video}: {said}")


def _addressed(item: Item, info: EncoderInfo) -> Item:
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
        info.identity,
        dict(info.details),
        PADDING,
        MINIMUM,
    ]
    digest = hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()
    return replace(item, address=digest)


def _there_already(item: Item) -> End | None:
    """What became of an item whose histories were made of the same address. They were added
    together, so one of them tells of all."""
    if item.address is None or not item.known:
        return None
    wanted = {ADDRESS: item.address, **(item.extra if item.replace else {})}
    for made in item.known.values():
        if any(made.get(key) != text for key, text in wanted.items()):
            return None
    return End(skipped=tuple(item.known))


def _decoded(item: Item, how: Decoding) -> Iterator[Chunk | End]:
    def differs(name: str) -> None:
        if not item.replace:
            raise InputError(
                f'{item.video}: history "{name}" is already in the store, made from another video, '
                "masks or options; give another id, or replace it (--replace)"
            )

    info = how.encoder
    observed = item.observe(item.open(how.threads))
    observed = observed.thinned(item.every(observed.video, info.pace, item.known.values()))
    missing = missing_objects(observed, info, _with_columns(item), differs)
    skipped = tuple(name for name in observed.objects if name not in missing.objects)
    if not missing.objects:
        yield End(skipped=skipped)
        return
    seen: dict[int, Album[Any]] = {}
    counts: dict[int, int] = {}
    order = crops(missing.video, missing.masks, missing.objects, info, required=not skipped)
    for message in order:
        if isinstance(message, Chunk):
            for which, pixels in zip(message.which.tolist(), message.crops, strict=True):
                at = counts[which] = counts.get(which, -1) + 1
                seen.setdefault(which, Album(MAX_KEPT_CROPS)).see(at, pixels.copy)
            yield message
        else:
            columns = {COLUMNS: "\n".join(item.extra)} if item.extra else {}
            more = {**item.extra, **columns, **({ADDRESS: item.address} if item.address else {})}
            yield replace(
                message,
                made={name: {**own, **more} for name, own in message.made.items()},
                skipped=skipped,
                pictures={
                    message.ids[at]: small_jpeg(middle(own, counts[at]), PICTURE_SIDE)
                    for at, own in seen.items()
                },
            )
        del message


def _with_columns(item: Item) -> Mapping[str, Mapping[str, str]]:
    """What is there of an item; to be replaced is also what has other columns."""
    if not item.replace:
        return item.known
    own = item.extra.items()
    return {
        name: made if all(made.get(key) == text for key, text in own) else {}
        for name, made in item.known.items()
    }


def middle(album: Album[Any], last: int) -> Any:
    """The thing that is kept nearest to the middle of all."""
    return album.kept[min(album.kept, key=lambda own: abs(2 * own - last - 1))]


def main() -> None:
    """Reads a Decoding, then items, until the pipe ends."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get in between
    how = pickle.load(source)
    try:
        while True:
            item: Item = pickle.load(source)
            for message in decode(item, how):
                pickle.dump(message, target, 5)  # arrays are written as they are
                del message
                target.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # whoever wanted it has gone; nothing is left to be flushed


def obituary(item: Item, code: int) -> str:
    """Why there is nothing of the item whose worker has ended with this exit code."""
    how = f"ended with {code}"
    with contextlib.suppress(ValueError):
        how = f"was killed by {signal.Signals(-code).name}"
    return (
        f"{item.video}: the process that decoded it {how}; there may be too little memory (use "
        "fewer --workers), or the file is damaged (re-encode it)"
    )


class Worker:
    """A process, and the pipes to it. EOFError: it has ended."""

    def __init__(self, how: Decoding) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START.format(list(sys.path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the one that reads
            env={**_KEEP_PAGES, **os.environ},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._how = self._process.stdin, how
        self._out = cast(io.BufferedReader, self._process.stdout)
        with contextlib.suppress(ImportError, AttributeError, OSError):  # it is slower then
            import fcntl

            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._give(how)

    def _give(self, value: Any) -> None:
        try:
            pickle.dump(value, self._in)
            self._in.flush()
        except OSError:
            raise EOFError from None

    def messages(self, item: Item, wait: Callable[[], object]) -> Iterator[Message]:
        """What ``decode`` gives of an item, whose files may lie elsewhere; ``wait`` is called when
        a message comes, before it is read."""
        try:
            item = _addressed(item, self._how.encoder)
            if (end := _there_already(item)) is not None:
                wait()
                yield end
                return
            with fetched(item) as here:
                self._give(replace(here, encoder=None))
                message: Message | None = None
                while message is None or isinstance(message, Chunk):
                    message = None
                    self._out.peek(1)
                    wait()
                    try:
                        message = pickle.load(self._out)
                    except pickle.UnpicklingError:  # it has ended half-way
                        raise EOFError from None
                    yield message
        except DejaCueError as error:  # it cannot be fetched
            wait()
            yield Failed(str(error))

    def kill(self) -> None:
        """Whoever reads from it gets EOFError."""
        self._process.kill()

    def end(self) -> int:
        """Its exit code; it is told to end where it has not."""
        with contextlib.suppress(OSError):  # what it has not read
            self._in.close()
        try:
            code = self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._out.close()
        return code
