"""What a calibrated readout looks at: for each description and frame, a few kinds of evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dejacue.errors import InputError, unknown
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import as_coordinates
from dejacue.method.view import PUBLISHED_WIDTH, View

Table = NDArray[np.float64]  # (Q, N)

CLIP = 6.0  # of calibrated evidence: one wild frame does not decide
CONTRAST = Contrast()


def seen_in(view: View, coordinates: str, pooling: float = 0.0) -> View:
    """The same history in other coordinates; made once for each view."""
    return view.once(
        ("seen in", coordinates, pooling),
        lambda: View(
            view.history, view.vocabulary, as_coordinates(coordinates), pooling, view.engine
        ),
    )


def _responses(coordinates: str) -> Callable[[View], Table]:
    return lambda view: seen_in(view, coordinates).respond(PUBLISHED_WIDTH)[0]


def _contrast(view: View) -> Table:
    """The evidence of contrast, that of its state for each description."""
    pooled = seen_in(view, "vocabulary", 1.0)
    rows: Table = CONTRAST.seen(pooled)[1].responses[0][view.vocabulary.labels]
    return rows


def _siblings(view: View, rows: Table) -> list[Table]:
    """For each description the means of the other states, (S − 1, N)."""
    labels = view.vocabulary.labels
    states = np.stack([rows[labels == state].mean(axis=0) for state in range(labels.max() + 1)])
    if len(states) < 2:
        raise InputError(
            f"history {view.history.id}: its vocabulary has only one state, but sibling evidence "
            "needs two; add a state, or fit with the features vocabulary, absolute, dual"
        )
    return [np.delete(states, own, axis=0) for own in labels]


def _sibling(view: View) -> Table:
    rows = _responses("vocabulary")(view)
    return np.stack([others.max(axis=0) for others in _siblings(view, rows)])


def _share(view: View) -> Table:
    """Softmax of a description's response among itself and its siblings."""
    rows = _responses("vocabulary")(view)
    shares = []
    for own, others in zip(rows, _siblings(view, rows), strict=True):
        most = np.maximum(own, others.max(axis=0))
        mine = np.exp(own - most)
        shares.append(mine / (mine + np.exp(others - most).sum(axis=0)))
    return np.stack(shares)


def _margin(view: View) -> Table:
    """Plain cosine less that of the best sibling."""
    rows = seen_in(view, "absolute").cosines.astype(np.float64)
    best = np.stack([others.max(axis=0) for others in _siblings(view, rows)])
    return np.asarray(rows - best)


FEATURES: dict[str, Callable[[View], Table]] = {
    "vocabulary": _responses("vocabulary"),
    "absolute": _responses("absolute"),
    "dual": _responses("dual"),
    "sibling": _sibling,
    "share": _share,
    "margin": _margin,
    "contrast": _contrast,
}


def check_features(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each known and given once."""
    for name in names:
        if name not in FEATURES:
            raise unknown("feature", name, FEATURES)
    if not names or len(set(names)) < len(names):
        raise InputError("features: name one or more, each of them once")
    return tuple(names)


def features_of(view: View, names: Sequence[str]) -> NDArray[np.float64]:
    """(Q, N, F) values, clipped; each computed once for a view."""
    tables = [view.once(("feature", name), partial(FEATURES[name], view)) for name in names]
    return np.clip(np.stack(tables, axis=2), -CLIP, CLIP)
