"""Does a state occur? p-values against unrelated vocabularies."""

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import InputError, Vocabulary, locate
from dejacue.method.contrast import Contrast
from dejacue.method.localization import Plan
from dejacue_paper.data.synthetic import generate
from dejacue_paper.method.absence import null_scores, p_values, state_p_values, unrelated_to


def others(count, dimension=64, seed=99):
    rng = np.random.default_rng(seed)
    names = (f"{chr(97 + k // 26)}{chr(97 + k % 26)}x" for k in range(2 * count))
    return [
        Vocabulary(
            {a: [a], b: [b]}, rng.normal(size=(2, dimension)).astype(np.float32), "generated"
        )
        for a, b in zip(names, names, strict=True)
    ]


def test_a_present_state_has_a_low_p_value_and_a_meaningless_one_does_not():
    scene = generate(3, signal=2.0)
    present = state_p_values(scene.history, scene.vocabulary, others(50))
    assert present == dict.fromkeys(scene.vocabulary.states, pytest.approx(1 / 101))
    strange = state_p_values(scene.history, others(1, seed=5)[0], others(50)[2:])
    assert min(strange.values()) > 0.01
    high, low = state_p_values(scene.history, others(1, seed=9)[0], others(50)[2:]).values()
    assert high > 0.9
    assert low < 0.5


def test_p_values_are_of_words():
    scene = generate(3)
    named = scene.vocabulary.with_examples(empty=3)
    with refused("examples"):
        state_p_values(scene.history, named, [scene.vocabulary])


def test_p_values_count_the_null_scores_that_are_at_least_as_high():
    null = np.array([1.0, 2.0, 3.0])
    assert p_values(np.array([0.0, 2.0, 3.5]), null).tolist() == [1.0, 0.75, 0.25]


def test_the_null_has_one_score_for_each_unrelated_state():
    scene, rng = generate(3), np.random.default_rng(1)
    many = [
        Vocabulary({"a": ["p", "q"], "b": ["r", "s", "t"]}, rng.normal(size=(5, 64)), "generated")
        for _ in range(2)
    ]
    view = Plan.of(None, "contrast", None, False, "auto").view(scene.history, scene.vocabulary)
    expected = [
        locate(scene.history, words, readout="contrast")[state][0].score
        for words in many
        for state in words.states
    ]
    assert null_scores(Contrast(), view, many).tolist() == pytest.approx(expected)


def test_words_that_are_shared_make_a_vocabulary_related():
    cup = Vocabulary({"a": ["an empty cup"], "b": ["a full cup"]})
    far = Vocabulary({"a": ["a lit candle"], "b": ["the candle is out"]})
    near = Vocabulary({"a": ["a cup of tea"], "b": ["tea leaves"]})
    assert unrelated_to(cup, [near, far]) == [far]
    with refused("unrelated", 1):
        unrelated_to(cup, [near])


def test_confidence_refuses_what_it_cannot_judge():
    scene = generate(3)
    with refused("unrelated"):
        state_p_values(scene.history, scene.vocabulary, [])
    other = Vocabulary({"p": ["qq"], "r": ["ss"]}, np.eye(64, dtype=np.float32)[:2], "another")
    with pytest.raises(InputError, match='encoded with "generated", but the vocabulary with'):
        state_p_values(scene.history, scene.vocabulary, [other])
