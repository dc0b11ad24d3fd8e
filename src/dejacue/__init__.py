"""Déjà Cue: when is this object in which state?

from dejacue import find

finding = find("kitchen.mp4", "cup.yaml", masks="masks")
finding["filled"][0].start_s
"""

import importlib
from typing import TYPE_CHECKING, Any

from dejacue._lazy import lazy_names
from dejacue._version import __version__

if TYPE_CHECKING:  # the same for type checkers
    from dejacue import evaluation as evaluation
    from dejacue import files as files
    from dejacue import method as method
    from dejacue.corpus import Store as Store
    from dejacue.corpus.ingest import ingest as ingest
    from dejacue.errors import DejaCueError as DejaCueError
    from dejacue.errors import InputError as InputError
    from dejacue.evaluation.evaluate import evaluate as evaluate
    from dejacue.finding._encode import encode as encode
    from dejacue.finding._find import find as find
    from dejacue.finding._find import find_each as find_each
    from dejacue.finding._find import strip as strip
    from dejacue.finding._readout import read as read
    from dejacue.finding.finding import Finding as Finding
    from dejacue.finding.finding import load as load
    from dejacue.finding.live import Live as Live
    from dejacue.finding.locate import locate_object as locate_object
    from dejacue.finding.request import Sampling as Sampling
    from dejacue.finding.words import check_words as check_words
    from dejacue.masks import Masks as Masks
    from dejacue.masks import open_masks as open_masks
    from dejacue.method.localization import locate as locate
    from dejacue.models.encoders import encode_vocabulary as encode_vocabulary
    from dejacue.models.encoders import load_encoder as load_encoder
    from dejacue.models.trackers import Prompt as Prompt
    from dejacue.models.trackers import load_tracker as load_tracker
    from dejacue.records import Example as Example
    from dejacue.records import History as History
    from dejacue.records import Interval as Interval
    from dejacue.records import Reference as Reference
    from dejacue.records import Timeline as Timeline
    from dejacue.records import Vocabulary as Vocabulary
    from dejacue.video.video import Video as Video
    from dejacue.video.video import open_video as open_video

# Where each public name lives.
_NAMES = {
    "finding._find": "find find_each strip",
    "finding.request": "Sampling",
    "finding.finding": "Finding load",
    "corpus.ingest": "ingest",
    "finding.words": "check_words",
    "finding.live": "Live",
    "records": "History Vocabulary Example Interval Timeline Reference",
    "video.video": "Video open_video",
    "masks": "Masks open_masks",
    "models.encoders": "load_encoder encode_vocabulary",
    "finding.locate": "locate_object",
    "finding._encode": "encode",
    "finding._readout": "read",
    "models.trackers": "load_tracker Prompt",
    "method.localization": "locate",
    "corpus": "Store",
    "evaluation.evaluate": "evaluate",
    "errors": "DejaCueError InputError",
}
_MODULES = ("files", "method", "evaluation")  # with further names
_public, _get = lazy_names(__name__, _NAMES)
__all__ = ["__version__", *_public]


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"dejacue.{name}") if name in _MODULES else _get(name)


def __dir__() -> list[str]:
    return sorted(__all__)
