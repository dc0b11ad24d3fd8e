"""track(): a video and prompts → the masks of each frame.

    frames before the first prompts, reversed ──▶ session ──▶ kept as run lengths ─┐
    all frames ─────────────────────────────────▶ session ────────────────────────▶ merged

An object is followed forward from its first prompt on and, in the pass before, from there back to
the first frame; where shots are given, to the ends of its shot. With a tracker that sees each
object for itself, one that was added later is followed alone, and the masks of the others stay as
they are (follow.py).
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dejacue.errors import DejaCueError, InputError, named, unknown
from dejacue.masks.rle import decode_rle, pack
from dejacue.models.trackers import sam2
from dejacue.models.trackers.base import (
    Mask,
    Observation,
    Prompt,
    Tracker,
    TrackerSession,
    bounding_box,
)
from dejacue.models.trackers.doubts import colour_signature
from dejacue.models.trackers.prompts import check_prompts, prompt_content
from dejacue.plugins import Registry
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.video.video import Frame, Video, open_video

BACKWARD, FORWARD = "follow backward", "follow"  # stages of progress
COLOURS = 64  # numbers of a colour_signature
PRESENCE = 0.5
STRETCH_BYTES = 256 << 20  # of decoded frames, which are followed backwards


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


Earlier = dict[int, dict[int, PackedObservation]]  # by position of the frame, then by object


def reversed_frames(video: Video, last: int, first: int = 0) -> Iterator[Frame]:
    """Yield the frames from position ``last`` down to ``first``.

    No container can be read backwards. So stretches of the video are decoded, the last one first,
    each as long as it fits into STRETCH_BYTES: shorter ones would be decoded more often, from the
    same key frame on.
    """
    length, end = 1, last + 1  # of the first stretch, which tells how large frames are
    while end > first:
        start = max(first, end - length)
        frames = list(video.frames_at(range(start, end)))
        length = max(1, STRETCH_BYTES // frames[0].nbytes) if frames else length
        while frames:
            yield frames.pop()
        end = start


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
    progress   called with the stages "follow backward", for an object that is shown later, and
               "follow", in frames; the note is the area of what is seen
    """
    request = TrackRequest.of(video, prompts, tracker, backward=backward, presence=presence)

    def tracked() -> Iterator[TrackedFrame]:
        earlier = follow_back(request, progress)
        for frame, seen in follow_forward(request, progress):
            before = {
                id: Observation(observation.mask(frame.shape), observation.presence)
                for id, observation in earlier.pop(frame.index, {}).items()
            }
            yield TrackedFrame(frame, dict(sorted({**before, **seen}.items())))

    return tracked()  # the request is checked at once


def check_presence(presence: float) -> None:
    """Refuse a threshold of presence that is not between 0 and 1."""
    if not 0 <= presence <= 1:
        raise InputError(f"presence {presence} must be between 0 and 1")


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
    def objects(self) -> list[int]:
        return sorted({prompt.object for prompt in self.prompts})

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
        others = () if self.tracker.independent else self.objects
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


def follow_back(request: TrackRequest, progress: Progress) -> Earlier:
    """Return what is seen in the frames before the first prompt of each object, shot by shot."""
    parts, prompts = [], []
    for shot, starts in request.starts.items() if request.backward else ():
        first, last = 0 if shot is None else shot.start, max(starts.values())
        if first < last:
            parts.append((first, last))
            prompts += [
                prompt
                for prompt in request.prompts
                if request.shot(prompt.frame) == shot
                and first < prompt.frame == starts[prompt.object]
            ]
    total = sum(last - first + 1 for first, last in parts)
    frames = (reversed_frames(request.video, last, first) for first, last in sorted(parts))
    earlier: Earlier = {}
    for frame, seen in _follow(
        BACKWARD, request, prompts, itertools.chain.from_iterable(frames), total, progress
    ):
        starts = request.starts[request.shot(frame.index)]
        before = {id: object for id, object in seen.items() if frame.index < starts[id]}
        if before:
            earlier[frame.index] = packed(frame, before)
    return earlier


def follow_forward(
    request: TrackRequest, progress: Progress
) -> Iterator[tuple[Frame, dict[int, Observation]]]:
    """Yield each frame, in order, with what is seen in it of the objects that were shown so far."""
    video = request.video
    return _follow(FORWARD, request, request.prompts, video, video.length, progress)


def packed(frame: Frame, seen: Mapping[int, Observation]) -> dict[int, PackedObservation]:
    return {id: PackedObservation.of(frame.image, object) for id, object in seen.items()}


def _follow(
    stage: str,
    request: TrackRequest,
    prompts: Iterable[Prompt],
    frames: Iterable[Frame],
    total: int | None,
    progress: Progress,
) -> Iterator[tuple[Frame, dict[int, Observation]]]:
    """Yield each of ``total`` frames with what is seen in it; a session starts at the first prompt,
    and ends with its shot."""
    by_frame: dict[int, list[Prompt]] = {}
    for prompt in prompts:
        by_frame.setdefault(prompt.frame, []).append(prompt)
    session: TrackerSession | None = None
    shot: Window | None = None
    for count, frame in enumerate(frames, 1):
        if (here := request.shot(frame.index)) != shot:
            session, shot = None, here
        if session is None and frame.index in by_frame:
            session = request.tracker.session()
        seen: dict[int, Observation] = {}
        if session is not None:
            with named(f"{request.video.path}, frame {frame.source}"):
                objects = session.step(frame.image, by_frame.get(frame.index, ()))
            seen = {id: _visible(objects[id], frame, request.presence) for id in sorted(objects)}
        yield frame, seen
        area = sum(int(observation.mask.sum()) for observation in seen.values())
        note = f"area {100 * area / math.prod(frame.shape):.1f} %" if seen else ""
        progress(stage, count, total, note)


def _visible(seen: Observation, frame: Frame, presence: float) -> Observation:
    """Return the observation, with an empty mask where the tracker is not sure enough."""
    shape = seen.mask.shape
    if shape != frame.shape:
        problem = f"the tracker returned a mask of shape {shape} for a frame of shape {frame.shape}"
        raise DejaCueError(problem)
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
            from dejacue.models.catalogue import check_models  # which knows the trackers

            check_models(tracker=name)
    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    check_tracker(name)
    return sam2.load(name, device=device, precision=precision, **options)
