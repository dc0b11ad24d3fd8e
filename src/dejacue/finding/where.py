"""ObjectSource: how it is said where an object is, and the masks that follow from it.

InMasks     masks that exist
AtPrompts   boxes, clicks or masks in some frames: a tracker follows the object
InRegion    the whole picture, a box that stays, or boxes drawn in several frames
ByName      what the object is called: a detector finds it, a tracker follows it
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dejacue.errors import Cancelled, InputError, StrPath
from dejacue.finding.build import MaskIds
from dejacue.finding.by_name import BY_EXAMPLE, SEARCH_FILE, SearchByName, is_example, others_found
from dejacue.finding.request import LazyModel
from dejacue.masks import Masks, Region, RegionMasks, check_path, open_masks, write_region
from dejacue.masks._masks import object_groups, object_name
from dejacue.masks._region import REGION_FILE
from dejacue.models.detectors.base import Detector, check_names
from dejacue.models.detectors.zero_shot import DEFAULT as DEFAULT_DETECTOR
from dejacue.models.encoders import Encoder
from dejacue.models.trackers import (
    Prompt,
    Tracker,
    TrackerOptions,
    TrackNotes,
    default_tracker,
    open_written,
    read_notes,
)
from dejacue.models.trackers.follow import follow
from dejacue.models.trackers.prompts import file_boxes, place_prompts
from dejacue.progress import Progress
from dejacue.records import Note, Window
from dejacue.video.video import Video

MaskSource = Masks | StrPath | Mapping[int, Mapping[int, Any]]
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None
TO_TRACK = (
    "no tracker is installed, so the object may leave the box; nano would follow it as a box "
    "(pip install 'dejacue[nano]', then dejacue weights fetch nano: 1.8 MB), SAM 2 as an outline "
    "(pip install 'dejacue[track]')"
)
NOTHING_SAVED = "stopped; without a folder, nothing is kept"


@dataclass(frozen=True, eq=False)
class Observed:
    """A video, its masks, and the objects to look for in them.

    objects    the id of a history → the mask ids that are its pieces (None: all)
    tracker    the tracker that made the masks; None: they were given, and not made by dejacue
    warnings   what a reader must know of how the masks were made
    """

    video: Video
    masks: Masks
    objects: Mapping[str, MaskIds]
    notes: TrackNotes | None = None
    warnings: tuple[Note, ...] = ()
    temporary: bool = False  # the masks go when this goes

    @property
    def tracker(self) -> str | None:
        if isinstance(self.masks, RegionMasks):
            return self.masks.region.label
        return None if self.notes is None else self.notes.tracker

    def doubts(self, name: str) -> tuple[tuple[Window, str], ...]:
        """Return where the tracker may be wrong about an object, in frames of the file."""
        if self.notes is None:
            return ()
        doubts = self.notes.doubts_of(self.objects[name])
        return tuple((Window(doubt.first, doubt.last), doubt.text) for _, doubt in doubts)

    def thinned(self, stride: int) -> Observed:
        """Return the video and its masks with one in ``stride`` frames."""
        return replace(self, video=self.video.thinned(stride), masks=self.masks.thinned(stride))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """Holds what the objects of a job are looked for in.

    name      of the history; those of several objects go on with -1, -2+3 …
    objects   as in ``Job``
    folder    where masks that are made are kept, and those of an earlier run are found
    encoder   tells which objects of different shots are the same
    """

    video: Video
    name: str
    objects: Objects
    folder: StrPath | None
    encoder: Callable[[], Encoder]
    progress: Progress

    def named(self, masks: Masks) -> dict[str, MaskIds]:
        """Return the histories to make: one of all ids, one of some, or one each."""
        if self.objects is None:
            masks.check_one_object()
            return {self.name: None}
        if self.objects == "all":
            if not masks.ids():
                problem = "contains no object"
                raise InputError(f"{masks.path}: {problem}; check that these are the right masks")
            return {f"{self.name}-{id}": frozenset([id]) for id in masks.ids()}
        groups = object_groups(self.objects)
        if len(groups) == 1:
            return {self.name: frozenset(groups[0])}
        return {f"{self.name}-{object_name(group)}": frozenset(group) for group in groups}

    def track(
        self,
        output: Path,
        prompts: Sequence[Prompt],
        tracker: Tracker | str | None,
        options: TrackerOptions,
        shots: Sequence[Window] = (),
        warnings: Sequence[Note] = (),
    ) -> Observed:
        """Return the masks that a tracker makes from prompts."""
        tracked = follow(
            self.video,
            prompts,
            output,
            tracker=tracker,
            options=options,
            shots=shots,
            progress=self.progress,
        )
        groups = tracked.seen_groups
        if not groups:
            problem = "the object is not seen in any frame"
            raise InputError(f"{output}: {problem}; check its box or click")
        masks = open_written(output, tracked)
        if self.objects in (None, "all"):
            named: dict[str, MaskIds] = {
                f"{self.name}-{root}" if len(groups) > 1 else self.name: frozenset(pieces)
                for root, pieces in groups.items()
            }
        else:
            named = self.named(masks)
        notes = (*warnings, *_doubtful((*self.video.problems, *tracked.problems)))
        return Observed(self.video, masks, named, tracked, notes, self.folder is None)

    def with_masks(self, run: Callable[[Path], Observed]) -> Observed:
        """Return what ``run`` makes of masks that it writes below the folder; without one: of
        temporary ones, which go when the result goes."""
        if self.folder is not None:
            return run(Path(self.folder) / "masks")
        place = Path(tempfile.mkdtemp(prefix="dejacue-"))
        try:
            observed = run(place / "masks")
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, Cancelled):
                raise Cancelled(NOTHING_SAVED) from None
            raise
        weakref.finalize(observed, shutil.rmtree, place, ignore_errors=True)
        return observed


@dataclass(frozen=True, kw_only=True)
class InMasks:
    """The object is where masks show it.

    masks         a path, opened Masks, or SAM 2's dictionary {frame: {object: mask}}
    kind, match   as open_masks takes them
    """

    masks: MaskSource
    kind: str | None = None
    match: str = "auto"

    def models(self) -> dict[str, str]:
        return {}

    def observe(self, sight: Sight) -> Observed:
        masks, match = self.masks, self.match
        if isinstance(masks, Masks):
            notes = None if masks.in_memory else read_notes(masks.path)
        else:
            check_path(masks)
            notes = None if isinstance(masks, Mapping) else read_notes(masks)
            match = notes.match if notes is not None and match == "auto" else match
            masks = open_masks(masks, kind=self.kind, match=match, frames=sight.video.length)
        warnings = () if notes is None else _doubtful(notes.problems)
        return Observed(sight.video, masks, sight.named(masks), notes, warnings)


@dataclass(frozen=True, kw_only=True)
class InRegion:
    """The object is where a person says, and nothing is followed.

    prompts    boxes, which stay where they are or move evenly between frames; none: it is the
               whole picture
    warnings   what a reader must know beside what the region is
    """

    prompts: Sequence[Prompt] = ()
    warnings: tuple[str, ...] = ()

    def models(self) -> dict[str, str]:
        return {}

    def observe(self, sight: Sight) -> Observed:
        region, video = Region(), sight.video
        if self.prompts:
            region = Region(file_boxes(place_prompts(video, self.prompts)))
        masks = RegionMasks(region, Path(video.path))
        if sight.folder is not None:
            path = Path(sight.folder) / REGION_FILE
            write_region(path, region)
            masks = RegionMasks(region, path, on_disk=True)
        if sight.objects is None and len(region.boxes) > 1:
            sight = replace(sight, objects="all")
        chosen = Note(region.note, "information")
        warnings = (chosen, *_doubtful(self.warnings))
        return Observed(video, masks, sight.named(masks), None, warnings)


@dataclass(frozen=True, kw_only=True)
class AtPrompts:
    """The object is where a box, a click or a mask shows it in some frame; a tracker follows it.

    tracker   a name or a Tracker; None: SAM 2, EdgeTAM or nano, if one is ready, else the box stays
    """

    prompts: Sequence[Prompt]
    tracker: Tracker | str | None = None
    options: TrackerOptions = field(default_factory=TrackerOptions)

    def models(self) -> dict[str, str]:
        return _default_models(self.tracker)

    def observe(self, sight: Sight) -> Observed:
        if self.tracker is None and not _default_models(None):
            return InRegion(prompts=self.prompts, warnings=(TO_TRACK,)).observe(sight)
        return sight.with_masks(
            partial(sight.track, prompts=self.prompts, tracker=self.tracker, options=self.options)
        )


@dataclass(frozen=True, kw_only=True)
class ByName:
    """The object is what a detector finds by its name; a tracker follows it.

    names      or the path of one picture of the object; none: the name in the vocabulary
    detector   a name or a Detector (None: llmdet)
    """

    names: str | Sequence[str] = ()
    detector: Detector | str | None = None
    tracker: Tracker | str | None = None
    options: TrackerOptions = field(default_factory=TrackerOptions)

    def models(self) -> dict[str, str]:
        names = [self.names] if isinstance(self.names, str) else self.names
        default = BY_EXAMPLE if is_example(names) else DEFAULT_DETECTOR
        detector = {} if self.detector is not None else {"detector": default}
        return (
            detector
            if self.tracker is not None
            else {**detector, "tracker": default_tracker() or "sam2"}
        )

    def check(self, video: Video) -> None:
        """Refuse to look for something without a name."""
        if not self.names:
            raise InputError(
                f"{video.path}: say where the object is: name it in the vocabulary (object: cup) "
                "so that it is found, draw a box x0,y0,x1,y1 around it, give its masks (a folder "
                "of PNGs, an .npz, a COCO .json, boxes .csv), or look at the whole picture"
            )

    def observe(self, sight: Sight) -> Observed:
        self.check(sight.video)
        by_name = SearchByName(sight.video, check_names(self.names), self.detector)

        def run(output: Path) -> Observed:
            file = output.with_name(SEARCH_FILE)
            tracker = self.options.load(self.tracker)
            search = by_name.search(file, sight.encoder(), sight.progress)
            tracker = by_name.tracker(search, tracker)
            summary = Note(search.summary, "information")
            observed = sight.track(
                output, search.prompts(), tracker, self.options, search.shots, [summary]
            )
            if sight.objects is not None or len(observed.objects) == 1:
                return observed
            assert observed.notes is not None
            numbers = list(observed.notes.seen_groups)
            first = next(iter(observed.objects.values()))
            return replace(
                observed,
                objects={sight.name: first},
                warnings=(*observed.warnings, others_found(search, numbers)),
            )

        return sight.with_masks(run)


ObjectSource = InMasks | InRegion | AtPrompts | ByName


def _doubtful(sentences: Iterable[str]) -> tuple[Note, ...]:
    return tuple(Note(text, "doubtful") for text in sentences)


def object_source(
    *,
    masks: MaskSource | InMasks | None = None,
    prompts: Sequence[Prompt] = (),
    fixed: bool = False,
    whole: bool = False,
    names: str | Sequence[str] = (),
    detector: Detector | str | None = None,
    tracker: Tracker | str | LazyModel[TrackerOptions] | None = None,
) -> ObjectSource:
    """Return what these say of where the object is; refuse several ways to say it. With none it is
    the name in the vocabulary."""
    ways = {
        "masks": masks is not None,
        "a box, point or mask": bool(prompts),
        "whole": whole,
        "an object name": bool(names),
    }
    chosen = [way for way, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        first, second, *_ = chosen
        problem = f"{first} is given as well as {second}".replace("masks is", "masks are")
        raise InputError(f"{problem}; leave one of them out")
    if fixed and not prompts:
        raise InputError("fixed is for a box that stays where it is; give a box, or leave it out")
    if masks is not None:
        return masks if isinstance(masks, InMasks) else InMasks(masks=masks)
    if whole or fixed:
        return InRegion(prompts=prompts)
    options = TrackerOptions()
    if isinstance(tracker, LazyModel):
        options, tracker = tracker.options, tracker.name
    if prompts:
        return AtPrompts(prompts=prompts, tracker=tracker, options=options)
    return ByName(names=names, detector=detector, tracker=tracker, options=options)


def _default_models(tracker: Tracker | str | None) -> dict[str, str]:
    """Return the tracker that is taken where none is named, if one is installed."""
    name = default_tracker()
    return {} if tracker is not None or name is None else {"tracker": name}
