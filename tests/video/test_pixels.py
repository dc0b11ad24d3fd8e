"""Pictures in compiled code: the bytes that numpy and Pillow give, wherever the object lies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.video import crops
from dejacue.video.crops import crop, fit, picture

BAND = 16  # rows that src/kernel/pixels.c takes at a time


@pytest.fixture(autouse=True)
def compiled() -> None:
    if crops.compiled is None:
        pytest.skip("the extension is not built; without it there is nothing to compare")


def frame(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def check(image: np.ndarray, mask: np.ndarray, size: int, **options) -> None:
    expected = fit(crop(image, mask, **options), size)
    assert np.array_equal(picture(image, mask, size, **options), expected)


@given(
    st.integers(1, 3 * BAND),
    st.integers(1, 3 * BAND),
    st.integers(1, 50),
    st.integers(0, 9999),
    st.sampled_from([0.02, 0.5, 1.0]),
)
def test_small_frames_around_the_edges_of_bands(height, width, size, seed, density) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < density
    mask[seed % height, seed % width] = True
    check(frame(height, width, seed), mask, size, minimum=seed % 5)


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("padding", [0.1, 0.25, 0.5, 0.7])
def test_half_a_pixel_of_padding_is_rounded_to_even(length, padding) -> None:
    mask = np.zeros((60, 60), bool)
    mask[30, 20 : 20 + length] = True
    check(frame(60, 60), mask, 16, padding=padding, minimum=0)


@given(st.integers(0, 9999))
def test_pieces_far_apart_leave_bands_and_columns_that_are_grey(seed) -> None:
    rng = np.random.default_rng(seed)
    mask = np.zeros((150, 130), bool)
    for _ in range(rng.integers(1, 5)):
        y, x = rng.integers(0, 150), rng.integers(0, 130)
        mask[y : y + rng.integers(1, 20), x : x + rng.integers(1, 20)] = True
    check(frame(150, 130, seed), mask, int(rng.integers(1, 100)))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17, 64, 224, 400])
@pytest.mark.parametrize("shape", [(300, 500), (500, 40), (33, 700), (224, 224)])
def test_any_number_of_weights_from_enlarging_to_one_pixel(shape, size) -> None:
    y, x = np.mgrid[: shape[0], : shape[1]]
    middle = (y - shape[0] / 2) ** 2 / shape[0] ** 2 + (x - shape[1] / 2) ** 2 / shape[1] ** 2
    check(frame(*shape), middle < 0.2, size)
    check(frame(*shape), np.ones(shape, bool), size)


@pytest.mark.parametrize(("y", "x"), [(0, 0), (0, 79), (59, 0), (59, 79), (30, 40)])
def test_one_pixel_in_each_corner(y, x) -> None:
    mask = np.zeros((60, 80), bool)
    mask[y, x] = True
    for size in (1, 9, 224):
        check(frame(60, 80), mask, size)


@pytest.mark.parametrize("fill", [0, 1, 127, 254, 255])
def test_a_constant_stays_one_whatever_it_is(fill, monkeypatch) -> None:
    monkeypatch.setattr(crops, "FILL", fill)
    mask = np.zeros((97, 4001), bool)
    mask[40, 3] = mask[41, 3990] = True
    for size in (1, 7, 224):
        constant = picture(np.full((97, 4001, 3), fill, np.uint8), mask, size)
        assert set(np.unique(constant)) == {fill}


def test_strided_frames_and_masks_are_as_good_as_copies() -> None:
    image, mask = frame(90, 120), np.zeros((90, 120), bool)
    mask[20:70, 30:100] = True
    check(image[::2, ::-1], mask[::2, ::-1], 32)
    check(image.transpose(1, 0, 2), mask.T, 32)


def test_neither_frame_nor_mask_is_changed() -> None:
    image, mask = frame(50, 50), np.eye(50, dtype=bool)
    before = image.copy(), mask.copy()
    picture(image, mask, 20)
    assert np.array_equal(image, before[0])
    assert np.array_equal(mask, before[1])


def test_threads_do_not_disturb_each_other() -> None:
    images = [frame(80 + k, 200 - k, k) for k in range(16)]
    masks = [
        np.random.default_rng(k).random(image.shape[:2]) < 0.3 for k, image in enumerate(images)
    ]
    alone = [picture(image, mask, 60) for image, mask in zip(images, masks, strict=True)]
    with ThreadPoolExecutor(8) as pool:
        for pictures in [pool.map(picture, images, masks, [60] * 16) for _ in range(5)]:
            assert all(map(np.array_equal, pictures, alone))


def test_a_frame_too_large_for_it_is_left_to_pillow() -> None:
    image, mask = frame(3, crops.MAX_SIDE + 1), np.zeros((3, crops.MAX_SIDE + 1), bool)
    mask[1, 5:8000] = True
    check(image, mask, 4)
    with refused("the mask is empty"):
        picture(image, np.zeros_like(mask), 4)


def test_padding_beyond_all_measure_takes_the_whole_frame() -> None:
    mask = np.zeros((40, 60), bool)
    mask[20:23, 30:33] = True
    check(frame(40, 60), mask, 16, padding=900_000.0)
    check(frame(40, 60), mask, 16, minimum=2**31 - 1)


def test_buffers_that_do_not_fit_are_refused_before_they_are_read() -> None:
    image, mask, out = np.zeros(300, np.uint8), np.ones(100, np.uint8), np.zeros(75, np.uint8)
    run = crops.compiled.picture
    whole = (0, 0, 10, 10)
    assert run(image, mask, out, 10, 10, 0.2, 4, 127, 5, *whole)
    for wrong in (
        (10, 11, 0.2, 4, 127, 5),
        (10, 10, 0.2, 4, 127, 6),
        (10, 10, 0.2, 4, 256, 5),
        (10, 10, float("nan"), 4, 127, 5),
        (-10, -10, 0.2, 4, 127, 5),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            run(image, mask, out, *wrong, *whole)
    for place in ((-1, 0, 20, 20), (0, -1, 20, 20), (11, 0, 20, 20), (0, 0, 10, 9), (0, 0, 9, 10)):
        with pytest.raises(ValueError, match="do not fit"):
            run(image, mask, out, 10, 10, 0.2, 4, 127, 5, *place)
    for wrong in ((10, 11), (-10, -10), (0, 0)):
        with pytest.raises(ValueError, match="do not fit"):
            crops.compiled.box(mask, *wrong)
    for wrong in ((10, 11, 8), (-10, -10, 8), (10, 10, 3)):
        with pytest.raises(ValueError, match="do not fit"):
            crops.compiled.labels(bytes(110), np.zeros(100, np.uint8), *wrong)
    with pytest.raises(ValueError, match="do not fit"):
        crops.compiled.labels(bytes(109), np.zeros(100, np.uint8), 10, 10, 8)


class Cut:
    """A frame of which parts are cut out, a few pixels larger than asked for."""

    def __init__(self, image: np.ndarray) -> None:
        self.image, self.shape = image, image.shape[:2]

    def part(self, y0: int, y1: int, x0: int, x1: int) -> tuple[np.ndarray, int, int]:
        top, left = y0 // 2 * 2, x0 // 8 * 8
        return self.image[top : y1 + 1, left : x1 + 3], top, left


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.integers(0, 9999))
def test_a_part_of_a_frame_gives_the_picture_of_the_whole(height, width, size, seed) -> None:
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), bool)
    y, x = rng.integers(height), rng.integers(width)
    mask[y : y + rng.integers(1, 30), x : x + rng.integers(1, 30)] = True
    mask &= rng.random(mask.shape) < 0.7
    mask[y, x] = True
    image = frame(height, width, seed)
    whole = picture(image, mask, size)
    assert np.array_equal(picture(Cut(image), mask, size), whole)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9999), st.floats(0, 0.02))
def test_the_compiled_box_is_that_of_numpy(height, width, seed, density) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < density
    ys, xs = np.nonzero(mask)
    expected = (ys.min(), ys.max() + 1, xs.min(), xs.max() + 1) if ys.size else None
    assert crops.tight_box(mask) == expected
    assert crops.tight_box(mask[:, ::-1][:, ::-1]) == expected  # not contiguous: numpy's own way
