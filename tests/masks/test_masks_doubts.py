"""Masks of another video and photographs are refused or reported; masks that count from one fit."""

from __future__ import annotations

import io
import re
from functools import partial

import numpy as np
import pytest
from helpers.errors import refused
from helpers.masks import frame, numbered, read_numbers, save, union
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dejacue.masks import open_masks, write_masks

H, W = 60, 80
frame = partial(frame, shape=(H, W))
numbered = partial(numbered, shape=(H, W))
A_PHOTOGRAPH = "is a photograph"


def photograph(channels: int | None = 3) -> np.ndarray:
    """Draw light that falls off, and grain."""
    rng = np.random.default_rng(0)
    light = np.linspace(40, 200, W)[None, :] + np.linspace(-30, 30, H)[:, None]
    picture = light[..., None] + rng.normal(0, 4, (H, W, channels or 1))
    picture = picture.clip(0, 255).astype(np.uint8)
    return picture[..., 0] if channels is None else picture


# Photographs


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
@pytest.mark.parametrize("channels", [None, 3])
@pytest.mark.parametrize("kind", [None, "binary"])
def test_a_photograph_is_no_mask(tmp_path, name, channels, kind):
    Image.fromarray(photograph(channels)).save(tmp_path / name)
    with refused(tmp_path / name, A_PHOTOGRAPH):
        open_masks(tmp_path, kind=kind)


def test_a_photograph_among_masks_is_named_when_it_comes(tmp_path):
    numbered(tmp_path, range(2))
    Image.fromarray(photograph(None)).save(tmp_path / "00002.png")
    masks = open_masks(tmp_path, kind="indexed")
    assert read_numbers(masks, [frame(0), frame(1)]) == [0, 1]
    with refused(tmp_path / "00002.png"):
        masks.unions(frame(2), [None])


def test_a_stack_of_grey_frames_is_no_mask(tmp_path):
    np.save(tmp_path / "m.npy", np.stack([photograph(None)] * 3))
    with refused(tmp_path / "m.npy", A_PHOTOGRAPH):
        open_masks(tmp_path / "m.npy")


@pytest.mark.parametrize("values", [(0, 100), (0, 2), (0, 130, 255)])
def test_a_jpeg_of_more_than_black_and_white_is_refused(tmp_path, values):
    labels = np.repeat(np.array(values, np.uint8), 16)[None].repeat(H, 0)
    Image.fromarray(labels).save(tmp_path / "a.jpg")
    with refused(tmp_path / "a.jpg"):
        open_masks(tmp_path)


def test_many_flat_objects_are_no_photograph(tmp_path):
    labels = np.arange(100, dtype=np.uint8).reshape(10, 10).repeat(8, 0).repeat(8, 1)
    assert open_masks(save(tmp_path, {"a.png": labels})).ids() == tuple(range(1, 100))


def test_real_frames_are_photographs_and_real_masks_are_not(footage, tmp_path):
    for sequence in sorted((footage / "Annotations").iterdir()):
        frames = sorted((footage / "JPEGImages" / sequence.name).iterdir())
        with refused(frames[0]):
            open_masks(frames[0].parent)
        with Image.open(sorted(sequence.iterdir())[3]) as picture:
            labels = np.asarray(picture)
        mask = (labels > 0) & (labels < 255)
        stream = io.BytesIO()
        Image.fromarray(mask).convert("L").save(stream, "JPEG", quality=40)
        folder = tmp_path / sequence.name
        folder.mkdir()
        (folder / "a.jpg").write_bytes(stream.getvalue())
        blurred = union(open_masks(folder), frame(0, name="a", shape=mask.shape))
        blurred = np.zeros_like(mask) if blurred is None else blurred
        assert (blurred != mask).mean() < 0.002


# Another video


def test_masks_of_another_shape_are_refused_with_both_sizes(tmp_path):
    masks = open_masks(numbered(tmp_path, range(2)))
    with refused(tmp_path, 'mask "00000" is 80×60, but the frame is 80×45', "80×60", "80×45"):
        masks.unions(frame(0, shape=(45, 80)), [None])


def test_a_rounded_size_is_the_same_shape(tmp_path):
    masks = open_masks(numbered(tmp_path, range(2)))
    assert masks.unions(frame(0, shape=(80, 107)), [None])[0].shape == (80, 107)
    (problem,) = (text for text in masks.problems if "resized" in text)
    assert "is 80×60, but the frame is 107×80" in problem


