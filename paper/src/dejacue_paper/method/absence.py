"""Does the state occur at all? A p-value against vocabularies that have nothing to do with it.

Every history has a window that fits some words better than the rest of it does. So the contrast
of a state is compared with the contrasts that unrelated states, encoded the same way, reach on
the same frames: p = (1 + those at least as high) / (1 + all). Where the state is absent, p is about
uniform; paper/docs/beyond.md says how nearly, and how few present states stand out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError
from dejacue.method.coordinates import check_pair
from dejacue.method.localization import Plan
from dejacue.method.readout import Readout, View
from dejacue.models.encoders.mini import content_words
from dejacue.records import History, Vocabulary


def state_p_values(
    history: History, vocabulary: Vocabulary, unrelated: Sequence[Vocabulary], engine: str = "auto"
) -> dict[str, float]:
    """Return the p-value of each state of ``contrast``: the share of unrelated states that fit as
    well."""
    if vocabulary.examples or vocabulary.changes:
        raise InputError(
            "p-values compare words with words; leave out the examples and changes of states"
        )
    plan = Plan.of(None, "contrast", None, False, engine)
    view = plan.view(history, vocabulary)
    null = null_scores(plan.readout, view, unrelated_to(vocabulary, unrelated))
    scores = view.windows.score
    return dict(zip(vocabulary.states, p_values(scores, null).tolist(), strict=True))


def p_values(scores: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (Q,) shares of the null scores that reach each score, counting the score itself."""
    reached = len(null) - np.searchsorted(np.sort(null), scores)
    values: NDArray[np.float64] = (1 + reached) / (1 + len(null))
    return values


def unrelated_to(vocabulary: Vocabulary, others: Sequence[Vocabulary]) -> list[Vocabulary]:
    """Select vocabularies that share no content word with this one, in descriptions or object;
    words count as they are written ("open" and "opened" are two)."""
    words = _words(vocabulary)
    unrelated = [candidate for candidate in others if not words & _words(candidate)]
    if not others:
        raise InputError(
            "p-values need vocabularies of other objects for comparison; "
            "pass them as unrelated (dejacue_paper.data.unrelated has some)"
        )
    if not unrelated:
        raise InputError(
            f"none of the {len(others)} vocabularies given for comparison is unrelated to this "
            "one; give vocabularies of other objects and states"
        )
    return unrelated


def null_scores(readout: Readout, view: View, others: Sequence[Vocabulary]) -> NDArray[np.float64]:
    """Return the highest contrast of each unrelated state (with pooling below 1: of each
    description)."""
    for vocabulary in others:
        check_pair(view.history, vocabulary)
    views = (readout.view(view.history, v, view.coordinates, view.engine) for v in others)
    return np.concatenate([other.windows.score for other in views])


def _words(vocabulary: Vocabulary) -> frozenset[str]:
    return content_words((*vocabulary.descriptions, vocabulary.object or ""))
