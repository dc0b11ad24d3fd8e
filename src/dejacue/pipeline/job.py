"""Job: all that decides which features a video gives, whoever encodes it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dejacue.errors import Cancelled, InputError
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.records.history import EVERY
from dejacue.report.track_sheet import check_sheet, update_sheet
from dejacue.sources.build import Lineage
from dejacue.sources.catalogue import check_default
from dejacue.sources.encoders import Encoder, load_encoder
from dejacue.sources.masks import Masks, check_path, open_masks
from dejacue.sources.masks.objects import object_groups, object_name
from dejacue.sources.tracks import Notes, Tracker, check_target, open_written, read_notes
from dejacue.sources.tracks.follow import Followed, Prompts, TrackerOptions, follow
from dejacue.sources.video import Video, open_video

StrPath = str | os.PathLike[str]
MaskSource = Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]]
NOTHING_SAVED = "stopped; without a folder, nothing is kept"
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None


@dataclass(frozen=True)
class VideoOptions:
    """Which frames are taken: the options of open_video."""

    start: int | None = None
    end: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    stride: int | None = None
    fps: float | None = None
    rate: float | None = None
    errors: str = "skip"
    decoder: str = "software"


@dataclass(frozen=True)
class EncoderOptions:
    """How an encoder that is given by name is loaded, and how descriptions are phrased.

    prompts   ensemble (None), raw, photo or definite
    """

    backend: str | None = None
    precision: str | None = None
    device: str | None = None
    prompts: str | None = None

    def check(self, encoder: Encoder | str | None) -> None:
        """Refuse, before anything is decoded, a default encoder whose weights are not here."""
        if encoder is None:
            check_default(self.backend, self.precision, self.device)

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
    """A video on its way to a history of each of its objects.

    video         a path, or an opened Video
    sampling      which frames are used; where it does not say, the encoder's pace decides
    masks         a path, opened Masks, or SAM 2's dictionary {frame: {object: mask}}
    prompts       instead of masks: where the object is, for a tracker
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
            stride = int(made_with.get(EVERY, "1"))
            if made_with.get("video") == video.thinned(stride).key:
                return stride
        return max(1, round(video.rate / pace)) if pace and video.rate else 1

    def observe(
        self, video: Video | None = None, folder: StrPath | None = None, progress: Progress = silent
    ) -> Observed:
        """Return the masks of the job, or those that a tracker makes from prompts.

        video    that of the job, where it is open already
        folder   where the tracker keeps its masks and finds those of an earlier run
        """
        video = video or self.open()
        if self.prompts:
            if self.masks is not None:
                problem = "masks are given as well as a box or click"
                raise InputError(problem, field="masks", remedy="leave one of them out")
            return self._tracked(video, folder, progress)
        masks, match = self.masks, self.match
        if masks is None:
            raise InputError(
                "show where the object is with masks (a folder of PNGs, an .npz, a COCO .json, "
                "boxes .csv), or with a box x0,y0,x1,y1 to track it",
                file=video.path,
                field="masks",
            )
        if isinstance(masks, Masks):
            notes = None if masks.in_memory else read_notes(masks.path)
        else:
            check_path(masks)
            notes = None if isinstance(masks, Mapping) else read_notes(masks)
            match = notes.match if notes is not None and match == "auto" else match
            masks = open_masks(masks, kind=self.kind, match=match, frames=video.length)
        warnings = () if notes is None else tuple(notes.problems)
        return Observed(video, masks, self._named(video, masks), notes, warnings)

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
        temporary = folder is None
        place = Path(tempfile.mkdtemp(prefix="dejacue-") if folder is None else folder)
        output, run = place / "masks", follow if temporary else track
        options = self.tracker_options
        try:
            followed = run(
                video,
                self.prompts,
                output,
                tracker=self.tracker,
                options=options,
                progress=progress,
            )
            observed = self._of_tracker(video, output, followed, temporary)
        except BaseException as error:
            if temporary:
                shutil.rmtree(place, ignore_errors=True)
                if isinstance(error, Cancelled):
                    raise Cancelled(NOTHING_SAVED) from None
            raise
        if temporary:
            weakref.finalize(observed, shutil.rmtree, place, ignore_errors=True)
        return observed

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
        if self.notes is None:
            return None
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
    progress: Progress = silent,
) -> Followed:
    """Write masks from prompts, and a contact sheet; what is up to date is reused."""
    check_target(output)
    sheet = check_sheet(output, video)
    followed = follow(video, prompts, output, tracker=tracker, options=options, progress=progress)
    update_sheet(sheet, output, video, followed.notes)
    return followed
