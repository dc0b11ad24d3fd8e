"""How far two annotators agree over several histories, and how much scores depend on whose
boundaries count."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike

from dejacue.errors import InputError, named, unknown
from dejacue.evaluation.overlap import METRICS, best_tiou, metrics
from dejacue.evaluation.resampling import Levels, group_means
from dejacue_paper.evaluation.agreement import Agreement, Labels, cohen_kappa


@dataclass(frozen=True)
class Scope:
    """Says how far passes agree over some frames; macro averages the exact rates of histories."""

    pooled: Agreement
    macro: float


@dataclass(frozen=True)
class PassAgreement:
    """Says how far passes agree over all frames and, if these are given, over stable frames."""

    all_frames: Scope
    stable_frames: Scope | None = None


def agreement(
    passes: Mapping[str, tuple[Labels, Labels]], stable: Mapping[str, Sequence[bool]] | None = None
) -> PassAgreement:
    """Return agreement over several histories, pooled over frames and as a mean over histories.

    passes   history → labels of the first pass, labels of the second
    stable   history → for each of its frames, whether it is stable; every history needs one mask,
             and at least one stable frame
    """
    if not passes:
        raise InputError("nothing to compare: give the two passes of at least one history")
    everything = _scope(passes)
    if stable is None:
        return PassAgreement(everything)
    for history in stable:
        if history not in passes:
            raise unknown("history in the stable frames", history, passes)
    for history in passes:
        if history not in stable:
            raise InputError(f"history {history}: no mask of stable frames; give one")
    masked = {history: _masked(history, *passes[history], stable[history]) for history in passes}
    return PassAgreement(everything, _scope(masked))


def _masked(
    history: str, first: Labels, second: Labels, mask: Sequence[bool]
) -> tuple[Labels, ...]:
    stable = np.asarray(list(mask))
    if stable.dtype != np.bool_ or stable.shape != (len(first),):
        raise InputError(
            f"history {history}: the mask of stable frames must contain {len(first)} booleans, "
            f"not {stable.dtype} of shape {stable.shape}"
        )
    if not stable.any():
        raise InputError(f"history {history}: no stable frame to compare; leave this history out")
    return tuple(list(compress(labels, stable)) for labels in (first, second))


def _scope(passes: Mapping[str, Sequence[Labels]]) -> Scope:
    rates = []
    pooled: tuple[list[Hashable], list[Hashable]] = ([], [])
    for history, pair in passes.items():
        if len(pair) != 2:
            raise InputError(f"history {history}: {len(pair)} passes; give exactly two")
        with named(f"history {history}"):
            rates.append(cohen_kappa(*pair).observed)
        for labels, added in zip(pooled, pair, strict=True):
            labels.extend(added)
    return Scope(cohen_kappa(*pooled), sum(rates) / len(rates))


def boundary_sensitivity(
    retrieved: ArrayLike, reference_sets: Mapping[str, Sequence[ArrayLike]], levels: Levels
) -> dict[str, dict[str, float]]:
    """Score the same retrieved windows against the references of several annotators.

    retrieved        (R, 2) windows
    reference_sets   name → for each retrieved window, its reference windows
    levels           as in group_means, from fine to coarse

    Returns name → r1_03, r1_05 and top1_tiou: uniform means over the groups of the last level.
    """
    if not reference_sets:
        raise InputError("nothing to score against: give at least one set of references")
    scores = {}
    for name, references in reference_sets.items():
        with named(f'references "{name}"'):
            overlaps = best_tiou(retrieved, references)
        _, means = group_means(metrics(overlaps), levels)
        scores[name] = dict(zip(METRICS, means.mean(axis=0).tolist(), strict=True))
    return scores
