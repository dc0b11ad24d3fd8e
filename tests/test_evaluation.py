from __future__ import annotations

import numpy as np
import pytest

from dejacue import InputError, Window
from dejacue.evaluation import best_tiou, nested_mean, recall_at, tiou


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tiou([[3, 1]], [[0, 1]]), "ends before it starts"),
        (lambda: tiou([3, 1], [[0, 1]]), "rows of"),
        (lambda: best_tiou([[0, 1]], []), "0 reference lists"),
        (lambda: nested_mean([1.0], []), "every level"),
        (lambda: nested_mean([], [[]]), "nothing to average"),
        (lambda: nested_mean([np.nan], [["a"]]), "not finite"),
    ],
)
def test_bad_input_is_refused(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()
