"""Recurrence: hand-computed cases, and a matcher written out in plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import Window
from dejacue_paper.evaluation.occurrences import average_precision, match, recurrence

REFERENCES = [[0, 9], [20, 29], [40, 49]]
# exact; on a reference that is taken; tIoU .5; beside everything
RETRIEVED = [[0, 9], [2, 11], [20, 24], [60, 69]]
SCORES = [0.9, 0.8, 0.7, 0.6]


def plain_match(retrieved, scores, references, threshold) -> list[bool]:
    hits, free = [], list(range(len(references)))
    for at in sorted(range(len(retrieved)), key=lambda i: -scores[i]):
        best, chosen = threshold, None
        for reference in free:
            overlap = Window(*retrieved[at]).iou(Window(*references[reference]))
            if overlap > best or (overlap == best and chosen is None):
                best, chosen = overlap, reference
        hits.append(chosen is not None)
        if chosen is not None:
            free.remove(chosen)
    return hits


@st.composite
def cases(draw):
    window = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda w: [w[0], w[0] + w[1]])
    retrieved = draw(st.lists(window, min_size=0, max_size=7))
    scores = [draw(st.integers(0, 4)) / 4 for _ in retrieved]  # ties are common
    return retrieved, scores, draw(st.lists(window, min_size=1, max_size=5))


def test_each_reference_is_found_once() -> None:
    assert match(RETRIEVED, SCORES, REFERENCES, 0.5).tolist() == [True, False, True, False]
    assert match(RETRIEVED, SCORES, REFERENCES, 0.7).tolist() == [True, False, False, False]


def test_average_precision_is_the_precision_at_each_hit_over_the_references() -> None:
    assert average_precision(RETRIEVED, SCORES, REFERENCES, 0.5) == pytest.approx((1 + 2 / 3) / 3)
    assert average_precision(RETRIEVED, SCORES, REFERENCES, 0.7) == pytest.approx(1 / 3)


def test_a_late_hit_is_worth_less() -> None:
    late = average_precision([[50, 60], [0, 9]], [0.9, 0.1], [[0, 9]], 0.5)
    early = average_precision([[50, 60], [0, 9]], [0.1, 0.9], [[0, 9]], 0.5)
    assert (late, early) == (0.5, 1.0)


def test_recurrence_of_a_case_by_hand() -> None:
    assert recurrence(RETRIEVED, SCORES, REFERENCES) == pytest.approx(
        {"map": 13 / 27, "recall_05": 2 / 3, "precision_05": 1 / 2, "count_error": 1}
    )


def test_a_window_takes_the_next_reference_when_its_best_is_taken() -> None:
    twice, references = [[2, 11], [2, 11]], [[5, 14], [0, 9]]  # tIoU 7/13 and 8/12
    assert match(twice, [1.0, 0.5], references, 0.5).tolist() == [True, True]
    assert match(twice, [1.0, 0.5], references, 0.6).tolist() == [True, False]


def test_equal_scores_keep_the_order_given() -> None:
    assert match([[50, 60], [0, 9]], [1.0, 1.0], [[0, 9]], 0.5).tolist() == [False, True]
    assert match([[0, 9], [50, 60]], [1.0, 1.0], [[0, 9]], 0.5).tolist() == [True, False]


def test_the_threshold_itself_counts() -> None:
    assert match([[0, 4]], [1.0], [[0, 9]], 0.5).tolist() == [True]


def test_windows_of_the_package_are_taken_as_they_are() -> None:
    assert recurrence([Window(0, 9)], [1.0], [Window(0, 9)])["map"] == 1.0


def test_without_a_retrieved_window_only_the_count_is_off() -> None:
    expected = {"map": 0.0, "recall_05": 0.0, "precision_05": 0.0, "count_error": 3.0}
    assert recurrence([], [], REFERENCES) == expected
    assert recurrence(np.zeros((0, 2), dtype=int), [], REFERENCES) == expected
    assert match([], [], REFERENCES, 0.5).shape == (0,)


@given(cases(), st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.0]))
def test_matches_are_those_of_plain_loops(case, threshold) -> None:
    retrieved, scores, references = case
    hits = match(retrieved, scores, references, threshold).tolist()
    assert hits == plain_match(retrieved, scores, references, threshold)
    assert sum(hits) <= min(len(retrieved), len(references))
    precisions = [sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits) if hit]
    expected = sum(precisions) / len(references)
    assert average_precision(retrieved, scores, references, threshold) == pytest.approx(expected)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_windows_with_distinct_scores_does_not_matter(case, random) -> None:
    retrieved, _, references = case
    ranked = [(window, float(at)) for at, window in enumerate(retrieved)]
    before = match([w for w, _ in ranked], [s for _, s in ranked], references, 0.3)
    random.shuffle(ranked)
    after = match([w for w, _ in ranked], [s for _, s in ranked], references, 0.3)
    assert before.tolist() == after.tolist()


@given(cases())
def test_the_references_themselves_are_found_whole(case) -> None:
    references = list(map(list, {tuple(window) for window in case[2]}))
    measures = recurrence(references, list(range(len(references))), references)
    assert measures == {"map": 1.0, "recall_05": 1.0, "precision_05": 1.0, "count_error": 0.0}


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: recurrence([[0, 1]], [1.0], []), "no reference window, so there is nothing"),
        (lambda: match([[0, 1]], [1.0, 2.0], [[0, 1]], 0.5), (2,)),
        (lambda: match([], [1.0], [[0, 1]], 0.5), (1,)),
        (lambda: match([[0, 1]] * 2, [1.0, np.nan], [[0, 1]], 0.5), "score 1"),
        (lambda: match([[3, 1]], [1.0], [[0, 1]], 0.5), "row 0"),
        (lambda: match([[0, 1]], [1.0], [[0, 1]], 0.0), 0.0),
        (lambda: match([[0, 1]], [1.0], [[0, 1]], 1.5), 1.5),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()
