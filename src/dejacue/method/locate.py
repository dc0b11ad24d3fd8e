"""locate(): the whole path, from a history and a vocabulary to the window of every description."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.coordinates import Coordinates, check_pair
from dejacue.method.plan import DEFAULT_READOUT, Plan
from dejacue.method.readouts import Scan
from dejacue.method.view import Readout
from dejacue.records import Evidence, History, Timeline, Vocabulary


def locate(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    top: int | None = 1,
    diagnostics: bool = False,
    engine: str = "auto",
) -> Timeline:
    """Return the best interval of each state of the vocabulary, or of each description.

    coordinates   vocabulary (default), absolute, trajectory, dual, query-uniform, …
    readout       a name or a readout object: "contrast" (recommended), "published" (the paper's
                  method as it is), "joint", "scan", Scan(norm="sum"), …
    smoothing     odd width in frames, for the readouts of the paper that smooth (default 3);
                  contrast and joint have their own: Contrast(smoothing_s=0.8)
    top           with scan, contrast or joint: up to top−1 further intervals, none overlapping;
                  None: as many as suit the readout (joint: every occurrence of each state)
    diagnostics   attach residual norms, calibration, the run used, … to every answer
    engine        auto (compiled if it is there), avx2, baseline, numpy: the same answer
    """
    plan = Plan.of(coordinates, readout, smoothing, top, diagnostics, engine)
    check_pair(history, vocabulary)
    if top == 1 and not diagnostics:
        return plan.answer([(history, vocabulary)])
    return plan.read(plan.view(history, vocabulary))


def read(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    top: int | None = None,
    diagnostics: bool = False,
    engine: str = "auto",
) -> Timeline:
    """All that a readout says of a history, computed once: windows, evidence, occurrences, hints.

    top   None: as many windows as suit the readout; the other options are those of ``locate``
    """
    plan = Plan.of(coordinates, readout, smoothing, top, diagnostics, engine)
    check_pair(history, vocabulary)
    return plan.read(plan.view(history, vocabulary), hints=True)


def check_reading(
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    top: int | None = None,
    diagnostics: bool = False,
    engine: str = "auto",
) -> None:
    """Refuses settings of ``read`` that do not fit, before anything is looked at."""
    Plan.of(coordinates, readout, smoothing, top, diagnostics, engine)


def evidence(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = DEFAULT_READOUT,
    smoothing: int | None = None,
    engine: str = "auto",
) -> Evidence:
    """What a readout sees: cosines, their calibration, and the smoothed responses."""
    plan = Plan.of(coordinates, readout, smoothing, 1, False, engine)
    check_pair(history, vocabulary)
    return plan.readout.evidence(plan.view(history, vocabulary))


def candidates(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = "scan",
    smoothing: int | None = None,
    engine: str = "auto",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every window a scan considers, (C, 2) frames length by length, and its scores (Q, C)."""
    plan = Plan.of(coordinates, readout, smoothing, 1, False, engine)
    check_pair(history, vocabulary)
    if not isinstance(plan.readout, Scan):
        raise InputError(f"only a scan has candidates, not {plan.readout.name}")
    starts, ends, scores = plan.readout.candidates(plan.view(history, vocabulary))
    return np.stack([history.frames[starts], history.frames[ends]], axis=1), scores
