"""Model files: looked up, downloaded, and checked against the hashes that are known.

They are looked up in $DEJACUE_WEIGHTS/<repository>/<file>, then in the hub's cache, then on the
hub, whose client keeps the cache. ``Weights`` are files of ours, most with a hash; ``find_model``
takes any repository, whose identity is then made of the hashes of its files.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shlex
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from dejacue.errors import DejaCueError, InputError, MissingData
from dejacue.progress import Progress, silent
from dejacue.sources.atomic import cache_folder, write_text

FOLDER = "DEJACUE_WEIGHTS"
CONNECT_TIMEOUT_S = 1.2
REPLY_TIMEOUT_S = 10
DOWNLOAD = "download"  # a stage of progress, in bytes
MAX_HASHED_BYTES = 100 << 20  # of a file that is hashed whenever its state is looked up
SMALL_FILES = ("*.json", "*.txt", "*.model")  # configurations and tokenizers
_NOT_JSON = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # as expected
_SHA256 = re.compile("[0-9a-f]{64}")  # what the hub calls large files by


@dataclass(frozen=True, eq=False)
class Weights:
    """Names files of a repository at a revision, each with its sha256 where it is known."""

    repository: str
    revision: str
    files: Mapping[str, str | None]

    @property
    def folder(self) -> Path | None:
        """Return the user's folder for this repository, which need not exist."""
        return _user_folder(self.repository)

    def here(self) -> dict[str, Path | None]:
        """Return where each file is on this machine: in the user's folder if there is one, else in
        the hub's cache."""
        from huggingface_hub import try_to_load_from_cache

        if (folder := self.folder) is not None and folder.is_dir():
            paths = {name: folder / name for name in self.files}
            return {name: path if path.is_file() else None for name, path in paths.items()}
        cached = {
            name: try_to_load_from_cache(self.repository, name, revision=self.revision)
            for name in self.files
        }
        return {name: Path(at) if isinstance(at, str) else None for name, at in cached.items()}

    def expected(self, name: str, path: Path | None) -> str | None:
        """Return the sha256 that a file must have: the published one or, where none is known here,
        the one that the hub gave for it: its cache calls the file so, ``--local-dir`` notes it."""
        if self.files[name] or path is None:
            return self.files[name]
        etag = path.resolve().name
        if self.folder is not None:
            notes = self.folder / ".cache" / "huggingface" / "download"
            with contextlib.suppress(OSError, ValueError, IndexError):
                etag = (notes / f"{name}.metadata").read_text(encoding="utf-8").split()[1]
        return etag if _SHA256.fullmatch(etag) else None

    def check(self, paths: Mapping[str, Path], *, hub: bool = False) -> None:
        """Refuse a file whose hash is not the published one or, with ``hub``, the hub's."""
        for name, path in paths.items():
            expected = self.expected(name, path) if hub else self.files[name]
            if expected is not None and sha256(path) != expected:
                source = f"{name} of {self.repository} at revision {self.revision}"
                problem = "is not the published file (its sha256 differs)"
                raise InputError(f"{path}: {problem}; delete it and download {source} again")

    def damaged(self) -> list[Path]:
        """Return the files on this machine that are not whole, as far as a short look tells."""
        return [
            path
            for name, path in self.here().items()
            if path is not None and not looks_whole(path, self.expected(name, path))
        ]

    def download(self, progress: Progress = silent) -> None:
        """Download what is missing or damaged: into the user's folder, where there is one, else
        into the hub's cache. A file is there whole or not at all; one that was stopped goes on.
        ``progress`` counts the bytes of large files."""
        from huggingface_hub import hf_hub_download

        paths, damaged, folder = self.here(), self.damaged(), self.folder
        if folder is not None and not folder.is_dir() and any(paths.values()):
            folder = None  # the others are in the cache
        for name, path in paths.items():
            if path is not None and path not in damaged:
                continue
            if reason := no_connection():
                raise OSError(reason)
            again = not self._resume(name, folder, progress) and path is not None
            downloaded = hf_hub_download(
                self.repository,
                name,
                revision=self.revision,
                local_dir=folder,
                force_download=again,
            )
            self.check({name: Path(downloaded)}, hub=True)

    def _resume(self, name: str, folder: Path | None, progress: Progress) -> bool:
        """Download a large file from where an earlier run was stopped to where the hub's client,
        which itself begins anew, finds it whole. Return False for a small one, left to it."""
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
        from huggingface_hub.file_download import http_get, repo_folder_name

        url = hf_hub_url(self.repository, name, revision=self.revision)
        hub = get_hf_file_metadata(url, timeout=REPLY_TIMEOUT_S)
        if hub.size is None or hub.etag is None or not _SHA256.fullmatch(hub.etag):
            return False
        cache = repo_folder_name(repo_id=self.repository, repo_type="model")
        target = Path(constants.HF_HUB_CACHE, cache, "blobs", hub.etag)
        unfinished = target.parent
        if folder is not None:
            target = folder / name
            unfinished = folder / ".cache" / "huggingface" / "download"
        part = unfinished / f"{hub.etag}.dejacue.incomplete"
        for place in (target.parent, unfinished):
            place.mkdir(parents=True, exist_ok=True)
        done = part.stat().st_size if part.is_file() else 0
        with open(part, "ab") as stream:
            if done > hub.size:
                stream.truncate(done := 0)
            counted = CountedFile(stream, partial(progress, DOWNLOAD, total=hub.size, note=name))
            http_get(hub.location, counted, resume_size=done, expected_size=hub.size)  # type: ignore[arg-type]
        if sha256(part) != hub.etag:
            part.unlink()
            differs = f"the sha256 of {name} differs from the one on the Hub"
            problem = f"{self.repository}: {differs}, so the download was discarded"
            raise InputError(f"{problem}; fetch it again")
        os.replace(part, target)
        return True

    def line(self) -> str:
        """Return the command that gets the files on a machine with a connection."""
        place = f"{os.environ.get(FOLDER) or 'FOLDER'}/{self.repository}"
        pinned = ["--revision", self.revision, "--local-dir", place]
        return shlex.join(["hf", "download", self.repository, *self.files, *pinned])


