"""Errors of requests, beside those of the library, and the HTTP status of each."""

from __future__ import annotations

from dejacue.errors import DejaCueError, InputError, MissingData, MissingExtra


class NotThere(InputError):
    """Nothing of this name is in the workspace."""

    status = 404


class NotAllowed(DejaCueError):
    """This session may not see or change it."""

    status = 403


class Conflict(InputError):
    """The request contradicts what is already there."""

    status = 409


def status_of(error: DejaCueError) -> int:
    missing = isinstance(error, MissingExtra | MissingData)
    return int(getattr(error, "status", 503 if missing else 400))
