"""Model files: found, fetched, and checked against the hashes that are known.

Looked for in $DEJACUE_WEIGHTS/<repository>/<file>, then in the hub's cache, then on the hub.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dejacue.errors import InputError, MissingData
from dejacue.sources.atomic import cache_folder, write_text

FOLDER = "DEJACUE_WEIGHTS"
MOST_HASHED = 100 << 20  # bytes
_NOT_JSON = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # as expected
PATIENCE_S = 2.0  # in which a hub answers


@dataclass(frozen=True, eq=False)
class Weights:
    """Files of a repository at a revision, each with its sha256 where it is known."""

    repository: str
    revision: str
    files: Mapping[str, str | None]

    def fetch(self) -> dict[str, Path]:
        """Where each file is; downloads what is missing, with the hub's progress bars."""
        return fetch(self)[0]

    def here(self) -> dict[str, Path | None]:
        """Where each file is without a connection; the user's folder must hold all of them."""
        folder = self._user_folder()
        if folder is None:
            return {name: self._from_hub(name, local=True) for name in self.files}
        return {name: folder / name if (folder / name).is_file() else None for name in self.files}

    def download(self, paths: dict[str, Path | None]) -> None:
        """Adds what is missing, unless the user has a folder for this repository."""
        lacking = [name for name, path in paths.items() if path is None]
        if lacking and self._user_folder() is None:
            if reason := no_connection():
                raise OSError(reason)
            for name in lacking:
                paths[name] = self._from_hub(name, local=False)

    def check(self, paths: Mapping[str, Path]) -> None:
        for name, path in paths.items():
            expected = self.files[name]
            if expected is not None and sha256(path) != expected:
                raise InputError(
                    f"{path}: is not the published file (its sha256 differs); delete it and "
                    f"get {name} of {self.repository} at revision {self.revision} again"
                )

    def damaged(self) -> list[Path] | None:
        """Which of the files that are here are not whole, as far as a short look tells: small ones
        by their hash, where it is known, others by the lengths that they state. None: some files
        are missing."""
        found = []
        for name, path in self.here().items():
            if path is None:
                return None
            expected = self.files[name]
            small = expected is not None and path.stat().st_size <= MOST_HASHED
            if sha256(path) != expected if small else not _is_whole(path):
                found.append(path)
        return found

    def remedy(self, lacking: Sequence[str]) -> str:
        """Which files to put where; the user's folder must hold all of them."""
        names = lacking if self._user_folder() else list(self.files)
        folder = os.environ.get(FOLDER) or "FOLDER"
        return f"{', '.join(names)} (revision {self.revision}) into {folder}/{self.repository}"

    def _user_folder(self) -> Path | None:
        given = os.environ.get(FOLDER)
        if not given:
            return None
        folder = Path(given).expanduser() / self.repository
        return folder if folder.is_dir() else None

    def _from_hub(self, name: str, *, local: bool) -> Path | None:
        from huggingface_hub import hf_hub_download

        # it logs every retry; we report the outcome
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        try:
            return Path(
                hf_hub_download(
                    self.repository, name, revision=self.revision, local_files_only=local
                )
            )
        except (OSError, ValueError):  # a file that is not in the cache is an OSError too
            if not local:
                raise
            return None


def fetch(*wanted: Weights) -> list[dict[str, Path]]:
    """Where the files of each are, in the order given; one sentence names all that are missing."""
    from huggingface_hub.errors import HfHubHTTPError

    found = [weights.here() for weights in wanted]
    reason = ""
    try:  # stop at the first failure: the others would fail too, slowly
        for weights, paths in zip(wanted, found, strict=True):
            weights.download(paths)
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = f" (download: {first_sentence(error)})"
    lacking = {
        weights: names
        for weights, paths in zip(wanted, found, strict=True)
        if (names := [name for name, path in paths.items() if path is None])
    }
    if lacking:
        raise _missing(lacking, reason)
    complete = [{name: path for name, path in paths.items() if path} for paths in found]
    for weights, own in zip(wanted, complete, strict=True):
        weights.check(own)
    return complete