def problems(masks, frames) -> list[str]:
    """Return what is reported after a pass over the frames, without the path."""
    read_numbers(masks, frames)
    prefix = f"{masks.path}: "
    assert all(problem.startswith(prefix) for problem in masks.problems)
    return [problem.removeprefix(prefix) for problem in masks.problems]


def test_few_frames_with_a_mask_are_reported(tmp_path):
    masks = open_masks(numbered(tmp_path / "m", range(5)))
    assert masks.problems == []
    assert problems(masks, map(frame, range(11))) == ["only 5 of 11 frames have a mask"]
    assert problems(masks, map(frame, range(10))) == ["only 5 of 10 frames have a mask"]  # half
    assert problems(masks, map(frame, range(9))) == []  # a new pass
    masks = open_masks(numbered(tmp_path / "one", [0]))
    assert problems(masks, map(frame, range(3))) == ["only 1 of 3 frames has a mask"]
    masks = open_masks(numbered(tmp_path / "two", [0, 1]))
    assert problems(masks, map(frame, range(5))) == ["only 2 of 5 frames have a mask"]
    masks = open_masks(numbered(tmp_path / "none", [50]), match="source")
    no_mask, no_frame = problems(masks, [frame(0)])
    assert no_mask == "none of 1 frame has a mask"
    assert no_frame.startswith("1 of 1 mask belongs to no frame that was read")


def test_masks_without_a_frame_are_reported(tmp_path):
    masks = open_masks(numbered(tmp_path / "even", range(20)))
    assert problems(masks, map(frame, range(10))) == []  # exactly half
    masks = open_masks(numbered(tmp_path / "odd", range(21)))
    assert problems(masks, map(frame, range(11))) == []
    assert problems(masks, map(frame, range(10))) == [
        "11 of 21 masks belong to no frame that was read; check that they are for this video, "
        "and where it ends"
    ]


def test_sampling_leaves_masks_out_and_nothing_is_reported(tmp_path):
    masks = open_masks(numbered(tmp_path, range(30)), match="source")
    assert problems(masks, [frame(i, 5 * i) for i in range(6)]) == []
    assert problems(masks, [frame(i, 20 + i) for i in range(6)]) == []


def test_empty_masks_are_ordinary(tmp_path):
    mask = np.ones((H, W), dtype=bool)
    rows = [(n, {1: mask} if n == 3 else {}) for n in range(20)]
    for name in ("m", "m.npz", "m.json"):
        masks = open_masks(write_masks(tmp_path / name, rows))
        assert problems(masks, map(frame, range(20))) == []
        assert masks.unions(frame(3), [None])[0] is not None


def test_boxes_say_nothing_of_frames_without_objects(tmp_path):
    (tmp_path / "m.txt").write_text("3,1,2,2,9,9\n")
    assert problems(open_masks(tmp_path / "m.txt"), map(frame, range(20))) == []
    (problem,) = problems(open_masks(tmp_path / "m.txt"), map(frame, range(2)))
    assert problem.startswith("1 of 1 mask belongs to no frame")


def test_masks_of_another_sequence_with_the_same_names_are_reported(footage):
    masks = open_masks(footage / "Annotations" / "3161_peel_banana")  # every twelfth frame
    frames = [frame(i, name=f"frame{10 * i:05d}", shape=(360, 640)) for i in range(60)]
    assert problems(masks, frames)


# Counted from one


def test_masks_from_one_belong_to_the_frames_of_a_video(tmp_path):
    masks = open_masks(numbered(tmp_path, range(1, 7)))
    assert read_numbers(masks, map(frame, range(6))) == [1, 2, 3, 4, 5, 6]
    assert masks.problems == []
    assert read_numbers(masks, map(frame, range(5))) == [1, 2, 3, 4, 5]  # the last frame was lost


def test_masks_from_one_fit_frames_of_other_names(tmp_path):
    masks = open_masks(numbered(tmp_path, range(1, 4), "mask_{}.png"))
    assert read_numbers(masks, [frame(i, name=f"img{i:04d}") for i in range(3)]) == [1, 2, 3]


