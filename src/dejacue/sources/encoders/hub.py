"""The folder that holds a model of the hub, fetched where it is not on this machine.

A model that is named by its user has no known hashes: its identity is made of those of its weights.
Looked for as a folder, in $DEJACUE_WEIGHTS/<name>, in the hub's cache, then on the hub. Libraries
then read that folder, so that there is one place where a connection can fail, and one sentence.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dejacue.errors import MissingData
from dejacue.sources.encoders._files import commit, sha256
from dejacue.sources.encoders.weights import FOLDER, first_sentence, no_connection

SMALL = ("*.json", "*.txt", "*.model")  # configurations and tokenizers
TRANSFORMERS = (
    "model.safetensors",
    "model-*-of-*.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
)
TIMM = ("model.safetensors", "pytorch_model.bin")
OPEN_CLIP = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "open_clip_pytorch_model.pth",
)


@dataclass(frozen=True)
class Model:
    """A folder, the files in it that are the weights, and what to call it."""

    name: str
    folder: Path
    weights: tuple[Path, ...]

    @property
    def identity(self) -> str:
        """Name and hash of the weights, the same wherever they lie."""
        hashes = "".join(sha256(path) for path in self.weights)
        return f"{self.name}@{hashlib.sha256(hashes.encode()).hexdigest()[:12]}"

    @property
    def details(self) -> dict[str, str]:
        """What is recorded: that nothing was checked, the hashes, the commit if it is known."""
        found = {f"sha256 {path.name}": sha256(path) for path in self.weights}
        return {"unpinned": commit(self.folder) or "unknown commit", **found}


def find_model(
    name: str, called: str, weights: Sequence[str], *, revision: str | None = None
) -> Model:
    """Where a model is.

    name      a folder, or a repository of the hub
    called    what its user calls it
    weights   patterns of the files that may be its weights, the best first
    """
    given = os.environ.get(FOLDER)
    own = Path(given).expanduser() / name if given else None
    for folder in (Path(name).expanduser(), own):
        if folder is not None and folder.is_dir():
            files = chosen([path.name for path in folder.iterdir() if path.is_file()], weights)
            if not files:
                raise MissingData(
                    f"{folder}: holds no model weights ({', '.join(weights)}); download them "
                    f"with: hf download REPOSITORY --local-dir {folder}"
                )
            called_so = folder.resolve().name if folder is not own else name
            return Model(called_so, folder, tuple(folder / file for file in files))
    if "\\" in name or name.startswith((".", "~", "/")) or name.count("/") > 1:
        raise MissingData(f"{called}: the folder {name} does not exist")
    folder = _cached(name, revision, weights) or _fetched(name, called, revision, weights)
    files = chosen([path.name for path in folder.iterdir()], weights)
    return Model(name, folder, tuple(folder / file for file in files))


def chosen(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The files of the first pattern that there are any of, sorted."""
    every = sorted(names)
    for pattern in patterns:
        if found := fnmatch.filter(every, pattern):
            return found
    return []


def _cached(name: str, revision: str | None, weights: Sequence[str]) -> Path | None:
    """The snapshot in the hub's cache, if weights are in it."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (OSError, ValueError):  # not there, or not a name
        return None
    return folder if chosen([path.name for path in folder.iterdir()], weights) else None


def _fetched(name: str, called: str, revision: str | None, weights: Sequence[str]) -> Path:
    """Downloaded: its small files and one kind of weights, not all that there may be."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        if reason := no_connection():
            raise OSError(reason)
        found = HfApi().model_info(name, revision=revision, timeout=10)
        names = [one.rfilename for one in found.siblings or [] if "/" not in one.rfilename]
        wanted = chosen(names, weights)
        if not wanted:
            raise MissingData(f"{called}: has no weights on the Hub ({', '.join(weights)})")
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*SMALL, *wanted]))
    except GatedRepoError:
        raise MissingData(
            f"{called} is gated: accept its terms on its page on the Hub, then run: hf auth "
            f"login, and: hf download {name}"
        ) from None
    except RepositoryNotFoundError:
        raise MissingData(
            f"{called}: is not on the Hub, or needs a login (hf auth login); check the name"
        ) from None
    except MissingData:
        raise
    except Exception as error:  # the hub, its client and the cache raise their own kinds
        at = f" --revision {revision}" if revision else ""
        raise MissingData(
            f"{called} is not on this machine and could not be downloaded "
            f"({first_sentence(error)}); check the name, or on a machine with a connection run: "
            f"hf download {name}{at} --local-dir FOLDER/{name}, then set {FOLDER} to that FOLDER"
        ) from None
