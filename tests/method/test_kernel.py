"""The compiled builds against numpy: the same windows and labels, and the same values nearly."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.errors import refused
from helpers.kernel import BUILDS, OPERATIONS, arguments, mutated, raw
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue import History
from dejacue.method._labelling import label, nodes_for
from dejacue.method.coordinates import unit_rows
from dejacue.method.kernel import engine
from dejacue.method.scan_readout import PUBLISHED, Grid, fitting, schedule_of
from dejacue.method.state_readout import gaussian, stretches_of
from dejacue.method.states import search, search_parts

pytestmark = pytest.mark.skipif(not BUILDS, reason="the compiled kernel could not be built here")
ORACLE = engine("numpy")
EXAMPLES = int(os.environ.get("DEJACUE_FUZZ", "100"))  # make fuzz and make sanitize try more


def random_history(rng: np.random.Generator, frames: int, d: int) -> History:
    """Return a history with gaps, repeated frames, constant stretches or float16."""
    keep = np.flatnonzero(rng.random(2 * frames) > rng.choice([0.0, 0.1, 0.5, 0.9]))[:frames]
    keep = keep if len(keep) else np.array([5])
    kind = rng.integers(5)
    features = rng.normal(size=(len(keep), d))
    if kind == 1:
        features[:] = features[0]
    elif kind == 2:
        features = features[rng.integers(0, min(3, len(keep)), len(keep))]
    elif kind == 3:
        features = 1 + 0.001 * features
    elif kind == 4:
        features = np.sign(features) * (rng.random((len(keep), d)) < 0.5) + 2 * (np.arange(d) == 0)
    return History(features.astype(rng.choice([np.float16, np.float32])), keep)


def random_case(seed: int, most_frames: int, least_queries: int = 1):
    """Return a history, queries and an rng."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 3, 16, 37, 64]))
    history = random_history(rng, int(rng.integers(1, most_frames + 1)), d)
    queries = rng.normal(size=(rng.integers(least_queries, least_queries + 9), d))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return rng, history, queries.astype(np.float32)


def close(a, b, about: str) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=about)


def same(found, expected, about: str) -> None:
    """Whether windows are the same, and their scores nearly."""
    for a, b in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(a, b, err_msg=about)
    close(found[2], expected[2], about)


def check_scan(seed: int, most_frames: int, least_queries: int = 1) -> None:
    """Compare every step of the published method; each one from what numpy gave."""
    rng, history, queries = random_case(seed, most_frames, least_queries)
    grid = PUBLISHED if rng.random() < 0.5 else Grid()
    norm, smoothing = str(rng.choice(["sqrt", "sum", "mean"])), int(rng.choice([1, 3, 5, 9, 301]))
    schedule = schedule_of(fitting(grid, history.longest_run), norm)
    runs, centre, unit = history.run_offsets, ORACLE.centre(history), unit_rows(history.features)
    for around in (None, centre):
        cosines = ORACLE.cosines(history, queries, around)
        lengths = np.linalg.norm(unit if around is None else unit - around, axis=1)
        expected = ORACLE.respond(cosines, runs, smoothing)
        windows = ORACLE.locate_cosines(cosines, runs, smoothing, *schedule)
        for build in BUILDS:
            fast = engine(build)
            np.testing.assert_allclose(fast.centre(history), centre, rtol=0, atol=1e-6)
            own = fast.cosines(history, queries, around)
            products = own * lengths, cosines * lengths  # short rows magnify rounding
            np.testing.assert_allclose(*products, rtol=0, atol=1e-6, err_msg=build)
            for a, b in zip(fast.respond(cosines, runs, smoothing), expected, strict=True):
                close(a, b, build)
            same(fast.scan(expected[0], runs, *schedule), windows, build)
            same(fast.locate_cosines(cosines, runs, smoothing, *schedule), windows, build)
            [(given, found)] = fast.locate([(history, queries, around, schedule)], smoothing)
            np.testing.assert_array_equal(given, own)
            same(found, fast.locate_cosines(own, runs, smoothing, *schedule), build)


