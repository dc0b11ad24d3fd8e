"""What a run keeps of each frame, in memory and in a file, so that a stopped one goes on.

The file (see sources/partial.py) holds a record for each frame done and, from time to time, the
state of the session after the last of them. A run goes on from the last state that is there; the
frames after it are done again.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dejacue.errors import InputError, first_line
from dejacue.sources.masks.rle import decode_rle, pack
from dejacue.sources.partial import PartialFile
from dejacue.sources.tracks.base import Mask, Observation, Session, bounding_box
from dejacue.sources.tracks.doubts import colour_signature
from dejacue.sources.video import Frame

Direction = Literal["backward", "forward"]
BACKWARD: Direction = "backward"
FORWARD: Direction = "forward"
COLOURS = 64  # numbers of a colour_signature
SAVE_EVERY_FRAMES, SAVE_EVERY_S = 50, 30.0  # whichever comes first
MAX_OLD_STATE_BYTES = 64 << 20  # of states that are no longer needed, in the file


class PackedObservation(NamedTuple):
    """One object in one frame: the mask as COCO's runs, and what doubts are made of.

    colours   as colour_signature gives them, in 255ths
    """

    counts: str
    presence: float
    area: int
    box: tuple[int, int, int, int]
    colours: Annotated[bytes, Meta(min_length=COLOURS, max_length=COLOURS)]

    @classmethod
    def of(cls, image: NDArray[np.uint8], seen: Observation) -> PackedObservation:
        colours = np.rint(255 * colour_signature(image, seen.mask)).astype(np.uint8)
        return cls(
            pack(seen.mask)["counts"],
            round(float(seen.presence), 4),
            int(seen.mask.sum()),
            bounding_box(seen.mask) or (0, 0, 0, 0),
            colours.tobytes(),
        )

    def mask(self, size: tuple[int, int]) -> Mask:
        return decode_rle({"size": list(size), "counts": self.counts})

    def signature(self) -> NDArray[np.float64]:
        return np.frombuffer(self.colours, np.uint8) / 255


class FrameRecord(msgspec.Struct, tag="frame"):
    """A frame without its pixels, and the objects that are seen in it by the pass ``direction``."""

    direction: Direction
    index: int
    source: int
    time_s: float | None
    name: str | None
    objects: dict[int, PackedObservation]

    @classmethod
    def of(
        cls, direction: Direction, frame: Frame, objects: dict[int, PackedObservation]
    ) -> FrameRecord:
        return cls(direction, frame.index, frame.source, frame.time_s, frame.name, objects)


class _State(msgspec.Struct, tag="state"):
    """The session of the pass ``direction``, after ``done`` of its frames."""

    direction: Direction
    done: int
    session: bytes


class Checkpoint:
    """The frames of both passes; kept in the file ``path``, where one is given, under ``key``."""

    def __init__(self, path: str | os.PathLike[str] | None = None, key: str = "") -> None:
        self.frames: dict[Direction, list[FrameRecord]] = {BACKWARD: [], FORWARD: []}
        self.kept = 0  # frames of the pass that was last in the file
        self._file = None if path is None else PartialFile(path, key)
        self._pending: list[bytes] = []
        self._old_bytes = 0
        self._state: _State | None = None
        self._clock = time.monotonic()
        if self._file is not None:
            self._read(self._file)

    def add(self, record: FrameRecord) -> None:
        self.frames[record.direction].append(record)
        if self._file is not None:
            self._pending.append(msgspec.msgpack.encode(record))

    def resume(self, direction: Direction, session: Session) -> int:
        """Return how many frames of this pass are done; the session is restored to that point."""
        if self._state is None or self._state.direction != direction:
            return 0
        assert self._file is not None
        try:
            session.restore(self._state.session)
        except (ValueError, TypeError, LookupError) as error:
            raise InputError(
                f"{self._file.path}: cannot resume from this file of an earlier run "
                f"({first_line(error)}); remove it"
            ) from None
        return self._state.done

    @property
    def backward_done(self) -> bool:
        """Return whether an earlier run has done all of the backward pass."""
        return self._state is not None and self._state.direction == FORWARD

    def step(self, direction: Direction, done: int, session: Session) -> None:
        """Count a frame; from time to time all is written."""
        late = time.monotonic() - self._clock >= SAVE_EVERY_S
        if len(self._pending) >= SAVE_EVERY_FRAMES or late:
            self.save(direction, done, session)

    def save(self, direction: Direction, done: int, session: Session) -> None:
        """Write the frames that are not in the file yet, and the state of the session."""
        if self._file is None or not self._pending:
            return
        state = msgspec.msgpack.encode(_State(direction, done, session.state()))
        self._old_bytes += len(state)
        if self._old_bytes > MAX_OLD_STATE_BYTES:
            frames = (*self.frames[BACKWARD], *self.frames[FORWARD])
            self._file.replace([*map(msgspec.msgpack.encode, frames), state])
            self._old_bytes = len(state)
        else:
            self._file.append([*self._pending, state])
        self._pending = []
        self.kept = done
        self._clock = time.monotonic()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        if self._file is not None:
            self._file.remove()

    def _read(self, file: PartialFile) -> None:
        """Take over what an earlier run has left, up to its last state."""
        records = file.read()
        decoded: list[FrameRecord | _State] = []
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            decoded = [_RECORD.decode(record) for record in records]
        if not _in_order(decoded):
            decoded = []
        states = [at for at, record in enumerate(decoded) if isinstance(record, _State)]
        end = states[-1] + 1 if states else 0
        for record in decoded[:end]:
            if isinstance(record, FrameRecord):
                self.frames[record.direction].append(record)
            else:
                self._state, self.kept = record, record.done
        self._old_bytes = sum(len(records[at]) for at in states)
        if end < len(records):
            file.replace(records[:end])


def _in_order(records: list[FrameRecord | _State]) -> bool:
    """Return whether each pass has its frames in order, and each state counts those before it."""
    count = {BACKWARD: 0, FORWARD: 0}
    last: dict[Direction, int] = {}
    for record in records:
        if isinstance(record, _State):
            if record.done != count[record.direction]:
                return False
            continue
        step = 1 if record.direction == FORWARD else -1
        if record.index != last.get(record.direction, record.index - step) + step:
            return False
        last[record.direction] = record.index
        count[record.direction] += 1
    return last.get(FORWARD, -1) == count[FORWARD] - 1


_RECORD = msgspec.msgpack.Decoder(FrameRecord | _State)
