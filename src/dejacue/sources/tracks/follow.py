"""follow(): prompts → the masks of the objects on disk, or those that are there already."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.errors import InputError
from dejacue.progress import Progress, silent
from dejacue.records.arrays import as_array
from dejacue.sources.tracks.base import Mask, Prompt, Tracker
from dejacue.sources.tracks.loading import load_tracker
from dejacue.sources.tracks.notes import Notes, notes_path, read_notes
from dejacue.sources.tracks.output import check_target, write_track
from dejacue.sources.tracks.prompts import (
    Lineages,
    RawPrompt,
    TypedPrompts,
    check_prompts,
    drop_repeated_pieces,
    read_prompts,
    resolve_prompts,
)
from dejacue.sources.tracks.propagate import PRESENCE, TrackRequest
from dejacue.sources.video import Video

_log = logging.getLogger("dejacue")


def first_prompts(
    box: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    mask: Mask | str | os.PathLike[str] | None = None,
) -> list[RawPrompt]:
    """Return what shows one object in the first frame; a mask may be a picture."""
    prompts: list[RawPrompt] = []
    if box is not None:
        x0, y0, x1, y1 = _numbers(box, 4, "box: give (x0, y0, x1, y1)")
        prompts.append(RawPrompt(1, None, box=(x0, y0, x1, y1)))
    if point is not None:
        x, y = _numbers(point, 2, "point: give (x, y)")
        prompts.append(RawPrompt(1, None, point=(x, y, True)))
    if isinstance(mask, str | os.PathLike):
        prompts.append(RawPrompt(1, None, picture=(os.fspath(mask), None)))
    elif mask is not None:
        prompts.append(RawPrompt(1, None, mask=as_array(mask, "the mask").astype(bool)))
    return prompts


def _numbers(values: Sequence[float], count: int, remedy: str) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        numbers = []
    if len(numbers) != count:
        raise InputError(f"{remedy} in pixels from the upper left corner, not {values!r:.60}")
    return numbers


Prompts = TypedPrompts | Sequence[RawPrompt] | Sequence[Prompt]


@dataclass(frozen=True)
class TrackerOptions:
    """How an object is followed.

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
            if not hasattr(tracker, "session"):
                raise InputError(f"tracker {tracker!r:.40} is neither a name nor a Tracker")
            return tracker
        options: dict[str, Any] = {"device": self.device, "precision": self.precision}
        options |= {"fallback": True} if self.fallback else {}
        return load_tracker(tracker, **options)


@dataclass(frozen=True, eq=False)
class Followed:
    """What is known of the masks, and what must be said of them."""

    notes: Notes
    warnings: tuple[str, ...]


def follow(
    video: Video,
    prompts: Prompts,
    output: Path,
    *,
    tracker: Tracker | str | None = None,
    options: TrackerOptions | None = None,
    progress: Progress = silent,
) -> Followed:
    """Follow the objects and write their masks to ``output`` (a folder, .npz or .json), or take
    those that lie there and are up to date; a stopped run goes on where it was."""
    check_target(output)
    request, lineages = _request(video, prompts, tracker, options or TrackerOptions(), output)
    path, tracked = notes_path(output), False
    before = path.read_bytes() if path.is_file() else b""

    def report(stage: str, done: int, total: int | None = None, note: str = "") -> None:
        nonlocal tracked
        tracked = True
        progress(stage, done, total, note)

    notes = write_track(output, request, lineages=lineages, progress=report)
    if not tracked and path.read_bytes() != before:
        _log.info("%s: rewritten from the earlier tracking", output)
    elif not tracked:
        _log.info("reused %s: made from the same video, prompts and tracker", output)
    return Followed(notes, (*video.problems, *notes.problems))


def _request(
    video: Video,
    prompts: Prompts,
    tracker: Tracker | str | None,
    options: TrackerOptions,
    output: Path,
) -> tuple[TrackRequest, Lineages]:
    """Check the input before a model is loaded."""
    before: Notes | None = None
    if isinstance(prompts, TypedPrompts):
        if prompts.adds and not prompts.first and output.exists():
            before = read_notes(output)
        known = (before.prompts, before.lineages) if before else ((), {})
        raw, lineages = read_prompts(prompts, known)
        if not raw:
            raise InputError(
                f"{video.path}: show where the object is: --box x0,y0,x1,y1, --point x,y or "
                "--mask first.png, with @FRAME if it is not in the first frame"
            )
        placed, lineages = drop_repeated_pieces(resolve_prompts(video, raw), lineages)
    else:
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise InputError(f"prompts {prompts!r:.40}: give a list of Prompt records")
        raw = [prompt for prompt in prompts if isinstance(prompt, RawPrompt)]
        sampled = [prompt for prompt in prompts if not isinstance(prompt, RawPrompt)]
        placed = [*(check_prompts(video, sampled) if sampled else ())]
        placed += resolve_prompts(video, raw) if raw else ()
        lineages = {object: (object,) for object in sorted({own.object for own in placed})}
    loaded = options.load(before.tracker if before and tracker is None else tracker)
    if before:
        _check_same(output, before, video, loaded, options)
    return TrackRequest(video, placed, loaded, options.backward, options.presence), lineages


def _check_same(
    output: Path, before: Notes, video: Video, tracker: Tracker, options: TrackerOptions
) -> None:
    """Refuse to add pieces that would be followed in another way than the others were."""
    ways = {True: "--backward", False: "--no-backward"}
    pairs = [
        (f"--tracker {before.tracker}", f"--tracker {tracker.name}"),
        (f"--presence {before.presence:g}", f"--presence {options.presence:g}"),
        (ways[before.backward], ways[options.backward]),
    ]
    if before.video_key != video.key:
        taken = _frames(before.frames, len(before.frames))
        now = _frames((frame.source for frame in video), video.length)
        pairs.append((f"{before.video}, {taken}", f"{video.path}, {now}"))
    for was, now in pairs:
        if was != now:
            raise InputError(
                f"{output}: was made with {was}, but now it is {now}; give the same options to "
                "add to it, or all prompts to start over"
            )


def _frames(sources: Iterable[int], count: int | None) -> str:
    first = ", ".join(str(source) for source in itertools.islice(sources, 3))
    return f"frames {first}, …" + ("" if count is None else f" ({count} of them)")
