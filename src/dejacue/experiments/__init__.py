"""One function per published table, and the registry that ``dejacue reproduce`` lists."""

from __future__ import annotations

from dejacue.errors import unknown
from dejacue.experiments.table import Experiment, Result, Value
from dejacue.experiments.vost_main import MAIN

REGISTRY: dict[str, Experiment] = {"main": MAIN}


def experiment(name: str) -> Experiment:
    if name not in REGISTRY:
        raise unknown("experiment", name, REGISTRY)
    return REGISTRY[name]


__all__ = ["REGISTRY", "Experiment", "Result", "Value", "experiment"]
