"""Does a state occur? p-values against unrelated vocabularies."""

import numpy as np
import pytest

from dejacue import InputError, Vocabulary, locate
from dejacue.method.contrast import Contrast
from dejacue.method.plan import Plan
from dejacue_paper.data.synthetic import generate
from dejacue_paper.method.absence import locate_with_p_values, null_scores, p_values, unrelated_to


def judged(history, vocabulary, *, unrelated=(), **options):
    return locate_with_p_values(history, vocabulary, unrelated, **options)


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
    found = judged(
        scene.history, scene.vocabulary, readout="contrast", unrelated=others(50), absent_at=0.05
    )
    assert all(m.p_value == pytest.approx(1 / 101) and not m.absent for m in found)
    assert found.settings["unrelated"] == 100
    assert found.settings["absent_at"] == 0.05
    assert found[0].to_dict()["p_value"] == found[0].p_value
    exactly = judged(scene.history, scene.vocabulary, unrelated=others(50), absent_at=1 / 101)
    assert all(m.p_value == 1 / 101 and not m.absent for m in exactly)
    below = judged(scene.history, scene.vocabulary, unrelated=others(50), absent_at=0.99 / 101)
    assert all(m.absent for m in below)
    strange = others(1, seed=5)[0]
    found = judged(
        scene.history, strange, readout="contrast", unrelated=others(50)[2:], absent_at=0.01
    )
    assert all(m.absent and m.p_value > 0.01 for m in found)
    told = ", ".join(f'"{m.state}" (p {m.p_value:.2f})' for m in found)
    assert found.notes == (f"not found: {told}, above the level 0.01",)


def test_a_state_that_unrelated_words_fit_as_well_is_said_to():
    scene = generate(3, signal=2.0)
    assert judged(scene.history, scene.vocabulary, unrelated=others(50)).notes == ()
    found = judged(scene.history, others(1, seed=9)[0], unrelated=others(50)[2:])
    high, low = found
    assert (high.p_value > 0.9, low.p_value < 0.5) == (True, True)
    assert found.notes == (
        f'"{high.state}" (p {high.p_value:.2f}): unrelated words fit these frames just as well, '
        "so it may not occur at all",
    )
    assert not any(moment.absent for moment in found)


def test_p_values_count_the_null_scores_that_are_at_least_as_high():
    null = np.array([1.0, 2.0, 3.0])
    assert p_values(np.array([0.0, 2.0, 3.5]), null).tolist() == [1.0, 0.75, 0.25]


def test_the_null_has_one_score_for_each_unrelated_state():
    scene, rng = generate(3), np.random.default_rng(1)
    many = [
        Vocabulary({"a": ["p", "q"], "b": ["r", "s", "t"]}, rng.normal(size=(5, 64)), "generated")
        for _ in range(2)
    ]
    view = Plan.of(None, "contrast", None, None, False, "auto").view(
        scene.history, scene.vocabulary
    )
    expected = [locate(scene.history, own)[state][0].score for own in many for state in own.states]
    assert null_scores(Contrast(), view, many).tolist() == pytest.approx(expected)


def test_words_that_are_shared_make_a_vocabulary_related():
    own = Vocabulary({"a": ["an empty cup"], "b": ["a full cup"]})
    far = Vocabulary({"a": ["a lit candle"], "b": ["the candle is out"]})
    near = Vocabulary({"a": ["a cup of tea"], "b": ["tea leaves"]})
    assert unrelated_to(own, [near, far]) == [far]
    with pytest.raises(InputError, match="none of the 1 vocabularies"):
        unrelated_to(own, [near])


def test_confidence_refuses_what_it_cannot_judge():
    scene = generate(3)
    for absent_at in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="absent_at"):
            judged(
                scene.history,
                scene.vocabulary,
                readout="contrast",
                unrelated=others(20),
                absent_at=absent_at,
            )
    with pytest.raises(InputError, match="do not apply to the scan readout; contrast has them"):
        judged(scene.history, scene.vocabulary, readout="published", unrelated=others(20))
    with pytest.raises(InputError, match="pass them as unrelated"):
        judged(scene.history, scene.vocabulary, readout="contrast", absent_at=0.05)
    other = Vocabulary({"p": ["qq"], "r": ["ss"]}, np.eye(64, dtype=np.float32)[:2], "another")
    with pytest.raises(InputError, match='encoded with "generated", but the vocabulary with'):
        judged(scene.history, scene.vocabulary, readout="contrast", unrelated=[other])
    few = judged(scene.history, scene.vocabulary, readout=Contrast(), unrelated=others(4))
    sentence = "only 8 unrelated states for comparison, so no p-value is below 0.11"
    assert sentence in few.notes
    three = Vocabulary(
        {"yyx": ["yyx"], "zyx": ["zyx"], "zzx": ["zzx"]}, np.eye(64, dtype=np.float32)[:3]
    )
    for given, noted in ((others(9), True), ([*others(8), three], False)):  # 19 states reach 5 %
        found = judged(scene.history, scene.vocabulary, unrelated=given)
        assert any("unrelated states for comparison" in note for note in found.notes) == noted


def test_p_values_are_of_words():
    scene = generate(3)
    with pytest.raises(InputError, match="compare words with words"):
        judged(scene.history, scene.vocabulary.with_examples(empty=3), unrelated=others(20))
