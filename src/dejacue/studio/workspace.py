"""The folder that a studio serves: its contents, by ids that are paths relative to it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

from dejacue.atomic import check_place, is_temporary
from dejacue.errors import InputError, shortened
from dejacue.files.findings import DOCUMENT
from dejacue.studio.errors import NotThere
from dejacue.video.images import is_image

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # names under which only this machine reaches it
LOCK = ".dejacue-studio.lock"
PRIVATE = ".dejacue-studio"  # folder of the token and jobs
MEDIA = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".avi": "video/x-msvideo",
    ".ogv": "video/ogg",
    ".ts": "video/mp2t",
    ".mts": "video/mp2t",
    ".m2ts": "video/mp2t",
    ".mpg": "video/mpeg",
    ".mpeg": "video/mpeg",
    ".wmv": "video/x-ms-wmv",
    ".flv": "video/x-flv",
    ".3gp": "video/3gpp",
}
WORDS = (".yaml", ".yml")
STORE = ".dejacue"  # suffix of stores that are listed
NO_VIDEOS = {"annotations", "masks", "uploads"}  # folders whose pictures are no video
MAX_FILES = 100_000  # that are listed, beside pictures
FRESH_S = 1.0  # for which a list of the files holds
SETTLED_S = 2.0  # after which a folder that changes again has another time stamp
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_REFERENCES = b'"dejacue.references/'


@dataclass
class Contents:
    """The ids of what lies in a workspace; whole: whether all of it is listed."""

    videos: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    vocabularies: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    whole: bool = True


class Listing(NamedTuple):
    """Lists what a folder holds: folders, files that matter, whether it has several pictures."""

    stamp: int
    below: list[str]
    names: list[str]
    pictures: bool


class Workspace:
    """A folder outside of which nothing is read or written, whatever an id says: ids with "..",
    absolute paths, links that lead out, hidden files and names of Windows devices are refused."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._listed: tuple[float, Contents] | None = None
        self._listings: dict[str, Listing] = {}  # of folders that have not changed since
        self._checked: dict[Path, int] = {}  # folders without links out, and their time stamps

    @property
    def name(self) -> str:
        return self.root.name or str(self.root)

    @property
    def private(self) -> Path:
        """Return the folder for what the studio itself keeps; only its owner reads it."""
        folder = self.root / PRIVATE
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link; remove it")
        return folder

    def place(self, id: str) -> Path:
        """Return where an id leads, whether something is there or not."""
        parts, windows = id.split("/"), PureWindowsPath(id)
        bad = (
            not id.isprintable()
            or "\\" in id
            or windows.drive
            or windows.root
            or any(not part or part.startswith(".") or part != part.strip() for part in parts)
            or any(_DEVICE.fullmatch(part) or is_temporary(Path(part)) for part in parts)
            or len(id.encode("utf-8", "surrogatepass")) > 1024
        )
        if bad:
            remedy = "ids are paths below it, as the lists give them"
            raise _not_there(id, f"is not a place in the workspace; {remedy}")
        path = self.root.joinpath(*parts)
        try:
            inside = path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError, ValueError):
            inside = False
        if not inside:
            raise _not_there(id, "leads out of the workspace")
        return path

    def existing(self, id: str, what: str) -> Path:
        path = self.place(id)
        if not os.path.exists(path):  # unlike Path.exists, False for a name that is too long
            raise NotThere(f'there is no {what} "{shortened(id)}" in the workspace')
        return path

    def id_of(self, path: str | os.PathLike[str] | None) -> str | None:
        """Return the id of a path; None where it does not lie in the workspace."""
        if path is None:
            return None
        for candidate in (Path(path), Path(os.path.realpath(path))):
            if candidate.is_relative_to(self.root) and candidate != self.root:
                id = candidate.relative_to(self.root).as_posix()
                with contextlib.suppress(NotThere):
                    self.place(id)
                    return id
                return None
        return None

    def as_ids(self, sentence: str) -> str:
        """Return the sentence with ids instead of paths of this machine."""
        root = str(self.root)
        return sentence.replace(f"{root}{os.sep}", "").replace(root, "the workspace")

    def finding(self, id: str) -> Path:
        """Return the folder of a finding; the id finding.json is that of the workspace itself."""
        path = self.existing(id, "finding")
        folder = path.parent if path.name == DOCUMENT and path.is_file() else path
        if not (folder / DOCUMENT).is_file():
            raise _not_there(id, "contains no finding")
        return folder

    def finding_id(self, folder: Path) -> str:
        return self.id_of(folder) or DOCUMENT

    def video(self, id: str) -> Path:
        """Return the path of a video file, or of a folder of images."""
        path = self.existing(id, "video")
        if path.is_file() and (path.suffix.lower() in MEDIA or is_image(path)):
            return path
        if path.is_dir() and self.check_links(path):
            return path
        raise _not_there(id, "is neither a video nor a folder of images")

    def check_links(self, folder: Path) -> bool:
        """Return whether a folder holds pictures; refuse links that lead out."""
        if not folder.is_dir():
            return False
        stamp = folder.stat().st_mtime_ns
        if self._checked.get(folder) != stamp:
            with os.scandir(folder) as entries:
                pictures = [entry for entry in entries if is_image(entry.name)]
            for entry in pictures:
                if entry.is_symlink() and self.id_of(os.path.realpath(entry.path)) is None:
                    raise NotThere(f"{folder}: {entry.name} is a link out of the workspace")
            if not pictures:
                return False
            self._checked[folder] = stamp
        return True

    def contents(self) -> Contents:
        """Return what lies in the folder now, or did a moment ago."""
        with self._lock:
            if self._listed is None or time.monotonic() - self._listed[0] > FRESH_S:
                self._listed = (time.monotonic(), self._list())
            return self._listed[1]

    def changed(self) -> None:
        """Forget the list of files, since something was written."""
        with self._lock:
            self._listed = None

    def _list(self) -> Contents:
        contents, count, listings = Contents(), 0, {}
        folders = [str(self.root)]
        while folders:
            folder = folders.pop()
            try:
                listing = self._listing(folder)
            except OSError:
                continue  # it is gone, or may not be read
            listings[folder], names, here = listing, listing.names, Path(folder)
            folders += [os.path.join(folder, name) for name in reversed(listing.below)]
            count += 1 + len(names)
            if count > MAX_FILES:
                contents.whole = False
                break
            if DOCUMENT in names:
                contents.findings.append(self.finding_id(here))
            parts = {part.lower() for part in here.relative_to(self.root).parts}
            id = self.id_of(here)
            if listing.pictures and id and DOCUMENT not in names and not parts & NO_VIDEOS:
                contents.videos.append(id)
            for name in names:
                kind, path = _kind(contents, name), here / name
                if kind is None or (id := self.id_of(path)) is None or not path.is_file():
                    continue
                if kind is not contents.references or _REFERENCES in _head(path):
                    kind.append(id)
        self._listings = {
            folder: listing
            for folder, listing in listings.items()
            if time.time_ns() - listing.stamp > SETTLED_S * 1e9
        }
        contents.videos.sort()
        return contents

    def _listing(self, folder: str) -> Listing:
        """List a folder, unless it has not changed since: one of masks may hold many thousands."""
        stamp = os.stat(folder).st_mtime_ns
        known = self._listings.get(folder)
        if known is not None and known.stamp == stamp:
            return known
        below, names, pictures = [], [], 0
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        below.append(entry.name)
                elif is_image(entry.name):
                    pictures += 1
                elif _kind(Contents(), entry.name) is not None:
                    names.append(entry.name)
        return Listing(stamp, sorted(below), sorted(names), pictures > 1)


