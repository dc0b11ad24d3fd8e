"""Déjà Cue: when is this object in which state?

from dejacue import History, Vocabulary, locate

retrieval = locate(history, vocabulary)
retrieval["filled"][0].window
"""

from dejacue._version import __version__
from dejacue.errors import DejaCueError, InputError, MissingData, MissingExtra
from dejacue.method.batch import locate_many
from dejacue.method.durations import Grid
from dejacue.method.locate import candidates, evidence, locate
from dejacue.method.nonoverlap import NonOverlap
from dejacue.method.readouts import Boxcar, MaxFrame, MeanWindow, Peak, Scan
from dejacue.records import Diagnostics, Evidence, History, Moment, Retrieval, Vocabulary, Window

__all__ = [
    "__version__",
    "Window",
    "History",
    "Vocabulary",
    "Evidence",
    "Moment",
    "Diagnostics",
    "Retrieval",
    "locate",
    "locate_many",
    "evidence",
    "candidates",
    "Scan",
    "Grid",
    "MeanWindow",
    "Boxcar",
    "MaxFrame",
    "Peak",
    "NonOverlap",
    "DejaCueError",
    "InputError",
    "MissingData",
    "MissingExtra",
]
