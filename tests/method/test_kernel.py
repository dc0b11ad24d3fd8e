"""The compiled builds against numpy: equal bits at every step, on whatever is thrown at them."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from helpers.errors import refused
from helpers.kernel import BUILDS, CONTRAST, LABEL, LOCATE, arguments, mutated, raw
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue import History
from dejacue.method._labelling import label, nodes_for
from dejacue.method.calibration import fold
from dejacue.method.durations import PUBLISHED, Grid, fitting
from dejacue.method.kernel import (
    Answers,
    EvidenceTables,
    Labelling,
    LengthSchedule,
    Ragged,
    engine,
)
from dejacue.method.scan_readout import schedule_of
from dejacue.method.states import gaussian, stretches

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


def random_batch(
    seed: int, most_frames: int, least_queries: int = 1
) -> tuple[Ragged, LengthSchedule, int]:
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 3, 16, 37, 64]))
    histories, tables, lengths = [], [], []
    shared = rng.random() < 0.3
    for _ in range(rng.integers(1, 4)):
        history = random_history(rng, int(rng.integers(1, most_frames + 1)), d)
        histories.append(history)
        lengths.append(fitting(PUBLISHED if rng.random() < 0.5 else Grid(), history.longest_run))
        if not (shared and tables):
            queries = rng.normal(size=(rng.integers(least_queries, least_queries + 9), d))
            queries /= np.linalg.norm(queries, axis=1, keepdims=True)
            tables.append(queries.astype(np.float32))
    norm = str(rng.choice(["sqrt", "sum", "mean"]))
    smoothing = int(rng.choice([1, 3, 5, 9, 301]))
    return Ragged.of(histories, tables), schedule_of(lengths, norm), smoothing


def equal(a, b, about: str) -> None:
    """Whether all bits are the same; numpy's own comparison takes longer than the operation."""
    if not np.array_equal(a, b):
        np.testing.assert_array_equal(a, b, err_msg=about)


def same(a: Answers, b: Answers, build: str) -> None:
    for name in Answers.__slots__:
        equal(getattr(a, name), getattr(b, name), f"{build}: {name}")


def check_all_steps(batch: Ragged, schedule: LengthSchedule, smoothing: int) -> None:
    """Compare every build with the oracle, which computes each step once."""
    centres = ORACLE.centres(batch)
    for centre in (None, centres):
        cosines = ORACLE.cosines(batch, centre)
        responses, *scales = ORACLE.respond(batch, cosines, smoothing)
        answers = ORACLE.locate(batch, schedule, smoothing, centre)
        same(answers, ORACLE.locate(batch, schedule, smoothing, cosines=cosines), "numpy")
        for build in BUILDS:
            fast = engine(build)
            equal(fast.centres(batch), centres, build)
            for a, b in zip(cosines, fast.cosines(batch, centre), strict=True):
                equal(a, b, build)
            got, *got_scales = fast.respond(batch, cosines, smoothing)
            for a, b in zip([*responses, *scales], [*got, *got_scales], strict=True):
                equal(a, b, build)
            same(answers, fast.locate(batch, schedule, smoothing, centre), build)
            same(answers, fast.locate(batch, schedule, smoothing, cosines=cosines), build)


def as_states(batch: Ragged, seed: int, least: int) -> tuple[Ragged, Labelling]:
    """Return the histories with stretches, weights and rules of labelling."""
    rng = np.random.default_rng(seed)
    irreversible, stay = bool(rng.random() < 0.3), int(rng.choice([1, 1, 2, 5]))
    irreversible = irreversible and least < 5  # of more, only with an order
    d = batch.histories[0].dimension
    queries, cuts, weights, nodes, costs = [], [], [], [], []
    for history in batch.histories:
        stay = min(stay, len(history))
        count = int(rng.integers(least, least + 3))
        queries.append(rng.normal(size=(count, d)).astype(np.float32))
        cuts.append(stretches(history, int(rng.choice([0, 1, 3, 10**6]))))
        weights.append(gaussian(float(rng.choice([0.0, 0.4, 4.0, 300.0])), history.span))
        order = tuple(rng.permutation(count)[:2].tolist()) if rng.random() < 0.3 else None
        nodes.append(nodes_for(count, order, irreversible))
        costs.append(float(rng.uniform(0, 5)))
    rules = Labelling(nodes, np.array(costs), stay, 4)
    return Ragged(batch.histories, queries, cuts, weights), rules


def columns(answers: Answers) -> list[np.ndarray]:
    return [getattr(answers, name) for name in Answers.__slots__]


