"""track(): a video and prompts → the masks of each frame.

    frames before the last first prompt, reversed ──▶ session ──▶ kept as run lengths ─┐
    all frames ─────────────────────────────────────▶ session ────────────────────────▶ merged

An object is followed forward from its first prompt on and, in the pass before, from there back to
the first frame; where shots are given, to the ends of its shot. With a tracker that sees each
object for itself, one that was added later is followed alone, and the masks of the others stay as
they are (follow.py).

What a run keeps of each frame lies in a Checkpoint, in memory and in a file (sources/partial.py),
so that a stopped one goes on: a record for each frame done and, from time to time, the state of the
session after the last of them. A run goes on from the last state that is there; the frames after it
are done again.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import math
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dejacue.errors import Cancelled, DejaCueError, InputError, first_line, named, unknown
from dejacue.plugins import Registry
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.sources.masks.rle import decode_rle, pack
from dejacue.sources.partial import PartialFile
from dejacue.sources.tracks import sam2
from dejacue.sources.tracks.base import (
    Mask,
    Observation,
    Prompt,
    Tracker,
    TrackerSession,
    bounding_box,
)
from dejacue.sources.tracks.doubts import colour_signature
from dejacue.sources.tracks.prompts import check_prompts, prompt_content
from dejacue.sources.video import Frame, Video, open_video

Direction = Literal["backward", "forward"]
BACKWARD: Direction = "backward"
FORWARD: Direction = "forward"
COLOURS = 64  # numbers of a colour_signature
SAVE_EVERY_FRAMES, SAVE_EVERY_S = 50, 30.0  # whichever comes first
MAX_OLD_STATE_BYTES = 64 << 20  # of states that are no longer needed, in the file
PRESENCE = 0.5
READ = "read"  # a stage of progress
STAGES = {BACKWARD: "follow backward", FORWARD: "follow"}  # the others
_NO_PIXELS = np.zeros((0, 0, 3), dtype=np.uint8)


class PackedObservation(NamedTuple):
    """Packs an object in a frame: the mask as COCO's runs, and what doubts are made of.

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
        cls,
        direction: Direction,
        frame: Frame,
        seen: Mapping[int, Observation],
        earlier: Mapping[int, PackedObservation] | None = None,
    ) -> FrameRecord:
        """Pack what is seen in a frame, beside what an earlier pass has seen."""
        packed = {id: PackedObservation.of(frame.image, object) for id, object in seen.items()}
        objects = {**(earlier or {}), **packed}
        return cls(direction, frame.index, frame.source, frame.time_s, frame.name, objects)


class _State(msgspec.Struct, tag="state"):
    """Holds the session of the pass ``direction``, after ``done`` of its frames."""

    direction: Direction
    done: int
    session: bytes


_RECORD = msgspec.msgpack.Decoder(FrameRecord | _State)


class Checkpoint:
    """The frames of both passes; kept in the file ``path``, where one is given, under ``key``."""

    def __init__(self, path: str | os.PathLike[str] | None = None, key: str = "") -> None:
        self.frames: dict[Direction, list[FrameRecord]] = {BACKWARD: [], FORWARD: []}
        self.saved = 0  # frames of the pass that was last in the file
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

    def resume(self, direction: Direction, session: TrackerSession) -> int:
        """Return how many frames of this pass are done; the session is restored to that point."""
        if self._state is None or self._state.direction != direction:
            return 0
        assert self._file is not None
        try:
            session.restore(self._state.session)
        except (ValueError, TypeError, LookupError) as error:
            problem = f"cannot resume from this file of an earlier run ({first_line(error)})"
            raise InputError(problem, file=self._file.path, remedy="remove it") from None
        return self._state.done

    @property
    def backward_done(self) -> bool:
        """Return whether an earlier run has done all of the backward pass."""
        return self._state is not None and self._state.direction == FORWARD

    def step(self, direction: Direction, done: int, session: TrackerSession) -> None:
        """Count a frame; from time to time all is written."""
        late = time.monotonic() - self._clock >= SAVE_EVERY_S
        if len(self._pending) >= SAVE_EVERY_FRAMES or late:
            self.save(direction, done, session)

    def save(self, direction: Direction, done: int, session: TrackerSession) -> None:
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
        self.saved = done
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
        with suppress(msgspec.DecodeError, RecursionError):
            decoded = [_RECORD.decode(record) for record in records]
        if not _in_order(decoded):
            decoded = []
        states = [at for at, record in enumerate(decoded) if isinstance(record, _State)]
        end = states[-1] + 1 if states else 0
        for record in decoded[:end]:
            if isinstance(record, FrameRecord):
                self.frames[record.direction].append(record)
            else:
                self._state, self.saved = record, record.done
        self._old_bytes = sum(len(records[at]) for at in states)
        if end < len(records):
            file.replace(records[:end])


