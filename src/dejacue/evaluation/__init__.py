"""Metrics as pure functions on arrays: no files, no plots, no method.

overlap → averages and resampling; evaluate() puts them together for timelines and references.
"""

from dejacue.evaluation.evaluate import Estimate as Estimate
from dejacue.evaluation.evaluate import Evaluation as Evaluation
from dejacue.evaluation.evaluate import evaluate as evaluate
from dejacue.evaluation.overlap import METRICS as METRICS
from dejacue.evaluation.overlap import best_tiou as best_tiou
from dejacue.evaluation.overlap import metrics as metrics
from dejacue.evaluation.overlap import recall_at as recall_at
from dejacue.evaluation.overlap import tiou as tiou
from dejacue.evaluation.resampling import Paired as Paired
from dejacue.evaluation.resampling import bootstrap_interval as bootstrap_interval
from dejacue.evaluation.resampling import compare as compare
from dejacue.evaluation.resampling import group_means as group_means
from dejacue.evaluation.resampling import holm as holm
from dejacue.evaluation.resampling import sign_flip as sign_flip
from dejacue.evaluation.resampling import sign_flip_exact as sign_flip_exact
