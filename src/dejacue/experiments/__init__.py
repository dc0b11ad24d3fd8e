"""One function per published table, and the registry that ``dejacue reproduce`` lists."""

from __future__ import annotations

from dejacue.errors import unknown
from dejacue.experiments import (
    arithmetic,
    development,
    missing,
    negatives,
    protocol,
    seven,
    stress,
    synthetic,
    vost,
    vost_extended,
)
from dejacue.experiments.table import Experiment, Result, Value

MODULES = (
    protocol, vost, vost_extended, seven, missing, stress, negatives, synthetic, development,
    arithmetic,
)  # fmt: skip
REGISTRY: dict[str, Experiment] = {
    entry.name: entry for module in MODULES for entry in module.EXPERIMENTS
}


def experiment(name: str) -> Experiment:
    if name not in REGISTRY:
        raise unknown("experiment", name, ["all", *REGISTRY])
    return REGISTRY[name]


__all__ = ["REGISTRY", "Experiment", "Result", "Value", "experiment"]
