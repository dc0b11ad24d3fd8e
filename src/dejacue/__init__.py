"""Déjà Cue: when is this object in which state?

from dejacue import find

finding = find("kitchen.mp4", "cup.yaml", masks="masks")
finding["filled"][0].start_s
"""

import importlib
from typing import TYPE_CHECKING, Any

from dejacue._version import __version__

if TYPE_CHECKING:  # the same for type checkers
    from dejacue import evaluation as evaluation
    from dejacue import files as files
    from dejacue import method as method
    from dejacue.errors import DejaCueError as DejaCueError
    from dejacue.errors import InputError as InputError
    from dejacue.evaluation.evaluate import evaluate as evaluate
    from dejacue.method.localization import locate as locate
    from dejacue.pipeline import Finding as Finding
    from dejacue.pipeline import Sampling as Sampling
    from dejacue.pipeline import find as find
    from dejacue.pipeline import find_each as find_each
    from dejacue.pipeline.ingest import ingest as ingest
    from dejacue.pipeline.live import Live as Live
    from dejacue.pipeline.words import check_words as check_words
    from dejacue.records import Example as Example
    from dejacue.records import History as History
    from dejacue.records import Interval as Interval
    from dejacue.records import Reference as Reference
    from dejacue.records import Timeline as Timeline
    from dejacue.records import Vocabulary as Vocabulary
    from dejacue.sources.build import build_history as build_history
    from dejacue.sources.encoders import encode_vocabulary as encode_vocabulary
    from dejacue.sources.encoders import load_encoder as load_encoder
    from dejacue.sources.masks import Masks as Masks
    from dejacue.sources.masks import open_masks as open_masks
    from dejacue.sources.tracks import Prompt as Prompt
    from dejacue.sources.tracks import load_tracker as load_tracker
    from dejacue.sources.tracks import track as track
    from dejacue.sources.video import Video as Video
    from dejacue.sources.video import open_video as open_video
    from dejacue.store import Store as Store

# Where each public name lives; it is imported when it is first used, so that ``import dejacue``
# and ``dejacue --help`` cost next to nothing.
_NAMES = {
    "pipeline": "find find_each Sampling Finding",
    "pipeline.ingest": "ingest",
    "pipeline.words": "check_words",
    "pipeline.live": "Live",
    "records": "History Vocabulary Example Interval Timeline Reference",
    "sources.video": "Video open_video",
    "sources.masks": "Masks open_masks",
    "sources.encoders": "load_encoder encode_vocabulary",
    "sources.build": "build_history",
    "sources.tracks": "track load_tracker Prompt",
    "method.localization": "locate",
    "store": "Store",
    "evaluation.evaluate": "evaluate",
    "errors": "DejaCueError InputError",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("files", "method", "evaluation")  # with further names
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dejacue.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'dejacue' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dejacue.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
