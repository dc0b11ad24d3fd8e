"""The other readouts of §5 against their definitions, window by window."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from by_description import by_description
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

import dejacue
from dejacue import History, InputError, Vocabulary, method
from dejacue.method import Scan, candidates
from dejacue_paper import Boxcar, MaxFrame, MeanWindow, NonOverlap, Peak
from dejacue_paper.method import readouts
from dejacue_paper.method.nonoverlap import best_disjoint

# These tests are about the published method.
locate = partial(dejacue.locate, readout="scan")
evidence = partial(method.evidence, readout="scan")

LENGTHS = (1, 2, 3, 5, 9)


def make(seed: int, states: int = 2, frames: int = 40, missing: float = 0.15):
    rng = np.random.default_rng(seed)
    observed = np.flatnonzero(rng.random(frames) > missing)
    features = rng.normal(size=(len(observed), 10)).astype(np.float32)
    texts = {f"s{k}": [f"s{k} a", f"s{k} b"] for k in range(states)}
    return History(features, observed), Vocabulary(texts, rng.normal(size=(2 * states, 10)))


def windows(history: History, lengths=LENGTHS):
    for first, last in pairwise(history.run_offsets.tolist()):
        for n in lengths:
            for a in range(first, last - n + 1):
                yield a, a + n - 1


def winner(history, score):
    scored = [(score(a, b), a, b) for a, b in windows(history)]
    best = max(scored)[0]
    a, b = min((a, b) for s, a, b in scored if s >= best - 1e-9 * max(1, abs(best)))
    return [history.frames[a], history.frames[b]]


@given(st.integers(0, 10**6))
def test_mean_window_is_the_cosine_with_the_mean_frame(seed) -> None:
    history, v = make(seed)
    x = history.features / np.linalg.norm(history.features, axis=1, keepdims=True)
    timeline = locate(history, v, coordinates="absolute", readout=MeanWindow(durations=LENGTHS))
    for z, moment in zip(v.features, by_description(timeline), strict=True):
        unit = z.astype(np.float64) / np.linalg.norm(z.astype(np.float64))

        def score(a, b, unit=unit):
            mean = x[a : b + 1].astype(np.float64).mean(axis=0)
            return mean @ unit / np.linalg.norm(mean)

        assert list(moment.window) == winner(history, score)


@given(st.integers(0, 10**6))
def test_boxcar_is_the_plain_mean_of_the_three_frame_mean(seed) -> None:
    history, v = make(seed)
    e = evidence(history, v, coordinates="absolute").cosines.astype(np.float64)
    smoothed = np.empty_like(e)
    for first, last in pairwise(history.run_offsets.tolist()):
        for t in range(first, last):
            smoothed[:, t] = e[:, max(first, t - 1) : min(last, t + 2)].mean(axis=1)
    timeline = locate(history, v, coordinates="absolute", readout=Boxcar(durations=LENGTHS))
    for row, moment in zip(smoothed, by_description(timeline), strict=True):
        assert list(moment.window) == winner(history, lambda a, b, r=row: r[a : b + 1].mean())


@given(st.integers(0, 10**6), st.booleans())
def test_max_frame_is_the_first_window_that_holds_the_best_frame(seed, repeats) -> None:
    history, v = make(seed)
    if repeats:  # the best frame occurs several times
        order = np.random.default_rng(seed).integers(0, 4, len(history))
        history = History(history.features[order], history.frames)
    e = evidence(history, v, coordinates="absolute").cosines.astype(np.float64)
    timeline = locate(history, v, coordinates="absolute", readout=MaxFrame(durations=LENGTHS))
    for row, moment in zip(e, by_description(timeline), strict=True):
        assert list(moment.window) == winner(history, lambda a, b, r=row: r[a : b + 1].max())
        assert moment.score == row.max()


def test_max_frame_of_length_one_is_the_single_best_frame() -> None:
    history, v = make(3)
    e = evidence(history, v).cosines
    for row, moment in zip(
        e, by_description(locate(history, v, readout=MaxFrame(durations=(1,)))), strict=True
    ):
        assert list(moment.window) == [history.frames[row.argmax()]] * 2


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.3, 0.8, 1.0]))
def test_peak_widens_from_the_maximum_inside_its_run(seed, ratio) -> None:
    history, v = make(seed)
    g = evidence(history, v).responses
    offsets = history.run_offsets.tolist()
    for row, moment in zip(g, by_description(locate(history, v, readout=Peak(ratio))), strict=True):
        at = int(row.argmax())
        first, last = next((a, b) for a, b in pairwise(offsets) if a <= at < b)
        left = right = at
        if row[at] > 0:
            while left > first and row[left - 1] >= ratio * row[at]:
                left -= 1
            while right < last - 1 and row[right + 1] >= ratio * row[at]:
                right += 1
        assert list(moment.window) == [history.frames[left], history.frames[right]]


def test_rows_without_variation_give_no_answer() -> None:
    history = History(np.tile([[1.0, 0.0]], (6, 1)))
    v = Vocabulary({"a": "x", "b": "y"}, np.eye(2))
    timeline = locate(history, v, readout="peak")
    assert list(timeline) == []
    assert timeline.meaningless is not None


def best_choice(history, v, readout, states):
    """Return the best of every combination of candidates, by hand."""
    frames, scores = candidates(history, v, readout=Scan(durations=readout.durations))
    pooled = scores.reshape(states, 2, -1).mean(axis=1)
    totals = []
    for combo in product(range(len(frames)), repeat=states):
        spans = sorted(frames[list(combo)].tolist())
        if all(a[1] < b[0] for a, b in pairwise(spans)):
            totals.append(sum(pooled[k, c] for k, c in enumerate(combo)))
    return max(totals, default=None)


@pytest.mark.parametrize(("states", "frames"), [(2, 14), (3, 9)])
@pytest.mark.parametrize("seed", range(12))
def test_non_overlap_is_the_best_of_all_combinations(states, frames, seed) -> None:
    history, v = make(seed, states, frames)
    readout = NonOverlap(durations=(1, 2, 3))
    expected = best_choice(history, v, readout, states)
    timeline = locate(history, v, readout=readout)
    chosen = {m.state: m for m in timeline}
    assert sum(m.score for m in chosen.values()) == pytest.approx(expected, abs=1e-9)
    spans = sorted(m.window for m in chosen.values())
    assert all(a.end < b.start for a, b in pairwise(spans))


def test_of_equal_totals_the_window_that_ends_first_and_then_starts_first_is_chosen() -> None:
    starts, ends = np.array([5, 2, 0]), np.array([6, 3, 3])
    for scores in ([1.0, 1, 1], [1 + 1e-12, 1, 1], [1e6 + 1e-4, 1e6, 1e6], [-1.0, -1, -1]):
        assert best_disjoint(starts, ends, np.array([scores]), 8).tolist() == [2]
    assert best_disjoint(starts, ends, np.array([[1 + 1e-6, 1, 1]]), 8).tolist() == [0]


def test_a_state_level_readout_gives_all_descriptions_one_interval_and_says_so() -> None:
    history, v = make(1)
    timeline = locate(history, v, readout="non-overlap")
    for state, texts in v.states.items():
        (interval,) = timeline[state]
        assert interval.description is None
        assert [timeline.windows()[state, text] for text in texts] == [interval.window] * 2
    each = locate(history, v)
    assert {(i.state, i.description) for i in each} == set(
        zip(v.state_names, v.descriptions, strict=True)
    )


def test_states_that_do_not_fit_side_by_side_are_refused() -> None:
    history = History(np.eye(3)[:2])
    v = Vocabulary({"a": "x", "b": "y", "c": "z"}, np.eye(3))
    with refused("durations"):
        locate(history, v, readout="non-overlap")


def test_too_many_states_for_the_exact_solver_are_refused() -> None:
    v = Vocabulary({f"s{k}": f"t{k}" for k in range(13)}, np.eye(13))
    with refused("states", 13):
        locate(History(np.eye(13)), v, readout="non-overlap")


def test_single_median_is_a_scan_of_thirty_frames() -> None:
    history, v = make(2, frames=90, missing=0.0)
    assert {m.window.length for m in locate(history, v, readout="single-median")} == {30}


@pytest.mark.parametrize("name", ["trajectory", "dual", "query-uniform", "dual-query-uniform"])
@pytest.mark.parametrize("readout", ["scan", "mean-window", "boxcar", "max-frame", "peak"])
def test_every_readout_works_in_every_coordinate_system(name, readout) -> None:
    history, v = make(4)
    timeline = locate(history, v, coordinates=name, readout=readout)
    assert len(timeline) == 4
    assert timeline.settings["coordinates"] == name
    assert timeline.settings["readout"]["name"] == readout


@pytest.mark.parametrize(
    "make",
    [lambda: NonOverlap(norm="sqr"), lambda: Boxcar(width=2), lambda: Boxcar(durations=())],
)
def test_readouts_refuse_bad_options_when_they_are_made(make) -> None:
    with pytest.raises(InputError):
        make()


def test_the_earliest_of_equal_peaks_wins() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(7, 5))
    history = History(np.concatenate([rows, rows[::-1], rows]))  # every frame three times
    v = Vocabulary({"a": "x", "b": "y"}, rng.normal(size=(2, 5)))
    for moment in locate(history, v, readout=Peak(1.0), smoothing=1):
        assert moment.window.end < 7


def test_a_peak_ratio_outside_its_range_is_refused() -> None:
    with refused("ratio", 1.5):
        Peak(ratio=1.5)


def test_candidates_of_a_readout_that_is_no_scan_are_refused() -> None:
    history, v = make(6)
    with pytest.raises(InputError, match="not peak"):
        candidates(history, v, readout="peak")


@pytest.mark.parametrize("short", [8, 1024])
def test_mean_window_is_the_same_from_products_and_from_sums(monkeypatch, short) -> None:
    history, v = make(5, frames=160)
    expected = locate(history, v, readout=MeanWindow(durations="generated"))
    monkeypatch.setattr(readouts, "SHORT_RUN", short)
    timeline = locate(history, v, readout=MeanWindow(durations="generated"))
    assert [m.window for m in timeline] == [m.window for m in expected]
    assert [m.score for m in timeline] == pytest.approx([m.score for m in expected], abs=1e-13)


@pytest.mark.parametrize("frames", [500, 1000, 3000])
def test_mean_window_of_a_still_object_is_the_earliest_and_shortest(frames) -> None:
    history = History(np.tile(np.random.default_rng(0).normal(size=(1, 8)), (frames, 1)))
    v = Vocabulary({"a": ["x"], "b": ["y"]}, np.random.default_rng(1).normal(size=(2, 8)))
    for moment in locate(history, v, readout="mean-window"):
        assert tuple(moment.window) == (0, 0)


@pytest.mark.parametrize("readout", ["mean-window", "max-frame"])
def test_an_ablation_refuses_what_would_take_minutes_or_gigabytes(readout, monkeypatch) -> None:
    history, v = make(0)
    locate(history, v, readout=readout)
    monkeypatch.setattr(readouts, "MAX_SCORES", len(history))
    with refused(readout, kind=InputError):
        locate(history, v, readout=readout)


def test_windows_that_look_at_no_frame() -> None:
    frames = [3, 4, 8, 9, 10, 11, 20]
    history = History(np.random.default_rng(0).normal(size=(7, 8)), frames)
    v = Vocabulary({"a": ["x"], "b": ["y"]}, np.random.default_rng(1).normal(size=(2, 8)))
    for name, window in (("whole-history", (3, 20)), ("longest-run", (8, 11))):
        timeline = locate(history, v, readout=name, diagnostics=True)
        assert [tuple(m.window) for m in timeline] == [window] * 2
        assert [m.score for m in timeline] == [0, 0]
