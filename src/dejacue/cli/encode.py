"""``dejacue encode``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say
from dejacue.errors import InputError
from dejacue.pipeline import EncoderOptions, VideoOptions, encode, observe, sample
from dejacue.pipeline._encode import recorded
from dejacue.pipeline.ingest import check_room, open_store
from dejacue.sources.atomic import check_place


def run(
    path: Path,
    frames: VideoOptions,
    where: dict[str, Any],
    encoder: str | None,
    options: EncoderOptions,
    output: Path | None,
    store: Path | None,
    replace: bool,
) -> None:
    """What is wrong with the input is said before a model is loaded."""
    if output is None and store is None:
        raise InputError("give a place for the history: -o x.history.npz, or --store FOLDER")
    video = sample(path, frames)
    options.check(encoder)
    observed = observe(video, **where)
    if output is not None:
        check_place(output, folder=output.suffix != ".npz")
    if store is not None:
        check_room(store, observed.objects, replace)
    loaded = options.load(encoder)
    with contextlib.ExitStack() as held:
        target = None if store is None else held.enter_context(open_store(store, loaded))
        before = recorded(output, observed.objects)
        every = frames.every(video, getattr(loaded, "pace", None), before)
        with Bars() as bars:
            made = encode(
                video,
                observed,
                loaded,
                output=output,
                pictures=False,
                every=every,
                progress=bars,
            )
        if target is not None:
            histories = [own.history for own in made.values()]
            target.add(histories, replace=replace, source=os.fspath(path))
    notes(*(text for own in made.values() for text in own.warnings))
    for own in made.values():
        say(f"{own.file or store}: {own.history!r}")
