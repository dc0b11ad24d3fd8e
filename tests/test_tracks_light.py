"""The approximate tracker: squares that move, grow dark, leave and come back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue._version import __version__
from dejacue.errors import InputError
from dejacue.sources.tracks.base import Prompt
from dejacue.sources.tracks.light import Light
from dejacue.sources.tracks.light_motion import block_shifts, whole_shift
from dejacue.sources.tracks.light_regions import (
    barriers,
    box_mean,
    filled,
    grown,
    pieces,
    shrunk,
    touching,
)

HEIGHT, WIDTH, SIDE = 96, 128, 28


def texture(seed, low, high, size=(HEIGHT, WIDTH)):
    """Smooth noise between two colours."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    grid = rng.integers(0, 256, (size[0] // 4, size[1] // 4), dtype=np.uint8)
    share = np.asarray(Image.fromarray(grid).resize(size[::-1], Image.Resampling.BICUBIC)) / 255
    colours = np.array(low) + share[:, :, None] * (np.array(high) - np.array(low))
    return colours.astype(np.uint8)


BACK = texture(1, (60, 90, 60), (140, 170, 120))
FRONT = texture(2, (150, 40, 30), (240, 110, 60), (SIDE, SIDE))
BLUE = texture(3, (20, 40, 150), (60, 90, 250), (SIDE, SIDE))


def shown(places, back=BACK):
    """One frame and one mask for each (y, x, pattern); what lies beyond the frame is not seen."""
    image, masks = back.copy(), []
    for y, x, pattern in places:
        mask = np.zeros(image.shape[:2], dtype=bool)
        rows, columns = np.arange(y, y + len(pattern)), np.arange(x, x + len(pattern))
        a = rows[(rows >= 0) & (rows < mask.shape[0])]
        b = columns[(columns >= 0) & (columns < mask.shape[1])]
        if a.size and b.size:
            image[a[0] : a[-1] + 1, b[0] : b[-1] + 1] = pattern[np.ix_(a - y, b - x)]
            mask[a[0] : a[-1] + 1, b[0] : b[-1] + 1] = True
            masks = [before & ~mask for before in masks]
        masks.append(mask)
    return image, masks


def overlap(one, other):
    return (one & other).sum() / max((one | other).sum(), 1)


def path(k):
    return 20 + (3 * k) // 2, 10 + 3 * k


def test_it_says_what_it_is():
    tracker = Light()
    assert tracker.name == "light"
    assert tracker.approximate
    assert tracker.details["lines"] == "360"
    assert tracker.details["version"] == __version__
    with pytest.raises(InputError, match="lines"):
        Light(lines=10)


@pytest.mark.parametrize("kind", ["mask", "box", "point"])
def test_a_moving_square_is_followed_from_a_mask_a_box_and_a_point(kind):
    session = Light().session()
    for k in range(20):
        y, x = path(k)
        image, (mask,) = shown([(y, x, FRONT)])
        prompt = {
            "mask": Prompt(mask=mask),
            "box": Prompt(box=(x, y, x + SIDE, y + SIDE)),
            "point": Prompt(points=((x + 14.0, y + 14.0, True),)),
        }[kind]
        seen = session.step(image, (prompt,) if k == 0 else ())[1]
        assert seen.mask.shape == mask.shape
        assert seen.mask.dtype == np.bool_
        assert overlap(seen.mask, mask) > 0.9, k
        assert seen.presence > 0.8


def test_a_fast_square_is_followed_beyond_the_reach_of_block_matching():
    session = Light().session()
    for k, x in enumerate((4, 30, 60, 90)):
        image, (mask,) = shown([(40, x, FRONT)])
        seen = session.step(image, (Prompt(mask=mask),) if k == 0 else ())[1]
        assert overlap(seen.mask, mask) > 0.9


def test_a_large_frame_is_worked_on_small_and_the_mask_has_its_size():
    def enlarged(values):
        return values.repeat(3, axis=0).repeat(3, axis=1)

    session = Light(lines=96).session()
    for k in range(6):
        image, (mask,) = shown([(*path(k), FRONT)])
        image, mask = enlarged(image)[:286, :382], enlarged(mask)[:286, :382]  # no multiple of 3
        seen = session.step(image, (Prompt(mask=mask),) if k == 0 else ())[1]
        assert seen.mask.shape == mask.shape
        assert overlap(seen.mask, mask) > 0.9


