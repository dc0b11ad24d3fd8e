"""What requests to a studio share: findings, encoders, open videos; each is loaded once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from cachetools import LRUCache, cached
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.files.findings import DOCUMENT, Provenance, read_document
from dejacue.files.results import read_references
from dejacue.finding.by_name import SEARCH_FILE
from dejacue.finding.finding import Finding
from dejacue.finding.request import Lazy, loaded_encoder
from dejacue.masks import Masks, open_masks
from dejacue.masks._region import REGION_FILE
from dejacue.models.detectors import Detector, load_detector
from dejacue.models.encoders import Encoder, check_name, encoder_name
from dejacue.models.encoders.base import Rows
from dejacue.models.trackers import Tracker, TrackerOptions, check_tracker, match_of
from dejacue.records import History, Note, Reference
from dejacue.studio.errors import NotThere, revision_of
from dejacue.studio.jobs import TaskQueue
from dejacue.studio.workspace import Contents, Workspace
from dejacue.video.frames import Frames, open_frames
from dejacue.video.video import Frame

MAX_FINDINGS, MAX_VIDEOS, MAX_TEXTS, MAX_SUMMARIES = 4, 6, 20_000, 20_000  # that are cached
PLAYLISTS = ("hls", "concat", "dash", "sdp", "rtsp")  # formats that name other files to be opened
T = TypeVar("T")
Cached: TypeAlias = Callable[[Hashable, Callable[[], T]], T]  # get(key, make)


class ClosingCache(LRUCache[Hashable, Frames]):
    """A cache that closes the videos which it drops."""

    def popitem(self) -> tuple[Hashable, Frames]:
        key, frames = super().popitem()
        frames.close()
        return key, frames


def cached_in(cache: LRUCache[Hashable, T]) -> Cached[T]:
    """Return get(key, make), which calls ``make`` once for a key; other threads wait for it."""

    @cached(cache, key=lambda key, make: key, condition=threading.Condition())
    def get(key: Hashable, make: Callable[[], T]) -> T:
        return make()

    return get


def caching(encoder: Encoder) -> Encoder:
    """Let an encoder encode each text once."""
    known: LRUCache[str, Any] = LRUCache(MAX_TEXTS)
    lock, encode = threading.Lock(), encoder.encode_texts

    def encode_texts(texts: Sequence[str]) -> Rows:
        with lock:
            rows = {text: known[text] for text in texts if text in known}
            new = [text for text in dict.fromkeys(texts) if text not in rows]
            if new:
                rows |= zip(new, encode(new), strict=True)
            known.update(rows)
        return np.stack([rows[text] for text in texts])

    vars(encoder)["encode_texts"] = encode_texts
    return encoder


class Studio:
    """The state that all requests share.

    encoder, tracker   names for new findings; None: the defaults of the library
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        encoder: str | None = None,
        tracker: str | None = None,
        encoder_options: Mapping[str, Any] | None = None,
        opened: Sequence[str] = (),
    ) -> None:
        if encoder is not None:
            check_name(encoder)
        if tracker is not None:
            check_tracker(tracker)
        self.workspace, self.opened = workspace, list(opened)
        self.encoder_name, self.tracker_name = encoder, tracker
        self.encoder_options = encoder_options or {}
        self.ending = False  # whether the server is about to stop
        self.writing = threading.Lock()  # one request at a time changes files …
        self.saving = threading.Lock()  # … or a finding, which is many files and not read then
        self._findings: Cached[Finding] = cached_in(LRUCache(MAX_FINDINGS))
        self._videos = ClosingCache(MAX_VIDEOS)
        self._frames = cached_in(self._videos)
        self._masks: Cached[Masks] = cached_in(LRUCache(MAX_VIDEOS))
        self._reading_masks = threading.Lock()
        self._encoders: Cached[Encoder] = cached_in(LRUCache(4))
        self._trackers: Cached[Tracker] = cached_in(LRUCache(2))
        self._detectors: Cached[Detector] = cached_in(LRUCache(1))
        self._references: Cached[list[Reference]] = cached_in(LRUCache(MAX_SUMMARIES))
        self._indexed: tuple[Contents, dict[str, list[Path]]] = (Contents(), {})
        self._summaries: Cached[Any] = cached_in(LRUCache(2 * MAX_SUMMARIES))
        self.jobs = TaskQueue(workspace.private / "jobs")

    def close(self) -> None:
        self.jobs.close()
        self._videos.clear()

    def folder(self, id: str) -> Path:
        """Return the folder of a finding."""
        with self.saving:  # while one is written its document is not there
            return self.workspace.finding(id)

    def output_folder(self, id: str) -> Path:
        """Return a folder that is new, empty, or of an earlier run; finding.json: the workspace."""
        folder = self.workspace.root if id == DOCUMENT else self.workspace.place(id)
        if folder.is_file():
            raise InputError(f'"{id}" is a file; give a folder')
        names = [name for name in os.listdir(folder) if name[0] != "."] if folder.is_dir() else []
        if names:
            ours = (DOCUMENT, SEARCH_FILE, REGION_FILE, "masks", "track.json")
            if not any(n in ours or n.endswith((".npz", ".partial")) for n in names):
                raise InputError(f'"{id}" contains other files; give a new folder')
        return folder

    def finding(self, id: str) -> Finding:
        return self.summary(id, Finding.read, self._findings)

    def summary(self, id: str, read: Callable[[Path], T], cache: Cached[Any] | None = None) -> T:
        """Return what ``read`` makes of the folder of a finding, until its document changes."""
        with self.saving:
            folder = self.workspace.finding(id)
            key = read, folder, _stamp(folder / DOCUMENT)
            return cast(T, (cache or self._summaries)(key, lambda: read(folder)))

    def revision(self, folder: Path) -> str:
        """Return a text that changes when the words, examples or answer of a finding do."""
        try:
            words = read_document(folder).files.get("vocabulary", "")
        except InputError:
            words = ""
        return revision_of(folder / DOCUMENT, *([folder / Path(words).name] if words else []))

    def provenance(self, id: str) -> Provenance | None:
        """Return how a finding was made, from its document alone; None where that is damaged."""
        return self.summary(id, _read_made)

    def encoder(self, name: str | None = None) -> Encoder:
        """Return the encoder of this name, loaded once."""
        chosen = name or self.encoder_name
        part = Lazy(chosen, {} if chosen == "mini" else self.encoder_options)
        return self._encoders(chosen or "siglip2", lambda: caching(loaded_encoder(part)))

    def encoder_of(self, history: History) -> Encoder:
        """Return the encoder that a history was made with."""
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

    def detector(self) -> Detector:
        """Return the default detector, loaded once."""
        return self._detectors("", load_detector)

    def frames(self, path: Path) -> Frames:
        return self._frames((path, _stamp(path)), lambda: whole_frames(path))

    def mask(
        self, path: Path, looked_at: int, frame: Frame, objects: frozenset[int] | None
    ) -> NDArray[np.bool_] | None:
        """Return the mask of objects in one of ``looked_at`` frames of a video; None: not seen."""

        def open_checked() -> Masks:
            self.workspace.check_links(path)
            return open_masks(path, match=match_of(path) or "auto", frames=looked_at)

        masks = self._masks((path, looked_at, _stamp(path)), open_checked)
        with self._reading_masks:  # they count which frames were read
            return masks.unions(frame, [objects])[0]

    def video_of(self, provenance: Provenance | None) -> str | None:
        """Return the id of the video of a finding; where it has moved, of the one of its name."""
        if provenance is None or provenance.video is None:
            return None
        id, name = self.workspace.id_of(provenance.video), Path(provenance.video).name
        if id is not None and os.path.exists(provenance.video):
            return id
        same_name = [id for id in self.workspace.contents().videos if Path(id).name == name]
        return same_name[0] if len(same_name) == 1 else None

    def video_path(self, finding: Finding) -> Path:
        id = self.video_of(finding.provenance)
        if id is None:
            remedy = "copy it there, or start the studio in a folder that contains both"
            raise NotThere(f"the video of {finding.history.id} is not in the workspace; {remedy}")
        return self.workspace.video(id)

    def masks_path(self, finding: Finding) -> Path | None:
        """Return where its masks lie in the workspace; they may have moved with the video."""
        if finding.provenance.masks is None:
            return None
        masks, video = Path(finding.provenance.masks), self.video_of(finding.provenance)
        places = [masks]
        if video is not None and finding.provenance.video is not None:
            before, now = Path(finding.provenance.video), self.workspace.root / video
            while before.name and before.name == now.name:
                before, now = before.parent, now.parent
            if masks.is_relative_to(before):
                places.append(now / masks.relative_to(before))
        inside = (path for path in places if path.exists() and self.workspace.id_of(path))
        return next(inside, None)

    def references(
        self, id: str, history: str, provenance: Provenance
    ) -> tuple[Reference | None, list[Note]]:
        """Return the reference of the history of a finding (None: it is not known) and, where
        several files have some, a note: of a file in its folder, else of the one nearest to its
        video, else to the finding."""
        root, video, folder = self.workspace.root, self.video_of(provenance), self.folder(id)
        beside = folder if video is None else (root / video).parent

        def shared(path: Path, place: Path) -> int:
            return len(Path(os.path.commonpath([path, place])).parts)

        def distance(path: Path) -> tuple[bool, int, int]:
            outside = folder not in path.parents
            return outside, -shared(path, beside), -shared(path, folder)

        paths = sorted(self._by_history().get(history, ()), key=distance)
        for path in paths:
            for reference in self._read_references(path):
                if reference.history_id == history:
                    file, *others = (path.relative_to(root).as_posix() for path in paths)
                    few = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
                    text = f"the references are those of {file}; not taken: {few}"
                    return reference, [Note(text, "information")] if others else []
        return None, []

    def _by_history(self) -> dict[str, list[Path]]:
        """Return the files that have references, by history; as fresh as the list of the files."""
        contents = self.workspace.contents()
        if self._indexed[0] is not contents:
            files: dict[str, list[Path]] = {}
            for path in (self.workspace.root / id for id in contents.references):
                for name in {reference.history_id for reference in self._read_references(path)}:
                    files.setdefault(name, []).append(path)
            self._indexed = contents, files
        return self._indexed[1]

    def _read_references(self, path: Path) -> list[Reference]:
        def read() -> list[Reference]:
            try:
                return read_references(path)
            except InputError:
                return []  # a file that only looks like references

        return self._references((path, _stamp(path)), read)


def _read_made(folder: Path) -> Provenance | None:
    try:
        return read_document(folder).provenance
    except InputError:
        return None


def whole_frames(path: Path) -> Frames:
    """Open a video that holds its frames itself."""
    frames = open_frames(path)
    if frames.format in PLAYLISTS:
        frames.close()
        raise InputError(f"{path}: is a list of other files, not a video")
    return frames


def _stamp(path: Path) -> tuple[int, int]:
    """Return a value that changes when the file does."""
    try:
        stat = path.stat()
    except OSError:
        raise NotThere(f"{path}: is gone") from None
    return stat.st_mtime_ns, stat.st_size
