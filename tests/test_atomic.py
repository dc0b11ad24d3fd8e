"""Files are whole or not there; what is run again is the same."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.histories import build_history

from dejacue import InputError
from dejacue.atomic import left_folder, temporary_folder, write_bytes, write_whole
from dejacue.files.partial import PartialFile
from dejacue.masks import open_masks
from dejacue.models.encoders.mini import Mini
from dejacue.video.video import write_video
from dejacue_paper.data.rendered import render, write_scene


def test_a_temporary_file_of_a_killed_process_is_taken_over(tmp_path) -> None:
    left = tmp_path / ".x.json.dejacue-tmp"
    left.write_bytes(b"half of something longer than what comes now")
    write_bytes(tmp_path / "x.json", b"new")
    assert (tmp_path / "x.json").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_two_who_write_the_same_file_do_not_share_a_temporary_one(tmp_path) -> None:
    target = tmp_path / "x.json"

    def slow(stream) -> None:
        stream.write(b"slow ")
        write_bytes(target, b"quick")
        assert target.read_bytes() == b"quick"
        stream.write(b"but whole")

    write_whole(target, slow)
    assert target.read_bytes() == b"slow but whole"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    (tmp_path / ".x.json.dejacue-tmp").symlink_to(precious)
    write_bytes(tmp_path / "x.json", b"new")
    assert precious.read_bytes() == b"mine"
    assert (tmp_path / "x.json").read_bytes() == b"new"


@pytest.mark.parametrize("make", [os.mkfifo, lambda left: os.link(left.parent / "precious", left)])
def test_what_lies_at_the_name_of_a_temporary_file_is_not_opened(tmp_path, make) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    make(tmp_path / ".x.json.dejacue-tmp")
    make(tmp_path / ".x.partial")
    write_bytes(tmp_path / "x.json", b"new")
    file = PartialFile(tmp_path / ".x.partial", "key")
    assert file.read() == []
    file.append([b"one"])
    file.close()
    assert PartialFile(tmp_path / ".x.partial", "key").read() == [b"one"]
    assert precious.read_bytes() == b"mine"
    assert (tmp_path / "x.json").read_bytes() == b"new"


def test_a_temporary_folder_is_removed_unless_somebody_uses_it(tmp_path) -> None:
    target = tmp_path / "masks"
    left = tmp_path / ".masks.dejacue-tmp"
    (left / "masks").mkdir(parents=True)
    with temporary_folder(target) as first:
        assert first == left
        assert not list(first.iterdir())
        with left_folder(target) as unused:
            assert unused is None  # it is in use
        with temporary_folder(target) as second:
            assert second != first
            assert first.is_dir()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_another_process_takes_for_a_left_one_is_not_used(tmp_path, monkeypatch):
    target, mkdir = tmp_path / "masks", Path.mkdir

    def made(folder: Path, *rest: object, **options: object) -> None:
        mkdir(folder, *rest, **options)
        if folder.name == ".masks.dejacue-tmp":  # before it is locked
            with left_folder(target) as taken:
                assert taken == folder

    monkeypatch.setattr(Path, "mkdir", made)
    with temporary_folder(target) as folder:
        (folder / "file").touch()
    assert not list(tmp_path.iterdir())


def test_errors_still_name_the_file_and_leave_nothing(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="is a file, not a folder"):
        write_bytes(tmp_path / "file" / "x.json", b"new")
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "new" / "folder" / "x.json", lambda _: 1 // 0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_clips_are_the_same_bits_each_time(tmp_path) -> None:
    scene = render(3, family="cup", frames=40, size=(144, 192), distractors=1)
    images = [scene.image(frame) for frame in range(40)]
    files = {write_video(tmp_path / "x.mp4", images, 12.0).read_bytes() for _ in range(6)}
    assert len(files) == 1


def test_masks_written_again_are_the_same_masks_and_changed_ones_are_not(tmp_path) -> None:
    write_scene(tmp_path / "cup", render(3, family="cup", frames=24), video=False)
    masks = tmp_path / "cup" / "Annotations"
    key = open_masks(masks).key
    first, second = sorted(masks.iterdir())[:2]
    os.utime(first, (0, 0))
    assert open_masks(masks).key == key
    first.write_bytes(second.read_bytes())
    assert open_masks(masks).key != key


class Batchwise(Mini):
    """Return rows that depend on the rest of the batch, as the last bits of a model may."""

    batch = 8

    def encode_images(self, crops):
        rows = super().encode_images(crops)
        turned = rows + np.float32(0.01 * len(crops))
        return turned / np.linalg.norm(turned, axis=1, keepdims=True)


@pytest.mark.parametrize("size", [0, 1000, 3000, 5000, 10_000])
def test_a_history_does_not_depend_on_where_encoding_was_cut_short(tmp_path, size) -> None:
    write_scene(tmp_path / "cup", render(3, family="cup", frames=24), video=False)
    video, masks = tmp_path / "cup" / "JPEGImages", tmp_path / "cup" / "Annotations"
    partial = tmp_path / "partial"
    whole = build_history(video, masks, Batchwise(), objects=[1], partial=partial)
    partial.write_bytes(partial.read_bytes()[:size])
    again = build_history(video, masks, Batchwise(), objects=[1], partial=partial)
    assert np.array_equal(whole.features, again.features)
