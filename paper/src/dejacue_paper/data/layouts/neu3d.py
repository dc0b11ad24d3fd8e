"""Neu3D: camNN.mp4 of one scene, some numbers missing, and poses_bounds.npy, a row for each.

Rows are in the order of the file names; cam00 is held out.
"""

from __future__ import annotations

import re
from pathlib import Path

from dejacue.errors import InputError
from dejacue.files.npz import read_header
from dejacue.video.images import natural
from dejacue_paper.data.layouts.records import Clip, Dataset, Layout, scenes_in

POSES = "poses_bounds.npy"
HELD_OUT = 0
_CAMERA = re.compile("cam([0-9]+)")


def _read(folder: Path) -> Dataset:
    clips: list[Clip] = []
    missing: list[str] = []
    for scene in scenes_in(folder, _videos):
        name, videos = scene.resolve().name, _videos(scene)
        for video in videos:
            number = int(_CAMERA.fullmatch(video.stem)[1])  # type: ignore[index]
            split = "test" if number == HELD_OUT else "train"
            clips.append(
                Clip(f"{name}-{video.stem}", str(video), component=name, columns={"split": split})
            )
        rows = _rows(scene / POSES)
        if rows is None:
            missing.append(f"{name}/{POSES}: is missing")
        elif rows != len(videos):
            missing.append(
                f"{name}: {POSES} has {rows} cameras, but there are {len(videos)} videos"
            )
        if not any(int(path.stem[3:]) == HELD_OUT for path in videos):
            missing.append(f"{name}/cam00.mp4: is missing; it is the held-out camera")
    return Dataset("neu3d", folder, tuple(clips), tuple(missing))


def _rows(path: Path) -> int | None:
    """Return how many cameras the file is about, by its header."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        shape, *_ = read_header(stream, str(path))
    if len(shape) != 2 or shape[1] != 17:
        raise InputError(f"{path}: must have 17 numbers per camera; does it belong to this scene?")
    return shape[0]


def _videos(scene: Path) -> list[Path]:
    return natural(path for path in scene.glob("cam*.mp4") if _CAMERA.fullmatch(path.stem))


LAYOUT = Layout(
    lambda folder: any(scenes_in(folder, _videos)),
    _read,
    f"cam00.mp4, cam01.mp4 …, {POSES}",
)
