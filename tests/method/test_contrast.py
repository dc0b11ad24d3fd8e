"""State evidence and the complement statistic: exact, robust where the published scan is not."""

from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue import History, Vocabulary, locate
from dejacue.evaluation import tiou
from dejacue.method import evidence as evidence_of
from dejacue.method import locate_many
from dejacue.method.contrast import Contrast
from dejacue.method.coordinates import COORDINATES, query_directions
from dejacue.method.kernel import compiled, engine
from dejacue.method.localization import analyse
from dejacue.method.state_readout import auto_bridge
from dejacue.method.states import search, smooth
from dejacue_paper.data.synthetic import generate

ENGINES = [engine(name) for name in (*compiled(), "numpy")]


def brute_force(row, cuts):
    """Return the best window by its definition; of equal ones the earliest start, then end."""
    n = len(row)
    windows = []
    for first, last in pairwise(cuts):
        for a in range(first, last):
            for b in range(a, last):
                inside, length = row[a : b + 1].sum(), b - a + 1
                score = inside / np.sqrt(length * max(1 - length / n, 1 / n))
                windows.append((score, a, b))
    best = max(score for score, _, _ in windows)
    near = [(a, b) for score, a, b in windows if score >= best - 1e-9 * max(1, abs(best))]
    return min(near)


@st.composite
def evidence(draw):
    n = draw(st.integers(1, 60))
    kind = draw(st.sampled_from(["normal", "whole", "steps", "skewed"]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    row = {
        "normal": lambda: rng.normal(size=n),
        "whole": lambda: rng.integers(-2, 3, size=n).astype(float),  # many ties
        "steps": lambda: np.repeat(rng.normal(size=n), 5)[:n],
        "skewed": lambda: rng.exponential(size=n),
    }[kind]()
    row = row - row.mean()
    row /= max(row.std(), 1e-4)
    inner = draw(st.lists(st.integers(1, max(1, n - 1)), max_size=3, unique=True))
    cuts = np.array(sorted({0, *(c for c in inner if c < n), n}), dtype=np.int64)
    return row, cuts


@settings(max_examples=300, deadline=None)
@given(evidence())
def test_every_engine_finds_the_window_of_brute_force(given_evidence):
    row, cuts = given_evidence
    if np.abs(row).max() < 1e-9:
        return
    expected = brute_force(row, cuts.tolist())
    for tested in ENGINES:
        start, end, score = tested.search(row[None], cuts)
        assert (start[0], end[0]) == expected
        length = end[0] - start[0] + 1
        norm = np.sqrt(length * max(1 - length / len(row), 1 / len(row)))
        assert score[0] == pytest.approx(row[start[0] : end[0] + 1].sum() / norm, abs=1e-9)


def test_a_part_in_which_all_responses_are_negative_still_gives_its_best_window():
    row = np.array([-2.0, -1.0, -4.0, 1.0, 1.0, 1.0, 2.0, 2.0])
    part = np.array([0]), np.array([0]), np.array([3])
    for tested in ENGINES:
        start, end, score = tested.search_parts(row[None], *part)
        assert (start[0], end[0]) == (1, 1)
        assert score[0] == pytest.approx(-1 / np.sqrt(7 / 8))


def test_of_equal_windows_the_earliest_start_and_then_the_earliest_end_wins():
    """Three and five of eight frames have one norm, and the two frames between them add nothing."""
    same_start = np.array([1, 1, 1, -0.25, 0.25, -1, -1, -1])
    same_end = np.array([-1, -1, -1, 0.25, -0.25, 1, 1, 1])
    twice = np.array([1.0, -1, 1, -1])
    for tested in ENGINES:
        for row, expected in ((same_start, (0, 2)), (same_end, (3, 7)), (twice, (0, 0))):
            start, end, _ = tested.search(row[None], np.array([0, len(row)]))
            assert (start[0], end[0]) == expected == brute_force(row, [0, len(row)])


@pytest.mark.parametrize("shape", ["walk", "slow walk", "rising", "falling", "waves", "repeats"])
def test_the_compiled_search_equals_numpy_on_long_rows(shape):
    rng = np.random.default_rng(7)
    n = 3000
    row = {
        "walk": np.cumsum(rng.normal(size=n)) / 10 + rng.normal(size=n),
        "slow walk": np.convolve(np.cumsum(rng.normal(size=n)), np.ones(25), "same"),
        "rising": np.linspace(-1, 1, n),
        "falling": np.linspace(1, -1, n) ** 3,
        "waves": np.sin(np.arange(n) / 40) + 0.1 * rng.normal(size=n),
        "repeats": np.tile([1.0, 2, 0, -1, -2], n // 5),
    }[shape]
    row = (row - row.mean()) / row.std()
    cuts = np.array([0, 900, 901, n])
    expected = search(row[None], cuts)
    for tested in ENGINES:
        for a, b in zip(expected, tested.search(row[None], cuts), strict=True):
            assert a[0] == b[0]


def test_smoothing_is_a_weighted_mean_over_the_frames_that_are_there():
    frames, weights = np.array([0, 1, 3, 9]), np.array([1.0, 0.5, 0.25])
    rows = np.array([[1.0, 2.0, 6.0, 0.0]], np.float32)
    out, centre, scale = smooth(rows, frames, np.array([0, 3, 4]), weights)
    plain = np.array([(1 + 1) / 1.5, (2 + 0.5 + 1.5) / 1.75, (6 + 0.5) / 1.25, 0.0])
    assert out * scale + centre == pytest.approx(plain[None])
    assert out.mean() == pytest.approx(0)
    assert out.std() == pytest.approx(1)


@pytest.mark.parametrize("width", [0.0, 0.2, 0.25, 1.0, 2.4, 300.0])
def test_state_evidence_is_smoothed_by_a_gaussian_up_to_four_deviations(width):
    """The definition sums over the observed frames of a stretch, then takes mean 0, deviation 1."""
    frames = np.array([0, 1, 2, 4, 5, 7, 8, 20, 21, 22, 23, 25])
    history = History(np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32), frames)
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(3, dtype=np.float32)[:2])
    for name in ("auto", "numpy"):
        seen = evidence_of(
            history, vocabulary, readout=Contrast(width=width, bridge=2), kernel=name
        )
        apart = np.abs(frames[:, None] - frames)
        near = (apart <= np.ceil(4 * width)) & ((frames < 10)[:, None] == (frames < 10))
        weights = np.exp(-0.5 * (apart / max(width, 1e-9)) ** 2) * near
        if 4 * width < 1:
            weights = np.eye(12)
        plain = seen.cosines.astype(np.float64) @ weights.T / weights.sum(axis=1)
        plain -= plain.mean(axis=1, keepdims=True)
        plain /= plain.std(axis=1, keepdims=True)
        assert seen.responses == pytest.approx(plain)


def test_rows_without_variation_give_no_answer():
    history = History(np.tile([1.0, 2.0, 3.0], (50, 1)).astype(np.float32))
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, np.eye(3, dtype=np.float32)[:2])
    for name in ("auto", "numpy"):
        timeline = locate(history, vocabulary, readout="contrast", kernel=name)
        assert list(timeline) == []
        assert timeline.meaningless is not None


