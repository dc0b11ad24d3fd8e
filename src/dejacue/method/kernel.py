"""Engines: the operations of the method, by the compiled kernel or in plain numpy.

Both find the same windows; numpy is the definition one reads, and what runs where the kernel could
not be built. The last digits of values may differ.

    n frames, q rows of queries or states
    cosines    (q, n) float32                   responses   (q, n) float64
    runs, cuts   positions that begin a run or a stretch, and n
    windows    first and last positions and scores, (q,) each
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method import _labelling as labelling
from dejacue.method import calibration, scan, states
from dejacue.method._labelling import Nodes
from dejacue.records import History
from dejacue.records.arrays import Floats, Ints

Cosines = NDArray[np.float32]
Responses = tuple[Floats, Floats, Floats]  # responses, the centre and the scale of every row
Scored = tuple[Ints, Ints, Floats]  # first and last positions, scores
# history, queries, centre; and lengths with norms, or cuts with weights
Job = tuple[History, Cosines, Cosines | None, tuple[Ints, Floats]]

BAD_FEATURE, BAD_COSINE, BAD_RESPONSE = 2, 3, 4  # codes of the kernel


class NumpyEngine:
    """Does every operation in plain numpy."""

    name = "numpy"

    def cosines(self, history: History, queries: Cosines, centre: Cosines | None = None) -> Cosines:
        """Return frame · query; with a centre (d,), frames are measured from it."""
        with np.errstate(all="ignore"):  # what is not finite is refused
            rows = calibration.cosines(history.features, queries, centre)
        _check_finite(rows, BAD_FEATURE, history)
        return rows

    def centre(self, history: History) -> Cosines:
        """Return (d,) the trajectory centre."""
        return calibration.trajectory_centre(history.features)

    def respond(self, cosines: Cosines, runs: Ints, smoothing: int) -> Responses:
        """Calibrate and smooth inside runs."""
        _check_finite(cosines, BAD_COSINE)
        return calibration.respond(cosines, runs, smoothing)

    def scan(self, responses: Floats, runs: Ints, lengths: Ints, norms: Floats) -> Scored:
        """Return the best window of each row; start −1 where no length fits."""
        _check_finite(responses, BAD_RESPONSE)
        return scan.scan(responses, runs, lengths.tolist(), norms)

    def locate(self, jobs: Sequence[Job], smoothing: int) -> list[tuple[Cosines, Scored]]:
        """Return cosines, and the windows of the published method, of several histories."""
        found = []
        for history, queries, centre, (lengths, norms) in jobs:
            cosines, runs = self.cosines(history, queries, centre), history.run_offsets
            windows = self.locate_cosines(cosines, runs, smoothing, lengths, norms)
            found.append((cosines, windows))
        return found

    def locate_cosines(
        self, cosines: Cosines, runs: Ints, smoothing: int, lengths: Ints, norms: Floats
    ) -> Scored:
        """Respond, then scan."""
        return self.scan(self.respond(cosines, runs, smoothing)[0], runs, lengths, norms)

    def smooth(self, cosines: Cosines, frames: Ints, cuts: Ints, weights: Floats) -> Responses:
        """Return state evidence."""
        _check_finite(cosines, BAD_COSINE)
        return states.smooth(cosines, frames, cuts, weights)

    def search(self, responses: Floats, cuts: Ints) -> Scored:
        """Return the best contrast of each row inside a stretch."""
        _check_finite(responses, BAD_RESPONSE)
        return states.search(responses, cuts)

    def contrast(self, jobs: Sequence[Job]) -> list[tuple[Cosines, Responses, Scored]]:
        """Return cosines, state evidence, and the best contrast of each row, of several
        histories."""
        found = []
        for history, queries, centre, (cuts, weights) in jobs:
            cosines = self.cosines(history, queries, centre)
            evidence = self.smooth(cosines, history.frames, cuts, weights)
            found.append((cosines, evidence, self.search(evidence[0], cuts)))
        return found

    def search_parts(self, responses: Floats, rows: Ints, first: Ints, stop: Ints) -> Scored:
        """Return the best contrast of each part: of one row, from ``first`` to before ``stop``."""
        _check_finite(responses, BAD_RESPONSE)
        return states.search_parts(responses, rows, first, stop)

    def label(
        self, responses: Floats, nodes: Nodes, cost: float, stay: int, rounds: int
    ) -> tuple[Ints, Floats]:
        """Return the labelling, (n,) states and (s,) levels, from state evidence."""
        _check_finite(responses, BAD_RESPONSE)
        return labelling.label(responses, nodes, cost, stay, rounds)


def _check_finite(rows: NDArray[np.floating], code: int, history: History | None = None) -> None:
    if not np.isfinite(rows).all():
        _refuse(code, int(np.isfinite(rows).all(axis=0).argmin()), history)


def _refuse(code: int, row: int, history: History | None = None) -> NoReturn:
    if code == BAD_FEATURE and history is not None:
        raise InputError(
            f"features of history {history.id} are not finite at row {row}; they were changed "
            "after the history was created"
        )
    what = "cosines" if code == BAD_COSINE else "responses"
    raise InputError(f"{what} contain a value that is not finite at observed frame {row}")


class CompiledEngine(NumpyEngine):
    """Calls the C kernel, in the build named by ``name``: "avx2" or "baseline"."""

    def __init__(self, module: Any, name: str) -> None:
        self._module, self.name = module, name

    def cosines(self, history: History, queries: Cosines, centre: Cosines | None = None) -> Cosines:
        out = np.empty((len(queries), len(history.frames)), np.float32)
        if bad := self._module.cosines(self.name, history.features, queries, centre, out):
            _refuse(bad[0], bad[1], history)
        return out

    def centre(self, history: History) -> Cosines:
        out = np.empty(history.dimension, np.float32)
        if bad := self._module.centre(self.name, history.features, out):
            _refuse(bad[0], bad[1], history)
        return out

    def respond(self, cosines: Cosines, runs: Ints, smoothing: int) -> Responses:
        found = _responses(cosines)
        if bad := self._module.respond(self.name, cosines, runs, smoothing, *found):
            _refuse(*bad)
        return found

    def scan(self, responses: Floats, runs: Ints, lengths: Ints, norms: Floats) -> Scored:
        found = _windows(len(responses))
        rows = np.ascontiguousarray(responses)
        if bad := self._module.scan(self.name, rows, runs, lengths, norms, *found):
            _refuse(*bad)
        return found

    def locate(self, jobs: Sequence[Job], smoothing: int) -> list[tuple[Cosines, Scored]]:
        calls, found = [], []
        for history, queries, centre, (lengths, norms) in jobs:
            cosines = np.empty((len(queries), len(history.frames)), np.float32)
            rows, windows = (history.features, queries, centre, cosines), _windows(len(queries))
            calls.append((*rows, history.run_offsets, smoothing, lengths, norms, *windows))
            found.append((cosines, windows))
        if bad := self._module.locate(self.name, calls):
            _refuse(bad[0], bad[1], jobs[bad[2]][0])
        return found

    def locate_cosines(
        self, cosines: Cosines, runs: Ints, smoothing: int, lengths: Ints, norms: Floats
    ) -> Scored:
        found, rows = _windows(len(cosines)), (None, None, None, cosines)
        call = (*rows, runs, smoothing, lengths, norms, *found)
        if bad := self._module.locate(self.name, [call]):
            _refuse(bad[0], bad[1])
        return found

    def smooth(self, cosines: Cosines, frames: Ints, cuts: Ints, weights: Floats) -> Responses:
        found, call = _responses(cosines), self._module.smooth
        if bad := call(self.name, cosines, frames, cuts, weights, states.MIN_SCALE, *found):
            _refuse(*bad)
        return found

    def contrast(self, jobs: Sequence[Job]) -> list[tuple[Cosines, Responses, Scored]]:
        calls, found = [], []
        for history, queries, centre, (cuts, weights) in jobs:
            cosines = np.empty((len(queries), len(history.frames)), np.float32)
            rows, windows = (history.features, queries, centre, cosines), _windows(len(queries))
            evidence, settings = _responses(cosines), (cuts, weights, states.MIN_SCALE)
            calls.append((*rows, history.frames, *settings, *evidence, *windows))
            found.append((cosines, evidence, windows))
        if bad := self._module.contrast(self.name, calls):
            _refuse(bad[0], bad[1], jobs[bad[2]][0])
        return found

    def search(self, responses: Floats, cuts: Ints) -> Scored:
        found = _windows(len(responses))
        if bad := self._module.search(self.name, np.ascontiguousarray(responses), cuts, *found):
            _refuse(*bad)
        return found

    def search_parts(self, responses: Floats, rows: Ints, first: Ints, stop: Ints) -> Scored:
        found, table = _windows(len(rows)), np.ascontiguousarray(responses)
        if bad := self._module.search_parts(self.name, table, rows, first, stop, *found):
            _refuse(*bad)
        return found

    def label(
        self, responses: Floats, nodes: Nodes, cost: float, stay: int, rounds: int
    ) -> tuple[Ints, Floats]:
        path, levels = np.empty(responses.shape[1], np.int64), np.empty(len(responses))
        table, call = np.ascontiguousarray(responses), self._module.label
        graph = nodes.state, nodes.first, nodes.follows
        if bad := call(self.name, table, *graph, cost, stay, rounds, path, levels):
            _refuse(*bad)
        return path, levels


def _windows(rows: int) -> Scored:
    """Return where the kernel writes windows."""
    return np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows)


def _responses(cosines: Cosines) -> Responses:
    """Return where the kernel writes responses."""
    return np.empty(cosines.shape), np.empty(len(cosines)), np.empty(len(cosines))


Engine = NumpyEngine


@cache
def _load() -> tuple[Any, str]:
    try:
        return importlib.import_module("dejacue.method._kernel"), ""
    except ImportError as error:
        return None, str(error)


def compiled() -> tuple[str, ...]:
    """Return the compiled builds that this machine can run, fastest first."""
    module, _ = _load()
    return tuple(module.variants()) if module else ()


def why_not() -> str:
    """Return why there is no compiled kernel; empty when there is one."""
    return _load()[1]


@cache
def engine(name: str = "auto") -> Engine:
    """Return an engine by name: "auto" (the fastest there is), "avx2", "baseline" or "numpy"."""
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
        raise unknown("kernel", name, ["auto", *builds, "numpy"])
    return CompiledEngine(_load()[0], name)
