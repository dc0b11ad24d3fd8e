"""track(): a video and prompts → the masks of each frame.

    frames before the last first prompt, reversed ──▶ session ──▶ kept as run lengths ─┐
    all frames ─────────────────────────────────────▶ session ────────────────────────▶ merged

An object is followed forward from its first prompt on and, in the pass before, from there back to
the first frame. With a tracker that sees each object for itself, one that was added later is
followed alone, and the masks of the others stay as they are (writing.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dejacue.errors import DejaCueError, InputError, unknown
from dejacue.sources.documents import named
from dejacue.sources.tracks.backwards import Backwards
from dejacue.sources.tracks.base import Prompt, Seen, Tracker
from dejacue.sources.tracks.partial import BACKWARD, FORWARD, Partial, Row, Sight
from dejacue.sources.tracks.prompts import said_of, settle
from dejacue.sources.video import Frame, Video, open_video

READ = "read"  # the frames that are laid down for the backward pass
PRESENCE = 0.5
Progress = Callable[[str, Frame, Mapping[int, Seen]], object]  # pass, frame, what is seen in it


@dataclass(frozen=True, eq=False)
class Tracked:
    """A frame and what is seen in it, by object; those not met yet are left out."""

    frame: Frame
    seen: Mapping[int, Seen]


def load_tracker(
    name: str = "light",
    *,
    device: str | None = None,
    precision: str | None = None,
    **options: Any,
) -> Tracker:
    """A tracker by its name.

    light                         of the base install; approximate
    sam2, sam2-tiny, edgetam, …   SAM 2.1 and others through transformers (dejacue[track])
    """
    if name == "light":
        from dejacue.sources.tracks.light import Light

        if device is not None or precision is not None:
            raise InputError("light has no device or precision to choose; leave them out")
        strange = sorted(set(options) - {"lines"})
        if strange:
            raise InputError(f"light has no option {', '.join(strange)}; it has lines")
        return Light(**options)
    from dejacue.sources.tracks import sam2

    if name.partition(":")[0] not in ("sam2", "sam3", *sam2.REPOSITORIES):
        raise unknown("tracker", name, ["light", "sam2", *sam2.REPOSITORIES, "sam2:FOLDER"])
    return sam2.load(name, device=device, precision=precision, **options)


def track(
    video: Video | str | os.PathLike[str],
    prompts: Prompt | Sequence[Prompt],
    tracker: Tracker | str = "light",
    *,
    backward: bool = True,
    presence: float = PRESENCE,
    progress: Progress | None = None,
) -> Iterator[Tracked]:
    """Every frame of the video, in order, with the masks of the objects.

    video      as open_video gives it (where frames are sampled), or a path
    prompts    where the objects are; frames count the sampled ones
    tracker    as load_tracker gives it, or a name
    backward   whether an object that is shown later is also followed back to the first frame
    presence   an object of which the tracker is less sure is not seen: its mask is empty
    progress   called with "read", "backward" or "forward", the frame and what is seen in it
    """
    plan = Plan.of(video, prompts, tracker, backward=backward, presence=presence)
    return _tracked(plan, progress)


def _tracked(plan: Plan, progress: Progress | None) -> Iterator[Tracked]:
    for frame, earlier, seen in passes(plan, Partial(), progress):
        size = frame.image.shape[0], frame.image.shape[1]
        before = {one: Seen(sight.mask(size), sight.presence) for one, sight in earlier.items()}
        yield Tracked(frame, dict(sorted({**before, **seen}.items())))


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done; ``prompts`` are those that place or settle give.

    ``Plan.of`` makes one of what ``track`` takes.
    """

    video: Video
    prompts: Sequence[Prompt]
    tracker: Tracker
    backward: bool = True
    presence: float = PRESENCE

    def __post_init__(self) -> None:
        if not 0 <= self.presence <= 1:
            raise InputError(f"presence {self.presence} is no share; give a number from 0 to 1")

    @classmethod
    def of(
        cls,
        video: Video | str | os.PathLike[str],
        prompts: Prompt | Sequence[Prompt],
        tracker: Tracker | str = "light",
        *,
        backward: bool = True,
        presence: float = PRESENCE,
    ) -> Plan:
        video = open_video(video) if isinstance(video, str | os.PathLike) else video
        tracker = load_tracker(tracker) if isinstance(tracker, str) else tracker
        settled = settle(video, [prompts] if isinstance(prompts, Prompt) else list(prompts))
        return cls(video, settled, tracker, backward, presence)

    @cached_property
    def firsts(self) -> dict[int, int]:
        """The position of the first prompt of each object."""
        found: dict[int, int] = {}
        for prompt in self.prompts:
            found[prompt.object] = min(prompt.frame, found.get(prompt.object, prompt.frame))
        return dict(sorted(found.items()))

    def key(self, one: int) -> str:
        """Changes with all that the masks of an object depend on."""
        own = said_of(self.prompts, one)
        others = [] if self.tracker.independent else [
            (other, said_of(self.prompts, other)) for other in self.firsts
        ]  # fmt: skip
        content = [
            self.video.key, self.tracker.name, sorted(self.tracker.details.items()),
            self.backward, self.presence, own, others,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def only(self, objects: Iterable[int]) -> Plan:
        chosen = set(objects)
        prompts = [prompt for prompt in self.prompts if prompt.object in chosen]
        return Plan(self.video, prompts, self.tracker, self.backward, self.presence)


def passes(
    plan: Plan, partial: Partial, progress: Progress | None
) -> Iterator[tuple[Frame, dict[int, Sight], dict[int, Seen]]]:
    """Each frame, in order, with what the backward pass has found in it and what the forward pass
    sees; where the partial has frames of an earlier run, those that come after them."""
    if plan.backward:
        _go_back(plan, partial, progress)
    earlier = {row.index: row.sights for row in partial.rows[BACKWARD]}
    by_frame: dict[int, list[Prompt]] = {}
    for prompt in plan.prompts:
        by_frame.setdefault(prompt.frame, []).append(prompt)
    for frame, seen in _steps(plan, FORWARD, plan.video, by_frame, partial):
        if progress is not None:
            progress(FORWARD, frame, seen)
        yield frame, earlier.get(frame.index, {}), seen


def _go_back(plan: Plan, partial: Partial, progress: Progress | None) -> None:
    """The backward pass; its rows are kept in the partial."""
    last = max(plan.firsts.values())
    if last == 0 or partial.is_over(BACKWARD):
        return
    by_frame: dict[int, list[Prompt]] = {}
    for prompt in plan.prompts:
        if 0 < prompt.frame == plan.firsts[prompt.object]:
            by_frame.setdefault(prompt.frame, []).append(prompt)
    tell = None if progress is None else lambda frame: progress(READ, frame, {})
    with Backwards(plan.video, last, tell) as reverse:
        for frame, seen in _steps(plan, BACKWARD, reverse, by_frame, partial):
            if progress is not None:
                progress(BACKWARD, frame, seen)
            own = {one: s for one, s in seen.items() if frame.index < plan.firsts[one]}
            sights = {one: Sight.of(frame.image, s) for one, s in own.items()}
            partial.add(BACKWARD, Row.of(frame, sights))


def _steps(
    plan: Plan,
    which: str,
    frames: Iterable[Frame],
    prompts: Mapping[int, Sequence[Prompt]],
    partial: Partial,
) -> Iterator[tuple[Frame, dict[int, Seen]]]:
    """One pass, from where an earlier run has left it; nothing is asked before the first prompt."""
    session = plan.tracker.session()
    done = partial.begins(which, session)
    begun = False
    for at, frame in enumerate(frames):
        begun = begun or frame.index in prompts
        if at < done:
            continue
        seen: dict[int, Seen] = {}
        if begun:
            with named(f"{plan.video.path}, frame {frame.source}"):
                found = session.step(frame.image, prompts.get(frame.index, ()))
            seen = {one: _shown(found[one], frame, plan.presence) for one in sorted(found)}
        yield frame, seen
        partial.step(which, at + 1, session)


def _shown(seen: Seen, frame: Frame, presence: float) -> Seen:
    if seen.mask.shape != frame.image.shape[:2]:
        raise DejaCueError(
            f"the tracker gave a mask of {seen.mask.shape} for a frame of {frame.image.shape[:2]}"
        )
    sure = seen.presence >= presence
    return Seen(seen.mask if sure else np.zeros_like(seen.mask), seen.presence)
