"""Overlaps of paired windows and of the best candidate, against plain comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.evaluation import tiou
from dejacue.method import Window
from dejacue_paper.evaluation.overlap import oracle_tiou, paired_tiou

NO_WINDOWS = np.zeros((0, 2), dtype=int)


def test_pairs_of_windows_overlap_row_by_row() -> None:
    assert paired_tiou([[0, 9], [0, 9], [3, 3]], [[5, 14], [10, 19], [3, 3]]).tolist() == [
        5 / 15,
        0.0,
        1.0,
    ]
    assert paired_tiou([Window(0, 9)], [Window(0, 4)]).tolist() == [0.5]
    assert paired_tiou(NO_WINDOWS, NO_WINDOWS).shape == (0,)


def test_pairs_are_the_diagonal_of_all_overlaps() -> None:
    rng = np.random.default_rng(1)
    a, b = (np.sort(rng.integers(-9, 30, (40, 2)), axis=1) for _ in range(2))
    assert paired_tiou(a, b).tolist() == np.diag(tiou(a, b)).tolist()


def test_without_a_list_of_references_there_is_no_oracle() -> None:
    assert oracle_tiou([[0, 9]], []).shape == (0,)


def test_the_oracle_takes_the_best_reference_of_each_list() -> None:
    candidates = [Window(40, 44), Window(0, 9)]
    got = oracle_tiou(candidates, [[[40, 49]], [(0, 4), (40, 43)], [Window(90, 99)]])
    assert got.tolist() == [0.5, 0.8, 0.0]


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: paired_tiou([[0, 1]], [[0, 1], [2, 3]]), "paired with 2"),
        (lambda: paired_tiou([[0, 1], [2, 3]], [[0, 1]]), "paired with 1"),
        (lambda: paired_tiou([[1, 0]], [[0, 1]]), "row 0"),
        (lambda: paired_tiou([[0, 1]], [[1, 0]]), "row 0"),
        (lambda: paired_tiou([0, 1], [[0, 1]]), (2,)),
        (lambda: oracle_tiou(NO_WINDOWS, [[[0, 1]]]), "the best overlap needs candidates"),
        (lambda: oracle_tiou([], [[[0, 1]]]), (0,)),
        (lambda: oracle_tiou([[1, 0]], [[[0, 1]]]), "row 0"),
        (lambda: oracle_tiou([[0, 1]], [[[0, 1]], NO_WINDOWS]), "the best overlap"),
        (lambda: oracle_tiou([[0, 1]], [[[0, 1]], []]), (0,)),
        (lambda: oracle_tiou([[0, 1]], [[0, 1]]), (2,)),
        (lambda: oracle_tiou([[0, 1]], [[[1, 0]]]), "row 0"),
    ],
)
def test_bad_windows_are_refused(call, fact) -> None:
    with refused(fact):
        call()


@given(st.integers(0, 10_000))
def test_the_oracle_equals_comparing_every_candidate(seed) -> None:
    rng = np.random.default_rng(seed)
    starts = rng.integers(-5, 40, size=30)
    windows = np.stack([starts, starts + rng.choice([0, 2, 6, 19], size=30)], axis=1)
    lists = []
    for _ in range(3):
        first = rng.integers(-10, 50, size=rng.integers(1, 4))
        lists.append(np.stack([first, first + rng.integers(0, 25, size=len(first))], axis=1))
    expected = [tiou(windows, list).max() for list in lists]
    assert oracle_tiou(windows, lists).tolist() == pytest.approx(expected, abs=1e-15)
