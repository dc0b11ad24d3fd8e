"""Job: all that decides which rows a video gives, whoever encodes it."""

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
from dejacue.pipeline.options import EncoderOptions, VideoOptions, changed
from dejacue.progress import Progress, silent
from dejacue.records import Window
from dejacue.report.track_sheet import check_sheet, update_sheet
from dejacue.sources.build import Lineage
from dejacue.sources.encoders import Encoder
from dejacue.sources.masks import Masks, check_path, open_masks
from dejacue.sources.masks.objects import object_groups, object_name
from dejacue.sources.tracks import Notes, Tracker, check_target, open_written, read_notes
from dejacue.sources.tracks.follow import Followed, Prompts, TrackerOptions, follow
from dejacue.sources.video import Video, open_video

Place = str | os.PathLike[str]
MaskSource = Masks | str | os.PathLike[str] | Mapping[int, Mapping[int, Any]]
Objects = int | Iterable[int] | Iterable[Iterable[int]] | str | None


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

    video: Place | Video
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
        """Return the frames to look at; threads that decode them."""
        if isinstance(self.video, str | os.PathLike):
            return open_video(self.video, **vars(self.sampling), threads=threads)
        if self.sampling != VideoOptions():
            names = ", ".join(changed(self.sampling))
            raise InputError(f"{names}: the video is already open; give this to open_video instead")
        return self.video

    def load(self) -> Encoder:
        return self.encoder_options.load(self.encoder)

    def every(
        self, video: Video, pace: float | None, made: Iterable[Mapping[str, str]] = ()
    ) -> int:
        """Return n where one in n frames is used; of an opened Video, which is chosen, all are."""
        return 1 if isinstance(self.video, Video) else self.sampling.every(video, pace, made)

    def observe(
        self,
        video: Video | None = None,
        folder: Place | None = None,
        progress: Progress = silent,
    ) -> Observed:
        """Return masks as they are given, or those that a tracker makes from prompts.

        video    its own, where it is open already
        folder   where the tracker keeps its masks and finds those of an earlier run
        """
        video = video or self.open()
        if self.prompts:
            if self.masks is not None:
                raise InputError("masks are given as well as a box or click; leave one of them out")
            return self._tracked(video, folder, progress)
        masks, match = self.masks, self.match
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
            masks = open_masks(masks, kind=self.kind, match=match, frames=video.length)
        said = () if notes is None else tuple(notes.problems)
        return Observed(video, masks, self._named(video, masks), notes, said)

    def _named(self, video: Video, masks: Masks) -> dict[str, Lineage]:
        """Which histories to make: one of all ids, one of some, or one each."""
        name = self.id or video.name
        if self.objects is None:
            masks.check_one_object()
            return {name: None}
        if self.objects == "all":
            if not masks.ids():
                raise InputError(
                    f"{masks.path}: contains no object; check that these are the right masks"
                )
            return {f"{name}-{one}": frozenset([one]) for one in masks.ids()}
        groups = object_groups(self.objects)
        if len(groups) == 1:
            return {name: frozenset(groups[0])}
        return {f"{name}-{object_name(own)}": frozenset(own) for own in groups}

    def _tracked(self, video: Video, folder: Place | None, progress: Progress) -> Observed:
        how: dict[str, Any] = {
            "tracker": self.tracker,
            "options": self.tracker_options,
            "progress": progress,
        }
        if folder is not None:
            output = Path(folder, "masks")
            return self._of_tracker(video, output, track(video, self.prompts, output, **how), False)
        place = tempfile.mkdtemp(prefix="dejacue-")
        try:
            output = Path(place, "masks")
            observed = self._of_tracker(video, output, follow(video, self.prompts, output, **how))
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, Cancelled):
                raise Cancelled("stopped; without a folder, nothing is kept") from None
            raise
        weakref.finalize(observed, shutil.rmtree, place, ignore_errors=True)
        return observed

    def _of_tracker(
        self, video: Video, output: Path, found: Followed, temporary: bool = True
    ) -> Observed:
        shown, name = found.notes.shown, self.id or video.name
        if not shown:
            raise InputError(
                f"{output}: the object is not seen in any frame; check its box or click"
            )
        masks = open_written(output, found.notes)
        if self.objects in (None, "all"):
            named: dict[str, Lineage] = {
                f"{name}-{root}" if len(shown) > 1 else name: frozenset(pieces)
                for root, pieces in shown.items()
            }
        else:
            named = self._named(video, masks)
        return Observed(video, masks, named, found.notes, found.warnings, temporary)


@dataclass(frozen=True, eq=False)
class Observed:
    """A video, its masks, and the objects that are looked for in them.

    objects    the id of a history → the mask ids that are its pieces (None: all)
    tracker    which made the masks; None: they were given, and not made by dejacue
    warnings   what a reader must know of how they were made
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
        """Where the tracker may have been wrong about an object, in frames of the file."""
        if self.notes is None:
            return ()
        found = self.notes.doubts_of(self.objects[name])
        return tuple((Window(doubt.first, doubt.last), doubt.text) for _, doubt in found)

    def thinned(self, every: int) -> Observed:
        """The same, of which one in so many frames is used."""
        return replace(self, video=self.video.thinned(every), masks=self.masks.thinned(every))


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
