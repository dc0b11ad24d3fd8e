"""Windows of one object that several encoders have seen, from the mean of their evidence: each is
brought to mean 0 and deviation 1, so that what they agree on stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dejacue.errors import InputError
from dejacue.method import _labelling as labelling
from dejacue.method.coordinates import check_pair
from dejacue.method.joint import Joint
from dejacue.method.kernel import Answers, EvidenceTables
from dejacue.method.plan import DEFAULT_READOUT, Plan
from dejacue.method.readout import Readout, View
from dejacue.method.state_readout import StateReadout
from dejacue.method.states import MIN_SCALE
from dejacue.records import History, Note, Timeline, Vocabulary
from dejacue.records.arrays import Floats, Ints
from dejacue.records.history import MEANINGLESS


def locate_together(
    pairs: Sequence[tuple[History, Vocabulary]],
    *,
    readout: str | Readout = DEFAULT_READOUT,
    top: int | None = None,
    kernel: str = "auto",
) -> Timeline:
    """Return all that contrast or joint say of one object that several encoders have seen.

    pairs   its history and the vocabulary by each encoder: the same states and descriptions, the
            same frames (those that only some have are left out)
    """
    plan = Plan.of(None, readout, None, top, False, kernel)
    chosen = plan.readout
    if not isinstance(chosen, StateReadout) or chosen.pooling != 1:
        problem = (
            f"several encoders can be read only with contrast or joint, not with {chosen.name}"
        )
        raise InputError(problem, field="readout", value=chosen.name)
    pairs = _common(pairs)
    views = [plan.view(*pair) for pair in pairs]
    mean = np.mean([chosen.seen(view)[1].responses[0] for view in views], axis=0)
    mean -= mean.mean(axis=1, keepdims=True)
    mean /= np.maximum(mean.std(axis=1, keepdims=True), MIN_SCALE)
    first = views[0]
    first.derived["states", chosen] = _answers(chosen, first, mean)
    timeline = plan.analyse(first, hints=True)
    names = " and ".join(history.encoder or "an unnamed encoder" for history, _ in pairs)
    averaged = Note(f"the evidence of {names}, averaged", "information")
    made_with = [history.made_with or {} for history, _ in pairs]
    reasons = [
        Note(details[MEANINGLESS], "meaningless") for details in made_with if MEANINGLESS in details
    ]
    return timeline.replace(notes=(*timeline.notes, averaged, *reasons), encoder=names)


def _common(pairs: Sequence[tuple[History, Vocabulary]]) -> list[tuple[History, Vocabulary]]:
    """Return the pairs with the frames that all histories have."""
    if len(pairs) < 2:
        problem = "give the history and the vocabulary of two or more encoders"
        raise InputError(problem, field="pairs", value=len(pairs))
    for history, vocabulary in pairs:
        check_pair(history, vocabulary)
        if vocabulary.examples or vocabulary.changes:
            problem = "examples can be read with one encoder only"
            remedy = "leave out the examples or the other encoders"
            raise InputError(problem, field="examples", remedy=remedy)
        if dict(vocabulary.states) != dict(pairs[0][1].states):
            problem = "the vocabularies differ; all encoders must answer the same question"
            raise InputError(problem, field="states")
    frames = pairs[0][0].frames
    for history, _ in pairs[1:]:
        frames = np.intersect1d(frames, history.frames)
    if not len(frames):
        raise InputError(
            f"histories {pairs[0][0].id} and {pairs[1][0].id} share no frame; do they come from "
            "the same video?",
            field="frames",
        )
    return [(_only(history, frames), vocabulary) for history, vocabulary in pairs]


def _only(history: History, frames: Ints) -> History:
    if len(frames) == len(history):
        return history
    at = np.searchsorted(history.frames, frames)
    columns: dict[str, Any] = {
        name: None if getattr(history, name) is None else getattr(history, name)[at]
        for name in ("times_s", "source_frames", "presence")
    }
    return replace(history, features=history.features[at], frames=frames, **columns)


def _answers(readout: StateReadout, view: View, mean: Floats) -> tuple[Answers, EvidenceTables]:
    """Return the windows that this evidence gives, as ``StateReadout.seen`` would."""
    cuts, tables = readout.bounds(view.history), readout.seen(view)[1]
    start, end, score = view.engine.search(mean, cuts, mean.shape[1])
    path, levels, absent = tables.paths[0], np.zeros(len(mean)), None
    if isinstance(readout, Joint):
        rules = readout.rules([view.history], [view.vocabulary], [cuts])
        path, levels = view.engine.label_responses(mean, cuts, rules)
        stretches = labelling.stretches(mean - levels[:, None], path, cuts)
        score, absent = labelling.take_best(stretches, start, end)
    calibration = np.zeros(len(mean)), np.ones(len(mean))
    answers = Answers.at(view.history.frames, start, end, score, *calibration, absent)
    tables = EvidenceTables(tables.cosines, [mean], [path], [levels])
    return answers.rows(view.vocabulary.labels), tables
