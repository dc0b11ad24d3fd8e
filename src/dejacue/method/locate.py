"""locate(): the whole path, from a history and a vocabulary to the window of every description."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.confidence import judged
from dejacue.method.coordinates import Coordinates
from dejacue.method.plan import Plan
from dejacue.method.readouts import Scan
from dejacue.method.states import Steady
from dejacue.method.view import Readout
from dejacue.records import Evidence, History, Reading, Retrieval, Vocabulary


def locate(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates = "vocabulary",
    readout: str | Readout = "scan",
    smoothing: int = 3,
    top: int = 1,
    diagnostics: bool = False,
    unrelated: Vocabulary | Sequence[Vocabulary] = (),
    absent_at: float | None = None,
    engine: str = "auto",
) -> Retrieval:
    """The window of frames in which each description of the vocabulary holds.

    coordinates   absolute, trajectory, vocabulary (published), dual, query-uniform, …
    readout       a name or a readout object: "scan" (published), "contrast" (recommended),
                  "joint", Scan(norm="sum"), Peak(ratio=0.5), …
    smoothing     odd width in frames, applied inside observed runs; contrast and joint have
                  their own, in seconds
    top           with scan, contrast or joint: up to top−1 further windows, none overlapping
    diagnostics   attach residual norms, calibration, the run used, … to every moment
    unrelated     vocabularies of other things: with contrast, gives every moment a p-value
                  (dejacue.data.unrelated.unrelated_vocabularies makes some with an encoder)
    absent_at     moments with a higher p-value are marked absent
    engine        auto (compiled if it is there), avx2, baseline, numpy: the same answer
    """
    plan = Plan.of(coordinates, readout, smoothing, top, diagnostics, engine)
    view = plan.view(history, vocabulary)  # §2: queries measured from their siblings
    selection = plan.readout.read(view)  # §3–5: cosines, calibration, smoothing, scan
    found = plan.retrieval(history, vocabulary, selection, view)
    if not isinstance(unrelated, Vocabulary) and not len(unrelated) and absent_at is None:
        return found
    return judged(found, plan, view, vocabulary, unrelated, absent_at)


def evidence(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates = "vocabulary",
    readout: str | Readout = "scan",
    smoothing: int = 3,
    engine: str = "auto",
) -> Evidence:
    """What a readout sees: cosines, their calibration, and the smoothed responses."""
    plan = Plan.of(coordinates, readout, smoothing, 1, False, engine)
    view = plan.view(history, vocabulary)
    if isinstance(plan.readout, Steady):
        seen = plan.readout.see(view)
        rows = seen.row_of
        return Evidence(
            seen.cosines[rows], seen.centre[rows], seen.scale[rows], seen.responses[rows],
            history.frames,
        )  # fmt: skip
    responses, centre, scale = view.responded
    return Evidence(view.cosines, centre, scale, responses, history.frames)


def candidates(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates = "vocabulary",
    readout: str | Readout = "scan",
    smoothing: int = 3,
    engine: str = "auto",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every window a scan considers, (C, 2) frames length by length, and its scores (Q, C)."""
    plan = Plan.of(coordinates, readout, smoothing, 1, False, engine)
    if not isinstance(plan.readout, Scan):
        raise InputError(f"candidates are those of a scan, not of {plan.readout.name}")
    starts, ends, scores = plan.readout.candidates(plan.view(history, vocabulary))
    return np.stack([history.frames[starts], history.frames[ends]], axis=1), scores


def read(
    history: History,
    vocabulary: Vocabulary,
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = "contrast",
    smoothing: int | None = None,
    top: int | None = None,
    diagnostics: bool = False,
    unrelated: Vocabulary | Sequence[Vocabulary] = (),
    absent_at: float | None = None,
    engine: str = "auto",
) -> Reading:
    """All that a readout says of a history, computed once: windows, evidence, occurrences, notes.

    top   None: as many windows as suit the readout; the other options are those of ``locate``
    """
    from dejacue.cli.locating import Settings, located  # provisional
    from dejacue.method.occurrences import occurrences
    from dejacue.method.plan import as_readout

    chosen = as_readout("scan" if readout == "published" else readout)
    system = "vocabulary" if coordinates is None else coordinates
    how = Settings(system, chosen, smoothing or 3, top, diagnostics, engine, absent_at)  # type: ignore[arg-type]
    given = [unrelated] if isinstance(unrelated, Vocabulary) else list(unrelated)
    found = located(history, vocabulary, how, (history.id, "its vocabulary"), given)
    seen = evidence(
        history, vocabulary, coordinates=system, engine=engine,
        readout=chosen if isinstance(chosen, Steady) else "scan",
    )  # fmt: skip
    every = None
    if chosen.name == "joint":
        every = occurrences(
            history, vocabulary, coordinates=system, readout=chosen, engine=engine,  # type: ignore[arg-type]
        )  # fmt: skip
    return Reading(found, seen, every)
