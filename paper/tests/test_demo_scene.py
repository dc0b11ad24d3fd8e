"""The scene that the product ships for ``dejacue demo`` is what the renderer draws."""

from __future__ import annotations

import zipfile

import numpy as np
from PIL import Image

from dejacue import open_video
from dejacue.demo import ARCHIVE, write_demo
from dejacue.files.histories import read_vocabulary
from dejacue.files.results import read_references
from dejacue_paper.data.rendered import scene_reference
from dejacue_paper.data.rendered.demo import archive, demo_scene


def test_the_shipped_scene_is_the_rendered_one(tmp_path) -> None:
    scene = demo_scene()
    folder = write_demo(tmp_path / "scene")
    frames = list(open_video(folder / "scene.mp4"))
    assert len(frames) == scene.frames
    for frame, (image, labels) in zip(frames, scene, strict=True):
        assert np.abs(frame.image.astype(int) - image).mean() < 5  # the video is compressed
        with Image.open(folder / "Annotations" / f"{frame.index:05d}.png") as picture:
            assert np.array_equal(picture, labels)
    assert read_references(folder / "references.json") == [scene_reference(scene, "scene")]
    vocabulary = read_vocabulary(folder / "vocabulary.yaml")
    assert (vocabulary.states, vocabulary.object) == (scene.vocabulary.states, "cup")


def test_an_archive_of_the_same_files_has_the_same_bytes(tmp_path) -> None:
    folder = write_demo(tmp_path / "scene")
    with open(tmp_path / "again.zip", "wb") as stream:
        archive(folder, stream)
    assert (tmp_path / "again.zip").read_bytes() == ARCHIVE.read_bytes()
    assert ARCHIVE.stat().st_size < 1_000_000
    assert zipfile.ZipFile(ARCHIVE).testzip() is None
