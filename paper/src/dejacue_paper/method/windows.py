"""The window of every description, which the paper evaluates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dejacue.method.coordinates import Coordinates
from dejacue.method.localization import chunks
from dejacue.method.plan import DEFAULT_READOUT, Plan
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

    This is what the paper evaluates; a state that a readout does not find has some window, too.
    """
    plan = Plan.of(coordinates, readout, kernel=kernel)
    tables = [plan.readout.find(plan.batch(chunk)) for chunk in chunks(histories, vocabularies)]
    windows = [np.stack([table.first, table.last], axis=1) for table in tables]
    scores = [table.score for table in tables]
    return (
        np.concatenate([np.empty((0, 2), np.int64), *windows]),
        np.concatenate([np.empty(0), *scores]),
    )
