"""Checked settings of a call, and the records made from what a readout finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from dejacue.errors import InputError, unknown
from dejacue.method import durations as d
from dejacue.method._tables import Answers
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates, Directions, as_coordinates
from dejacue.method.joint import Joint
from dejacue.method.kernel import Engine
from dejacue.method.kernel import engine as engine_named
from dejacue.method.nonoverlap import NonOverlap
from dejacue.method.readouts import Boxcar, MaxFrame, MeanWindow, Peak, Scan, Unseen
from dejacue.method.state_readout import is_count
from dejacue.method.states import ScoredWindow
from dejacue.method.view import Batch, Readout, View, settings_of
from dejacue.records import (
    Columns,
    Diagnostics,
    History,
    Moment,
    Reading,
    Vocabulary,
    Window,
)
from dejacue.records.columns import Head, Rows, timed_columns
from dejacue.records.retrieval import read_only, to_source

Pair = tuple[History, Vocabulary]

READOUTS: dict[str, Readout] = {
    "contrast": Contrast(),
    "joint": Joint(),
    "scan": Scan(),
    "peak": Peak(),
    "mean-window": MeanWindow(),
    "boxcar": Boxcar(),
    "max-frame": MaxFrame(),
    "single-median": Scan(durations=d.PUBLISHED_SINGLE),
    "non-overlap": NonOverlap(),
    "whole-history": Unseen(whole=True),
    "longest-run": Unseen(whole=False),
}
# The paper's method: settings that belong together under one name, which no option changes.
PUBLISHED_SCAN = Scan(durations="published", norm="sqrt", runs="strict", smoothing=3)
PRESETS: dict[str, tuple[str, Readout]] = {"published": ("vocabulary", PUBLISHED_SCAN)}
DEFAULT_READOUT, DEFAULT_COORDINATES = "contrast", "vocabulary"


def chosen(
    coordinates: str | Coordinates | None, readout: str | Readout
) -> tuple[Coordinates, Readout]:
    """Coordinates and readout by name, or of a preset."""
    if isinstance(readout, str) and readout in PRESETS:
        system, preset = PRESETS[readout]
        if coordinates is not None and as_coordinates(coordinates).name != system:
            raise InputError(
                f'"{readout}" is a preset with the coordinates {system}; for '
                f"{as_coordinates(coordinates).name} name the readout itself: {preset.name}"
            )
        return as_coordinates(system), preset
    if isinstance(readout, str) and readout not in READOUTS:
        raise unknown("readout", readout, [*READOUTS, *PRESETS])
    system_given = DEFAULT_COORDINATES if coordinates is None else coordinates
    return as_coordinates(system_given), READOUTS[readout] if isinstance(readout, str) else readout


def as_readout(given: str | Readout) -> Readout:
    """A readout by name, or that of a preset."""
    return chosen(None, given)[1]


def with_smoothing(readout: Readout, smoothing: int | None, preset: bool = False) -> Readout:
    """The readout with this width of smoothing; refused where it has no such setting."""
    if smoothing is None:
        return readout
    if preset:
        raise InputError('"published" is a preset; to smooth otherwise give Scan(smoothing=…)')
    if "smoothing" not in {field.name for field in fields(readout)}:
        instead = f"; it has {readout.smoothing_in}" if readout.smoothing_in else ""
        raise InputError(f"smoothing does not apply to the readout {readout.name}{instead}")
    return replace(readout, smoothing=smoothing)  # type: ignore[call-arg]


@dataclass(frozen=True, eq=False)
class Plan:
    """Checked settings, shared by every history of a call. top None: what suits the readout."""

    coordinates: Coordinates
    readout: Readout
    top: int | None
    diagnostics: bool
    engine: Engine
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, coordinates: str | Coordinates | None, readout: str | Readout, smoothing: int | None,
        top: int | None, diagnostics: bool, engine: str,
    ) -> Plan:  # fmt: skip
        return _plan(coordinates, readout, smoothing, top, diagnostics, engine)

    def columns(self, pairs: Sequence[Pair]) -> Columns:
        """The windows of several histories: one kernel call where the readout has one."""
        histories, vocabularies = [h for h, _ in pairs], [v for _, v in pairs]
        pooling = self.readout.query_pooling
        batch = Batch(histories, vocabularies, self.coordinates, pooling, self.engine)
        return self._columns(batch, self.readout.find(batch))

    def _columns(self, batch: Batch, found: Answers) -> Columns:
        counts = [len(vocabulary) for vocabulary in batch.vocabularies]
        times, source = timed_columns(batch.histories, counts, found.start, found.end)
        heads = [
            Head(h.id, h.encoder or v.encoder, v, self._notes(h, v, own))
            for h, v, own in zip(batch.histories, batch.vocabularies, batch.directions, strict=True)
        ]
        return Columns(
            heads, [0, *accumulate(counts)], found.first, found.last, found.score,
            self.readout.level, self.settings, times, source, found.absent,
        )  # fmt: skip

    def run(self, pairs: Sequence[Pair]) -> Columns | Rows:
        """A chunk; alternatives and diagnostics are made history by history."""
        if self.top == 1 and not self.diagnostics:
            return self.columns(pairs)
        return Rows(self.read(*pair).retrieval for pair in pairs)

    def view(self, history: History, vocabulary: Vocabulary) -> View:
        pooling = self.readout.query_pooling
        return View(history, vocabulary, self.coordinates, pooling, self.engine)

    def read(self, history: History, vocabulary: Vocabulary, hints: bool = False) -> Reading:
        """Everything the readout says of one history."""
        return self.reading(self.view(history, vocabulary), hints)

    def reading(self, view: View, hints: bool = False) -> Reading:
        readout = self.readout
        found = readout.find_one(view)
        retrieval = self._columns(view, found).retrieval(0)
        moments = list(retrieval)
        if self._more:
            further = readout.alternatives(view, found, self._more)
            moments = [
                replace(m, alternatives=self._alternatives(view.history, m.score, own))
                for m, own in zip(moments, further, strict=True)
            ]
        if self.diagnostics:
            why = _diagnostics(readout, view, found)
            moments = [replace(m, diagnostics=own) for m, own in zip(moments, why, strict=True)]
        notes = retrieval.notes
        if hints:
            notes += (STILL,) if _still(view.history) else readout.hints(view)
        retrieval = replace(retrieval, moments=tuple(moments), notes=notes)
        return Reading(retrieval, readout.evidence(view), self.occurrences(view))

    @property
    def _more(self) -> int:
        """Further windows of each description."""
        return (self.readout.usual_windows if self.top is None else self.top) - 1

    def _alternatives(
        self, history: History, score: float, further: Sequence[ScoredWindow]
    ) -> tuple[tuple[Window, float], ...]:
        share = self.readout.usual_share if self.top is None else None
        least, frames = -np.inf if share is None else share * score, history.frames
        return tuple(
            (Window(int(frames[a]), int(frames[b])), own) for a, b, own in further if own >= least
        )

    def occurrences(self, view: View) -> dict[str, tuple[Moment, ...]] | None:
        """Every window of each state, best first; None where the readout has one each."""
        every = self.readout.occurrences(view)
        if every is None:
            return None
        frames = view.history.frames
        return {
            state: tuple(
                _placed(
                    view.history,
                    Moment(state, texts[0], Window(int(frames[a]), int(frames[b])), score, "state"),
                )
                for a, b, score in windows
            )
            for (state, texts), windows in zip(view.vocabulary.states.items(), every, strict=True)
        }

    def _notes(
        self, history: History, vocabulary: Vocabulary, directions: Directions
    ) -> tuple[str, ...]:
        notes = self.readout.notes(history)
        if not directions.any_fallback:
            return notes
        texts = [f'"{vocabulary.descriptions[q]}"' for q in np.flatnonzero(directions.fallback)]
        return (
            *notes,
            f"nothing sets {', '.join(texts)} apart from the other descriptions; "
            "plain similarity was used there",
        )


@lru_cache(maxsize=64)
def _plan(
    coordinates: str | Coordinates | None, readout: str | Readout, smoothing: int | None,
    top: int | None, diagnostics: bool, engine: str,
) -> Plan:  # fmt: skip
    """Plans are immutable: the same settings give the same one."""
    system, found = chosen(coordinates, readout)
    found = with_smoothing(found, smoothing, isinstance(readout, str) and readout in PRESETS)
    if top is not None and not is_count(top, 1):
        raise InputError(f"top={top}: give the number of windows, 1 or more")
    top = None if top is None else int(top)  # JSON does not take numpy's numbers
    if top is not None and top > 1 and not found.gives_alternatives:
        raise InputError(
            f"top={top}: the readout {found.name} has one window per description; scan, contrast "
            "and joint have more"
        )
    settings = {
        "coordinates": system.name,
        "readout": settings_of(found),
        "top": 1 if found.usual_windows == 1 and top is None else top,
    }
    if found.lists_occurrences:
        settings["further_windows"] = "occurrences"
    return Plan(system, found, top, diagnostics, engine_named(engine), read_only(settings))


STILL = (
    "all frames look the same to the encoder, so which of them are found is arbitrary; is it a "
    "still picture, or are the masks those of the background?"
)
_NEARLY = 1e-6  # of a cosine


def _still(history: History) -> bool:
    """Whether all its frames look the same to the encoder."""
    rows = history.features.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return len(rows) > 1 and bool((rows @ rows[0] > 1 - _NEARLY).all())


def _placed(history: History, moment: Moment) -> Moment:
    """With its seconds and, where the history was sampled, its frames of the source."""
    if history.times_s is None and not history.sampled:
        return moment
    times = None
    if history.times_s is not None:
        first, last = np.searchsorted(history.frames, tuple(moment.window))
        times = (float(history.times_s[first]), float(history.times_s[last]))
    source = to_source(history, moment.window) if history.sampled else None
    return replace(moment, times_s=times, source=source)


def _diagnostics(readout: Readout, view: View, found: Answers) -> list[Diagnostics]:
    offsets, frames = readout.bounds(view.history), view.history.frames
    seen = readout.evidence(view)
    centre, scale = seen.centre, seen.scale
    first = np.searchsorted(offsets, found.start, side="right") - 1
    last = np.searchsorted(offsets, found.end, side="right") - 1
    directions = view.query_directions
    return [
        Diagnostics(
            residual_norm=float(directions.residual_norms[q]),
            fallback=bool(directions.fallback[q]),
            centre=float(centre[q]),
            scale=float(scale[q]),
            floor_active=bool(scale[q] <= readout.scale_floor),
            run=Window(int(frames[offsets[a]]), int(frames[offsets[b + 1] - 1])),
            touches_run_edge=bool(
                found.start[q] == offsets[a] or found.end[q] == offsets[b + 1] - 1
            ),
        )
        for q, (a, b) in enumerate(zip(first, last, strict=True))
    ]
