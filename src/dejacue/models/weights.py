"""Model files: found on this machine or downloaded, and compared with the hashes that are known.

They are looked up in $DEJACUE_WEIGHTS/<repository>/, then in the hub's cache; huggingface_hub
downloads them. ``Weights`` are files that we list, most with a hash, and ``WebWeights`` those that
are not on the hub.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import re
import shlex
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, ClassVar

from dejacue.atomic import cache_folder, write_text, write_whole
from dejacue.errors import DejaCueError, InputError, MissingData
from dejacue.progress import Progress, silent

FOLDER = "DEJACUE_WEIGHTS"
REPLY_TIMEOUT_S = 10
DOWNLOAD = "download"  # a stage of progress, in bytes
CHUNK_BYTES = 1 << 20
_SHA256 = re.compile("[0-9a-f]{64}")  # what the hub calls large files by


@dataclass(frozen=True, eq=False)
class Weights:
    """Names files of a repository at a revision, each with its sha256 where it is known.

    >>> Weights("a/b", "main", {"config.json": None, "model.onnx": None}).line()
    'hf download a/b config.json model.onnx --revision main --local-dir FOLDER/a/b'
    """

    repository: str
    revision: str
    files: Mapping[str, str | None]
    on_hub: ClassVar[bool] = True

    @property
    def folder(self) -> Path | None:
        """Return the user's folder for this repository, which need not exist."""
        return user_folder(self.repository)

    def here(self) -> dict[str, Path | None]:
        """Return where each file is on this machine: in the user's folder if there is one, else in
        the hub's cache."""
        from huggingface_hub import try_to_load_from_cache as cached

        if (folder := self.folder) is not None and folder.is_dir():
            return self._files_in(folder)
        found = {n: cached(self.repository, n, revision=self.revision) for n in self.files}
        return {name: Path(at) if isinstance(at, str) else None for name, at in found.items()}

    def _files_in(self, folder: Path) -> dict[str, Path | None]:
        return {name: path if (path := folder / name).is_file() else None for name in self.files}

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

    def differs(self, name: str, path: Path) -> bool:
        """Return whether a file is empty, or its hash is known to be another one."""
        expected = self.expected(name, path)
        return not path.stat().st_size or (expected is not None and sha256(path) != expected)

    def check(self, name: str, path: Path) -> None:
        """Refuse a file whose hash is known to be another one."""
        if self.differs(name, path):
            problem = "is not the published file (its sha256 differs)"
            source = f"{name} of {self.repository} at revision {self.revision}"
            raise InputError(f"{path}: {problem}; delete it and download {source} again")

    def damaged(self) -> list[Path]:
        return [path for name, path in self.here().items() if path and self.differs(name, path)]

    def download(self, progress: Progress = silent) -> None:
        """Download what is missing or damaged: into the user's folder, where there is one, else
        into the hub's cache. A file is there whole or not at all. ``progress`` counts bytes."""
        paths, folder = self.here(), self.folder
        if folder is not None and not folder.is_dir() and any(paths.values()):
            folder = None  # the others are in the cache
        wanted = [name for name, path in paths.items() if not path or self.differs(name, path)]
        if wanted and self.on_hub:
            ask_hub(self.repository, self.revision)
        for name in wanted:
            path = self._get(name, folder, bool(paths[name]), progress)
            if self.differs(name, path):
                path.resolve().unlink()
                path.unlink(missing_ok=True)  # a link, in the cache
                raise self._discarded(name)
            progress(DOWNLOAD, size := path.stat().st_size, size, name)

    def _get(self, name: str, folder: Path | None, again: bool, progress: Progress) -> Path:
        from huggingface_hub import hf_hub_download

        options: dict[str, Any] = {"local_dir": folder, "force_download": again}
        known = inspect.signature(hf_hub_download).parameters  # of huggingface_hub 1.3 and later
        if progress is not silent and "tqdm_class" in known:
            options["tqdm_class"] = _bar(progress, name)
        return Path(hf_hub_download(self.repository, name, revision=self.revision, **options))

    def _discarded(self, name: str) -> InputError:
        problem = f"the sha256 of {name} is not the published one, so the download was discarded"
        return InputError(f"{self.repository}: {problem}; fetch it again")

    def line(self) -> str:
        """Return the command that gets the files on a machine with a connection."""
        pinned = ["--revision", self.revision, "--local-dir", f"{_place()}/{self.repository}"]
        return shlex.join(["hf", "download", self.repository, *self.files, *pinned])


