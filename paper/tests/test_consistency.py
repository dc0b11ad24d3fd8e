"""Pairs of paraphrases: states with one, two and three descriptions, and plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import Window
from dejacue_paper.evaluation.groups import paraphrase_pairs


def test_two_descriptions_make_one_pair() -> None:
    pairs, overlap, same = paraphrase_pairs([[0, 9], [5, 14]], ["empty", "empty"])
    assert pairs.tolist() == [[0, 1]]
    assert overlap.tolist() == [5 / 15]
    assert same.tolist() == [0.0]


def test_a_single_description_is_in_no_pair() -> None:
    windows = [[0, 9], [50, 59], [0, 9]]
    pairs, overlap, same = paraphrase_pairs(windows, ["empty", "filled", "empty"])
    assert pairs.tolist() == [[0, 2]]
    assert (overlap.tolist(), same.tolist()) == ([1.0], [1.0])


def test_three_descriptions_make_three_pairs() -> None:
    pairs, overlap, same = paraphrase_pairs([[0, 9], [0, 4], [0, 9]], ["empty"] * 3)
    assert pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert overlap.tolist() == [0.5, 1.0, 0.5]
    assert same.tolist() == [0.0, 1.0, 0.0]


def test_windows_with_one_end_in_common_are_not_the_same() -> None:
    windows = [[0, 9], [0, 8], [1, 9], [0, 9]]
    pairs, _, same = paraphrase_pairs(windows, ["empty"] * 4)
    assert [pair for pair, equal in zip(pairs.tolist(), same, strict=True) if equal] == [[0, 3]]


def test_windows_apart_overlap_by_0() -> None:
    _, overlap, same = paraphrase_pairs([[0, 9], [10, 19]], ["empty"] * 2)
    assert (overlap.tolist(), same.tolist()) == ([0.0], [0.0])


def test_a_state_of_another_history_is_another_group() -> None:
    groups = [("empty", "h1"), ("empty", "h2"), ("empty", "h1"), ("empty", "h2")]
    pairs, overlap, _ = paraphrase_pairs([[0, 9], [20, 29], [0, 9], [20, 24]], groups)
    assert pairs.tolist() == [[0, 2], [1, 3]]
    assert overlap.tolist() == [1.0, 0.5]


def test_windows_of_the_package_are_taken_as_they_are() -> None:
    _, overlap, same = paraphrase_pairs([Window(0, 9), Window(0, 9)], ["empty"] * 2)
    assert (overlap.tolist(), same.tolist()) == ([1.0], [1.0])


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from("abc")),
        min_size=4,  # of three groups, so that one has a pair
        max_size=12,
    )
)
def test_pairs_are_those_of_plain_loops(rows) -> None:
    windows = [Window(start, start + length) for start, length, _ in rows]
    groups = [group for *_, group in rows]
    expected = {
        (i, j): (windows[i].iou(windows[j]), float(windows[i] == windows[j]))
        for i in range(len(rows))
        for j in range(i + 1, len(rows))
        if groups[i] == groups[j]
    }
    pairs, overlap, same = paraphrase_pairs(windows, groups)
    found = {
        tuple(pair): values
        for pair, *values in zip(pairs.tolist(), overlap.tolist(), same.tolist(), strict=True)
    }
    assert len(pairs) == len(expected)
    assert {pair: tuple(values) for pair, values in found.items()} == expected


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: paraphrase_pairs([[0, 1], [2, 3]], ["a"]), "windows but 1"),
        (lambda: paraphrase_pairs([[0, 1], [2, 3]], ["a", "b"]), "no state has two descriptions"),
        (lambda: paraphrase_pairs(np.zeros((0, 2), int), []), "no state has two descriptions"),
        (lambda: paraphrase_pairs([[0, 1], [3, 2]], ["a", "a"]), "row 1"),
        (lambda: paraphrase_pairs([0, 1], ["a", "a"]), (2,)),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()
