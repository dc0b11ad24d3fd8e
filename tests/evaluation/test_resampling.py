"""Intervals and tests by resampling: definitions on small cases, the published digits on VOST."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from helpers.errors import refused

from dejacue.evaluation import (
    best_tiou,
    bootstrap_interval,
    compare,
    holm,
    recall_at,
    resampling,
    sign_flip,
    sign_flip_exact,
)
from dejacue.method import locate_many
from dejacue_paper.evaluation.resampling import nested_mean, stratified_interval


def test_the_bootstrap_draws_one_matrix_of_units() -> None:
    values = np.random.default_rng(0).normal(size=9)
    index = np.random.default_rng(3407).integers(0, 9, size=(10_000, 9))
    expected = np.quantile(values[index].mean(axis=1), [0.025, 0.975])
    assert bootstrap_interval(values) == pytest.approx(expected, abs=1e-14)
    assert bootstrap_interval(np.full(5, 0.25)).tolist() == [0.25, 0.25]


def test_the_draws_do_not_depend_on_how_many_are_held_at_a_time(monkeypatch) -> None:
    values = np.random.default_rng(0).normal(size=(13, 2))
    whole = bootstrap_interval(values)
    signs = sign_flip(values, assignments=500)
    monkeypatch.setattr(resampling, "MAX_INDICES", 1000)
    monkeypatch.setattr(resampling, "MAX_CACHED_SIGNS", 0)
    assert bootstrap_interval(values).tolist() == whole.tolist()
    assert sign_flip(values, assignments=500).tolist() == signs.tolist()


def test_metrics_of_the_same_units_share_the_draws() -> None:
    values = np.random.default_rng(0).normal(0.3, 1, size=(11, 3))
    for k, (low, high) in enumerate(bootstrap_interval(values).T):
        assert (low, high) == tuple(bootstrap_interval(values[:, k]))
    assert sign_flip(values).tolist() == [sign_flip(column) for column in values.T]
    assert sign_flip_exact(values).tolist() == [sign_flip_exact(column) for column in values.T]


def test_a_comparison_corrects_within_its_metrics() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.normal(0.5, 1, size=(9, 2)), rng.normal(size=(9, 2))
    pairs = compare(first, second)
    p = sign_flip_exact(first - second)
    assert [pair.p for pair in pairs] == p.tolist()
    assert [pair.holm_p for pair in pairs] == holm(p).tolist()
    assert [pair.delta for pair in pairs] == pytest.approx((first - second).mean(axis=0))
    assert pairs[0].low < pairs[0].delta < pairs[0].high


def test_a_wider_level_gives_a_wider_interval() -> None:
    values = np.arange(10.0)
    narrow, wide = bootstrap_interval(values, level=0.5), bootstrap_interval(values, level=0.99)
    assert wide[0] < narrow[0] < 4.5 < narrow[1] < wide[1]


def test_every_draw_takes_from_one_stratum_after_the_other() -> None:
    values = np.random.default_rng(3).normal(size=7)
    rng = np.random.default_rng(3407)
    sums = []
    for _ in range(10_000):
        first = values[:4][rng.integers(0, 4, size=4)].sum()
        sums.append(first + values[4:][rng.integers(0, 3, size=3)].sum())
    expected = np.quantile(np.array(sums) / 7, [0.025, 0.975])
    interval = stratified_interval(values, ["original"] * 4 + ["extension"] * 3)
    assert interval == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("seed", range(5))
def test_a_difference_of_one_sign_has_the_least_possible_p(scale, seed) -> None:
    values = scale * np.random.default_rng(seed).uniform(0.1, 1, size=9)
    assert sign_flip_exact(values) == 2 / 2**9


@pytest.mark.long
def test_learned_decoders_are_compared_and_corrected_over_eight() -> None:
    rng = np.random.default_rng(8)
    scan = rng.uniform(size=7)
    decoders = rng.uniform(size=(8, 3, 7)).mean(axis=1)  # eight, over three seeds, per history
    tables = np.repeat(scan[:, None], 8, axis=1), decoders.T
    pairs = compare(*tables)
    assert [pair.p for pair in pairs] == [
        float(sign_flip_exact(scan - decoder)) for decoder in decoders
    ]
    assert [pair.holm_p for pair in pairs] == holm([pair.p for pair in pairs]).tolist()
    for pair, values in zip(pairs, decoders, strict=True):
        assert (pair.low, pair.high) == tuple(bootstrap_interval(scan - values))
        assert pair.delta == pytest.approx((scan - values).mean())


def test_strata_keep_their_sizes() -> None:
    values = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    strata = ["original"] * 4 + ["extension"] * 3
    assert stratified_interval(values, strata) == pytest.approx((3 / 7, 3 / 7))
    low, high = bootstrap_interval(values)
    assert low < 3 / 7 < high


def test_the_exact_sign_flip_counts_all_assignments() -> None:
    values = np.array([0.3, 0.1, -0.05, 0.2, 0.4])
    means = [abs(np.dot(signs, values)) / 5 for signs in product([-1, 1], repeat=5)]
    expected = np.mean([m >= values.mean() - 1e-15 for m in means])
    assert sign_flip_exact(values) == expected
    assert sign_flip_exact([1.0] * 7) == 2 / 128


def test_the_drawn_sign_flip_follows_the_published_blocks() -> None:
    values = np.random.default_rng(1).normal(0.4, 1, size=12)
    rng = np.random.default_rng(3407)
    signs = np.concatenate([rng.choice([-1.0, 1.0], size=(10_000, 12)) for _ in range(10)])
    hits = (np.abs((signs * values).mean(axis=1)) >= abs(values.mean()) - 1e-15).sum()
    assert sign_flip(values) == (hits + 1) / 100_001
    assert sign_flip(values) == pytest.approx(sign_flip_exact(values), abs=0.005)


def test_large_values_tie_as_small_ones_do() -> None:
    """Differences of a third of a unit: which sums are equal shows in whole numbers only."""
    whole = np.array([-8, -9, -6, 6, 3, 8])
    sums = np.array([np.dot(signs, whole) for signs in product([-1, 1], repeat=6)])
    expected = np.mean(np.abs(sums) >= abs(whole.sum()))
    for scale in (1.0, 1e5 / 3, 1e9 / 7):
        assert sign_flip_exact(whole * scale) == expected
        drawn = sign_flip(whole * scale, assignments=2000)
        assert drawn == sign_flip(whole.astype(float), assignments=2000)


def test_no_difference_is_no_evidence() -> None:
    assert sign_flip(np.zeros(5)) == 1.0
    assert sign_flip_exact(np.zeros(5)) == 1.0


def test_one_assignment_and_two_units_are_enough() -> None:
    assert sign_flip([1.0, 1.0], assignments=1) in (0.5, 1.0)
    (pair,) = compare([[1.0], [1.0]], [[0.0], [0.0]])
    assert (pair.delta, pair.p) == (1.0, 0.5)
    assert bootstrap_interval([1.0], draws=1).tolist() == [1.0, 1.0]


def test_holm_steps_down_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([0.02]).tolist() == [0.02]
    assert holm([0.0, 1.0]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: bootstrap_interval([]), (0,)),
        (lambda: bootstrap_interval([0.1, np.nan]), "value 1"),
        (lambda: sign_flip([0.5]), (1,)),
        (lambda: sign_flip_exact(np.ones(21)), "21 units"),
        (lambda: stratified_interval([1.0, 2.0], ["a"]), "values but 1"),
        (lambda: holm([1.5]), "p-values"),
        (lambda: holm([[0.5]]), "p-values"),
        (lambda: bootstrap_interval([1.0, 2.0], level=1.5), "level"),
        (lambda: bootstrap_interval([1.0, 2.0], draws=0), "draws"),
        (lambda: sign_flip([1.0, 2.0], assignments=0), "0 sign"),
        (lambda: compare([[1.0]], [[2.0]]), (1, 1)),
        (lambda: compare(np.ones((3, 2)), np.ones((4, 2))), (4, 2)),
    ],
)
def test_bad_input_is_refused(call, fact) -> None:
    with refused(fact):
        call()


@pytest.fixture(scope="module")
def by_component(release):
    """Return coordinates → metric values per component, in the order of their names."""
    entries = release.vost
    comparisons = {}
    for name in ("absolute", "trajectory", "vocabulary", "dual"):
        retrievals = locate_many(
            [e.history for e in entries],
            [e.vocabulary for e in entries],
            coordinates=name,
            readout="scan",
        )
        rows = [
            (m.window, e.references[m.state], m.state, e.id, e.component)
            for e, r in zip(entries, retrievals, strict=True)
            for m in r
        ]
        windows, references, *levels = zip(*rows, strict=True)
        overlap = best_tiou(windows, references)
        metrics = {"r1_03": recall_at(0.3, overlap), "r1_05": recall_at(0.5, overlap)}
        comparisons[name] = {
            metric: np.array(list(nested_mean(values, levels)[1].values()))
            for metric, values in (metrics | {"top1_tiou": overlap}).items()
        }
    return comparisons


@pytest.fixture(scope="module")
def published(release):
    path = release.folder.parent / "published.json"
    if not path.is_file():
        pytest.skip("published.json is not beside the release")
    return json.loads(path.read_text(encoding="utf-8"))


def test_published_intervals_come_out_to_the_last_digit(by_component, published) -> None:
    for name, metrics in by_component.items():
        for metric, values in metrics.items():
            expected = published["vost_main"][f"scan/{name}"]["ci95"][metric]
            assert bootstrap_interval(values) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("comparison", "first", "second"),
    [
        ("scan_vocab_minus_scan_abs", "vocabulary", "absolute"),
        ("scan_dual_minus_scan_vocab", "dual", "vocabulary"),
        ("scan_visual_minus_scan_abs", "trajectory", "absolute"),
    ],
)
def test_published_paired_tests_come_out_to_the_last_digit(
    by_component, published, comparison, first, second
) -> None:
    differences = {m: by_component[first][m] - by_component[second][m] for m in by_component[first]}
    p = {metric: sign_flip(values) for metric, values in differences.items()}
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    for metric, values in differences.items():
        expected = published["vost_main_paired"][comparison][metric]
        assert values.mean() == pytest.approx(expected["delta"], abs=1e-6)
        assert bootstrap_interval(values) == pytest.approx(expected["ci95"], abs=1e-6)
        assert p[metric] == pytest.approx(expected["p"], abs=1e-6)
        assert corrected[metric] == pytest.approx(expected["holm_p"], abs=1e-6)
