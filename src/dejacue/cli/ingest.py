"""``dejacue ingest``."""

from __future__ import annotations

from pathlib import Path

import typer

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say
from dejacue.errors import counted
from dejacue.pipeline.ingest import ManifestError, RayOptions, ingest
from dejacue.pipeline.options import EncoderOptions
from dejacue.store import Store

MOST_NAMED = 20  # problems, and failures; all are in the store


def run(
    manifest: str,
    store: Path,
    encoder: str | None,
    options: EncoderOptions,
    engine: str,
    ray: RayOptions,
    workers: int | None,
    retry: bool,
    replace: bool,
    max_pixels: int | None,
    decoder: str | None,
) -> None:
    """Exit code 1 where something failed."""
    try:
        with Bars() as bars:
            made = ingest(
                manifest,
                store,
                encoder=encoder,
                engine=engine,
                workers=workers,
                retry=retry,
                replace=replace,
                max_pixels=max_pixels,
                decoder=decoder,
                encoder_options=options,
                ray_address=ray.address,
                actors=ray.actors,
                gpus_per_actor=ray.gpus_per_actor,
                progress=bars,
            )
    except ManifestError as error:
        notes(*error.problems[1:])  # the first is in the sentence
        raise
    problems = [f"{id}: {text}" for id, several in made.problems.items() for text in several]
    notes(*problems[:MOST_NAMED])
    if len(problems) > MOST_NAMED:
        notes(f"and {len(problems) - MOST_NAMED} more problems: dejacue store show {store} ID")
    notes(*(f"{own.id}: {own.what}" for own in made.failed[:MOST_NAMED]))
    say(f"{store}: {made}")
    if made.failed:
        with Store.open(store) as there:
            kept = {own.id for own in there.failures()} & {own.id for own in made.failed}
        if kept:
            which = counted(len(kept), "failure")
            say(f"dejacue store failures {store} lists {which}; --retry tries again")
        raise typer.Exit(1)
