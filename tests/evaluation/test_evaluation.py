from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.evaluation import (
    best_tiou,
    group_means,
    recall_at,
    tiou,
)
from dejacue.method import Window
from dejacue_paper.evaluation.resampling import nested_mean

NO_WINDOWS = np.zeros((0, 2), dtype=int)


def plain_means(items) -> dict[str, float]:
    """Return means of means over (value, (coarse, …, fine)), by recursion from the coarsest."""
    parts: dict[str, list] = {}
    for value, (name, *finer) in items:
        parts.setdefault(name, []).append((value, finer))
    return {
        name: float(np.mean(list(plain_means(part).values())))
        if part[0][1]
        else float(np.mean([value for value, _ in part]))
        for name, part in parts.items()
    }


def test_recall_takes_one_threshold_and_overlaps_that_are_numbers() -> None:
    assert recall_at(0.5, [0.5, 0.49]).tolist() == [1.0, 0.0]
    with refused("threshold"):
        recall_at([0.3, 0.5], [0.1, 0.2])
    with refused("overlaps"):
        recall_at(0.5, [np.nan])


def test_overlap_counts_inclusive_frames() -> None:
    assert tiou([[0, 9]], [[5, 14]])[0, 0] == 5 / 15
    assert tiou([[3, 3]], [[3, 3]])[0, 0] == 1
    assert tiou([[0, 1]], [[2, 3]])[0, 0] == 0


def test_overlap_agrees_with_windows() -> None:
    rng = np.random.default_rng(0)
    a, b = (np.sort(rng.integers(0, 30, (20, 2)), axis=1) for _ in range(2))
    expected = [[Window(*x).iou(Window(*y)) for y in b] for x in a]
    np.testing.assert_allclose(tiou(a, b), expected)


def test_windows_of_the_package_are_taken_as_they_are() -> None:
    assert tiou([Window(0, 9)], [Window(5, 14), Window(0, 9)]).tolist() == [[5 / 15, 1.0]]
    assert best_tiou([Window(0, 9)], [(Window(0, 4),)]).tolist() == [0.5]


def test_the_best_of_several_references_counts() -> None:
    got = best_tiou([[0, 9], [20, 29]], [[[50, 60], [0, 4]], [[20, 29]]])
    assert got.tolist() == [0.5, 1.0]


def test_recall_counts_the_threshold_itself() -> None:
    assert recall_at(0.5, [0.49, 0.5, 0.9]).tolist() == [0, 1, 1]


def test_means_are_taken_level_by_level() -> None:
    values = [1.0, 0.0, 0.0, 1.0, 1.0]
    states = ["a", "a", "b", "a", "b"]
    histories = ["h1", "h1", "h1", "h2", "h3"]
    components = ["c1", "c1", "c1", "c1", "c2"]
    # h1: (0.5 + 0)/2 = .25, h2: 1 → c1 = .625; c2 = 1
    mean, each = nested_mean(values, [states, histories, components])
    assert mean == (0.625 + 1) / 2
    assert each == {"c1": 0.625, "c2": 1.0}


def test_several_metrics_are_averaged_side_by_side() -> None:
    values = [[1.0, 10.0, 0.3], [0.0, 30.0, 0.1], [0.0, 0.0, 0.7], [1.0, 2.0, 0.9]]
    states, histories = ["a", "a", "b", "a"], ["h1", "h1", "h1", "h2"]
    groups, means = group_means(values, [states, histories])
    assert groups == ["h1", "h2"]
    # h1: a = (.5, 20, .2), b = (0, 0, .7)
    np.testing.assert_allclose(means, [[0.25, 10.0, 0.45], [1.0, 2.0, 0.9]])
    for k in range(3):
        alone = group_means(np.array(values)[:, k], [states, histories])[1]
        assert alone.tolist() == means[:, k].tolist()


def test_one_metric_in_a_column_stays_a_column() -> None:
    assert group_means([[1.0], [3.0]], [["h", "h"]])[1].tolist() == [[2.0]]
    assert group_means([1.0, 3.0], [["h", "h"]])[1].tolist() == [2.0]


def test_a_group_counts_once_however_many_items_it_holds() -> None:
    values = [1.0] * 9 + [0.0]
    assert group_means(values, [["a"] * 9 + ["b"], ["h"] * 10])[1].tolist() == [0.5]
    assert group_means(values, [["h"] * 10])[1].tolist() == [0.9]


