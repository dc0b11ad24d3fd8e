"""The compiled builds against numpy: equal bits at every step, on whatever is thrown at them."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dejacue import History, InputError
from dejacue.method.durations import PUBLISHED, Grid, fitting
from dejacue.method.evidence import fold
from dejacue.method.kernel import Found, Ragged, Schedule, compiled, engine

BUILDS = compiled()
pytestmark = pytest.mark.skipif(not BUILDS, reason="the compiled kernel could not be built here")
ORACLE = engine("numpy")


def random_history(rng: np.random.Generator, frames: int, d: int) -> History:
    """Gaps, repeated frames, constant stretches, float16: whatever makes ties and odd runs."""
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


def random_batch(seed: int, most_frames: int) -> tuple[Ragged, Schedule, int]:
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 3, 16, 37, 64]))
    histories, tables, lengths = [], [], []
    shared = rng.random() < 0.3
    for _ in range(rng.integers(1, 4)):
        history = random_history(rng, int(rng.integers(1, most_frames + 1)), d)
        histories.append(history)
        lengths.append(fitting(PUBLISHED if rng.random() < 0.5 else Grid(), history.longest_run))
        if not (shared and tables):
            queries = rng.normal(size=(rng.integers(1, 10), d))
            queries /= np.linalg.norm(queries, axis=1, keepdims=True)
            tables.append(queries.astype(np.float32))
    norm = str(rng.choice(["sqrt", "sum", "mean"]))
    smoothing = int(rng.choice([1, 3, 5, 9, 301]))
    return Ragged.of(histories, tables), Schedule.of(lengths, norm), smoothing


def same(a: Found, b: Found) -> None:
    for name, value in vars(a).items():
        np.testing.assert_array_equal(value, getattr(b, name), err_msg=name)


def check_all_steps(build: str, batch: Ragged, schedule: Schedule, smoothing: int) -> None:
    fast = engine(build)
    centres = ORACLE.centres(batch)
    np.testing.assert_array_equal(fast.centres(batch), centres)
    for own in (None, centres):
        cosines = ORACLE.cosines(batch, own)
        for a, b in zip(cosines, fast.cosines(batch, own), strict=True):
            np.testing.assert_array_equal(a, b)
        expected, got = (e.respond(batch, cosines, smoothing) for e in (ORACLE, fast))
        for a, b in zip(expected[0], got[0], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(expected[1:], got[1:])
        same(
            ORACLE.locate(batch, schedule, smoothing, own),
            fast.locate(batch, schedule, smoothing, own),
        )
        same(
            ORACLE.locate(batch, schedule, smoothing, cosines=cosines),
            fast.locate(batch, schedule, smoothing, cosines=cosines),
        )


@pytest.mark.parametrize("build", BUILDS)
@settings(max_examples=1500)
@given(seed=st.integers(0, 2**40))
def test_every_step_gives_the_bits_of_numpy(build, seed) -> None:
    check_all_steps(build, *random_batch(seed, 80))


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("seed", range(12))
def test_histories_long_enough_to_be_pruned_give_the_same_bits(build, seed) -> None:
    check_all_steps(build, *random_batch(seed, 3000))


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
    schedule = Schedule.of([Grid().lengths(history.longest_run)], "sqrt")
    cosines = [(rows * 0.02).astype(np.float32)]
    same(
        ORACLE.locate(batch, schedule, 3, cosines=cosines),
        engine(build).locate(batch, schedule, 3, cosines=cosines),
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
    schedule = Schedule.of([(1,)], "sqrt")
    for own in (None, np.zeros((1, 20), np.float32)):
        with pytest.raises(InputError, match="history cup are not finite at row 66"):
            engine(build).locate(batch, schedule, 3, own)
    with pytest.raises(InputError, match="row 66"):
        engine(build).centres(batch)


@pytest.mark.parametrize("build", BUILDS)
def test_cosines_that_are_not_finite_are_refused(build) -> None:
    history = History(np.ones((9, 1)))
    batch = Ragged.of([history], [np.ones((2, 1), np.float32)])
    cosines = np.zeros((2, 9), np.float32)
    cosines[1, 4] = np.nan
    with pytest.raises(InputError, match="observed frame 4"):
        engine(build).locate(batch, Schedule.of([(1,)], "sqrt"), 3, cosines=[cosines])
    with pytest.raises(InputError, match="observed frame 4"):
        engine(build).respond(batch, [cosines], 3)


def call(**changes):
    """A correct call of the raw extension, with some fields replaced."""
    module = engine(BUILDS[0])._module
    n, d, q = 6, 4, 2
    fields = {
        "name": BUILDS[-1], "operation": 3, "dimension": d, "smoothing": 3,
        "features": [np.ones((n, d), np.float32)], "cosines": None, "responses": None,
        "frames": np.array([0, n]), "runs": np.array([0, 2, n]), "history_runs": np.array([0, 2]),
        "first": np.array([0]), "queries_at": np.array([0, q]),
        "queries": np.ones((q, d), np.float32), "centres": None,
        "lengths": np.array([1, 2]), "norms": np.array([1.0, 1.5]),
        "length_offsets": np.array([0, 2]), "schedules": np.array([0]),
        "start": np.empty(q, np.int64),
        "end": np.empty(q, np.int64), "score": np.empty(q), "centre": np.empty(q),
        "scale": np.empty(q), "out": None,
    }  # fmt: skip
    assert set(changes) <= set(fields)
    return module.run(*(fields | changes).values())


def test_a_correct_raw_call_works() -> None:
    assert call() == (0, 0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "sse9"},
        {"features": [np.ones((5, 4), np.float32)]},
        {"features": [np.ones((6, 4), np.float64)]},
        {"features": []},
        {"features": None},
        {"frames": np.array([0, 9])},
        {"frames": np.array([6, 0])},
        {"frames": np.array([], np.int64)},
        {"runs": np.array([0, 2, 5])},
        {"runs": np.array([0, 4, 2, 6]), "history_runs": np.array([0, 3])},
        {"history_runs": np.array([0, 7])},
        {"history_runs": None},
        {"first": np.array([1])},
        {"first": np.array([-1])},
        {"queries": np.ones((1, 4), np.float32)},
        {"queries_at": np.array([0, 3])},
        {"lengths": np.array([0, 2])},
        {"lengths": np.array([1])},
        {"norms": np.array([1.0, 0.0])},
        {"norms": np.array([1.0, np.nan])},
        {"length_offsets": np.array([0, 3])},
        {"schedules": np.array([1])},
        {"schedules": np.array([-1])},
        {"lengths": np.array([2, 1])},
        {"lengths": np.array([2, 2])},
        {"first": np.array([2**61 + 2**40])},
        {"cosines": [np.zeros((2, 6), np.float32)]},
        {"cosines": [np.zeros((2, 6), np.float32)], "queries": None},
        {"operation": 7},
        {"operation": -1},
        {"start": np.empty(1, np.int64)},
        {"score": np.empty(2, np.float32)},
        {"smoothing": 2},
        {"dimension": 0},
        {"centres": np.ones(3, np.float32)},
    ],
)
def test_the_extension_checks_every_size_before_it_follows_a_pointer(changes) -> None:
    with pytest.raises((ValueError, TypeError)):
        call(**changes)


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
from dejacue import History, Vocabulary, generate, locate
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
    from dejacue import generate, locate

    made = generate(3)
    assert done.stdout.strip() == str(
        [tuple(m.window) for m in locate(made.history, made.vocabulary)]
    )


def test_an_engine_that_is_not_here_is_named_with_the_others() -> None:
    with pytest.raises(InputError, match=r"unknown engine .avx9000.*numpy"):
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