def check_states(seed: int, most_frames: int, least_states: int = 1) -> None:
    """Compare smoothing, contrast and labelling of every build with numpy, step by step."""
    rng, history, queries = random_case(seed, most_frames, least_states)
    cuts = stretches_of(history, int(rng.choice([0, 1, 3, 10**6])))
    weights = gaussian(float(rng.choice([0.0, 0.4, 4.0, 300.0])), history.span)
    cosines = ORACLE.cosines(history, queries)
    smooth = history.frames, cuts, weights
    expected = ORACLE.smooth(cosines, *smooth)
    responses, count = expected[0], len(queries)
    first = rng.integers(0, len(history), 5)
    parts = rng.integers(0, count, 5), first, rng.integers(first + 1, len(history) + 1)
    order = tuple(rng.permutation(count)[:2].tolist()) if count > 1 and rng.random() < 0.3 else None
    irreversible = bool(rng.random() < 0.3) and (count < 5 or order is not None)
    stay = min(int(rng.choice([1, 1, 2, 5])), len(history))
    rules = nodes_for(count, order, irreversible), float(rng.uniform(0, 5)), stay, 4
    path, levels = ORACLE.label(responses, *rules)
    for build in BUILDS:
        fast = engine(build)
        for a, b in zip(fast.smooth(cosines, *smooth), expected, strict=True):
            close(a, b, build)
        same(fast.search(responses, cuts), search(responses, cuts), build)
        same(fast.search_parts(responses, *parts), search_parts(responses, *parts), build)
        found = fast.label(responses, *rules)
        np.testing.assert_array_equal(found[0], path, build)
        close(found[1], levels, build)
        [(own, evidence, windows)] = fast.contrast([(history, queries, None, (cuts, weights))])
        for a, b in zip(evidence, fast.smooth(own, *smooth), strict=True):
            np.testing.assert_array_equal(a, b)
        same(windows, fast.search(evidence[0], cuts), build)


