"""Déjà Cue: when is this object in which state?

from dejacue import find

finding = find("kitchen.mp4", "cup.yaml", masks="masks")
finding["filled"][0].start_s
"""

import importlib
from typing import TYPE_CHECKING, Any

from dejacue._version import __version__

if TYPE_CHECKING:  # the same for type checkers
    from dejacue.data.layouts import open_dataset as open_dataset
    from dejacue.errors import Cancelled as Cancelled
    from dejacue.errors import DejaCueError as DejaCueError
    from dejacue.errors import InputError as InputError
    from dejacue.errors import MissingData as MissingData
    from dejacue.errors import MissingExtra as MissingExtra
    from dejacue.evaluation.evaluate import Evaluation as Evaluation
    from dejacue.evaluation.evaluate import evaluate as evaluate
    from dejacue.method.contrast import Contrast as Contrast
    from dejacue.method.durations import Grid as Grid
    from dejacue.method.joint import Joint as Joint
    from dejacue.method.live import LiveReading as LiveReading
    from dejacue.method.locate import candidates as candidates
    from dejacue.method.locate import evidence as evidence
    from dejacue.method.locate import locate as locate
    from dejacue.method.locate import locate_many as locate_many
    from dejacue.method.questions import Question as Question
    from dejacue.method.questions import next_question as next_question
    from dejacue.method.scan_readout import Scan as Scan
    from dejacue.method.segments import segments as segments
    from dejacue.method.together import locate_together as locate_together
    from dejacue.pipeline import Finding as Finding
    from dejacue.pipeline import find as find
    from dejacue.pipeline import find_each as find_each
    from dejacue.pipeline.dataset import evaluate_dataset as evaluate_dataset
    from dejacue.pipeline.ingest import ingest as ingest
    from dejacue.pipeline.live import Live as Live
    from dejacue.pipeline.widget import widget as widget
    from dejacue.pipeline.words import check_words as check_words
    from dejacue.records import Diagnostics as Diagnostics
    from dejacue.records import Evidence as Evidence
    from dejacue.records import Example as Example
    from dejacue.records import History as History
    from dejacue.records import Interval as Interval
    from dejacue.records import Reference as Reference
    from dejacue.records import Timeline as Timeline
    from dejacue.records import Vocabulary as Vocabulary
    from dejacue.records import Window as Window
    from dejacue.records.words import WordsReport as WordsReport
    from dejacue.sources.build import build_history as build_history
    from dejacue.sources.encoders import encode_vocabulary as encode_vocabulary
    from dejacue.sources.encoders import load_encoder as load_encoder
    from dejacue.sources.files import read_history as read_history
    from dejacue.sources.files import read_vocabulary as read_vocabulary
    from dejacue.sources.files import write_history as write_history
    from dejacue.sources.files import write_vocabulary as write_vocabulary
    from dejacue.sources.masks import open_masks as open_masks
    from dejacue.sources.results import read_references as read_references
    from dejacue.sources.results import read_timelines as read_timelines
    from dejacue.sources.results import write_references as write_references
    from dejacue.sources.results import write_timelines as write_timelines
    from dejacue.sources.tracks import Prompt as Prompt
    from dejacue.sources.tracks import load_tracker as load_tracker
    from dejacue.sources.tracks import track as track
    from dejacue.sources.video import open_video as open_video
    from dejacue.store import Store as Store

# Where each public name lives; it is imported when it is first used, so that ``import dejacue``
# and ``dejacue --help`` cost next to nothing.
_NAMES = {
    "pipeline": "find find_each Finding",
    "pipeline.ingest": "ingest",
    "pipeline.dataset": "evaluate_dataset",
    "pipeline.words": "check_words",
    "pipeline.widget": "widget",
    "records.words": "WordsReport",
    "pipeline.live": "Live",
    "records": "Window History Vocabulary Example Evidence Diagnostics Interval Timeline Reference",
    "sources.files": "read_history write_history read_vocabulary write_vocabulary",
    "sources.video": "open_video",
    "sources.masks": "open_masks",
    "sources.encoders": "load_encoder encode_vocabulary",
    "sources.build": "build_history",
    "sources.tracks": "track load_tracker Prompt",
    "sources.results": "read_timelines write_timelines read_references write_references",
    "method.locate": "locate locate_many evidence candidates",
    "method.questions": "next_question Question",
    "method.contrast": "Contrast",
    "method.joint": "Joint",
    "method.live": "LiveReading",
    "method.together": "locate_together",
    "method.scan_readout": "Scan",
    "method.durations": "Grid",
    "method.segments": "segments",
    "store": "Store",
    "evaluation.evaluate": "evaluate Evaluation",
    "data.layouts": "open_dataset",
    "errors": "Cancelled DejaCueError InputError MissingData MissingExtra",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dejacue' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dejacue.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
