"""Model files: found, fetched, and checked against the hashes that are known.

Looked for in $DEJACUE_WEIGHTS/<repository>/<file>, then in the hub's cache, then on the hub.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dejacue.errors import InputError, MissingData
from dejacue.sources.npz import write_text

FOLDER = "DEJACUE_WEIGHTS"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Weights:
    """Files of a repository at a revision, each with its sha256 where it is known."""

    repository: str
    revision: str
    files: Mapping[str, str | None]

    def fetch(self) -> dict[str, Path]:
        """Where each file is; downloads what is missing, with the hub's progress bars."""
        own = self._own_folder()
        found = {name: own / name if own else self._from_hub(name) for name in self.files}
        for name, path in found.items():
            if not path.is_file():
                raise self._missing(f"{path} is not there")
            expected = self.files[name]
            if expected is not None and sha256(path) != expected:
                raise InputError(
                    f"{path}: is not the published file (its sha256 differs); delete it and "
                    f"get {name} of {self.repository} at revision {self.revision} again"
                )
        return found

    def _own_folder(self) -> Path | None:
        given = os.environ.get(FOLDER)
        if not given:
            return None
        folder = Path(given).expanduser() / self.repository
        return folder if folder.is_dir() else None

    def _from_hub(self, name: str) -> Path:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

        # it tells of every retry; we tell how it ended
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        try:  # what is in the cache needs no connection
            return Path(
                hf_hub_download(
                    self.repository, name, revision=self.revision, local_files_only=True
                )
            )
        except (LocalEntryNotFoundError, OSError, ValueError):
            pass
        try:
            return Path(hf_hub_download(self.repository, name, revision=self.revision))
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self._missing(f"{name} could not be downloaded ({reason})") from None

    def _missing(self, reason: str) -> MissingData:
        folder = os.environ.get(FOLDER) or "FOLDER"
        also = "" if os.environ.get(FOLDER) else f" and set {FOLDER} to that FOLDER"
        return MissingData(
            f"{self.repository}: {reason}; with a connection it is fetched once, without one put "
            f"{', '.join(self.files)} (revision {self.revision}) into "
            f"{folder}/{self.repository}{also}"
        )


def sha256(path: Path) -> str:
    """Of a file; remembered for as long as its size and time of change stay the same."""
    state = path.stat()
    key = str(path.resolve())
    stamp = [state.st_size, state.st_mtime_ns]
    memory = _memory()
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        known = json.loads(memory.read_text(encoding="utf-8"))[key]
        if known[:2] == stamp:
            return str(known[2])
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    found = digest.hexdigest()
    with contextlib.suppress(OSError, ValueError):  # a cache: without it we only hash again
        entries = {}
        with contextlib.suppress(OSError, ValueError):
            entries = json.loads(memory.read_text(encoding="utf-8"))
        write_text(memory, json.dumps({**entries, key: [*stamp, found]}))
    return found


def _memory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "dejacue" / "hashes.json"