@given(st.integers(1, 12), st.integers(1, 15))
def test_masks_from_one_are_never_one_off(tmp_path_factory, masks, frames):
    """With more frames than masks the numbers may count from 0, and that is said."""
    folder = numbered(tmp_path_factory.mktemp("m"), range(1, masks + 1))
    opened = open_masks(folder)
    if frames <= masks:
        assert read_numbers(opened, map(frame, range(frames))) == list(range(1, frames + 1))
    else:
        with refused(folder, "match"):
            read_numbers(opened, map(frame, range(frames)))


@pytest.mark.parametrize(
    ("match", "expected"),
    [("source", [None, 1, 2, 3]), ("index", [1, 2, 3, None]), ("one-based", [1, 2, 3, None])],
)
def test_the_remedy_works_word_for_word(tmp_path, match, expected):
    folder = numbered(tmp_path, range(1, 4))
    with refused(folder, "match") as caught:
        read_numbers(open_masks(folder), map(frame, range(4)))
    assert f"match={match}" in str(caught.value) or match == "one-based"
    assert read_numbers(open_masks(folder, match=match), map(frame, range(4))) == expected


def test_a_sampled_video_needs_a_word_for_masks_from_one(tmp_path):
    folder = numbered(tmp_path, range(1, 21))
    frames = [frame(i, 5 * i) for i in range(4)]
    for length in (None, 4):  # though there are more masks than frames
        with refused(folder, "match", "match=one-based"):
            read_numbers(open_masks(folder, frames=length), frames)
    assert read_numbers(open_masks(folder, match="one-based"), frames) == [1, 6, 11, 16]
    assert read_numbers(open_masks(folder, match="source"), frames) == [None, 5, 10, 15]


def test_more_masks_than_sampled_frames_are_numbered_as_the_file_is(tmp_path):
    folder = numbered(tmp_path, range(20))
    frames = [frame(i, 5 * i) for i in range(4)]
    assert read_numbers(open_masks(folder, frames=4), frames) == [0, 5, 10, 15]
    with refused(folder, "match"):
        read_numbers(open_masks(folder), frames)


def test_frames_named_from_zero_and_masks_from_one(tmp_path):
    folder = numbered(tmp_path, range(1, 6))
    frames = [frame(i, name=f"{i:05d}") for i in range(5)]
    assert read_numbers(open_masks(folder, frames=5), frames) == [1, 2, 3, 4, 5]
    masks = open_masks(folder)  # how many frames there are is not known: names count, with a hint
    (problem,) = problems(masks, frames)
    assert re.search("from 1 and the frames from 0, .* match=index", problem)
    assert read_numbers(open_masks(folder, match="index"), frames) == [1, 2, 3, 4, 5]
    six = [frame(i, name=f"{i:05d}") for i in range(6)]
    assert read_numbers(open_masks(folder, frames=6), six) == [None, 1, 2, 3, 4, 5]


def test_names_alike_on_both_sides_are_matched_as_they_are(tmp_path):
    folder = numbered(tmp_path, range(1, 6))
    frames = [frame(i, name=f"{i + 1:05d}") for i in range(5)]
    assert read_numbers(open_masks(folder, frames=5), frames) == [1, 2, 3, 4, 5]


def test_zeros_in_front_of_a_number_do_not_matter(tmp_path):
    masks = open_masks(numbered(tmp_path, [0, 12, 24], "frame{}.png"))
    frames = [frame(i, name=f"frame{12 * i:05d}") for i in range(3)]
    assert read_numbers(masks, frames) == [0, 12, 24]


@pytest.mark.parametrize("count", [32, 33])
def test_many_numbers_and_255_in_one_picture_may_be_a_soft_edge(tmp_path, count):
    labels = np.zeros((H, W), np.uint8)
    labels[0, :count] = [*range(1, count), 255]
    Image.fromarray(labels).save(tmp_path / "00000.png")
    if count == 32:
        assert open_masks(tmp_path).ids() == tuple(range(1, count))  # 255 is void
    else:
        with refused(tmp_path / "00000.png", "kind"):
            open_masks(tmp_path).ids()


def test_masks_of_which_some_have_no_number_cannot_be_counted(tmp_path):
    folder = numbered(tmp_path, [0, 1])
    (folder / "00001.png").rename(folder / "last.png")
    with refused(folder, "name", "last"):
        read_numbers(open_masks(folder, match="index"), [frame(0)])
