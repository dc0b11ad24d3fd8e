"""Small folders in the layouts of data sets, for the tests of their readers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dejacue.errors import SeveralProblems
from dejacue.video.video import write_video
from dejacue_paper import open_dataset
from dejacue_paper.data.rendered import RenderedScene, render, write_scene

SIZE = (24, 32)  # height, width


def picture(path: Path, value: int = 90, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, SIZE[::-1], (value, 60, 30, 0)[: len(mode)]).save(path)


def mask(path: Path, *ids: int) -> None:
    """Write a mask in which each id has columns of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = np.zeros(SIZE, np.uint8)
    for position, label in enumerate(ids):
        labels[4:20, 8 * position : 8 * position + 6] = label
    Image.fromarray(labels).save(path)


def sequence(
    root: Path,
    name: str,
    numbers: Iterable[int] = range(4),
    *,
    below: str = "",
    form: str = "{:05}",
    masked: Iterable[int] | None = None,
    ids: tuple[int, ...] = (1,),
) -> None:
    """Write JPEGImages and Annotations of one video."""
    numbers = list(numbers)
    for number in numbers:
        picture(root / "JPEGImages" / below / name / f"{form.format(number)}.jpg", 40 + number % 99)
    for number in numbers if masked is None else masked:
        mask(root / "Annotations" / below / name / f"{form.format(number)}.png", *ids)


def text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def document(path: Path, content: Any) -> Path:
    return text(path, json.dumps(content))


def vost(root: Path, names: Iterable[str] = ("7_peel_onion", "8_cut_tomato")) -> Path:
    names = list(names)
    for name in names:
        sequence(root, name, range(0, 60, 6), form="frame{:05}", ids=(1, 2, 255))
    for split, members in (("train", names[:1]), ("val", names[1:])):
        if members:
            text(root / "ImageSets" / f"{split}.txt", "\n".join(members) + "\n")
    return root


def transformation(start: int, end: int, *results: str) -> dict[str, Any]:
    objects = {str(n): {"mask": {}, "desc": words} for n, words in enumerate(results, 1)}
    return {
        "start_frame": start,
        "end_frame": end,
        "action_desc": "peel,remove",
        "result_objects": objects,
    }


def vost_tas(root: Path, annotations: dict[str, Any], frames: int = 10) -> Path:
    listed = {
        name: [f"JPEGImages/x/frame{6 * at:05}.jpg" for at in range(frames)] for name in annotations
    }
    content = {"annotations": annotations, "frames": listed, "instances": list(annotations)}
    return document(root / "vost_tas.json", content)


def video(path: Path, seconds: int, rate: int = 5) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = (np.full((*SIZE, 3), at % 250, np.uint8) for at in range(seconds * rate))
    write_video(path, frames, rate)
    return path


def youtube_vos(root: Path, numbers=range(0, 30, 5)) -> Path:
    sequence(root, "0a1b", numbers, masked=range(0, 30, 5), ids=(1, 2))
    objects = {
        "1": {"category": "cat", "frames": ["00000", "00005"]},
        "2": {"category": "dog", "frames": ["00000"]},
    }
    document(root / "meta.json", {"videos": {"0a1b": {"objects": objects}}})
    return root


def m3_vos(root: Path, **changed) -> Path:
    vost(root, ["0001_melt_ice"])
    ice = {"before_state": "solid", "after_state": "liquid", "phase transition": "melting"}
    same = {"before_state": "solid", "after_state": "solid"}
    labels = {"0001_melt_ice": {"1": ice | changed, "2": same}}
    return document(root / "meta" / "all_phase_label.json", labels).parent.parent


def nerfies(root: Path, ids: list[str], cameras: int = 2, scale: str = "2x") -> Path:
    for name in ids:
        picture(root / "rgb" / scale / f"{name}.png")
    half = len(ids) // 2
    document(
        root / "dataset.json",
        {
            "count": len(ids),
            "num_exemplars": half,
            "ids": ids,
            "train_ids": ids[::2],
            "val_ids": ids[1::2],
        },
    )
    rows = {
        name: {"warp_id": n // cameras, "appearance_id": n // cameras, "camera_id": n % cameras}
        for n, name in enumerate(ids)
    }
    document(root / "metadata.json", rows)
    return root


def neu3d(root: Path, cameras: tuple[int, ...], rows: int) -> Path:
    for camera in cameras:
        video(root / f"cam{camera:02}.mp4", seconds=1)
    np.save(root / "poses_bounds.npy", np.zeros((rows, 17)))
    return root


def d_nerf(root: Path, times: list[float | None], split: str = "train") -> Path:
    frames = []
    for at, time in enumerate(times):
        picture(root / split / f"r_{at:03}.png", mode="RGBA")
        row = {"file_path": f"./{split}/r_{at:03}", "rotation": 0.1, "transform_matrix": []}
        frames.append(row if time is None else row | {"time": time})
    document(root / f"transforms_{split}.json", {"camera_angle_x": 0.7, "frames": frames})
    return root


def howtochange(root: Path, *rows: dict[str, object]) -> Path:
    usual = {
        "video_name": "abc_10",
        "video_id": "abc",
        "start_time": 2,
        "duration": 8,
        "initial_state": "[[0, 2.4]]",
        "transitioning_state": "[[2.4, 4.6]]",
        "end_state": "[[4.6, 6], [6.8, 7.9]]",
        "osc": "slicing apple",
        "is_novel_osc": False,
    }
    root.mkdir(exist_ok=True)
    with (root / "howtochange_eval.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(usual))
        writer.writeheader()
        writer.writerows(usual | row for row in rows)
    return root


def labels(root: Path, name: str, row: str, category: str = "apple") -> Path:
    """Write the labels of a video: one letter of ``row`` per second."""
    lines = "".join(f"{second},{label}\n" for second, label in enumerate(row))
    return text(root / "annotations" / category / f"{name}.fps1.csv", lines)


def frames(root: Path, numbers: list[int], name: str = "abc") -> None:
    for number in numbers:
        picture(root / "frames" / "apple" / name / f"frame_{number:04}.jpg")


def changeit(root: Path) -> RenderedScene:
    """Write a rendered cup, two frames a second, in the layout of ChangeIt."""
    scene = render(3, family="cup", frames=60, size=(72, 96), rate=2)
    write_scene(root / "videos", scene)
    states = {"full": 1, "empty": 3}
    rows = []
    for second in range(30):
        names = [
            state
            for state, windows in scene.references.items()
            if any(2 * second in window for window in windows)
        ]
        rows.append(f"{second},{states[names[0]] if names else 0}\n")
    text(root / "annotations" / "cup" / "scene.fps1.csv", "".join(rows))
    words = {
        "state1": list(scene.vocabulary.states["full"]),
        "state2": list(scene.vocabulary.states["empty"]),
    }
    document(root / "vocabularies" / "cup.json", {"object": "cup", "states": words})
    (root / "tracked").mkdir()
    (root / "videos" / "Annotations").rename(root / "tracked" / "cup-scene")
    return scene


def problems(folder: Path, layout: str | None = None) -> tuple[str, ...]:
    """Return what is listed when a folder is refused."""
    with pytest.raises(SeveralProblems) as raised:
        open_dataset(folder, layout)
    assert len(str(raised.value)) < 600
    return raised.value.problems


def manifest(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
