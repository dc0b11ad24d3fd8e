"""Metrics as pure functions on arrays: no files, no plots, no method."""

from dejacue.evaluation.averages import nested_mean
from dejacue.evaluation.overlap import best_tiou, recall_at, tiou

__all__ = ["best_tiou", "nested_mean", "recall_at", "tiou"]