@settings(max_examples=EXAMPLES // 2)
@given(seed=st.integers(0, 2**40))
def test_state_evidence_contrast_and_labelling_are_those_of_numpy(seed) -> None:
    check_states(seed, 60)


@pytest.mark.parametrize("seed", range(4))
def test_long_state_evidence_is_that_of_numpy(seed) -> None:
    check_states(seed, 1200)


def slow_rows(n: int) -> np.ndarray:
    """Return rows of which many starts stay on the hull: slow, periodic, still, below zero."""
    t, rng = np.arange(n), np.random.default_rng(n)
    steps = np.cumsum(rng.normal(size=n))
    rows = np.stack(
        [
            t / n,
            -t / n,
            np.sin(9 * t / n),
            np.convolve(steps, np.ones(301), "same"),
            t % 2 - 0.5,
            np.resize(rng.normal(size=60), n),
            np.repeat(rng.normal(size=n // 50), 50),
            t > n / 3,
        ]
    ).astype(np.float64)
    rows = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    return np.concatenate([rows, -np.abs(rows) - 0.01])


@pytest.mark.parametrize("cuts", [(0, 5000), (0, 1700, 5000)])
def test_searches_in_which_groups_of_starts_are_left_out_find_the_same_windows(cuts) -> None:
    rows = slow_rows(5000)
    expected = search(rows, np.array(cuts))
    for build in BUILDS:
        same(engine(build).search(rows, np.array(cuts)), expected, build)


@pytest.mark.parametrize("build", BUILDS)
@given(
    seed=st.integers(0, 2**32 - 1),
    states=st.integers(2, 40),
    frames=st.integers(1, 70),
    stay=st.integers(1, 4),
    cost=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_states_in_any_order_are_labelled_as_in_numpy(
    build, seed, states, frames, stay, cost
) -> None:
    """Whole numbers make many paths equal: the same one must win."""
    stay = min(stay, frames)
    responses = np.random.default_rng(seed).integers(-2, 3, (states, frames)).astype(float)
    rules = nodes_for(states, None, False), cost, stay, 1  # levels of later rounds are no integers
    path, _ = engine(build).label(responses, *rules)
    np.testing.assert_array_equal(path, label(responses, *rules)[0])


@pytest.mark.parametrize("build", BUILDS)
def test_of_very_many_equal_windows_the_first_is_found(build) -> None:
    row = np.where(np.arange(200_000) % 1000 < 10, -1.0, 0.0)  # half of all windows score 0
    start, end, score = engine(build).search(row[None], np.array([0, 200_000]))
    assert (start[0], end[0], score[0]) == (10, 10, 0)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**40))
def test_every_step_gives_the_windows_of_numpy(seed) -> None:
    check_scan(seed, 80)


@pytest.mark.parametrize("seed", range(12))
def test_histories_long_enough_to_be_pruned_give_the_same_windows(seed) -> None:
    check_scan(seed, 3000)


@pytest.mark.parametrize("queries", [61, 126])
def test_more_queries_than_the_kernel_takes_at_a_time_give_the_same_windows(queries) -> None:
    for seed in range(4):
        check_scan(seed, 60, queries)
        check_states(seed, 60, queries)


@pytest.mark.parametrize("name", [*BUILDS, "numpy"])
def test_where_no_length_fits_there_is_no_window(name) -> None:
    history = History(np.random.default_rng(5).normal(size=(4, 8)))
    queries = np.ones((2, 8), np.float32)
    job = history, queries, None, schedule_of((5,), "sqrt")
    [(_, (start, end, _))] = engine(name).locate([job], 3)
    assert start.tolist() == end.tolist() == [-1, -1]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("kind", ["noise", "walk", "steps", "constant", "spikes"])
def test_a_hundred_thousand_frames_give_the_same_windows(build, kind) -> None:
    rng = np.random.default_rng(11)
    n = 100_003
    rows = rng.normal(size=(3, n))
    if kind == "walk":
        rows = rows.cumsum(axis=1) * 0.01
    elif kind == "steps":
        rows = np.round(rows) + np.repeat(rng.normal(size=(3, 11)), 10_000, axis=1)[:, :n]
    elif kind == "constant":
        rows[:] = 0.25
    elif kind == "spikes":
        rows = (rows > 3.5) * 100.0
    gaps = np.sort(rng.choice(np.arange(1, n), 3, replace=False))
    runs = np.array([0, *gaps, n])
    schedule = schedule_of(Grid().lengths(int(np.diff(runs).max())), "sqrt")
    cosines = (rows * 0.02).astype(np.float32)
    expected = ORACLE.locate_cosines(cosines, runs, 3, *schedule)
    same(engine(build).locate_cosines(cosines, runs, 3, *schedule), expected, build)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 63, 64, 65, 8191, 8192, 8193, 30_000])
def test_median_and_scale_are_exact(build, n) -> None:
    rng = np.random.default_rng(n)
    rows = np.stack(
        [
            rng.normal(size=n),
            rng.integers(0, 3, n) * 0.1,
            np.full(n, -0.0),
            rng.normal(size=n) ** 9,
            1e-3 + 1e-9 * rng.normal(size=n),
        ]
    ).astype(np.float32)
    _, centre, scale = engine(build).respond(rows, np.array([0, n]), 1)
    wide = rows.astype(np.float64)
    np.testing.assert_array_equal(centre, np.median(wide, axis=1))
    mad = np.median(np.abs(wide - np.median(wide, axis=1, keepdims=True)), axis=1)
    np.testing.assert_array_equal(scale, np.maximum(1.4826 * mad, 1e-3))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("n", [16384, 16385])
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("side", ["low", "high"])
def test_a_median_at_the_edge_of_its_bracket_is_exact(build, n, beyond, side) -> None:
    """Every sixteenth value is a sample, whose ranks 447 and 575 bracket the median; the others
    are placed so that the median is the last value inside, or that many ranks beyond it."""
    k = (n - 1) // 2
    sample = np.arange(1024) / 1024
    edge, rank = (sample[447], 447) if side == "low" else (sample[575], 576)
    below = (k if side == "low" else k + 1) - rank + beyond  # of the other values
    rng = np.random.default_rng(n)
    others = np.concatenate(
        [rng.uniform(-9, edge - 1e-3, below), rng.uniform(edge + 1e-3, 9, n - 1024 - below)]
    )
    row = np.empty(n)
    sampled = np.zeros(n, bool)
    sampled[: 16 * 1024 : 16] = True
    row[sampled], row[~sampled] = rng.permutation(sample), rng.permutation(others)
    row = row.astype(np.float32)
    _, centre, _ = engine(build).respond(row[None], np.array([0, n]), 1)
    assert centre[0] == np.median(row.astype(np.float64))