def no_connection() -> str:
    """Why the hub cannot be reached; nothing where it can. The hub itself would try for half a
    minute before it gives up."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if {"https", "all"} & urllib.request.getproxies().keys():
        return ""  # names are looked up by the proxy, perhaps only there
    hub = urllib.parse.urlsplit(constants.ENDPOINT)
    reached = threading.Event()

    def knock() -> None:
        port = hub.port or (80 if hub.scheme == "http" else 443)
        with contextlib.suppress(OSError), socket.create_connection((hub.hostname or "", port)):
            reached.set()

    # in a thread, since looking up a name knows no time limit
    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    knocking.join(PATIENCE_S)
    return "" if reached.is_set() else f"no connection to {hub.hostname}"


def files_in(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """The files of the user's own model."""
    found = {name: folder.expanduser() / name for name in names}
    for path in found.values():
        if not path.is_file():
            raise MissingData(f"{path}: does not exist; the folder must hold {', '.join(found)}")
    return found


def _missing(lacking: Mapping[Weights, Sequence[str]], reason: str) -> MissingData:
    fetched = "with a connection they are fetched once, without one " if reason else ""
    also = "" if os.environ.get(FOLDER) else f", and set {FOLDER} to that FOLDER"
    return MissingData(
        f"{' and '.join(weights.repository for weights in lacking)}: not all files are on this "
        f"machine{reason}; {fetched}put "
        f"{' and '.join(weights.remedy(names) for weights, names in lacking.items())}{also}"
    )


def first_sentence(error: Exception) -> str:
    """The first sentence of an error of a library, without its advice."""
    first = re.split(r"[.:]?\s*\n|\.\s|\.$", str(error).strip(), maxsplit=1)[0]
    return first or type(error).__name__


def commit(path: Path) -> str | None:
    """The commit that a file of the hub's cache belongs to; None for a file elsewhere."""
    parts = path.parts
    place = parts.index("snapshots") + 1 if "snapshots" in parts else len(parts)
    found = parts[place] if place < len(parts) else ""
    return found if re.fullmatch("[0-9a-f]{40}", found) else None


def _is_whole(path: Path) -> bool:
    """Whether a file ends where its parts do; of kinds that are not known, whether it holds any."""
    kind, size = path.suffix, path.stat().st_size
    with open(path, "rb") as stream, contextlib.suppress(*_NOT_JSON):
        if kind == ".safetensors":
            length = int.from_bytes(stream.read(8), "little")
            if length > min(size, MOST_HASHED):
                return False
            header = json.loads(stream.read(length))
            ends = [own["data_offsets"][1] for name, own in header.items() if name[:2] != "__"]
            return bool(size == 8 + length + max(ends))
        return _is_whole_model(stream, size) if kind == ".onnx" else size > 0
    return False


def _is_whole_model(stream: IO[bytes], size: int) -> bool:
    """Whether the fields of an ONNX file, a protocol buffer, end with it, and one is the graph."""

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
        if kind == 2:
            stream.seek(length, os.SEEK_CUR)
        graph = graph or field == 7
    return graph and stream.tell() == size


def sha256(path: Path) -> str:
    """Of a file; cached as long as its size and modification time stay the same."""
    state = path.stat()
    key = str(path.resolve())
    stamp = [state.st_size, state.st_mtime_ns]
    memory = cache_folder() / "hashes.json"
    with contextlib.suppress(OSError, *_NOT_JSON):
        known = json.loads(memory.read_text(encoding="utf-8"))[key]
        if known[:2] == stamp:
            return str(known[2])
    with open(path, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    with contextlib.suppress(OSError, ValueError):  # a cache: without it we only hash again
        entries = {}
        with contextlib.suppress(OSError, *_NOT_JSON):
            entries = dict(json.loads(memory.read_text(encoding="utf-8")))
        write_text(memory, json.dumps({**entries, key: [*stamp, found]}))
    return found
