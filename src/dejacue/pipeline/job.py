"""Job: all that decides which features a video gives, whoever encodes it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dejacue.errors import Cancelled, InputError
from dejacue.pipeline.by_name import SEARCH_FILE, SearchByName, others_found
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.records.history import FRAME_STEP
from dejacue.report.track_sheet import check_sheet, update_sheet
from dejacue.sources.build import Lineage
from dejacue.sources.catalogue import check_models, default_encoder
from dejacue.sources.detectors.base import Detector, check_names
from dejacue.sources.detectors.zero_shot import DEFAULT as DEFAULT_DETECTOR
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.masks import (
    Masks,
    Region,
    RegionMasks,
    check_path,
    open_masks,
    write_region,
)
from dejacue.sources.masks._region import FIXED
from dejacue.sources.masks.objects import object_groups, object_name
from dejacue.sources.tracks import (
    Notes,
    Tracker,
    check_target,
    default_tracker,
    open_written,
    read_notes,
)
from dejacue.sources.tracks.follow import (
    Followed,
    Prompts,
    TrackerOptions,
    follow,
    placed_prompts,
)
from dejacue.sources.tracks.prompts import file_boxes
from dejacue.sources.video import Video, open_video

StrPath = str | os.PathLike[str]
MaskSource = Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]]
TO_TRACK = "to track the object with SAM 2, pip install 'dejacue[track]'"
NOTHING_SAVED = "stopped; without a folder, nothing is kept"
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None


@dataclass(frozen=True)
class VideoOptions:
    """The options of ``open_video``, which say what frames are used."""

    start: int | None = None
    end: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    stride: int | None = None
    fps: float | None = None
    rate: float | None = None
    errors: str = "skip"
    decoder: str = "software"
    stream: int | None = None


@dataclass(frozen=True)
class EncoderOptions:
    """Options to load an encoder by its name, and to phrase descriptions.

    templates   ensemble (None), raw, photo or definite
    """

    backend: str | None = None
    precision: str | None = None
    device: str | None = None
    templates: str | None = None

    @property
    def default_name(self) -> str:
        """Return which encoder is taken where none is named."""
        return default_encoder(self.backend, self.precision, self.device)

    def check(self, encoder: Encoder | str | None) -> None:
        """Refuse, before anything is decoded, a default encoder whose weights are not here."""
        if encoder is None:
            check_models(encoder=self.default_name)

    def load(self, encoder: Encoder | str | None) -> Encoder:
        """Load an encoder; None: siglip2, which is not fetched unasked."""
        if isinstance(encoder, Encoder):
            return encoder
        self.check(encoder)
        encoder = "siglip2" if encoder is None else encoder
        names = ("backend", "precision", "device")
        options = {name: value for name in names if (value := getattr(self, name)) is not None}
        if encoder == "mini" and options:
            problem = f"mini has no option {', '.join(options)}"
            raise InputError(problem, field=next(iter(options)), remedy="leave it out")
        return load_encoder(encoder, **options)


def changed_options(options: VideoOptions | EncoderOptions | TrackerOptions) -> dict[str, str]:
    """Return the options that differ from their defaults, as text."""
    default = type(options)()
    return {n: str(v) for n, v in vars(options).items() if v != getattr(default, n)}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job makes a history of each object of a video.

    video         a path, or an opened Video
    sampling      which frames are used; where it does not say, the encoder's pace decides
    masks         a path, opened Masks, or SAM 2's dictionary {frame: {object: mask}}
    prompts       instead of masks: where the object is, for a tracker
    fixed         the boxes of the prompts stay where they are, or move evenly between frames
    whole         instead of masks: every frame is the object
    names         instead of masks: what the object is called, for a detector to find it
    detector      a name or a Detector (None: llmdet)
    objects       mask ids that are one object, a list of these for each of several, or a text as on
                  the command line ("1,2", "1+2"); "all": each is one; None: the only one
    kind, match   of the masks, as open_masks takes them
    encoder       a name or an Encoder (None: siglip2)
    id            of the history (default: the name of the video); those of several objects go on
                  with -1, -2+3 …
    """

    video: StrPath | Video
    sampling: VideoOptions = field(default_factory=VideoOptions)
    masks: MaskSource | None = None
    prompts: Prompts = ()
    fixed: bool = False
    whole: bool = False
    names: str | Sequence[str] = ()
    detector: Detector | str | None = None
    objects: Objects = None
    kind: str | None = None
    match: str = "auto"
    tracker: Tracker | str | None = None
    tracker_options: TrackerOptions = field(default_factory=TrackerOptions)
    encoder: Encoder | str | None = None
    encoder_options: EncoderOptions = field(default_factory=EncoderOptions)
    id: str | None = None

    def open(self, threads: int | None = None) -> Video:
        """Return the frames to look at; ``threads`` decode them."""
        if isinstance(self.video, str | os.PathLike):
            return open_video(self.video, **vars(self.sampling), threads=threads)
        if self.sampling != VideoOptions():
            names = ", ".join(changed_options(self.sampling))
            problem = f"{names}: the video is already open"
            raise InputError(problem, field=names, remedy="give this to open_video instead")
        return self.video

    def load(self) -> Encoder:
        return self.encoder_options.load(self.encoder)

    def stride_for(
        self, video: Video, pace: float | None, existing: Iterable[Mapping[str, str]] = ()
    ) -> int:
        """Return n where one in n frames is used: 1 where the video is open already, the user says
        which frames to take, the encoder is fast, or it is images and not a video. No clock
        decides: another run agrees.

        pace       frames per second that the encoder is given, or None for all
        existing   made_with of earlier histories: one of this video keeps its n
        """
        sampling = self.sampling
        if isinstance(self.video, Video) or (sampling.stride, sampling.fps) != (None, None):
            return 1
        for made_with in existing:
            stride = int(made_with.get(FRAME_STEP, "1"))
            if made_with.get("video") == video.thinned(stride).key:
                return stride
        return max(1, round(video.rate / pace)) if pace and video.rate else 1

    @property
    def locates(self) -> bool:
        """Return whether masks have to be made first, which are kept in the folder of the job."""
        return self.masks is None

    def check(self) -> None:
        """Refuse several ways to say where the object is, and none."""
        ways = {
            "masks": self.masks is not None,
            "a box, point or mask": bool(self.prompts),
            "whole": self.whole,
        }
        chosen = [way for way, is_given in ways.items() if is_given]
        if len(chosen) > 1:
            problem = f"{chosen[0]} is given as well as {chosen[1]}".replace(
                "masks is", "masks are"
            )
            raise InputError(problem, field=chosen[0], remedy="leave one of them out")
        if not chosen and not self.names:
            raise InputError(
                "say where the object is: name it in the vocabulary (object: cup) so that it is "
                "found, draw a box x0,y0,x1,y1 around it, give its masks (a folder of PNGs, an "
                ".npz, a COCO .json, boxes .csv), or look at the whole picture",
                file=self.video.path if isinstance(self.video, Video) else self.video,
                field="masks",
            )
        if self.fixed and not self.prompts:
            problem = "fixed is for a box that stays where it is"
            raise InputError(problem, field="fixed", remedy="give a box, or leave it out")

    def check_weights(self) -> None:
        """Refuse, before anything is decoded, to go on without all weights that are needed where
        the user names no model."""
        by_name = self.masks is None and not self.prompts and not self.whole
        tracked = by_name or (bool(self.prompts) and not self.fixed)
        names = {}
        if self.encoder is None:
            names["encoder"] = self.encoder_options.default_name
        if by_name and self.detector is None:
            names["detector"] = DEFAULT_DETECTOR
        unnamed = self.tracker is None and default_tracker() != "box"
        if names and tracked and unnamed:  # alone, it is looked for when the prompts are checked
            names["tracker"] = default_tracker()
        check_models(**names)

    def observe(
        self,
        video: Video | None = None,
        folder: StrPath | None = None,
        progress: Progress = silent,
        encoder: Encoder | None = None,
    ) -> Observed:
        """Return the masks of the job, or those that a tracker makes from prompts or names.

        video     that of the job, where it is open already
        folder    where the tracker keeps its masks and finds those of an earlier run
        encoder   that of the job, where it is loaded already: it tells which objects of different
                  shots are the same
        """
        video = video or self.open()
        self.check()
        if self.whole:
            return self._in_region(video, folder, Region())
        if self.prompts:
            return self._prompted(video, folder, progress)
        if self.masks is None:
            return self._by_name(video, folder, encoder or self.load(), progress)
        masks, match = self.masks, self.match
        if isinstance(masks, Masks):
            notes = None if masks.in_memory else read_notes(masks.path)
        else:
            check_path(masks)
            notes = None if isinstance(masks, Mapping) else read_notes(masks)
            match = notes.match if notes is not None and match == "auto" else match
            masks = open_masks(masks, kind=self.kind, match=match, frames=video.length)
        warnings = () if notes is None else tuple(notes.problems)
        return Observed(video, masks, self._named(video, masks), notes, warnings)

    def _prompted(self, video: Video, folder: StrPath | None, progress: Progress) -> Observed:
        unnamed = self.tracker is None and default_tracker() == "box"
        if self.fixed or unnamed or self.tracker == "box":
            boxes = file_boxes(video, placed_prompts(video, self.prompts)[0])
            moved = any(len(frames) > 1 for frames in boxes.values())
            if self.fixed or unnamed or moved:
                observed = self._in_region(video, folder, Region(boxes))
                stages = () if self.fixed else (TO_TRACK,)
                return replace(observed, warnings=(*observed.warnings, *stages))
        return self._tracked(video, folder, progress)

    def _by_name(
        self, video: Video, folder: StrPath | None, encoder: Encoder, progress: Progress
    ) -> Observed:
        by_name = SearchByName(video, check_names(self.names), self.detector)

        def run(output: Path) -> Observed:
            search = by_name.search(output.with_name(SEARCH_FILE), encoder, progress)
            followed = (follow if folder is None else track)(
                video,
                search.prompts(),
                output,
                tracker=by_name.tracker(search, self.tracker_options.load(self.tracker)),
                options=self.tracker_options,
                shots=search.shots,
                progress=progress,
            )
            followed = replace(followed, warnings=(search.summary, *followed.warnings))
            observed = self._of_tracker(video, output, followed, folder is None)
            if self.objects is not None or len(observed.objects) == 1:
                return observed
            numbers = list(followed.notes.seen_lineages)
            first = next(iter(observed.objects.values()))
            return replace(
                observed,
                objects={self.id or video.name: first},
                warnings=(*observed.warnings, others_found(search, numbers)),
            )

        return with_masks_in(folder, run)

    def _in_region(self, video: Video, folder: StrPath | None, region: Region) -> Observed:
        """Return masks that are drawn where a person has said; in the folder, if there is one."""
        masks = RegionMasks(region, Path(video.path))
        if folder is not None:
            path = Path(folder) / "region.json"
            write_region(path, region)
            masks = RegionMasks(region, path, on_disk=True)
        several = self.objects is None and len(region.boxes) > 1
        job = replace(self, objects="all") if several else self
        return Observed(video, masks, job._named(video, masks), None, (region.note,))

    def _named(self, video: Video, masks: Masks) -> dict[str, Lineage]:
        """Return the histories to make: one of all ids, one of some, or one each."""
        name = self.id or video.name
        if self.objects is None:
            masks.check_one_object()
            return {name: None}
        if self.objects == "all":
            if not masks.ids():
                problem = "contains no object"
                remedy = "check that these are the right masks"
                raise InputError(problem, file=masks.path, remedy=remedy)
            return {f"{name}-{id}": frozenset([id]) for id in masks.ids()}
        groups = object_groups(self.objects)
        if len(groups) == 1:
            return {name: frozenset(groups[0])}
        return {f"{name}-{object_name(group)}": frozenset(group) for group in groups}

    def _tracked(self, video: Video, folder: StrPath | None, progress: Progress) -> Observed:
        def run(output: Path) -> Observed:
            followed = (follow if folder is None else track)(
                video,
                self.prompts,
                output,
                tracker=self.tracker,
                options=self.tracker_options,
                progress=progress,
            )
            return self._of_tracker(video, output, followed, folder is None)

        return with_masks_in(folder, run)

    def _of_tracker(
        self, video: Video, output: Path, followed: Followed, temporary: bool
    ) -> Observed:
        lineages, name = followed.notes.seen_lineages, self.id or video.name
        if not lineages:
            problem = "the object is not seen in any frame"
            raise InputError(problem, file=output, field="prompts", remedy="check its box or click")
        masks = open_written(output, followed.notes)
        if self.objects in (None, "all"):
            named: dict[str, Lineage] = {
                f"{name}-{root}" if len(lineages) > 1 else name: frozenset(pieces)
                for root, pieces in lineages.items()
            }
        else:
            named = self._named(video, masks)
        return Observed(video, masks, named, followed.notes, followed.warnings, temporary)


