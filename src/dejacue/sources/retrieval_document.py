"""A retrieval as JSON, declared once: what files of retrievals and findings hold."""

from __future__ import annotations

from typing import Any

import msgspec

from dejacue.errors import InputError, unknown
from dejacue.records import Alternative, Diagnostics, Moment, Retrieval, Window
from dejacue.sources.documents import Finite, FrameNumber, Name

LEVELS = ("description", "state")


class Span(msgspec.Struct):
    """A window and its score, as Alternative.to_dict gives it; a missing score is 0."""

    start: FrameNumber
    end: FrameNumber
    score: Finite = 0.0
    start_s: Finite | None = None
    end_s: Finite | None = None
    source_start: FrameNumber | None = None
    source_end: FrameNumber | None = None

    def __post_init__(self) -> None:
        self.alternative()  # msgspec says in which row it fails

    def alternative(self) -> Alternative:
        times, source = _pair(self, "start_s", "end_s"), _pair(self, "source_start", "source_end")
        return Alternative(
            Window(self.start, self.end), self.score, times, source and Window(*source)
        )


class MomentDocument(Span, kw_only=True):
    """As Moment.to_dict gives it."""

    state: Name
    description: Name
    level: str = LEVELS[0]
    p_value: Finite | None = None
    absent: bool = False
    alternatives: list[Span] = []
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        self.moment()  # msgspec says in which moment it fails

    def moment(self) -> Moment:
        if self.level not in LEVELS:
            raise unknown("level", self.level, LEVELS)
        own = self.alternative()
        return Moment(
            self.state,
            self.description,
            own.window,
            self.score,
            self.level,
            own.times_s,
            tuple(other.alternative() for other in self.alternatives),
            self.diagnostics,
            own.source,
            self.p_value,
            self.absent,
        )


def _pair(row: Span, *keys: str) -> tuple[Any, Any] | None:
    first, last = (getattr(row, key) for key in keys)
    if (first is None) != (last is None):
        raise InputError(f"has only one of {' and '.join(keys)}; give both or neither")
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