def test_a_state_of_another_history_is_another_state() -> None:
    # as one state, empty would be (1 + 0 + 0)/3 in both histories
    states, histories = ["empty", "empty", "filled", "empty"], ["h1", "h2", "h2", "h2"]
    groups, means = group_means([1.0, 0.0, 0.6, 0.0], [states, histories])
    assert (groups, means.tolist()) == (["h1", "h2"], [1.0, pytest.approx(0.3)])


def test_a_history_of_another_component_is_another_history() -> None:
    states, histories = ["a", "a", "a"], ["h", "h", "i"]
    groups, means = group_means([1.0, 0.0, 0.5], [states, histories, ["c1", "c2", "c2"]])
    assert (groups, means.tolist()) == (["c1", "c2"], [1.0, 0.25])


def test_groups_are_sorted_by_name_whatever_the_order_of_the_items() -> None:
    groups, means = group_means([1.0, 2.0, 3.0, 5.0], [["c9", "c10", "a", "c9"]])
    assert (groups, means.tolist()) == (["a", "c10", "c9"], [3.0, 2.0, 3.0])


def test_levels_may_be_a_table_of_names() -> None:
    levels = np.array([["a", "a", "b"], ["h", "h", "h"]])
    assert group_means([1.0, 0.0, 1.0], levels)[1].tolist() == [0.75]


@given(
    st.lists(st.tuples(st.integers(0, 8), *[st.sampled_from("xyz")] * 3), min_size=1, max_size=30),
    st.integers(1, 3),
)
def test_means_are_those_of_a_plain_recursion(rows, depth) -> None:
    values = [row[0] / 8 for row in rows]
    levels = [[row[k] for row in rows] for k in range(1, depth + 1)]
    keys = [tuple(reversed(row[1 : depth + 1])) for row in rows]
    expected = plain_means(list(zip(values, keys, strict=True)))
    groups, means = group_means(values, levels)
    assert groups == sorted(expected)
    np.testing.assert_allclose(means, [expected[name] for name in groups], atol=1e-12)
    mean, each = nested_mean(values, levels)
    assert mean == pytest.approx(sum(expected.values()) / len(expected))
    assert each == pytest.approx(expected)


def test_without_a_list_of_references_there_is_no_overlap_to_give() -> None:
    assert best_tiou(NO_WINDOWS, []).shape == (0,)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: tiou([[3, 1]], [[0, 1]]), "row 0"),
        (lambda: tiou([3, 1], [[0, 1]]), (2,)),
        (lambda: tiou([[0, 1], [2]], [[0, 1]]), "retrieved windows"),
        (lambda: tiou([[0, 1]], [[0.0, 1.0]]), (1, 2)),
        (lambda: tiou([[0, 1]], [[0, 1, 2]]), (1, 3)),
        (lambda: tiou([[0, 1]], [Window(0, 1), 5]), "reference windows"),
        (lambda: best_tiou([[0, 1]], []), "windows but 0"),
        (lambda: best_tiou([[0, 1]] * 2, [[[0, 1]], []]), "retrieved window 1"),
        (lambda: best_tiou([[0, 1]] * 2, [[[0, 1]], [0, 1]]), (2,)),
        (lambda: best_tiou([[0, 1]], [[[0, 1], [2]]]), "reference windows"),
        (lambda: best_tiou([[0, 1]] * 2, [[[0, 1]], [[]]]), (1, 0)),
        (lambda: best_tiou([[0, 1]], [7]), "reference windows must be rows of [start"),
        (lambda: best_tiou([[0, 1]], [[[1, 0]]]), "row 0"),
        (lambda: nested_mean([1.0], []), "every level needs one group for each of the 1"),
        (lambda: nested_mean([], [[]]), "nothing to average: give one row of numbers"),
        (lambda: nested_mean([np.nan], [["a"]]), "value 0"),
        (lambda: nested_mean([[1.0, 2.0]], [["a"]]), "nested_mean takes one number per item"),
        (lambda: group_means(1.0, [["a"]]), "nothing to average: give one row of numbers"),
        (lambda: group_means(np.zeros((1, 1, 1)), [["a"]]), "nothing to average: give one row"),
        (lambda: group_means([1.0, 2.0], [["a", "b"], ["h"]]), "every level needs one group"),
        (lambda: group_means([1.0, 2.0], [["a", "b", "c"]]), "every level needs one group"),
        (lambda: group_means([[1.0, 2.0], [np.inf, 3.0]], [["a", "b"]]), "value 1"),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()
