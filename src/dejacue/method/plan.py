"""Checked settings of a call, and the records made from what a readout selects."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method import durations as d
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import (
    Coordinates,
    Directions,
    as_coordinates,
    check_pair,
    query_directions,
)
from dejacue.method.evidence import SCALE_FLOOR
from dejacue.method.joint import Joint
from dejacue.method.kernel import Engine, Found, Ragged
from dejacue.method.kernel import engine as engine_named
from dejacue.method.nonoverlap import NonOverlap
from dejacue.method.readouts import Boxcar, MaxFrame, MeanWindow, Peak, Scan, Unseen
from dejacue.method.states import LEAST_SCALE, Steady, is_count
from dejacue.method.view import Readout, Scheduled, Selection, View, check_width, settings_of
from dejacue.records import Diagnostics, History, Later, Moment, Retrieval, Vocabulary, Window

Pair = tuple[History, Vocabulary]

READOUTS: dict[str, Readout] = {
    "scan": Scan(),
    "mean-window": MeanWindow(),
    "boxcar": Boxcar(),
    "max-frame": MaxFrame(),
    "peak": Peak(),
    "single-median": Scan(durations=d.PUBLISHED_SINGLE),
    "non-overlap": NonOverlap(),
    "whole-history": Unseen(whole=True),
    "longest-run": Unseen(whole=False),
    "contrast": Contrast(),
    "joint": Joint(),
}


@runtime_checkable
class Ranked(Protocol):
    """A readout that has further windows to offer."""

    def alternatives(
        self, view: View, query: int, chosen: tuple[int, int], more: int
    ) -> list[tuple[int, int, float]]: ...


def as_readout(given: str | Readout) -> Readout:
    if not isinstance(given, str):
        return given
    if given not in READOUTS:
        raise unknown("readout", given, READOUTS)
    return READOUTS[given]


@dataclass(frozen=True)
class Plan:
    """Checked settings, shared by every history of a call."""

    coordinates: Coordinates
    readout: Readout
    smoothing: int
    top: int
    diagnostics: bool
    engine: Engine
    settings: dict[str, Any]

    @classmethod
    def of(
        cls, coordinates: str | Coordinates, readout: str | Readout, smoothing: int, top: int,
        diagnostics: bool, engine: str,
    ) -> Plan:  # fmt: skip
        system, how = as_coordinates(coordinates), as_readout(readout)
        width = check_width(smoothing)
        if not is_count(top, 1) or (top > 1 and not isinstance(how, Ranked)):
            raise InputError(
                f"top={top}: windows are numbered from 1, and only the readouts scan, contrast and "
                "joint have more than one"
            )
        settings = {
            "coordinates": system.name,
            "readout": deepcopy(settings_of(how)),
            "smoothing": width,
            "top": int(top),
        }
        if isinstance(how, Steady):
            del settings["smoothing"]  # it has its own
        return cls(system, how, width, top, diagnostics, engine_named(engine), settings)

    def view(
        self, history: History, vocabulary: Vocabulary, directions: Directions | None = None
    ) -> View:
        check_pair(history, vocabulary)
        return View(
            history, directions or self.directions(vocabulary),
            vocabulary, self.coordinates.centred_frames, self.smoothing, self.engine,
        )  # fmt: skip

    def directions(self, vocabulary: Vocabulary) -> Directions:
        pooling = self.readout.pooling if isinstance(self.readout, Steady) else 0.0
        return query_directions(vocabulary, self.coordinates, pooling)

    def run(self, pairs: Sequence[Pair]) -> list[Retrieval]:
        """A chunk: strict scans in one kernel call, other readouts one by one."""
        distinct = {id(vocabulary): vocabulary for _, vocabulary in pairs}
        directions = {key: self.directions(vocabulary) for key, vocabulary in distinct.items()}
        own = [directions[id(vocabulary)] for _, vocabulary in pairs]
        readout = self.readout
        if not isinstance(readout, Scan) or readout.runs != "strict":
            views = (self.view(h, v, u) for (h, v), u in zip(pairs, own, strict=True))
            return [
                self.retrieval(h, v, readout.read(view), view)
                for view, (h, v) in zip(views, pairs, strict=True)
            ]
        histories = [history for history, _ in pairs]
        tables = own[:1] if len(distinct) == 1 else own
        batch = Ragged.of(histories, [u.queries for u in tables])
        centres = self.engine.centres(batch) if self.coordinates.centred_frames else None
        found = readout.locate(self.engine, batch, self.smoothing, centres)
        if self.top == 1 and not self.diagnostics:
            return self._brief(pairs, own, found)
        retrievals = []
        for (history, vocabulary), u, (first, last) in zip(
            pairs, own, pairwise(batch.queries_at.tolist()), strict=True
        ):
            rows = slice(first, last)
            selection = Selection(
                found.start[rows], found.end[rows], found.score[rows],
                found.centre[rows], found.scale[rows],
            )  # fmt: skip
            view = self.view(history, vocabulary, u)
            retrievals.append(self.retrieval(history, vocabulary, selection, view))
        return retrievals

    def _brief(
        self, pairs: Sequence[Pair], directions: Sequence[Directions], found: Found
    ) -> list[Retrieval]:
        """Windows and scores only, for a whole chunk: as little Python per history as possible.
        What the retrievals keep must not reach back to the features."""
        starts, ends, scores = found.start.tolist(), found.end.tolist(), found.score.tolist()
        notes = {n: self._notes(n) for n in {history.longest_run for history, _ in pairs}}
        settings = self.settings
        retrievals, first = [], 0
        for (history, vocabulary), own in zip(pairs, directions, strict=True):
            last = first + len(vocabulary)
            base, a, b = int(history.frames[0]), starts[first:last], ends[first:last]
            if len(history.run_offsets) > 2:
                base, a, b = 0, history.frames[a].tolist(), history.frames[b].tolist()
            times = _times(history, found.start[first:last], found.end[first:last])
            make = partial(
                _moments, vocabulary.state_names, vocabulary.descriptions, base, a, b,
                scores[first:last], "description", times,
            )  # fmt: skip
            encoder = history.encoder or vocabulary.encoder
            note = notes[history.longest_run]
            if own.any_fallback:
                note = (*note, *_fallback_notes(vocabulary, own))
            made = Retrieval(Later(make), settings, history.id, encoder, note)
            retrievals.append(made.with_source(history))
            first = last
        return retrievals

    def retrieval(
        self, history: History, vocabulary: Vocabulary, selection: Selection, view: View
    ) -> Retrieval:
        """The records that the caller gets."""
        frames = history.frames
        moments = _moments(
            vocabulary.state_names, vocabulary.descriptions, 0,
            frames[selection.start].tolist(), frames[selection.end].tolist(),
            selection.score.tolist(), selection.level,
            _times(history, selection.start, selection.end),
            self._alternatives(view, selection) if self.top > 1 else None,
            self._diagnostics(view, selection) if self.diagnostics else None,
            None if selection.absent is None else selection.absent.tolist(),
        )  # fmt: skip
        encoder = history.encoder or vocabulary.encoder
        notes = self._notes(self._stretch(history))
        notes += _fallback_notes(vocabulary, view.directions)
        notes += self.readout.notes(history) if isinstance(self.readout, Steady) else ()
        found = Retrieval(moments, self.settings, history.id, encoder, notes)
        return found.with_source(history)

    def _stretch(self, history: History) -> int:
        """Frames of the longest stretch that a window may fill."""
        bridged = isinstance(self.readout, Scan) and self.readout.runs == "bridged"
        return history.span if bridged else history.longest_run

    def _notes(self, longest: int) -> tuple[str, ...]:
        if not isinstance(self.readout, Scheduled) or not isinstance(self.readout.durations, str):
            return ()  # lengths that the user chose need no remark
        resolved = d.SCHEDULES[self.readout.durations]
        if isinstance(resolved, d.Grid) or longest <= resolved[-1]:
            return ()
        return (
            f"the longest run has {longest} frames but no window is longer than {resolved[-1]}; "
            'the durations "generated" try windows up to all of it',
        )

    def _alternatives(
        self, view: View, selection: Selection
    ) -> list[tuple[tuple[Window, float], ...]]:
        assert isinstance(self.readout, Ranked)
        frames = view.history.frames
        found = []
        for q, chosen in enumerate(
            zip(selection.start.tolist(), selection.end.tolist(), strict=True)
        ):
            further = self.readout.alternatives(view, q, chosen, self.top - 1)
            found.append(tuple((Window(frames[a], frames[b]), score) for a, b, score in further))
        return found

    def _diagnostics(self, view: View, selection: Selection) -> list[Diagnostics]:
        offsets, frames = view.history.run_offsets, view.history.frames
        least = SCALE_FLOOR
        if isinstance(self.readout, Steady):
            offsets, least = self.readout.cuts(view.history), LEAST_SCALE
        centre, scale = selection.centre, selection.scale
        if centre is None or scale is None:
            _, centre, scale = view.responded
        first = np.searchsorted(offsets, selection.start, side="right") - 1
        last = np.searchsorted(offsets, selection.end, side="right") - 1
        directions = view.directions
        return [
            Diagnostics(
                residual_norm=float(directions.residual_norms[q]),
                fallback=bool(directions.fallback[q]),
                centre=float(centre[q]),
                scale=float(scale[q]),
                floor_active=bool(scale[q] <= least),
                run=Window(frames[offsets[a]], frames[offsets[b + 1] - 1]),
                touches_run_edge=bool(
                    selection.start[q] == offsets[a] or selection.end[q] == offsets[b + 1] - 1
                ),
            )
            for q, (a, b) in enumerate(zip(first, last, strict=True))
        ]


def _fallback_notes(vocabulary: Vocabulary, directions: Directions) -> tuple[str, ...]:
    if not directions.any_fallback:
        return ()
    texts = [f'"{vocabulary.descriptions[q]}"' for q in np.flatnonzero(directions.fallback)]
    return (
        f"nothing sets {', '.join(texts)} apart from the other descriptions; "
        "plain similarity was used there",
    )


def _moments(
    states: Sequence[str], texts: Sequence[str], base: int, starts: Sequence[int],
    ends: Sequence[int], scores: Sequence[float], level: str = "description",
    times: Sequence[tuple[float, float]] | None = None,
    alternatives: Sequence[tuple[tuple[Window, float], ...]] | None = None,
    diagnostics: Sequence[Diagnostics] | None = None,
    absent: Sequence[bool] | None = None,
) -> tuple[Moment, ...]:  # fmt: skip
    """One moment per description; windows are starts and ends counted from ``base``."""
    columns = (
        states, texts, starts, ends, scores,
        times or repeat(None), alternatives or repeat(()), diagnostics or repeat(None),
        absent or repeat(False),
    )  # fmt: skip
    return tuple(
        Moment(
            state, text, Window(base + start, base + end), score, level, time, others, why,
            absent=gone,
        )
        for state, text, start, end, score, time, others, why, gone in zip(*columns, strict=False)
    )  # fmt: skip


def _times(
    history: History, start: NDArray[np.int64], end: NDArray[np.int64]
) -> Sequence[tuple[float, float]] | None:
    if history.times_s is None:
        return None
    first, last = history.times_s[start].tolist(), history.times_s[end].tolist()
    return list(zip(first, last, strict=True))
