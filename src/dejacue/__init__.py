"""Déjà Cue: when is this object in which state?

from dejacue import find

finding = find("kitchen.mp4", "cup.yaml", masks="masks")
finding["filled"][0].times_s
"""

import importlib
from typing import TYPE_CHECKING, Any

from dejacue._version import __version__

if TYPE_CHECKING:
    from dejacue.data.release import load_release
    from dejacue.data.synthetic import generate
    from dejacue.errors import Cancelled, DejaCueError, InputError, MissingData, MissingExtra
    from dejacue.evaluation.evaluate import Evaluation, evaluate
    from dejacue.method.batch import locate_many
    from dejacue.method.contrast import Contrast
    from dejacue.method.durations import Grid
    from dejacue.method.joint import Joint
    from dejacue.method.locate import candidates, evidence, locate, occurrences
    from dejacue.method.nonoverlap import NonOverlap
    from dejacue.method.readouts import Boxcar, MaxFrame, MeanWindow, Peak, Scan
    from dejacue.pipeline import Finding, find, find_each
    from dejacue.records import (
        Diagnostics,
        Evidence,
        History,
        Moment,
        Reference,
        Retrieval,
        Vocabulary,
        Window,
    )
    from dejacue.sources.build import build_history
    from dejacue.sources.encoders import encode_vocabulary, load_encoder
    from dejacue.sources.files import (
        read_history,
        read_vocabulary,
        write_history,
        write_vocabulary,
    )
    from dejacue.sources.masks import open_masks
    from dejacue.sources.results import (
        read_references,
        read_retrievals,
        write_references,
        write_retrievals,
    )
    from dejacue.sources.tracks import Prompt, load_tracker, track
    from dejacue.sources.video import open_video

# Where each public name lives; it is imported when it is first used, so that ``import dejacue``
# and ``dejacue --help`` cost next to nothing.
_HOME = {
    "find": "pipeline",
    "find_each": "pipeline",
    "Finding": "pipeline",
    "Window": "records",
    "History": "records",
    "Vocabulary": "records",
    "Evidence": "records",
    "Moment": "records",
    "Diagnostics": "records",
    "Retrieval": "records",
    "Reference": "records",
    "read_history": "sources.files",
    "write_history": "sources.files",
    "read_vocabulary": "sources.files",
    "write_vocabulary": "sources.files",
    "open_video": "sources.video",
    "open_masks": "sources.masks",
    "load_encoder": "sources.encoders",
    "encode_vocabulary": "sources.encoders",
    "build_history": "sources.build",
    "track": "sources.tracks",
    "load_tracker": "sources.tracks",
    "Prompt": "sources.tracks",
    "read_retrievals": "sources.results",
    "write_retrievals": "sources.results",
    "read_references": "sources.results",
    "write_references": "sources.results",
    "locate": "method.locate",
    "locate_many": "method.batch",
    "evidence": "method.locate",
    "candidates": "method.locate",
    "occurrences": "method.locate",
    "Contrast": "method.contrast",
    "Joint": "method.joint",
    "Scan": "method.readouts",
    "Grid": "method.durations",
    "MeanWindow": "method.readouts",
    "Boxcar": "method.readouts",
    "MaxFrame": "method.readouts",
    "Peak": "method.readouts",
    "NonOverlap": "method.nonoverlap",
    "evaluate": "evaluation.evaluate",
    "Evaluation": "evaluation.evaluate",
    "load_release": "data.release",
    "generate": "data.synthetic",
    "Cancelled": "errors",
    "DejaCueError": "errors",
    "InputError": "errors",
    "MissingData": "errors",
    "MissingExtra": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dejacue' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dejacue.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "__version__",
    "find",
    "find_each",
    "Finding",
    "Window",
    "History",
    "Vocabulary",
    "Evidence",
    "Moment",
    "Diagnostics",
    "Retrieval",
    "Reference",
    "read_history",
    "write_history",
    "read_vocabulary",
    "write_vocabulary",
    "open_video",
    "open_masks",
    "load_encoder",
    "encode_vocabulary",
    "build_history",
    "track",
    "load_tracker",
    "Prompt",
    "read_retrievals",
    "write_retrievals",
    "read_references",
    "write_references",
    "locate",
    "locate_many",
    "evidence",
    "candidates",
    "occurrences",
    "Contrast",
    "Joint",
    "Scan",
    "Grid",
    "MeanWindow",
    "Boxcar",
    "MaxFrame",
    "Peak",
    "NonOverlap",
    "evaluate",
    "Evaluation",
    "load_release",
    "generate",
    "Cancelled",
    "DejaCueError",
    "InputError",
    "MissingData",
    "MissingExtra",
]
