"""``dejacue encode``."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from dejacue.cli.bars import Bars
from dejacue.cli.tables import console, notes
from dejacue.pipeline import EncoderOptions, MaskOptions, VideoOptions, encode, observe, sample
from dejacue.sources.atomic import check_place


def run(
    path: Path, frames: VideoOptions, masks: Path | None, how: MaskOptions,
    objects: list[int] | str | None, encoder: str, options: EncoderOptions, output: Path,
) -> None:  # fmt: skip
    """What is wrong with the input is said before a model is loaded."""
    video = sample(path, frames)
    observed = observe(video, masks=masks, objects=objects, mask_options=how)
    check_place(output, folder=output.suffix != ".npz")
    loaded = options.load(encoder)
    with Bars() as bars:
        made = encode(video, observed, loaded, output=output, pictures=False, progress=bars)
    notes(*(text for own in made.values() for text in own.warnings))
    for own in made.values():
        console().print(escape(f"{own.file}: {own.history!r}"), soft_wrap=True)