def test_a_state_that_fills_most_of_the_history_is_found():
    scene = generate(5, episodes=[("empty", 30), ("filled", 270)], signal=1.5)
    reference = tuple(scene.references["filled"][0])
    interval = locate(scene.history, scene.vocabulary, readout="contrast")["filled"][0]
    assert tiou([tuple(interval.window)], [reference])[0, 0] > 0.9
    published = locate(scene.history, scene.vocabulary, readout="published")["filled"][
        0
    ]  # its median lies inside
    assert tiou([tuple(published.window)], [reference])[0, 0] < 0.9


def test_skewed_noise_favours_no_length():
    """With median centring the longest window wins even without a signal; here it does not."""
    rng = np.random.default_rng(11)
    lengths = []
    for _ in range(200):
        row = rng.exponential(size=300) ** 2
        row = (row - row.mean()) / row.std()
        start, end, _ = ENGINES[0].search(row[None], np.array([0, 300]))
        lengths.append(end[0] - start[0] + 1)
    assert np.mean(np.array(lengths) > 150) < 0.1


def test_full_pooling_gives_paraphrases_one_window_and_no_pooling_their_own():
    scene = generate(2, signal=0.6, descriptions=3)
    pooled = locate(scene.history, scene.vocabulary, readout="contrast")
    for state in ("empty", "filled"):
        (interval,) = pooled[state]
        assert interval.description is None
    single = locate(scene.history, scene.vocabulary, readout=Contrast(pooling=0))
    assert {i.description for i in single} == set(scene.vocabulary.descriptions)
    assert len({m.score for m in single["empty"]}) == 3


def test_partial_pooling_moves_each_description_towards_the_mean_of_its_state():
    rows = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], np.float32)
    vocabulary = Vocabulary({"a": ["p", "q"], "b": ["r", "s"]}, rows)
    queries = query_directions(vocabulary, COORDINATES["absolute"], 0.5).queries
    towards = np.array([0.75, 0.25, 0, 0])
    assert queries[0] == pytest.approx(towards / np.linalg.norm(towards))
    assert queries[1] == pytest.approx(queries[0][[1, 0, 2, 3]])


