"""The oracle: plain numpy, one history after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method import _partition as plain_partition
from dejacue.method import evidence as plain
from dejacue.method import scan as plain_scan
from dejacue.method import states as plain_states
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


class NumpyEngine:
    """Every operation of the kernel in plain numpy: the same bits, more slowly."""

    name = "numpy"

    def centres(self, batch: Ragged) -> Float32Rows:
        """(H, d) the trajectory centre of each history."""
        return np.stack([plain.trajectory_centre(h.features) for h in batch.histories])

    def cosines(self, batch: Ragged, centres: Float32Rows | None) -> list[Float32Rows]:
        """Per history (R, N): frame · query."""
        found = []
        for h, history in enumerate(batch.histories):
            centre = None if centres is None else centres[h]
            rows = plain.cosines(history.features, batch.entry("queries", h), centre)
            _check_finite(rows, 2, history.id)
            found.append(rows)
        return found

    def respond(self, batch: Ragged, cosines: list[Float32Rows], smoothing: int) -> Responses:
        """Calibrated and smoothed inside runs; with centre and scale of every row."""
        parts = []
        for h, (rows, history) in enumerate(zip(cosines, batch.histories, strict=True)):
            _check_finite(rows, 3, history.id)
            parts.append(plain.respond(rows, batch.entry("runs", h), smoothing))
        responses, centres, scales = zip(*parts, strict=True)
        return list(responses), np.concatenate(centres), np.concatenate(scales)

    def scan(self, responses: Rows, run_offsets: Offsets, schedule: Schedule) -> Windows:
        """The best window of each row of responses that are already there."""
        _check_finite(responses, 4)
        lengths, norms = schedule.lengths[0].tolist(), schedule.norms[0]
        return plain_scan.scan(responses, run_offsets, lengths, norms)

    def locate(
        self,
        batch: Ragged,
        schedule: Schedule,
        smoothing: int,
        centres: Float32Rows | None = None,
        cosines: list[Float32Rows] | None = None,
    ) -> Answers:
        """The published method: from features (or their cosines) to windows."""
        if cosines is None:
            cosines = self.cosines(batch, centres)
        responses, centre, scale = self.respond(batch, cosines, smoothing)
        parts, row = [], 0
        for h, history in enumerate(batch.histories):
            own = responses[h]
            at = 0 if len(schedule.lengths) == 1 else h
            start, end, score = plain_scan.scan(
                own, batch.entry("runs", h), schedule.lengths[at].tolist(), schedule.norms[at]
            )
            rows = slice(row, row + len(own))
            row += len(own)
            none = start < 0
            first, last = np.where(none, -1, history.frames[start]), history.frames[end]
            parts.append(
                Answers(
                    start, end, first, np.where(none, -1, last), score, centre[rows], scale[rows]
                )
            )
        return Answers.joined(parts)

    def smooth(self, batch: Ragged, cosines: list[Float32Rows]) -> Responses:
        """State evidence of these cosines; with centre and scale of every answer."""
        found = []
        for h, (rows, history) in enumerate(zip(cosines, batch.histories, strict=True)):
            _check_finite(rows, 3, history.id)
            made, centre, scale = plain_states.smooth(
                rows, history.frames, batch.entry("runs", h), batch.entry("weights", h)
            )
            at = slice(None) if batch.labels is None else batch.entry("labels", h)
            found.append((made, centre[at], scale[at]))
        responses, centres, scales = zip(*found, strict=True)
        return list(responses), np.concatenate(centres), np.concatenate(scales)

    def search(self, responses: Rows, cuts: Offsets, total: int) -> Windows:
        """The best contrast of each row; ``total``: observed frames of the whole history."""
        _check_finite(responses, 4)
        return plain_states.search(responses, cuts, total)

    def search_parts(self, parts: Sequence[Rows], total: int) -> Windows:
        """The best contrast of rows (1, n), each a part of a history without a cut."""
        found = [self.search(part, np.array([0, part.shape[1]]), total) for part in parts]
        start, end, score = (np.concatenate(column) for column in zip(*found, strict=True))
        return start, end, score

    def contrast(
        self, batch: Ragged, centres: Float32Rows | None = None, kept: EvidenceTables | None = None
    ) -> Answers:
        """State evidence and the best contrast of each of its rows, from features."""
        parts = []
        for h, (responses, centre, scale) in enumerate(self._states(batch, centres, kept)):
            count = responses.shape[1]
            start, end, score = plain_states.search(responses, batch.entry("runs", h), count)
            parts.append(_answers(batch, h, start, end, score, centre, scale))
        return Answers.joined(parts)

    def label(
        self,
        batch: Ragged,
        rules: Labelling,
        centres: Float32Rows | None = None,
        kept: EvidenceTables | None = None,
    ) -> Answers:
        """State evidence and the best stretch of each state in one labelling, from features."""
        parts = []
        for h, (responses, centre, scale) in enumerate(self._states(batch, centres, kept)):
            path, levels, start, end, score, absent = self._labelled(
                responses, batch.entry("runs", h), rules, h
            )
            if kept is not None:
                kept.paths[h][:], kept.levels[h][:] = path, levels
            parts.append(_answers(batch, h, start, end, score, centre, scale, absent))
        return Answers.joined(parts)

    def label_responses(
        self, responses: Rows, cuts: Offsets, rules: Labelling
    ) -> tuple[Offsets, Rows]:
        """The labelling of one history, (N,) states and (S,) levels, from state evidence that is
        already there."""
        _check_finite(responses, 4)
        return self._labelled(responses, cuts, rules, 0)[:2]

    def partition(self, rows: Rows, cuts: Offsets, penalty: float) -> Offsets:
        """(N,) where the last segment of a stretch up to each of its frames begins."""
        return plain_partition.partition(rows, cuts, penalty)

    def _labelled(
        self, responses: Rows, cuts: Offsets, rules: Labelling, h: int
    ) -> tuple[
        Offsets,
        Rows,
        Offsets,
        Offsets,
        Rows,
        NDArray[np.bool_],
    ]:
        """Path, levels, and per state start, end, score and whether it is absent."""
        nodes = labelling.Nodes(rules.states[h], rules.first[h], rules.follows[h])
        path, levels = labelling.label(
            responses, nodes, float(rules.costs[h]), rules.stay, rules.rounds
        )
        start, end, _ = plain_states.search(responses, cuts, responses.shape[1])
        score, absent = np.zeros(len(start)), np.ones(len(start), bool)
        stretches = labelling.stretches(responses - levels[:, None], path, cuts)
        for state, windows in enumerate(stretches):
            if windows:
                start[state], end[state], score[state] = windows[0]
                absent[state] = False
        return path, levels, start, end, score, absent

    def _states(
        self, batch: Ragged, centres: Float32Rows | None, kept: EvidenceTables | None
    ) -> list[tuple[Rows, Rows, Rows]]:
        """Responses, centre and scale of each history."""
        found = []
        for h, (rows, history) in enumerate(
            zip(self.cosines(batch, centres), batch.histories, strict=True)
        ):
            made = plain_states.smooth(
                rows, history.frames, batch.entry("runs", h), batch.entry("weights", h)
            )
            if kept is not None:
                kept.cosines[h][:], kept.responses[h][:] = rows, made[0]
            found.append(made)
        return found


def _answers(
    batch: Ragged,
    h: int,
    start: Offsets,
    end: Offsets,
    score: Rows,
    centre: Rows,
    scale: Rows,
    absent: NDArray[np.bool_] | None = None,
) -> Answers:
    """Rows as answers: several descriptions may share one."""
    rows = np.arange(len(start)) if batch.labels is None else batch.entry("labels", h)
    return Answers.at(
        batch.histories[h].frames,
        start[rows],
        end[rows],
        score[rows],
        centre=centre[rows],
        scale=scale[rows],
        absent=None if absent is None else absent[rows],
    )


def _check_finite(rows: NDArray[np.floating], code: int, id: str = "") -> None:
    bad = ~np.isfinite(rows).all(axis=0)
    if bad.any():
        raise InputError(BAD_VALUES[code].format(id=id, row=int(bad.argmax())))
