"""A timeline as JSON, declared once: what files of timelines and findings hold.

Earlier versions wrote retrievals (``dejacue.retrieval/1``): a window per description, also where
the readout had decided per state. Their ``end_s`` was the start of the last frame, which only the
history can repair, so they become timelines without seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec

from dejacue.errors import InputError, unknown
from dejacue.records import Diagnostics, Interval, Timeline
from dejacue.records.interval import KINDS, Kind
from dejacue.sources.documents import Finite, FrameNumber, Name

RETRIEVAL_SCHEMA = "dejacue.retrieval/1"
LEVELS = ("description", "state")
Rank = Annotated[int, msgspec.Meta(ge=1)]


class Span(msgspec.Struct):
    """Frames and their score; a missing score is 0."""

    start: FrameNumber
    end: FrameNumber
    score: Finite = 0.0
    start_s: Finite | None = None
    end_s: Finite | None = None
    source_start: FrameNumber | None = None
    source_end: FrameNumber | None = None

    def __post_init__(self) -> None:  # msgspec says in which row it fails
        Interval("", self.start, self.end)
        if (self.source_start is None) != (self.source_end is None):
            raise InputError("has only one of source_start and source_end; give both or neither")
        if self.source_start is not None and self.source_end is not None:
            Interval("", self.source_start, self.source_end)
        if self.start_s is None and self.end_s is not None:
            raise InputError("has end_s but no start_s; give both or neither")
        if self.start_s is not None and self.end_s is not None and self.end_s < self.start_s:
            raise InputError(f"ends at {self.end_s:g} s, before its start at {self.start_s:g} s")


class IntervalDocument(Span, kw_only=True):
    """The fields of an Interval, as its ``to_dict`` gives them."""

    state: Name
    description: Name | None = None
    rank: Rank = 1
    kind: str | None = None
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in (None, *KINDS):
            raise unknown("kind", self.kind, KINDS)

    def interval(self) -> Interval:
        fields: dict[str, Any] = {name: getattr(self, name) for name in _INTERVAL_FIELDS}
        if self.kind is None:
            fields["kind"] = "answer" if self.rank == 1 else "alternative"
        return Interval(**fields)


_INTERVAL_FIELDS = IntervalDocument.__struct_fields__


class TimelineDocument(msgspec.Struct):
    """A timeline as its ``to_dict`` gives it; without ``states``, they are those of intervals."""

    history: Name
    intervals: list[IntervalDocument]
    states: dict[Name, tuple[Name, ...]] | None = None
    settings: dict[str, Any] = {}
    encoder: str | None = None
    notes: tuple[str, ...] = ()

    def timeline(self) -> Timeline:
        states, intervals = intervals_of(Answer(row.interval()) for row in self.intervals)
        return Timeline.of(
            intervals,
            states if self.states is None else self.states,
            history_id=self.history,
            encoder=self.encoder,
            settings=self.settings,
            notes=self.notes,
        )


class MomentDocument(Span, kw_only=True):
    """What a retrieval said of one description."""

    state: Name
    description: Name
    level: str = LEVELS[0]
    absent: bool = False
    alternatives: list[Span] = []
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level)

    def answers(self, further: Kind) -> list[Answer]:
        """Return its window and its alternatives; ``further`` is the kind of the latter."""
        rows: list[Span] = [self, *self.alternatives]
        return [
            Answer(
                Interval(
                    self.state,
                    row.start,
                    row.end,
                    row.score,
                    rank=rank,
                    kind="answer" if rank == 1 else further,
                    description=self.description,
                    source_start=row.source_start,
                    source_end=row.source_end,
                    diagnostics=self.diagnostics if rank == 1 else None,
                ),
                self.level,
                self.absent,
            )
            for rank, row in enumerate(rows, start=1)
        ]


class RetrievalDocument(msgspec.Struct):
    """What earlier versions wrote instead of a timeline."""

    history: Name
    moments: list[MomentDocument]
    settings: dict[str, Any] = {}
    encoder: str | None = None
    notes: tuple[str, ...] = ()

    def timeline(self) -> Timeline:
        recurs = self.settings.get("further_windows") == "occurrences"
        further: Kind = "occurrence" if recurs else "alternative"
        states, intervals = intervals_of(
            [answer for moment in self.moments for answer in moment.answers(further)]
        )
        return Timeline.of(
            intervals,
            states,
            history_id=self.history,
            encoder=self.encoder,
            settings=self.settings,
            notes=self.notes,
        )


class Answer(NamedTuple):
    """A window of a description in a file of an earlier version, or of a state in a table."""

    interval: Interval
    level: str = LEVELS[0]
    absent: bool = False


def check_level(level: str) -> None:
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)


def intervals_of(answers: Iterable[Answer]) -> tuple[dict[str, tuple[str, ...]], list[Interval]]:
    """Return states and intervals: one answer for a state whose descriptions all share it."""
    groups: dict[str, dict[str | None, list[Answer]]] = {}
    for answer in answers:
        texts = groups.setdefault(answer.interval.state, {})
        texts.setdefault(answer.interval.description, []).append(answer)
    intervals: list[Interval] = []
    for texts in groups.values():
        first, *others = texts.values()
        shared = all(answer.level == "state" for answer in first)
        if shared and all(_same(first, other) for other in others):
            intervals += [replace(row, description=None) for row in _found(first)]
        else:
            intervals += [row for rows in texts.values() for row in _found(rows)]
    states = {
        state: tuple(text for text in texts if text is not None) for state, texts in groups.items()
    }
    return states, intervals


def _same(first: list[Answer], other: list[Answer]) -> bool:
    pairs = ([(row.interval.window, row.level) for row in rows] for rows in (first, other))
    return next(pairs) == next(pairs) and first[0].absent == other[0].absent


def _found(answers: list[Answer]) -> list[Interval]:
    return [] if answers[0].absent else [answer.interval for answer in answers]
