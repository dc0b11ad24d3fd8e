"""The table of learned decoders: runs of ours are scored here, with the published statistics."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.evaluation import holm, sign_flip_exact
from dejacue_paper.experiments import learned
from dejacue_paper.experiments.corpus import Benchmark
from dejacue_paper.learn.decoders import DECODERS
from dejacue_paper.learn.decoders.records import records_of, same

pytestmark = [pytest.mark.long, pytest.mark.release]


@pytest.fixture
def benchmark(release) -> Benchmark:
    return Benchmark(release)


def answer(corpus, share: float) -> dict:
    windows = corpus.by_history(learned.constant(corpus, share))
    return {"mean": [0, 0, 0], "windows": {name: rows.tolist() for name, rows in windows.items()}}


def test_runs_are_scored_from_their_windows(benchmark, monkeypatch) -> None:
    seven, development = benchmark.seven, benchmark.development
    stored = {"mean": [0.5, 0.25, 0.125], "same": 0.75}
    tests = [
        {
            "seven": [answer(seven, share)] * 2,
            "development": [answer(development, share)] * 2,
            "vost": [stored] * 2,
        }
        for share in (1.0, 0.4)
    ]
    runs = [
        {"decoder": name, "condition": "published", "untrained": tests[0], "trained": tests[k]}
        for k, name in enumerate(("qd", "moment"))
    ]
    lost = {"decoder": "cg", "condition": "published", "error": "not started: time limit reached"}
    rendered = {
        "decoder": "qd",
        "condition": "rendered",
        "untrained": {"rendered-tests": [stored]},
        "trained": {"rendered-tests": [{"mean": [1, 1, 1], "same": 0.0}]},
    }
    study = {
        "runs": [*runs, lost, rendered],
        "baselines": {"rendered-tests": {"contrast": stored}},
        "machine": "a machine",
        "torch": "2",
        "command": "a command",
    }
    monkeypatch.setattr(learned, "runs", lambda: study)
    result = learned.learned(benchmark)
    rows = {(v.row, v.metric, v.part): v.here for v in result.values}
    label = "Moment-DETR, 40 records, as published"
    constant = "first 40 % of the longest run"
    for where in ("", ", on the four that the 40 records are of"):
        for metric in ("r1_03", "r1_05", "top1_tiou", "same"):
            ours = rows[f"{label}{where}", metric, "mean"]
            assert ours == pytest.approx(rows[f"{constant}{where}", metric, "mean"], abs=1e-12)
    assert rows[label, "same", "mean"] == 1
    assert (
        rows[f"{label}: untrained", "r1_05", "mean"] == rows["whole longest run", "r1_05", "mean"]
    )
    assert rows[label, "r1_05", "std"] == 0
    assert rows[f"{label}, on VOST", "r1_05", "mean"] == 0.25
    assert rows[f"{label}, and its own code", "r1_05", "mean"] == rows[label, "r1_05", "mean"]
    assert rows["contrast, on VOST", "r1_05", "mean"] == pytest.approx(1 / 3)
    there = ", on other rendered histories"
    assert rows[f"QD-DETR, rendered histories{there}", "top1_tiou", "mean"] == 1
    assert rows[f"QD-DETR, rendered histories: untrained{there}", "same", "mean"] == 0.75
    assert rows[f"contrast{there}", "r1_03", "mean"] == 0.5
    assert not any("CG-DETR" in row for row, _, _ in rows)
    best = {
        "scan": seven.windows("vocabulary"),
        "contrast": seven.windows("vocabulary", "contrast"),
    }
    for name, values in best.items():
        ours = seven.means(seven.scores(values))[:, 1]
        means = [seven.means(seven.scores(learned.constant(seven, s)))[:, 1] for s in (0.4, 1.0)]
        p = [float(sign_flip_exact(ours - theirs)) for theirs in means]
        assert rows[f"{name} − {label}", "r1_05", "p"] == p[0]
        assert rows[f"{name} − {label}", "r1_05", "holm p"] == holm(p)[0]
        low, high = (rows[f"{name} − {label}", "r1_05", part] for part in ("low", "high"))
        assert low < rows[f"{name} − {label}", "r1_05", "mean"] < high
    assert any("a command" in note for note in result.notes)


def test_the_table_has_all_eight_decoders_under_every_condition(benchmark) -> None:
    result = learned.learned(benchmark)
    rows = {value.row for value in result.values}
    for condition, title in learned.CONDITIONS.items():
        names = [
            name for *_, name in DECODERS.values() if any(f"{name}, {title}" in r for r in rows)
        ]
        assert len(names) == {"generated-long": 3, "rendered-long": 4}.get(condition, 8)
        assert any(note.startswith(f"{title}: ") for note in result.notes)


def test_every_draw_takes_first_one_cohort_then_the_other() -> None:
    names = sorted(name for cohort in learned.DRAWN for name in cohort)
    values = dict(zip(names, np.random.default_rng(1).normal(size=7).tolist(), strict=True))
    rng = np.random.default_rng(3407)
    three, four = (np.array([values[name] for name in cohort]) for cohort in learned.DRAWN)
    sums = []
    for _ in range(10_000):
        total = three[rng.integers(0, 3, size=3)].sum()
        sums.append((total + four[rng.integers(0, 4, size=4)].sum()) / 7)
    expected = np.quantile(sums, [0.025, 0.975])
    column = np.array(list(values.values()))[:, None]
    intervals = learned.cohort_intervals(names, np.hstack([column, 2 * column]))
    assert intervals[:, 0] == pytest.approx(expected, abs=1e-12)
    assert intervals[:, 1] == pytest.approx(2 * expected, abs=1e-12)


def test_the_release_has_forty_records_to_learn_from(benchmark) -> None:
    records = records_of(benchmark.development.entries)
    positive = records.positive
    assert len(positive) == 40
    assert records.targets.sum() == 46
    whole = np.isclose(records.spans[positive, 0, 1], 1) & (records.targets[positive] == 1)
    assert whole.sum() == 14
    per_history = np.bincount(records.history[positive]).tolist()
    assert per_history == [8, 6, 8, 18]
    asked = records_of(benchmark.seven.entries, clip=True)
    assert len(asked) == 152


def test_words_matter_to_the_scan_and_not_to_a_constant(benchmark) -> None:
    seven = benchmark.seven
    scan = list(seven.by_history(seven.windows("vocabulary")).values())
    assert round(same(seven.entries, scan), 2) == 0.08
