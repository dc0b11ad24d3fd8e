"""Errors, phrased for the user.

DejaCueError
 ├─ InputError        what was given cannot be used; the message says where and what to do
 ├─ MissingExtra      an optional package is needed; the message names the extra
 ├─ MissingData       a file that has to be fetched or pointed at is not there
 └─ Cancelled         the user stopped it; the message says what is kept
"""

from __future__ import annotations

import difflib
import functools
import importlib
import json
import os
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

__all__ = ["Cancelled", "DejaCueError", "InputError", "MissingData", "MissingExtra"]

StrPath = str | os.PathLike[str]
MAX_LETTERS = 600  # of a message
MAX_QUOTED = 80  # of them, of one thing that was given
MAX_COMPARED = 1000  # names, to suggest the nearest
_QUOTED = re.compile(r'"([^"]*)"')


class DejaCueError(Exception):
    """Base of every error that dejacue raises on purpose; its message is one line:
    "FILE: line 3: what is wrong; what to do".

    >>> raise DejaCueError("cup.mp4: holds no video stream; give a video file")
    Traceback (most recent call last):
    dejacue.errors.DejaCueError: cup.mp4: holds no video stream; give a video file
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(DejaCueError, ValueError):
    """The input cannot be used as it is; it is a ValueError, too.

    >>> import dejacue
    >>> try:
    ...     dejacue.open_video("kitchen.mp4")
    ... except InputError as error:
    ...     print(error)
    kitchen.mp4: no such file or folder; check the path
    """


class SeveralProblems(InputError):
    """A file or folder cannot be used, for the reasons in ``problems``, a sentence each.

    complete   whether these are all; reading may have stopped after many
    """

    def __init__(self, file: StrPath, problems: Iterable[str], complete: bool = True) -> None:
        self.problems = tuple(problems)
        least = "" if complete else "at least "
        further = f" (and {least}{counted(len(self.problems) - 1, 'more problem')})"
        first = shortened(self.problems[0], 400)
        super().__init__(f"{file}: {first}{further if len(self.problems) > 1 else ''}")

    def __reduce__(self) -> Any:
        return InputError, (str(self),)


class MissingExtra(DejaCueError, ImportError):
    """An optional dependency is not installed."""


class MissingData(DejaCueError, FileNotFoundError):
    """Data that the task needs is not on this machine."""


class Cancelled(DejaCueError):
    """The user stopped it; the message says what is kept."""


class named:
    """Prepend the name of a thing, or of a place in a file, to an error raised inside."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, DejaCueError) and not str(error).startswith(self.name):
            error.args = (one_line(f"{self.name}: {error}"),)


def in_file(file: StrPath, line: int | None = None) -> named:
    """Prepend the name of a file, and a line in it, to an error raised inside."""
    return named(os.fspath(file) if line is None else f"{os.fspath(file)}: line {line}")


def shortened(text: str, most: int = MAX_QUOTED) -> str:
    """Return the text, or its beginning: what was given may be of any length."""
    return text if len(text) <= most else f"{text[:most]}…"


def brief(value: object, most: int = MAX_QUOTED // 2) -> str:
    """Return a value for a sentence; Python writes no number of thousands of digits."""
    try:
        return shortened(str(value), most)
    except ValueError:
        return "of thousands of digits"


def one_line(message: str) -> str:
    """Return the message on one line, not longer than can be read.

    Names in quotes are cut first, then the middle: the file is at the start, the remedy at the end.
    """
    line = " ".join(message.splitlines())
    if len(line) <= MAX_LETTERS:
        return line
    line = _QUOTED.sub(lambda match: f'"{shortened(match[1])}"', line)
    if len(line) <= MAX_LETTERS:
        return line
    return f"{line[: MAX_LETTERS - 200]} … {line[-180:]}"


def first_line(error: BaseException) -> str:
    """Return what the error of a library says, without its advice."""
    lines = str(error).splitlines()
    return shortened(lines[0], 2 * MAX_QUOTED) if lines else type(error).__name__


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error means that memory or threads ran out; libraries differ in how."""
    phrases = ("can't start new thread", "failed to map segment", "annot allocate", "bad_alloc")
    return isinstance(error, MemoryError) or any(phrase in str(error) for phrase in phrases)


def counted(number: int, word: str) -> str:
    """Return "1 frame", "2 frames" or "2 histories"."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number} {word if number == 1 else plural}"


def unknown(kind: str, value: object, known: Iterable[str]) -> InputError:
    """Return the error for an unknown name: it suggests the nearest one and lists them all."""
    names, text = list(known), brief(value, MAX_QUOTED)
    short = [name for name in names[:MAX_COMPARED] if len(name) <= MAX_QUOTED]
    near = difflib.get_close_matches(text, short, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"? ' if near else ""
    listed = ", ".join(names)
    return InputError(f'unknown {kind} "{text}"; {hint}known: {listed}')


@functools.cache
def extra(name: str, package: str = "dejacue") -> str:
    """Return the command that installs an extra from where the package came: an index, or the
    folder or file that pip notes in direct_url.json."""
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(metadata.distribution(package).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    place = urlsplit(origin.get("url", ""))
    if place.scheme != "file":
        return f"pip install '{package}[{name}]'"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url2pathname(place.path)}[{name}]'"


def need(module: str, remedy: str) -> ModuleType:
    """Import an optional module where it is used, or say how to get it."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError, RuntimeError) as error:
        if lacks_memory(error):
            raise
        problem = f"{module} is not installed"
        if not isinstance(error, ImportError):  # such as torchvision for CUDA, torch without
            problem = f"{module} is installed, but cannot be imported: {first_line(error)}"
            remedy = "install versions that fit each other"
        raise MissingExtra(f"{problem}; {remedy}") from error
