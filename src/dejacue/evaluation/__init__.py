"""Metrics as pure functions on arrays: no files, no plots, no method.

overlap → averages → resampling; ranking, strata, consistency, occurrences, identity, agreement;
evaluate() puts the first three together for timelines and references.
"""

from dejacue.evaluation.agreement import (
    Agreement,
    PassAgreement,
    Scope,
    agreement,
    boundary_sensitivity,
    cohen_kappa,
)
from dejacue.evaluation.averages import duration_strata, group_means, nested_mean
from dejacue.evaluation.evaluate import Estimate, Evaluation, evaluate
from dejacue.evaluation.identity import best_margin, best_outside, identity_correct
from dejacue.evaluation.occurrences import average_precision, match, recurrence
from dejacue.evaluation.overlap import (
    METRICS,
    best_tiou,
    metrics,
    oracle_tiou,
    paired_tiou,
    paraphrase_pairs,
    recall_at,
    tiou,
)
from dejacue.evaluation.ranking import RANKING, rank_candidates
from dejacue.evaluation.resampling import (
    Paired,
    bootstrap_interval,
    compare,
    holm,
    sign_flip,
    sign_flip_exact,
    stratified_interval,
)

__all__ = [
    "METRICS",
    "RANKING",
    "Agreement",
    "Estimate",
    "Evaluation",
    "Paired",
    "PassAgreement",
    "Scope",
    "agreement",
    "average_precision",
    "best_margin",
    "best_outside",
    "best_tiou",
    "bootstrap_interval",
    "boundary_sensitivity",
    "cohen_kappa",
    "compare",
    "duration_strata",
    "evaluate",
    "group_means",
    "holm",
    "identity_correct",
    "match",
    "metrics",
    "nested_mean",
    "oracle_tiou",
    "paired_tiou",
    "paraphrase_pairs",
    "rank_candidates",
    "recall_at",
    "recurrence",
    "sign_flip",
    "sign_flip_exact",
    "stratified_interval",
    "tiou",
]