def state_steps(tested, states: Ragged, rules: Labelling, centres, cosines, responses):
    """Return the result of every step by name; ``responses`` are of the first history."""
    cuts, tables = states.runs[0], EvidenceTables.of(states)
    smoothed, *scales = tested.smooth(states, cosines)
    responses = smoothed[0] if responses is None else responses
    first = Labelling(rules.nodes[:1], rules.costs[:1], rules.stay, 4)
    half = responses.shape[1] // 2 + 1
    tested.label(states, centres, tables, rules)
    return {
        "smooth": [*smoothed, *scales],
        "contrast": columns(tested.contrast(states, centres)),
        "label": [table for name in EvidenceTables.__slots__ for table in getattr(tables, name)],
        "search": tested.search(responses, cuts, responses.shape[1] + 3),
        "search_parts": tested.search_parts([responses[:1], responses[-1:, :half]], 2 * half),
        "label_responses": tested.label_responses(responses, cuts, first),
    }


def check_states(batch: Ragged, seed: int, least_states: int = 2) -> None:
    """Compare smoothing, contrast and labelling of every build with the oracle."""
    states, rules = as_states(batch, seed, least_states)
    for centres in (None, ORACLE.centres(batch)):
        cosines = ORACLE.cosines(states, centres)
        expected = state_steps(ORACLE, states, rules, centres, cosines, None)
        for build in BUILDS:
            fast = engine(build)
            got = state_steps(fast, states, rules, centres, cosines, expected["smooth"][0])
            for step, arrays in got.items():
                for a, b in zip(expected[step], arrays, strict=True):
                    equal(a, b, f"{build}: {step}")


@settings(max_examples=EXAMPLES // 2)
@given(seed=st.integers(0, 2**40))
def test_state_evidence_contrast_and_labelling_give_the_bits_of_numpy(seed) -> None:
    check_states(random_batch(seed, 60)[0], seed)


@pytest.mark.parametrize("seed", range(4))
def test_long_state_evidence_gives_the_same_bits(seed) -> None:
    check_states(random_batch(seed, 1200)[0], seed)


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
@pytest.mark.parametrize("total", [5000, pytest.param(40_000, marks=pytest.mark.long)])
def test_searches_in_which_groups_of_starts_are_left_out_give_the_same_bits(cuts, total) -> None:
    rows = slow_rows(5000)
    expected = ORACLE.search(rows, np.array(cuts), total)
    for build in BUILDS:
        for a, b in zip(expected, engine(build).search(rows, np.array(cuts), total), strict=True):
            equal(a, b, build)


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
    nodes = nodes_for(states, None, False)
    rules = Labelling([nodes], np.array([cost]), stay, 4)
    path, levels = engine(build).label_responses(responses, np.array([0, frames]), rules)
    expected, expected_levels = label(responses, nodes, cost, stay, 4)
    equal(path, expected, build)
    equal(levels, expected_levels, build)


@pytest.mark.parametrize("build", BUILDS)
def test_of_very_many_equal_windows_the_first_is_found(build) -> None:
    row = np.where(np.arange(200_000) % 1000 < 10, -1.0, 0.0)  # half of all windows score 0
    start, end, score = engine(build).search(row[None], np.array([0, 200_000]), 200_000)
    assert (start[0], end[0], score[0]) == (10, 10, 0)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**40))
def test_every_step_gives_the_bits_of_numpy(seed) -> None:
    check_all_steps(*random_batch(seed, 80))


@pytest.mark.parametrize("seed", range(12))
def test_histories_long_enough_to_be_pruned_give_the_same_bits(seed) -> None:
    check_all_steps(*random_batch(seed, 3000))


@pytest.mark.parametrize("queries", [61, 126])
def test_more_queries_than_the_kernel_takes_at_a_time_give_the_same_bits(queries) -> None:
    for seed in range(4):
        batch, schedule, smoothing = random_batch(seed, 60, queries)
        check_all_steps(batch, schedule, smoothing)
        check_states(batch, seed, queries)


@pytest.mark.parametrize("name", [*BUILDS, "numpy"])
def test_where_no_length_fits_there_is_no_window(name) -> None:
    rng = np.random.default_rng(5)
    histories = [History(rng.normal(size=(n, 8)), range(7, 7 + n)) for n in (4, 9)]
    batch = Ragged.of(histories, [rng.normal(size=(2, 8)).astype(np.float32)] * 2)
    answers = engine(name).locate(batch, schedule_of([(5,), (5,)], "sqrt"), 3)
    for column in (answers.start, answers.end, answers.first, answers.last):
        assert column[:2].tolist() == [-1, -1]
    assert (answers.last[2:] - answers.first[2:]).tolist() == [4, 4]
    assert (answers.first[2:] - answers.start[2:]).tolist() == [7, 7]


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
    history = History(np.ones((n, 1)), np.arange(n) + np.searchsorted(gaps, np.arange(n), "right"))
    batch = Ragged.of([history], [np.ones((3, 1), np.float32)])
    schedule = schedule_of([Grid().lengths(history.longest_run)], "sqrt")
    cosines = [(rows * 0.02).astype(np.float32)]
    same(
        ORACLE.locate(batch, schedule, 3, cosines=cosines),
        engine(build).locate(batch, schedule, 3, cosines=cosines),
        build,
    )


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
    history = History(np.ones((n, 1)))
    batch = Ragged.of([history], [np.ones((5, 1), np.float32)])
    _, centre, scale = engine(build).respond(batch, [rows], 1)
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
    batch = Ragged.of([History(np.ones((n, 1)))], [np.ones((1, 1), np.float32)])
    _, centre, _ = engine(build).respond(batch, [row[None]], 1)
    assert centre[0] == np.median(row.astype(np.float64))