def test_many_histories_share_one_vocabulary():
    scenes = [generate(seed, frames=60 + seed) for seed in range(4)]
    histories, words = [scene.history for scene in scenes], scenes[0].vocabulary
    for readout in (Contrast(), Contrast(pooling=0.5), "timeline"):
        many = locate_many(histories, words, readout=readout)
        for history, timeline in zip(histories, many, strict=True):
            timeline = locate(history, words, readout=readout)
            assert [(m.window, m.score) for m in timeline] == [
                (m.window, m.score) for m in timeline
            ]


def test_repeating_a_description_within_its_state_changes_nothing():
    scene = generate(2, signal=0.6, descriptions=2)
    v = scene.vocabulary
    (first, second), filled = v.states["empty"], v.states["filled"]
    repeated = Vocabulary(
        {"empty": [first, first, first, second], "filled": filled},
        v.features[[0, 0, 0, 1, 2, 3]],
        v.encoder,
    )
    assert repeated.weights.sum() == pytest.approx(1)
    for readout in ("contrast", "published", Contrast(pooling=0.5)):
        plain = locate(scene.history, v, readout=readout)
        again = locate(scene.history, repeated, readout=readout)
        assert again.windows() == plain.windows()
        scores = {(i.state, i.description): i.score for i in again}
        assert scores == pytest.approx({(i.state, i.description): i.score for i in plain})


def test_a_width_in_seconds_without_times_is_noted():
    scene = generate(2)
    timeline = locate(scene.history, scene.vocabulary, readout=Contrast(smoothing_s=2.0))
    assert any("has no times, so it was smoothed over 4 frames" in note for note in timeline.notes)
    assert not locate(scene.history, scene.vocabulary, readout="contrast").notes


def test_diagnostics_are_those_of_the_contrast():
    lossy = generate(4, frames=300, signal=1.5, missing=0.2)
    timeline = locate(lossy.history, lossy.vocabulary, readout="contrast", diagnostics=True)
    for interval in timeline:
        why = interval.diagnostics
        assert why.run.start <= interval.start
        assert interval.end <= why.run.end
        assert not why.floor_active
    longest = max(interval.diagnostics.run.length for interval in timeline)
    assert longest > lossy.history.longest_run  # what a window may cross, not an observed run


def test_pooled_paraphrases_that_cancel_leave_the_first_of_the_state():
    rows = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0]], np.float32)
    vocabulary = Vocabulary({"a": ["x", "not x"], "b": ["y"]}, rows)
    history = History(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    timeline = locate(history, vocabulary, readout="contrast", coordinates="absolute")
    alone = locate(history, vocabulary, readout=Contrast(pooling=0), coordinates="absolute")
    assert [m.window for m in timeline["a"]] == [alone["a"][0].window]


def test_what_paraphrases_have_in_common_counts_however_small():
    rows = np.array([[1, 1e-5, 0], [-1, 1e-5, 0], [0, 0, 1]], np.float32)
    vocabulary = Vocabulary({"a": ["x", "not x"], "b": ["y"]}, rows)
    queries = query_directions(vocabulary, COORDINATES["absolute"], 1.0).queries
    np.testing.assert_allclose(queries[:2], [[0, 1, 0], [0, 1, 0]], atol=1e-6)


def test_where_one_state_falls_back_the_others_keep_their_unit_directions():
    rows = np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]  # the third state is the mean of the others
    vocabulary = Vocabulary({"a": ["x"], "b": ["y"], "c": ["x too", "y too"]}, rows)
    directions = query_directions(vocabulary, COORDINATES["vocabulary"], 1.0)
    assert directions.fallback.tolist() == [False, False, True, True]
    half = np.sqrt(0.5)
    expected = [[half, -half], [-half, half], [half, half], [half, half]]
    np.testing.assert_allclose(directions.queries, expected, atol=1e-6)


def test_windows_cross_frames_lost_at_random_but_not_long_absences():
    whole = generate(4, frames=300, signal=1.5)
    reference = tuple(whole.references["filled"][0])
    lossy = generate(4, frames=300, signal=1.5, missing=0.2)
    interval = locate(lossy.history, lossy.vocabulary, readout="contrast")["filled"][0]
    assert tiou([tuple(interval.window)], [reference])[0, 0] > 0.8
    strict = locate(lossy.history, lossy.vocabulary, readout=Contrast(bridge=0))["filled"][0]
    assert strict.window.end - strict.window.start < 60
    away = generate(4, frames=300, signal=1.5, gaps=[(reference[0] + 20, 40)])
    window = locate(away.history, away.vocabulary, readout="contrast")["filled"][0].window
    assert window.start > reference[0] + 20 or window.end < reference[0] + 60


