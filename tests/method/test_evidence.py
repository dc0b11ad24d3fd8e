"""Calibration and smoothing (§3)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

import dejacue
from dejacue import History, Vocabulary, method
from dejacue.method.calibration import SCALE_FLOOR, calibration, respond, smooth

# These tests are about the published method.
evidence = partial(method.evidence, readout="scan")
locate = partial(dejacue.locate, readout="scan")

RUNS = np.array([0, 4, 5, 9])


def test_calibration_is_median_and_mad_with_a_floor() -> None:
    rows = np.array([[0.0, 1.0, 2.0, 3.0, 10.0], [0.5, 0.5, 0.5, 0.5, 0.5]], np.float32)
    centre, scale = calibration(rows)
    assert centre.tolist() == [2.0, 0.5]
    assert scale.tolist() == [1.4826 * 1.0, SCALE_FLOOR]


@given(st.floats(0.1, 50), st.floats(-3, 3), st.integers(0, 10**6))
def test_a_positive_affine_change_of_the_evidence_changes_no_response(a, b, seed) -> None:
    rows = np.random.default_rng(seed).normal(size=(2, 60))
    before, after = respond(rows, RUNS_60, 3)[0], respond(a * rows + b, RUNS_60, 3)[0]
    np.testing.assert_allclose(after, before, rtol=1e-7, atol=1e-7)


RUNS_60 = np.array([0, 20, 60])


def test_smoothing_never_crosses_a_gap_and_divides_by_the_root_of_active_offsets() -> None:
    values = np.arange(9.0)[None] + 1
    got = smooth(values, RUNS, 3)[0]
    two, three = np.sqrt(2), np.sqrt(3)
    expected = [
        3 / two,
        6 / three,
        9 / three,
        7 / two,
        5.0,
        13 / two,
        21 / three,
        24 / three,
        17 / two,
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-15)


@pytest.mark.parametrize("width", [1, 5, 7, 21, 1001])
def test_any_odd_width_equals_the_definition(width) -> None:
    values = np.random.default_rng(width).normal(size=(2, 9))
    got, mean = smooth(values, RUNS, width), smooth(values, RUNS, width, mean=True)
    for first, last in ((0, 4), (4, 5), (5, 9)):
        for t in range(first, last):
            near = [j for j in range(first, last) if abs(j - t) <= (width - 1) // 2]
            np.testing.assert_allclose(got[:, t], values[:, near].sum(1) / np.sqrt(len(near)))
            np.testing.assert_allclose(mean[:, t], values[:, near].mean(1))


def test_smoothed_white_noise_keeps_unit_variance() -> None:
    noise = np.random.default_rng(0).normal(size=(2000, 60))
    assert smooth(noise, RUNS_60, 3).std(axis=0) == pytest.approx(np.ones(60), abs=0.08)


@pytest.mark.parametrize("width", [0, 2, 4, -1, 3.0])
def test_even_or_senseless_widths_are_refused(width) -> None:
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(2))
    with refused("smoothing", width):
        locate(History(np.eye(2)), v, smoothing=width)


def test_evidence_is_what_the_scan_sums() -> None:
    rng = np.random.default_rng(3)
    history = History(rng.normal(size=(80, 8)), np.r_[0:50, 60:90])
    v = Vocabulary({"a": ["x", "xx"], "b": "y"}, rng.normal(size=(3, 8)))
    seen = evidence(history, v, readout="published")
    assert seen.cosines.shape == seen.responses.shape == (3, 80)
    assert not seen.responses.flags.writeable
    timeline = locate(history, v, readout="published")
    for q, (state, text) in enumerate(zip(v.state_names, v.descriptions, strict=True)):
        (interval,) = [i for i in timeline[state] if i.description == text]
        inside = np.isin(history.frames, np.arange(interval.window.start, interval.window.end + 1))
        total = seen.responses[q, inside].sum() / np.sqrt(interval.window.length)
        assert interval.score == pytest.approx(total, abs=1e-10)
