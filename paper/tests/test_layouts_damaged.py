"""Folders of data sets with something changed in them: clips, or a sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from data_sets import (
    d_nerf,
    document,
    frames,
    howtochange,
    labels,
    m3_vos,
    nerfies,
    neu3d,
    sequence,
    text,
    transformation,
    video,
    vost,
    vost_tas,
    youtube_vos,
)

from dejacue.errors import DejaCueError, InputError
from dejacue_paper import open_dataset
from dejacue_paper.data.layouts import LAYOUTS, manifest_rows

FOLDERS = 40  # of each layout
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2.5, 10**30, 1e300, "", "x", "../x", "a/b", "\0", "x" * 5000, "nan"),
    *([], {}, [[]], [None], {"a": 1}, [1, 2, 3]),
)


def with_steps(root: Path) -> None:
    steps = [transformation(2, 3, "onion", "onion_peel"), transformation(5, 6, "peeled_onion")]
    vost_tas(vost(root), {"7_peel_onion_1": {"anno_end": -1, "transformations": steps}})


def davis(root: Path) -> None:
    sequence(root, "bear", below="480p")
    text(root / "ImageSets" / "2017" / "train.txt", "bear\n")


def apples(root: Path) -> None:
    labels(root, "abc", "011233")
    labels(root, "def", "011233")
    video(root / "videos" / "abc.mp4", seconds=6, rate=2)
    document(root / "vocabularies" / "apple.json", {"states": {"state1": "a", "state2": "b"}})


def apple_frames(root: Path) -> None:
    labels(root, "abc", "0011203330")
    frames(root, [3, 4, 7])


MAKE: dict[str, Callable[[Path], object]] = {
    "vost": vost,
    "vost-tas": with_steps,
    "davis": davis,
    "youtube-vos": youtube_vos,
    "mose": lambda root: sequence(root / "train", "0f2e"),
    "m3-vos": m3_vos,
    "nerfies": lambda root: nerfies(root, ["a1", "b1", "a2", "b2"]),
    "neu3d": lambda root: neu3d(root, (0, 2), rows=2),
    "d-nerf": lambda root: d_nerf(root, [0.0, None, 1.0]),
    "changeit": apples,
    "changeit-frames": apple_frames,
    "howtochange": lambda root: howtochange(root, {}, {"video_name": "def_20"}),
}


def test_every_layout_is_damaged() -> None:
    assert MAKE.keys() == LAYOUTS.keys()


@pytest.mark.parametrize("layout", MAKE)
def test_a_damaged_folder_is_read_or_refused_in_a_sentence(layout, tmp_path) -> None:
    valid = tmp_path / "valid"
    MAKE[layout](valid)
    assert read(valid, layout)
    sentences = []
    for number in range(FOLDERS):
        folder = tmp_path / str(number)
        shutil.copytree(valid, folder)
        damage(Random(number), folder)
        try:
            read(folder, layout)
        except DejaCueError as error:
            sentences.append(str(error))
    assert all(len(sentence) < 2000 and len(sentence.splitlines()) == 1 for sentence in sentences)
    assert len(sentences) < FOLDERS
    assert sentences or layout == "mose"  # which has pictures only


def read(folder: Path, layout: str) -> int:
    dataset = open_dataset(folder, layout)
    assert dataset.to_dict()["clips"] == len(dataset)
    assert len(dataset.references) <= len(dataset)
    try:
        manifest_rows(folder / "m.csv", dataset)
    except InputError as error:
        if "no clip can be listed" not in str(error):
            raise
    return len(dataset)


def damage(random: Random, folder: Path) -> None:
    """Change one file of a folder: a value or cell of it, some bytes, its end; or take it away."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lists = [path for path in files if path.suffix in (".json", ".csv", ".txt")]
    path = random.choice(lists if lists and random.random() < 0.7 else files)
    content = path.read_bytes()
    kind = random.choice(("value", "value", "value", "bytes", "end", "gone"))
    if kind == "value" and path.suffix == ".json":
        path.write_text(json.dumps(changed(random, json.loads(content))))
    elif kind == "value" and path.suffix in (".csv", ".txt"):
        cells = re.split(r"([,\n])", content.decode())
        cells[random.randrange(len(cells))] = str(random.choice(ODD))
        path.write_text("".join(cells))
    elif kind == "gone":
        path.unlink()
    elif kind == "end":
        path.write_bytes(content[: random.randrange(len(content))])
    else:
        at = random.randrange(len(content))
        path.write_bytes(content[:at] + random.randbytes(4) + content[at + 4 :])


def changed(random: Random, value: Any) -> Any:
    """Return a value with an odd one somewhere in it, or with a part of it gone."""
    if not value or not isinstance(value, dict | list) or random.random() < 0.1:
        return random.choice(ODD)
    value = value.copy()
    key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if random.random() < 0.1:
        del value[key]
    else:
        value[key] = changed(random, value[key])
    return value
