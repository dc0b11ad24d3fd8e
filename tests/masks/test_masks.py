"""Masks of every kind → the union of a group in a frame; what does not fit is explained."""

from __future__ import annotations

import json
import os
import shutil
import warnings
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.masks import frame, numbered, read_numbers, rle, save, union
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from dejacue.masks import open_masks, write_masks
from dejacue.masks.labels import INSPECTED_ROWS
from dejacue.masks.reader import resize_nearest
from dejacue.masks.rle import decode_rle
from dejacue.masks.write import palette

H, W = 6, 8
frame = partial(frame, shape=(H, W))
numbered = partial(numbered, shape=(H, W))


def block(value: int = 1, rows=slice(1, 3), columns=slice(2, 5), shape=(H, W)) -> np.ndarray:
    labels = np.zeros(shape, dtype=np.uint8)
    labels[rows, columns] = value
    return labels


# Pictures with numbers: indexed and binary


def test_an_indexed_folder_unites_lineages_and_removes_void(tmp_path):
    labels = block(1) + block(2, 4, slice(0, 3)) + block(255, 5, slice(0, 8))
    labels[0, 7] = 7
    masks = open_masks(save(tmp_path / "m", {"a.png": labels}))
    assert masks.kind == "indexed"
    assert masks.ids() == (1, 2, 7)
    assert len(masks) == 1
    first, both, united = masks.unions(
        frame(0, name="a"), [frozenset({1}), frozenset({1, 2}), None]
    )
    assert np.array_equal(first, labels == 1)
    assert np.array_equal(both, (labels == 1) | (labels == 2))
    assert np.array_equal(united, (labels > 0) & (labels < 255))
    assert first.dtype == both.dtype == united.dtype == bool


def test_palette_pictures_are_read_by_number_not_by_colour(tmp_path):
    picture = Image.fromarray(block(3)).convert("P")
    picture.putpalette([255, 255, 255] * 3 + [0, 0, 0] + [9, 9, 9] * 252)
    (tmp_path / "m").mkdir()
    picture.save(tmp_path / "m" / "a.png")
    masks = open_masks(tmp_path / "m")
    assert masks.ids() == (3,)
    assert np.array_equal(union(masks, frame(0, name="a"), 3), block(3) == 3)


@pytest.mark.parametrize("mode", ["L", "1", "RGB", "P"])
def test_masks_whose_only_number_is_255_are_binary(tmp_path, mode):
    (tmp_path / "m").mkdir()
    picture = Image.fromarray(block(255))
    if mode == "P":
        picture.putpalette(list(range(256)) * 3)
    picture = picture if mode == "P" else picture.convert(mode)
    picture.save(tmp_path / "m" / "a.png")
    masks = open_masks(tmp_path / "m")
    assert (masks.kind, masks.ids()) == ("binary", (1,))
    assert np.array_equal(union(masks, frame(0, name="a"), 1), block() == 1)


def test_void_alone_in_some_masks_does_not_make_a_folder_binary(tmp_path):
    folder = save(tmp_path, {"0.png": block(255), "1.png": block(255), "2.png": block(4)})
    masks = open_masks(folder)
    assert (masks.kind, masks.ids()) == ("indexed", (4,))
    assert union(masks, frame(0, name="0")) is None
    assert union(masks, frame(2, name="2")).sum() == 6


def test_binary_takes_whatever_is_not_zero(tmp_path):
    labels = block(1) + block(9, 5, slice(0, 2)) + block(255, 4, slice(0, 2))
    masks = open_masks(save(tmp_path, {"a.png": labels}), kind="binary")
    assert (masks.kind, masks.ids()) == ("binary", (1,))
    assert np.array_equal(union(masks, frame(0, name="a"), 1), labels > 0)


def test_the_kind_is_the_users_word(tmp_path):
    masks = open_masks(save(tmp_path, {"a.png": block(255)}), kind="indexed")
    assert masks.kind == "indexed"
    assert masks.ids() == ()
    assert union(masks, frame(0, name="a")) is None


def test_a_jpeg_is_binary_and_its_blurred_edge_is_cut_in_the_middle(tmp_path):
    labels = block(200, slice(11, 30), slice(5, 21), (48, 40))
    save(tmp_path, {"a.jpg": labels, "b.jpg": np.zeros_like(labels)})
    masks = open_masks(tmp_path)
    assert (masks.kind, masks.ids()) == ("binary", (1,))
    assert np.array_equal(union(masks, frame(0, name="a", shape=(48, 40))), labels > 0)
    assert union(masks, frame(1, name="b", shape=(48, 40))) is None
    with refused(tmp_path / "a.jpg", "indexed"):
        open_masks(tmp_path, kind="indexed")


def test_a_binary_folder_that_turns_out_to_hold_labels_is_refused(tmp_path):
    count = 2 * INSPECTED_ROWS  # every second one is looked at first
    pictures = {f"{n:03d}.png": block(255) for n in range(count)}
    pictures["001.png"] = block(255) + block(3, 5, 0)
    masks = open_masks(save(tmp_path, pictures))
    assert masks.kind == "binary"
    assert union(masks, frame(0)) is not None
    with refused(tmp_path / "001.png", "kind"):
        masks.unions(frame(1), [None])


def test_a_folder_is_binary_even_if_few_of_its_masks_hold_the_object(tmp_path):
    pictures = {f"{n:03d}.png": np.zeros((H, W), np.uint8) for n in range(2 * INSPECTED_ROWS)}
    pictures["033.png"] = block(255)
    assert open_masks(save(tmp_path, pictures)).kind == "binary"


