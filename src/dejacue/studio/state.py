"""What a studio keeps between requests: findings, encoders, open videos; each is made once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.pipeline import EncoderOptions, Finding
from dejacue.records import History, Reference
from dejacue.records.words import Spelling
from dejacue.sources.encoders import Encoder, check_name, encoder_name
from dejacue.sources.encoders.base import Crops, Rows
from dejacue.sources.findings import DOCUMENT, Made, read_document
from dejacue.sources.frames import Frames, open_frames
from dejacue.sources.masks import Masks, open_masks
from dejacue.sources.results import read_references
from dejacue.sources.tracks import Tracker, match_of
from dejacue.sources.tracks.follow import TrackerOptions
from dejacue.sources.video import Frame
from dejacue.studio.errors import NotThere
from dejacue.studio.jobs import TaskQueue
from dejacue.studio.security import Sessions
from dejacue.studio.workspace import Contents, Workspace

MOST_FINDINGS, MOST_VIDEOS, MOST_TEXTS, MOST_SUMMARIES = 4, 6, 20_000, 20_000
ANNOTATIONS = "annotations"  # folder in that of a finding
LISTS = ("hls", "concat", "dash", "sdp", "rtsp")  # formats that name other files to be opened
T = TypeVar("T")
Get: TypeAlias = Callable[[Hashable, Callable[[], T]], T]


class Truth(NamedTuple):
    """References of a history, the file that they were taken from, and others that have some."""

    reference: Reference
    file: str
    others: list[str]

    @property
    def notes(self) -> list[str]:
        """Which file was taken, where there are several."""
        if not self.others:
            return []
        few = ", ".join(self.others[:3]) + (", …" if len(self.others) > 3 else "")
        return [f"the references are those of {self.file}; not taken: {few}"]


class ClosingCache(LRUCache[Hashable, Frames]):
    """A cache that closes the videos which it drops."""

    def popitem(self) -> tuple[Hashable, Frames]:
        key, frames = super().popitem()
        frames.close()
        return key, frames


def made_once(cache: LRUCache[Hashable, T]) -> Get[T]:
    """Return get(key, make), which keeps what ``make`` returns; it is made once, others wait."""

    @cached(cache, key=lambda key, make: key, condition=threading.Condition())
    def get(key: Hashable, make: Callable[[], T]) -> T:
        return make()

    return get


class Remembering(Encoder):
    """An encoder that encodes each text once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        for name in Encoder.__annotations__:
            setattr(self, name, getattr(encoder, name))
        self._rows: LRUCache[str, Any] = LRUCache(MOST_TEXTS)
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_images(self, crops: Crops) -> Rows:
        return self._encoder.encode_images(crops)

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        with self._lock:
            rows = {text: self._rows[text] for text in texts if text in self._rows}
            new = [text for text in dict.fromkeys(texts) if text not in rows]
            if new:
                rows |= zip(new, self._encoder.encode_texts(new), strict=True)
            self._rows.update(rows)
        return np.stack([rows[text] for text in texts])

    def spelling(self, text: str) -> Spelling | None:
        return self._encoder.spelling(text)

    def unknown_words(self, texts: Sequence[str]) -> list[str]:
        return self._encoder.unknown_words(texts)


