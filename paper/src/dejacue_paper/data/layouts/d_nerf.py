"""D-NeRF: transforms_{train,val,test}.json of one scene, or a folder of such scenes.

file_path has no .png; pictures are transparent and laid on white; where a frame has no time, its
position among the others, from 0 to 1, is taken.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from dejacue.errors import InputError, in_file
from dejacue.files.documents import declared, read_json
from dejacue.records.fields import Finite
from dejacue_paper.data.layouts.records import Clip, Dataset, Layout, check, scenes_in

SPLITS = ("train", "val", "test")


class _Frame(msgspec.Struct):
    file_path: str
    time: Finite | None = None


class _Split(msgspec.Struct):
    frames: list[_Frame]


def _read(folder: Path) -> Dataset:
    clips: list[Clip] = []
    missing: list[str] = []
    for scene in scenes_in(folder, _is_scene):
        name = scene.resolve().name
        for split in SPLITS:
            path = scene / f"transforms_{split}.json"
            if not path.is_file():
                missing.append(f"{name}/{path.name}: is missing")
                continue
            with in_file(path):
                frames = declared(read_json(path), _Split).frames
            clip, gone = _clip(f"{name}-{split}", scene, frames)
            clips.append(clip)
            missing += [f"{name}/{path}: is missing" for path in gone]
    notes = ("time runs from 0 to 1 and is not in seconds",)
    return Dataset("d-nerf", folder, tuple(clips), tuple(missing), notes)


def _clip(name: str, scene: Path, frames: list[_Frame]) -> tuple[Clip, list[str]]:
    last = max(1, len(frames) - 1)
    times = [at / last if frame.time is None else frame.time for at, frame in enumerate(frames)]
    check(
        scene,
        [
            f"{frame.file_path}: points outside the folder"
            for frame in frames
            if _leaves(frame, scene)
        ],
    )
    paths = [scene / f"{frame.file_path.removesuffix('.png')}.png" for frame in frames]
    order = sorted(range(len(frames)), key=lambda at: times[at])
    if not order:
        raise InputError(f"{scene}: {name} lists no frames")
    here = [at for at in order if paths[at].is_file()]
    clip = Clip(
        name,
        images=tuple(paths[at] for at in here),
        frames=len(here) or None,
        times=tuple(times[at] for at in here),
        unit="0 to 1",
        component=scene.resolve().name,
        columns={"split": name.rpartition("-")[2]},
        transparent=True,
    )
    return clip, [str(paths[at].relative_to(scene)) for at in order if at not in set(here)]


def _leaves(frame: _Frame, scene: Path) -> bool:
    return not (scene / frame.file_path).resolve().is_relative_to(scene.resolve())


def _is_scene(folder: Path) -> bool:
    return any((folder / f"transforms_{split}.json").is_file() for split in SPLITS)


LAYOUT = Layout(
    lambda folder: any(scenes_in(folder, _is_scene)),
    _read,
    "transforms_train.json, transforms_val.json, transforms_test.json",
)