def test_soft_edges_are_not_taken_for_objects(tmp_path):
    soft = block(255, slice(10, 50), slice(10, 60), (64, 80))
    soft[10, 10:60] = np.arange(50) * 5 + 1
    folder = save(tmp_path, {"a.png": soft})
    with refused(folder / "a.png", "kind"):
        open_masks(folder)
    mask = union(open_masks(folder, kind="binary"), frame(0, name="a", shape=(64, 80)))
    assert mask.sum() == 40 * 50


def test_sixteen_bit_pictures_hold_many_objects(tmp_path):
    labels = block(1).astype(np.uint16) * 1000
    masks = open_masks(save(tmp_path, {"a.png": labels}))
    assert masks.ids() == (1000,)
    assert union(masks, frame(0, name="a"), 1000).sum() == 6


def test_colours_are_no_numbers(tmp_path):
    colours = np.zeros((H, W, 3), np.uint8)
    colours[1, 1] = (128, 0, 0)
    folder = save(tmp_path, {"a.png": colours})
    with refused(folder / "a.png", "kind"):
        open_masks(folder)
    assert union(open_masks(folder, kind="binary"), frame(0, name="a")).sum() == 1
    save(folder, {"a.png": np.full((H, W, 4), 9, np.uint8)})
    with refused(folder / "a.png", "is partly transparent"):
        open_masks(folder)


def test_a_frame_without_file_or_object_is_unobserved(tmp_path):
    folder = save(tmp_path, {"f0.png": block(1), "f2.png": np.zeros((H, W), np.uint8)})
    masks = open_masks(folder)
    groups = [None, frozenset({1})]
    assert [mask is None for mask in masks.unions(frame(0, name="f0"), groups)] == [False, False]
    assert masks.unions(frame(1, name="f1"), groups) == [None, None]
    assert masks.unions(frame(2, name="f2"), groups) == [None, None]


def test_absent_ids_are_refused_and_the_others_listed(tmp_path):
    folder = save(tmp_path, {"0.png": block(2), "1.png": block(5)})
    masks = open_masks(folder)
    assert union(masks, frame(0, name="0"), 5) is None  # in another frame
    with refused(folder, "the ids in these masks are 2, 5"):
        masks.unions(frame(0, name="0"), [frozenset({2, 3}), frozenset({1})])


def test_looking_for_an_id_stops_where_it_is_found(tmp_path):
    folder = save(tmp_path, {f"{n}.png": block(1) for n in range(40)})
    (folder / "39.png").write_bytes(b"broken")
    masks = open_masks(folder)
    assert union(masks, frame(0), 1) is not None
    with refused(folder / "39.png"):
        masks.ids()


# Sizes


def test_other_sizes_are_resized_with_one_warning(tmp_path):
    folder = numbered(tmp_path, range(3))
    masks = open_masks(folder)
    mask = union(masks, frame(0, shape=(12, 16)))
    expected = np.zeros((12, 16), dtype=bool)
    expected[0:2, 0:2] = True
    assert np.array_equal(mask, expected)
    assert union(masks, frame(1, shape=(12, 16))).shape == (12, 16)
    (problem,) = (text for text in masks.problems if "resized" in text)
    assert problem.startswith(
        f'{folder}: mask "00000" is 8×6, but the frame is 16×12; masks are resized'
    )


@given(
    mask=arrays.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9))),
    shape=st.tuples(st.integers(1, 30), st.integers(1, 30)),
)
def test_nearest_takes_the_pixel_under_each_centre(mask, shape):
    resized = resize_nearest(mask, shape)
    for y in range(shape[0]):
        for x in range(shape[1]):
            row = (2 * y + 1) * mask.shape[0] // (2 * shape[0])
            column = (2 * x + 1) * mask.shape[1] // (2 * shape[1])
            assert resized[y, x] == mask[row, column]


# Which mask belongs to a frame


def test_stems_win_over_numbers(tmp_path):
    masks = open_masks(numbered(tmp_path, [1, 3, 5], "frame{:03d}.png"))
    frames = [frame(i, name=f"frame{n:03d}") for i, n in enumerate([0, 1, 2, 3, 4, 5, 6])]
    assert read_numbers(masks, frames) == [None, 1, None, 3, None, 5, None]


def test_numbers_that_mean_the_same_in_every_interpretation_need_no_choice(tmp_path):
    masks = open_masks(numbered(tmp_path, range(5)))
    assert read_numbers(masks, map(frame, range(6))) == [0, 1, 2, 3, 4, None]
    masks = open_masks(numbered(tmp_path / "every-fifth", [0, 5, 10, 20]))
    frames = [frame(i, 5 * i) for i in range(5)]
    assert read_numbers(masks, frames) == [0, 5, 10 % W, None, 20 % W]


def test_names_of_other_form_fall_back_to_numbers(tmp_path):
    masks = open_masks(numbered(tmp_path, range(3), "mask_{}.png"))
    frames = [frame(i, name=f"img_{i:04d}") for i in range(3)]
    assert read_numbers(masks, frames) == [0, 1, 2]


AMBIGUOUS = {
    "names count in steps": ([0, 5, 10], frame(1), ["no mask", 'mask "00005"']),
    "some from one lack": ([1, 2, 4], frame(0), ["no mask", 'mask "00001"']),
    "the video is sampled": (range(12), frame(1, 5), ['mask "00005"', 'mask "00001"']),
    "the first masks lack": ([3, 4, 5], frame(0), ["no mask", 'mask "00003"']),
}


@pytest.mark.parametrize(
    ("numbers", "at", "interpretations"), list(AMBIGUOUS.values()), ids=list(AMBIGUOUS)
)
def test_two_interpretations_are_explained_and_never_guessed(
    tmp_path, numbers, at, interpretations
):
    masks = open_masks(numbered(tmp_path, numbers))
    with refused(tmp_path, "match") as caught:
        masks.unions(at, [None])
    assert all(mask in str(caught.value) for mask in interpretations)


