"""The weights of beyond-learned on the release."""

from __future__ import annotations

import pytest

from dejacue_paper.experiments import calibrated as experiment
from dejacue_paper.experiments.corpus import Benchmark


@pytest.mark.long
def test_the_goals_are_reached_on_the_release(release) -> None:
    result = experiment.learned(Benchmark(release))
    here = {(v.row, v.metric): v.here for v in result.values if v.part == "mean"}

    def row(name):
        return [round(100 * here[name, m], 2) for m in ("r1_03", "r1_05", "top1_tiou")]

    assert row("seven: 1 weight, published evidence") == [58.33, 38.1, 40.63]
    assert row("seven: 3 weights, published evidence, a weak ridge") == [61.9, 38.1, 42.1]
    assert row("seven: 1 weight, contrast's evidence") == row("seven: contrast")
    assert row("VOST: contrast") == [44.87, 33.33, 32.06]
    assert any("VOST" in note and "not recommended" in note for note in result.notes)
