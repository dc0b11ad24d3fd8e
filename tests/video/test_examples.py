"""The examples in the docstrings run, in a folder with a video and three pictures."""

from __future__ import annotations

import doctest
import importlib
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from dejacue.video.video import write_video

MODULES = ("video", "frames", "images", "sizes", "crops", "stream", "_sampling")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    images = [np.full((32, 64, 3), 8 * k, np.uint8) for k in range(30)]
    write_video("cup.mp4", images, 10)
    (tmp_path / "pictures").mkdir()
    for k in (1, 2, 10):
        Image.fromarray(images[k]).save(tmp_path / "pictures" / f"cup{k}.png")
    module = importlib.import_module(f"dejacue.video.{name}")
    failed, tried = doctest.testmod(module, extraglobs={"closing": closing})
    assert (failed, tried > 0) == (0, True)