def test_a_gradual_change_of_colour_is_followed():
    session = Light().session()
    for k in range(40):
        share = min(k / 30, 1)
        pattern = ((1 - share) * FRONT + share * BLUE).astype(np.uint8)
        image, (mask,) = shown([(30 + k % 2, 40, pattern)])
        seen = session.step(image, (Prompt(mask=mask),) if k == 0 else ())[1]
        assert overlap(seen.mask, mask) > 0.85, k
    assert 0.5 < seen.presence < 0.8  # it goes on, but none of its first colours is left


def test_an_object_that_leaves_is_lost_and_found_where_it_comes_in_again():
    session = Light().session()
    xs = [80, 90, 100, 115, *[140] * 8, 110, 95, 80, 70, 60]
    presences, overlaps = [], []
    for k, x in enumerate(xs):
        image, (mask,) = shown([(40, x, FRONT)])
        seen = session.step(image, (Prompt(mask=mask),) if k == 0 else ())[1]
        presences.append(seen.presence)
        overlaps.append(overlap(seen.mask, mask))
        assert seen.mask.any() == (seen.presence > 0)
    assert presences[4:12] == [0.0] * 8
    assert min(overlaps[:3] + overlaps[-3:]) > 0.85
    assert min(presences[-3:]) > 0.8


def test_an_object_behind_another_is_not_seen_and_then_seen_again():
    session = Light().session()
    cover = texture(5, (200, 200, 200), (250, 250, 250), (64, 64))
    for k, x in enumerate([-70, -64, -40, -10, 10, 30, 30, 30, 60, 90, 128, 128]):
        image, (mask, _) = shown([(40, 40, FRONT), (20, x, cover)])
        seen = session.step(image, (Prompt(mask=mask),) if k == 0 else ())[1]
        if not mask.any():
            assert not seen.mask.any()
    assert overlap(seen.mask, mask) > 0.85


def test_several_objects_join_when_they_are_prompted_and_never_share_a_pixel():
    session = Light().session()
    for k in range(14):
        image, (red, blue) = shown([(20, 10 + 3 * k, FRONT), (40, 80 - 2 * k, BLUE)])
        prompts = {0: (Prompt(object=3, mask=red),), 4: (Prompt(object=1, mask=blue),)}
        seen = session.step(image, prompts.get(k, ()))
        assert list(seen) == ([3] if k < 4 else [1, 3])
        assert overlap(seen[3].mask, red) > 0.85
        if k >= 4:
            assert overlap(seen[1].mask, blue) > 0.85
            assert not (seen[1].mask & seen[3].mask).any()


def test_of_two_objects_in_one_place_one_is_not_seen():
    session = Light().session()
    image, (mask,) = shown([(40, 40, FRONT)])
    for k in range(3):
        prompts = [Prompt(object=1, mask=mask), Prompt(object=2, mask=mask)] if k == 0 else ()
        seen = session.step(image, prompts)
        assert overlap(seen[1].mask, mask) > 0.9
        assert not seen[2].mask.any()
        assert seen[2].presence == 0


def test_an_object_may_fill_the_whole_frame():
    session = Light().session()
    whole = np.ones((HEIGHT, WIDTH), dtype=bool)
    for prompt in (Prompt(mask=whole), Prompt(box=(0.0, 0.0, WIDTH, HEIGHT))):
        session.step(BACK, [prompt])
        assert session.step(BACK)[1].mask.shape == whole.shape


@pytest.mark.parametrize("seed", range(6))
def test_frames_that_have_nothing_in_common_are_no_trouble(seed):
    rng = np.random.default_rng(seed)
    size = (int(rng.integers(20, 90)), int(rng.integers(20, 90)))
    session = Light(lines=48).session()
    for k in range(12):
        image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        mask = rng.random(size) < 0.2
        seen = session.step(image, [Prompt(object=k + 1, mask=mask)] if k in (0, 4) else ())
        assert all(0 <= one.presence <= 1 and one.mask.shape == size for one in seen.values())


def test_a_point_corrects_what_is_followed():
    session = Light().session()
    image, (red, blue) = shown([(30, 20, FRONT), (30, 48, BLUE)])
    assert overlap(session.step(image, [Prompt(mask=red)])[1].mask, red) == 1
    both = session.step(image, [Prompt(points=((60.0, 44.0, True),))])[1].mask
    assert overlap(both, red | blue) > 0.85
    without = session.step(image, [Prompt(points=((60.0, 44.0, False),))])[1].mask
    assert overlap(without, red) > 0.85