class WebWeights(Weights):
    """Names files at https://<repository>/<revision>/<file>, each with its sha256.

    >>> WebWeights("example.org/models", "v1", {"model.onnx": "0" * 64}).address("model.onnx")
    'https://example.org/models/v1/model.onnx'
    """

    on_hub = False

    @property
    def folder(self) -> Path:
        return user_folder(self.repository) or cache_folder() / "weights" / self.repository

    def here(self) -> dict[str, Path | None]:
        return self._files_in(self.folder)

    def address(self, name: str) -> str:
        return f"https://{self.repository}/{urllib.parse.quote(f'{self.revision}/{name}')}"

    def _get(self, name: str, folder: Path | None, again: bool, progress: Progress) -> Path:
        with urllib.request.urlopen(self.address(name), timeout=REPLY_TIMEOUT_S) as answer:
            return write_whole(self.folder / name, partial(self._copy, name, answer, progress))

    def _copy(self, name: str, answer: Any, progress: Progress, file: IO[bytes]) -> None:
        """Write a file that has no name yet; it gets none if its hash is another."""
        digest, total = hashlib.sha256(), int(answer.headers.get("Content-Length", 0)) or None
        while data := _read(answer):
            file.write(data)
            digest.update(data)
            progress(DOWNLOAD, file.tell(), total, name)
        if digest.hexdigest() != self.files[name]:
            raise self._discarded(name)

    def line(self) -> str:
        places = {f"{_place()}/{self.repository}/{name}": self.address(name) for name in self.files}
        curl = ["curl", "--location", "--create-dirs", "--output"]
        return " && ".join(shlex.join([*curl, place, url]) for place, url in places.items())


def fetch(
    *models: Weights, name: str = "", complete: bool = False, progress: Progress = silent
) -> dict[str, Path]:
    """Return where the files are, by name, after their hashes were checked. What is missing is
    downloaded, in a folder of the user only to ``complete`` it. One sentence names all that is
    missing, and how to get it; after the first failure the others would fail too, slowly."""
    wanted = [w for w in models if complete or None in w.here().values()]
    name, reason = name or " and ".join(weights.repository for weights in wanted), ""
    try:
        for weights in wanted:
            if complete or weights.folder is None or not weights.folder.is_dir():
                weights.download(progress)
    except DejaCueError:
        raise
    except Exception as error:  # the hub, its client and the cache raise their own kinds
        reason = f" could not be downloaded ({first_sentence(error)})"
    files = {file: (w, path) for w in models for file, path in w.here().items()}
    lacking = ", ".join(file for file, (_, path) in files.items() if path is None)
    if reason or lacking:
        lines = " && ".join(weights.line() for weights in wanted)
        then = "" if os.environ.get(FOLDER) else f" and set {FOLDER} to it"
        remedy = f"on a machine with a connection, run: {lines}; then copy {_place()} here{then}"
        raise MissingData(f"{name}{reason or f': has no {lacking}'}; {remedy}")
    paths = {file: path for file, (_, path) in files.items() if path is not None}
    for file, path in paths.items():
        files[file][0].check(file, path)
    return paths


def files_in(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Return the files of the user's own model; refuse a folder that lacks one."""
    files = {name: folder.expanduser() / name for name in names}
    for path in files.values():
        if not path.is_file():
            raise MissingData(f"{path}: does not exist; the folder must hold {', '.join(files)}")
    return files


def _place() -> str:
    return os.environ.get(FOLDER) or "FOLDER"


def user_folder(repository: str) -> Path | None:
    root = os.environ.get(FOLDER)
    return Path(root).expanduser() / repository if root else None


def ask_hub(repository: str, revision: str | None) -> None:
    """Refuse a repository that the hub does not know. Without a connection this fails at once; a
    download would be tried for half a minute."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        raise OSError("HF_HUB_OFFLINE is set")
    try:
        HfApi().model_info(repository, revision=revision, timeout=REPLY_TIMEOUT_S)
    except (HfHubHTTPError, ValueError):  # an answer, or not a name
        raise
    except Exception as error:  # of the HTTP client, which depends on the version
        host = urllib.parse.urlsplit(constants.ENDPOINT).hostname
        raise OSError(f"no connection to {host}") from error


def _bar(progress: Progress, file: str) -> type:
    """Return what huggingface_hub takes for a class of progress bars."""

    class Bar(contextlib.nullcontext[Any]):
        def __init__(self, *_: object, initial: int = 0, total: int | None = None, **__: object):
            super().__init__(self)
            self.n, self.total = initial, total

        def __getattr__(self, name: str) -> Any:  # texts, colours, what went over the network
            return lambda *_, **__: None

        def update(self, count: float = 1) -> None:
            self.n += int(count)
            progress(DOWNLOAD, self.n, self.total, file)

    return Bar


def _read(answer: Any) -> bytes:
    try:
        return bytes(answer.read(CHUNK_BYTES))
    except OSError as error:  # of the network; one of the file would name the file
        raise HTTPException(str(error)) from error


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
    stamp, known = [state.st_size, state.st_mtime_ns], {}
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        known = dict(json.loads(memory.read_text(encoding="utf-8")))
        if known[key][:2] == stamp:
            return str(known[key][2])
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    with contextlib.suppress(OSError, ValueError):  # a cache: without it we only hash again
        write_text(memory, json.dumps({**known, key: [*stamp, digest]}, sort_keys=True))
    return digest
