"""Errors of requests, beside those of the library, and the HTTP status of each."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dejacue.errors import DejaCueError, InputError, MissingData, MissingExtra

NEW = "new"  # the revision of what does not exist


class NotThere(InputError):
    """Nothing of this name is in the workspace."""

    status = 404


class Conflict(InputError):
    """The request contradicts what is already there."""

    status = 409


class Changed(Conflict):
    """Somebody else has written it since; revision: the current one."""

    def __init__(self, problem: str, revision: str) -> None:
        super().__init__(problem)
        self.revision = revision


def revision_of(*files: Path) -> str:
    """Return a text that changes when one of the files does; "new" where one is missing."""
    try:
        content = b"".join(file.read_bytes() for file in files)
    except OSError:
        return NEW
    return hashlib.sha256(content).hexdigest()[:16]


def check_revision(loaded: str | None, current: str, what: str) -> None:
    """Refuse to write over what somebody else has written.

    loaded   the revision that the writer has seen; "new": nothing may be there; None: whatever is
             there is replaced
    """
    if loaded is None or loaded == current:
        return
    if loaded == NEW:
        raise Changed(f'"{what}" already exists; replace it, or give another name', current)
    problem = f'"{what}" was changed elsewhere, perhaps in another tab; reload it'
    raise Changed(problem, current)


def status_of(error: DejaCueError) -> int:
    missing = isinstance(error, MissingExtra | MissingData)
    return int(getattr(error, "status", 503 if missing else 400))
