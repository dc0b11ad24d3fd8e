"""find(): the whole path, from a video and words to a Finding.

sample ──▶ observe ──▶ encode ──▶ read
Video      Masks       History    Timeline
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method._reading import in_frames
from dejacue.method.coordinates import Coordinates
from dejacue.method.view import Readout
from dejacue.pipeline._encode import Encoded, encode, history_warnings
from dejacue.pipeline._observe import Given as GivenMasks
from dejacue.pipeline._observe import Objects, Observed, observe
from dejacue.pipeline._read import Examples, Given, Shown, Words, read
from dejacue.pipeline.finding import Finding
from dejacue.pipeline.options import (
    EncoderOptions,
    ReadOptions,
    VideoOptions,
    changed,
    split,
)
from dejacue.progress import Progress, default_progress
from dejacue.records import History
from dejacue.sources.atomic import check_place
from dejacue.sources.encoders import Encoder
from dejacue.sources.files import read_history
from dejacue.sources.findings import (
    PIXELS,
    Made,
    Pictures,
    holds_finding,
    pictures_path,
    read_pictures,
)
from dejacue.sources.tracks import Prompt, Tracker
from dejacue.sources.tracks.follow import Prompts, TrackerOptions, first_prompts
from dejacue.sources.video import Video, open_video

Place = str | os.PathLike[str]
Source = Place | Video | History | Finding
SAMPLED = (
    "frames are numbered as sampled; source frames, seconds, clips and references are those of "
    "the file"
)
NO_TIMES = "images have no timestamps, so there are no seconds and no .vtt; --rate 25 adds them"


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """The options of ``find``, but for those of the sampling and of the reading."""

    examples: Examples | None = None
    changes: Sequence[int | str] = ()
    masks: GivenMasks | None = None
    objects: Objects = None
    box: Sequence[float] | None = None
    point: Sequence[float] | None = None
    mask: NDArray[np.bool_] | Place | None = None
    prompts: Prompt | Prompts | None = None
    encoder: Encoder | str | None = None
    tracker: Tracker | str | None = None
    folder: Place | None = None
    pictures: bool = True
    progress: Progress | None = None
    kind: str | None = None
    match: str = "auto"
    encoder_options: EncoderOptions = field(default_factory=EncoderOptions)
    tracker_options: TrackerOptions = field(default_factory=TrackerOptions)

    @cached_property
    def shown(self) -> Prompts:
        """Where the object is, as a tracker takes it; empty where masks say it."""
        given = first_prompts(self.box, self.point, self.mask)
        if self.prompts and given:
            raise InputError(
                "prompts are given as well as a box, point or mask; leave one of them out"
            )
        if isinstance(self.prompts, Prompt):
            return [self.prompts]
        return self.prompts or given

    @cached_property
    def examples_shown(self) -> Shown | None:
        given = self.examples or self.changes
        return Shown(self.examples, tuple(self.changes)) if given else None

    def observe(self, video: Video, progress: Progress) -> Observed:
        return observe(
            video,
            masks=self.masks,
            objects=self.objects,
            prompts=self.shown,
            tracker=self.tracker,
            kind=self.kind,
            match=self.match,
            tracker_options=self.tracker_options,
            folder=self.folder,
            progress=progress,
        )


def find(
    video: Source,
    vocabulary: Given | None = None,
    *,
    examples: Examples | None = None,
    changes: Sequence[int | str] = (),
    masks: GivenMasks | None = None,
    objects: Objects = None,
    box: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    mask: NDArray[np.bool_] | Place | None = None,
    prompts: Prompt | Prompts | None = None,
    encoder: Encoder | str | None = None,
    tracker: Tracker | str | None = None,
    readout: str | Readout = "contrast",
    coordinates: str | Coordinates | None = None,
    top: int | None = None,
    diagnostics: bool = False,
    folder: Place | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> Finding:
    """When is this object in which state?

    video         a path (file, folder of images, glob) or an opened Video; or a History, a Finding
                  or where one was written: then nothing is decoded
    vocabulary    a path, {state: descriptions}, or a Vocabulary; None: examples alone
    examples      states that are shown: {state: frames of the file, "4.5s", "cup.jpg", …}; the
                  state "none" is none of them. changes: frames at which one state ends
    masks         of the object: a path, or {frame: {object: mask}} as SAM 2 gives them; objects:
                  the ids that are its pieces, where they hold several
    box, point, mask   instead of masks: where it is in the first frame, (x0, y0, x1, y1), (x, y),
                  or a picture; a tracker follows it (None: the best one that is installed)
    prompts       the same in any frame, as Prompt records
    encoder       a name or an Encoder (siglip2; with a history: the one that it was made with)
    readout       contrast, joint (every occurrence), published (the paper), …, or a readout object
    top           windows per description (None: as many as suit the readout)
    folder        where the finding, histories, masks, pictures and unfinished work are kept and
                  reused; None: nothing is written
    progress      see dejacue.progress; None: a bar in a notebook, silence elsewhere
    more          start, end, start_s, end_s, stride, fps, rate, errors (open_video); kind, match
                  (open_masks); smoothing, engine (read); pictures=False; encoder_options,
                  tracker_options
    """
    options = dict(
        examples=examples,
        changes=changes,
        masks=masks,
        objects=objects,
        box=box,
        point=point,
        mask=mask,
        prompts=prompts,
        encoder=encoder,
        tracker=tracker,
        readout=readout,
        coordinates=coordinates,
        top=top,
        diagnostics=diagnostics,
        folder=folder,
        progress=progress,
        **more,
    )
    return _find(video, vocabulary, options, single=True)[0]


def find_each(video: Source, vocabulary: Given | None = None, **options: Any) -> list[Finding]:
    """A Finding for each object, in one pass over the video; options are those of ``find``.

    objects   "all" (the default: each mask id is one), ids that are one object, or "1,2" and
              [[1], [2]] for several
    """
    return _find(video, vocabulary, {"objects": "all", **options}, single=False)


def _check_saved(
    name: str, vocabulary: Given | None, search: Search, sampling: VideoOptions
) -> None:
    """Refuses options that a history makes idle."""
    if search.masks is not None or search.shown:
        raise InputError(f"{name}: is a history, which needs no masks or boxes; leave them out")
    unused = [*changed(sampling), *(["object"] if search.objects not in (None, "all") else [])]
    if vocabulary is None and not search.examples_shown and search.encoder is not None:
        raise InputError(
            f"{name}: without other words nothing is encoded, so encoder has no effect; leave "
            "it out, or give words"
        )
    if unused:
        raise InputError(
            f"{name}: is a history, so {unused[0]} has no effect; leave it out, or give the "
            "video instead"
        )


def _find(
    video: Source, vocabulary: Given | None, options: dict[str, Any], single: bool
) -> list[Finding]:
    search, reading, sampling = split(options, Search, ReadOptions, VideoOptions)
    reading.check()  # before anything is opened
    saved = _saved(video)
    if saved is not None:
        name = os.fspath(video) if isinstance(video, str | os.PathLike) else saved.history.id
        _check_saved(name, vocabulary, search, sampling)
        return [
            saved.ask(
                vocabulary,
                encoder=search.encoder,
                encoder_options=search.encoder_options,
                name=name,
                shown=search.examples_shown,
                **vars(reading),
            )
        ]
    opened = sample(video, sampling)  # type: ignore[arg-type]
    if search.folder is not None:
        check_place(search.folder, folder=True)
    words = Words.of(vocabulary, search.encoder_options, search.examples_shown)
    search.encoder_options.check(search.encoder)
    progress = search.progress or default_progress()
    # what is wrong with the input is said before a model is loaded and an object followed
    observed = None
    if search.masks is not None or not search.shown:
        observed = search.observe(opened, progress)
    encoder = search.encoder_options.load(search.encoder)
    described, said = words.encoded(encoder, str(opened.path))
    observed = observed or search.observe(opened, progress)
    if single and len(observed.objects) > 1:
        names = ", ".join(observed.objects)
        raise InputError(
            f"{opened.path}: holds {names}, but find returns one; use find_each for all"
        )
    named = described.facts or described.changes  # frames that must be among those looked at
    every = 1 if named or isinstance(video, Video) else sampling.every(opened, encoder)
    encoded = encode(
        opened,
        observed,
        encoder,
        output=search.folder,
        pictures=search.pictures,
        every=every,
        progress=progress,
    )
    made = _made(opened, observed, encoder, search, sampling)
    findings = []
    for name, own in encoded.items():
        files = str(opened.path), words.name
        found = read(own.history, described, reading, names=files)
        warnings = (*_warnings(observed, own, name), *said)
        doubts = observed.doubts(name)
        findings.append(
            Finding(own.history, described, found, *own.pictures, doubts, warnings, made)
        )
        progress("read", len(findings), len(encoded), "")
    if single and search.folder is not None:
        findings[0].write(search.folder)
    return findings


def sample(video: Place | Video, options: VideoOptions | None = None) -> Video:
    """The frames to look at."""
    if isinstance(video, str | os.PathLike):
        return open_video(video, **vars(options or VideoOptions()))
    if options is not None and options != VideoOptions():
        names = ", ".join(changed(options))
        raise InputError(f"{names}: the video is already open; give this to open_video instead")
    return video


def _warnings(observed: Observed, encoded: Encoded, name: str) -> list[str]:
    found = [*observed.warnings, *encoded.warnings]
    if doubts := observed.doubts(name):
        window, text = doubts[0]
        more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
        where = f"{in_frames(*window)} of the file"
        found.append(f"the tracker may be wrong in {where}: {text}{more}")
    return list(dict.fromkeys((*found, *_counting(encoded.history))))


def _counting(history: History) -> list[str]:
    """How frames and seconds are to be read."""
    images = [NO_TIMES] if history.times_s is None and history.source_frames is not None else []
    return [*images, *([SAMPLED] if history.sampled else [])]


def _made(
    video: Video, observed: Observed, encoder: Encoder, search: Search, sampling: VideoOptions
) -> Made:
    kinds = (sampling, search.encoder_options, search.tracker_options)
    options = {name: value for kind in kinds for name, value in changed(kind).items()}
    kept = not observed.temporary and not observed.masks.in_memory
    masks = os.path.abspath(observed.masks.path) if kept else None
    path, prompts = os.path.abspath(video.path), search.encoder_options.prompts
    return Made(path, masks, observed.tracker, encoder.identity, prompts, options)


def _saved(source: Source) -> Finding | None:
    """What was found before, or a finding that has a history only; None for a video."""
    if isinstance(source, Finding | Video):
        return source if isinstance(source, Finding) else None
    folders: list[Path] = []
    pictures = Pictures({}, {})
    history = source
    if not isinstance(history, History):
        if not isinstance(source, str | os.PathLike):
            raise InputError(f"video {source!r:.40}: give a path, a Video, a History or a Finding")
        path = Path(source)
        if holds_finding(path):
            return Finding.read(path)
        there = sorted(path.glob("*.history.npz")) if os.path.isdir(path) else []
        if len(there) > 1:
            names = ", ".join(own.name for own in there[:3]) + (", …" if len(there) > 3 else "")
            raise InputError(f"{path}: holds the histories {names}; give one of them")
        path = there[0] if there else path
        if path.suffix.lower() != ".npz":
            return None
        history = read_history(path)
        folders = [path.parent, path.with_name(path.name.removesuffix(".history.npz"))]
        pictures = read_pictures(pictures_path(path), _pixels(history)) or pictures
    for folder in filter(holds_finding, folders):
        with contextlib.suppress(InputError):  # damaged; the history itself is sound
            found = Finding.read(folder)
            if (found.history.id, found.history.made_with) == (history.id, history.made_with):
                return found
    nothing: Any = None  # ask() fills it
    made = Made(encoder=history.encoder)
    warnings = (*history_warnings(history), *_counting(history))
    return Finding(history, nothing, nothing, *pictures, warnings=warnings, made=made)


def _pixels(history: History) -> dict[str, str]:
    """What pictures of it are pictures of."""
    made = history.made_with or {}
    return {key: made[key] for key in PIXELS if key in made}