@pytest.mark.parametrize("build", BUILDS)
def test_all_float16_values_widen_exactly(build) -> None:
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values) & (np.abs(values) > 0)]
    table = np.stack([values, np.ones_like(values)], axis=1)
    batch = Ragged.of([History(table)], [np.eye(2, dtype=np.float32)])
    np.testing.assert_array_equal(
        engine(build).cosines(batch, None)[0], ORACLE.cosines(batch, None)[0]
    )


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_turned_bad_after_validation_are_reported_with_their_row(build, bad) -> None:
    values = np.ones((70, 20), np.float32)
    history = History(values, id="cup")
    values[66, 3] = bad
    batch = Ragged.of([history], [np.ones((1, 20), np.float32)])
    schedule = schedule_of([(1,)], "sqrt")
    for centres in (None, np.zeros((1, 20), np.float32)):
        for tested in (engine(build), ORACLE):
            with refused("features", 66), np.errstate(invalid="ignore"):
                tested.locate(batch, schedule, 3, centres)
    with refused("features", 66):
        engine(build).centres(batch)


@pytest.mark.parametrize("build", BUILDS)
def test_cosines_that_are_not_finite_are_refused(build) -> None:
    history = History(np.ones((9, 1)))
    batch = Ragged.of([history], [np.ones((2, 1), np.float32)])
    cosines = np.zeros((2, 9), np.float32)
    cosines[1, 4] = np.nan
    with refused("observed frame 4"):
        engine(build).locate(batch, schedule_of([(1,)], "sqrt"), 3, cosines=[cosines])
    with refused("observed frame 4"):
        engine(build).respond(batch, [cosines], 3)


def call(operation: int = LOCATE, **changes):
    """Call the raw extension correctly, but with some fields replaced."""
    fields = arguments(operation)
    assert set(changes) <= set(fields)
    return raw(fields | changes)


@pytest.mark.parametrize("operation", range(7))
def test_a_correct_raw_call_works(operation) -> None:
    assert call(operation) == (0, 0, 0)


WRONG = [
    {"name": "sse9"},
    {"histories": 0},
    {"histories": 2},
    {"features": [np.ones((6, 5), np.float32)]},
    {"features": [np.ones((5, 4), np.float32)]},
    {"features": [np.ones((6, 4), np.float64)]},
    {"features": [np.ones(24, np.float32)]},
    {"features": []},
    {"features": None},
    {"features": [np.ones((0, 4), np.float32)]},
    {"runs": [np.array([0, 2, 5])]},
    {"runs": [np.array([0, 4, 2, 6])]},
    {"runs": [np.array([1, 6])]},
    {"runs": [np.array([0])]},
    {"runs": [np.array([], np.int64)]},
    {"runs": None},
    {"numbers": [np.array([0, 1, 3, 4, 5])]},
    {"numbers": [np.array([0, 1, 3, 3, 5, 6])]},
    {"numbers": [np.array([-(2**62), 1, 3, 4, 5, 2**62])]},
    {"numbers": [np.array([-(2**62), 1, 3, 4, 5, 6])]},
    {"numbers": [np.array([0, 1, 3, 4, 5, 2**62])]},
    {"queries": [np.ones((2, 3), np.float32)]},
    {"operation": 9},
    {"operation": -1},
    {"dimension": 0},
    {"centres": np.ones((1, 3), np.float32)},
    {"centres": np.ones(4, np.float32)},
    {"least_scale": 0.0},
    {"least_scale": np.nan},
    {"total": 3},
]
OF_WINDOWS = [
    {"start": np.empty(1, np.int64)},
    {"score": np.empty(2, np.float32)},
]
OF_SCAN = [
    {"lengths": [np.array([0, 2])]},
    {"lengths": [np.array([1])]},
    {"lengths": [np.array([2, 1])]},
    {"lengths": [np.array([2, 2])]},
    {"lengths": None},
    {"norms": [np.array([1.0, 0.0])]},
    {"norms": [np.array([1.0, np.nan])]},
    {"smoothing": 2},
    {"cosines": [np.zeros((2, 6), np.float32)]},
]
OF_STATES = [
    {"weights": [np.array([])]},
    {"weights": [np.array([np.nan])]},
    {"weights": [np.array([0.0, 1.0])]},
    {"weights": None},
    {"numbers": None, "first": None},
    {"cosines": [np.zeros((2, 7), np.float32)]},
    {"responses": [np.zeros((3, 6))]},
]
OF_LABELS = [
    {"node_states": [np.array([0, 2])]},
    {"node_states": [np.array([-1, 0])]},
    {"node_states": [np.array([0])]},
    {"node_first": [np.zeros(2, np.uint8)]},
    {"node_first": [np.ones(3, np.uint8)]},
    {"node_follows": [np.ones((2, 3), np.uint8)]},
    {"paths": [np.empty(5, np.int64)]},
    {"levels": [np.empty(3)]},
    {"costs": np.array([np.nan])},
    {"costs": np.array([-1.0])},
    {"costs": np.ones(2)},
    {"stay": 0},
    {"stay": 7},
    {"rounds": 0},
]


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        *((operation, changes) for operation in (LOCATE, CONTRAST, LABEL) for changes in WRONG),
        *((operation, changes) for operation in (LOCATE, CONTRAST) for changes in OF_WINDOWS),
        *((LOCATE, changes) for changes in OF_SCAN),
        *((operation, of_state) for operation in (CONTRAST, LABEL) for of_state in OF_STATES),
        *((LABEL, of_label) for of_label in OF_LABELS),
    ],
)
def test_the_extension_checks_every_size_before_it_follows_a_pointer(operation, changes) -> None:
    with pytest.raises((ValueError, TypeError, BufferError)):
        call(operation, **changes)


