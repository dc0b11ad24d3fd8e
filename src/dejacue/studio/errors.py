"""What can go wrong with a request, beside what can go wrong in the library."""

from __future__ import annotations

from dejacue.errors import DejaCueError, InputError, MissingData, MissingExtra


class NotThere(InputError):
    """Nothing of this name is in the workspace."""

    status = 404


class NotAllowed(DejaCueError):
    """It is there, but not for whoever asks."""

    status = 403


class Conflict(InputError):
    """It does not go with what is there."""

    status = 409


def status_of(error: DejaCueError) -> int:
    missing = isinstance(error, MissingExtra | MissingData)
    return int(getattr(error, "status", 503 if missing else 400))
