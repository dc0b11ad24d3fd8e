"""Model files: found, fetched, and checked against the hashes that are known.

Looked for in $DEJACUE_WEIGHTS/<repository>/<file>, then in the hub's cache, then on the hub.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dejacue.errors import InputError, MissingData
from dejacue.sources.encoders._download import download_large
from dejacue.sources.encoders._files import looks_whole, recorded, sha256

FOLDER = "DEJACUE_WEIGHTS"
PATIENCE_S = 1.2  # in which a hub answers


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
            return {name: self._from_hub(name, local_files_only=True) for name in self.files}
        return {name: folder / name if (folder / name).is_file() else None for name in self.files}

    def download(self, paths: dict[str, Path | None]) -> None:
        """Adds what is missing, unless the user has a folder for this repository."""
        lacking = [name for name, path in paths.items() if path is None]
        if lacking and self._user_folder() is None:
            if reason := no_connection():
                raise OSError(reason)
            for name in lacking:
                paths[name] = self._from_hub(name, local_files_only=False)

    def expected(self, name: str, path: Path) -> str | None:
        """The sha256 that a file must have: the published one or, where none is known here, the
        one that the hub gave with it."""
        return self.files[name] or recorded(path)

    def check(self, paths: Mapping[str, Path], *, hub: bool = False) -> None:
        """Refuses a file whose hash is not the published one or, with ``hub``, the hub's."""
        for name, path in paths.items():
            expected = self.expected(name, path) if hub else self.files[name]
            if expected is not None and sha256(path) != expected:
                raise InputError(
                    f"{path}: is not the published file (its sha256 differs); delete it and "
                    f"download {name} of {self.repository} at revision {self.revision} again"
                )

    def damaged(self) -> list[Path]:
        """Which of the files that are here are not whole, as far as a short look tells."""
        return [
            path
            for name, path in self.here().items()
            if path is not None and not looks_whole(path, self.expected(name, path))
        ]

    def renew(self) -> None:
        """Downloads what is missing or damaged: into the user's folder, where there is one, else
        into the hub's cache. A file is there whole or not at all, one that was stopped goes on."""
        given = os.environ.get(FOLDER)
        folder = Path(given).expanduser() / self.repository if given else None
        place = {} if folder is None else {"local_dir": folder}
        for name, path in self.here().items():
            whole = path is not None and looks_whole(path, self.expected(name, path))
            if whole:
                continue
            if reason := no_connection():
                raise OSError(reason)
            large = download_large(self.repository, name, self.revision, folder)
            again = {} if path is None or large else {"force_download": True}
            found = self._from_hub(name, local_files_only=False, **place, **again)
            assert found is not None
            self.check({name: found}, hub=True)

    def line(self, folder: str | None = None) -> str:
        """What gets the files on a machine with a connection, for $DEJACUE_WEIGHTS here."""
        place = f"{folder or os.environ.get(FOLDER) or 'FOLDER'}/{self.repository}"
        return shlex.join(
            [
                "hf",
                "download",
                self.repository,
                *self.files,
                "--revision",
                self.revision,
                "--local-dir",
                place,
            ]
        )

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

    def _from_hub(self, name: str, *, local_files_only: bool, **more: Any) -> Path | None:
        from huggingface_hub import hf_hub_download

        # it logs every retry; we report the outcome
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        try:
            return Path(
                hf_hub_download(
                    self.repository,
                    name,
                    revision=self.revision,
                    local_files_only=local_files_only,
                    **more,
                )
            )
        except (OSError, ValueError):  # a file that is not in the cache is an OSError too
            if not local_files_only:
                raise
            return None


def fetch(*wanted: Weights) -> list[dict[str, Path]]:
    """Where the files of each are, in the order given; one sentence names all that are missing."""
    found = [weights.here() for weights in wanted]
    reason = ""
    try:  # stop at the first failure: the others would fail too, slowly
        for weights, paths in zip(wanted, found, strict=True):
            weights.download(paths)
    except Exception as error:  # the hub, its client and the cache raise their own kinds
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


def states(*wanted: Weights) -> tuple[str, list[Path]]:
    """absent, partial, damaged or ready, and what is damaged; by a short look."""
    paths = [path for weights in wanted for path in weights.here().values()]
    if not any(paths):
        return ("absent" if paths else "ready"), []
    damaged = [path for weights in wanted for path in weights.damaged()]
    if damaged:
        return "damaged", damaged
    return ("ready" if all(paths) else "partial"), []


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
    fetched = "with a connection they are downloaded once; without one, " if reason else ""
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
