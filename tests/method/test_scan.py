"""The scan against a brute force that knows nothing of prefix sums (§4)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

import dejacue
from dejacue import History, Vocabulary, method
from dejacue.method import Grid, Scan, candidates
from dejacue.method import scan as s
from dejacue.method.kernel import compiled, engine
from dejacue.method.scan_readout import schedule_of

# These tests are about the published method.
locate = partial(dejacue.locate, readout="scan")
evidence = partial(method.evidence, readout="scan")

ENGINES = (*compiled(), "numpy")


def brute_force(row, offsets, lengths, norm):
    """Try all windows by slicing, and apply the tie rule by sorting."""
    windows = [
        (row[a : a + n].sum() / {"sqrt": np.sqrt(n), "sum": 1.0, "mean": n}[norm], a, a + n - 1)
        for first, last in pairwise(offsets)
        for n in lengths
        for a in range(first, last - n + 1)
    ]
    if not windows:
        return None
    best = max(score for score, _, _ in windows)
    return min((a, b) for score, a, b in windows if score >= best - 1e-9 * max(1, abs(best)))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("norm", ["sqrt", "sum", "mean"])
@given(
    seed=st.integers(0, 10**6),
    runs=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    lengths=st.sets(st.integers(1, 45), min_size=1, max_size=9),
    ties=st.booleans(),
)
def test_the_best_window_is_the_brute_force_one(name, norm, seed, runs, lengths, ties) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(runs)])
    rows = rng.normal(size=(3, offsets[-1]))
    if ties:
        rows = np.round(rows)  # many windows with equal sums
    ordered = tuple(sorted(lengths))
    schedule = schedule_of(ordered, norm)
    start, end, score = engine(name).scan(rows, offsets, *schedule)
    for q, row in enumerate(rows):
        expected = brute_force(row, offsets.tolist(), ordered, norm)
        if expected is None:
            assert start[q] == -1
        else:
            assert (start[q], end[q]) == expected
            n = end[q] - start[q] + 1
            total = row[start[q] : end[q] + 1].sum() / s.NORMS[norm](np.array([n]))[0]
            assert score[q] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("name", ENGINES)
def test_ties_go_to_the_earliest_start_then_the_earliest_end(name) -> None:
    flat = np.zeros((1, 12))
    schedule = schedule_of((2, 5), "sqrt")
    start, end, _ = engine(name).scan(flat, np.array([0, 12]), *schedule)
    assert (start[0], end[0]) == (0, 1)
    two = np.array([[0.0, 4.0, 0.0, 0.0, 4.0, 0.0]])
    start, end, _ = engine(name).scan(two, np.array([0, 6]), *schedule_of((1,), "sqrt"))
    assert (start[0], end[0]) == (1, 1)


@pytest.mark.parametrize("name", ENGINES)
def test_a_score_within_the_tie_tolerance_counts_as_equal(name) -> None:
    row = np.array([[1.0, 0.0, 1.0 + 5e-10, 0.0, 1.0 + 5e-9]])
    start, _, score = engine(name).scan(row, np.array([0, 5]), *schedule_of((1,), "sqrt"))
    assert start[0] == 4  # 5e-9 above is a better score …
    row[0, 4] = 0.0
    start, _, score = engine(name).scan(row, np.array([0, 5]), *schedule_of((1,), "sqrt"))
    assert start[0] == 0  # … 5e-10 above is a tie
    assert score[0] == 1.0


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_not_scanned(name, bad) -> None:
    rows = np.zeros((5, 900))
    rows[4, 777] = bad
    with refused("responses", 777):
        engine(name).scan(rows, np.array([0, 900]), *schedule_of((1, 3), "sqrt"))


def make(seed, frames, **options):
    rng = np.random.default_rng(seed)
    history = History(rng.normal(size=(len(frames), 12)), frames, **options)
    return history, Vocabulary({"a": ["x", "xx"], "b": "y"}, rng.normal(size=(3, 12)))


def test_a_window_never_crosses_a_gap() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        history, v = make(seed, np.flatnonzero(rng.random(200) > 0.1))
        runs = history.runs()
        for interval in locate(history, v, readout=Scan(norm="sum")):
            assert any((interval.window & run) == interval.window for run in runs)


def test_candidates_are_every_window_length_by_length() -> None:
    history, v = make(1, np.r_[3:9, 20:24])
    windows, scores = candidates(history, v, readout=Scan(durations=(2, 5)))
    expected = [[a, a + 1] for a in (*range(3, 8), *range(20, 23))]
    expected += [[a, a + 4] for a in (3, 4)]
    assert windows.tolist() == expected
    assert scores.shape == (3, len(expected))
    for interval in locate(history, v, readout=Scan(durations=(2, 5))):
        q = v.descriptions.index(interval.description)
        best = scores[q].argmax()
        assert windows[best].tolist() == list(interval.window)
        assert scores[q].max() == pytest.approx(interval.score, abs=1e-12)


def bridged_brute_force(row, frames, lengths):
    where = {f: i for i, f in enumerate(frames)}
    windows = []
    for n in lengths:
        for f in frames:
            if f + n - 1 in where:
                a, b = where[f], where[f + n - 1]
                windows.append((row[a : b + 1].sum() / np.sqrt(b - a + 1), f, f + n - 1))
    best = max(w[0] for w in windows)
    return min((a, b) for score, a, b in windows if score >= best - 1e-9 * max(1, abs(best)))


@given(st.integers(0, 10**6))
def test_bridged_windows_cross_gaps_and_count_observed_frames(seed) -> None:
    rng = np.random.default_rng(seed)
    frames = np.flatnonzero(rng.random(60) > 0.4)
    if len(frames) == 0:
        return
    history, v = make(seed, frames)
    lengths = (1, 2, 3, 5, 9, 20)
    rows = evidence(history, v).responses
    fitting = [n for n in lengths if n <= frames[-1] - frames[0] + 1]
    for m in locate(history, v, readout=Scan(durations=lengths, runs="bridged")):
        row = rows[v.descriptions.index(m.description)]
        assert tuple(m.window) == bridged_brute_force(row, frames.tolist(), fitting)


def test_a_duration_that_ends_on_no_observed_frame_is_refused() -> None:
    history, v = make(7, np.array([0, 10, 20]))
    for interval in locate(history, v, readout=Scan((11,), runs="bridged")):
        assert interval.window.length == 11
    with refused("durations"):
        locate(history, v, readout=Scan((7,), runs="bridged"))


def test_bridged_and_strict_agree_without_gaps() -> None:
    history, v = make(5, np.arange(100))
    strict, bridged = (locate(history, v, readout=Scan(runs=r)) for r in ("strict", "bridged"))
    assert [m.window for m in strict] == [m.window for m in bridged]
    np.testing.assert_allclose([m.score for m in strict], [m.score for m in bridged], atol=1e-12)


def test_frames_far_apart_cost_no_memory_when_bridged() -> None:
    history, v = make(6, np.array([0, 1, 2, 10**12, 10**12 + 1]))
    timeline = locate(history, v, readout=Scan(durations="generated", runs="bridged"))
    assert all(m.window.start in history.frames for m in timeline)


@pytest.mark.parametrize("runs", ["strict", "bridged"])
@pytest.mark.parametrize("durations", [(1, 2, 3, 5, 8, 13), "generated", Grid(base=2, ratio=2)])
def test_the_answer_is_the_best_of_all_candidates(runs, durations) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        history, v = make(seed, np.flatnonzero(rng.random(90) > 0.1))
        readout = Scan(durations=durations, runs=runs)
        windows, scores = candidates(history, v, readout=readout)
        for interval in locate(history, v, readout=readout):
            row = scores[v.descriptions.index(interval.description)]
            assert list(interval.window) in windows[row >= row.max() - 1e-9].tolist()
            assert interval.score == pytest.approx(row.max(), abs=1e-9)


def test_no_length_that_fits_is_an_error_with_the_longest_run() -> None:
    history, v = make(8, np.r_[0:5, 9:12])
    with refused("durations", 5):
        locate(history, v, readout=Scan(durations=(6, 7)))


def test_unknown_norm_and_runs_are_refused() -> None:
    with refused("norm", "sqr"):
        Scan(norm="sqr")
    with refused("runs", "bridge"):
        Scan(runs="bridge")
