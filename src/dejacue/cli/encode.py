"""``dejacue encode``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say
from dejacue.errors import InputError
from dejacue.pipeline import Job, encode
from dejacue.pipeline.ingest import check_room, open_store
from dejacue.sources.atomic import check_place


def run(job: Job, output: Path | None, store: Path | None, replace: bool) -> None:
    """What is wrong with the input is said before a model is loaded."""
    if output is None and store is None:
        raise InputError("give a place for the history: -o x.history.npz, or --store FOLDER")
    video = job.open()
    job.encoder_options.check(job.encoder)
    observed = job.observe(video)
    if output is not None:
        check_place(output, folder=output.suffix != ".npz")
    if store is not None:
        check_room(store, observed.objects, replace)
    loaded = job.load()
    with contextlib.ExitStack() as held:
        target = None if store is None else held.enter_context(open_store(store, loaded))
        with Bars() as bars:
            made = encode(
                job,
                observed=observed,
                encoder=loaded,
                output=output,
                pictures=False,
                progress=bars,
            )
        if target is not None:
            histories = [own.history for own in made.values()]
            target.add(histories, replace=replace, source=os.fspath(video.path))
    notes(*(text for own in made.values() for text in own.warnings))
    for own in made.values():
        say(f"{own.file or store}: {own.history!r}")