def test_source_and_index_are_taken_at_their_word(tmp_path):
    folder = numbered(tmp_path, [2, 4, 6, 10])
    by_source = open_masks(folder, match="source")
    frames = [frame(i, 2 * i) for i in range(6)]
    assert read_numbers(by_source, frames) == [None, 2, 4, 6, None, 10 % W]
    by_index = open_masks(folder, match="index")  # 8 is missing and leaves its gap
    assert read_numbers(by_index, frames) == [2, 4, 6, None, 10 % W, None]


def test_names_without_numbers_can_be_taken_in_their_order(tmp_path):
    folder = save(tmp_path, {"b.png": block(1), "a.png": block(2)})
    masks = open_masks(folder, match="index")
    assert union(masks, frame(0), 2) is not None
    assert union(masks, frame(1), 1) is not None
    with refused(folder, "name", "a"):
        open_masks(folder).unions(frame(0), [None])
    with refused(folder, "match"):
        open_masks(folder).unions(frame(0, name="f1"), [None])


def test_files_are_taken_in_natural_order(tmp_path):
    masks = open_masks(numbered(tmp_path, [2, 10], "f{}.png"), match="index")
    assert read_numbers(masks, [frame(0), frame(8)]) == [2, None]
    assert read_numbers(masks, [frame(1)]) == [10 % W]


def test_of_several_numbers_in_a_name_the_changing_one_counts(tmp_path):
    masks = open_masks(numbered(tmp_path / "a", range(3), "cam2_{:03d}_v1.png"))
    assert read_numbers(masks, map(frame, range(3))) == [0, 1, 2]
    folder = save(tmp_path / "b", {"0_1.png": block(1), "1_2.png": block(1)})
    with refused(folder, "0_1"):
        open_masks(folder).unions(frame(0), [None])
    folder = save(tmp_path / "c", {"0.png": block(1), "v1_2.png": block(1)})
    with refused(folder, "name", "v1_2"):
        open_masks(folder).unions(frame(0), [None])
    folder = save(tmp_path / "d", {"1.png": block(1), "01.png": block(1)})
    with refused(folder, "keep one for each frame"):
        open_masks(folder).unions(frame(0), [None])


def test_stems_need_names_on_both_sides(tmp_path):
    masks = open_masks(numbered(tmp_path, range(2)), match="stem")
    with refused(tmp_path, "match"):
        masks.unions(frame(0), [None])
    np.save(tmp_path / "m.npy", np.ones((2, H, W), dtype=bool))
    with refused(tmp_path / "m.npy", "match"):
        open_masks(tmp_path / "m.npy", match="stem")
    with refused("match", "steam"):
        open_masks(tmp_path, match="steam")


def test_the_same_stem_twice_is_refused(tmp_path):
    save(tmp_path, {"a.png": block(1), "a.bmp": block(1)})
    with refused(tmp_path, "a"):
        open_masks(tmp_path)


@pytest.mark.parametrize(
    ("form", "names", "examples"),
    [
        ("f{}.png", ["f1", "f2", "f3"], '"f100", "f101", …, the frames "f1", "f2"'),
        ("f{}.png", [None, None], '"f100", "f101", …, the frames "0", "1"'),
    ],
)
def test_masks_of_other_frames_are_refused_with_examples(tmp_path, form, names, examples):
    masks = open_masks(numbered(tmp_path, range(100, 104), form), match="auto")
    masks = masks if names[0] else open_masks(tmp_path, match="source")
    for index, name in enumerate(names):
        assert union(masks, frame(index, name=name)) is None
    with refused(tmp_path, "match", examples):
        masks.check_matched()


def test_masks_that_belong_to_some_frame_pass_the_check(tmp_path):
    masks = open_masks(numbered(tmp_path, range(2)))
    masks.check_matched()  # nothing was asked yet
    masks.unions(frame(7), [None])
    masks.unions(frame(1), [None])
    masks.check_matched()


# Folders and the layouts of datasets


def test_youtube_vos_is_found_from_its_root(tmp_path):
    numbered(tmp_path / "Annotations" / "v1", [0, 5, 10])
    objects = {"1": {"category": "cup", "frames": ["00000"]}, "4": {"category": "hand"}}
    meta = {"videos": {"v1": {"objects": objects}, "v2": {"objects": {}}}}
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    for path in (tmp_path, tmp_path / "Annotations", tmp_path / "Annotations" / "v1"):
        masks = open_masks(path)
        assert (masks.kind, masks.ids()) == ("youtube-vos", (1, 4))
        frames = [frame(i, name=f"{i:05d}") for i in range(7)]
        assert read_numbers(masks, frames) == [0, None, None, None, None, 5, None]


def test_of_several_videos_one_must_be_given(tmp_path):
    numbered(tmp_path / "Annotations" / "v1", [0])
    numbered(tmp_path / "Annotations" / "v2", [0])
    with refused(tmp_path / "Annotations", "give the one for this video"):
        open_masks(tmp_path)
    with refused(tmp_path / "Annotations" / "v1", "no meta.json above it lists this video"):
        open_masks(tmp_path / "Annotations" / "v1", kind="youtube-vos")


