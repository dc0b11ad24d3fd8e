"""Hard negatives and identity on the four histories with tracks."""

from __future__ import annotations

import numpy as np

from dejacue.method.localization import candidates
from dejacue_paper.evaluation.identity import best_margin, best_outside
from dejacue_paper.experiments._identity import identity
from dejacue_paper.experiments.corpus import Benchmark, Corpus, Table
from dejacue_paper.experiments.table import (
    Experiment,
    Result,
    Value,
    interval_values,
    intervals,
    published,
)

NOT_FROM_THESE_FILES = (
    "Not explained. The margins have no randomness: they follow from the target and the text "
    "(sibling), and also from the tracks (joint). The paper's definitions give the values shown. "
    "The released tracks cover a few frames each, and no frame has two; the published identity "
    "figures may come from other tracks."
)

MARGINS = {"sibling_state": "the sibling state", "joint_identity_state": "another track"}


def _margins(corpus: Corpus, coordinates: str) -> Table:
    """Return (n, 2): best right window minus the best sibling window, and minus the best track
    window."""
    margins = []
    for entry in corpus.entries:
        words = entry.vocabulary
        windows, scores = candidates(
            entry.history, words, coordinates=coordinates, kernel=corpus.engine
        )
        tracks = [
            (
                track,
                *candidates(track.history, words, coordinates=coordinates, kernel=corpus.engine),
            )
            for track in entry.tracks
        ]
        for q, state in enumerate(words.state_names):
            references = [tuple(w) for w in entry.references[state]]
            others = [tuple(w) for s, ws in entry.references.items() if s != state for w in ws]
            right, sibling = best_margin(windows, scores[q], references, others)
            joint = max(
                best_outside(there, values[q], track.co_visible.get(state, ()))
                for track, there, values in tracks
            )
            margins.append((right - sibling, right - joint))
    return np.array(margins)


def hard_negatives(benchmark: Benchmark) -> Result:
    corpus, figures = benchmark.original, published()["hard_negatives"]
    change = _margins(corpus, "vocabulary") - _margins(corpus, "absolute")
    medians = np.array([np.median(change[rows], axis=0) for rows in corpus.rows.values()])
    values: list[Value] = []
    for name, key in (("absolute", "absolute_k3"), ("vocabulary", "query_only_k3")):
        right = identity(corpus, corpus.best_scores(name), name)
        accuracy = float(corpus.means(right).mean())
        values.append(
            Value(
                name,
                "identity",
                accuracy,
                figures["identity"][key] / 100,
                finding=NOT_FROM_THESE_FILES,
            )
        )
    for k, (name, here) in enumerate(zip(MARGINS, intervals(medians), strict=True)):
        theirs, row = figures["margins"][name], f"margin to {MARGINS[name]}, vocabulary − absolute"
        options = {"unit": "score", "finding": NOT_FROM_THESE_FILES}
        values += interval_values(row, "score", here, theirs["delta"], theirs["ci95"], **options)
        positive = float((change[:, k] > 0).sum())
        values.append(
            Value(
                row,
                "positive",
                positive,
                theirs["positive"],
                "mean",
                "count",
                finding=NOT_FROM_THESE_FILES,
            )
        )
        values.append(Value(row, "pairs", float(len(change)), theirs["pairs"], unit="count"))
    return Result(tuple(values), corpus.conditions("absolute", "vocabulary"))


EXPERIMENTS = (
    Experiment("hard-negatives", "Four histories: identity and hard negatives", hard_negatives),
)