@pytest.mark.parametrize("build", BUILDS)
def test_all_float16_values_widen_exactly(build) -> None:
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values) & (np.abs(values) > 0)]
    table = np.stack([values, np.ones_like(values)], axis=1)
    wide = table.astype(np.float64)
    expected = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).T
    found = engine(build).cosines(History(table), np.eye(2, dtype=np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_turned_bad_after_validation_are_reported_with_their_row(build, bad) -> None:
    values = np.ones((70, 20), np.float32)
    history = History(values, id="cup")
    values[66, 3] = bad
    queries, schedule = np.ones((1, 20), np.float32), schedule_of((1,), "sqrt")
    for centre in (None, np.zeros(20, np.float32)):
        for tested in (engine(build), ORACLE):
            with refused("cup", 66), np.errstate(invalid="ignore"):
                tested.locate(
                    [
                        (History(np.eye(3, 20)), queries, centre, schedule),
                        (history, queries, centre, schedule),
                    ],
                    3,
                )
    with refused("cup", 66):
        engine(build).centre(history)


@pytest.mark.parametrize("name", [*BUILDS, "numpy"])
def test_cosines_that_are_not_finite_are_refused(name) -> None:
    cosines, runs = np.zeros((2, 9), np.float32), np.array([0, 9])
    cosines[1, 4] = np.nan
    with refused("observed frame 4"):
        engine(name).locate_cosines(cosines, runs, 3, *schedule_of((1,), "sqrt"))
    with refused("observed frame 4"):
        engine(name).respond(cosines, runs, 3)
    with refused("observed frame 4"):
        engine(name).smooth(cosines, np.arange(9), runs, np.ones(1))


def call(operation: str, **changes):
    """Call the raw extension correctly, but with some arguments replaced."""
    fields = arguments(operation)
    assert set(changes) <= set(fields)
    return raw(operation, fields | changes)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_correct_raw_call_works(operation) -> None:
    assert call(operation) is None


WRONG = [
    {"name": "sse9"},
    {"name": None},
    {"features": np.ones((6, 5), np.float32)},
    {"features": np.ones((5, 4), np.float32)},
    {"features": np.ones((6, 4), np.float64)},
    {"features": np.ones(24, np.float32)},
    {"features": np.ones((0, 4), np.float32)},
    {"queries": np.ones((2, 3), np.float32)},
    {"queries": None},
    {"centre": np.ones((1, 3), np.float32)},
    {"centre": np.ones(5, np.float32)},
    {"cosines": np.zeros((2, 7), np.float32)},
    {"cosines": np.zeros((2, 6))},
    {"responses": np.zeros((3, 6))},
    {"runs": np.array([0, 2, 5])},
    {"runs": np.array([0, 4, 2, 6])},
    {"runs": np.array([1, 6])},
    {"runs": np.array([0])},
    {"runs": np.array([], np.int64)},
    {"runs": None},
    {"numbers": np.array([0, 1, 3, 4, 5])},
    {"numbers": np.array([0, 1, 3, 3, 5, 6])},
    {"numbers": np.array([-(2**62), 1, 3, 4, 5, 2**62])},
    {"numbers": np.array([-(2**62), 1, 3, 4, 5, 6])},
    {"numbers": np.array([0, 1, 3, 4, 5, 2**62])},
    {"numbers": None},
    {"smoothing": 2},
    {"smoothing": 0},
    {"smoothing": 2**40 + 1},
    {"lengths": np.array([0, 2])},
    {"lengths": np.array([1])},
    {"lengths": np.array([2, 1])},
    {"lengths": np.array([2, 2])},
    {"lengths": None},
    {"norms": np.array([1.0, 0.0])},
    {"norms": np.array([1.0, np.nan])},
    {"weights": np.array([])},
    {"weights": np.array([np.nan])},
    {"weights": np.array([0.0, 1.0])},
    {"weights": None},
    {"least_scale": 0.0},
    {"least_scale": np.nan},
    {"start": np.empty(1, np.int64)},
    {"score": np.empty(2, np.float32)},
    {"scale": np.empty(3)},
    {"out": np.empty(3, np.float32)},
    {"rows": np.array([0, 2])},
    {"rows": np.array([0])},
    {"firsts": np.array([-1, 0])},
    {"firsts": np.array([2, 3])},
    {"stops": np.array([2, 7])},
    {"node_states": np.array([0, 2])},
    {"node_states": np.array([-1, 0])},
    {"node_states": np.array([0])},
    {"node_first": np.zeros(2, np.uint8)},
    {"node_first": np.ones(3, np.uint8)},
    {"node_follows": np.ones((2, 3), np.uint8)},
    {"paths": np.empty(5, np.int64)},
    {"levels": np.empty(3)},
    {"cost": np.nan},
    {"cost": -1.0},
    {"stay": 0},
    {"stay": 7},
    {"rounds": 0},
]


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        (operation, changes)
        for operation in OPERATIONS
        for changes in WRONG
        if BUILDS and changes.keys() <= arguments(operation).keys()
        # alone, other features or cosines are right
        if operation != "centre" or "features" not in changes or changes["features"].shape != (5, 4)
        if operation not in ("search", "search_parts", "scan") or "responses" not in changes
    ],
)
def test_the_extension_checks_every_size_before_it_follows_a_pointer(operation, changes) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        call(operation, **changes)