def test_what_is_not_there_or_empty_is_named(tmp_path):
    with refused(tmp_path / "none"):
        open_masks(tmp_path / "none")
    with refused(tmp_path):
        open_masks(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with refused(tmp_path):
        open_masks(tmp_path)
    (tmp_path / "a.mp4").write_bytes(b"")
    with refused(tmp_path / "a.mp4"):
        open_masks(tmp_path / "a.mp4")
    save(tmp_path, {"a.png": block(1)})
    with refused(tmp_path / "a.png", "give the folder with all masks"):
        open_masks(tmp_path / "a.png")


def test_the_kind_must_exist_and_fit(tmp_path):
    with refused("kind of masks", "indxed"):
        open_masks(tmp_path, kind="indxed")
    with refused(tmp_path, "kind", "coco"):
        open_masks(tmp_path, kind="coco")
    np.save(tmp_path / "m.npy", np.ones((1, H, W), dtype=bool))
    with refused(tmp_path / "m.npy", "kind", "youtube-vos"):
        open_masks(tmp_path / "m.npy", kind="youtube-vos")


@pytest.mark.parametrize("content", [b"", b"not a picture", None])
def test_a_damaged_picture_is_named(tmp_path, content):
    noise = np.random.default_rng(0).integers(0, 3, (64, 64), dtype=np.uint8)
    folder = save(tmp_path, {"a.png": block(1), "b.png": noise})
    whole = (folder / "b.png").read_bytes()
    (folder / "b.png").write_bytes(whole[: len(whole) // 2] if content is None else content)
    masks = open_masks(folder)
    with refused(folder / "b.png"):
        masks.unions(frame(1, name="b"), [None])


def test_the_key_follows_the_content_and_not_the_place(tmp_path):
    folder = numbered(tmp_path / "m", range(2))
    key = open_masks(folder).key
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert open_masks(moved).key == key
    assert open_masks(folder, match="index").key != key
    assert open_masks(folder, kind="binary").key != key
    os.utime(folder / "00001.png", ns=(1, 1))
    assert open_masks(folder).key == key
    Image.fromarray(block(3)).save(folder / "00001.png")
    assert open_masks(folder).key != key
    (moved / "00001.png").rename(moved / "00002.png")
    assert open_masks(moved).key != key


# Stacks


def test_a_bool_stack_is_one_object(tmp_path):
    stack = np.stack([block(1), block(0), block(1, 5)]).astype(bool)
    np.save(tmp_path / "m.npy", stack)
    np.savez_compressed(tmp_path / "m.npz", anything=stack)
    for name in ("m.npy", "m.npz"):
        masks = open_masks(tmp_path / name)
        assert (masks.kind, masks.ids(), len(masks)) == ("stack", (1,), 3)
        assert np.array_equal(union(masks, frame(2)), stack[2])  # in any order
        assert np.array_equal(union(masks, frame(0), 1), stack[0])
        assert union(masks, frame(1)) is union(masks, frame(3)) is None


def test_a_label_stack_is_read_as_indexed(tmp_path):
    labels = np.stack([block(2), block(255), block(3)]).astype(np.int32)
    labels[0, 5, 5] = -1
    np.savez(tmp_path / "m.npz", masks=labels, frames=np.array([0, 10, 20]))
    masks = open_masks(tmp_path / "m.npz")
    assert (masks.kind, masks.ids()) == ("stack", (2, 3))
    assert union(masks, frame(0, 0)).sum() == 6
    assert union(masks, frame(10, 10)) is None
    assert union(masks, frame(20, 20), 3).sum() == 6
    with refused(tmp_path / "m.npz", "match"):
        masks.unions(frame(2, 20), [None])


def test_a_stack_of_0_and_255_is_binary(tmp_path):
    np.save(tmp_path / "m.npy", np.stack([block(255)] * 2))
    assert open_masks(tmp_path / "m.npy").ids() == (1,)
    assert open_masks(tmp_path / "m.npy", kind="indexed").ids() == ()


def test_objects_may_have_an_axis_and_overlap(tmp_path):
    stack = np.zeros((2, 3, H, W), dtype=bool)
    stack[0, 0, 1:3] = stack[0, 2, 2:5] = stack[1, 1, 0] = True
    np.savez(tmp_path / "m.npz", masks=stack)
    masks = open_masks(tmp_path / "m.npz")
    assert masks.ids() == (1, 2, 3)
    groups = [frozenset({1, 3}), frozenset({3}), frozenset({2})]
    both, third, second = masks.unions(frame(0), groups)
    assert np.array_equal(both, stack[0, 0] | stack[0, 2])
    assert np.array_equal(third, stack[0, 2])
    assert second is None
    np.savez(tmp_path / "m.npz", masks=stack, ids=[4, 9, 11])
    assert open_masks(tmp_path / "m.npz").ids() == (4, 9, 11)


def test_rows_of_one_frame_are_its_objects(tmp_path):
    stack = np.stack([block(1), block(1, 5), block(1, 0)]).astype(bool)
    np.savez(tmp_path / "m.npz", masks=stack, frames=[0, 0, 1], ids=[3, 5, 3])
    masks = open_masks(tmp_path / "m.npz")
    assert (masks.ids(), len(masks)) == ((3, 5), 2)
    assert np.array_equal(union(masks, frame(0)), stack[0] | stack[1])
    assert np.array_equal(union(masks, frame(1), 3), stack[2])
    assert union(masks, frame(1), 5) is None


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ({"masks": np.zeros((1, H, W))}, ("masks",)),
        ({"masks": np.zeros((1, 2, H, W), np.uint8)}, ("masks",)),
        ({"masks": np.zeros((H, W), bool)}, ("masks", (H, W))),
        ({"masks": np.zeros((0, H, W), bool)}, ("masks", (0, H, W))),
        ({"a": np.zeros((1, 2, 3)), "b": np.zeros((1, 2, 3))}, ("masks",)),
        ({"masks": np.ones((2, H, W), bool), "frames": [0]}, ("frames",)),
        ({"masks": np.ones((2, H, W), bool), "frames": [0.0, 1.0]}, ("frames",)),
        ({"masks": np.ones((2, H, W), bool), "frames": [-1, 0]}, ("frames", -1)),
        (
            {"masks": np.ones((2, H, W), bool), "frames": [3, 3]},
            ("rows 0 and 1 are the same object in the same",),
        ),
        ({"masks": np.ones((2, H, W), np.uint8), "frames": [3, 3]}, ("frames",)),
        ({"masks": np.ones((3, H, W), bool), "ids": [1, 2]}, ("ids",)),
        ({"masks": np.ones((3, 2, H, W), bool), "ids": [1]}, ("ids",)),
        ({"masks": np.ones((1, H, W), bool), "ids": ["a"]}, ("ids",)),
        ({"masks": np.array([[[{}]]], dtype=object)}, ("masks holds pickled objects",)),
        ({"masks": np.asfortranarray(np.ones((2, H, W), bool))}, ("masks",)),
    ],
)
def test_a_stack_of_another_form_is_refused(tmp_path, content, facts):
    np.savez(tmp_path / "m.npz", **content)
    with refused(tmp_path / "m.npz", *facts):
        open_masks(tmp_path / "m.npz")


def test_a_stack_with_damaged_columns_or_a_password_is_named(tmp_path):
    path, numbers = tmp_path / "m.npz", np.arange(20_000)
    np.savez(path, masks=np.ones((len(numbers), 1, 1), bool), frames=numbers)
    data = bytearray(path.read_bytes())
    data[data.index(numbers[10_000:].tobytes())] ^= 1  # far behind the header
    path.write_bytes(data)
    with refused(path, "frames"):
        open_masks(path)
    names = np.array(["a", "b"])
    np.savez(path, masks=np.ones((2, 4, 4), bool), names=(names.view(np.uint32) + 2**31).view("U1"))
    with refused(path, "names", "the file is damaged"):
        open_masks(path)
    np.savez(path, masks=np.ones((2, 4, 4), bool))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with refused(path, "masks", "save it without a password"):
        open_masks(path)


def test_a_damaged_stack_is_named(tmp_path):
    path = tmp_path / "m.npy"
    np.save(path, np.ones((5, H, W), dtype=bool))
    path.write_bytes(path.read_bytes()[:-1])
    with refused(path):
        open_masks(path)
    path.write_bytes(b"not numpy")
    with refused(path):
        open_masks(path)
    path = tmp_path / "m.npz"
    path.write_bytes(b"PK not a zip")
    with refused(path):
        open_masks(path)
    noise = np.random.default_rng(0).integers(0, 2, (9, 90, 90)).astype(bool)
    np.savez_compressed(path, masks=noise)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = bytes(400)
    path.write_bytes(content)
    masks = open_masks(path)
    with refused(path):
        for index in range(9):
            masks.unions(frame(index, shape=(90, 90)), [None])


# COCO


def listed(mask: np.ndarray) -> dict:
    """Return the runs as a list of numbers, counted pixel by pixel."""
    runs, value = [0], 0
    for pixel in mask.T.ravel().astype(int).tolist():
        if pixel != value:
            runs, value = [*runs, 0], pixel
        runs[-1] += 1
    return {"size": list(mask.shape), "counts": runs}


def document(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


@given(arrays.arrays(bool, st.tuples(st.integers(1, 40), st.integers(1, 40))))
def test_run_lengths_are_decoded_as_by_pycocotools(mask):
    assert np.array_equal(decode_rle(rle(mask)), mask)
    assert np.array_equal(decode_rle(listed(mask)), mask)


def test_long_runs_and_their_differences_are_decoded():
    mask = np.zeros((700, 900), dtype=bool)
    mask[3:690, 5:800] = True
    mask[200:300, 100:110] = False
    assert np.array_equal(decode_rle(rle(mask)), mask)


def coco_document(**options) -> dict:
    size = {"height": H, "width": W}
    images = [
        {"id": 7, "file_name": "v/a1.jpg", **size},
        {"id": 3, "file_name": "v/a2.jpg", **size},
    ]
    polygon = [[2, 1, 5, 1, 5, 3, 2, 3]]
    annotations = [
        {"id": 1, "image_id": 7, "category_id": 2, "segmentation": rle(block(1))},
        {"id": 2, "image_id": 3, "category_id": 2, "segmentation": polygon},
        {"id": 3, "image_id": 3, "category_id": 4, "bbox": [0, 4, 2, 2], "segmentation": []},
        {"id": 4, "image_id": 3, "category_id": 2, "segmentation": listed(block(1, 5))},
    ]
    return {"images": images, "annotations": annotations} | options


def test_coco_annotations_of_every_sort(tmp_path):
    masks = open_masks(document(tmp_path / "m.json", coco_document()))
    assert (masks.kind, masks.ids(), len(masks)) == ("coco", (2, 4), 2)
    assert np.array_equal(union(masks, frame(0, name="a1"), 2), block(1) > 0)
    second, fourth = masks.unions(frame(1, name="a2"), [frozenset({2}), frozenset({4})])
    assert np.array_equal(second, (block(1) + block(1, 5)) > 0)  # the polygon and the runs
    assert np.array_equal(fourth, block(1, slice(4, 6), slice(0, 2)) > 0)


def test_tracks_are_the_objects_where_there_are_any(tmp_path):
    content = coco_document()
    for at, annotation in enumerate(content["annotations"]):
        annotation["track_id"] = 10 + at
    assert open_masks(document(tmp_path / "m.json", content)).ids() == (10, 11, 12, 13)
    for annotation in content["annotations"]:
        del annotation["track_id"], annotation["category_id"]
    assert open_masks(document(tmp_path / "m.json", content)).ids() == (1, 2, 3, 4)


def test_frame_numbers_of_images_count(tmp_path):
    content = coco_document()
    for image, number in zip(content["images"], (0, 4), strict=True):
        del image["file_name"]
        image["frame_index"] = number
    masks = open_masks(document(tmp_path / "m.json", content))
    assert union(masks, frame(4), 4).sum() == 4
    for image in content["images"]:
        del image["frame_index"]
    masks = open_masks(document(tmp_path / "m.json", content))  # then their order
    assert union(masks, frame(1), 4).sum() == 4


def test_a_plain_list_of_masks(tmp_path):
    rows = [
        {"frame": 1, "id": 5, "segmentation": rle(block(1))},
        {"frame": 0, "id": 6, "segmentation": [[2, 1, 5, 1, 5, 3, 2, 3]]},
    ]
    masks = open_masks(document(tmp_path / "m.json", rows))
    assert masks.ids() == (5, 6)
    assert union(masks, frame(0), 5) is None
    assert union(masks, frame(0)).shape == (H, W)
    assert np.array_equal(union(masks, frame(1), 5), block(1) > 0)


def test_youtube_vis_has_one_list_per_object(tmp_path):
    content = {
        "videos": [
            {"id": 1, "file_names": ["v/00000.jpg", "v/00005.jpg"], "height": H, "width": W}
        ],
        "annotations": [{"id": 3, "video_id": 1, "segmentations": [None, rle(block(1))]}],
    }
    for images in ({}, {"images": []}):  # some list them, too
        masks = open_masks(document(tmp_path / "m.json", content | images))
        assert masks.ids() == (3,)
        assert union(masks, frame(0, name="00000")) is None
        assert np.array_equal(union(masks, frame(1, name="00005")), block(1) > 0)
    content["videos"].append(content["videos"][0])
    with refused(tmp_path / "m.json", "videos"):
        open_masks(document(tmp_path / "m.json", content))


def test_masks_drawn_for_another_size_are_resized(tmp_path):
    rows = [{"frame": 0, "id": 1, "segmentation": rle(block(1))}]
    masks = open_masks(document(tmp_path / "m.json", rows))
    assert union(masks, frame(0, shape=(12, 16))).sum() == 4 * 6
    assert any("mask 0 is 8×6, but the frame is 16×12" in text for text in masks.problems)


@pytest.mark.parametrize(
    "segmentation",
    [
        {"size": [H, W + 1], "counts": rle(block(1))["counts"]},
        {"size": [H, W], "counts": ""},
        {"size": [H, W], "counts": "o" * 9},
        {"size": [H, W], "counts": "ooooooo0"},
        {"size": [H, W], "counts": "☕"},
        {"size": [H, W], "counts": [-2, 50]},
        {"size": [H, W], "counts": [48, 10**30]},
        {"size": [H, W], "counts": [1.5, 46.5]},
        {"size": [H, W]},
    ],
)
def test_a_damaged_run_length_mask_is_named(tmp_path, segmentation):
    rows = [{"frame": 0, "id": 1, "segmentation": segmentation}]
    masks = open_masks(document(tmp_path / "m.json", rows))
    with refused(tmp_path / "m.json", "mask 1"):
        masks.unions(frame(0), [None])


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (
            {"frame": 0, "id": 1, "segmentation": {"size": [0, 4], "counts": ""}},
            ("size", [0, 4]),
        ),
        (
            {"frame": 0, "id": 1, "segmentation": [[1, 2, 3, 4]]},
            ("mask 1: a polygon is a list of at least three",),
        ),
        (
            {"frame": 0, "id": 1, "segmentation": [[1, 2, 3, 4, 5, 1e9]]},
            ("mask 1: a polygon is a list of at least three",),
        ),
        ({"frame": 0, "id": 1, "segmentation": "abc"}, ("segmentation", "abc")),
        ({"frame": 0, "id": 1}, ("bbox",)),
        ({"frame": 0, "id": 1, "bbox": [1, 1, -2, 2]}, ("box", -2)),
        ({"frame": -1, "id": 1, "bbox": [1, 1, 2, 2]}, ("mask 1: frame -1 is not a whole number",)),
        ({"frame": 0, "id": "cup", "bbox": [1, 1, 2, 2]}, ("id", "cup")),
        (3, ("mask 1: must be an object with the keys frame",)),
    ],
)
def test_a_broken_annotation_is_named(tmp_path, row, facts):
    path = document(tmp_path / "m.json", [row])
    with refused(path, *facts, "mask 1"):
        open_masks(path)


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"images": []}, ("images",)),
        ({"images": [{"id": 1}, {"id": 1}]}, ("id", 1)),
        ({"images": [{"id": 1}]}, ("image_id", 7)),
        (
            {"images": [{"id": 7, "height": 9, "width": 9}, {"id": 3}]},
            ("annotation 1: its mask is 8×6, its image 9×9",),
        ),
        (
            {"images": [{"id": 7, "video_id": 1}, {"id": 3, "video_id": 2}]},
            ("holds images of 2 videos",),
        ),
        ({"images": [{"id": 7, "video_id": [1]}]}, ("video_id", [1])),
        ({"annotations": [{"image_id": 7}]}, ("track_id",)),
        ({"annotations": None}, ("annotations",)),
    ],
)
def test_a_broken_coco_file_is_named(tmp_path, change, facts):
    path = document(tmp_path / "m.json", coco_document(**change))
    with refused(path, *facts):
        open_masks(path)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "",
        "3",
        "[]",
        '{"schema": "dejacue.timeline/2"}',
        '[{"frame": 0, "id": 1, "bbox": [NaN, 0, 1, 1]}]',
    ],
)
def test_json_of_another_kind_is_refused(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with refused(tmp_path / "m.json"):
        open_masks(tmp_path / "m.json")


# Boxes


def table(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_mot_frames_count_from_one_and_a_box_is_a_mask(tmp_path):
    path = table(
        tmp_path / "gt.txt", "1,2,2,1,3,2,1,-1,-1,-1", "1,2,0,5,1,1,1,-1,-1,-1", "3,9,0,0,8,6"
    )
    masks = open_masks(path)
    assert (masks.kind, masks.ids()) == ("boxes", (2, 9))
    expected = block(1)
    expected[5, 0] = 1
    assert np.array_equal(union(masks, frame(0), 2), expected > 0)
    assert union(masks, frame(1)) is None
    assert union(masks, frame(2), 9).all()


@pytest.mark.parametrize(
    "lines",
    [
        ("frame,id,x,y,w,h", "0,4,2,1,3,2"),
        ("id,frame,x1,y1,x2,y2,name", "4,0,2,1,5,3,cup"),
        ("Frame; ID; x; y; w; h", "0; 4; 2; 1; 3; 2"),
        ("1 4 2 1 3 2",),
        ("", "1, 4, 2, 1, 3, 2"),
        ("1.0,4.0,2,1,3,2,1",),
    ],
)
def test_tables_of_boxes(tmp_path, lines):
    masks = open_masks(table(tmp_path / "boxes.csv", *lines))
    assert masks.ids() == (4,)
    assert np.array_equal(union(masks, frame(0), 4), block(1) > 0)


def test_rows_of_confidence_zero_are_left_out(tmp_path):
    masks = open_masks(table(tmp_path / "m.txt", "1,4,2,1,3,2,1", "1,5,2,1,3,2,0"))
    assert masks.ids() == (4,)


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        ("-3,-3,4,5", (slice(0, 2), slice(0, 1))),
        ("6,4,99,99", (slice(4, 6), slice(6, 8))),
        ("1.4,1.6,2,2", (slice(2, 4), slice(1, 3))),  # the centres decide
        ("-9,-9,100,100", (slice(0, 6), slice(0, 8))),
    ],
)
def test_a_box_of_a_track_is_clipped_to_the_frame(tmp_path, box, pixels):
    inside = [f"{k},1,0,0,8,6" for k in range(1, 5000)]
    masks = open_masks(table(tmp_path / "m.csv", "frame,id,x,y,w,h", f"0,1,{box}", *inside))
    expected = np.zeros((H, W), dtype=bool)
    expected[pixels] = True
    assert np.array_equal(union(masks, frame(0)), expected)
    outside = not box.startswith("1.4")
    assert [text for text in masks.problems if "8 × 6 pixels and are clipped" in text] == [
        f"{tmp_path / 'm.csv'}: 1 of the boxes of object 1 reach outside the picture of 8 × 6 "
        "pixels and are clipped"
    ] * outside


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("m.csv", ["frame,id,x,y,w,h", "0,1,1,1,8,3"]),
        ("m.txt", ["1,1,1,1,8,3,1,-1,-1,-1"]),
        ("yolo/000.txt", ["0 0.9 0.5 0.3 0.3 1"]),
        ("m.json", ['[{"frame": 0, "id": 1, "bbox": [1, 1, 8, 3]}]']),
    ],
)
def test_boxes_beyond_a_tenth_outside_are_those_of_another_size(tmp_path, name, lines):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    path = table(tmp_path / name, *lines)
    masks = open_masks(path.parent if "/" in name else path)
    with refused("boxes", "8 × 6 pixels"):
        union(masks, frame(0))


