"""What an engine is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dejacue.pipeline.ingest.crops import Look
from dejacue.pipeline.ingest.manifest import Item
from dejacue.pipeline.ingest.writer import Writer
from dejacue.progress import Progress
from dejacue.sources.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Run:
    """Items to make histories of.

    items      each once; whoever takes one begins it
    total      how many there are
    encoder    the model; look: all of it but the model
    workers    how many processes decode; None: as many as suit the machine
    writer     takes what became of each item
    """

    items: Iterator[Item]
    total: int
    encoder: Encoder
    look: Look
    writer: Writer
    workers: int | None
    progress: Progress
