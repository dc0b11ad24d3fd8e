"""A model that is named by its user: a folder, or any repository of the hub.

No hash of it is known before, so its identity is made of the hashes of its files.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dejacue.errors import MissingData
from dejacue.models.weights import FOLDER, ask_hub, commit, first_sentence, sha256, user_folder

SMALL_FILES = ("*.json", "*.txt", "*.model")  # configurations and tokenizers


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
    of_user = user_folder(name)
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
    """Return the files that match the first pattern that any file matches, sorted."""
    matches = ([p for p in folder.glob(pattern) if p.is_file()] for pattern in patterns)
    return tuple(sorted(next(filter(None, matches), [])))


def _snapshot(name: str, called: str, weights: Sequence[str], revision: str | None) -> Path:
    """Return the folder in the hub's cache; where no weights are in it, download the small files
    and one kind of weights, not all that there may be."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    files = partial(snapshot_download, name, revision=revision, ignore_patterns="*/*")
    with contextlib.suppress(OSError, ValueError):  # not there, or not a name
        if _chosen(folder := Path(files(local_files_only=True)), weights):
            return folder
    try:
        ask_hub(name, revision)
        for pattern in weights:
            if _chosen(folder := Path(files(allow_patterns=[*SMALL_FILES, pattern])), weights):
                return folder
        problem = f": has no weights on the Hub ({', '.join(weights)})"
    except GatedRepoError:
        login = f"hf auth login, and: hf download {name}"
        problem = f" is gated: accept its terms on its page on the Hub, then run: {login}"
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