@pytest.mark.parametrize("box", ["2,2,0,3", "2.6,2,0.3,3"])
def test_a_box_without_pixels_in_the_frame_is_unobserved(tmp_path, box):
    masks = open_masks(table(tmp_path / "m.csv", "frame,id,x,y,w,h", f"0,1,{box}"))
    assert union(masks, frame(0)) is None


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        (["1,1,0,0,-1,2"], "line 1: box [0.0, 0.0, -1.0"),
        (["frame,id,x1,y1,x2,y2", "0,1,5,0,2,2"], "line 2: box [5.0, 0.0, -3.0"),
        (["1,1,nan,0,1,2"], "nan"),
        (["1,1,0,0,1,inf"], "inf"),
        (["1,1,0,0,1e300,1"], 1e300),
        (["1,1,0,0,1,x"], "x"),
        (["1,1,0,0"], "line 1"),
        (["0,1,0,0,1,1"], "frame 0"),
        (["frame,id,x,y,w,h", "-2,1,0,0,1,1"], "frame -2"),
        (["1.5,1,0,0,1,1"], "1.5"),
        (["frame,id,x,y,w", "0,1,0,0,1"], "line 1"),
        (["frame,id,left,top", "0,1,0,0"], "line 1"),
        (["frame,id,x,y,w,h,h", "0,1,0,0,1,1,1"], "line 1"),
        (["frame,id,x,y,w,h"], "contains no boxes"),
        (["hello world"], "line 1"),
        ([""], "is empty"),
    ],
)
def test_a_broken_table_is_named_by_its_line(tmp_path, lines, fact):
    path = table(tmp_path / "m.csv", *lines)
    with refused(path, fact):
        open_masks(path)