def _not_there(id: str, problem: str) -> NotThere:
    return NotThere(f'"{shortened(id)}" {problem}')


def _kind(contents: Contents, name: str) -> list[str] | None:
    """Return the list that a file belongs to, by its suffix."""
    suffix = os.path.splitext(name)[1].lower()
    if suffix in MEDIA:
        return contents.videos
    if suffix in WORDS:
        return contents.vocabularies
    if suffix == STORE:
        return contents.stores
    return contents.references if suffix == ".json" else None


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(200)
    except OSError:
        return b""


def open_workspace(places: Sequence[Path]) -> tuple[Workspace, list[str]]:
    """Return the workspace of a folder (default: the current one) or of the folder that videos lie
    in, and the ids of these videos."""
    paths = [Path(os.path.abspath(place)) for place in places] or [Path.cwd()]
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; check the path")
    folders = [path for path in paths if path.is_dir() and not _is_video(path)]
    videos = [path for path in paths if path not in folders]
    if folders and (videos or len(folders) > 1):
        problem = f"is a workspace, but {(videos or folders[1:])[0]} is given too"
        raise InputError(f"{folders[0]}: {problem}; give one folder, or only videos")
    root = folders[0] if folders else Path(os.path.commonpath([path.parent for path in videos]))
    try:
        os.listdir(root)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(f"{root}: {problem}; give another folder") from None
    check_place(root, folder=True)
    workspace = Workspace(root)
    ids = []
    for path in videos:
        id = workspace.id_of(path)
        if id is None:
            raise InputError(f"{path}: is hidden or has a name that a page cannot show; rename it")
        workspace.video(id)
        ids.append(id)
    return workspace, ids


def _is_video(folder: Path) -> bool:
    """Return whether a folder holds the images of a video, and nothing that a workspace has."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return sum(map(is_image, names)) > 1 and DOCUMENT not in names


@contextlib.contextmanager
def lock(workspace: Workspace, url: str) -> Iterator[None]:
    """Let one studio at a time serve a workspace; the lock of a killed one is taken over."""
    path = workspace.root / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        holder: Any = None
        with contextlib.suppress(OSError, ValueError):  # what the last one wrote
            holder = json.loads(path.read_text())
        holder = holder if isinstance(holder, dict) else {}
        if not _is_free(handle, holder):
            pid, address = holder.get("pid", "?"), holder.get("url", "address unknown")
            problem = f"is used by another studio (process {pid}, {address})"
            raise InputError(f"{workspace.root}: {problem}; use that one, or stop it")
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"pid": os.getpid(), "url": url}).encode())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes nothing that is open
                path.unlink()
    finally:
        os.close(handle)


def _is_free(handle: int, holder: Mapping[str, Any]) -> bool:
    """Take the lock, which ends with its process; without locks, look for the holder's process."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        pass  # a drive without locks
    pid = holder.get("pid")
    if not isinstance(pid, int) or pid <= 0 or pid == os.getpid() or os.name != "posix":
        return True  # elsewhere, os.kill would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # that of another user
    return False
