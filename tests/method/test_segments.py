"""Segments of frames that look alike."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History
from dejacue.method import Window, segmentation, segments
from dejacue.method.segmentation import cost, noise, partition, reduced
from dejacue_paper import generate


def plain_cost(rows, edges):
    parts = [rows[a:b] for a, b in pairwise(edges)]
    return sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)


def cheapest(rows, cuts, penalty):
    """Return the cheapest of all cuts, by trying them."""
    free = np.setdiff1d(np.arange(1, len(rows)), cuts)
    costs = (
        sorted({*cuts, *chosen})
        for count in range(len(free) + 1)
        for chosen in combinations(free.tolist(), count)
    )
    return min(plain_cost(rows, edges) + penalty * (len(edges) - 1) for edges in costs)


@pytest.mark.parametrize("cuts", [[0, 10], [0, 4, 10], [0, 1, 2, 10]])
@pytest.mark.parametrize("penalty", [0.01, 0.5, 2.0, 100.0])
def test_no_other_cut_is_cheaper(cuts, penalty):
    rng = np.random.default_rng(len(cuts))
    for _ in range(3):
        rows = rng.normal(size=(10, 2)) + np.repeat(rng.normal(size=(5, 2)), 2, axis=0)
        edges = partition(rows, np.array(cuts), penalty)
        assert set(cuts) <= set(edges)
        assert cost(rows, edges) == pytest.approx(plain_cost(rows, edges))
        found = plain_cost(rows, edges) + penalty * (len(edges) - 1)
        assert found == pytest.approx(cheapest(rows, cuts, penalty))


def test_dropping_starts_changes_nothing_on_long_stretches():
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.normal(size=(8, 3)), 25, axis=0) + 0.5 * rng.normal(size=(200, 3))
    best, start = [-2.0], [0]
    for t in range(1, 201):
        costs = [best[s] + plain_cost(rows, [s, t]) + 2.0 for s in range(t)]
        best.append(min(costs))
        start.append(int(np.argmin(costs)))
    edges = [200]
    while edges[0]:
        edges.insert(0, start[edges[0]])
    assert partition(rows, np.array([0, 200]), 2.0) == edges
    assert len(edges) > 5


def test_a_change_is_found_although_starts_are_thinned_out(monkeypatch):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(600, 2))
    rows[200:] += 1
    cuts = np.array([0, 600])
    exact = partition(rows, cuts, 15.0)
    monkeypatch.setattr(segmentation, "MAX_STARTS", 128)
    thinned = partition(rows, cuts, 15.0)
    assert len(thinned) == len(exact) == 3
    assert abs(thinned[1] - exact[1]) < 5


def levels(count, length, dimension=64, spread=0.2, seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, dimension))
    return np.repeat(means, length, axis=0) + spread * rng.normal(size=(count * length, dimension))


@pytest.mark.parametrize("dimension", [64, 768])
def test_frames_that_change_are_cut_where_they_change(dimension):
    windows = segments(History(levels(6, 30, dimension)))
    assert windows == tuple(Window(30 * k, 30 * k + 29) for k in range(6))


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_noise_alone_is_cut_little_whatever_its_correlation(correlation):
    counts = []
    for seed in range(8):
        scene = generate(seed, episodes=[("empty", 240)], correlation=correlation, drift=0)
        counts.append(len(segments(scene.history)))
    assert np.mean(counts) < 8


def test_noise_is_told_from_change():
    rng = np.random.default_rng(0)
    quiet = 0.1 * rng.normal(size=(2000, 4))
    cuts = np.array([0, 2000])
    assert noise(quiet, cuts) == pytest.approx(0.04, rel=0.2)
    jumps = quiet + np.repeat(rng.normal(size=(40, 4)), 50, axis=0)
    assert noise(jumps, cuts) == pytest.approx(noise(quiet, cuts), rel=0.2)
    twice = np.repeat(quiet, 2, axis=0)  # every frame shown twice
    assert noise(twice, np.array([0, 4000])) == pytest.approx(noise(quiet, cuts), rel=0.2)


def test_a_segment_never_crosses_a_long_gap_but_a_lost_frame():
    features = levels(1, 60)
    frames = np.arange(60)
    away = np.where(frames >= 30, frames + 500, frames)
    assert segments(History(features, away)) == (Window(0, 29), Window(530, 559))
    lost = np.delete(frames, [10, 40])
    assert segments(History(features[lost], lost)) == (Window(0, 59),)
    assert len(segments(History(features[lost], lost), bridge=0)) == 3


def test_about_as_many_as_asked_for_and_all_frames_are_covered():
    history = History(levels(20, 20), np.r_[0:200, 300:500])
    for count in (1, 2, 10, 20, 60, 400, 1000):
        windows = segments(history, count)
        assert abs(len(windows) - min(max(count, 2), 400)) <= max(1, count // 5)
        starts = np.searchsorted(history.frames, [w.start for w in windows])
        ends = np.searchsorted(history.frames, [w.end for w in windows])
        assert starts.tolist() == [0, *(ends[:-1] + 1)]
        assert ends[-1] == 399
    assert segments(history, 20) == segments(history)


def test_a_higher_penalty_gives_fewer():
    history = generate(5, recurrences=5, frames=400).history
    counts = [len(segments(history, penalty=penalty)) for penalty in (0.05, 0.2, 1.0, 50.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 1


def test_a_still_picture_is_one_segment_and_so_is_one_frame():
    still = History(np.ones((50, 8), np.float32))
    assert segments(still) == segments(still, 7) == (Window(0, 49),)
    assert segments(History(np.ones((1, 8)), np.array([4]))) == (Window(4, 4),)
    assert len(segments(History(np.eye(2), np.array([4, 5])), 2)) == 2


def test_only_directions_of_features_matter_and_the_answer_is_the_same_each_time():
    features = levels(5, 40, 768, seed=4)
    longer = features * np.random.default_rng(1).uniform(0.5, 2, (200, 1))
    history = History(features)
    assert segments(history) == segments(history) == segments(History(longer))
    assert reduced(history).shape == (200, 64)
    parts = History(np.tile(features, (6, 1)))  # more rows than are taken at a time
    assert np.allclose(reduced(parts)[:200], reduced(history), atol=1e-6)


@pytest.mark.parametrize(
    ("field", "value"),
    [("count", 0), ("count", 2.5), ("penalty", 0), ("penalty", np.nan), ("bridge", -1)],
)
def test_wrong_settings_are_refused_by_name(field, value):
    with refused("segments" if field == "count" else field, value):
        segments(generate(1).history, **{field: value})
