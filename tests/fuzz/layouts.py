"""Folders of data sets with something changed in them: clips, or a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from helpers.changeit import frames, labels
from helpers.layouts import (
    d_nerf,
    document,
    howtochange,
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
from readers import Target, reader

from dejacue import InputError, open_dataset
from dejacue.data.layouts import READERS, manifest_rows


def with_steps(root: Path) -> None:
    steps = [transformation(2, 3, "onion", "onion_peel"), transformation(5, 6, "peeled_onion")]
    vost_tas(vost(root), {"7_peel_onion_1": {"anno_end": -1, "transformations": steps}})


def davis(root: Path) -> None:
    sequence(root, "bear", below="480p")
    text(root / "ImageSets" / "2017" / "train.txt", "bear\n")


def changeit(root: Path) -> None:
    labels(root, "abc", "011233")
    labels(root, "def", "011233")
    video(root / "videos" / "abc.mp4", seconds=6, rate=2)
    document(root / "vocabularies" / "apple.json", {"states": {"state1": "a", "state2": "b"}})


def changeit_frames(root: Path) -> None:
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
    "changeit": changeit,
    "changeit-frames": changeit_frames,
    "howtochange": lambda root: howtochange(root, {}, {"video_name": "def_20"}),
}
assert MAKE.keys() == READERS.keys()


def read(layout: str, rng: Random, folder: Path) -> None:
    dataset = open_dataset(folder, layout)
    assert dataset.to_dict()["clips"] == len(dataset)
    assert len(dataset.references) <= len(dataset)
    try:
        manifest_rows(folder / "m.csv", dataset)
    except InputError as error:
        if "no clip can be listed" not in str(error):
            raise


TARGETS: list[Target] = [
    reader(f"layout-{name}", 10, make, partial(read, name)) for name, make in MAKE.items()
]
