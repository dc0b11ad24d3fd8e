"""Agreement over several histories, against hand computations and the published figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from annotation_passes import sequences
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue import locate
from dejacue.method import Window
from dejacue_paper.evaluation.agreement import cohen_kappa
from dejacue_paper.evaluation.annotators import agreement, boundary_sensitivity
from dejacue_paper.evaluation.resampling import nested_mean

STATES = ("nearly empty", "partly filled", "nearly full")


def test_the_arithmetic_of_the_published_agreement() -> None:
    """1140 of 1883 frames agree, 957 of the 1700 stable ones: label frequencies that give the
    published chance agreement give the published κ."""
    table = [[296, 4, 69, 0], [433, 226, 165, 0], [53, 19, 435, 0], [0, 0, 0, 183]]
    first, second = sequences(table, (*STATES, "not valid"))
    stable = [label != "not valid" for label in first]
    got = agreement({"S05–S07": (first, second)}, {"S05–S07": stable})
    pooled, steady = got.all_frames.pooled, got.stable_frames.pooled
    assert (pooled.frames, pooled.agreed) == (1883, 1140)
    assert (steady.frames, steady.agreed) == (1700, 957)
    rounded = [[round(x, 6) for x in (a.observed, a.chance, a.kappa)] for a in (pooled, steady)]
    assert rounded == [[0.605417, 0.244355, 0.47782], [0.562941, 0.288207, 0.385975]]


def test_pooling_counts_frames_and_the_macro_mean_counts_histories() -> None:
    passes = {"long": ("aaaabbbb", "aaaaaaaa"), "short": ("ab", "ab")}
    got = agreement(passes)
    assert got.stable_frames is None
    assert got.all_frames.macro == (4 / 8 + 2 / 2) / 2
    assert got.all_frames.pooled.observed == 6 / 10
    assert got.all_frames.pooled.chance == pytest.approx(0.5 * 0.9 + 0.5 * 0.1)  # over all ten


def test_stable_frames_are_compared_alone() -> None:
    passes = {"one": ("aaab", "aabb"), "two": ("ab", "ab")}
    stable = {"two": [True, False], "one": np.array([True, True, True, False])}
    got = agreement(passes, stable)
    assert got.all_frames == agreement(passes).all_frames
    assert got.stable_frames.pooled == cohen_kappa("aaaa", "aaba")
    assert got.stable_frames.macro == (2 / 3 + 1) / 2


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: agreement({}), "passes"),
        (lambda: agreement({"H1": ("ab", "a")}), "the other 1"),
        (lambda: agreement({"H1": ("ab",)}), "1 passes"),
        (
            lambda: agreement({"H1": ("a", "a")}, {"H1": [True], "H2": []}),
            "H2",
        ),
        (lambda: agreement({"H1": ("a", "a")}, {}), "H1"),
        (lambda: agreement({"H1": ("a", "a")}, {"H1": [True, True]}), "H1"),
        (lambda: agreement({"H1": ("a", "a")}, {"H1": [1]}), "H1"),
        (lambda: agreement({"H1": ("a", "a")}, {"H1": [False]}), "H1"),
        (lambda: boundary_sensitivity([[0, 1]], {}, [["h"]]), "nothing to score against: give"),
        (lambda: boundary_sensitivity([[0, 1]], {"B": []}, [["h"]]), "windows but 0"),
        (lambda: boundary_sensitivity([[0, 1]], {"B": [[[0, 1]]]}, []), "every level needs one"),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()


def test_the_same_windows_are_scored_against_each_set_of_references() -> None:
    retrieved = [Window(0, 9), Window(0, 9), Window(20, 29)]
    sets = {
        "A": [[Window(0, 9)], [Window(0, 9)], [Window(0, 1), Window(20, 23)]],
        "B": [[[5, 14]], [[0, 4]], [[40, 49]]],
    }
    levels = [["a", "a", "b"], ["h1", "h1", "h2"]]
    # A: overlaps 1, 1 and .4; B: 5/15, 5/10 and 0
    assert boundary_sensitivity(retrieved, sets, levels) == {
        "A": {"r1_03": 1.0, "r1_05": 0.5, "top1_tiou": pytest.approx((1 + 0.4) / 2)},
        "B": {"r1_03": 0.5, "r1_05": 0.25, "top1_tiou": pytest.approx((1 / 3 + 1 / 2) / 4)},
    }


@given(st.lists(st.tuples(*[st.integers(0, 20)] * 4, st.sampled_from("xyz")), min_size=1))
def test_sensitivity_is_the_nested_mean_of_the_overlaps(rows) -> None:
    retrieved = [Window(a, a + b) for a, b, *_ in rows]
    references = [[Window(c, c + d)] for _, _, c, d, _ in rows]
    groups = [row[-1] for row in rows]
    overlaps = [w.iou(r) for w, (r,) in zip(retrieved, references, strict=True)]
    expected, _ = nested_mean(overlaps, [groups])
    got = boundary_sensitivity(retrieved, {"only": references}, [groups])
    assert math.isclose(got["only"]["top1_tiou"], expected, abs_tol=1e-12)


@pytest.mark.release
def test_the_published_differences_under_the_adjudicated_boundaries_come_out(release) -> None:
    scores = {}
    for coordinates in ("absolute", "vocabulary", "dual"):
        rows = [
            (interval.window, entry.references[interval.state], interval.state, entry.id)
            for entry in release.seven[4:]
            for interval in locate(
                entry.history, entry.vocabulary, coordinates=coordinates, readout="scan"
            )
        ]
        windows, references, states, histories = zip(*rows, strict=True)
        got = boundary_sensitivity(windows, {"adjudicated": references}, [states, histories])
        scores[coordinates] = got["adjudicated"]
    difference = {
        coordinates: [
            round(scores[coordinates][metric] - scores["absolute"][metric], 6)
            for metric in ("r1_05", "top1_tiou")
        ]
        for coordinates in ("vocabulary", "dual")
    }
    assert difference == {"vocabulary": [-0.194444, -0.129053], "dual": [-0.277778, -0.110703]}