def _in_order(records: list[FrameRecord | _State]) -> bool:
    """Return whether each pass has its frames in order, and each state counts those before it; the
    backward pass goes on with a later shot after the first frame of an earlier one."""
    count = {BACKWARD: 0, FORWARD: 0}
    last: dict[Direction, int] = {}
    for record in records:
        if isinstance(record, _State):
            if record.done != count[record.direction]:
                return False
            continue
        step = 1 if record.direction == FORWARD else -1
        next_index = last.get(record.direction, record.index - step) + step
        later_shot = record.direction == BACKWARD and record.index > next_index + 1
        if record.index != next_index and not later_shot:
            return False
        last[record.direction] = record.index
        count[record.direction] += 1
    return last.get(FORWARD, -1) == count[FORWARD] - 1


def reversed_frames(
    frames: Iterable[Frame], last: int, progress: Progress = silent, first: int = 0
) -> Generator[Frame]:
    """Yield ``frames`` from position ``last`` down to ``first``.

    Containers cannot be read backwards, and decoding from the start again for every chunk would be
    quadratic. So the frames are decoded once and written, packed without loss, to a temporary file
    that the system removes when it is closed, whatever ends the run.

    frames     in order; those after ``last`` are left to the caller
    progress   called with "read", how many frames are written and how many there will be
    """
    written: list[tuple[Frame, int]] = []  # without its pixels, and where these begin
    end, shape = 0, (0, 0, 3)
    file = tempfile.TemporaryFile()  # noqa: SIM115 (closing it may fail)
    try:
        for frame in frames:
            if first <= frame.index <= last:
                written.append((replace(frame, image=_NO_PIXELS), end))
                end += file.write(_pack(frame.image))
                shape = frame.image.shape
                progress(READ, frame.index - first + 1, last - first + 1, "")
            if frame.index >= last:
                break
        file.flush()  # a full disk shows here
        for frame, start in reversed(written):
            file.seek(start)
            packed = file.read(end - start)
            end = start
            yield replace(frame, image=_unpack(packed, shape))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise DejaCueError(
            "no space left for the frames before the prompt, which are needed in reverse order "
            f"({end >> 20} MB were written)",
            file=tempfile.gettempdir(),
            remedy="free some, set TMPDIR to another folder, or track the object forward only",
        ) from None
    finally:
        with suppress(OSError):  # what is not written yet has no room either
            file.close()


def _pack(image: NDArray[np.uint8]) -> bytes:
    """Deflate the differences from the left neighbour, which are small."""
    steps = image.copy()
    steps[:, 1:] -= image[:, :-1]
    return zlib.compress(steps.data, 1)


