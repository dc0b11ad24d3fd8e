"""Frame accuracy, F1 and edit score of whole timelines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import InputError
from dejacue.evaluation.segmentation import (
    edit_score,
    frame_accuracy,
    match_segments,
    segment_f1,
    segments_of,
    unmatched_segments,
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


rows = st.lists(st.integers(-1, 2), min_size=12, max_size=12).map(sorted) | st.lists(
    st.integers(-1, 2), min_size=12, max_size=12
)


@given(rows, rows, st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_every_pair_of_segments_is_looked_at(predicted, true, threshold):
    """By the definition, without looking only where segments overlap."""
    segments, taken, superfluous = segments_of(true), [], []
    for label, first, end in segments_of(predicted):
        overlaps = [
            max(min(end, stop) - max(first, start), 0) / (max(end, stop) - min(first, start))
            if rival == label
            else 0.0
            for rival, start, stop in segments
        ]
        best = max(range(len(segments)), key=overlaps.__getitem__, default=None)
        if best is not None and overlaps[best] >= threshold and best not in taken:
            taken.append(best)
        else:
            superfluous.append((label, first, end))
    missed = [segment for at, segment in enumerate(segments) if at not in taken]
    assert unmatched_segments(predicted, true, threshold) == (superfluous, missed)


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


@pytest.mark.parametrize(
    ("predicted", "true"), [([0], [0, 1]), ([], []), ([0.5], [0.5]), (np.zeros((2, 2), int),) * 2]
)
def test_labels_that_are_none_are_refused(predicted, true):
    with pytest.raises(InputError, match="label"):
        frame_accuracy(predicted, true)


def test_a_threshold_of_no_overlap_is_refused():
    with pytest.raises(InputError, match="threshold"):
        segment_f1([0], [0], 0.0)
