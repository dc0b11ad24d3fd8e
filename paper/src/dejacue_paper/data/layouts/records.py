"""What a layout reads: a Dataset of Clips; all that is wrong is listed at once."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dejacue.errors import DejaCueError, InputError, SeveralProblems, shortened
from dejacue.records import Reference, Vocabulary, Window
from dejacue.video.images import folders_in, is_image, natural
from dejacue.video.video import Video, open_video
from dejacue_paper.data.layouts.pictures import open_pictures


@dataclass(frozen=True)
class Clip:
    """One object of a video, or all of them where the data set does not list them.

    id          of its history
    video       a file, folder or pattern of images, as ``open_video`` takes it; None: not here
    images      the pictures one by one, where they are not all that lies in a folder, or are
                transparent
    masks       where they lie; kind: theirs, as in ``open_masks``
    objects     the mask ids that are this object; empty: each id is one
    object      what it is, in the words of the data set
    states      state → its windows, in frames of the video (positions in a list of images)
    in_seconds  whether these windows count seconds instead, as pictures taken at 1 fps do
    frames      how many it has, where that is known
    vocabulary  the words that the data set has for its states
    times       of each image, in ``unit``: seconds, or whatever the data set counts
    component   the source that it shares with others; default: itself
    sampling    options of ``open_video`` that the labels ask for: fps, start, end, stride …
    columns     what else is known of it: split, category …
    transparent whether its images are laid on white when they are opened
    """

    id: str
    video: str | None = None
    images: tuple[Path, ...] = ()
    masks: Path | None = None
    kind: str | None = None
    objects: tuple[int, ...] = ()
    object: str | None = None
    states: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    in_seconds: bool = False
    frames: int | None = None
    vocabulary: Vocabulary | None = None
    times: tuple[float, ...] | None = None
    unit: str = "seconds"
    component: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    transparent: bool = False

    @property
    def reference(self) -> Reference | None:
        """Return the true windows as ``evaluate`` takes them, or None if there are none."""
        if not self.states:
            return None
        extent = None if self.frames is None else Window(0, self.frames - 1)
        return Reference(self.id, self.states, self.component or self.id, extent)

    def open(self, **options: Any) -> Video:
        """Open the frames, sampled as the labels ask or as the options of ``open_video`` say."""
        chosen = options or dict(self.sampling)
        if self.images:
            times = self.times if self.unit == "seconds" else None
            return open_pictures(self.id, self.images, times, self.transparent, **chosen)
        if self.video is None:
            raise InputError(f'"{self.id}": its video is missing; download it first')
        return open_video(self.video, **chosen)


@dataclass(frozen=True)
class Dataset:
    """The clips that were found in the folder of a data set.

    layout   the name of the reader; folder: what was opened
    missing  what the data set names and is not here, a sentence each
    notes    what a reader should know of its frames and labels
    """

    layout: str
    folder: Path
    clips: tuple[Clip, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ids = Counter(clip.id for clip in self.clips)
        twice = [
            f'the clip "{name}" appears {times} times' for name, times in ids.items() if times > 1
        ]
        check(self.folder, twice)
        if not ids:
            remedy = "is it the right folder?"
            raise InputError(f"{self.folder}: contains nothing of {self.layout}; {remedy}")

    def __iter__(self) -> Iterator[Clip]:
        return iter(self.clips)

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def references(self) -> list[Reference]:
        """Return those of the clips that have any."""
        return [r for clip in self.clips if (r := clip.reference) is not None]

    def to_dict(self) -> dict[str, Any]:
        """Return what is in it, in numbers and sentences."""
        clips = self.clips
        return {
            "layout": self.layout,
            "folder": str(self.folder),
            "clips": len(clips),
            "with video": sum(bool(clip.video or clip.images) for clip in clips),
            "with masks": sum(clip.masks is not None for clip in clips),
            "with references": sum(bool(clip.states) for clip in clips),
            "with vocabulary": sum(clip.vocabulary is not None for clip in clips),
            "states": sorted({state for clip in clips for state in clip.states}),
            "missing": list(self.missing),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Layout:
    """A layout recognises and reads the folders of one data set.

    recognise   whether a folder looks like this layout, by names alone
    needs       what the folder must hold, in a sentence
    """

    recognise: Callable[[Path], bool]
    read: Callable[[Path], Dataset]
    needs: str


def check(folder: Path, problems: Sequence[str]) -> None:
    """Raise all problems at once, if there are any."""
    if problems:
        raise SeveralProblems(folder, problems)


@contextmanager
def collected(problems: list[str], place: str = "") -> Iterator[None]:
    """Add what the block refuses to the problems, which ``check`` raises in the end."""
    try:
        yield
    except DejaCueError as error:
        problems.append(f"{place}{error}")


def check_plain(names: Iterable[str]) -> None:
    """Refuse names of files or folders that lead elsewhere."""
    for name in names:
        if not name or name in (".", "..") or set(name) & set("/\\\0"):
            raise InputError(f'"{shortened(name)}" is not a file name; is the list damaged?')


def scenes_in(folder: Path, is_scene: Callable[[Path], object]) -> Iterator[Path]:
    """Return the folder itself, or those in it, where they look like a scene."""
    return (place for place in (folder, *folders_in(folder)) if is_scene(place))


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder, in natural order; none if it does not exist."""
    return natural(e for e in folder.iterdir() if is_image(e)) if folder.is_dir() else []


def as_path(images: Sequence[Path]) -> str | None:
    """Return the folder, or a pattern, that stands for just these images in this order, if any."""
    if not images or len({image.parent for image in images}) > 1:
        return None
    folder = images[0].parent
    here = images_in(folder)
    if here == list(images):
        return str(folder)
    start = os.path.commonprefix([image.name for image in images])  # noqa: RUF071 (letters)
    chosen = [entry for entry in here if entry.name.startswith(start)]
    return f"{glob.escape(str(folder / start))}*" if start and chosen == list(images) else None
