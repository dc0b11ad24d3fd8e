"""locate_object: a video, and how it is said where an object is in it → Masks.

masks            that exist
whole, fixed     the whole picture, a box that stays, or boxes drawn in several frames
box, point, …    a tracker follows the object from there
name             a detector finds the object, a tracker follows it
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dejacue.errors import Cancelled, InputError, StrPath
from dejacue.finding.by_name import BY_EXAMPLE, SEARCH_FILE, SearchByName, is_example, others_found
from dejacue.finding.request import Lazy, loaded_encoder, unwrapped
from dejacue.masks import MaskIds, Masks, Region, RegionMasks, check_path, open_masks, write_region
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
from dejacue.models.trackers.prompts import file_boxes, first_prompts, place_prompts
from dejacue.progress import Progress, silent
from dejacue.records import Note, Window
from dejacue.video.video import Video, open_video

MaskSource = Masks | StrPath | Mapping[int, Mapping[int, Any]]
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None
TO_TRACK = (
    "no tracker is installed, so the object may leave the box; nano would follow it as a box "
    "(pip install 'dejacue[nano]', then dejacue weights fetch nano: 1.8 MB), SAM 2 as an outline "
    "(pip install 'dejacue[track]')"
)
NOTHING_SAVED = "stopped; without a folder, nothing is kept"


def locate_object(
    video: Video | StrPath,
    *,
    masks: MaskSource | Lazy | None = None,
    objects: Objects = None,
    box: Sequence[float] | None = None,
    point: Sequence[float] | None = None,
    prompts: Prompt | Sequence[Prompt] = (),
    name: str | Sequence[str] | None = None,
    whole: bool = False,
    fixed: bool = False,
    tracker: Tracker | str | Lazy | None = None,
    detector: Detector | str | None = None,
    encoder: Encoder | str | Lazy | None = None,
    id: str | None = None,
    folder: StrPath | None = None,
    progress: Progress = silent,
) -> Masks:
    """Return where an object is in each frame: masks that exist, or that are made.

    encoder   tells which objects of different shots are the same, where they are found by name
    id        of the history (default: the name of the video); those of several objects go on with
              -1, -2+3 …
    folder    where masks that are made are kept, and those of an earlier run are found; None: they
              go when nothing reads them any more

    The others are those of ``find``. ``Masks.objects`` says which ids are one object.

    >>> from dejacue.demo import write_demo
    >>> scene = write_demo("cup", overwrite=True)
    >>> masks = locate_object(scene / "scene.mp4", box=(65, 35, 128, 119), fixed=True)
    >>> masks.objects, masks.tracker
    ({'scene': None}, 'fixed region')
    """
    video = video if isinstance(video, Video) else open_video(video)
    id = id or video.name
    way = way_of(masks, box, point, prompts, name, whole, fixed)
    if way == "masks":
        return _given(video, masks, id, objects)
    shown = shown_prompts(box, point, prompts)
    if way == "region":
        return _region(video, shown, folder, id, objects)
    chosen, options = unwrapped(tracker)
    if way == "prompts" and chosen is None and default_tracker() is None:
        note = Note(TO_TRACK, "doubtful")
        return _region(video, shown, folder, id, objects, note)
    how = TrackerOptions(**options)

    def tracked(
        output: Path, shown: Sequence[Prompt], tracker: Any, shots: Sequence[Window]
    ) -> Masks:
        notes = follow(
            video, shown, output, tracker=tracker, options=how, shots=shots, progress=progress
        )
        groups = notes.seen_groups
        if not groups:
            problem = "the object is not seen in any frame"
            raise InputError(f"{output}: {problem}; check its box or click")
        found = open_written(output, notes)
        named: Mapping[str, MaskIds] = {
            f"{id}-{root}" if len(groups) > 1 else id: frozenset(pieces)
            for root, pieces in groups.items()
        }
        if objects not in (None, "all"):
            named = _named(found, id, objects)
        return _described(found, named, notes, (*video.problems, *notes.problems))

    def found_by_name(output: Path) -> Masks:
        search_for = SearchByName(video, check_names(name or ()), detector)
        file, follower = output.with_name(SEARCH_FILE), how.load(chosen)
        search = search_for.search(file, loaded_encoder(encoder), progress)
        follower = search_for.tracker(search, follower)
        found = tracked(output, search.prompts(), follower, search.shots)
        notes = (Note(search.summary, "information"), *found.notes)
        if objects is None and len(found.objects) > 1:
            numbers = [int(of.rpartition("-")[2]) for of in found.objects]
            best, mask_ids = next(iter(found.objects.items()))
            return found.described(
                objects={id: mask_ids},
                notes=(*notes, others_found(search, numbers)),
                doubts={id: found.doubts[best]},
                presence={id: found.presence[best]},
            )
        return found.described(notes=notes)

    if way == "name":
        return _written(folder, found_by_name)
    return _written(folder, lambda output: tracked(output, shown, chosen, ()))


def way_of(
    masks: Any,
    box: Any,
    point: Any,
    prompts: Any,
    name: Any,
    whole: bool,
    fixed: bool,
    **_: Any,
) -> str:
    """Return how it is said where the object is: masks, region, prompts or name; refuse several
    ways. With none it is the name in the vocabulary."""
    prompted = box is not None or point is not None or bool(prompts)
    ways = {
        "masks": masks is not None,
        "a box, point or mask": prompted,
        "whole": whole,
        "an object name": bool(name),
    }
    chosen = [way for way, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        first, second, *_rest = chosen
        problem = f"{first} is given as well as {second}".replace("masks is", "masks are")
        raise InputError(f"{problem}; leave one of them out")
    if fixed and not prompted:
        raise InputError("fixed is for a box that stays where it is; give a box, or leave it out")
    if masks is not None:
        return "masks"
    if whole or fixed:
        return "region"
    return "prompts" if prompted else "name"


def shown_prompts(
    box: Sequence[float] | None, point: Sequence[float] | None, prompts: Prompt | Sequence[Prompt]
) -> Sequence[Prompt]:
    """Return what shows the object in some frames."""
    first = first_prompts(box, point)
    if first and prompts:
        raise InputError("prompts are given as well as a box or point; leave one of them out")
    return first or ([prompts] if isinstance(prompts, Prompt) else prompts)


def models_for(way: str, name: Any, tracker: Any, detector: Any) -> dict[str, str]:
    """Return the detector and tracker that are taken where none is named."""
    models = {}
    if way == "name" and detector is None:
        names = [name] if isinstance(name, str) else name
        models["detector"] = BY_EXAMPLE if is_example(names or ()) else DEFAULT_DETECTOR
    if way in ("name", "prompts") and unwrapped(tracker)[0] is None:
        default = default_tracker() or ("sam2" if way == "name" else None)
        models |= {} if default is None else {"tracker": default}
    return models


def check_named(video: Video, name: Any) -> None:
    """Refuse to look for something without a name."""
    if not name:
        raise InputError(
            f"{video.path}: say where the object is: name it in the vocabulary (object: cup) "
            "so that it is found, draw a box x0,y0,x1,y1 around it, give its masks (a folder "
            "of PNGs, an .npz, a COCO .json, boxes .csv), or look at the whole picture"
        )


def _given(video: Video, masks: Any, id: str, objects: Objects) -> Masks:
    source, options = unwrapped(masks)
    if isinstance(source, Masks) and source.objects and objects is None:
        return source  # it is said already
    if isinstance(source, Masks):
        track = None if source.in_memory else read_notes(source.path)
    else:
        check_path(source)
        track = None if isinstance(source, Mapping) else read_notes(source)
        if track is not None and options.get("match", "auto") == "auto":
            options = {**options, "match": track.match}
        source = open_masks(source, frames=video.length, **options)
    found = source.described()
    problems = () if track is None else track.problems
    return _described(found, _named(found, id, objects), track, problems)


def _region(
    video: Video,
    shown: Sequence[Prompt],
    folder: StrPath | None,
    id: str,
    objects: Objects,
    *notes: Note,
) -> Masks:
    region = Region()
    if shown:
        region = Region(file_boxes(place_prompts(video, shown)))
    masks = RegionMasks(region, Path(video.path))
    if folder is not None:
        path = Path(folder) / REGION_FILE
        write_region(path, region)
        masks = RegionMasks(region, path, on_disk=True)
    if objects is None and len(region.boxes) > 1:
        objects = "all"
    named = _named(masks, id, objects)
    notes = (Note(region.note, "information"), *notes)
    return masks.described(objects=named, notes=notes, tracker=region.label)


def _named(masks: Masks, id: str, objects: Objects) -> Mapping[str, MaskIds]:
    """Return the histories to make: one of all ids, one of some, or one each."""
    if objects is None:
        masks.check_one_object()
        return {id: None}
    if objects == "all":
        if not masks.ids():
            problem = "contains no object"
            raise InputError(f"{masks.path}: {problem}; check that these are the right masks")
        return {f"{id}-{number}": frozenset([number]) for number in masks.ids()}
    groups = object_groups(objects)
    if len(groups) == 1:
        return {id: frozenset(groups[0])}
    return {f"{id}-{object_name(group)}": frozenset(group) for group in groups}


def _described(
    masks: Masks, objects: Mapping[str, MaskIds], track: TrackNotes | None, problems: Iterable[str]
) -> Masks:
    """Return the masks with their objects, and what the notes of a tracker say of these."""
    described = masks.described(
        objects=objects, notes=tuple(Note(text, "doubtful") for text in problems)
    )
    if isinstance(masks, RegionMasks):
        return described.described(tracker=masks.region.label)
    if track is None:
        return described
    return described.described(
        tracker=track.tracker,
        doubts={
            id: tuple((Window(d.first, d.last), d.text) for _, d in track.doubts_of(mask_ids))
            for id, mask_ids in objects.items()
        },
        presence={id: track.presence_of(mask_ids) for id, mask_ids in objects.items()},
    )


def _written(folder: StrPath | None, make: Callable[[Path], Masks]) -> Masks:
    """Return the masks that ``make`` writes below the folder; without one: temporary ones."""
    if folder is not None:
        return make(Path(folder) / "masks")
    place = Path(tempfile.mkdtemp(prefix="dejacue-"))
    try:
        masks = make(place / "masks")
    except BaseException as error:
        shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, Cancelled):
            raise Cancelled(NOTHING_SAVED) from None
        raise
    weakref.finalize(masks.rows, shutil.rmtree, place, ignore_errors=True)
    return masks.described(temporary=True)
