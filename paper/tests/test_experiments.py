"""Every published table: what comes out to the last digit, what in distribution, and what not."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import sys

import numpy as np
import pytest
from helpers.errors import refused

from dejacue.method.kernel import compiled
from dejacue_paper import generate
from dejacue_paper.data.release import ReleaseEntry
from dejacue_paper.experiments import REGISTRY, Result, Value, experiment, perturb, synthetic
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.experiments.output import (
    as_csv,
    as_json,
    as_markdown,
    as_windows,
    lines,
    summary,
)
from dejacue_paper.experiments.stress import repeated
from dejacue_paper.experiments.table import published

METHODS = [
    "scan/absolute",
    "scan/trajectory",
    "scan/vocabulary",
    "scan/dual",
    "mean-window/absolute",
    "boxcar/absolute",
    "max-frame/absolute",
]
EXACT = {
    "roster": 10,
    "inventory": 4,
    "main": 63,
    "paired": 124,
    "peak": 33,
    "prompts": 132,
    "normalization": 63,
    "strata": 38,
    "ranking": 42,
    "paraphrase": 4,
    "examples": 6,
    "seven": 48,
    "durations": 60,
    "controls": 12,
    "nonoverlap": 9,
    "residuals": 1,
    "sensitivity": 4,
    "synthetic": 66,
}
NOT_RUN = ["agreement", "recurrence", "lexical", "runtime", "selection"]


@pytest.fixture(scope="module")
def benchmark(release) -> Benchmark:
    return Benchmark(release)


@pytest.fixture(scope="module")
def results(benchmark) -> dict[str, Result]:
    return {name: entry.run(benchmark) for name, entry in REGISTRY.items() if entry.run}


def marks(result: Result) -> str:
    return " ".join(f"{result.count(mark)}{mark}" for mark in "✓≈✗" if result.count(mark))


@pytest.mark.long
@pytest.mark.parametrize("name", EXACT)
def test_every_value_that_can_be_exact_is(results, name) -> None:
    assert marks(results[name]) == f"{EXACT[name]}✓"


@pytest.mark.long
def test_what_differs_is_known_and_explained(results) -> None:
    rest = {name: marks(result) for name, result in results.items() if name not in EXACT}
    assert rest == {
        "seven-ranking": "29✓ 1✗",
        "missing": "48≈ 12✗",
        "duplication": "18✓ 18✗",
        "shifts": "1✓ 1≈",
        "perturbations": "30✓ 10≈ 20✗",
        "hard-negatives": "4✓ 8✗",
        "development": "9✓ 3✗",
        "learned": "",
    }
    assert not any(result.unexplained for result in results.values())


@pytest.mark.long
def test_duplicated_descriptions_move_as_many_windows_as_published(results) -> None:
    changed = {
        value.row: value.here
        for value in results["duplication"].values
        if value.metric == "target_window_changes"
    }
    assert changed == {
        "query-uniform origin, ×2": 13,
        "query-uniform origin, ×4": 14,
        "query-uniform origin, ×8": 16,
        "state-balanced origin, ×2": 0,
        "state-balanced origin, ×4": 0,
        "state-balanced origin, ×8": 0,
    }


def test_what_cannot_be_run_says_why() -> None:
    assert [name for name, entry in REGISTRY.items() if entry.run is None] == NOT_RUN
    assert all(REGISTRY[name].reason for name in NOT_RUN)


@pytest.mark.long
def test_trivial_baselines_stand_in_the_same_table(results) -> None:
    means = {
        (v.row, v.metric): v.here
        for v in results["main"].values
        if v.part == "mean" and v.here is not None
    }
    assert means["whole-history", "top1_tiou"] == pytest.approx(0.268123, abs=1e-6)
    assert means["whole-history", "top1_tiou"] > means["scan/vocabulary", "top1_tiou"]
    assert means["longest-run", "r1_05"] == pytest.approx(means["scan/vocabulary", "r1_05"])
    assert 0 < means["random window, mean of 100", "r1_05"] < means["scan/absolute", "r1_05"]


@pytest.mark.long
@pytest.mark.parametrize("engine", [*compiled(), "numpy"])
def test_every_engine_gives_the_main_table_with_the_same_windows(release, results, engine) -> None:
    result = experiment("main").run(Benchmark(release, engine))
    assert marks(result) == "63✓"
    for condition, by_history in results["main"].windows.items():
        for history, rows in by_history.items():
            assert np.array_equal(result.windows[condition][history], rows), (condition, history)


@pytest.mark.long
def test_windows_are_json_for_every_experiment_condition_and_history(results) -> None:
    windows = json.loads(as_windows(results))
    assert set(windows) == set(results) - {"roster", "inventory"}  # these choose no window
    for name, conditions in windows.items():
        assert conditions, name
        assert all(rows for histories in conditions.values() for rows in histories.values()), name
    main = windows["main"]
    assert list(main)[:7] == METHODS
    assert all(len(main[method]) == 78 for method in METHODS)
    assert sum(len(rows) for rows in main["scan/vocabulary"].values()) == 312
    assert main["scan/vocabulary"]["H001"][0] == [0, 29]
    assert len(windows["missing"]) == 6 * 60
    assert len(windows["synthetic"]) == 27
    cells = windows["synthetic"]["sum/base 4 ratio 1.25"]
    assert len(cells) == 30
    assert all(len(rows) == 400 for rows in cells.values())


def test_the_facts_in_the_package_equal_the_published_ones(release) -> None:
    path = release.folder.parent / "published.json"
    if not path.is_file():
        pytest.skip("published.json is not beside the release")
    source = json.loads(path.read_text(encoding="utf-8"))
    ours = published()
    assert set(ours) - set(source) == {"source", "paper"}
    assert all(ours[key] == figures for key, figures in source.items() if key != "note")


@pytest.mark.long
def test_the_summary_counts_every_value_once(results) -> None:
    assert summary(results.values()) == (
        "810 of 931 published values reproduced; 59 more within our draws (≈); 62 not (✗)"
    )


@pytest.mark.long
def test_every_published_table_is_used(benchmark, monkeypatch) -> None:
    """Whatever the package holds is compared by some experiment, or listed as not released."""
    from dejacue_paper.experiments import table

    used = set()

    class Watched(dict):
        def __getitem__(self, key):
            used.add(key)
            return super().__getitem__(key)

    watched = Watched(published())
    monkeypatch.setattr(table, "published", lambda: watched)
    for name, module in list(sys.modules.items()):
        if name.startswith("dejacue_paper.experiments.") and hasattr(module, "published"):
            monkeypatch.setattr(module, "published", lambda: watched)
    for entry in REGISTRY.values():
        if entry.run and entry.name not in ("missing", "perturbations"):  # the slow ones
            entry.run(benchmark)
    used |= {"seven_missing_observation_stress", "perturbations"}
    not_released = {"annotation_agreement", "dnerf_recurrence", "runtime"}
    assert set(published()) - used == {"source", *not_released}


def test_a_value_agrees_only_when_it_rounds_to_the_published_one() -> None:
    assert Value("row", "metric", 0.2154886, 0.215489).mark == "✓"
    assert Value("row", "metric", 0.2154880, 0.215489).mark == "✗"
    assert Value("row", "metric", 0.1034, 0.103, digits=3).mark == "✓"
    assert Value("row", "metric", 0.1036, 0.103, digits=3).mark == "✗"
    assert Value("row", "metric", 0.22, 0.20, drawn=(0.19, 0.25)).mark == "≈"
    assert Value("row", "metric", 0.22, 0.18, drawn=(0.19, 0.25)).mark == "✗"
    assert Value("row", "metric", None, 0.2).mark == "–"
    assert Value("row", "metric", 0.2, None).mark == "–"
    assert Value("row", "metric", 0.2, 0.2, derived=True).mark == "–"


def made_result() -> Result:
    return Result(
        (
            Value("a | b", "r1_05", 0.205128, 0.205128),
            Value("a | b", "r1_05", 0.157051, 0.157051, "low"),
            Value("a | b", "r1_05", 0.25641, 0.25641, "high"),
            Value("a | b", "r1_05", 0.00106, 0.00106, "p", "p"),
            Value("a | b", "r1_05", 0.00318, 0.00318, "holm p", "p"),
            Value("c", "margin", -2.5, -2.0, unit="score", finding="because."),
            Value("d", "top1_tiou", 0.25, 0.2, drawn=(0.1, 0.3)),
            Value("e", "count", 3.0, None, unit="count"),
        ),
        notes=("A note.",),
    )


def test_lines_gather_interval_and_p_values() -> None:
    cells = [
        (x.row, x.metric, x.here, x.published, x.difference, x.mark) for x in lines(made_result())
    ]
    assert cells == [
        ("a | b", "R@1 .5", "20.51 [15.71, 25.64]", "20.51 [15.71, 25.64]", "0", "✓"),
        ("a | b", "R@1 .5: p (Holm)", "0.00106 (0.00318)", "0.00106 (0.00318)", "0", "✓"),
        ("c", "margin", "−2.50", "−2.00", "−0.5", "✗"),
        ("d", "Top-1 tIoU", "25.00 (10.00 … 30.00)", "20.00", "+5", "≈"),
        ("e", "count", "3", "", "", "–"),
    ]


def test_results_are_written_as_json_csv_and_markdown() -> None:
    entry, results = REGISTRY["main"], {"main": made_result()}
    document = json.loads(as_json(results, {"lexical": "not released"}))
    assert document["summary"] == (
        "5 of 7 published values reproduced; 1 more within our draws (≈); 1 not (✗); "
        "1 table not run"
    )
    assert document["not_run"] == {"lexical": "not released"}
    assert document["experiments"]["main"]["notes"] == ["A note.", "because."]
    rows = list(csv.DictReader(io.StringIO(as_csv(results))))
    assert [row["mark"] for row in rows] == ["✓"] * 5 + ["✗", "≈", "–"]
    assert float(rows[0]["here"]) == 0.205128
    page = as_markdown(
        [entry, REGISTRY["lexical"]], results, {"lexical": "not released"}, (), "main"
    )
    assert "| a \\| b | R@1 .5 | 20.51 [15.71, 25.64] | 20.51 [15.71, 25.64] | 0 | ✓ |" in page
    assert "because." in page
    assert "- **lexical** (" in page


def test_an_unknown_table_is_named() -> None:
    with refused("mian", '"main"'):
        experiment("mian")


def test_the_synthetic_draws_follow_a_plain_loop() -> None:
    rng = np.random.default_rng(3407)
    _, truth = synthetic.sequences()
    for row in range(3):  # the first cell: correlation 0, signal .5, duration 8
        start = rng.integers(24, 192 - 24 - 8 + 1)
        rng.standard_normal(192)
        assert truth[row].tolist() == [start, start + 7]


def test_the_trial_bootstrap_draws_within_cells() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5, 2))
    rng = np.random.default_rng(3407)
    means = np.mean([cell[rng.integers(0, 5, size=(10_000, 5))].mean(axis=1) for cell in values], 0)
    expected = np.quantile(means, [0.025, 0.975], axis=0).T
    assert synthetic.trial_bootstrap(values) == pytest.approx(expected, abs=1e-12)


def test_repeated_descriptions_keep_the_originals() -> None:
    scene = generate(2, states=("b", "a"))
    extended, originals = repeated(scene.vocabulary, 4)
    assert [len(texts) for texts in extended.states.values()] == [2, 8]
    assert [extended.descriptions[row] for row in originals] == list(scene.vocabulary.descriptions)
    assert np.array_equal(extended.features[originals], scene.vocabulary.features)


@pytest.fixture(scope="module")
def tracked(release) -> ReleaseEntry:
    return release.seven["S04"]


def test_perturbed_histories_lose_or_change_what_they_should(tracked) -> None:
    history, rng = tracked.history, np.random.default_rng(0)
    fewer = perturb.drop_frames(tracked, rng, 0.1)
    assert len(history) - len(fewer) == round(0.1 * len(history))
    assert set(fewer.frames) < set(history.frames)
    gap = perturb.drop_span(tracked, rng, 0.1)
    missing = np.setdiff1d(history.frames, gap.frames)
    assert missing.tolist() == list(range(missing[0], missing[-1] + 1))
    assert gap.frames[0] == history.frames[0]
    assert gap.frames[-1] == history.frames[-1]
    shared = np.flatnonzero(
        np.isin(history.frames, np.concatenate([t.history.frames for t in tracked.tracks]))
    )
    mixed = perturb.mix_tracks(tracked, rng, 1.0, 1.0)
    changed = np.flatnonzero((mixed.features != history.features).any(axis=1))
    assert changed.tolist() == shared.tolist()
    part = perturb.mix_tracks(tracked, rng, 0.25, 0.5)
    assert (part.features != history.features).any(axis=1).sum() == round(0.25 * len(shared))
    switched = perturb.switch_identity(tracked, 0.5)
    late = np.flatnonzero((switched.features != history.features).any(axis=1))
    assert late.min() >= len(history) // 2


def test_a_shift_rolls_each_run_and_never_stands_still() -> None:
    history = generate(0, frames=50, gaps=((20, 4), (40, 9))).history
    order = perturb.shift_order(history, np.random.default_rng(5))
    for first, last in zip(history.run_offsets[:-1], history.run_offsets[1:], strict=True):
        run = order[first:last]
        assert sorted(run) == list(range(first, last))
        if last - first > 1:
            assert run[0] != first
            assert (np.diff(run) % (last - first) == 1).all()


def test_the_published_generator_is_seeded_by_a_hash() -> None:
    digest = hashlib.sha256(b"3407\0random_missing_010pct\0a/b").hexdigest()
    expected = np.random.default_rng(int(digest[:16], 16)).integers(1 << 40, size=3)
    drawn = perturb.seeded(3407, "random_missing_010pct", "a/b").integers(1 << 40, size=3)
    assert drawn.tolist() == expected.tolist()
