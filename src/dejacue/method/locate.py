"""locate(): the whole path, from a history and a vocabulary to the window of every description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.confidence import judged
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates
from dejacue.method.joint import Joint
from dejacue.method.occurrences import occurrences
from dejacue.method.plan import Plan, as_readout
from dejacue.method.readouts import Scan
from dejacue.method.states import Steady
from dejacue.method.view import Readout
from dejacue.records import Evidence, History, Reading, Retrieval, Vocabulary

SHOWN, ALL = 3, 1000  # windows of a contrast: one to take, two to choose from; occurrences
NEARLY = 1e-6  # of a cosine
CLOSE = 0.5  # of the best score: what an alternative reaches
STILL = (
    "all frames look the same to the encoder, so which of them are found is arbitrary; is it a "
    "still picture, or are the masks those of the background?"
)


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
    plan = check_reading(
        coordinates=coordinates, readout=readout, smoothing=smoothing, top=top,
        diagnostics=diagnostics, absent_at=absent_at, engine=engine,
    )  # fmt: skip
    chosen, system = plan.readout, plan.coordinates
    found = locate(
        history, vocabulary, coordinates=system, readout=chosen, smoothing=plan.smoothing,
        top=plan.top, diagnostics=diagnostics, unrelated=unrelated, absent_at=absent_at,
        engine=engine,
    )  # fmt: skip
    if top is None and isinstance(chosen, Contrast):
        found = _worth_a_look(found)
    if still(history):
        found = replace(found, notes=(*found.notes, STILL))
    elif isinstance(chosen, Contrast):
        hint = _returning(history, vocabulary, system, engine)
        found = replace(found, notes=(*found.notes, *hint))
    seen = evidence(
        history, vocabulary, coordinates=system, engine=engine, smoothing=plan.smoothing,
        readout=chosen if isinstance(chosen, Steady) else "scan",
    )  # fmt: skip
    every = None
    if isinstance(chosen, Joint):
        every = occurrences(history, vocabulary, coordinates=system, readout=chosen, engine=engine)
    return Reading(found, seen, every)


def check_reading(
    *,
    coordinates: str | Coordinates | None = None,
    readout: str | Readout = "contrast",
    smoothing: int | None = None,
    top: int | None = None,
    diagnostics: bool = False,
    absent_at: float | None = None,
    engine: str = "auto",
) -> Plan:
    """Refuses options of ``read`` that do not fit, before anything is looked at."""
    chosen = as_readout("scan" if readout == "published" else readout)
    if smoothing is not None and isinstance(chosen, Steady):
        raise InputError(
            f"smoothing={smoothing}: the readout {chosen.name} has its own; give it there, as "
            "smoothing_s or width"
        )
    if absent_at is not None:
        if not isinstance(chosen, Contrast):
            raise InputError("absent_at needs p-values, which the readout contrast has")
        if not 0 < absent_at < 1:
            raise InputError(f"absent_at {absent_at}: give a level between 0 and 1")
    usual = SHOWN if isinstance(chosen, Contrast) else ALL if isinstance(chosen, Joint) else 1
    return Plan.of(
        coordinates or "vocabulary", chosen, 3 if smoothing is None else smoothing,
        usual if top is None else top, diagnostics, engine,
    )  # fmt: skip


def still(history: History) -> bool:
    """Whether all its frames look the same to the encoder."""
    rows = history.features.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return len(rows) > 1 and bool((rows @ rows[0] > 1 - NEARLY).all())


def _worth_a_look(found: Retrieval) -> Retrieval:
    """Without alternatives that are far behind, where nobody asked for a number of them."""
    moments = tuple(
        replace(
            moment,
            alternatives=tuple(
                (window, score) for window, score in moment.alternatives
                if score >= CLOSE * moment.score
            ),
        )
        for moment in found
    )  # fmt: skip
    return replace(found, moments=moments)


def _returning(
    history: History, vocabulary: Vocabulary, coordinates: Coordinates, engine: str
) -> list[str]:
    """A hint where one window may be too few: a state with a second occurrence that is strong."""
    every = occurrences(history, vocabulary, coordinates=coordinates, engine=engine)
    labelled = sorted((m for own in every.values() for m in own), key=lambda m: m.window.start)
    visits = [list(own) for _, own in groupby(labelled, key=lambda moment: moment.state)]
    best = {state: own[0].score for state, own in every.items() if own}
    strong = [v[0].state for v in visits if sum(m.score for m in v) >= CLOSE * best[v[0].state]]
    names = [f'"{state}"' for state in dict.fromkeys(strong) if strong.count(state) > 1]
    if not names:
        return []
    return [f"{', '.join(names)} may hold more than once; --readout joint lists every occurrence"]
