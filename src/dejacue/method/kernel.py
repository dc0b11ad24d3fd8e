"""Engines: the compiled kernel, or numpy where it could not be built. Same windows, same bits.

A ragged batch of histories is the primary interface; one history is a batch of one. Whatever is
given per history is a list with one entry each, or with a single entry that serves all.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from dejacue.errors import InputError, unknown
from dejacue.method._numpy_engine import NumpyEngine
from dejacue.method._tables import (
    BAD_VALUES,
    Answers,
    EvidenceTables,
    Float32Rows,
    Labelling,
    Offsets,
    Ragged,
    Responses,
    Rows,
    Schedule,
    Windows,
)
from dejacue.method.states import LEAST_SCALE

_COSINES, _CENTRES, _RESPOND, _LOCATE, _SMOOTH, _CONTRAST, _LABEL = range(7)


class CompiledEngine:
    """The C kernel, in the build named by ``name`` ("avx2" or "baseline")."""

    def __init__(self, module: Any, name: str) -> None:
        self._module, self.name = module, name

    def _run(
        self,
        operation: int,
        batch: Ragged | None,
        histories: int = 1,
        *,
        dimension: int = 1,
        smoothing: int = 1,
        total: int = 0,
        stay: int = 1,
        rounds: int = 1,
        features: Any = None,
        cosines: Any = None,
        responses: Any = None,
        runs: Any = None,
        numbers: Any = None,
        queries: Any = None,
        labels: Any = None,
        schedule: Schedule | None = None,
        weights: Any = None,
        rules: Labelling | None = None,
        paths: Any = None,
        levels: Any = None,
        centres: Any = None,
        found: Answers | None = None,
        out: Any = None,
    ) -> None:
        """One call of the kernel; what an operation does not use is None."""
        lengths, norms = (None, None) if schedule is None else (schedule.lengths, schedule.norms)
        states = first = follows = costs = None
        if rules is not None:
            states, first, follows = rules.states, rules.first, rules.follows
            costs, stay, rounds = rules.costs, rules.stay, rules.rounds
        answers: tuple[Any, ...] = (None,) * 8
        if found is not None:
            answers = (
                found.start,
                found.end,
                None if numbers is None else found.first,
                found.last,
                found.score,
                found.centre,
                found.scale,
                found.absent,
            )
        code, history, row = self._module.run(
            self.name,
            operation,
            histories,
            (dimension, smoothing, total, stay, rounds, LEAST_SCALE),
            (
                features,
                cosines,
                responses,
                runs,
                numbers,
                queries,
                labels,
                lengths,
                norms,
                weights,
                states,
                first,
                follows,
                paths,
                levels,
            ),
            (centres, costs, *answers, out),
        )
        if code:
            id = "" if batch is None else batch.histories[history].id
            raise InputError(BAD_VALUES[code].format(id=id, row=row))

    def centres(self, batch: Ragged) -> Float32Rows:
        """(H, d) the trajectory centre of each history."""
        histories = batch.histories
        out = np.empty((len(histories), histories[0].dimension), np.float32)
        self._run(
            _CENTRES,
            batch,
            len(histories),
            dimension=out.shape[1],
            out=out,
            features=[h.features for h in histories],
        )
        return out

    def cosines(self, batch: Ragged, centres: Float32Rows | None) -> list[Float32Rows]:
        """Per history (R, N): frame · query."""
        out = batch.empty(np.float32)
        self._run(
            _COSINES,
            batch,
            len(batch.histories),
            dimension=batch.histories[0].dimension,
            features=[h.features for h in batch.histories],
            queries=batch.queries,
            centres=centres,
            cosines=out,
        )
        return out

    def respond(self, batch: Ragged, cosines: list[Float32Rows], smoothing: int) -> Responses:
        """Calibrated and smoothed inside runs; with centre and scale of every row."""
        out, found = batch.empty(np.float64), Answers.empty(batch.answers)
        self._run(
            _RESPOND,
            batch,
            len(batch.histories),
            smoothing=smoothing,
            cosines=cosines,
            runs=batch.runs,
            responses=out,
            found=found,
        )
        assert found.centre is not None
        assert found.scale is not None
        return out, found.centre, found.scale

    def scan(self, responses: Rows, run_offsets: Offsets, schedule: Schedule) -> Windows:
        """The best window of each row of responses that are already there."""
        found = Answers.empty(len(responses))
        self._run(
            _LOCATE,
            None,
            responses=[np.ascontiguousarray(responses)],
            runs=[run_offsets],
            schedule=schedule,
            found=found,
        )
        return found.start, found.end, found.score

    def locate(
        self,
        batch: Ragged,
        schedule: Schedule,
        smoothing: int,
        centres: Float32Rows | None = None,
        cosines: list[Float32Rows] | None = None,
    ) -> Answers:
        """The published method: from features (or their cosines) to windows."""
        histories, found = batch.histories, Answers.empty(batch.answers)
        seen = cosines is None
        self._run(
            _LOCATE,
            batch,
            len(histories),
            dimension=histories[0].dimension,
            smoothing=smoothing,
            features=[h.features for h in histories] if seen else None,
            cosines=cosines,
            queries=batch.queries if seen else None,
            runs=batch.runs,
            numbers=[h.frames for h in histories],
            schedule=schedule,
            centres=centres if seen else None,
            found=found,
        )
        return found

    def smooth(self, batch: Ragged, cosines: list[Float32Rows]) -> Responses:
        """State evidence of these cosines; with centre and scale of every answer."""
        out, found = batch.empty(np.float64), Answers.empty(batch.answers)
        self._run(
            _SMOOTH,
            batch,
            len(batch.histories),
            cosines=cosines,
            runs=batch.runs,
            numbers=[h.frames for h in batch.histories],
            labels=batch.labels,
            weights=batch.weights,
            responses=out,
            found=found,
        )
        assert found.centre is not None
        assert found.scale is not None
        return out, found.centre, found.scale

    def search(self, responses: Rows, cuts: Offsets, total: int) -> Windows:
        """The best contrast of each row; ``total``: observed frames of the whole history."""
        found = Answers.empty(len(responses))
        self._run(
            _CONTRAST,
            None,
            total=total,
            responses=[np.ascontiguousarray(responses)],
            runs=[cuts],
            found=found,
        )
        return found.start, found.end, found.score

    def search_parts(self, parts: Sequence[Rows], total: int) -> Windows:
        """The best contrast of rows (1, n), each a part of a history without a cut."""
        found = Answers.empty(len(parts))
        self._run(
            _CONTRAST,
            None,
            len(parts),
            total=total,
            responses=list(parts),
            runs=[np.array((0, part.shape[1])) for part in parts],
            found=found,
        )
        return found.start, found.end, found.score

    def contrast(
        self, batch: Ragged, centres: Float32Rows | None = None, kept: EvidenceTables | None = None
    ) -> Answers:
        """State evidence and the best contrast of each of its rows, from features."""
        return self._states(_CONTRAST, batch, centres, kept, None)

    def label(
        self,
        batch: Ragged,
        rules: Labelling,
        centres: Float32Rows | None = None,
        kept: EvidenceTables | None = None,
    ) -> Answers:
        """State evidence and the best stretch of each state in one labelling, from features."""
        return self._states(_LABEL, batch, centres, kept, rules)

    def label_responses(
        self, responses: Rows, cuts: Offsets, rules: Labelling
    ) -> tuple[Offsets, Rows]:
        """The labelling of one history, (N,) states and (S,) levels, from state evidence that is
        already there."""
        path, levels = np.empty(responses.shape[1], np.int64), np.empty(len(responses))
        self._run(
            _LABEL,
            None,
            responses=[np.ascontiguousarray(responses)],
            runs=[cuts],
            rules=rules,
            paths=[path],
            levels=[levels],
            found=Answers.empty(len(responses), absent=True),
        )
        return path, levels

    def partition(self, rows: Rows, cuts: Offsets, penalty: float) -> Offsets:
        """(N,) where the last segment of a stretch up to each of its frames begins."""
        out = np.empty(len(rows), np.int64)
        self._module.partition(self.name, np.ascontiguousarray(rows), cuts, penalty, out)
        return out

    def _states(
        self,
        operation: int,
        batch: Ragged,
        centres: Float32Rows | None,
        kept: EvidenceTables | None,
        rules: Labelling | None,
    ) -> Answers:
        histories, found = batch.histories, Answers.empty(batch.answers, rules is not None)
        self._run(
            operation,
            batch,
            len(histories),
            dimension=histories[0].dimension,
            features=[h.features for h in histories],
            queries=batch.queries,
            runs=batch.runs,
            numbers=[h.frames for h in histories],
            labels=batch.labels,
            weights=batch.weights,
            cosines=None if kept is None else kept.cosines,
            responses=None if kept is None else kept.responses,
            paths=None if kept is None else kept.paths,
            levels=None if kept is None else kept.levels,
            rules=rules,
            centres=centres,
            found=found,
        )
        return found


Engine = NumpyEngine | CompiledEngine


@cache
def _load() -> tuple[Any, str]:
    try:
        return importlib.import_module("dejacue.method._kernel"), ""
    except ImportError as error:
        return None, str(error)


def compiled() -> tuple[str, ...]:
    """The compiled builds that this machine can run, fastest first; empty without the kernel."""
    module, _ = _load()
    return tuple(module.variants()) if module else ()


def why_not() -> str:
    """Why there is no compiled kernel; empty when there is one."""
    return _load()[1]


@cache
def engine(name: str = "auto") -> Engine:
    """An engine by name: "auto" (the fastest there is), "avx2", "baseline" or "numpy"."""
    builds = compiled()
    if name == "numpy":
        return NumpyEngine()
    if name == "auto":
        if builds:
            return CompiledEngine(_load()[0], builds[0])
        warnings.warn(
            f"the compiled kernel of dejacue is not available ({why_not()}); numpy gives the same "
            "windows, but more slowly",
            RuntimeWarning,
            stacklevel=2,
        )
        return NumpyEngine()
    if name not in builds:
        raise unknown("engine", name, ["auto", *builds, "numpy"])
    return CompiledEngine(_load()[0], name)
