"""What an engine is given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dejacue.cluster import check_engine
from dejacue.errors import InputError
from dejacue.pipeline.ingest.manifest import Item
from dejacue.pipeline.ingest.worker import Decoding
from dejacue.pipeline.ingest.writer import Writer
from dejacue.pipeline.options import EncoderOptions
from dejacue.sources.encoders import Encoder


@dataclass(frozen=True)
class RayOptions:
    """Where and how large.

    address          as in ``dejacue.cluster.connected``
    actors           that encode, each with a model (None: one for each GPU or, without, machine)
    gpus_per_actor   may be a part (None: 1 where the cluster has any, else 0)
    """

    address: str | None = None
    actors: int | None = None
    gpus_per_actor: float | None = None

    def check(self, engine: str) -> None:
        check_engine(engine, self.address)
        if engine != "ray" and self != RayOptions():
            raise InputError("actors need Ray; add --engine ray, or leave them out")
        if self.actors is not None and self.actors < 1:
            raise InputError(f"actors {self.actors}: give at least 1")
        if self.gpus_per_actor is not None and not 0 <= self.gpus_per_actor < 1e3:
            raise InputError(f"GPUs per actor {self.gpus_per_actor}: give 0 or more")


@dataclass(frozen=True, eq=False)
class Run:
    """Items to make histories of.

    items      each once; whoever takes one begins it
    total      how many there are
    encoder    the model; decoding: what other processes need
    workers    how many processes decode; None: as many as suit the machine
    writer     takes what became of each item
    source     the encoder as it was given, and how it is loaded elsewhere: options
    ray        where, and how large
    """

    items: Iterator[Item]
    total: int
    encoder: Encoder
    decoding: Decoding
    writer: Writer
    workers: int | None
    source: Encoder | str
    options: EncoderOptions
    ray: RayOptions
