"""A retrieval as JSON, declared once: what files of retrievals and findings hold."""

from __future__ import annotations

from typing import Any

import msgspec

from dejacue.errors import InputError, unknown
from dejacue.records import Diagnostics, Moment, Retrieval, Window
from dejacue.sources.documents import Finite, FrameNumber, Name

LEVELS = ("description", "state")


class Span(msgspec.Struct):
    """A window and its score; a missing one is 0."""

    start: FrameNumber
    end: FrameNumber
    score: Finite = 0.0

    def __post_init__(self) -> None:
        Window(self.start, self.end)

    @property
    def window(self) -> Window:
        return Window(self.start, self.end)


class MomentDocument(Span, kw_only=True):
    """As Moment.to_dict gives it."""

    state: Name
    description: Name
    level: str = LEVELS[0]
    start_s: Finite | None = None
    end_s: Finite | None = None
    source_start: FrameNumber | None = None
    source_end: FrameNumber | None = None
    p_value: Finite | None = None
    absent: bool = False
    alternatives: list[Span] = []
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        self.moment()  # msgspec says in which moment it fails

    def moment(self) -> Moment:
        if self.level not in LEVELS:
            raise unknown("level", self.level, LEVELS)
        source = _pair(self, "source_start", "source_end")
        return Moment(
            self.state, self.description, self.window, self.score, self.level,
            _pair(self, "start_s", "end_s"),
            tuple((other.window, other.score) for other in self.alternatives),
            self.diagnostics, source and Window(*source), self.p_value, self.absent,
        )  # fmt: skip


def _pair(row: MomentDocument, *keys: str) -> tuple[Any, Any] | None:
    first, last = (getattr(row, key) for key in keys)
    if (first is None) != (last is None):
        raise InputError(f"has only one of {' and '.join(keys)}; give both, or neither")
    return None if first is None else (first, last)


class RetrievalDocument(msgspec.Struct):
    """As Retrieval.to_dict gives it."""

    history: Name
    moments: list[MomentDocument]
    settings: dict[str, Any] = {}
    encoder: str | None = None
    notes: tuple[str, ...] = ()

    def retrieval(self) -> Retrieval:
        moments = tuple(own.moment() for own in self.moments)
        return Retrieval(moments, self.settings, self.history, self.encoder, self.notes)
