"""From a video and words to a Finding, as stages that others can call, too.

    FindRequest   what is asked                                        request.py
    Job       a video, which frames, where the object is, an encoder     job.py
      .open      → Video
      .observe   ObjectSource: masks, prompts, a region or a name → Observed   where.py
    encode    a job → Encoded: History and pictures of each object    _encode.py
    apply_readout   a history and words → Timeline                    _readout.py

``find`` and ``find_each`` (_find.py) call them one after the other and return a Finding
(finding.py). Information is logged ("dejacue"), progress is reported (dejacue.progress), and what a
reader must know is among the warnings of what is returned.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same for type checkers
    from dejacue.pipeline._encode import Encoded as Encoded
    from dejacue.pipeline._encode import encode as encode
    from dejacue.pipeline._find import Search as Search
    from dejacue.pipeline._find import find as find
    from dejacue.pipeline._find import find_each as find_each
    from dejacue.pipeline._readout import apply_readout as apply_readout
    from dejacue.pipeline.finding import Finding as Finding
    from dejacue.pipeline.job import EncoderOptions as EncoderOptions
    from dejacue.pipeline.job import Job as Job
    from dejacue.pipeline.request import FindRequest as FindRequest
    from dejacue.pipeline.request import Sampling as Sampling
    from dejacue.pipeline.where import ObjectSource as ObjectSource
    from dejacue.pipeline.where import Observed as Observed
    from dejacue.pipeline.where import object_source as object_source
    from dejacue.sources.findings import Provenance as Provenance
    from dejacue.sources.tracks.follow import TrackerOptions as TrackerOptions
    from dejacue.sources.tracks.follow import follow as follow
    from dejacue.sources.tracks.prompts import TypedPrompts as TypedPrompts

# Where each name lives; it is imported when it is first used, so that the command line can read the
# fields of a request (request.py) without numpy.
_NAMES = {
    "pipeline._encode": "Encoded encode",
    "pipeline._find": "Search find find_each",
    "pipeline._readout": "apply_readout",
    "pipeline.finding": "Finding",
    "pipeline.job": "EncoderOptions Job",
    "pipeline.request": "FindRequest Sampling",
    "pipeline.where": "ObjectSource Observed object_source",
    "sources.findings": "Provenance",
    "sources.tracks.follow": "TrackerOptions follow",
    "sources.tracks.prompts": "TypedPrompts",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dejacue.pipeline' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dejacue.{_HOME[name]}"), name)
    globals()[name] = value
    return value
