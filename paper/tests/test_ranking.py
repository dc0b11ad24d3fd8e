"""Ranks of the good candidates: a case by hand, and the measures written out in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import Window
from dejacue_paper.evaluation.ranking import RANKING, rank_candidates

REFERENCE = [[0, 9]]
# tIoU with [0, 9]: 0, .3, .5, .8, 0
CANDIDATES = [[20, 29], [0, 2], [0, 4], [0, 7], [40, 40]]
FAR = [[100 + at, 100 + at] for at in range(60)]  # touch no reference


def ranked(windows, scores, references=REFERENCE) -> dict[str, float]:
    """Return the measures of one description."""
    measures = rank_candidates(windows, [scores], [references])
    return {name: values.item() for name, values in measures.items()}


def after_far(count: int, windows) -> dict[str, float]:
    """Return the windows, ranked behind so many candidates that overlap nothing."""
    order = [*FAR[:count], *windows]
    return ranked(order, -np.arange(len(order)))


def plain_measures(windows, scores, references) -> dict[str, float]:
    """Compute the measures from their definitions, candidate by candidate in order of score."""
    order = sorted(range(len(windows)), key=lambda at: (-scores[at], at))
    overlaps = [
        max(Window(*windows[at]).iou(Window(*reference)) for reference in references)
        for at in order
    ]
    expected = {"top1_tiou": overlaps[0], "oracle_tiou": max(overlaps)}
    for name, threshold in (("mrr_03", 0.3), ("mrr_05", 0.5)):
        ranks = [rank for rank, overlap in enumerate(overlaps, start=1) if overlap >= threshold]
        expected[name] = 1 / ranks[0] if ranks else 0.0
    for k in (5, 10, 50):
        expected[f"recall_at_{k}_05"] = float(any(overlap >= 0.5 for overlap in overlaps[:k]))
    best = next(at for at, overlap in enumerate(overlaps) if abs(overlap - max(overlaps)) <= 1e-12)
    expected["best_overlap_normalized_rank"] = (
        best / (len(windows) - 1) if len(windows) > 1 else 0.0
    )
    gap = max(overlaps) - overlaps[0]
    expected["oracle_gap"] = gap
    expected["oracle_gap_closed_at_10"] = (max(overlaps[:10]) - overlaps[0]) / gap if gap else 1.0
    return expected


@st.composite
def cases(draw):
    window = st.tuples(st.integers(0, 25), st.integers(0, 9)).map(lambda w: [w[0], w[0] + w[1]])
    windows = draw(st.lists(window, min_size=1, max_size=70))
    references = draw(st.lists(st.lists(window, min_size=1, max_size=3), min_size=1, max_size=3))
    score = st.integers(-3, 3)  # ties are common
    row = st.lists(score, min_size=len(windows), max_size=len(windows))
    return windows, [draw(row) for _ in references], references


def test_measures_of_a_case_by_hand() -> None:
    # in the order of the scores: [20, 29], [0, 2], [40, 40], [0, 4], [0, 7]
    assert ranked(CANDIDATES, [5.0, 4.0, 2.0, 1.0, 3.0]) == pytest.approx(
        {
            "mrr_03": 1 / 2,
            "mrr_05": 1 / 4,
            "recall_at_5_05": 1.0,
            "recall_at_10_05": 1.0,
            "recall_at_50_05": 1.0,
            "best_overlap_normalized_rank": 1.0,
            "top1_tiou": 0.0,
            "oracle_tiou": 0.8,
            "oracle_gap": 0.8,
            "oracle_gap_closed_at_10": 1.0,
        }
    )


def test_every_measure_has_one_value_per_description() -> None:
    scores = [[5.0, 4.0, 2.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0, 0.0]]
    measures = rank_candidates(CANDIDATES, scores, [REFERENCE, [[40, 40], [41, 49]]])
    assert tuple(measures) == RANKING
    assert {values.shape for values in measures.values()} == {(2,)}
    assert measures["mrr_05"].tolist() == [1 / 4, 1 / 5]
    assert measures["top1_tiou"].tolist() == [0.0, 0.0]
    assert measures["oracle_tiou"].tolist() == [0.8, 1.0]


def test_a_higher_score_ranks_first() -> None:
    assert ranked([[0, 9], [50, 59]], [2.0, 1.0])["top1_tiou"] == 1.0
    assert ranked([[0, 9], [50, 59]], [1.0, 2.0])["top1_tiou"] == 0.0


def test_equal_scores_keep_the_order_of_the_candidates() -> None:
    same = np.zeros(40)
    front, back = [[0, 9], *FAR[:39]], [*FAR[:39], [0, 9]]
    assert ranked(front, same)["mrr_05"] == 1.0
    assert ranked(back, same)["mrr_05"] == 1 / 40
    assert ranked(back, same)["best_overlap_normalized_rank"] == 1.0


def test_a_candidate_without_a_score_ranks_last() -> None:
    measures = ranked([[0, 9], [50, 59], [60, 69]], [-np.inf, -5.0, np.inf])
    assert measures["mrr_05"] == 1 / 3


def test_overlaps_at_the_thresholds_count() -> None:
    assert ranked([[0, 2]], [1.0])["mrr_03"] == 1.0
    assert ranked([[0, 2]], [1.0])["mrr_05"] == 0.0
    assert ranked([[0, 4]], [1.0])["mrr_05"] == 1.0
    assert ranked([[0, 4]], [1.0])["recall_at_5_05"] == 1.0


@pytest.mark.parametrize("k", [5, 10, 50])
def test_recall_looks_at_the_first_k_candidates_and_no_further(k) -> None:
    assert after_far(k - 1, [[0, 9]])[f"recall_at_{k}_05"] == 1.0
    assert after_far(k, [[0, 9]])[f"recall_at_{k}_05"] == 0.0


def test_without_a_good_candidate_reciprocal_rank_and_recall_are_0() -> None:
    measures = ranked(FAR, np.arange(60))
    assert [measures[name] for name in RANKING[:5]] == [0.0] * 5


def test_the_rank_of_the_best_candidate_runs_from_0_to_1() -> None:
    order = [4.0, 3.0, 2.0, 1.0, 0.0]
    for at in range(5):
        windows = [*FAR[:at], [0, 9], *FAR[at:4]]
        assert ranked(windows, order)["best_overlap_normalized_rank"] == at / 4


def test_a_single_candidate_has_rank_0() -> None:
    assert ranked([[3, 30]], [1.0])["best_overlap_normalized_rank"] == 0.0


def test_of_equally_good_candidates_the_first_gives_the_rank() -> None:
    # [0, 4] and [5, 9] both overlap by one half
    measures = ranked([[50, 59], [5, 9], [60, 69], [0, 4]], [4.0, 3.0, 2.0, 1.0])
    assert measures["best_overlap_normalized_rank"] == 1 / 3


@pytest.mark.parametrize(("last", "rank"), [(2_000_000, 0.0), (500_000, 1.0)])
def test_overlaps_are_equally_good_within_a_millionth_of_a_millionth(last, rank) -> None:
    """n/(n + 1) and (n + 1)/(n + 2) differ by 2.5e-13 and by 4e-12."""
    measures = ranked([[0, last - 1], [0, last + 1]], [2.0, 1.0], [[0, last]])
    assert measures["oracle_gap"] > 0
    assert measures["best_overlap_normalized_rank"] == rank


def test_the_gap_is_closed_where_there_is_none() -> None:
    measures = ranked([[0, 4], [50, 59]], [2.0, 1.0])
    assert (measures["oracle_gap"], measures["oracle_gap_closed_at_10"]) == (0.0, 1.0)
    nothing = ranked(FAR, np.arange(60))  # selected and best both overlap by 0
    assert (nothing["oracle_gap"], nothing["oracle_gap_closed_at_10"]) == (0.0, 1.0)


def test_the_first_ten_close_their_share_of_the_gap() -> None:
    # selected .2, best of the first ten .5, best of all 1: (.5 − .2)/(1 − .2)
    measures = ranked([[0, 1], *FAR[:8], [0, 4], [0, 9]], -np.arange(11))
    assert measures["oracle_gap"] == pytest.approx(0.8)
    assert measures["oracle_gap_closed_at_10"] == pytest.approx(0.375)
    assert after_far(9, [[0, 9]])["oracle_gap_closed_at_10"] == 1.0
    assert after_far(10, [[0, 9]])["oracle_gap_closed_at_10"] == 0.0


def test_the_best_of_several_references_counts() -> None:
    assert ranked([[0, 4]], [1.0], [[50, 59], [0, 4], [0, 9]])["top1_tiou"] == 1.0


def test_descriptions_may_share_candidates_but_not_references() -> None:
    measures = rank_candidates([[0, 9], [20, 29]], [[2, 1]] * 3, [[[0, 9]], [[20, 29]], [[0, 9]]])
    assert measures["top1_tiou"].tolist() == [1.0, 0.0, 1.0]


def test_windows_of_the_package_are_taken_as_they_are() -> None:
    windows = [Window(*window) for window in CANDIDATES]
    scores = [5.0, 4.0, 2.0, 1.0, 3.0]
    assert ranked(windows, scores, (Window(0, 9),)) == ranked(CANDIDATES, scores)


@given(cases())
def test_measures_are_those_of_plain_loops(case) -> None:
    windows, scores, references = case
    measures = rank_candidates(windows, scores, references)
    for at, (row, windows_of_row) in enumerate(zip(scores, references, strict=True)):
        expected = plain_measures(windows, row, windows_of_row)
        for name in RANKING:
            assert math.isclose(measures[name][at], expected[name], abs_tol=1e-12), name


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: rank_candidates([[0, 1]], [1.0], [REFERENCE]), (1,)),
        (lambda: rank_candidates([[0, 1]], [[1.0]], [REFERENCE] * 2), (1, 1)),
        (lambda: rank_candidates([[0, 1]] * 3, [[2, 1]], [REFERENCE]), (1, 2)),
        (lambda: rank_candidates([[0, 1]], [[2, 1]], [REFERENCE]), (1, 2)),
        (lambda: rank_candidates([[0, 1]], [[np.nan]], [REFERENCE]), "there are no candidates"),
        (
            lambda: rank_candidates(np.zeros((0, 2), int), [[]], [REFERENCE]),
            "there are no candidates to rank",
        ),
        (lambda: rank_candidates([[5, 1]], [[1.0]], [REFERENCE]), "row 0"),
        (lambda: rank_candidates([[0, 1]], [[1.0]], [[0, 9]]), (2,)),
        (lambda: rank_candidates([[0, 1]], [[1.0]], [[]]), (0,)),
        (
            lambda: rank_candidates([[0, 1]], [[1.0]], [np.zeros((0, 2), int)]),
            "references",
        ),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()
