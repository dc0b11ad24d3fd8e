"""``dejacue encode``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dejacue.cli.bars import Bars
from dejacue.cli.tables import notes, say
from dejacue.pipeline import EncoderOptions, VideoOptions, encode, observe, sample
from dejacue.sources.atomic import check_place


def run(
    path: Path, frames: VideoOptions, where: dict[str, Any], encoder: str,
    options: EncoderOptions, output: Path,
) -> None:  # fmt: skip
    """What is wrong with the input is said before a model is loaded."""
    video = sample(path, frames)
    observed = observe(video, **where)
    check_place(output, folder=output.suffix != ".npz")
    loaded = options.load(encoder)
    with Bars() as bars:
        made = encode(video, observed, loaded, output=output, pictures=False, progress=bars)
    notes(*(text for own in made.values() for text in own.warnings))
    for own in made.values():
        say(f"{own.file}: {own.history!r}")
