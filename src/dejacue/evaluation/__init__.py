"""Metrics as pure functions on arrays: no files, no plots, no method."""

from dejacue.evaluation.averages import group_means, nested_mean
from dejacue.evaluation.overlap import best_tiou, recall_at, tiou
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
    "Paired",
    "best_tiou",
    "bootstrap_interval",
    "compare",
    "group_means",
    "holm",
    "nested_mean",
    "recall_at",
    "sign_flip",
    "sign_flip_exact",
    "stratified_interval",
    "tiou",
]
