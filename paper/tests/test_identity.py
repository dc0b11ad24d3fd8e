"""Target against tracks and siblings: the rule of closeness, and windows picked in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue.method import Window
from dejacue_paper.evaluation.identity import best_margin, best_outside, identity_correct

NONE = -np.inf
NO_WINDOWS = np.zeros((0, 2), dtype=int)
OWN, SIBLINGS = [[0, 9]], [[20, 29], [40, 49]]
SCORE = st.one_of(st.integers(-3, 3).map(float), st.just(NONE))
SHORT = st.tuples(st.integers(0, 20), st.integers(0, 9)).map(lambda w: Window(w[0], sum(w)))


@st.composite
def candidates(draw):
    windows = draw(st.lists(SHORT, min_size=1, max_size=12))
    return windows, [float(draw(st.integers(-5, 5))) for _ in windows]


def correct(target: float, *others: float) -> float:
    return identity_correct([target], [others]).item()


def shared(window: Window, others) -> bool:
    """Whether a frame of the window lies in one of the others."""
    return any(frame in other for frame in range(window.start, window.end + 1) for other in others)


def test_the_target_is_right_when_it_outscores_every_track() -> None:
    others = [[1.0, 2.0], [1.0, 4.0], [4.0, 1.0], [-9.0, -8.0]]
    assert identity_correct([3.0, 3.0, 3.0, -7.0], others).tolist() == [1, 0, 0, 1]


def test_an_equal_score_is_not_the_top_alone() -> None:
    assert correct(3.0, 3.0) == 0
    assert correct(3.0, 1.0, 3.0) == 0


def test_near_zero_a_lead_must_exceed_the_absolute_tolerance() -> None:
    assert correct(0.0, -0.9e-8) == 0
    assert correct(0.0, -1.1e-8) == 1


def test_a_lead_must_also_exceed_the_relative_tolerance() -> None:
    # 1e-8 + 1e-7 · 100 = 1.001e-5
    assert correct(100.0, 100.0 - 1.0005e-5) == 0
    assert correct(100.0, 100.0 - 1.0015e-5) == 1
    assert correct(-100.0, -100.0 - 1.0005e-5) == 0
    assert correct(-100.0, -100.0 - 1.0015e-5) == 1


def test_without_other_tracks_the_target_is_right() -> None:
    assert identity_correct([3.0, -2.0, NONE], np.empty((3, 0))).tolist() == [1, 1, 1]


def test_a_track_that_no_window_fits_cannot_win() -> None:
    assert correct(-5.0, NONE) == 1
    assert correct(-5.0, NONE, NONE) == 1
    assert correct(-5.0, NONE, -4.0) == 0


def test_a_target_that_no_window_fits_is_never_the_top_alone() -> None:
    assert correct(NONE, NONE) == 0
    assert correct(NONE, -5.0) == 0


@given(st.lists(st.tuples(SCORE, SCORE, SCORE), min_size=1, max_size=8))
def test_identity_follows_its_definition(rows) -> None:
    expected = [
        float(all(target > other and not math.isclose(target, other) for other in others))
        for target, *others in rows
    ]
    got = identity_correct([row[0] for row in rows], [row[1:] for row in rows])
    assert got.tolist() == expected


def test_margins_of_a_case_by_hand() -> None:
    windows = [
        [0, 4],  # half of its own
        [0, 3],  # less than half
        [20, 24],  # half of the first sibling
        [44, 52],  # less than half of the second: 6 of 13
        [60, 69],  # nothing
    ]
    assert best_margin(windows, [1.0, 9.0, 2.0, 8.0, 7.0], OWN, SIBLINGS) == (1.0, 2.0)


def test_the_best_of_the_windows_that_qualify_counts() -> None:
    windows = [[0, 9], [0, 8], [1, 9], [20, 29], [20, 28], [40, 49]]
    scores = [1.0, 3.0, 2.0, -6.0, -4.0, -5.0]
    assert best_margin(windows, scores, OWN, SIBLINGS) == (3.0, -4.0)


def test_a_sibling_window_shares_no_frame_with_its_own_state() -> None:
    windows = [[9, 18], [10, 18]]
    assert best_margin(windows, [5.0, 4.0], OWN, [[10, 19]]) == (NONE, 4.0)


def test_a_window_may_show_both_states_and_is_then_right_only() -> None:
    assert best_margin([[0, 9]], [5.0], OWN, [[0, 9]]) == (5.0, NONE)


def test_any_reference_of_the_state_makes_a_window_right() -> None:
    assert best_margin([[30, 39]], [5.0], [[0, 9], [30, 39]], [[50, 59]]) == (5.0, NONE)


def test_margins_without_a_window_are_infinitely_low() -> None:
    assert best_margin([[60, 69]], [5.0], OWN, SIBLINGS) == (NONE, NONE)
    assert best_margin([[0, 9]], [5.0], OWN, SIBLINGS) == (5.0, NONE)
    assert best_margin([[20, 29]], [5.0], OWN, SIBLINGS) == (NONE, 5.0)
    assert best_margin(NO_WINDOWS, [], OWN, SIBLINGS) == (NONE, NONE)


@given(candidates(), st.lists(SHORT, min_size=1, max_size=3), st.lists(SHORT, min_size=1))
def test_margins_are_those_of_plain_loops(scored, references_of_state, siblings) -> None:
    right, wrong = [NONE], [NONE]
    for window, score in zip(*scored, strict=True):
        if any(window.iou(reference) >= 0.5 for reference in references_of_state):
            right.append(score)
        elif any(window.iou(reference) >= 0.5 for reference in siblings):
            wrong += [] if shared(window, references_of_state) else [score]
    assert best_margin(*scored, references_of_state, siblings) == (max(right), max(wrong))


def test_one_common_frame_bars_a_window() -> None:
    windows = [[0, 10], [0, 9], [20, 29], [21, 29]]
    assert best_outside(windows, [4.0, 3.0, 2.0, 1.0], [Window(10, 20)]) == 3.0
    assert best_outside(windows[2:], [2.0, 1.0], [Window(10, 20)]) == 1.0


def test_a_window_must_avoid_every_barred_one() -> None:
    windows, barred = [[0, 9], [20, 29], [40, 49]], [Window(0, 5), Window(29, 35)]
    assert best_outside(windows, [3.0, 2.0, 1.0], barred) == 1.0


def test_with_nothing_barred_the_best_score_counts() -> None:
    assert best_outside([[0, 9], [20, 29]], [-3.0, -2.0], []) == -2.0
    assert best_outside([[0, 9], [20, 29]], [-3.0, -2.0], ()) == -2.0


def test_with_every_window_barred_the_score_is_infinitely_low() -> None:
    assert best_outside([[0, 9], [5, 14]], [3.0, 2.0], [Window(7, 7)]) == NONE
    assert best_outside(NO_WINDOWS, [], [Window(7, 7)]) == NONE
    assert best_outside(NO_WINDOWS, [], []) == NONE


@given(candidates(), st.lists(SHORT, max_size=3))
def test_the_best_outside_is_that_of_plain_loops(scored, barred) -> None:
    free = [score for window, score in zip(*scored, strict=True) if not shared(window, barred)]
    assert best_outside(*scored, barred) == max(free, default=NONE)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (
            lambda: identity_correct([1.0], [0.0]),
            (1,),
        ),
        (
            lambda: identity_correct([1.0], []),
            (0,),
        ),
        (
            lambda: identity_correct([1.0], [[0.0], [0.0]]),
            (2, 1),
        ),
        (lambda: identity_correct([[1.0], [1.0]], [[0.0], [0.0]]), (2, 1)),
        (lambda: identity_correct(1.0, [[0.0]]), (1, 1)),
        (lambda: identity_correct([np.nan], [[0.0]]), "target"),
        (lambda: identity_correct([1.0], [[np.nan]]), "a score of the target or of another track"),
        (lambda: best_margin([[0, 9]], [1.0, 2.0], OWN, SIBLINGS), (2,)),
        (lambda: best_margin([[0, 9]], [np.nan], OWN, SIBLINGS), (1,)),
        (lambda: best_margin([[9, 0]], [1.0], OWN, SIBLINGS), "row 0"),
        (lambda: best_margin([[0, 9]], [1.0], NO_WINDOWS, SIBLINGS), "a margin needs a reference"),
        (lambda: best_margin([[0, 9]], [1.0], [], SIBLINGS), (0,)),
        (lambda: best_margin([[0, 9]], [1.0], OWN, [20, 29]), (2,)),
        (lambda: best_margin([[0, 9]], [1.0], OWN, NO_WINDOWS), "a margin needs a reference"),
        (lambda: best_outside([[0, 9]], [1.0, 2.0], []), (2,)),
        (lambda: best_outside([[0, 9]], [np.nan], [Window(0, 1)]), (1,)),
        (lambda: best_outside([0, 9], [1.0], []), (2,)),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()
