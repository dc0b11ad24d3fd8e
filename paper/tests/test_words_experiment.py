"""The table of words."""

from __future__ import annotations

import numpy as np
import pytest

from dejacue_paper import generate
from dejacue_paper.experiments.words import chosen, rank_correlation, words


@pytest.mark.long
def test_the_figures_of_the_documentation_come_from_the_release(release):
    from dejacue_paper.experiments.corpus import Benchmark

    result = words(Benchmark(release))

    def mean(row, metric):
        (matching,) = [
            v for v in result.values if (v.row, v.metric, v.part) == (row, metric, "mean")
        ]
        return matching.here

    cosine = "cosine of contrasts"
    assert mean("VOST: two descriptions, phrased alike", cosine) == pytest.approx(0.18, abs=0.005)
    assert mean("VOST: a prompt form and the ensemble", cosine) == pytest.approx(0.93, abs=0.005)
    assert mean("half A: all descriptions", "r1_05") > mean(
        "half A: one description per state", "r1_05"
    )
    assert not [value for value in result.values if value.row.startswith(("half B", "seven"))]


def test_one_description_a_state_is_the_one_that_is_asked_for():
    vocabulary = generate(3, descriptions=2).vocabulary
    fewer = chosen(vocabulary, (0, 1))
    texts = list(vocabulary.states.values())
    assert list(fewer.states.values()) == [(texts[0][0],), (texts[1][1],)]
    np.testing.assert_array_equal(fewer.features, vocabulary.features[[0, 3]])


def test_ranks_share_ties():
    first, second = np.array([1.0, 2, 2, 4]), np.array([10.0, 20, 30, 40])
    assert rank_correlation(first, second) == pytest.approx(0.9486833)
    assert rank_correlation(first, -second) == pytest.approx(-0.9486833)
    assert np.isnan(rank_correlation(np.ones(4), second))
