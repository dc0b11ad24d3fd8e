"""Frame accuracy, F1 and edit score of whole timelines."""

import numpy as np
import pytest

from dejacue import InputError
from dejacue.evaluation.segmentation import (
    edit_score,
    frame_accuracy,
    match_segments,
    segment_f1,
    segments_of,
)

# predicted, true ("-": background), accuracy, F1@.10, F1@.25, F1@.50, edit score: printed by a
# transcription of MS-TCN's eval.py (get_labels_start_end_time, f_score, levenstein), not by this
# package; one change: there the last segment ends before the last frame, here after it
CASES = [
    ("aabb", "aabb", 1.0, 1.0, 1.0, 1.0, 1.0),
    ("aabb", "abbb", 0.75, 1.0, 1.0, 1.0, 1.0),
    ("aaaa", "bbbb", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("abab", "aabb", 0.5, 0.666667, 0.666667, 0.666667, 0.5),
    ("aabb", "bbaa", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("aaab", "abbb", 0.5, 1.0, 1.0, 0.0, 1.0),
    ("aab-b", "aabbb", 0.8, 0.8, 0.8, 0.4, 0.666667),
    ("-aab-", "-abb-", 0.8, 1.0, 1.0, 1.0, 1.0),
    ("a-a-a", "aaaaa", 0.6, 0.5, 0.0, 0.0, 0.333333),
    ("abcabc", "aabbcc", 0.333333, 0.444444, 0.444444, 0.444444, 0.5),
    ("aabbaa", "aaaaaa", 0.666667, 0.5, 0.5, 0.0, 0.333333),
    ("aaaaaa", "aabbaa", 0.666667, 0.5, 0.5, 0.0, 0.333333),
    ("aabbcc", "aaccbb", 0.333333, 0.333333, 0.333333, 0.333333, 0.333333),
    ("abcd", "dcba", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("aabbaabb", "aaaabbbb", 0.5, 0.666667, 0.666667, 0.666667, 0.5),
    ("aaabbbaaa", "aabbbbbaa", 0.777778, 1.0, 1.0, 1.0, 1.0),
    ("a----", "----a", 0.6, 0.0, 0.0, 0.0, 1.0),
    ("aaaab", "baaaa", 0.6, 0.5, 0.5, 0.5, 0.0),
    ("aabbccaabb", "aabbccaabb", 1.0, 1.0, 1.0, 1.0, 1.0),
    ("abbbbbbbba", "aabbbbbbaa", 0.8, 1.0, 1.0, 1.0, 1.0),
]


def labels(text):
    return [-1 if letter == "-" else ord(letter) - ord("a") for letter in text]


@pytest.mark.parametrize(("predicted", "true", "accuracy", "f10", "f25", "f50", "edit"), CASES)
def test_the_numbers_are_those_of_action_segmentation(
    predicted, true, accuracy, f10, f25, f50, edit
):
    pair = labels(predicted), labels(true)
    assert frame_accuracy(*pair) == pytest.approx(accuracy, abs=1e-6)
    f1 = [segment_f1(*pair, threshold) for threshold in (0.1, 0.25, 0.5)]
    assert f1 == pytest.approx([f10, f25, f50], abs=1e-6)
    assert edit_score(*pair) == pytest.approx(edit, abs=1e-6)


def test_histories_add_up_segment_by_segment():
    good = match_segments(labels("aabb"), labels("aabb"), 0.5)
    bad = match_segments(labels("abab"), labels("aabb"), 0.5)
    assert (bad.hits, bad.superfluous, bad.missed) == (2, 2, 0)
    both = good + bad
    assert (both.hits, both.superfluous, both.missed) == (4, 2, 0)
    assert both.f1 == pytest.approx(8 / 10)


def test_where_nothing_is_found_and_nothing_is_true_all_is_right():
    nothing = labels("----")
    assert segments_of(nothing) == []
    assert (segment_f1(nothing, nothing, 0.5), edit_score(nothing, nothing)) == (1.0, 1.0)


def test_the_background_may_be_a_label_like_any_other():
    assert segments_of([-1, -1, 0], background=None) == [(-1, 0, 2), (0, 2, 3)]


@pytest.mark.parametrize(
    ("predicted", "true"), [([0], [0, 1]), ([], []), ([0.5], [0.5]), (np.zeros((2, 2), int),) * 2]
)
def test_labels_that_are_none_are_refused(predicted, true):
    with pytest.raises(InputError, match="label"):
        frame_accuracy(predicted, true)


def test_a_threshold_of_no_overlap_is_refused():
    with pytest.raises(InputError, match="threshold"):
        segment_f1([0], [0], 0.0)