def _unpack(packed: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    steps = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(shape)
    return np.cumsum(steps, axis=1, dtype=np.uint8)


@dataclass(frozen=True, eq=False)
class TrackedFrame:
    """A frame and the objects in it, by id; those not met yet are left out."""

    frame: Frame
    objects: Mapping[int, Observation]


def track(
    video: Video | str | os.PathLike[str],
    prompts: Prompt | Sequence[Prompt],
    tracker: Tracker | str | None = None,
    *,
    backward: bool = True,
    presence: float = PRESENCE,
    progress: Progress = silent,
) -> Iterator[TrackedFrame]:
    """Yield every frame of the video, in order, with the masks of the objects.

    video      as open_video gives it (where frames are sampled), or a path
    prompts    where the objects are; frames count the sampled ones
    tracker    as load_tracker gives it, or a name; None: SAM 2
    backward   whether an object that is shown later is also followed back to the first frame
    presence   an object of which the tracker is less sure is not seen: its mask is empty
    progress   called with the stages "read" and "follow backward", for an object that is shown
               later, and "follow", in frames; the note is the area of what is seen
    """
    request = TrackRequest.of(video, prompts, tracker, backward=backward, presence=presence)

    def tracked() -> Iterator[TrackedFrame]:
        for frame, packed, seen in propagate(request, Checkpoint(), progress):
            earlier = {
                id: Observation(observation.mask(frame.shape), observation.presence)
                for id, observation in packed.items()
            }
            yield TrackedFrame(frame, dict(sorted({**earlier, **seen}.items())))

    return tracked()  # the request is checked at once


def check_presence(presence: float) -> None:
    """Refuse a threshold of presence that is not between 0 and 1."""
    if not 0 <= presence <= 1:
        problem = f"presence {presence} must be between 0 and 1"
        raise InputError(problem, field="presence", value=presence)


@dataclass(frozen=True, eq=False)
class TrackRequest:
    """The objects to follow, and how; ``prompts`` as resolve_prompts or check_prompts give them.

    ``TrackRequest.of`` checks what ``track`` takes.

    shots   which cover all frames: an object is followed in the shot of its prompts only, and the
            tracker starts anew in each; none: the whole video is one
    """

    video: Video
    prompts: Sequence[Prompt]
    tracker: Tracker
    backward: bool = True
    presence: float = PRESENCE
    shots: Sequence[Window] = ()

    def __post_init__(self) -> None:
        check_presence(self.presence)

    @classmethod
    def of(
        cls,
        video: Video | str | os.PathLike[str],
        prompts: Prompt | Sequence[Prompt],
        tracker: Tracker | str | None = None,
        *,
        backward: bool = True,
        presence: float = PRESENCE,
    ) -> TrackRequest:
        video = open_video(video) if isinstance(video, str | os.PathLike) else video
        checked = check_prompts(video, [prompts] if isinstance(prompts, Prompt) else list(prompts))
        loaded = load_tracker(tracker) if tracker is None or isinstance(tracker, str) else tracker
        return cls(video, checked, loaded, backward, presence)

    @cached_property
    def firsts(self) -> dict[int, int]:
        """Return the position of the first prompt of each object."""
        firsts: dict[int, int] = {}
        for prompt in self.prompts:
            firsts[prompt.object] = min(prompt.frame, firsts.get(prompt.object, prompt.frame))
        return dict(sorted(firsts.items()))

    def shot(self, frame: int) -> Window | None:
        """Return the shot in which a frame is; None: shots are not told apart."""
        return next((shot for shot in self.shots if shot.start <= frame <= shot.end), None)

    @cached_property
    def starts(self) -> dict[Window | None, dict[int, int]]:
        """Return, for each shot with prompts, the position of the first one of each object."""
        starts: dict[Window | None, dict[int, int]] = {}
        for prompt in self.prompts:
            objects = starts.setdefault(self.shot(prompt.frame), {})
            objects[prompt.object] = min(prompt.frame, objects.get(prompt.object, prompt.frame))
        return starts

    def key(self, object: int) -> str:
        """Return a hash of all that the masks of an object depend on."""
        others = () if self.tracker.independent else self.firsts
        content = [
            self.video.key,
            self.tracker.name,
            sorted(self.tracker.details.items()),
            self.backward,
            self.presence,
            prompt_content(self.prompts, object),
            [(piece, prompt_content(self.prompts, piece)) for piece in others],
            *((shot.start, shot.end) for shot in self.shots),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def only(self, objects: Iterable[int]) -> TrackRequest:
        chosen = set(objects)
        return replace(self, prompts=[prompt for prompt in self.prompts if prompt.object in chosen])


def propagate(
    request: TrackRequest, checkpoint: Checkpoint, progress: Progress
) -> Iterator[tuple[Frame, dict[int, PackedObservation], dict[int, Observation]]]:
    """Yield each frame, in order, with what the backward pass has seen in it and what the forward
    pass sees; where the checkpoint has frames of an earlier run, those that come after them."""
    if request.backward:
        _go_back(request, checkpoint, progress)
    earlier = {record.index: record.objects for record in checkpoint.frames[BACKWARD]}
    forward = _Pass(FORWARD, request, request.prompts, request.video.length)
    for frame, seen in forward.run(request.video, checkpoint, progress):
        yield frame, earlier.get(frame.index, {}), seen


def _go_back(request: TrackRequest, checkpoint: Checkpoint, progress: Progress) -> None:
    """Do the backward pass, shot by shot; its frames are kept in the checkpoint."""
    parts = []
    prompts = []
    for shot, starts in request.starts.items():
        first, last = 0 if shot is None else shot.start, max(starts.values())
        if first < last:
            parts.append((first, last))
            prompts += [
                prompt
                for prompt in request.prompts
                if request.shot(prompt.frame) == shot
                and first < prompt.frame == starts[prompt.object]
            ]
    if not parts or checkpoint.backward_done:
        return
    total = sum(last - first + 1 for first, last in parts)
    backward = _Pass(BACKWARD, request, prompts, total)
    frames = _reversed(request.video, sorted(parts), progress)
    for frame, seen in backward.run(frames, checkpoint, progress):
        starts = request.starts[request.shot(frame.index)]
        before = {id: object for id, object in seen.items() if frame.index < starts[id]}
        checkpoint.add(FrameRecord.of(BACKWARD, frame, before))


def _reversed(
    video: Video, parts: Iterable[tuple[int, int]], progress: Progress
) -> Iterator[Frame]:
    """Yield the frames of each part (first and last position) in reverse order; parts in order."""
    with closing(iter(video)) as frames:  # type: ignore[type-var]
        for first, last in parts:
            yield from reversed_frames(frames, last, progress, first)


@dataclass(frozen=True, eq=False)
class _Pass:
    """Passes over ``total`` frames (None: not known) with these of the prompts."""

    direction: Direction
    request: TrackRequest
    prompts: Iterable[Prompt]
    total: int | None

    def run(
        self, frames: Iterable[Frame], checkpoint: Checkpoint, progress: Progress
    ) -> Iterator[tuple[Frame, dict[int, Observation]]]:
        """Go on from where an earlier run has left it; a session starts at the first prompt, and
        ends with its shot."""
        by_frame: dict[int, list[Prompt]] = {}
        for prompt in self.prompts:
            by_frame.setdefault(prompt.frame, []).append(prompt)
        session = self.request.tracker.session()
        done = checkpoint.resume(self.direction, session)
        begun, shot = False, None
        for at, frame in enumerate(frames):
            if (here := self.request.shot(frame.index)) != shot:
                begun, shot = False, here
                session = session if at < done else self.request.tracker.session()
            begun = begun or frame.index in by_frame
            if at < done:
                continue
            seen: dict[int, Observation] = {}
            if begun:
                with named(f"{self.request.video.path}, frame {frame.source}"):
                    objects = session.step(frame.image, by_frame.get(frame.index, ()))
                presence = self.request.presence
                seen = {id: _visible(objects[id], frame, presence) for id in sorted(objects)}
            yield frame, seen
            checkpoint.step(self.direction, at + 1, session)
            area = sum(int(observation.mask.sum()) for observation in seen.values())
            note = f"area {100 * area / math.prod(frame.shape):.1f} %" if seen else ""
            try:
                progress(STAGES[self.direction], at + 1, self.total, note)
            except (Cancelled, KeyboardInterrupt):  # between two steps: all of it can be kept
                checkpoint.save(self.direction, at + 1, session)
                raise


def _visible(seen: Observation, frame: Frame, presence: float) -> Observation:
    """Return the observation, with an empty mask where the tracker is not sure enough."""
    shape = seen.mask.shape
    if shape != frame.shape:
        problem = f"the tracker returned a mask of shape {shape} for a frame of shape {frame.shape}"
        raise DejaCueError(problem, field="tracker", value=shape)
    sure = seen.presence >= presence
    return Observation(seen.mask if sure else np.zeros_like(seen.mask), seen.presence)


TRACKERS: Registry[Callable[..., Tracker]] = Registry("trackers", {})


def default_tracker() -> str | None:
    """Return the name of the tracker that is taken where none is named: sam2 if what the extra
    ``track`` brings is installed, otherwise None."""
    installed = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    return "sam2" if installed else None


def check_tracker(name: str) -> None:
    """Refuse a name that no tracker has; load nothing."""
    if name in TRACKERS or name.partition(":")[0] in ("sam2", *sam2.REPOSITORIES):
        return
    raise unknown("tracker", name, ["sam2", *sam2.REPOSITORIES, "sam2:FOLDER", *TRACKERS])


def load_tracker(
    name: str | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """Load a tracker by its name; None: sam2, whose weights are not downloaded unasked.

    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    others                        plug-ins (dejacue.trackers)
    """
    if name is None:
        name = "sam2"
        if default_tracker() is not None:  # otherwise it is the extra that is missing
            from dejacue.sources.catalogue import check_models  # which knows the trackers

            check_models(tracker=name)
    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    check_tracker(name)
    return sam2.load(name, device=device, precision=precision, **options)
