"""The window of every description, which the paper evaluates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dejacue.method.coordinates import Coordinates
from dejacue.method.localization import DEFAULT_READOUT, Plan, chunks
from dejacue.method.readout import Readout, Windows
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
        for history, vocabulary in chunk:
            found = plan.view(history, vocabulary).windows
            if found.state is not None:
                found = best_of_descriptions(found, vocabulary)
            windows.append(history.frames[np.stack([found.start, found.end], axis=1)])
            scores.append(found.score)
    return np.concatenate(windows), np.concatenate(scores)


def best_of_descriptions(found: Windows, vocabulary: Vocabulary) -> Windows:
    """Return a row per description: the best occurrence of its state."""
    assert found.state is not None
    count, labels = len(vocabulary.states), vocabulary.labels
    start, end = np.zeros((2, count), np.int64)
    score = np.full(count, -np.inf)
    confirmed = np.zeros(len(found.start)) if found.confirmed is None else found.confirmed
    worst_first = np.lexsort((-found.start, found.score, confirmed))
    state = found.state[worst_first]
    start[state], end[state] = found.start[worst_first], found.end[worst_first]
    score[state] = found.score[worst_first]
    return Windows(start[labels], end[labels], score[labels])
