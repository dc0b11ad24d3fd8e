"""How long stages say how far they are, and how they are stopped.

A stage calls ``progress(stage, done, total, note)`` as it goes: ``done`` of ``total`` (None where
it is not known) and a short note, such as a rate. The command line draws it with rich, a notebook
with its own bar, a server sends it to its page. Whoever wants the stage to stop raises
``Cancelled`` in that call (Ctrl-C does the same); the stage keeps what can be kept and raises
``Cancelled`` with a sentence that says so.
"""

from __future__ import annotations

from typing import Protocol

from dejacue.errors import Cancelled

__all__ = ["Cancelled", "Progress", "silent"]


class Progress(Protocol):
    """Called with the name of the stage, how many are done, of how many, and a short note."""

    def __call__(
        self, stage: str, done: int, total: int | None = None, note: str = ""
    ) -> object: ...


def silent(stage: str, done: int, total: int | None = None, note: str = "") -> None:
    """Progress that nobody looks at."""
