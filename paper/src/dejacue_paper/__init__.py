"""The paper of dejacue: its release, data sets, tables, ablations, studies, learned decoders."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dejacue_paper.data.dataset import evaluate_dataset as evaluate_dataset
    from dejacue_paper.data.layouts import open_dataset as open_dataset
    from dejacue_paper.data.release import load_release as load_release
    from dejacue_paper.data.synthetic import generate as generate
    from dejacue_paper.method.nonoverlap import NonOverlap as NonOverlap
    from dejacue_paper.method.ordered import Ordered as Ordered
    from dejacue_paper.method.readouts import Boxcar as Boxcar
    from dejacue_paper.method.readouts import MaxFrame as MaxFrame
    from dejacue_paper.method.readouts import MeanWindow as MeanWindow
    from dejacue_paper.method.readouts import Peak as Peak

# Where each public name lives; it is imported when it is first used, as in dejacue.
_NAMES = {
    "data.release": "load_release",
    "data.synthetic": "generate",
    "data.layouts": "open_dataset",
    "data.dataset": "evaluate_dataset",
    "method.readouts": "MeanWindow Boxcar MaxFrame Peak",
    "method.nonoverlap": "NonOverlap",
    "method.ordered": "Ordered",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dejacue_paper' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dejacue_paper.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