# Writing


def scene() -> list[tuple[int, dict[int, np.ndarray]]]:
    empty = np.zeros((H, W), dtype=bool)
    return [
        (0, {1: block(1) > 0, 7: block(1, 5) > 0}),
        (5, {}),
        (10, {7: block(1, 0, slice(1, 2)) > 0, 1: empty}),
    ]


@pytest.mark.parametrize("name", ["m", "m.npz", "m.json"])
@pytest.mark.parametrize("named", [False, True])
def test_written_masks_come_back(tmp_path, name, named):
    rows = [(f"f{key}" if named else key, masks) for key, masks in scene()]
    path = write_masks(tmp_path / "new" / "deeper" / name, iter(rows))
    assert path == tmp_path / "new" / "deeper" / name
    masks = open_masks(path, match="stem" if named else "source")
    assert masks.ids() == (1, 7)
    for index, (key, objects) in enumerate(scene()):
        at = frame(index, key, f"f{key}" if named else None)
        for id in (1, 7):
            mask = union(masks, at, id)
            if id in objects and objects[id].any():
                assert np.array_equal(mask, objects[id])
            else:
                assert mask is None
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]  # nothing half-written


def test_written_annotations_refer_to_what_the_file_lists(tmp_path):
    document = json.loads(write_masks(tmp_path / "m.json", scene()).read_text())
    for field, listed in (("category", "categories"), ("image", "images"), ("track", "tracks")):
        ids = {row["id"] for row in document[listed]}
        assert {row[f"{field}_id"] for row in document["annotations"]} <= ids


