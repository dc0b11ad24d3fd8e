"""Files that lie elsewhere (s3://…, gs://…, memory://…): fetched to this machine, or put there.

Through fsspec, where it is installed; everything else works with local files only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dejacue.errors import InputError, MissingExtra, extra, first_line, need

REMEDY = extra("remote")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_ARCHIVE = re.compile(r"^(zip|tar)://[^:]*::")
# what tells, in the listing of a file, that it is another one now; the first that is there counts
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")


def is_remote(path: str | os.PathLike[str]) -> bool:
    return _URL.match(os.fspath(path)) is not None


def is_below(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder; both may be URLs. Of an archive (``zip://m::URL``)
    the place of the archive counts."""
    path = _ARCHIVE.sub("", path)
    if not is_remote(path) and not is_remote(folder):
        return Path(path).resolve().is_relative_to(Path(folder).resolve())
    steps = re.split(r"[/\\\\]", unquote(path))
    return path.startswith(f"{folder.rstrip('/')}/") and ".." not in steps and "::" not in path


def check(url: str) -> None:
    """Refuse, before the work, an address of a kind that is not known here."""
    with _file_system(url):
        pass


def is_there(url: str) -> bool:
    with _file_system(url) as (system, path):
        return bool(system.exists(path))


@contextlib.contextmanager
def local_copy(path: str) -> Iterator[str]:
    """Yield a path on this machine; what a URL leads to is fetched as long as the block runs."""
    if not is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="dejacue-") as folder:
        yield _fetched(path, Path(folder))


def _fetched(url: str, folder: Path) -> str:
    """Fetch a file or a folder of files under its name. Its time is made of what the other side
    says of it: a file that was not changed there is the same one here, however often fetched."""
    with _file_system(url) as (system, path):
        root = path.rstrip("/")
        target = folder / (root.rpartition("/")[2] or "fetched")
        files = [
            (name, info, target / name.removeprefix(root).lstrip("/") if name != root else target)
            for name, info in _files(system, url, path)
        ]
        for name, _, place in files:  # before anything is written
            if not Path(os.path.normpath(place)).is_relative_to(target) or target.name == "..":
                remedy = "do not use what comes from there, or remove this file there"
                raise InputError(f'{url}: "{name}" would be written outside its folder; {remedy}')
        for name, info, place in files:
            place.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(name, str(place))
            seconds = _stamp(info)
            os.utime(place, (seconds, seconds))
    return str(target)


def listing(url: str) -> list[tuple[str, int | None, int]]:
    """Return name, size and stamp of what lies there: the same as long as it is not changed."""
    with _file_system(url) as (system, path):
        return [(name, info.get("size"), _stamp(info)) for name, info in _files(system, url, path)]


def _files(system: Any, url: str, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return a file, or all files of a folder, as the other side describes them."""
    if not system.exists(path):
        raise InputError(f"{url}: no such file or folder; check the URL")
    if system.isdir(path):
        return sorted(system.find(path, detail=True).items())
    return [(path.rstrip("/"), system.info(path))]


def _stamp(info: Mapping[str, Any]) -> int:
    stamp = next((info[key] for key in _STAMPS if info.get(key) is not None), None)
    return int.from_bytes(hashlib.sha256(repr(stamp).encode()).digest()[:4], "big")


def put(here: Path, url: str) -> None:
    """Put a file, or all files of a folder, to a URL."""
    with _file_system(url) as (system, path):
        root = path.rstrip("/")
        for file in sorted(here.rglob("*")) if here.is_dir() else [here]:
            if file.is_file():
                target = root if file == here else f"{root}/{file.relative_to(here).as_posix()}"
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
                system.put_file(str(file), target)


@contextlib.contextmanager
def _file_system(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system that a URL leads to, and the path there; turn an error inside the block
    into one of ours, since every file system has its own kinds."""
    try:
        fsspec = need("fsspec", f"{url} is not on this machine: {REMEDY}")
        yield fsspec.core.url_to_fs(url)
    except (InputError, MissingExtra, MemoryError):
        raise
    except ImportError as error:
        raise MissingExtra(f"{url}: {first_line(error)}") from None
    except Exception as error:
        raise InputError(f"{url}: cannot be reached ({first_line(error)})") from None