class CountedFile:
    """A file that reports how long it is after each write."""

    def __init__(self, stream: IO[bytes], report: Callable[[int], object]) -> None:
        self._stream, self._report = stream, report

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, data: bytes) -> int:
        count = self._stream.write(data)
        self._report(self._stream.tell())
        return count


def fetch(*models: Weights) -> dict[str, Path]:
    """Return where the files are, by name; download what is missing, unless the user has a folder
    for that repository. One sentence names all that is missing, and how to get it."""
    absent = [weights for weights in models if not all(weights.here().values())]
    obtain(" and ".join(weights.repository for weights in absent), absent, damaged=False)
    files: dict[str, Path] = {}
    for weights in models:
        paths = {name: path for name, path in weights.here().items() if path}
        weights.check(paths)
        files |= paths
    return files


def obtain(
    name: str, models: Sequence[Weights], *, damaged: bool = True, progress: Progress = silent
) -> None:
    """Download what is missing or damaged of a model; not ``damaged``: only what is missing where
    the user has no folder for it. Stop at the first failure: the others would fail too, slowly."""
    reason = ""
    try:
        for weights in models:
            if damaged or weights.folder is None or not weights.folder.is_dir():
                weights.download(progress)
    except DejaCueError:
        raise
    except Exception as error:  # the hub, its client and the cache raise their own kinds
        reason = first_sentence(error)
    absent = [file for weights in models for file, path in weights.here().items() if path is None]
    if not reason and not absent:
        return
    problem = f" could not be downloaded ({reason})" if reason else f": has no {', '.join(absent)}"
    then = "" if os.environ.get(FOLDER) else f" and set {FOLDER} to it"
    raise MissingData(
        f"{name}{problem}; on a machine with a connection, run: "
        f"{' && '.join(weights.line() for weights in models)}; then copy "
        f"{os.environ.get(FOLDER) or 'FOLDER'} here{then}"
    )


