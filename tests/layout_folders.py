"""Small folders in the layouts of data sets, for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dejacue.sources.video import write_video

SIZE = (24, 32)  # height, width


def picture(path: Path, value: int = 90, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, SIZE[::-1], (value, 60, 30, 0)[: len(mode)]).save(path)


def mask(path: Path, *ids: int) -> None:
    """Each id has its own columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = np.zeros(SIZE, np.uint8)
    for at, own in enumerate(ids):
        labels[4:20, 8 * at : 8 * at + 6] = own
    Image.fromarray(labels).save(path)


def sequence(
    root: Path, name: str, numbers: Iterable[int] = range(4), *, below: str = "",
    form: str = "{:05}", masked: Iterable[int] | None = None, ids: tuple[int, ...] = (1,),
) -> None:  # fmt: skip
    """JPEGImages and Annotations of one video."""
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
    for split, own in (("train", names[:1]), ("val", names[1:])):
        if own:
            text(root / "ImageSets" / f"{split}.txt", "\n".join(own) + "\n")
    return root


def transformation(start: int, end: int, *results: str) -> dict[str, Any]:
    objects = {str(at): {"mask": {}, "desc": own} for at, own in enumerate(results, 1)}
    return {
        "start_frame": start, "end_frame": end, "action_desc": "peel,remove",
        "result_objects": objects,
    }  # fmt: skip


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
