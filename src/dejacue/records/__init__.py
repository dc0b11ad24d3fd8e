"""The records every step takes and returns.

    History + Vocabulary ──▶ Evidence ──▶ Timeline of Intervals

All are frozen and validated once, when they are made; their arrays are read-only views. An array
that already has the right type is not copied, so do not write to it through another name.
Axes: N observed frames, Q descriptions, d dimensions. Windows are inclusive on both ends.
"""

from dejacue.records.history import History
from dejacue.records.interval import Diagnostics, Interval, Window
from dejacue.records.note import Note
from dejacue.records.reference import Reference
from dejacue.records.timeline import TIMELINE_SCHEMA, Evidence, Timeline, Timelines
from dejacue.records.vocabulary import Example, Vocabulary

__all__ = [
    "TIMELINE_SCHEMA",
    "Window",
    "History",
    "Vocabulary",
    "Example",
    "Evidence",
    "Diagnostics",
    "Interval",
    "Note",
    "Timeline",
    "Timelines",
    "Reference",
]
