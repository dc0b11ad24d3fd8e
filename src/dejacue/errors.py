"""What can go wrong, in the words of the person who has to mend it.

DejaCueError
 ├─ InputError        what was given cannot be used; the message says where and what to do
 ├─ MissingExtra      an optional package is needed; the message names the extra
 ├─ MissingData       a file that has to be fetched or pointed at is not there
 └─ Cancelled         the user stopped it; the message says what is kept
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class DejaCueError(Exception):
    """Base of every error that dejacue raises on purpose."""


class InputError(DejaCueError, ValueError):
    """The input cannot be used as it is."""


class MissingExtra(DejaCueError, ImportError):
    """An optional dependency is not installed."""


class MissingData(DejaCueError, FileNotFoundError):
    """Data that the task needs is not on this machine."""


class Cancelled(DejaCueError):
    """The user stopped it; the message says what is kept."""


def first_line(error: BaseException) -> str:
    """What the error of a library says, without its advice."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def lacks_memory(error: BaseException) -> bool:
    """Whether it says that memory, or room for a thread, is not there: each library has its way."""
    said = ("can't start new thread", "failed to map segment", "annot allocate memory", "bad_alloc")
    return isinstance(error, MemoryError) or any(words in str(error) for words in said)


def counted(number: int, word: str) -> str:
    """1 frame, 2 frames."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def unknown(kind: str, given: object, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist: suggests the nearest one and lists them all."""
    names = list(known)
    near = difflib.get_close_matches(str(given), names, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"? ' if near else ""
    return InputError(f'unknown {kind} "{given}"; {hint}known: {", ".join(names)}')


def need(module: str, remedy: str) -> ModuleType:
    """Import an optional module where it is used, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if lacks_memory(error):
            raise
        raise MissingExtra(f"{module} is not installed; {remedy}") from error
