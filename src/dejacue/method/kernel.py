"""Engines: the compiled kernel, or numpy where it could not be built. Same windows, same bits.

A ragged batch of histories is the primary interface; one history is a batch of one.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method import evidence as plain
from dejacue.method import scan as plain_scan
from dejacue.records import History


@dataclass(frozen=True, eq=False)
class Ragged:
    """Histories and their queries, laid out for one call.

    frames, history_runs, queries_at are offsets per history; runs are positions in the
    concatenated frames; first is the row of ``queries`` at which a history's queries begin.
    """

    histories: Sequence[History]
    queries: NDArray[np.float32]
    frames: NDArray[np.int64]
    runs: NDArray[np.int64]
    history_runs: NDArray[np.int64]
    first: NDArray[np.int64]
    queries_at: NDArray[np.int64]

    @classmethod
    def of(cls, histories: Sequence[History], queries: Sequence[NDArray[np.float32]]) -> Ragged:
        """``queries``: one (Q, d) table per history, or a single one for all."""
        counts = [len(history) for history in histories]
        if len(histories) == 1:
            runs, run_counts = histories[0].run_offsets, [len(histories[0].run_offsets) - 1]
        else:
            bases = [0, *accumulate(counts)]
            parts = [h.run_offsets[:-1] + base for h, base in zip(histories, bases, strict=False)]
            runs = np.concatenate([*parts, np.array(bases[-1:])])
            run_counts = [len(part) for part in parts]
        shared = len(queries) == 1
        rows = [len(queries[0])] * len(histories) if shared else [len(table) for table in queries]
        return cls(
            histories,
            queries[0] if shared else np.concatenate(queries),
            _offsets(counts),
            runs,
            _offsets(run_counts),
            np.zeros(len(rows), np.int64) if shared else _offsets(rows)[:-1],
            _offsets(rows),
        )

    def table(self, h: int) -> NDArray[np.float32]:
        """The queries of one history."""
        count = self.queries_at[h + 1] - self.queries_at[h]
        return self.queries[self.first[h] : self.first[h] + count]

    def empty(self, dtype: Any) -> list[NDArray[Any]]:
        """One (Q, N) table per history."""
        counts = (b - a for a, b in pairwise(self.queries_at.tolist()))
        return [
            np.empty((rows, len(history)), dtype)
            for history, rows in zip(self.histories, counts, strict=True)
        ]


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.array([0, *accumulate(counts)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Lengths to try, each with its norm: history h uses lengths[offsets[k] : offsets[k+1]],
    ascending, where k = of_history[h]; most histories share one."""

    lengths: NDArray[np.int64]
    norms: NDArray[np.float64]
    offsets: NDArray[np.int64]
    of_history: NDArray[np.int64]

    @classmethod
    def of(cls, per_history: Sequence[tuple[int, ...]], norm: str) -> Schedule:
        kinds = {lengths: k for k, lengths in enumerate(dict.fromkeys(per_history))}
        flat = np.array(list(chain.from_iterable(kinds)), dtype=np.int64)
        return cls(
            flat,
            plain_scan.norm_values(norm, flat),
            _offsets([len(lengths) for lengths in kinds]),
            np.array([kinds[lengths] for lengths in per_history], dtype=np.int64),
        )

    def own(self, history: int) -> tuple[list[int], NDArray[np.float64]]:
        """Lengths and norms of one history."""
        k = self.of_history[history]
        part = slice(self.offsets[k], self.offsets[k + 1])
        return self.lengths[part].tolist(), self.norms[part]


