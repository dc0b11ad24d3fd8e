"""observe: where the object is in every frame, from masks that are there or from a tracker."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.errors import Cancelled, InputError
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.report.track_sheet import check_sheet, update_sheet
from dejacue.sources.build import Lineage
from dejacue.sources.masks import Masks, check_path, open_masks
from dejacue.sources.masks.objects import object_groups, object_name
from dejacue.sources.tracks import Notes, Tracker, check_target, open_written, read_notes
from dejacue.sources.tracks.follow import Followed, Prompts, TrackerOptions, follow
from dejacue.sources.video import Video

Given = Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]]
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None


@dataclass(frozen=True, eq=False)
class Observed:
    """The masks of a video and the objects that are looked for in them.

    objects    the id of a history → the mask ids that are its pieces (None: all)
    tracker    which made the masks; None: they were given, and not made by dejacue
    warnings   what a reader must know of how they were made
    """

    masks: Masks
    objects: Mapping[str, Lineage]
    notes: Notes | None = None
    warnings: tuple[str, ...] = ()
    temporary: bool = False  # the masks go when this goes

    @property
    def tracker(self) -> str | None:
        if self.notes is None:
            return None
        return f"{self.notes.tracker}{', approximate' if self.notes.approximate else ''}"

    def doubts(self, name: str) -> tuple[tuple[Window, str], ...]:
        """Where the tracker may have been wrong about an object, in frames of the file."""
        if self.notes is None:
            return ()
        found = self.notes.doubts_of(self.objects[name])
        return tuple((Window(doubt.first, doubt.last), doubt.text) for _, doubt in found)


def observe(
    video: Video,
    *,
    masks: Given | None = None,
    objects: Objects = None,
    prompts: Prompts = (),
    tracker: Tracker | str | None = None,
    kind: str | None = None,
    match: str = "auto",
    tracker_options: TrackerOptions | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
    at_once: bool = True,
) -> Observed:
    """Masks as they are given, or those that a tracker makes from prompts.

    masks         a path, opened Masks, or SAM 2's dictionary {frame: {object: mask}}
    objects       mask ids that are one object, a list of these for each of several, or a text as on
                  the command line ("1,2", "1+2"); "all": each is one; None: the only one
    kind, match   of the masks, as open_masks takes them
    folder        where the tracker keeps its masks and finds those of an earlier run
    at_once       masks of several objects are refused now, not when the second one is seen
    """
    if prompts:
        if masks is not None:
            raise InputError("masks are given as well as a box or click; leave one of them out")
        return _observe_tracked(
            video,
            prompts,
            objects,
            folder,
            tracker=tracker,
            options=tracker_options,
            progress=progress,
        )
    if masks is None:
        raise InputError(
            f"{video.path}: show where the object is with masks (a folder of PNGs, an .npz, a "
            "COCO .json, boxes .csv), or with a box x0,y0,x1,y1 to track it"
        )
    if isinstance(masks, Masks):
        notes = None if masks.in_memory else read_notes(masks.path)
    else:
        check_path(masks)
        notes = None if isinstance(masks, Mapping) else read_notes(masks)
        match = notes.match if notes is not None and match == "auto" else match
        masks = open_masks(masks, kind=kind, match=match, frames=video.length)
    said = () if notes is None else tuple(notes.problems)
    return Observed(masks, _objects(video, masks, objects, at_once), notes, said)


def _objects(
    video: Video, masks: Masks, objects: Objects, at_once: bool = True
) -> dict[str, Lineage]:
    """Which histories to make: one of all ids, one of some, or one each."""
    if objects is None:
        masks.check_one_object(at_once)
        return {video.name: None}
    if objects == "all":
        if not masks.ids():
            raise InputError(
                f"{masks.path}: contains no object; check that these are the right masks"
            )
        return {f"{video.name}-{one}": frozenset([one]) for one in masks.ids()}
    groups = object_groups(objects)
    if len(groups) == 1:
        return {video.name: frozenset(groups[0])}
    return {f"{video.name}-{object_name(own)}": frozenset(own) for own in groups}


def track(
    video: Video,
    prompts: Prompts,
    output: Path,
    *,
    tracker: Tracker | str | None = None,
    options: TrackerOptions | None = None,
    progress: Progress = silent,
) -> Followed:
    """Masks from prompts, with a contact sheet beside them; what is up to date is taken."""
    check_target(output)
    sheet = check_sheet(output, video)
    found = follow(video, prompts, output, tracker=tracker, options=options, progress=progress)
    update_sheet(sheet, output, video, found.notes)
    return found


def _observe_tracked(
    video: Video,
    prompts: Prompts,
    objects: Objects,
    folder: str | os.PathLike[str] | None,
    **tracking: Any,
) -> Observed:
    if folder is None:
        place = tempfile.mkdtemp(prefix="dejacue-")
        try:
            found = follow(video, prompts, Path(place, "masks"), **tracking)
            observed = _tracked(video, Path(place, "masks"), found, objects, temporary=True)
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, Cancelled):
                raise Cancelled("stopped; without a folder, nothing is kept") from None
            raise
        weakref.finalize(observed, shutil.rmtree, place, ignore_errors=True)
        return observed
    output = Path(folder, "masks")
    return _tracked(video, output, track(video, prompts, output, **tracking), objects)


def _tracked(
    video: Video,
    output: Path,
    found: Followed,
    objects: Objects,
    temporary: bool = False,
) -> Observed:
    shown = found.notes.shown
    if not shown:
        raise InputError(f"{output}: the object is not seen in any frame; check its box or click")
    masks = open_written(output, found.notes)
    if objects in (None, "all"):
        named: dict[str, Lineage] = {
            f"{video.name}-{root}" if len(shown) > 1 else video.name: frozenset(pieces)
            for root, pieces in shown.items()
        }
    else:
        named = _objects(video, masks, objects)
    return Observed(masks, named, found.notes, found.warnings, temporary)
