"""How stages report their progress, and how they are stopped.

A stage calls ``progress(stage, done, total, note)`` as it goes: ``done`` of ``total`` (None where
it is not known) and a short note, such as a rate, or a doubtful ``Note`` on the last of them. The
command line draws it with rich, a notebook with its own bar, a server sends it to its page. To stop
the stage, raise ``Cancelled`` in that call (Ctrl-C does the same); the stage keeps what can be kept
and raises ``Cancelled`` with a sentence that says so.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any, Protocol

from dejacue.errors import Cancelled

__all__ = ["Cancelled", "NotebookBar", "Progress", "default_progress", "silent"]
REFRESH_S = 0.2


class Progress(Protocol):
    """A function of the name of the stage, how many are done, of how many, and a short note."""

    def __call__(
        self, stage: str, done: int, total: int | None = None, note: str = ""
    ) -> object: ...


def silent(stage: str, done: int, total: int | None = None, note: str = "") -> None:
    """Ignore the progress."""


def in_notebook() -> bool:
    """Return whether an IPython kernel runs."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


def default_progress() -> Progress:
    """Return a bar where an IPython kernel runs, else ``silent``."""
    return NotebookBar() if in_notebook() else silent


class NotebookBar:
    """Show the last stage as an HTML bar that is updated a few times a second."""

    def __init__(self) -> None:
        self._display: Any = None
        self._last = 0.0

    def __call__(self, stage: str, done: int, total: int | None = None, note: str = "") -> None:
        over = total is not None and done >= total
        if not over and time.monotonic() - self._last < REFRESH_S:
            return
        from IPython.display import HTML, display

        self._last = time.monotonic()
        share = "" if total is None else f' value="{done}" max="{max(total, done, 1)}"'
        count = f"{done}" if total is None else f"{done} of {total}"
        words = html.escape(" · ".join(text for text in (stage, count, note) if text))
        page = HTML(f"<progress{share}></progress> {words}")
        if self._display is None:
            self._display = display(page, display_id=True)
        else:
            self._display.update(page)
