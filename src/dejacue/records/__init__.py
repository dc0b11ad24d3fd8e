"""The records every step takes and returns.

    History + Vocabulary ──▶ Evidence ──▶ Moments ──▶ Retrieval

All are frozen and validated once, when they are made; their arrays are read-only views. An array
that already has the right type is not copied, so do not write to it through another name.
Axes: N observed frames, Q descriptions, d dimensions. Windows are inclusive on both ends.
"""

from dejacue.records.columns import Columns, LazyMoments, Retrievals
from dejacue.records.example import Example
from dejacue.records.history import History
from dejacue.records.reading import Reading
from dejacue.records.reference import Reference
from dejacue.records.retrieval import (
    RETRIEVAL_SCHEMA,
    Alternative,
    Diagnostics,
    Evidence,
    Moment,
    Retrieval,
)
from dejacue.records.vocabulary import Vocabulary
from dejacue.records.window import Window

__all__ = [
    "RETRIEVAL_SCHEMA",
    "Window",
    "History",
    "Vocabulary",
    "Example",
    "Evidence",
    "Diagnostics",
    "Moment",
    "Alternative",
    "Retrieval",
    "Retrievals",
    "Columns",
    "LazyMoments",
    "Reading",
    "Reference",
]