@given(
    st.lists(
        st.dictionaries(st.integers(1, 254), arrays.arrays(bool, (5, 7)), max_size=3), min_size=1
    ).filter(any)
)
def test_overlapping_masks_survive_in_stacks_and_json(tmp_path_factory, frames):
    folder = tmp_path_factory.mktemp("masks")
    for name in ("m.npz", "m.json"):
        masks = open_masks(write_masks(folder / name, enumerate(frames)))
        for index, objects in enumerate(frames):
            for id, expected in objects.items():
                mask = union(masks, frame(index, shape=(5, 7)), id)
                assert np.array_equal(np.zeros_like(expected) if mask is None else mask, expected)


def test_an_indexed_folder_says_where_objects_overlap(tmp_path):
    both = {1: block(1) > 0, 2: block(1, 2) > 0}
    with pytest.warns(UserWarning, match="objects overlap in 1 frame, first in 3; "):
        write_masks(tmp_path / "m", [(3, both)])
    with Image.open(tmp_path / "m" / "00003.png") as picture:
        assert picture.mode == "P"
        labels = np.asarray(picture)
    assert np.array_equal(labels, np.where(block(1, 2) > 0, 2, block(1)))


def test_the_palette_is_that_of_davis():
    colours = [tuple(row) for row in np.frombuffer(palette(), np.uint8).reshape(-1, 3).tolist()]
    assert len(set(colours)) == 256
    assert colours[:4] == [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0)]
    assert colours[8] == (64, 0, 0)
    assert colours[255] == (224, 224, 192)


