"""Readers of captured scenes: Nerfies and HyperNeRF, Neu3D, D-NeRF."""

from __future__ import annotations

from glob import glob

import numpy as np
import pytest
from data_sets import (
    d_nerf,
    document,
    manifest,
    nerfies,
    neu3d,
    problems,
    text,
)
from helpers.errors import refused

from dejacue import InputError
from dejacue_paper import open_dataset

# Nerfies, HyperNeRF


def test_nerfies_splits_two_cameras(tmp_path) -> None:
    ids = [f"{side}1_{at:06}" for at in range(4) for side in ("left", "right")]
    dataset = open_dataset(nerfies(tmp_path / "toast", ids))
    left, right = dataset
    assert dataset.layout == "nerfies"
    assert not dataset.missing
    assert (left.id, left.component) == ("toast-camera0", "toast")
    assert [image.stem for image in right.images] == ids[1::2]
    assert left.times == (0, 1, 2, 3)
    assert left.unit == "warp ids"
    assert (left.columns["split"], right.columns["split"]) == ("train", "val")
    assert sorted(glob(left.video)) == [str(image) for image in left.images]
    frames = list(left.open(start=1))
    assert [frame.name for frame in frames] == ids[2::2]
    assert frames[0].time_s is None


def test_nerfies_with_one_camera_is_a_folder(tmp_path, dejacue) -> None:
    nerfies(tmp_path / "toast", [f"{at:06}" for at in range(1, 5)], cameras=1)
    nerfies(tmp_path / "lemon", [f"{at:06}" for at in range(1, 4)], cameras=1)
    lemon, toast = open_dataset(tmp_path)
    assert (lemon.id, toast.id) == ("lemon", "toast")
    assert toast.video.endswith("toast/rgb/2x")
    text(tmp_path / "tracked" / "toast.csv", "frame,x,y,w,h\n0,1,1,9,9\n")
    out = tmp_path / "m.csv"
    ran = dejacue("data", "open", tmp_path, "--manifest", out, "--masks", tmp_path / "tracked")
    assert ran.code == 0
    assert "1 clip (lemon): no masks" in ran.err
    assert [row["video"] for row in manifest(out)] == ["toast/rgb/2x"]


def test_nerfies_takes_the_largest_pictures(tmp_path) -> None:
    nerfies(tmp_path, ["a1", "a2"], cameras=1, scale="4x")
    nerfies(tmp_path, ["a1", "a2"], cameras=1, scale="16x")
    assert {image.parent.name for image in open_dataset(tmp_path).clips[0].images} == {"4x"}


def test_nerfies_lists_all_that_is_missing(tmp_path) -> None:
    nerfies(tmp_path / "toast", ["a1", "a2", "a3"], cameras=1)
    for name in ("a1", "a3"):
        (tmp_path / "toast" / "rgb" / "2x" / f"{name}.png").unlink()
    dataset = open_dataset(tmp_path)
    assert dataset.missing == (
        "toast/rgb/2x/a1.png: is missing",
        "toast/rgb/2x/a3.png: is missing",
    )
    assert len(dataset.clips[0].images) == 1
    assert dataset.clips[0].times == (1,)
    (tmp_path / "toast" / "metadata.json").unlink()
    assert problems(tmp_path) == ("metadata.json: is missing",)


def test_nerfies_with_ids_that_have_no_metadata_is_refused(tmp_path) -> None:
    nerfies(tmp_path, ["a1", "a2", "a3"], cameras=1)
    document(tmp_path / "metadata.json", {"a1": {"warp_id": 0}, "a2": {"warp_id": "x"}})
    sentences = problems(tmp_path)
    assert [sentence.split(": ")[1] for sentence in sentences] == ['"a2"', '"a3"']
    document(tmp_path / "dataset.json", {"count": 5, "ids": ["a1"]})
    with refused(tmp_path / "dataset.json", "count", 5):
        open_dataset(tmp_path)


# Neu3D