def pieces(runs, gaps):
    """Return frames in runs of these lengths with gaps of those between them."""
    lengths = [piece for pair in zip(runs, [*gaps, 0], strict=True) for piece in pair]
    return np.flatnonzero(np.repeat(np.arange(len(lengths)) % 2 == 0, lengths))


@pytest.mark.parametrize(
    ("frames", "limit"),
    [
        (range(100), 0),
        ([*range(50), *range(51, 100)], 1),
        ([*range(50), *range(52, 100)], 0),  # one gap of two frames: rare loss gives single ones
        ([*range(20), *range(21, 40), *range(60, 100)], 1),  # half of the gaps are explained
        ([*range(20), *range(21, 40), *range(60, 80), *range(90, 120)], 0),  # it goes away
        ([t for t in range(100) if t % 2], 5),
        (pieces([8] * 9 + [9] * 2, [1] * 10), 2),  # 89 · 0.11² is above one, · 0.11³ is not
        ([*range(0, 128, 2), 127], 6),  # 64 · ½⁶ is 1, which is not below one
        # of 100 frames less than half are seen: 16 gaps say that most are lost, 15 that it is away
        (pieces([2] * 6 + [3] * 11, [3] * 9 + [4] * 7), 13),
        (pieces([3] * 16, [3] * 8 + [4] * 7), 0),
        (pieces([2] * 13 + [3] * 8, [2] * 10 + [3] * 10), 3),  # half are seen: few are lost
    ],
)
def test_the_bridge_is_what_losing_frames_at_random_explains(frames, limit):
    frames = np.array(frames)
    features = np.random.default_rng(0).normal(size=(len(frames), 4)).astype(np.float32)
    assert auto_bridge(History(features, frames)) == limit


def test_smoothing_in_seconds_means_the_same_at_twice_the_rate():
    slow = generate(9, frames=200, correlation=0.0)
    h = slow.history
    fast = History(np.repeat(h.features, 2, axis=0), times_s=np.arange(400) / 10, encoder=h.encoder)
    timed = History(h.features, times_s=np.arange(200) / 5, encoder=h.encoder)
    timeline = locate(timed, slow.vocabulary, readout="contrast")
    two = locate(fast, slow.vocabulary, readout="contrast")
    for a, b in zip(timeline, two, strict=True):
        assert abs(2 * a.window.start - b.window.start) <= 2
        assert abs(2 * a.window.end + 1 - b.window.end) <= 2
    assert timeline.settings["readout"]["smoothing_s"] == 0.8
    assert "smoothing" not in timeline.settings


@pytest.mark.parametrize("readout", ["contrast", "published", "timeline"])
def test_two_states_with_one_window_are_said_to_have_it(readout):
    words = Vocabulary(
        {"ripe": ["ripe banana"], "unripe": ["unripe banana"], "cut": ["cut banana"]},
        np.array([[1, 0, 0.02], [1, 0, -0.02], [0, 1, 0]]),
    )
    rows = np.repeat([[1, 0.1, 0], [0.1, 1, 0]], [20, 30], axis=0)
    notes = analyse(History(rows, range(50)), words, readout=readout).notes
    same = (
        '"ripe" and "unripe" have the same window, frames 0 – 19; at most one of '
        "them can be true there"
    )
    assert (same in notes) is (readout != "timeline")  # which gives every frame to one state
    assert any(note.startswith("not found: ") for note in notes) is (readout == "timeline")


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"pooling": 1.5}, "pooling 1.5"),
        ({"pooling": -0.1}, "pooling -0.1"),
        ({"width": -1.0}, "width"),
        ({"smoothing_s": np.nan}, "width"),
        ({"bridge": -1}, "bridge -1"),
        ({"bridge": "short"}, "bridge 'short'"),
        ({"bridge": True}, "bridge True"),
        ({"pooling": "1"}, "pooling '1'"),
        ({"smoothing_s": "a"}, "width"),
        ({"smoothing_s": 10**400}, "width"),
        ({"width": 10**400}, "width"),
        ({"width": np.inf}, "width"),
    ],
)
def test_settings_outside_their_range_are_refused(wrong, fact):
    with refused(fact):
        Contrast(**wrong)


def test_numpy_numbers_will_do():
    scene = generate(2)
    readout = Contrast(bridge=np.int64(2), width=np.float32(2), pooling=np.float64(1))
    timeline = locate(scene.history, scene.vocabulary, readout=readout)
    assert timeline.to_json()