def test_a_restored_session_goes_on_exactly():
    frames = [shown([(*path(k), FRONT), (60, 90 - 2 * k, BLUE)]) for k in range(12)]
    first = Light().session()
    prompts = [Prompt(object=1, mask=frames[0][1][0]), Prompt(object=2, mask=frames[0][1][1])]
    states, seen = [], []
    for k, (image, _) in enumerate(frames):
        states.append(first.state())
        seen.append(first.step(image, prompts if k == 0 else ()))
    for start in (0, 1, 6):
        other = Light(lines=100).session()
        other.restore(states[start])
        assert other.state() == states[start]
        for k in range(start, len(frames)):
            again = other.step(frames[k][0], prompts if k == 0 else ())
            for number in (1, 2):
                assert np.array_equal(again[number].mask, seen[k][number].mask)
                assert again[number].presence == seen[k][number].presence


def test_a_lost_object_survives_a_restore():
    session = Light().session()
    for x in (90, 105, 140, 140):
        image, (mask,) = shown([(40, x, FRONT)])
        session.step(image, (Prompt(mask=mask),) if x == 90 else ())
    other = Light().session()
    other.restore(session.state())
    for x in (105, 90, 80):
        image, (mask,) = shown([(40, x, FRONT)])
        one, two = session.step(image)[1], other.step(image)[1]
        assert np.array_equal(one.mask, two.mask)
    assert overlap(two.mask, mask) > 0.75