def with_masks_in(folder: StrPath | None, run: Callable[[Path], Observed]) -> Observed:
    """Return what ``run`` makes of masks that it writes below a folder; None: of temporary ones,
    which go when the result goes."""
    if folder is not None:
        return run(Path(folder) / "masks")
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


@dataclass(frozen=True, eq=False)
class Observed:
    """A video, its masks, and the objects to look for in them.

    objects    the id of a history → the mask ids that are its pieces (None: all)
    tracker    the tracker that made the masks; None: they were given, and not made by dejacue
    warnings   what a reader must know of how the masks were made
    """

    video: Video
    masks: Masks
    objects: Mapping[str, Lineage]
    notes: Notes | None = None
    warnings: tuple[str, ...] = ()
    temporary: bool = False  # the masks go when this goes

    @property
    def tracker(self) -> str | None:
        if isinstance(self.masks, RegionMasks):
            return self.masks.region.label
        if self.notes is None:
            return None
        if self.notes.tracker == "box":
            return FIXED
        return f"{self.notes.tracker}{', approximate' if self.notes.approximate else ''}"

    def doubts(self, name: str) -> tuple[tuple[Window, str], ...]:
        """Return where the tracker may be wrong about an object, in frames of the file."""
        if self.notes is None:
            return ()
        doubts = self.notes.doubts_of(self.objects[name])
        return tuple((Window(doubt.first, doubt.last), doubt.text) for _, doubt in doubts)

    def thinned(self, stride: int) -> Observed:
        """Return the video and its masks with one in ``stride`` frames."""
        return replace(self, video=self.video.thinned(stride), masks=self.masks.thinned(stride))


def track(
    video: Video,
    prompts: Prompts,
    output: Path,
    *,
    tracker: Tracker | str | None = None,
    options: TrackerOptions | None = None,
    shots: Sequence[Window] = (),
    progress: Progress = silent,
) -> Followed:
    """Write masks from prompts, and a contact sheet; what is up to date is reused."""
    check_target(output)
    sheet = check_sheet(output, video)
    followed = follow(
        video, prompts, output, tracker=tracker, options=options, shots=shots, progress=progress
    )
    update_sheet(sheet, output, video, followed.notes)
    return followed
