"""Preliminary answers: what find knows while a video is still being read and looked at."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from dejacue.errors import InputError
from dejacue.progress import Progress
from dejacue.records import History, Timeline

EVERY_S = 1.0
MAX_SHARE = 0.1  # of the time, for reading preliminary answers


@runtime_checkable
class TakesAnswers(Protocol):
    """A progress function that also takes preliminary answers."""

    def answer(self, timeline: Timeline) -> object: ...


class PreliminaryAnswers:
    """Gives the answer so far to a progress function that takes answers, about once a second.

    read    returns the answer of a history
    clock   of which the seconds are counted
    """

    def __init__(
        self,
        progress: Progress,
        read: Callable[[History], Timeline],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress, self._read, self._clock = progress, read, clock
        self._next_s = clock() + EVERY_S
        self._histories: dict[str, History] = {}
        self._so_far: Callable[[], Mapping[str, History]] | None = None

    def see(self, so_far: Callable[[], Mapping[str, History]]) -> None:
        """Take note that more is encoded; ``so_far`` returns the histories of that."""
        self._so_far = so_far
        self._tell(so_far)

    def show(self, history: History) -> None:
        """Take a history of which the encoder saw a part."""
        self._histories[history.id] = history
        self._tell(lambda: {history.id: history})

    @property
    def histories(self) -> dict[str, History]:
        """Return the histories of all that is known now."""
        return {**({} if self._so_far is None else self._so_far()), **self._histories}

    def _tell(self, histories: Callable[[], Mapping[str, History]]) -> None:
        """Give the answers, if the last ones were given a while ago."""
        began = self._clock()
        if not isinstance(self._progress, TakesAnswers) or began < self._next_s:
            return
        for history in histories().values():
            with contextlib.suppress(InputError):  # too short, or a frame that was named is to come
                self._progress.answer(self._read(history))
        now = self._clock()
        self._next_s = now + max(EVERY_S, (now - began) / MAX_SHARE)
