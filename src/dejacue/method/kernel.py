"""Engines: the compiled kernel, or numpy where it could not be built. Same windows, same bits.

A ragged batch of histories is the primary interface; one history is a batch of one. Whatever is
given per history is a list with one entry each, or with a single entry that serves all.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method import _labelling as labelling
from dejacue.method import calibration as plain
from dejacue.method import scan as plain_scan
from dejacue.method import states as plain_states
from dejacue.records import History
from dejacue.records.arrays import Floats, Ints

Float32Rows = NDArray[np.float32]
Windows = tuple[Ints, Ints, Floats]  # first and last positions, scores
# a table per history; centre and scale of every answer
Responses = tuple[list[Floats], Floats, Floats]

BAD_VALUES = {  # by the kernel's codes
    2: "features of history {id} are not finite at row {row}; they were changed after the history "
    "was created",
    3: "a cosine of history {id} is not finite at observed frame {row}",
    4: "responses contain a non-finite value at position {row}",
}


@dataclass(eq=False, slots=True)
class Ragged:
    """Histories and their queries, laid out as the engine takes them in one call.

    queries   one (R, d) table of directions per history, or a single one for all
    runs      per history, the positions at which runs (or stretches) begin, and N
    weights   state evidence: per history, weights of the smoothing by distance in frames
    """

    histories: Sequence[History]
    queries: list[NDArray[np.float32]]
    runs: list[Ints]
    weights: list[Floats] | None = None

    @classmethod
    def of(cls, histories: Sequence[History], queries: list[NDArray[np.float32]]) -> Ragged:
        """Lay out a scan: observed runs."""
        return cls(histories, queries, [history.run_offsets for history in histories])

    @property
    def answers(self) -> int:
        """Return the number of rows of the outputs: one per query."""
        times = len(self.histories) if len(self.queries) == 1 else 1
        return times * sum(map(len, self.queries))

    def entry(self, column: str, h: int) -> Any:
        """Return what a list has for one history."""
        entries = getattr(self, column)
        return entries[0 if len(entries) == 1 else h]

    def features(self) -> list[NDArray[Any]]:
        return [history.features for history in self.histories]

    def empty(self, dtype: Any) -> list[NDArray[Any]]:
        """Return one (R, N) table per history."""
        if len(self.histories) == 1:
            return [np.empty((len(self.queries[0]), len(self.histories[0].frames)), dtype)]
        return [
            np.empty((len(self.entry("queries", h)), len(history)), dtype)
            for h, history in enumerate(self.histories)
        ]


@dataclass(eq=False, slots=True)
class LengthSchedule:
    """Lengths to try, ascending, and what sums are divided by: one array each per history, or a
    single one for all."""

    lengths: list[Ints]
    norms: list[Floats]


@dataclass(eq=False, slots=True)
class Labelling:
    """Rules for a path through the states: what may follow what, and what a switch costs.

    nodes    of each history: what a path may be in
    costs    (H,) of a switch
    stay     least number of frames of a visit
    rounds   of labelling, in which the levels of states are found
    """

    nodes: list[labelling.Nodes]
    costs: Floats
    stay: int
    rounds: int


@dataclass(eq=False, slots=True)
class EvidenceTables:
    """Intermediate results that an engine writes down, one table per history.

    centre, scale   of every answer
    paths    (N,) a labelling: the state of each observed frame
    levels   (R,) what the labelling measured responses from
    """

    cosines: list[NDArray[np.float32]]
    responses: list[Floats]
    paths: list[Ints]
    levels: list[Floats]
    centre: Floats
    scale: Floats

    @classmethod
    def of(cls, batch: Ragged) -> EvidenceTables:
        cosines, responses = batch.empty(np.float32), batch.empty(np.float64)
        paths = [np.empty(table.shape[1], np.int64) for table in cosines]
        levels = [np.empty(len(table)) for table in cosines]
        return cls(cosines, responses, paths, levels, *np.empty((2, batch.answers)))


@dataclass(eq=False, slots=True)
class Answers:
    """Windows in columns, by positions of observed frames and by frame numbers.

    A readout that answers each description has a row per description of every history, in order;
    one that lists occurrences says of each row which history and which state it is of.
    """

    start: Ints
    end: Ints
    first: Ints
    last: Ints
    score: Floats
    centre: Floats | None = None  # the calibration, where the readout has made one
    scale: Floats | None = None
    subject: Ints | None = None
    state: Ints | None = None
    confirmed: Ints | None = None  # whether a person has named a frame of it
    first_place: Ints | None = None  # among all frames of the file: of a history with a filling
    last_place: Ints | None = None

    @classmethod
    def empty(cls, rows: int) -> Answers:
        positions, numbers = np.empty((4, rows), np.int64), np.empty((3, rows))
        start, end, first, last = positions
        score, centre, scale = numbers
        return cls(start, end, first, last, score, centre, scale)

    @classmethod
    def at(cls, frames: Ints, start: Ints, end: Ints, score: Floats, *columns: Any) -> Answers:
        """Make answers from positions among these frames; columns: centre, scale, …"""
        return cls(start, end, frames[start], frames[end], score, *columns)

    def rows(self, at: Ints) -> Answers:
        """Return these rows: several descriptions may share one."""
        columns = [getattr(self, name) for name in Answers.__slots__]
        chosen: list[Any] = [None if column is None else column[at] for column in columns]
        return Answers(*chosen)

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """Put answers of one readout one after the other."""
        if len(parts) == 1:
            return parts[0]

        def column(name: str) -> Any:
            values = [getattr(part, name) for part in parts]
            if all(value is None for value in values):
                return None
            lengths = [len(part.start) for part in parts]
            if name == "subject":  # each part counts its own histories from 0
                values = [np.full(n, h) for h, n in enumerate(lengths)]
            pairs = zip(values, lengths, strict=True)
            return np.concatenate([np.zeros(n, np.int64) if v is None else v for v, n in pairs])

        return cls(*map(column, cls.__slots__))


class NumpyEngine:
    """Does every operation of the kernel in plain numpy: the same bits, more slowly."""

    name = "numpy"

    def centres(self, batch: Ragged) -> Float32Rows:
        """Return (H, d) the trajectory centre of each history."""
        return np.stack([plain.trajectory_centre(h.features) for h in batch.histories])

    def cosines(self, batch: Ragged, centres: Float32Rows | None) -> list[Float32Rows]:
        """Return frame · query of each history, (R, N)."""
        tables = []
        for h, history in enumerate(batch.histories):
            centre = None if centres is None else centres[h]
            rows = plain.cosines(history.features, batch.entry("queries", h), centre)
            _check_finite(rows, 2, history.id)
            tables.append(rows)
        return tables

    def respond(self, batch: Ragged, cosines: list[Float32Rows], smoothing: int) -> Responses:
        """Calibrate and smooth inside runs; return also the centre and scale of every row."""
        parts = []
        for h, (rows, history) in enumerate(zip(cosines, batch.histories, strict=True)):
            _check_finite(rows, 3, history.id)
            parts.append(plain.respond(rows, batch.entry("runs", h), smoothing))
        responses, centres, scales = zip(*parts, strict=True)
        return list(responses), np.concatenate(centres), np.concatenate(scales)

    def scan(self, responses: Floats, run_offsets: Ints, schedule: LengthSchedule) -> Windows:
        """Return the best window of each row of responses."""
        _check_finite(responses, 4)
        lengths, norms = schedule.lengths[0].tolist(), schedule.norms[0]
        return plain_scan.scan(responses, run_offsets, lengths, norms)

    def locate(
        self,
        batch: Ragged,
        schedule: LengthSchedule,
        smoothing: int,
        centres: Float32Rows | None = None,
        cosines: list[Float32Rows] | None = None,
    ) -> Answers:
        """Apply the published method: from features (or their cosines) to windows."""
        if cosines is None:
            cosines = self.cosines(batch, centres)
        responses, centre, scale = self.respond(batch, cosines, smoothing)
        parts, row = [], 0
        for h, history in enumerate(batch.histories):
            table = responses[h]
            at = 0 if len(schedule.lengths) == 1 else h
            start, end, score = plain_scan.scan(
                table, batch.entry("runs", h), schedule.lengths[at].tolist(), schedule.norms[at]
            )
            rows = slice(row, row + len(table))
            row += len(table)
            none = start < 0
            first, last = np.where(none, -1, history.frames[start]), history.frames[end]
            parts.append(
                Answers(
                    start, end, first, np.where(none, -1, last), score, centre[rows], scale[rows]
                )
            )
        return Answers.joined(parts)

    def smooth(self, batch: Ragged, cosines: list[Float32Rows]) -> Responses:
        """Return state evidence of these cosines, with centre and scale of every answer."""
        tables, centres, scales = [], [], []
        for h, rows in enumerate(cosines):
            responses, centre, scale = _smoothed(batch, h, rows)
            tables.append(responses)
            centres.append(centre)
            scales.append(scale)
        return tables, np.concatenate(centres), np.concatenate(scales)

    def search(self, responses: Floats, cuts: Ints, total: int) -> Windows:
        """Return the best contrast of each row; total: observed frames of the whole history."""
        _check_finite(responses, 4)
        return plain_states.search(responses, cuts, total)

    def search_parts(self, parts: Sequence[Floats], total: int) -> Windows:
        """Return the best contrast of rows (1, n), contiguous, each a part of one stretch."""
        windows = [self.search(part, np.array([0, part.shape[1]]), total) for part in parts]
        start, end, score = (np.concatenate(column) for column in zip(*windows, strict=True))
        return start, end, score

    def contrast(
        self,
        batch: Ragged,
        centres: Float32Rows | None = None,
        tables: EvidenceTables | None = None,
    ) -> Answers:
        """Return the best contrast of each row of state evidence, from features."""
        parts = []
        for h, rows in enumerate(self.cosines(batch, centres)):
            responses, centre, scale = _smoothed(batch, h, rows)
            if tables is not None:
                tables.cosines[h][:], tables.responses[h][:] = rows, responses
            start, end, score = plain_states.search(
                responses, batch.entry("runs", h), responses.shape[1]
            )
            frames = batch.histories[h].frames
            parts.append(Answers.at(frames, start, end, score, centre, scale))
        answers = Answers.joined(parts)
        if tables is not None and answers.centre is not None and answers.scale is not None:
            tables.centre, tables.scale = answers.centre, answers.scale
        return answers

    def label(
        self, batch: Ragged, centres: Float32Rows | None, tables: EvidenceTables, rules: Labelling
    ) -> None:
        """Fill the tables from features: evidence, the labelling and its levels."""
        tables.cosines[:] = self.cosines(batch, centres)
        tables.responses[:], tables.centre, tables.scale = self.smooth(batch, tables.cosines)
        for h, responses in enumerate(tables.responses):
            tables.paths[h], tables.levels[h] = _labelled(responses, rules, h)

    def label_responses(
        self, responses: Floats, cuts: Ints, rules: Labelling
    ) -> tuple[Ints, Floats]:
        """Return the labelling of one history, (N,) states and (S,) levels, from state evidence."""
        _check_finite(responses, 4)
        return _labelled(responses, rules, 0)


def _smoothed(batch: Ragged, h: int, rows: Float32Rows) -> tuple[Floats, Floats, Floats]:
    """Return the state evidence of one history from its cosines, with centre and scale."""
    _check_finite(rows, 3, batch.histories[h].id)
    frames = batch.histories[h].frames
    return plain_states.smooth(rows, frames, batch.entry("runs", h), batch.entry("weights", h))


def _labelled(responses: Floats, rules: Labelling, h: int) -> tuple[Ints, Floats]:
    cost = float(rules.costs[h])
    return labelling.label(responses, rules.nodes[h], cost, rules.stay, rules.rounds)


def _check_finite(rows: NDArray[np.floating], code: int, id: str = "") -> None:
    bad = ~np.isfinite(rows).all(axis=0)
    if bad.any():
        raise _bad_value(code, id, int(bad.argmax()))


def _bad_value(code: int, id: str, row: int) -> InputError:
    return InputError(BAD_VALUES[code].format(id=id, row=row))


_COSINES, _CENTRES, _RESPOND, _LOCATE, _SMOOTH, _CONTRAST, _LABEL = range(7)
_TABLES = ("features", "cosines", "responses", "runs", "numbers", "queries")
_SETTINGS = ("lengths", "norms", "weights", "states", "first", "follows", "paths", "levels")
_LISTS = (*_TABLES, *_SETTINGS)  # in the order of the kernel


class CompiledEngine(NumpyEngine):
    """Calls the C kernel, in the build named by ``name``: "avx2" or "baseline"."""

    def __init__(self, module: Any, name: str) -> None:
        self._module, self.name = module, name

    def _run(
        self,
        operation: int,
        batch: Ragged | None,
        answers: Answers | None,
        lists: dict[str, Any],
        *,
        count: int = 1,
        smoothing: int = 1,
        total: int = 0,
        schedule: LengthSchedule | None = None,
        rules: Labelling | None = None,
        centres: Float32Rows | None = None,
        out: Float32Rows | None = None,
    ) -> None:
        """Call the kernel once; what an operation does not use is None.

        lists   of arrays by their names in _LISTS; those of a batch are added
        """
        dimension, stay, rounds, costs = 1, 1, 1, None
        if batch is not None:
            count, dimension = len(batch.histories), batch.histories[0].dimension
            lists["runs"], lists["numbers"] = batch.runs, [h.frames for h in batch.histories]
            lists["weights"] = batch.weights
        if schedule is not None:
            lists["lengths"], lists["norms"] = schedule.lengths, schedule.norms
        if rules is not None:
            lists["states"] = [nodes.state for nodes in rules.nodes]
            lists["first"] = [nodes.first for nodes in rules.nodes]
            lists["follows"] = [nodes.follows for nodes in rules.nodes]
            costs, stay, rounds = rules.costs, rules.stay, rules.rounds
        columns: tuple[Any, ...] = (None,) * 7
        if answers is not None:
            first = answers.first if batch is not None else None
            columns = (answers.start, answers.end, first, answers.last, answers.score)
            columns += (answers.centre, answers.scale)
        code, history, row = self._module.run(
            self.name,
            operation,
            count,
            (dimension, smoothing, total, stay, rounds, plain_states.MIN_SCALE),
            tuple(map(lists.get, _LISTS)),
            (centres, costs, *columns, out),
        )
        if code:
            raise _bad_value(code, "" if batch is None else batch.histories[history].id, row)

    def centres(self, batch: Ragged) -> Float32Rows:
        out = np.empty((len(batch.histories), batch.histories[0].dimension), np.float32)
        self._run(_CENTRES, batch, None, {"features": batch.features()}, out=out)
        return out

    def cosines(self, batch: Ragged, centres: Float32Rows | None) -> list[Float32Rows]:
        out = batch.empty(np.float32)
        lists = {"features": batch.features(), "queries": batch.queries, "cosines": out}
        self._run(_COSINES, batch, None, lists, centres=centres)
        return out

    def respond(self, batch: Ragged, cosines: list[Float32Rows], smoothing: int) -> Responses:
        return self._respond(_RESPOND, batch, cosines, smoothing)

    def smooth(self, batch: Ragged, cosines: list[Float32Rows]) -> Responses:
        return self._respond(_SMOOTH, batch, cosines)

    def _respond(
        self, operation: int, batch: Ragged, cosines: list[Float32Rows], smoothing: int = 1
    ) -> Responses:
        out, answers = batch.empty(np.float64), Answers.empty(batch.answers)
        lists = {"cosines": cosines, "responses": out}
        self._run(operation, batch, answers, lists, smoothing=smoothing)
        assert answers.centre is not None
        assert answers.scale is not None
        return out, answers.centre, answers.scale

    def scan(self, responses: Floats, run_offsets: Ints, schedule: LengthSchedule) -> Windows:
        return self._search(_LOCATE, [responses], [run_offsets], schedule=schedule)

    def search(self, responses: Floats, cuts: Ints, total: int) -> Windows:
        return self._search(_CONTRAST, [responses], [cuts], total=total)

    def search_parts(self, parts: Sequence[Floats], total: int) -> Windows:
        cuts = [np.array((0, part.shape[1])) for part in parts]
        return self._search(_CONTRAST, parts, cuts, total=total)

    def _search(
        self, operation: int, responses: Sequence[Floats], runs: list[Ints], **options: Any
    ) -> Windows:
        answers = Answers.empty(sum(map(len, responses)))
        lists = {"responses": [np.ascontiguousarray(rows) for rows in responses], "runs": runs}
        self._run(operation, None, answers, lists, count=len(runs), **options)
        return answers.start, answers.end, answers.score

    def locate(
        self,
        batch: Ragged,
        schedule: LengthSchedule,
        smoothing: int,
        centres: Float32Rows | None = None,
        cosines: list[Float32Rows] | None = None,
    ) -> Answers:
        answers = Answers.empty(batch.answers)
        lists: dict[str, Any] = {"cosines": cosines}
        if cosines is None:
            lists = {"features": batch.features(), "queries": batch.queries}
        settings: dict[str, Any] = {"schedule": schedule, "smoothing": smoothing}
        self._run(_LOCATE, batch, answers, lists, centres=None if cosines else centres, **settings)
        return answers

    def contrast(
        self,
        batch: Ragged,
        centres: Float32Rows | None = None,
        tables: EvidenceTables | None = None,
    ) -> Answers:
        answers = Answers.empty(batch.answers)
        lists: dict[str, Any] = {"features": batch.features(), "queries": batch.queries}
        if tables is not None:
            lists["cosines"], lists["responses"] = tables.cosines, tables.responses
            answers.centre, answers.scale = tables.centre, tables.scale
        self._run(_CONTRAST, batch, answers, lists, centres=centres)
        return answers

    def label(
        self, batch: Ragged, centres: Float32Rows | None, tables: EvidenceTables, rules: Labelling
    ) -> None:
        answers = Answers.empty(batch.answers)
        answers.centre, answers.scale = tables.centre, tables.scale
        lists: dict[str, Any] = {"features": batch.features(), "queries": batch.queries}
        lists |= {"cosines": tables.cosines, "responses": tables.responses}
        lists |= {"paths": tables.paths, "levels": tables.levels}
        self._run(_LABEL, batch, answers, lists, rules=rules, centres=centres)

    def label_responses(
        self, responses: Floats, cuts: Ints, rules: Labelling
    ) -> tuple[Ints, Floats]:
        path, levels = np.empty(responses.shape[1], np.int64), np.empty(len(responses))
        rows = np.ascontiguousarray(responses)
        lists = {"responses": [rows], "runs": [cuts], "paths": [path], "levels": [levels]}
        self._run(_LABEL, None, None, lists, rules=rules)
        return path, levels


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