@pytest.mark.parametrize(
    ("rows", "fact"),
    [
        ([], "there is no mask to write: no frame"),
        ([(0, {})], "there is no mask to write: no frame"),
        ([(0, {1: np.ones((H, W), bool)}), (0, {})], "frames are given twice"),
        ([(0, {1: np.ones((H, W), bool)}), ("a", {})], "frames are given twice"),
        ([(-1, {1: np.ones((H, W), bool)})], "frame -1"),
        ([(0, {1: np.ones((H, W), bool), 2: np.ones((W, H), bool)})], "mask"),
        ([(0, {1: np.ones((H, W), np.uint8)})], "mask"),
        ([("../x", {1: np.ones((H, W), bool)})], "../x"),
        ([(0, {255: np.ones((H, W), bool)})], 255),
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path, rows, fact):
    with refused(fact):
        write_masks(tmp_path / "m", rows)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_generator_leaves_nothing(tmp_path):
    def rows():
        yield scene()[0]
        raise RuntimeError("tracker lost")

    for name in ("m", "m.npz", "m.json"):
        with pytest.raises(RuntimeError, match="tracker lost"):
            write_masks(tmp_path / name, rows())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path):
    save(tmp_path / "m", {"a.png": block(1)})
    with refused(tmp_path / "m"):
        write_masks(tmp_path / "m", scene())
    (tmp_path / "empty").mkdir()
    write_masks(tmp_path / "empty", scene())
    assert len(list((tmp_path / "empty").iterdir())) == 3
    with refused(tmp_path / "m.mp4"):
        write_masks(tmp_path / "m.mp4", scene())


def test_a_written_stack_is_small(tmp_path):
    mask = np.zeros((720, 1280), dtype=bool)
    mask[100:300, 200:500] = True
    path = write_masks(tmp_path / "m.npz", ((index, {1: mask}) for index in range(20)))
    assert path.stat().st_size < 20 * mask.size / 50
    with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
        assert {member.filename for member in archive.infolist()} == {
            "frames.npy",
            "ids.npy",
            "masks.npy",
        }


# Real footage


def test_vost_masks_belong_to_their_frames_by_name(footage):
    folder = footage / "Annotations" / "3161_peel_banana"
    masks = open_masks(folder)
    assert (masks.kind, len(masks)) == ("indexed", 85)
    at = frame(1, name="frame00012", shape=(360, 640))
    with Image.open(folder / "frame00012.png") as picture:
        expected = np.asarray(picture) == 1
    assert np.array_equal(union(masks, at, 1), expected)
    with refused(folder, "the ids in these masks are 1"):
        masks.unions(at, [frozenset({2})])


def test_vost_masks_for_a_video_file_need_a_word(footage):
    """Named in steps of 12: 85 positions, or every twelfth frame of the source?"""
    folder = footage / "Annotations" / "3161_peel_banana"
    with refused(folder, "match"):
        open_masks(folder).unions(frame(1, shape=(360, 640)), [None])
    masks = open_masks(folder, match="index")
    assert union(masks, frame(84, shape=(360, 640))) is not None
