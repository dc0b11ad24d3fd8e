"""One function per published table, and the registries that ``dejacue reproduce`` lists.

REGISTRY is what "all" means; ON_REQUEST holds experiments of our own, which are run by name.
"""

from __future__ import annotations

from dejacue.errors import unknown
from dejacue_paper.experiments import (
    asked,
    beyond,
    calibrated,
    development,
    examples,
    learned,
    like,
    missing,
    negatives,
    noise,
    occurrences,
    protocol,
    rendered,
    sampling,
    segments,
    seven,
    stress,
    strips,
    synthetic,
    timeline,
    tracking,
    unreleased,
    vost,
    vost_extended,
    words,
)
from dejacue_paper.experiments.table import Experiment, Result, Value

MODULES = (
    protocol,
    vost,
    vost_extended,
    seven,
    missing,
    stress,
    negatives,
    synthetic,
    development,
    learned,
    unreleased,
    rendered,
    beyond,
    timeline,
    noise,
    sampling,
    occurrences,
    segments,
    words,
    examples,
    like,
    strips,
    tracking,
    asked,
    calibrated,
)
_ALL = [entry for module in MODULES for entry in module.EXPERIMENTS]
REGISTRY: dict[str, Experiment] = {e.name: e for e in _ALL if not e.on_request}
ON_REQUEST: dict[str, Experiment] = {e.name: e for e in _ALL if e.on_request}


def experiment(name: str) -> Experiment:
    known = {**REGISTRY, **ON_REQUEST}
    if name not in known:
        raise unknown("experiment", name, ["all", *known])
    return known[name]


__all__ = ["ON_REQUEST", "REGISTRY", "Experiment", "Result", "Value", "experiment"]
