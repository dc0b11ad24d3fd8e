"""From a video and words to a Finding, as stages that others can call, too.

    Job       a video, which frames, where the object is, an encoder     job.py
      .open      → Video
      .observe   Where: masks, prompts, a region or a name → Observed   where.py
    encode    a job → Encoded: History and pictures of each object    _encode.py
    apply_readout   a history and words → Timeline                    _readout.py

``find`` and ``find_each`` (_find.py) call them one after the other and return a Finding
(finding.py). Information is logged ("dejacue"), progress is reported (dejacue.progress), and what a
reader must know is among the warnings of what is returned.
"""

from dejacue.pipeline._encode import Encoded, encode
from dejacue.pipeline._find import Search, find, find_each
from dejacue.pipeline._readout import apply_readout
from dejacue.pipeline.finding import Finding
from dejacue.pipeline.job import EncoderOptions, Job, VideoOptions
from dejacue.pipeline.where import ObjectSource, Observed, object_source
from dejacue.sources.findings import Provenance
from dejacue.sources.tracks.follow import TrackerOptions, follow
from dejacue.sources.tracks.prompts import TypedPrompts

__all__ = [
    "Encoded",
    "EncoderOptions",
    "Finding",
    "Job",
    "Provenance",
    "Observed",
    "Search",
    "TrackerOptions",
    "TypedPrompts",
    "VideoOptions",
    "ObjectSource",
    "apply_readout",
    "encode",
    "find",
    "find_each",
    "follow",
    "object_source",
]