@pytest.mark.parametrize("operation", range(7))
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_mutated_raw_calls_are_answered_or_refused(operation) -> None:
    """Under the sanitizers (make sanitize) also: nothing is read or written out of bounds."""
    rng = np.random.default_rng(operation)
    answered = 0
    for _ in range(1500):
        fields = {"operation": operation, **arguments(operation)}
        for name in rng.choice(sorted(fields), int(rng.integers(1, 4)), replace=False):
            if name not in ("name", "operation", "histories"):
                fields[name] = mutated(fields[name], rng)
        try:
            answered += raw(fields)[0] == 0
        except (ValueError, TypeError, BufferError, OverflowError):
            continue
    assert answered > 20


def test_read_only_outputs_are_refused() -> None:
    fixed = np.empty(2)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        call(score=fixed)


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


@pytest.mark.parametrize("build", BUILDS)
def test_products_and_sums_are_rounded_once(build) -> None:
    # (1 + 2⁻²³) + 2⁻²⁴ (1 − 2⁻³⁰) lies just below the middle of two float32 values. Rounding the
    # product first, or the sum to float64 first, makes it a tie and lifts it to 1 + 2⁻²².
    row, query = np.zeros((2, 1, 32), np.float32)
    row[0, 0], query[0, 0] = 1 + 2.0**-23, 1.0
    row[0, 16], query[0, 16] = 2.0**-12 * (1 + 2.0**-15), 2.0**-12 * (1 - 2.0**-15)
    assert fold(row, query)[0] == 1 + 2.0**-23
    batch = Ragged.of([History(row)], [np.concatenate([query, row])])
    np.testing.assert_array_equal(
        engine(build).cosines(batch, None)[0], ORACLE.cosines(batch, None)[0]
    )


def test_the_float_sums_of_the_oracle_are_those_of_exact_arithmetic() -> None:
    """Against rationals: one rounding per step, in the documented order."""

    def rounded(value: Fraction) -> np.float32:
        near = np.float32(float(value))
        steps = [np.nextafter(near, np.float32(s), dtype=np.float32) for s in (-np.inf, np.inf)]
        options = sorted([near, *steps], key=lambda f: abs(Fraction(float(f)) - value))
        a, b = options[:2]
        if abs(Fraction(float(a)) - value) == abs(Fraction(float(b)) - value):
            return a if a.view(np.int32) % 2 == 0 else b
        return a

    rng = np.random.default_rng(5)
    for bits in (4, 11, 24):  # few bits: many exact ties
        x, y = (np.float32(np.round(rng.normal(size=(6, 48)) * 2**bits) / 2**bits) for _ in "xy")
        x[:, 16:32] *= np.float32(2.0**-12)
        y[:, 16:32] *= np.float32(2.0**-13)
        for row, other, got in zip(x, y, fold(x, y), strict=True):
            sums = [np.float32(0)] * 16
            for j, (a, b) in enumerate(zip(row, other, strict=True)):
                exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(sums[j % 16]))
                sums[j % 16] = rounded(exact)
            tree = [sums[k] + sums[k + 8] for k in range(8)]
            while len(tree) > 1:
                tree = [tree[k] + tree[k + 1] for k in range(0, len(tree), 2)]
            assert got == tree[0]
