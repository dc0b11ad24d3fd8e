"""Files that appear whole or not at all: a temporary name first, then a rename.

Every file that dejacue writes goes through here, so that a full disk, a place that may not be
written to, or Ctrl-C leaves no half-written output, and the error names the file asked for.

A temporary file is always a new one: nothing that lies at its name is opened to be written. Where a
process was killed, ``.NAME.dejacue-tmp`` stays beside NAME. Whoever writes holds a lock on it,
which ends with the process, so the next one to write NAME sees that nobody does any more and
removes it. Where it is locked, or locks are not known (Windows, some network drives), a random name
is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO

from dejacue.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TEMPORARY = ".dejacue-tmp"
MAX_NAME_BYTES = 255
_PLACE_ERRORS = (
    PermissionError,
    FileNotFoundError,
    FileExistsError,
    NotADirectoryError,
    IsADirectoryError,
)
_PLACE_CODES = (errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> Path:
    """Let ``write`` fill a temporary file, then rename it: readers never see half a file."""
    target = resolved(path)  # through links, so that they stay
    absolute = os.path.abspath(path)  # /dev/stdout leads to whatever file the screen was sent to
    special = os.path.dirname(absolute) in ("/dev", "/dev/fd") or absolute.startswith("/proc/")
    if special or (os.path.exists(target) and not os.path.isfile(target)):
        raise InputError(f"{path}: is a folder or a device, not a file; give another name")
    temporary, lock, new_folders = None, None, missing_folders(target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stream, lock = _open_temporary(target)
        temporary = stream.name
        with stream:
            write(stream)
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        remove_empty(new_folders)
        if isinstance(error, OSError):  # name the file that was asked for, not the temporary one
            raise unwritten(error, path, created=temporary is not None) from None
        raise
    finally:
        if lock is not None:
            os.close(lock)
    return Path(path)


@contextlib.contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``target``, to make things in that are renamed then; remove it
    in the end, and the one that a killed process has left."""
    with left_folder(target):
        pass
    new_folders = missing_folders(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = _usual_name(target)
    try:
        folder.mkdir()
        lock = None if fcntl is None else _locked(os.open(folder, os.O_RDONLY), folder)
    except (FileExistsError, FileNotFoundError, BlockingIOError):
        # that of a process that is alive, or that has just taken ours for one that was left
        folder = _unique_name(target)
        folder.mkdir()
        lock = lock_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
        remove_empty(new_folders)


def missing_folders(folder: Path) -> list[Path]:
    """Return a folder and those above it that are not there, the lowest first."""
    return list(takewhile(lambda place: not os.path.exists(place), (folder, *folder.parents)))


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for a file which then could not be written."""
    with contextlib.suppress(OSError):  # something lies there by now
        for folder in folders:
            folder.rmdir()


@contextlib.contextmanager
def left_folder(target: Path) -> Iterator[Path | None]:
    """Yield the temporary folder that a killed process has left beside ``target``, or None; remove
    it in the end."""
    folder = _usual_name(target)
    lock = lock_folder(folder) if folder.is_dir() and not folder.is_symlink() else None
    if lock is None:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_left_file(target: Path) -> None:
    """Remove the temporary file that a killed process has left beside ``target``."""
    usual = _usual_name(target)
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.lstat(usual).st_mode):  # to open a pipe would wait for its other end
            lock = _locked(os.open(usual, os.O_RDONLY | os.O_NOFOLLOW), usual)
            if lock is not None:
                usual.unlink()
                os.close(lock)


def knows_locks() -> bool:
    return fcntl is not None


def is_temporary(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(TEMPORARY)


def _usual_name(target: Path) -> Path:
    return target.with_name(f".{target.name}{TEMPORARY}")


def _unique_name(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}{TEMPORARY}")


def _open_temporary(target: Path) -> tuple[IO[bytes], int | None]:
    """Return a new file, and its lock, which outlives it: the rename comes after the close."""
    remove_left_file(target)
    usual = _usual_name(target)
    with contextlib.suppress(FileExistsError):  # that of a process that is alive, or not ours
        stream = open(usual, "xb")  # noqa: SIM115 (the caller closes it)
        try:
            return stream, _locked(os.dup(stream.fileno()), usual)
        except BlockingIOError:  # another process has just taken it for one that was left
            stream.close()
    return open(_unique_name(target), "xb"), None


def lock_folder(path: str | os.PathLike[str]) -> int | None:
    """Return a handle that holds the lock until it is closed; None: another process has it, or this
    system knows no locks."""
    with contextlib.suppress(OSError):
        return _locked(os.open(path, os.O_RDONLY), path)
    return None


def _locked(handle: int, path: str | os.PathLike[str]) -> int | None:
    """Lock the handle of what lies at ``path`` and return it: the lock ends with the handle. Close
    it and return None where locks are not known; raise BlockingIOError where another process has
    the lock, or has moved the file away."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(path))
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        pass
    os.close(handle)
    return None


def unwritten(error: OSError, path: str | os.PathLike[str], created: bool = False) -> Exception:
    """Return what to raise instead of an error in writing a file, so that it names the file: the
    place is wrong or, where the file was ``created`` and in all other cases, the disk is (full)."""
    wrong_place = isinstance(error, _PLACE_ERRORS) or error.errno in _PLACE_CODES
    if created or not wrong_place:
        return type(error)(error.errno, error.strerror, os.fspath(path))
    try:
        check_place(path)
    except InputError as reason:
        return reason
    return _wrong_place(path, f"cannot be created ({error.strerror})")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can have: with NUL, or with half of a character."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        problem = "is not a path: it holds NUL or half of a character"
        raise InputError(f"{path}: {problem}; give another name")


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads, through links; refuse links that lead back to themselves."""
    check_name(path)
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: is a link that leads back to itself; remove it") from None
    return Path(path).resolve()


def check_place(path: str | os.PathLike[str], folder: bool = False) -> None:
    """Refuse, before the work, a file (or folder) that could not be made: what lies above it is no
    folder, or may not be written to."""
    absolute = place = os.path.abspath(path)
    if absolute.startswith(("/proc/", "/sys/")):
        raise _wrong_place(path, "no file can be created there")
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in resolved(path).parts):
        raise _wrong_place(path, "cannot be created (File name too long)")
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if place == absolute and not folder:
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        what = "" if place == absolute else f"{place} "
        raise _wrong_place(path, f"{what}is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise _wrong_place(path, f"{place} is not writable")


def _wrong_place(path: str | os.PathLike[str], problem: str) -> InputError:
    return InputError(f"{path}: {problem}; give another place")


def cache_folder() -> Path:
    """Return the folder for what was fetched or computed once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dejacue"


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    return write_whole(path, lambda stream: stream.write(data))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    return write_bytes(path, text.encode("utf-8"))
