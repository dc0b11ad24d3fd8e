"""Files that appear whole or not at all: a temporary name first, then a rename.

Every file that dejacue writes goes through here, so that a full disk, a place that may not be
written to, or Ctrl-C leaves no half-written output, and the error names the file asked for.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from dejacue.errors import InputError

_COUNTER = itertools.count()
_WRONG_PLACE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR,
    errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP,
)  # fmt: skip


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> Path:
    """Let ``write`` fill a temporary file, then rename it: readers never see half a file."""
    target = Path(path).resolve()  # through links, so that they stay
    asked = os.path.abspath(path)  # /dev/stdout leads to whatever file the screen was sent to
    special = os.path.dirname(asked) in ("/dev", "/dev/fd") or asked.startswith("/proc/")
    if special or (os.path.exists(target) and not os.path.isfile(target)):
        raise InputError(f"{path}: is a folder or a device, not a file that can be replaced")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{next(_COUNTER)}")
    made = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as stream:
            made = True
            write(stream)
        os.replace(temporary, target)
    except BaseException as error:
        if made:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if isinstance(error, OSError):  # name the file that was asked for, not the temporary one
            raise unwritten(error, path, made) from None
        raise
    return Path(path)


def unwritten(error: OSError, path: str | os.PathLike[str], made: bool = False) -> Exception:
    """What to raise instead of an error in writing a file, so that it names the file: the place
    is wrong, or, where the file was ``made`` and in all other cases, the disk is (full)."""
    if made or error.errno not in _WRONG_PLACE:
        return type(error)(error.errno, error.strerror, os.fspath(path))
    try:
        check_place(path)
    except InputError as reason:
        return reason
    return InputError(f"{path}: cannot be made there ({error.strerror}); give another place")


def check_place(path: str | os.PathLike[str], folder: bool = False) -> None:
    """Refuses, before the work, a file (or folder) that could not be made: what lies above it is
    no folder, or may not be written to."""
    asked = place = os.path.abspath(path)
    if asked.startswith(("/proc/", "/sys/")):
        raise InputError(f"{path}: no file can be made there; give another place")
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if place == asked and not folder:
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        what = "" if place == asked else f"{place} "
        raise InputError(f"{path}: {what}is a file, not a folder; give another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"{path}: {place} may not be written to; give another place")


def cache_folder() -> Path:
    """Where what was fetched or computed once is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dejacue"


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    return write_whole(path, lambda stream: stream.write(data))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))
