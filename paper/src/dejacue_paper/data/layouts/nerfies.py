"""Nerfies and HyperNeRF: dataset.json, metadata.json and rgb/{1,2,4 …}x/ID.png.

Two cameras may be interleaved: each camera_id is a clip of its own, in the order of its warp_id,
which is its time. The largest pictures that are there are taken.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from dejacue.errors import InputError, in_file
from dejacue.files.documents import declared, read_json
from dejacue.video.images import folders_in
from dejacue_paper.data.layouts.records import (
    Clip,
    Dataset,
    Layout,
    as_path,
    check,
    check_plain,
    scenes_in,
)

FILES = ("dataset.json", "metadata.json")
_SCALE = re.compile("([0-9]+)x")


class _Ids(msgspec.Struct):
    ids: list[str]
    count: int | None = None
    train_ids: list[str] = []
    val_ids: list[str] = []


class _Picture(msgspec.Struct):
    warp_id: int
    camera_id: int = 0


def _read(folder: Path) -> Dataset:
    clips: list[Clip] = []
    missing: list[str] = []
    for scene in scenes_in(folder, _is_scene):
        scene_clips, gone = _read_scene(scene)
        clips += scene_clips
        missing += gone
    notes = ("time is the warp_id, which counts moments of the capture, not seconds",)
    return Dataset("nerfies", folder, tuple(clips), tuple(missing), notes)


def _read_scene(scene: Path) -> tuple[list[Clip], list[str]]:
    lacking = [f"{name}: is missing" for name in FILES if not (scene / name).is_file()]
    scales = _scales(scene)
    check(scene, lacking if scales else [*lacking, "rgb: contains no pictures (rgb/1x/ID.png)"])
    with in_file(scene / FILES[0]):
        listed = declared(read_json(scene / FILES[0]), _Ids)
        if listed.count is not None and listed.count != len(listed.ids):
            raise InputError(f"count is {listed.count}, but {len(listed.ids)} ids are listed")
        check_plain(listed.ids)
    rows = read_json(scene / FILES[1])
    if not isinstance(rows, dict):
        raise InputError(f"{scene / FILES[1]}: must map each id to its warp_id and camera_id")
    problems: list[str] = []
    cameras: dict[int, list[tuple[int, str]]] = {}
    for name in listed.ids:
        try:
            picture = declared(rows.get(name), _Picture)
        except InputError as error:
            problems.append(f'{FILES[1]}: "{name}": {error}')
            continue
        cameras.setdefault(picture.camera_id, []).append((picture.warp_id, name))
    check(scene, problems)
    validation = set(listed.val_ids)
    clips, missing = [], []
    for camera, pictures in sorted(cameras.items()):
        name = (
            f"{scene.resolve().name}-camera{camera}" if len(cameras) > 1 else scene.resolve().name
        )
        clip, gone = _camera(name, scene, scales[0], sorted(pictures), validation)
        clips.append(clip)
        missing += [f"{scene.resolve().name}/{place}: is missing" for place in gone]
    return clips, missing


def _camera(
    name: str, scene: Path, scale: Path, pictures: list[tuple[int, str]], validation: set[str]
) -> tuple[Clip, list[str]]:
    paths = [(time, scale / f"{name}.png") for time, name in pictures]
    here = [(time, path) for time, path in paths if path.is_file()]
    images = tuple(path for _, path in here)
    split = {name in validation for _, name in pictures}
    clip = Clip(
        name,
        video=as_path(images),
        images=images,
        frames=len(images) or None,
        times=tuple(float(time) for time, _ in here),
        unit="warp ids",
        component=scene.resolve().name,
        columns={"split": "val" if split == {True} else "train" if split == {False} else "both"},
    )
    return clip, [str(path.relative_to(scene)) for _, path in paths if path not in images]


def _scales(scene: Path) -> list[Path]:
    """Return the folders of pictures, rgb/1x before rgb/2x …"""
    scales = [folder for folder in folders_in(scene / "rgb") if _SCALE.fullmatch(folder.name)]
    return sorted(scales, key=lambda scale: int(scale.name[:-1]))


def _is_scene(folder: Path) -> bool:
    """Return whether both files are there, or one of them and the pictures."""
    present = [(folder / name).is_file() for name in FILES]
    return all(present) or (any(present) and bool(_scales(folder)))


LAYOUT = Layout(
    lambda folder: any(scenes_in(folder, _is_scene)),
    _read,
    "dataset.json, metadata.json, rgb/1x/ID.png (or 2x, 4x …)",
)