@dataclass(frozen=True, eq=False)
class Found:
    """Windows as positions among the observed frames, one row per query of the batch."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    score: NDArray[np.float64]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def empty(cls, rows: int) -> Found:
        whole, real = np.empty((2, rows), np.int64), np.empty((3, rows))
        return cls(whole[0], whole[1], real[0], real[1], real[2])


class NumpyEngine:
    """The oracle, one history after the other."""

    name = "numpy"

    def centres(self, batch: Ragged) -> NDArray[np.float32]:
        return np.stack([plain.trajectory_centre(h.features) for h in batch.histories])

    def cosines(
        self, batch: Ragged, centres: NDArray[np.float32] | None
    ) -> list[NDArray[np.float32]]:
        found = []
        for h, history in enumerate(batch.histories):
            own = None if centres is None else centres[h]
            found.append(plain.cosines(history.features, batch.table(h), own))
            bad = ~np.isfinite(found[-1]).all(axis=0)
            if bad.any():
                raise InputError(_PROBLEMS[2].format(id=history.id, row=int(bad.argmax())))
        return found

    def respond(
        self, batch: Ragged, cosines: list[NDArray[np.float32]], smoothing: int
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64], NDArray[np.float64]]:
        parts = [
            plain.respond(rows, history.run_offsets, smoothing)
            for rows, history in zip(cosines, batch.histories, strict=True)
        ]
        responses, centres, scales = zip(*parts, strict=True)
        return list(responses), np.concatenate(centres), np.concatenate(scales)

    def scan(
        self, responses: NDArray[np.float64], run_offsets: NDArray[np.int64], schedule: Schedule
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        if not np.isfinite(responses).all():
            raise InputError("responses hold a value that is not finite")
        return plain_scan.scan(responses, run_offsets, *schedule.own(0))

    def locate(
        self,
        batch: Ragged,
        schedule: Schedule,
        smoothing: int,
        centres: NDArray[np.float32] | None = None,
        cosines: list[NDArray[np.float32]] | None = None,
    ) -> Found:
        if cosines is None:
            cosines = self.cosines(batch, centres)
        responses, centre, scale = self.respond(batch, cosines, smoothing)
        parts = []
        for h, history in enumerate(batch.histories):
            lengths, norms = schedule.own(h)
            parts.append(plain_scan.scan(responses[h], history.run_offsets, lengths, norms))
        start, end, score = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Found(start, end, score, centre, scale)


_COSINES, _CENTRES, _RESPOND, _LOCATE = range(4)
_PROBLEMS = {
    2: "features of history {id} are not finite at row {row}; they changed after it was made",
    3: "a cosine of history {id} is not finite at observed frame {row}",
    4: "responses hold a value that is not finite at position {row}",
}


class CompiledEngine:
    """The C kernel, in the build named by ``name`` ("avx2" or "baseline")."""

    def __init__(self, module: Any, name: str) -> None:
        self._module, self.name = module, name

    def _run(self, operation: int, ids: Sequence[str], **fields: Any) -> None:
        f = fields.get
        code, history, row = self._module.run(
            self.name, operation, f("dimension", 1), f("smoothing", 1),
            f("features"), f("cosines"), f("responses"), f("frames"), f("runs"),
            f("history_runs"), f("first"), f("queries_at"), f("queries"), f("centres"),
            f("lengths"), f("norms"), f("length_offsets"), f("schedules"), f("start"), f("end"),
            f("score"), f("centre"), f("scale"), f("out"),
        )  # fmt: skip
        if code:
            raise InputError(_PROBLEMS[code].format(id=ids[history] if ids else "", row=row))

    def centres(self, batch: Ragged) -> NDArray[np.float32]:
        dimension = batch.histories[0].dimension
        out = np.empty((len(batch.histories), dimension), np.float32)
        self._run(
            _CENTRES, [h.id for h in batch.histories], dimension=dimension, out=out,
            features=[h.features for h in batch.histories], frames=batch.frames,
            queries_at=batch.queries_at,
        )  # fmt: skip
        return out

    def cosines(
        self, batch: Ragged, centres: NDArray[np.float32] | None
    ) -> list[NDArray[np.float32]]:
        out = batch.empty(np.float32)
        self._run(
            _COSINES, [h.id for h in batch.histories], dimension=batch.histories[0].dimension,
            features=[h.features for h in batch.histories], frames=batch.frames,
            queries=batch.queries, first=batch.first, queries_at=batch.queries_at,
            centres=centres, cosines=out,
        )  # fmt: skip
        return out

    def respond(
        self, batch: Ragged, cosines: list[NDArray[np.float32]], smoothing: int
    ) -> tuple[list[NDArray[np.float64]], NDArray[np.float64], NDArray[np.float64]]:
        out, rows = batch.empty(np.float64), int(batch.queries_at[-1])
        centre, scale = np.empty((2, rows))
        self._run(
            _RESPOND, [h.id for h in batch.histories], smoothing=smoothing, cosines=cosines,
            frames=batch.frames, runs=batch.runs, history_runs=batch.history_runs,
            queries_at=batch.queries_at, responses=out, centre=centre, scale=scale,
        )  # fmt: skip
        return out, centre, scale

    def scan(
        self, responses: NDArray[np.float64], run_offsets: NDArray[np.int64], schedule: Schedule
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        found = Found.empty(len(responses))
        self._run(
            _LOCATE, (), responses=[np.ascontiguousarray(responses)],
            frames=_offsets([responses.shape[1]]), runs=run_offsets,
            history_runs=_offsets([len(run_offsets) - 1]), queries_at=_offsets([len(responses)]),
            lengths=schedule.lengths, norms=schedule.norms, length_offsets=schedule.offsets,
            schedules=schedule.of_history,
            **vars(found),
        )  # fmt: skip
        return found.start, found.end, found.score

    def locate(
        self,
        batch: Ragged,
        schedule: Schedule,
        smoothing: int,
        centres: NDArray[np.float32] | None = None,
        cosines: list[NDArray[np.float32]] | None = None,
    ) -> Found:
        found = Found.empty(int(batch.queries_at[-1]))
        self._run(
            _LOCATE, [h.id for h in batch.histories], dimension=batch.histories[0].dimension,
            smoothing=smoothing, cosines=cosines, centres=centres,
            features=None if cosines is not None else [h.features for h in batch.histories],
            frames=batch.frames, runs=batch.runs, history_runs=batch.history_runs,
            first=batch.first, queries=batch.queries, queries_at=batch.queries_at,
            lengths=schedule.lengths, norms=schedule.norms, length_offsets=schedule.offsets,
            schedules=schedule.of_history,
            **vars(found),
        )  # fmt: skip
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
            f"the compiled kernel of dejacue is not available ({why_not()}); "
            "numpy gives the same windows, more slowly",
            RuntimeWarning,
            stacklevel=2,
        )
        return NumpyEngine()
    if name not in builds:
        raise unknown("engine", name, ["auto", *builds, "numpy"])
    return CompiledEngine(_load()[0], name)
