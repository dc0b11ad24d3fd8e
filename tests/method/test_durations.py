from __future__ import annotations

from itertools import pairwise

import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import Grid, Scan
from dejacue.method import scan_readout as d


def test_the_published_schedules_have_their_published_sizes() -> None:
    assert len(d.PUBLISHED) == 33
    assert d.PUBLISHED[0] == 1
    assert d.PUBLISHED[-1] == 483
    assert len(d.PUBLISHED_RATIO_1_25) == 42
    assert len(d.PUBLISHED_RATIO_2) == 28
    for schedule in (d.PUBLISHED, d.PUBLISHED_RATIO_1_25, d.PUBLISHED_RATIO_2):
        assert list(schedule) == sorted(set(schedule))


def test_the_published_schedules_are_grids_and_the_lengths_of_development_windows() -> None:
    development = {10, 11, 18, 20, 21, 25, 26, 27, 28, 30, 34, 37, 46, 49, 52, 59, 110, 168}
    for ratio, schedule in (
        (1.5, d.PUBLISHED),
        (1.25, d.PUBLISHED_RATIO_1_25),
        (2, d.PUBLISHED_RATIO_2),
    ):
        assert schedule == tuple(sorted({*Grid(ratio=ratio).lengths(483), *development}))
    assert d.SCHEDULES["generated"] == Grid(base=1, ratio=1.5, cap=None)


def test_the_generated_grid_rounds_half_to_even() -> None:
    # 1 → 2 (1.5 rounds to 2), 2 → 3, 3 → 4 (4.5 rounds to 4), 4 → 6, 6 → 9, 9 → 14 (13.5 → 14)
    assert Grid().lengths(30) == (1, 2, 3, 4, 6, 9, 14, 21, 30)


def test_a_ratio_that_is_no_binary_fraction_is_exact() -> None:
    # 25 · 1.1 = 27.5 → 28 (to even); the float 1.1 is a little larger than 11/10
    assert Grid(base=25, ratio=1.1).lengths(40)[:2] == (25, 28)
    assert Grid(base=5, ratio=1.1).lengths(7) == (5, 6, 7)
    # 15 · 1.1 = 16.5 → 16 (to even), where the float would give 17
    assert Grid(base=15, ratio=1.1).lengths(40)[:2] == (15, 16)


def test_the_cap_itself_is_a_length() -> None:
    assert Grid(base=4, ratio=1.5, cap=72).lengths(192) == (4, 6, 9, 14, 21, 32, 48, 72)
    assert Grid(base=6, ratio=2, cap=72).lengths(192) == (6, 12, 24, 48, 72)


def test_nothing_fits_below_the_base() -> None:
    assert Grid(base=5).lengths(4) == ()


@given(st.integers(1, 20), st.fractions(1, 4), st.integers(1, 5000))
def test_a_grid_ascends_and_ends_at_the_whole_length(base, ratio, longest) -> None:
    lengths = Grid(base=base, ratio=str(ratio)).lengths(longest)
    if longest < base:
        assert lengths == ()
    else:
        assert lengths[0] == base
        assert lengths[-1] == longest
        for a, b in pairwise(lengths):
            assert b == min(longest, max(a + 1, round(ratio * a)))


@pytest.mark.parametrize("durations", [(), (0, 3), (-1,), (1.5,), "publshed"])
def test_bad_durations_are_refused(durations) -> None:
    with refused("durations"):
        Scan(durations=durations)


@pytest.mark.parametrize(
    "wrong",
    [{"base": 0}, {"base": 1.5}, {"ratio": 0.5}, {"ratio": "x"}, {"cap": 0}, {"cap": 2.5}],
)
def test_bad_grids_are_refused(wrong) -> None:
    with refused("durations"):
        Grid(**wrong)


def test_repeated_and_unsorted_lengths_are_put_in_order() -> None:
    assert Scan(durations=[5, 1, 5]).durations == (1, 5)
