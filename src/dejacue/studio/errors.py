"""What can go wrong with a request, beside what can go wrong in the library."""

from __future__ import annotations

from dejacue.errors import DejaCueError, InputError, MissingData, MissingExtra


class NotThere(InputError):
    """Nothing of this name is in the workspace."""


class NotAllowed(DejaCueError):
    """It is there, but not for whoever asks."""


class Conflict(InputError):
    """It does not go with what is there."""


class TooLarge(InputError):
    """More bytes than are taken."""


STATUS: dict[type[DejaCueError], int] = {
    NotThere: 404,
    NotAllowed: 403,
    Conflict: 409,
    TooLarge: 413,
    MissingExtra: 503,
    MissingData: 503,
    InputError: 400,
    DejaCueError: 400,
}


def status_of(error: DejaCueError) -> int:
    return next(code for kind, code in STATUS.items() if isinstance(error, kind))