@pytest.mark.parametrize("state", [b"", b"not a state", b"PK\x03\x04"])
def test_a_damaged_state_is_refused_and_changes_nothing(state):
    session = Light().session()
    image, (mask,) = shown([(40, 40, FRONT)])
    session.step(image, [Prompt(mask=mask)])
    before = session.state()
    with pytest.raises(InputError, match="start anew"):
        session.restore(state)
    assert session.state() == before


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (Prompt(), "nothing is given"),
        (Prompt(box=(200.0, 10.0, 240.0, 30.0)), "covers nothing of the 128 × 96 frame"),
        (Prompt(box=(40.0, 10.0, 40.0, 30.0)), "covers nothing"),
        (Prompt(box=(float("nan"), 10.0, 40.0, 30.0)), "covers nothing"),
        (Prompt(points=((128.0, 4.0, True),)), "outside the 128 × 96 frame"),
        (Prompt(points=((50.0, 50.0, False),)), "nothing stands out"),
        (Prompt(mask=np.zeros((HEIGHT, WIDTH), bool)), "the mask is empty"),
        (Prompt(mask=np.ones((10, 12), bool)), "the mask has 12 × 10 pixels"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(prompt, message):
    session = Light().session()
    with pytest.raises(InputError, match=message):
        session.step(shown([(40, 40, FRONT)])[0], [prompt])


def test_a_point_on_a_plain_background_is_refused_and_the_session_stays_as_it_was():
    plain = np.full((HEIGHT, WIDTH, 3), 120, dtype=np.uint8)
    image, (mask,) = shown([(40, 40, FRONT)], plain)
    session = Light().session()
    session.step(image, [Prompt(mask=mask)])
    before = session.state()
    with pytest.raises(InputError, match="not on anything that stands out"):
        session.step(image, [Prompt(object=2, points=((5.0, 5.0, True),))])
    assert session.state() == before


def test_a_frame_of_another_size_is_refused():
    session = Light().session()
    image, (mask,) = shown([(40, 40, FRONT)])
    session.step(image, [Prompt(mask=mask)])
    with pytest.raises(InputError, match="bring all frames to one size"):
        session.step(image[:90])
    with pytest.raises(InputError, match="height, width, 3"):
        session.step(image[:, :, 0])


def test_nothing_is_seen_before_the_first_prompt():
    session = Light().session()
    assert session.step(BACK) == {}


@pytest.mark.parametrize("size", [(1, 1), (5, 40), (17, 9)])
def test_tiny_frames_are_no_trouble(size):
    image = np.full((*size, 3), 90, dtype=np.uint8)
    mask = np.zeros(size, dtype=bool)
    mask[0, 0] = True
    session = Light().session()
    session.step(image, [Prompt(mask=mask)])
    for _ in range(3):
        assert session.step(image)[1].mask.shape == size


def test_block_vectors_lead_from_the_new_frame_back_to_the_old():
    before = np.ascontiguousarray(texture(7, (0, 0, 0), (255, 255, 255))[:, :, 0])
    now = np.roll(before, (3, -5), axis=(0, 1))
    inner = block_shifts(before, now)[2:-2, 2:-2].reshape(-1, 2)
    assert (inner == (-3, 5)).all(axis=1).mean() > 0.9


def test_the_whole_shift_is_found_in_any_direction():
    mask = np.zeros((HEIGHT, WIDTH), dtype=np.float32)
    mask[40:68, 50:78] = 1
    before, _ = shown([(40, 50, FRONT)])
    like = np.ones((HEIGHT, WIDTH), dtype=np.float32)
    for down, right in ((0, 0), (-30, 12), (20, -40), (9, 45)):
        now, _ = shown([(40 + down, 50 + right, FRONT)])
        found = whole_shift(before.astype(np.float32), now.astype(np.float32), mask, like)
        assert found == (down, right)


def flooded(mask):
    """Pieces by plain flooding, numbered in reading order."""
    numbers = np.zeros(mask.shape, dtype=int)
    count = 0
    for y, x in zip(*np.nonzero(mask), strict=True):
        if numbers[y, x]:
            continue
        count += 1
        todo = [(y, x)]
        while todo:
            a, b = todo.pop()
            inside = 0 <= a < mask.shape[0] and 0 <= b < mask.shape[1]
            if inside and mask[a, b] and not numbers[a, b]:
                numbers[a, b] = count
                todo += [(a + i, b + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return numbers


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1), st.integers(0, 10**6))
def test_pieces_are_those_of_plain_flooding(height, width, share, seed):
    mask = np.random.default_rng(seed).random((height, width)) < share
    assert np.array_equal(pieces(mask), flooded(mask))


def test_regions_grow_shrink_touch_and_fill():
    mask = np.zeros((12, 14), dtype=bool)
    mask[3:8, 3:8] = True
    mask[5, 5] = False
    mask[10, 12] = True
    assert grown(mask, 1)[2:9, 2:9].all()
    assert not grown(mask, 1)[1].any()
    assert filled(mask, 1)[5, 5]
    assert not filled(mask, 0)[5, 5]
    assert np.argwhere(shrunk(filled(mask, 1), 2)).tolist() == [[5, 5]]
    seed = np.zeros_like(mask)
    seed[3, 3] = True
    assert touching(mask, seed).sum() == 24
    assert not touching(mask, seed, 0.1).any()


def test_the_mean_at_the_border_is_over_what_lies_inside():
    values = np.arange(12.0).reshape(3, 4)
    assert box_mean(values, 1)[0, 0] == pytest.approx(np.mean([0, 1, 4, 5]))
    assert box_mean(values, 1)[1, 2] == pytest.approx(values[0:3, 1:4].mean())


def test_a_barrier_stands_around_a_thing_and_not_around_a_slope():
    picture = np.zeros((30, 60, 3), dtype=np.uint8)
    picture[:, :, 0] = np.linspace(0, 120, 60)[None]
    picture[10:20, 40:50] = 250
    outside = np.zeros((30, 60), dtype=bool)
    outside[[0, -1]], outside[:, [0, -1]] = True, True
    found = barriers(picture, outside, np.ones(3, dtype=np.float32))
    assert found[15, 20] < 1
    assert found[15, 45] > 300


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (2, 3)])
def test_a_frame_of_one_line_can_be_followed(size):
    height, width = size
    session = Light().session()
    image = np.full((height, width, 3), 90, np.uint8)
    for prompts in ((Prompt(box=(0, 0, width, height)),), ()):
        assert session.step(image, prompts)[1].mask.shape == size


def test_an_object_that_is_shown_keeps_its_pixels_in_that_frame() -> None:
    rng = np.random.default_rng(4)
    image = rng.integers(0, 60, size=(90, 120, 3)).astype(np.uint8)
    image[20:70, 30:90] = (200, 60, 60)
    session = Light().session()
    session.step(image, [Prompt(object=1, box=(30, 20, 90, 70))])
    seen = session.step(image, [Prompt(object=2, box=(35, 25, 60, 60))])
    piece = np.zeros((90, 120), bool)
    piece[25:60, 35:60] = True
    assert seen[2].presence > 0.5
    assert (seen[2].mask & piece).sum() > 0.6 * piece.sum()
    assert not (seen[1].mask & seen[2].mask).any()
