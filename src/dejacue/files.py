"""Read and write histories, vocabularies, timelines and references."""

from dejacue.sources.files import read_history, read_vocabulary, write_history, write_vocabulary
from dejacue.sources.results import (
    read_references,
    read_timelines,
    write_references,
    write_timelines,
)

__all__ = [
    "read_history",
    "read_references",
    "read_timelines",
    "read_vocabulary",
    "write_history",
    "write_references",
    "write_timelines",
    "write_vocabulary",
]
