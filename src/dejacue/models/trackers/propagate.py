"""track(): a video and prompts → the masks of each frame.

    frames before the first prompts, reversed ──▶ session ──▶ kept as run lengths ─┐
    all frames ─────────────────────────────────▶ session ────────────────────────▶ merged

An object is followed forward from its first prompt on and, in the pass before, from there back to
the first frame; where shots are given, to the ends of its shot.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dejacue.errors import DejaCueError, InputError, named, unknown
from dejacue.masks.rle import decode_rle, pack
from dejacue.models.trackers import nano, sam2
from dejacue.models.trackers.base import Observation, Prompt, Tracker, TrackerSession
from dejacue.models.trackers.prompts import place_prompts
from dejacue.plugins import Registry
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.video.video import Frame, Video, open_video

BACKWARD, FORWARD = "follow backward", "follow"  # stages of progress
PRESENCE = 0.5
STRETCH_BYTES = 256 << 20  # of decoded frames, which are followed backwards


@dataclass(frozen=True)
class TrackerOptions:
    """Options with which a tracker follows an object.

    presence   where the tracker is less sure than this, the object is not seen
    backward   whether it is also followed back to the first frame
    fallback   sam2: falls back to the CPU where the memory of the GPU is full
    """

    device: str | None = None
    precision: str | None = None
    presence: float = PRESENCE
    backward: bool = True
    fallback: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.presence <= 1:
            raise InputError(f"presence {self.presence} must be between 0 and 1")

    def load(self, tracker: Tracker | str | None) -> Tracker:
        """Return a tracker by its name; None: the default of load_tracker."""
        if tracker is not None and not isinstance(tracker, str):
            return tracker
        options: dict[str, Any] = {"device": self.device, "precision": self.precision}
        options |= {"fallback": True} if self.fallback else {}
        return load_tracker(tracker, **options)


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
    options = TrackerOptions(presence=presence, backward=backward)
    opened = open_video(video) if isinstance(video, str | os.PathLike) else video
    placed = place_prompts(opened, [prompts] if isinstance(prompts, Prompt) else prompts)
    return tracked_frames(opened, placed, options.load(tracker), options, progress=progress)


def tracked_frames(
    video: Video,
    prompts: Sequence[Prompt],
    tracker: Tracker,
    options: TrackerOptions,
    *,
    shots: Sequence[Window] = (),
    progress: Progress = silent,
) -> Iterator[TrackedFrame]:
    """Yield what ``track`` does, of prompts that are placed.

    shots   which cover all frames: an object is followed in the shot of its prompts only, and the
            tracker starts anew in each; none: the whole video is one

    A tracker of every frame is also given those between the sampled ones.
    """
    between = video.every_frame() if getattr(tracker, "every_frame", False) else video
    positions: dict[int, int] = {}  # of sampled frames of the file; none: all are
    offset = 0  # between the number of a frame in the file and its position among all
    if between is not video:
        positions = {frame.source: frame.index for frame in video.lazy_frames()}
        first = next(between.lazy_frames())
        offset = first.source - first.index

    def shot_of(frame: int) -> int:
        """Return the first frame of the shot in which a frame is."""
        return next((shot.start for shot in shots if shot.start <= frame <= shot.end), 0)

    def steps(
        stage: str, prompts: Iterable[Prompt], frames: Iterable[Frame], total: int | None
    ) -> Iterator[tuple[Frame, dict[int, Observation]]]:
        """Yield each of ``total`` frames with what is seen in it; a session starts at the first
        prompt, and ends with its shot."""
        by_frame: dict[int, list[Prompt]] = {}
        for prompt in prompts:
            by_frame.setdefault(prompt.frame, []).append(prompt)
        session: TrackerSession | None = None
        shot, count = None, 0
        for frame in frames:
            if positions and frame.source not in positions:
                if session is not None:
                    session.step(frame.image)
                continue
            count += 1
            if positions:
                frame = replace(frame, index=positions[frame.source])
            if (here := shot_of(frame.index)) != shot:
                session, shot = None, here
            if session is None and frame.index in by_frame:
                session = tracker.session()
            seen: dict[int, Observation] = {}
            if session is not None:
                with named(f"{video.path}, frame {frame.source}"):
                    objects = session.step(frame.image, by_frame.get(frame.index, ()))
                    seen = {id: _visible(objects[id], frame, options.presence) for id in objects}
            yield frame, seen
            area = sum(int(observation.mask.sum()) for observation in seen.values())
            note = f"area {100 * area / math.prod(frame.shape):.1f} %" if seen else ""
            progress(stage, count, total, note)

    starts: dict[tuple[int, int], int] = {}  # the first prompt of each object in each shot
    for prompt in prompts:
        key = shot_of(prompt.frame), prompt.object
        starts[key] = min(prompt.frame, starts.get(key, prompt.frame))
    earlier: dict[int, dict[int, tuple[Any, float]]] = {}
    if options.backward:
        lasts: dict[int, int] = {}
        for (shot, _), start in sorted(starts.items()):
            if shot < start:
                lasts[shot] = max(start, lasts.get(shot, 0))
        first_prompts = [
            prompt
            for prompt in prompts
            if (shot := shot_of(prompt.frame)) < prompt.frame == starts[shot, prompt.object]
        ]
        ranges = sorted(lasts.items())
        if positions:
            place = {index: source - offset for source, index in positions.items()}
            ranges = [(place[shot], place[last]) for shot, last in ranges]
        parts = (reversed_frames(between, last, shot) for shot, last in ranges)
        total = sum(last - shot + 1 for shot, last in lasts.items())
        for frame, seen in steps(
            BACKWARD, first_prompts, itertools.chain.from_iterable(parts), total
        ):
            seen_before = {
                id: (pack(observation.mask), observation.presence)
                for id, observation in seen.items()
                if frame.index < starts[shot_of(frame.index), id]
            }
            if seen_before:
                earlier[frame.index] = seen_before
    for frame, seen in steps(FORWARD, prompts, between, video.length):
        before = {
            id: Observation(decode_rle(mask), presence)
            for id, (mask, presence) in earlier.pop(frame.index, {}).items()
        }
        yield TrackedFrame(frame, dict(sorted({**before, **seen}.items())))


def _visible(seen: Observation, frame: Frame, presence: float) -> Observation:
    """Return the observation, with an empty mask where the tracker is not sure enough."""
    shape = seen.mask.shape
    if shape != frame.shape:
        problem = f"the tracker returned a mask of shape {shape} for a frame of shape {frame.shape}"
        raise DejaCueError(problem)
    sure = seen.presence >= presence
    return Observation(seen.mask if sure else np.zeros_like(seen.mask), seen.presence)


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


TRACKERS: Registry[Callable[..., Tracker]] = Registry("trackers", {})
NAMES = ("sam2", *sam2.REPOSITORIES, "nano")


def default_tracker() -> str | None:
    """Return the name of the tracker that is taken where none is named: the first of sam2, edgetam
    and nano that is installed with its weights, else sam2 if only these are missing, else None."""
    from dejacue.models.catalogue import model_named  # which knows the trackers

    needs = {"sam2": ("torch", "transformers"), "edgetam": ("torch", "transformers", "timm")}
    needs["nano"] = ("cv2",)
    installed = [name for name in needs if all(map(importlib.util.find_spec, needs[name]))]
    ready = (name for name in installed if model_named(name).state == "ready")
    return next(ready, "sam2" if "sam2" in installed else None)


def check_tracker(name: str) -> None:
    """Refuse a name that no tracker has; load nothing."""
    if name in TRACKERS or name.partition(":")[0] in NAMES:
        return
    raise unknown("tracker", name, [*NAMES, "sam2:FOLDER", "nano:FOLDER", *TRACKERS])


def load_tracker(
    name: str | None = None,
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """Load a tracker by its name; None: the default, whose weights are not downloaded unasked.

    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    nano                          boxes, through OpenCV (dejacue[nano])
    others                        plug-ins (dejacue.trackers)

    >>> load_tracker("sam3")
    Traceback (most recent call last):
    dejacue.errors.InputError: ...
    """
    if name is None:
        name = default_tracker()
        if name is not None:
            from dejacue.models.catalogue import check_models

            check_models(tracker=name)
        name = name or "sam2"  # of which the error says what to install
    if name in TRACKERS:
        return TRACKERS[name](device=device, precision=precision, **options)
    check_tracker(name)
    if name.partition(":")[0] == "nano":
        return nano.load(name)
    return sam2.load(name, device=device, precision=precision, **options)
