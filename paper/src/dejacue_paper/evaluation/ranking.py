"""How high good candidates rank by their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError
from dejacue.evaluation.overlap import as_windows, tiou
from dejacue.records.arrays import Flags, Floats

SAME_OVERLAP = 1e-12
RANKING = (
    "mrr_03",
    "mrr_05",
    "recall_at_5_05",
    "recall_at_10_05",
    "recall_at_50_05",
    "best_overlap_normalized_rank",
    "top1_tiou",
    "oracle_tiou",
    "oracle_gap",
    "oracle_gap_closed_at_10",
)


def rank_candidates(
    windows: ArrayLike, scores: ArrayLike, references: Sequence[ArrayLike]
) -> dict[str, Floats]:
    """Return the measures of RANKING, one value per description.

    windows      (C, 2) candidates that all descriptions share
    scores       (Q, C); equal scores keep the order of the candidates
    references   the reference windows of each description

    mrr_θ                          1 / rank of the first candidate with tIoU ≥ θ, 0 if none
    recall_at_k_05                 whether one of the first k has tIoU ≥ .5
    best_overlap_normalized_rank   zero-based rank of the best-overlapping candidate / (C − 1);
                                   of several equally good ones, the first
    top1_tiou, oracle_tiou         overlap of the first, and of the best candidate
    oracle_gap_closed_at_10        share of the gap between them that the first ten close
    """
    candidates, table = as_windows(windows, "candidates"), np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != len(references):
        problem = f"scores of shape {table.shape} need one row per description ({len(references)})"
        raise InputError(problem)
    if table.shape[1] != len(candidates):
        problem = f"scores of shape {table.shape} need one column per candidate ({len(candidates)})"
        raise InputError(problem)
    if not table.shape[1] or np.isnan(table).any():
        raise InputError("there are no candidates to rank, or a score is not a number")
    measures: dict[str, list[float]] = {name: [] for name in RANKING}
    known: dict[bytes, Floats] = {}
    for row, rows in zip(table, references, strict=True):
        true = as_windows(rows, "reference windows")
        if not len(true):
            raise InputError("candidates are ranked against references; give each description one")
        key = true.tobytes()
        if key not in known:  # descriptions of one state share their references
            known[key] = tiou(candidates, true).max(axis=1)
        overlaps = known[key][np.argsort(-row, kind="stable")]
        for name, value in _measures(overlaps).items():
            measures[name].append(value)
    return {name: np.array(values) for name, values in measures.items()}


def _measures(overlaps: Floats) -> dict[str, float]:
    """Return the measures of one description; overlaps in the order of the scores."""
    selected, best = float(overlaps[0]), float(overlaps.max())
    first = int(np.argmax(overlaps >= best - SAME_OVERLAP))
    gap = best - selected
    closed = (float(overlaps[:10].max()) - selected) / gap if gap > 0 else 1.0
    return {
        "mrr_03": _reciprocal(overlaps >= 0.3),
        "mrr_05": _reciprocal(overlaps >= 0.5),
        **{f"recall_at_{k}_05": float((overlaps[:k] >= 0.5).any()) for k in (5, 10, 50)},
        "best_overlap_normalized_rank": first / max(1, len(overlaps) - 1),
        "top1_tiou": selected,
        "oracle_tiou": best,
        "oracle_gap": gap,
        "oracle_gap_closed_at_10": closed,
    }


def _reciprocal(good: Flags) -> float:
    return 1.0 / (int(np.argmax(good)) + 1) if good.any() else 0.0
