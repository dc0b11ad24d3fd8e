"""Does the state occur at all? A p-value against vocabularies that have nothing to do with it.

Every history has a window that fits some words better than the rest of it does. So the contrast
of a state is compared with the contrasts that unrelated states, encoded the same way, reach on
the same frames: p = (1 + those at least as high) / (1 + all). Where the state is absent, p is about
uniform; docs/beyond.md says how nearly, and how few present states stand out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.content_words import content_words
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import Coordinates, check_pair
from dejacue.method.plan import Plan
from dejacue.method.view import Batch, Readout, View
from dejacue.records import History, Moment, Retrieval, Vocabulary

CHANCE = 0.5  # a p-value above it says nothing for the state
FEW = 19  # unrelated states below which p cannot reach 5 %


def locate_with_p_values(
    history: History,
    vocabulary: Vocabulary,
    unrelated: Vocabulary | Sequence[Vocabulary],
    *,
    absent_at: float | None = None,
    readout: str | Readout = "contrast",
    coordinates: str | Coordinates | None = None,
    engine: str = "auto",
) -> Retrieval:
    """Locate with contrast, and give every moment a p-value.

    unrelated   vocabularies of other things (dejacue_paper.data.unrelated makes some)
    absent_at   moments with a higher p-value are marked absent
    """
    if vocabulary.examples or vocabulary.changes:
        raise InputError(
            "p-values compare words with words; they do not apply to states shown by examples"
        )
    plan = Plan.of(coordinates, readout, None, 1, False, engine)
    check_pair(history, vocabulary)
    if not isinstance(plan.readout, Contrast):
        raise InputError(
            f"p-values do not apply to the {plan.readout.name} readout; contrast has them"
        )
    if absent_at is not None and not 0 < absent_at < 1:
        raise InputError(f"absent_at {absent_at} must be between 0 and 1")
    view = plan.view(history, vocabulary)
    given = [unrelated] if isinstance(unrelated, Vocabulary) else list(unrelated)
    return with_p_values(plan.read(view).retrieval, plan.readout, view, given, absent_at)


def with_p_values(
    retrieval: Retrieval,
    readout: Readout,
    view: View,
    unrelated: Sequence[Vocabulary],
    absent_at: float | None,
) -> Retrieval:
    """The same with a p-value in every moment, marked absent where it lies above ``absent_at``."""
    others = unrelated_to(view.vocabulary, unrelated)
    null = null_scores(readout, view, others)
    values = p_values(np.array([moment.score for moment in retrieval]), null)
    moments = tuple(
        replace(moment, p_value=p, absent=absent_at is not None and p > absent_at)
        for moment, p in zip(retrieval, values.tolist(), strict=True)
    )
    notes = retrieval.notes
    if len(null) < FEW:
        notes += (
            f"only {len(null)} unrelated states for comparison, so no p-value is below "
            f"{1 / (1 + len(null)):.2f}",
        )
    notes += _doubtful(moments, absent_at)
    settings = {**retrieval.settings, "unrelated": len(null), "absent_at": absent_at}
    return replace(retrieval, moments=moments, notes=notes, settings=settings)


def _doubtful(moments: Sequence[Moment], absent_at: float | None) -> tuple[str, ...]:
    """The states that are marked absent or, where no level is given, that chance explains."""
    level = CHANCE if absent_at is None else absent_at
    highest: dict[str, float] = {}
    for moment in moments:
        if moment.p_value is not None and moment.p_value > level:
            highest[moment.state] = max(moment.p_value, highest.get(moment.state, 0.0))
    if not highest:
        return ()
    named = ", ".join(f'"{state}" (p {p:.2f})' for state, p in highest.items())
    if absent_at is None:
        return (
            f"{named}: unrelated words fit these frames just as well, so it may not occur at all",
        )
    return (f"not found: {named}, above the level {absent_at:g}",)


def p_values(scores: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """(Q,) shares of the null scores that reach each score, counting the score itself."""
    reached = len(null) - np.searchsorted(np.sort(null), scores)
    values: NDArray[np.float64] = (1 + reached) / (1 + len(null))
    return values


def unrelated_to(vocabulary: Vocabulary, others: Sequence[Vocabulary]) -> list[Vocabulary]:
    """Those that share no content word with the vocabulary, in descriptions or object; words count
    as they are written ("open" and "opened" are two)."""
    own = _words(vocabulary)
    found = [other for other in others if not own & _words(other)]
    if not others:
        raise InputError(
            "p-values need vocabularies of other objects for comparison; pass them as unrelated "
            "(dejacue_paper.data.unrelated has some)"
        )
    if not found:
        raise InputError(
            f"none of the {len(others)} vocabularies given for comparison is unrelated to this "
            "one; give vocabularies of other objects and states"
        )
    return found


def null_scores(readout: Readout, view: View, others: Sequence[Vocabulary]) -> NDArray[np.float64]:
    """The highest contrast of each unrelated state (with pooling below 1: of each description)."""
    for other in others:
        check_pair(view.history, other)
    histories = [view.history] * len(others)
    batch = Batch(histories, others, view.coordinates, readout.query_pooling, view.engine)
    scores = readout.find(batch).score
    if readout.level == "description":
        return scores
    first = np.cumsum([0, *(len(other) for other in others[:-1])])
    rows = [start + own.firsts for start, own in zip(first, batch.directions, strict=True)]
    chosen: NDArray[np.float64] = scores[np.concatenate(rows)]
    return chosen


def _words(vocabulary: Vocabulary) -> frozenset[str]:
    return content_words((*vocabulary.descriptions, vocabulary.object or ""))
