"""Duration quartiles: hand-computed boundaries, and exact fractions as a second opinion."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue_paper.evaluation.groups import duration_strata

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=40)


def plain_boundary(population, quarters: int) -> Fraction:
    """Interpolate between the two sorted lengths around the position quarters/4 · (n − 1)."""
    ordered, position = sorted(population), Fraction(quarters * (len(population) - 1), 4)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def test_a_duration_at_a_boundary_belongs_to_the_lower_quartile() -> None:
    quartiles, boundaries = duration_strata([1, 10, 11, 20, 21, 30, 31, 99], [5, 10, 20, 30, 40])
    assert boundaries.tolist() == [10, 20, 30]
    assert quartiles.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_boundaries_lie_between_the_lengths_of_a_small_population() -> None:
    quartiles, boundaries = duration_strata([12, 13, 15, 16, 17, 18], [20, 10])
    assert boundaries.tolist() == [12.5, 15.0, 17.5]
    assert quartiles.tolist() == [0, 1, 1, 2, 2, 3]


def test_the_population_alone_makes_the_boundaries() -> None:
    few, many = duration_strata([100], [1, 2, 3, 4, 5]), duration_strata([100] * 9, [1, 2, 3, 4, 5])
    assert few[1].tolist() == many[1].tolist() == [2, 3, 4]
    assert many[0].tolist() == [3] * 9


def test_a_state_with_more_descriptions_weighs_no_more_in_a_population_of_states() -> None:
    per_description, per_state = [4, 4, 4, 4, 8], [4, 8]
    assert duration_strata([5], per_state)[0].tolist() == [0]
    assert duration_strata([5], per_description)[0].tolist() == [3]


def test_equal_lengths_all_fall_into_the_shortest_quartile() -> None:
    quartiles, boundaries = duration_strata([7, 7, 8, 1], [7, 7, 7])
    assert boundaries.tolist() == [7, 7, 7]
    assert quartiles.tolist() == [0, 0, 3, 0]


@given(LENGTHS, LENGTHS)
def test_quartiles_are_the_first_whose_boundary_is_not_exceeded(durations, population) -> None:
    expected = [plain_boundary(population, quarters) for quarters in (1, 2, 3)]
    asked = [*durations, *population, *(int(boundary) for boundary in expected)]
    quartiles, boundaries = duration_strata(asked, population)
    assert boundaries.tolist() == expected
    for duration, quartile in zip(asked, quartiles.tolist(), strict=True):
        not_exceeded = [at for at, boundary in enumerate(expected) if duration <= boundary]
        assert quartile == (not_exceeded[0] if not_exceeded else 3)


@given(st.sets(st.integers(1, 10_000), min_size=8, max_size=60))
def test_distinct_lengths_split_into_quarters(lengths) -> None:
    quartiles, _ = duration_strata(sorted(lengths), sorted(lengths))
    counts = np.bincount(quartiles, minlength=4)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    "bad",
    [[], [3, 0], [3, -4], [3, 0.5], [3, np.nan], [3, np.inf], [[3, 4]], 3, ["three"]],
    ids=str,
)
def test_bad_durations_are_refused(bad) -> None:
    with refused("durations"):
        duration_strata(bad, [1, 2])
    with refused("strata need a single row of durations"):
        duration_strata([1, 2], bad)