def test_neu3d_takes_missing_numbers_and_holds_out_cam00(tmp_path) -> None:
    dataset = open_dataset(neu3d(tmp_path / "coffee", (0, 1, 4, 10), rows=4))
    assert dataset.layout == "neu3d"
    assert not dataset.missing
    assert [(clip.id, clip.columns["split"]) for clip in dataset] == [
        ("coffee-cam00", "test"),
        ("coffee-cam01", "train"),
        ("coffee-cam04", "train"),
        ("coffee-cam10", "train"),
    ]
    assert {clip.component for clip in dataset} == {"coffee"}
    assert len(list(dataset.clips[2].open())) == 5


def test_neu3d_says_which_parts_are_missing(tmp_path) -> None:
    neu3d(tmp_path / "coffee", (1, 2), rows=4)
    neu3d(tmp_path / "steak", (0,), rows=1)
    (tmp_path / "steak" / "poses_bounds.npy").unlink()
    assert open_dataset(tmp_path).missing == (
        "coffee: poses_bounds.npy has 4 cameras, but there are 2 videos",
        "coffee/cam00.mp4: is missing; it is the held-out camera",
        "steak/poses_bounds.npy: is missing",
    )


def test_neu3d_with_other_poses_is_refused(tmp_path) -> None:
    neu3d(tmp_path, (0,), rows=1)
    np.save(tmp_path / "poses_bounds.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="holds pickled objects, which are never loaded"):
        open_dataset(tmp_path)
    np.save(tmp_path / "poses_bounds.npy", np.zeros((1, 12)))
    with refused(tmp_path / "poses_bounds.npy"):
        open_dataset(tmp_path)


# D-NeRF


def test_d_nerf_finds_pictures_without_their_ending_in_the_order_of_time(tmp_path) -> None:
    for split in ("train", "val", "test"):
        d_nerf(tmp_path / "lego", [0.5, 0.0, 1.0], split)
    dataset = open_dataset(tmp_path)
    train, _, test = dataset
    assert dataset.layout == "d-nerf"
    assert not dataset.missing
    assert [image.name for image in train.images] == ["r_001.png", "r_000.png", "r_002.png"]
    assert (train.times, train.id, test.columns["split"]) == ((0, 0.5, 1), "lego-train", "test")


def test_d_nerf_lays_transparent_pictures_on_white(tmp_path, dejacue) -> None:
    clip = open_dataset(d_nerf(tmp_path, [0.0, 1.0])).clips[0]
    assert all((frame.image == 255).all() for frame in clip.open())
    text(tmp_path / "tracked" / f"{clip.id}.csv", "frame,x,y,w,h\n0,1,1,9,9\n")
    words = ("--manifest", tmp_path / "m.csv", "--masks", tmp_path / "tracked")
    ran = dejacue("data", "open", tmp_path, *words)
    assert ran.code == 2
    assert "pictures are transparent" in ran.err


def test_d_nerf_without_times_counts_positions(tmp_path) -> None:
    assert open_dataset(d_nerf(tmp_path, [None] * 5)).clips[0].times == (0, 0.25, 0.5, 0.75, 1)
    assert open_dataset(d_nerf(tmp_path, [None])).clips[0].times == (0,)


def test_d_nerf_lists_all_that_is_missing(tmp_path) -> None:
    d_nerf(tmp_path / "lego", [0.0, 0.5, 1.0])
    (tmp_path / "lego" / "train" / "r_001.png").unlink()
    assert open_dataset(tmp_path).missing == (
        "lego/train/r_001.png: is missing",
        "lego/transforms_val.json: is missing",
        "lego/transforms_test.json: is missing",
    )


def test_d_nerf_that_leaves_its_folder_is_refused(tmp_path) -> None:
    document(tmp_path / "transforms_train.json", {"frames": [{"file_path": "../../etc/x"}]})
    assert problems(tmp_path) == ("../../etc/x: points outside the folder",)
