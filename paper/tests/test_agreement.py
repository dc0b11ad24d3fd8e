"""Agreement of two annotation passes, against hand computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from annotation_passes import sequences
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue_paper.evaluation.agreement import cohen_kappa

PAIRS = st.lists(st.tuples(*[st.sampled_from("abcd")] * 2), min_size=1, max_size=60)


def test_kappa_of_the_textbook_table() -> None:
    # 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: chance = (25·30 + 25·20)/50² = .5
    got = cohen_kappa(*sequences([[20, 5], [10, 15]], ("yes", "no")))
    assert (got.frames, got.agreed, got.observed, got.chance) == (50, 35, 0.7, 0.5)
    assert got.kappa == pytest.approx(0.4)


def test_passes_that_share_no_label_agree_less_than_never() -> None:
    assert cohen_kappa("ab", "ba").kappa == -1.0
    got = cohen_kappa("aa", "bb")
    assert (got.observed, got.chance, got.kappa) == (0.0, 0.0, 0.0)


def test_one_label_throughout_is_full_agreement() -> None:
    got = cohen_kappa(["pre"] * 7, ["pre"] * 7)
    assert (got.observed, got.chance, got.kappa) == (1.0, 1.0, 1.0)


@given(PAIRS)
def test_kappa_follows_its_definition_on_the_confusion_table(pairs) -> None:
    first, second = (list(labels) for labels in zip(*pairs, strict=True))
    table = np.zeros((4, 4))
    for a, b in pairs:
        table["abcd".index(a), "abcd".index(b)] += 1 / len(pairs)
    observed, chance = np.trace(table), table.sum(axis=1) @ table.sum(axis=0)
    got = cohen_kappa(first, second)
    assert math.isclose(got.observed, observed)
    assert math.isclose(got.chance, chance, abs_tol=1e-12)
    if got.chance < 1:
        assert math.isclose(got.kappa, (observed - chance) / (1 - chance), abs_tol=1e-9)
    assert got == cohen_kappa(second, first)
    assert got.kappa <= 1
    assert (got.kappa == 1) == (first == second)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: cohen_kappa("ab", "abc"), "the other 3"),
        (lambda: cohen_kappa([], []), "nothing to compare: both passes are empty"),
        (lambda: cohen_kappa(["a", "b"], ["a", None]), "label 1"),
    ],
)
def test_passes_that_cannot_be_compared_are_refused(call, fact) -> None:
    with refused(fact):
        call()
