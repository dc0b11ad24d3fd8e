"""Videos and folders of pictures: what FFmpeg and Pillow decode for us."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from helpers import altered
from PIL import Image

from dejacue.video.video import open_video, write_video

COUNT, HEIGHT, WIDTH = 6, 48, 64


def alter(rng: Random, folder: Path) -> None:
    """Change bytes anywhere, or near an end of the file, where headers lie."""
    (path,) = folder.iterdir()
    content = path.read_bytes()
    edge = rng.choice((len(content), 800, -800))
    some, rest = content[:edge], content[edge:]
    changed = some + altered.data(rng, rest, 3) if edge < 0 else altered.data(rng, some, 3) + rest
    path.write_bytes(changed)


def read(rng: Random, folder: Path) -> None:
    (path,) = folder.iterdir()
    video = open_video(
        path,
        stride=rng.choice((1, 2, 7, 10**9)),
        start=rng.choice((None, None, None, 2, 10**12)),
        end_s=rng.choice((None, None, None, 0.3, 1e9)),
        errors=rng.choice(("skip", "skip", "fail")),
    )
    for frame in video:
        assert frame.image.dtype == np.uint8
    assert all(len(text) < altered.MAX_LETTERS and "\n" not in text for text in video.problems)


@pytest.mark.parametrize(
    ("name", "codec"), [("x.mp4", "libx264"), ("x.mkv", "mpeg4"), ("x.mov", "mpeg4")]
)
def test_altered_videos_are_decoded_or_refused(tmp_path, name, codec) -> None:
    def make(folder: Path) -> None:
        frames = (np.full((HEIGHT, WIDTH, 3), 40 * k, np.uint8) for k in range(COUNT))
        write_video(folder / name, frames, 10, codec=codec)

    altered.check_altered(tmp_path, make, read, alter, most=2 << 30)


def test_altered_pictures_are_decoded_or_refused(tmp_path) -> None:
    def make(folder: Path) -> None:
        for k in range(3):
            pixels = np.full((HEIGHT, WIDTH, 3), 60 * k, np.uint8)
            Image.fromarray(pixels).save(folder / f"{k}.png")

    def pictures(rng: Random, folder: Path) -> None:
        for frame in open_video(folder, rate=rng.choice((None, 10, 1e-300, 1e300))):
            assert frame.image.dtype == np.uint8

    altered.check_altered(tmp_path, make, pictures)
