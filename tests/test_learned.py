"""The table of learned decoders: runs of ours are scored here, with the published statistics."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue.evaluation import holm, sign_flip_exact
from dejacue.experiments import learned
from dejacue.experiments.corpus import Benchmark
from dejacue.learn.decoders.records import records_of, same

pytestmark = pytest.mark.release


@pytest.fixture
def benchmark(release) -> Benchmark:
    return Benchmark(release)


def answer(corpus, share: float) -> dict:
    windows = corpus.by_history(learned.constant(corpus, share))
    return {"mean": [0, 0, 0], "windows": {name: own.tolist() for name, own in windows.items()}}


def test_runs_are_scored_from_their_windows(benchmark, monkeypatch) -> None:
    seven, development = benchmark.seven, benchmark.development
    tests = [{"seven": [answer(seven, share)] * 2, "development": [answer(development, share)] * 2}
             for share in (1.0, 0.4)]  # fmt: skip
    runs = [
        {"decoder": name, "condition": "published", "untrained": tests[0], "trained": tests[k]}
        for k, name in enumerate(("qd", "moment"))
    ]
    lost = {"decoder": "cg", "condition": "published", "error": "not begun: the time was over"}
    made = {"runs": [*runs, lost], "machine": "a machine", "torch": "2", "command": "a command"}
    monkeypatch.setattr(learned, "runs", lambda: made)
    result = learned.learned(benchmark)
    rows = {(v.row, v.metric, v.part): v.here for v in result.values}
    label = "Moment-DETR, 40 records, as published"
    constant = "first 40 % of the longest run"
    for metric in ("r1_03", "r1_05", "top1_tiou", "same"):
        assert rows[label, metric, "mean"] == rows[constant, metric, "mean"]
    assert rows[label, "same", "mean"] == 1
    assert (
        rows[f"{label}: untrained", "r1_05", "mean"] == rows["whole longest run", "r1_05", "mean"]
    )
    assert rows[label, "r1_05", "std"] == 0
    assert not any("CG-DETR" in row for row, _, _ in rows)
    scan = seven.means(seven.scores(seven.windows("vocabulary")))[:, 1]
    means = [seven.means(seven.scores(learned.constant(seven, s)))[:, 1] for s in (0.4, 1.0)]
    p = [float(sign_flip_exact(scan - own)) for own in means]
    assert rows[f"scan − {label}", "r1_05", "p"] == p[0]
    assert rows[f"scan − {label}", "r1_05", "holm p"] == holm(p)[0]
    low, high = (rows[f"scan − {label}", "r1_05", part] for part in ("low", "high"))
    assert low < rows[f"scan − {label}", "r1_05", "mean"] < high
    assert "a command" in result.notes[-1]


def test_every_draw_takes_first_one_cohort_then_the_other() -> None:
    names = [name for own in learned.DRAWN for name in own]
    values = dict(zip(names, np.random.default_rng(1).normal(size=7).tolist(), strict=True))
    rng = np.random.default_rng(3407)
    three, four = (np.array([values[name] for name in own]) for own in learned.DRAWN)
    sums = []
    for _ in range(10_000):
        one = three[rng.integers(0, 3, size=3)].sum()
        sums.append((one + four[rng.integers(0, 4, size=4)].sum()) / 7)
    expected = np.quantile(sums, [0.025, 0.975])
    assert learned.cohort_interval(values) == pytest.approx(tuple(expected), abs=1e-12)


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
