"""Metrics as pure functions on arrays: no files, no plots, no method.

overlap → averages and resampling; agreement; evaluate() puts the first two together for timelines
and references.
"""

from dejacue.evaluation.agreement import (
    Agreement,
    PassAgreement,
    Scope,
    agreement,
    boundary_sensitivity,
    cohen_kappa,
)
from dejacue.evaluation.evaluate import Estimate, Evaluation, evaluate
from dejacue.evaluation.overlap import (
    METRICS,
    best_tiou,
    metrics,
    oracle_tiou,
    paired_tiou,
    recall_at,
    tiou,
)
from dejacue.evaluation.resampling import (
    Paired,
    bootstrap_interval,
    compare,
    group_means,
    holm,
    nested_mean,
    sign_flip,
    sign_flip_exact,
    stratified_interval,
)

__all__ = [
    "METRICS",
    "Agreement",
    "Estimate",
    "Evaluation",
    "Paired",
    "PassAgreement",
    "Scope",
    "agreement",
    "best_tiou",
    "bootstrap_interval",
    "boundary_sensitivity",
    "cohen_kappa",
    "compare",
    "evaluate",
    "group_means",
    "holm",
    "metrics",
    "nested_mean",
    "oracle_tiou",
    "paired_tiou",
    "recall_at",
    "sign_flip",
    "sign_flip_exact",
    "stratified_interval",
    "tiou",
]