def files_in(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Return the files of the user's own model; refuse a folder that lacks one."""
    files = {name: folder.expanduser() / name for name in names}
    for path in files.values():
        if not path.is_file():
            raise MissingData(f"{path}: does not exist; the folder must hold {', '.join(files)}")
    return files


def _user_folder(repository: str) -> Path | None:
    root = os.environ.get(FOLDER)
    return Path(root).expanduser() / repository if root else None


# a model that is named by its user


@dataclass(frozen=True)
class ModelFiles:
    """Names a folder, the files in it that are the weights, and what to call it."""

    name: str
    folder: Path
    weights: tuple[Path, ...]

    @property
    def identity(self) -> str:
        """Return name and hash of the weights, the same wherever they lie."""
        hashes = "".join(sha256(path) for path in self.weights)
        return f"{self.name}@{hashlib.sha256(hashes.encode()).hexdigest()[:12]}"

    @property
    def details(self) -> dict[str, str]:
        """Return what is recorded: that nothing was checked, the commit if known, the hashes."""
        hashes = {f"sha256 {path.name}": sha256(path) for path in self.weights}
        return {"unpinned": commit(self.folder) or "unknown commit", **hashes}


def find_model(
    name: str, called: str, weights: Sequence[str], *, revision: str | None = None
) -> ModelFiles:
    """Return the files of a model, downloaded if need be.

    name      a folder, or a repository of the hub
    called    what its user calls it
    weights   patterns of the files that may be its weights, the best first
    """
    of_user = _user_folder(name)
    for folder in (Path(name).expanduser(), of_user):
        if folder is not None and folder.is_dir():
            files = _chosen(folder, weights)
            if not files:
                problem = f"holds no model weights ({', '.join(weights)})"
                remedy = f"download them with: hf download REPOSITORY --local-dir {folder}"
                raise MissingData(f"{folder}: {problem}; {remedy}")
            return ModelFiles(name if folder is of_user else folder.resolve().name, folder, files)
    if "\\" in name or name.startswith((".", "~", "/")) or name.count("/") > 1:
        raise MissingData(f"{called}: the folder {name} does not exist")
    folder = _snapshot(name, called, weights, revision)
    return ModelFiles(name, folder, _chosen(folder, weights))


def _chosen(folder: Path, patterns: Sequence[str]) -> tuple[Path, ...]:
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return tuple(folder / name for name in _matching(names, patterns))


def _matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match the first pattern that any name matches, sorted."""
    names = sorted(names)
    return next((some for pattern in patterns if (some := fnmatch.filter(names, pattern))), [])


def _snapshot(name: str, called: str, weights: Sequence[str], revision: str | None) -> Path:
    """Return the folder in the hub's cache; where no weights are in it, download the small files
    and one kind of weights, not all that there may be."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    with contextlib.suppress(OSError, ValueError):  # not there, or not a name
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
        if _chosen(folder, weights):
            return folder
    try:
        if reason := no_connection():
            raise OSError(reason)
        info = HfApi().model_info(name, revision=revision, timeout=REPLY_TIMEOUT_S)
        names = [file.rfilename for file in info.siblings or [] if "/" not in file.rfilename]
        if chosen := _matching(names, weights):
            patterns = [*SMALL_FILES, *chosen]
            return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
        problem = f": has no weights on the Hub ({', '.join(weights)})"
    except GatedRepoError:
        problem = (
            " is gated: accept its terms on its page on the Hub, then run: hf auth login, and: hf "
            f"download {name}"
        )
    except RepositoryNotFoundError:
        problem = ": is not on the Hub, or needs a login (hf auth login); check the name"
    except Exception as error:  # the hub, its client and the cache raise their own kinds
        at = f" --revision {revision}" if revision else ""
        problem = (
            f" is not on this machine and could not be downloaded ({first_sentence(error)}); check "
            f"the name, or on a machine with a connection run: hf download {name}{at} --local-dir "
            f"FOLDER/{name}, then set {FOLDER} to that FOLDER"
        )
    raise MissingData(f"{called}{problem}")


# files


def no_connection() -> str:
    """Return why the hub cannot be reached; nothing where it can. The hub's client itself would try
    for half a minute before it gives up."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if {"https", "all"} & urllib.request.getproxies().keys():
        return ""  # names are looked up by the proxy, perhaps only there
    hub = urllib.parse.urlsplit(constants.ENDPOINT)
    reached = threading.Event()

    def connect() -> None:
        port = hub.port or (80 if hub.scheme == "http" else 443)
        with contextlib.suppress(OSError), socket.create_connection((hub.hostname or "", port)):
            reached.set()

    # in a thread, since looking up a name knows no time limit
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_TIMEOUT_S)
    return "" if reached.is_set() else f"no connection to {hub.hostname}"


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error of a library, without its advice."""
    first = re.split(r"[.:]?\s*\n|\.\s|\.$", str(error).strip(), maxsplit=1)[0]
    return first or type(error).__name__


def commit(path: Path) -> str | None:
    """Return the commit of a file in the hub's cache; None for a file elsewhere."""
    match = re.search(r"/snapshots/([0-9a-f]{40})(/|$)", path.as_posix())
    return match[1] if match else None


def sha256(path: Path) -> str:
    """Return the hash of a file; cached while its size and modification time stay the same."""
    state, key, memory = path.stat(), str(path.resolve()), cache_folder() / "hashes.json"
    stamp = [state.st_size, state.st_mtime_ns]
    known: dict[str, list[object]] = {}
    with contextlib.suppress(OSError, *_NOT_JSON):
        known = dict(json.loads(memory.read_text(encoding="utf-8")))
        if known[key][:2] == stamp:
            return str(known[key][2])
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    with contextlib.suppress(OSError, ValueError):  # a cache: without it we only hash again
        write_text(memory, json.dumps({**known, key: [*stamp, digest]}, sort_keys=True))
    return digest


def looks_whole(path: Path, expected: str | None) -> bool:
    """Return whether a file is what it should be, as far as a short look tells: a small one by its
    hash, where that is known, another by the lengths that it states."""
    size = path.stat().st_size
    if expected is not None and size <= MAX_HASHED_BYTES:
        return sha256(path) == expected
    with open(path, "rb") as stream, contextlib.suppress(*_NOT_JSON):
        if path.suffix == ".safetensors":
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length)) if length <= min(size, 100 << 20) else {}
            tensors = [header[name] for name in header if not name.startswith("__")]
            ends = [tensor["data_offsets"][1] for tensor in tensors]
            return bool(size == 8 + length + max(ends))
        return _is_whole_onnx(stream, size) if path.suffix == ".onnx" else size > 0
    return False


def _is_whole_onnx(stream: IO[bytes], size: int) -> bool:
    """Return whether the fields of an ONNX file, a protocol buffer, end with it, and one is the
    graph."""

    def number() -> int:
        value = 0
        for at in range(10):
            byte = stream.read(1)[0]  # an IndexError at the end of the file
            value |= (byte & 0x7F) << 7 * at
            if byte < 0x80:
                break
        return value

    graph = False
    while stream.tell() < size:
        field, kind = divmod(number(), 8)
        if kind not in (0, 2):  # a model has numbers and parts with a length, nothing else
            return False
        length = number()
        stream.seek(length if kind == 2 else 0, os.SEEK_CUR)
        graph = graph or field == 7
    return graph and stream.tell() == size
