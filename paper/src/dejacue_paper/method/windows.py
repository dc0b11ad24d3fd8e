"""The window of every description, which the paper evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dejacue.method.coordinates import Coordinates
from dejacue.method.kernel import Answers
from dejacue.method.localization import chunks
from dejacue.method.plan import DEFAULT_READOUT, Pair, Plan
from dejacue.method.readout import Readout
from dejacue.records import History, Vocabulary
from dejacue.records.arrays import Floats, Ints


def description_windows(
    histories: Iterable[History],
    vocabularies: Vocabulary | Iterable[Vocabulary],
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    kernel: str = "auto",
) -> tuple[Ints, Floats]:
    """Return the window (n, 2) and the score (n,) of every description, history after history.

    This is what the paper evaluates. Of a state that occurs more than once it is the best
    occurrence; one that is not found gets the first frame, with the score −∞.
    """
    plan = Plan.of(coordinates, readout, kernel=kernel)
    windows, scores = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for chunk in chunks(histories, vocabularies):
        answers = plan.readout.find(plan.batch(chunk))
        if answers.subject is not None and answers.state is not None:
            answers = best_of_descriptions(answers, chunk)
        windows.append(np.stack([answers.first, answers.last], axis=1))
        scores.append(answers.score)
    return np.concatenate(windows), np.concatenate(scores)


def best_of_descriptions(answers: Answers, pairs: Sequence[Pair]) -> Answers:
    """Return a row per description: the best occurrence of its state."""
    assert answers.subject is not None
    assert answers.state is not None
    confirmed = np.zeros(len(answers.start)) if answers.confirmed is None else answers.confirmed
    worst_first = np.lexsort((-answers.start, answers.score, confirmed))
    rows: list[Answers] = []
    for at, (history, vocabulary) in enumerate(pairs):
        count = len(vocabulary.states)
        start, end, score = (
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.full(count, -np.inf),
        )
        here = worst_first[answers.subject[worst_first] == at]
        state = answers.state[here]
        start[state], end[state], score[state] = (
            answers.start[here],
            answers.end[here],
            answers.score[here],
        )
        rows.append(Answers.at(history.frames, start, end, score).rows(vocabulary.labels))
    return Answers.joined(rows)
