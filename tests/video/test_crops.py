"""Crops: the padded box of a mask with mid-grey around the object, pixel by pixel (§6)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dejacue.video import crops
from dejacue.video.crops import crop, fit, tight_box


def crop_box(mask, padding=0.20, minimum=4):
    """Return the box that a crop covers, by where the black object lies in its grey."""
    part = crop(np.zeros((*mask.shape, 3), np.uint8), mask, padding, minimum)
    object_box, (top, bottom, left, right) = tight_box(mask), tight_box(part[..., 0] == 0)
    y, x = object_box[0] - top, object_box[2] - left
    assert (bottom - top, right - left) == (
        object_box[1] - object_box[0],
        object_box[3] - object_box[2],
    )
    return y, y + part.shape[0], x, x + part.shape[1]


def picture(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def naive_box(mask: np.ndarray, padding: float = 0.20, minimum: int = 4):
    """Return the padded box by looking at every pixel, one after the other."""
    points = [(y, x) for y, row in enumerate(mask.tolist()) for x, on in enumerate(row) if on]
    if not points:
        return None
    ys, xs = [y for y, _ in points], [x for _, x in points]
    longer = max(max(ys) - min(ys) + 1, max(xs) - min(xs) + 1)
    pad = max(minimum, round(padding * longer))
    height, width = mask.shape
    return (
        max(min(ys) - pad, 0),
        min(max(ys) + 1 + pad, height),
        max(min(xs) - pad, 0),
        min(max(xs) + 1 + pad, width),
    )


def naive_crop(image: np.ndarray, mask: np.ndarray, fill: int = 127, **options) -> np.ndarray:
    y0, y1, x0, x1 = naive_box(mask, **options)
    return np.array(
        [
            [image[y, x].tolist() if mask[y, x] else [fill] * 3 for x in range(x0, x1)]
            for y in range(y0, y1)
        ],
        dtype=np.uint8,
    )


@st.composite
def masks(draw) -> np.ndarray:
    """Draw random pixels, one pixel, several boxes (some at the border), or all of the frame."""
    height, width = draw(st.integers(1, 48)), draw(st.integers(1, 48))
    mask = np.zeros((height, width), dtype=bool)
    kind = draw(st.sampled_from(["noise", "pixel", "boxes", "whole"]))
    if kind == "noise":
        return draw(arrays.arrays(bool, (height, width)))
    if kind == "whole":
        mask[:] = True
    elif kind == "pixel":
        mask[draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))] = True
    else:
        for _ in range(draw(st.integers(1, 3))):
            y, x = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
            mask[y : y + draw(st.integers(1, height)), x : x + draw(st.integers(1, width))] = True
    return mask


@given(mask=masks(), seed=st.integers(0, 99))
def test_a_crop_is_the_naive_one_pixel_by_pixel(mask, seed):
    image = picture(mask.shape, seed)
    before = image.copy(), mask.copy()
    if not mask.any():
        with refused("the mask is empty"):
            crop(image, mask)
        return
    assert crop_box(mask) == naive_box(mask)
    cropped = crop(image, mask)
    assert cropped.dtype == np.uint8
    assert np.array_equal(cropped, naive_crop(image, mask))
    cropped[:] = 0  # a new array: neither image nor mask changes with it
    assert np.array_equal(image, before[0])
    assert np.array_equal(mask, before[1])


@given(
    mask=masks().filter(np.any),
    padding=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    minimum=st.integers(0, 9),
)
def test_padding_and_minimum_are_honoured(mask, padding, minimum):
    image = picture(mask.shape)
    expected = naive_crop(image, mask, padding=padding, minimum=minimum)
    assert np.array_equal(crop(image, mask, padding, minimum), expected)


@given(mask=masks().filter(np.any), seed=st.integers(0, 9))
def test_strided_images_and_masks_are_cropped_as_copies_of_them(mask, seed):
    image = picture(mask.shape, seed)
    expected = crop(image, mask)
    large, wide = np.zeros((mask.shape[0], mask.shape[1] * 2, 3), np.uint8), np.repeat(mask, 2, 1)
    large[:, ::2] = image
    assert np.array_equal(crop(large[:, ::2], wide[:, ::2]), expected)
    turned = crop(image.transpose(1, 0, 2), mask.T)
    assert np.array_equal(turned, expected.transpose(1, 0, 2))


def test_hand_computed_boxes():
    mask = np.zeros((100, 200), dtype=bool)
    mask[40:50, 100:150] = True  # longer side 50: ten pixels on every side
    assert tight_box(mask) == (40, 50, 100, 150)
    assert crop_box(mask) == (30, 60, 90, 160)
    mask[:, 190] = True  # 100 × 91: twenty, clipped above, below and on the right
    assert crop_box(mask) == (0, 100, 80, 200)


@pytest.mark.parametrize(
    ("longer", "pad"),
    [(1, 4), (20, 4), (22, 4), (23, 5), (27, 5), (28, 6), (32, 6), (33, 7), (40, 8)],
)
def test_a_fifth_of_the_longer_side_is_rounded_and_never_less_than_four(longer, pad):
    mask = np.zeros((100, 100), dtype=bool)
    mask[50, 30 : 30 + longer] = True
    assert crop_box(mask) == (50 - pad, 51 + pad, 30 - pad, 30 + longer + pad)


def test_halves_are_rounded_to_even():
    mask = np.zeros((40, 40), dtype=bool)
    mask[20, 15:20] = True  # 0.5 · 5 = 2.5 → 2
    assert crop_box(mask, padding=0.5, minimum=0) == (18, 23, 13, 22)
    mask[20, 20:22] = True  # 0.5 · 7 = 3.5 → 4
    assert crop_box(mask, padding=0.5, minimum=0) == (16, 25, 11, 26)


def test_one_pixel_of_one_pixel():
    image = np.array([[[1, 2, 3]]], dtype=np.uint8)
    assert np.array_equal(crop(image, np.ones((1, 1), dtype=bool)), image)


def test_a_hole_in_the_object_is_grey_too():
    image, mask = picture((9, 9)), np.ones((9, 9), dtype=bool)
    mask[4, 4] = False
    cropped = crop(image, mask)
    assert cropped[4, 4].tolist() == [127, 127, 127]
    assert np.array_equal(cropped[mask], image[mask])


def test_a_mask_of_other_size_is_refused():
    with refused("mask", (3, 4)):
        crop(picture((4, 3)), np.ones((3, 4), dtype=bool))


@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (300, 7), (224, 224), (500, 400)])
def test_fit_is_pillows_bilinear_squash(shape):
    from PIL import Image

    image = picture(shape)
    fitted = fit(image, 224)
    expected = Image.fromarray(image).resize((224, 224), Image.Resampling.BILINEAR)
    assert fitted.shape == (224, 224, 3)
    # in one call Pillow chooses the order of its two passes, which rounds differently
    assert np.abs(fitted.astype(int) - np.asarray(expected)).max() <= 1


def test_fit_averages_what_it_shrinks():
    image = np.zeros((100, 100, 3), dtype=np.uint8)
    image[:, 37] = 255  # antialiased, it leaves its share wherever it stands
    fitted = fit(image, 2)
    assert fitted[:, 0].min() > 0
    assert fitted.mean() == pytest.approx(255 / 100, abs=1.0)


def test_grey_stays_grey_when_it_is_fitted():
    assert set(np.unique(fit(np.full((31, 77, 3), 127, np.uint8), 224))) == {127}


def test_crops_of_real_footage_are_the_naive_ones(footage):
    from PIL import Image

    for name in ("frame00012", "frame00480"):
        with Image.open(footage / f"JPEGImages/3161_peel_banana/{name}.jpg") as opened:
            image = np.asarray(opened.convert("RGB"))
        with Image.open(footage / f"Annotations/3161_peel_banana/{name}.png") as opened:
            mask = np.asarray(opened) == 1
        whole = np.where(mask[..., None], image, np.uint8(127))
        ys, xs = np.nonzero(mask)
        pad = max(4, round(0.2 * max(np.ptp(ys) + 1, np.ptp(xs) + 1)))
        expected = whole[
            max(0, ys.min() - pad) : ys.max() + 1 + pad, max(0, xs.min() - pad) : xs.max() + 1 + pad
        ]
        assert np.array_equal(crop(image, mask), expected)


@given(st.integers(0, 10_000))
def test_compiled_pictures_have_the_bytes_of_numpy_and_pillow(seed) -> None:
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 120, size=2)
    image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    y, x = np.sort(rng.integers(0, height, 2)), np.sort(rng.integers(0, width, 2))
    mask = np.zeros((height, width), bool)
    inner = mask[y[0] : y[1] + 1, x[0] : x[1] + 1]
    inner[...] = rng.random(inner.shape) < 0.7
    size = int(rng.integers(1, 60))
    if not mask.any():
        with refused("the mask is empty"):
            crops.picture(image, mask, size)
        return
    padding, minimum = float(rng.uniform(0, 0.6)), int(rng.integers(0, 9))
    expected = crops.fit(crops.crop(image, mask, padding, minimum), size)
    assert np.array_equal(crops.picture(image, mask, size, padding, minimum), expected)


def test_pictures_without_a_compiler_are_the_same(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (50, 70, 3), dtype=np.uint8)
    mask = np.zeros((50, 70), bool)
    mask[10:30, 20:60] = True
    fast = crops.picture(image, mask, 32)
    monkeypatch.setattr(crops, "compiled", None)
    assert np.array_equal(crops.picture(image, mask, 32), fast)
    with refused("mask", (5, 70)):
        crops.picture(image, mask[:5], 32)