def test_a_call_with_too_few_arguments_is_refused() -> None:
    for operation in OPERATIONS:
        with pytest.raises((TypeError, ValueError), match="arguments"):
            raw(operation, {"name": BUILDS[0]})


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_mutated_raw_calls_are_answered_or_refused(operation) -> None:
    """Under the sanitizers (make sanitize) also: nothing is read or written out of bounds."""
    rng = np.random.default_rng(OPERATIONS.index(operation))
    answered = 0
    for _ in range(1500):
        fields = arguments(operation)
        for name in rng.choice(sorted(fields), int(rng.integers(1, 4)), replace=False):
            fields[name] = mutated(fields[name], rng)
        try:
            answered += raw(operation, fields) is None
        except (ValueError, TypeError, BufferError, OverflowError):
            continue
    assert answered > 20


def test_read_only_outputs_are_refused() -> None:
    fixed = np.empty(2)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        call("locate", score=fixed)


def test_without_the_kernel_numpy_answers_with_one_warning() -> None:
    code = """
import sys, warnings
sys.modules["dejacue.method._kernel"] = None
import numpy as np
from dejacue import History, Vocabulary, locate
from dejacue_paper import generate
from dejacue.method import kernel
made = generate(3)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    windows = [tuple(m.window) for m in locate(made.history, made.vocabulary)]
    locate(made.history, made.vocabulary)
assert kernel.compiled() == () and kernel.why_not()
assert len(seen) == 1 and "same windows" in str(seen[0].message), seen
print(windows)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    from dejacue import locate
    from dejacue_paper import generate

    scene = generate(3)
    assert done.stdout.strip() == str(
        [tuple(m.window) for m in locate(scene.history, scene.vocabulary)]
    )


def test_an_engine_that_is_not_here_is_named_with_the_others() -> None:
    with refused("kernel", "avx9000"):
        engine("avx9000")