class Studio:
    """encoder, tracker   names for what is made anew; None: those of the library"""

    def __init__(
        self,
        workspace: Workspace,
        sessions: Sessions,
        *,
        encoder: str | None = None,
        tracker: str | None = None,
        encoder_options: EncoderOptions | None = None,
        opened: Sequence[str] = (),
    ) -> None:
        if encoder is not None:
            check_name(encoder)
        self.workspace, self.sessions, self.opened = workspace, sessions, list(opened)
        self.encoder_name, self.tracker_name = encoder, tracker
        self.encoder_options = encoder_options or EncoderOptions()
        self.ending = False  # whether the server is about to stop
        self.writing = threading.Lock()  # one at a time changes files …
        self.saving = threading.Lock()  # … and findings, which are many files, and not read then
        self._findings: Get[Finding] = made_once(LRUCache(MOST_FINDINGS))
        self._videos = ClosingCache(MOST_VIDEOS)
        self._frames = made_once(self._videos)
        self._masks: Get[Masks] = made_once(LRUCache(MOST_VIDEOS))
        self._looking = threading.Lock()
        self._encoders: Get[Encoder] = made_once(LRUCache(4))
        self._trackers: Get[Tracker] = made_once(LRUCache(2))
        self._references: Get[list[Reference]] = made_once(LRUCache(MOST_SUMMARIES))
        self._indexed: tuple[Contents, dict[str, list[Path]]] = (Contents(), {})
        self._summaries: Get[Any] = made_once(LRUCache(MOST_SUMMARIES))
        self._made: Get[Made | None] = made_once(LRUCache(MOST_SUMMARIES))
        self.jobs = TaskQueue()

    def close(self) -> None:
        self.jobs.close()
        self._videos.clear()

    def folder(self, id: str) -> Path:
        """That of a finding."""
        with self.saving:  # while one is written its document is not there
            return self.workspace.finding(id)

    def finding(self, id: str) -> Finding:
        with self.saving:
            folder = self.workspace.finding(id)
            key = folder, _stamp(folder / DOCUMENT)
            return self._findings(key, lambda: Finding.read(folder))

    def summary(self, id: str, read: Callable[[Path], Any]) -> Any:
        """What ``read`` makes of the folder of a finding, until its document changes."""
        with self.saving:
            folder = self.workspace.finding(id)
            key = folder, _stamp(folder / DOCUMENT)
            return self._summaries(key, lambda: read(folder))

    def encoder(self, name: str | None = None) -> Encoder:
        """By name, loaded once; it encodes each text once."""
        chosen = name or self.encoder_name
        options = self.encoder_options
        if chosen == "mini":
            options = EncoderOptions(prompts=options.prompts)
        return self._encoders(chosen or "siglip2", lambda: Remembering(options.load(chosen)))

    def encoder_of(self, history: History) -> Encoder:
        """The one that a history was made with."""
        try:
            name = encoder_name(history)
        except InputError:
            if self.encoder_name is None:
                raise
            name = self.encoder_name
        return self.encoder(name)

    def tracker(self, name: str | None = None) -> Tracker:
        chosen = name or self.tracker_name
        return self._trackers(chosen, lambda: TrackerOptions().load(chosen))

    def frames(self, path: Path) -> Frames:
        return self._frames((path, _stamp(path)), lambda: whole_frames(path))

    def mask(
        self, path: Path, looked_at: int, frame: Frame, objects: frozenset[int] | None
    ) -> NDArray[np.bool_] | None:
        """Of an object in a frame of a video, of which so many were looked at; None: not seen."""

        def opened() -> Masks:
            self.workspace.check_links(path)
            return open_masks(path, match=match_of(path) or "auto", frames=looked_at)

        masks = self._masks((path, looked_at, _stamp(path)), opened)
        with self._looking:  # they count what they were asked for
            return masks.unions(frame, [objects])[0]

    def made(self, id: str) -> Made | None:
        """How a finding was made, from its document alone; None where that is damaged."""

        def read(folder: Path) -> Made | None:
            try:
                return read_document(folder).made
            except InputError:
                return None

        with self.saving:
            folder = self.workspace.finding(id)
            key = folder, _stamp(folder / DOCUMENT)
            return self._made(key, lambda: read(folder))

    def video_of(self, made: Made | None) -> str | None:
        """The id of the video of a finding; where it is not where it was, of one of its name."""
        known = None if made is None else made.video
        if known is None:
            return None
        id = self.workspace.id_of(known)
        if id is not None and os.path.exists(known):
            return id
        alike = [v for v in self.workspace.contents().videos if Path(v).name == Path(known).name]
        return alike[0] if len(alike) == 1 else None

    def video_path(self, finding: Finding) -> Path:
        id = self.video_of(finding.made)
        if id is None:
            raise NotThere(
                f"the video of {finding.history.id} is not in the workspace; copy it there, or "
                "start the studio in a folder that contains both"
            )
        return self.workspace.video(id)

    def masks_path(self, finding: Finding) -> Path | None:
        """Where its masks lie in the workspace; they may have been moved with the video."""
        known, video = finding.made.masks, self.video_of(finding.made)
        if known is None:
            return None
        places = [Path(known)]
        if video is not None and finding.made.video is not None:
            before, now = Path(finding.made.video), self.workspace.root / video
            while before.name and before.name == now.name:
                before, now = before.parent, now.parent
            if Path(known).is_relative_to(before):
                places.append(now / Path(known).relative_to(before))
        inside = (own for own in places if own.exists() and self.workspace.id_of(own) is not None)
        return next(inside, None)

    def references(self, id: str, history: str, made: Made | None) -> Truth | None:
        """True windows of the history of a finding: as annotated here, the finding or its video;
        else of a file in its folder, else of the one nearest to its video, else to the finding."""
        root, video, folder = self.workspace.root, self.video_of(made), self.folder(id)
        beside = folder if video is None else (root / video).parent
        here = [folder / ANNOTATIONS, *([] if video is None else [annotations_of(root / video)])]

        def shared(path: Path, other: Path) -> int:
            return len(Path(os.path.commonpath([path, other])).parts)

        def far(path: Path) -> tuple[int, bool, int, int]:
            made_here = here.index(path.parent) if path.parent in here else len(here)
            inside = folder in path.parents
            return made_here, not inside, -shared(path, beside), -shared(path, folder)

        paths = sorted(self._by_history().get(history, ()), key=far)
        for path in paths:
            for own in self._read_references(path):
                if own.history_id == history:
                    file, *others = (one.relative_to(root).as_posix() for one in paths)
                    return Truth(own, file, others)
        return None

    def _by_history(self) -> dict[str, list[Path]]:
        """The files that have references, by history; as fresh as the list of the files."""
        contents = self.workspace.contents()
        if self._indexed[0] is not contents:
            found: dict[str, list[Path]] = {}
            for path in (self.workspace.root / id for id in contents.references):
                for name in dict.fromkeys(own.history_id for own in self._read_references(path)):
                    found.setdefault(name, []).append(path)
            self._indexed = contents, found
        return self._indexed[1]

    def _read_references(self, path: Path) -> list[Reference]:
        def read() -> list[Reference]:
            try:
                return read_references(path)
            except InputError:
                return []  # it is looked at for whatever it may hold

        return self._references((path, _stamp(path)), read)


def annotations_of(video: Path) -> Path:
    """Where the annotations of a video lie that has no finding."""
    name = video.stem if video.is_file() else video.name
    return video.with_name(f"{name}.{ANNOTATIONS}")


def whole_frames(path: Path) -> Frames:
    """The frames of a file that holds them itself."""
    frames = open_frames(path)
    if frames.format in LISTS:
        frames.close()
        raise InputError(f"{path}: is a list of other files, not a video")
    return frames


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        stat = path.stat()
    except OSError:
        raise NotThere(f"{path}: is gone") from None
    return stat.st_mtime_ns, stat.st_size
