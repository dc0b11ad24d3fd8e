"""Several encoders that look at one object."""

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Vocabulary, locate
from dejacue.evaluation import best_tiou
from dejacue.method import locate_together
from dejacue.method.localization import analyse
from dejacue_paper import generate

EPISODES = [("empty", 60), ("filled", 80), ("empty", 40)]


def seen(seed, signal=0.8, name="one"):
    scene = generate(seed, episodes=EPISODES, signal=signal)
    history = History(scene.history.features, id="cup", encoder=name)
    return scene, (history, Vocabulary(scene.vocabulary.states, scene.vocabulary.features, name))


@pytest.mark.parametrize("readout", ["contrast", "joint"])
def test_the_same_evidence_twice_changes_nothing(readout):
    _, pair = seen(3)
    alone, twice = (
        analyse(*pair, readout=readout),
        locate_together([pair, pair], readout=readout),
    )
    np.testing.assert_allclose(twice.evidence.responses, alone.evidence.responses, atol=1e-9)
    assert [(i.state, i.window, i.rank, i.kind) for i in twice] == [
        (i.state, i.window, i.rank, i.kind) for i in alone
    ]
    further = "occurrence" if readout == "joint" else "alternative"
    assert {i.kind for i in alone} == {"answer", further}


def test_two_weak_witnesses_are_better_than_each():
    alone, both = [], []
    for seed in range(12):
        made, one = seen(seed, 0.14, "one")
        _, other = seen(seed + 100, 0.14, "other")
        truth = [np.array([tuple(made.references["filled"][0])])]
        for pair in (one, other):
            alone.append(best_tiou([tuple(locate(*pair)["filled"][0].window)], truth)[0])
        together = locate_together([one, other])
        both.append(best_tiou([tuple(together["filled"][0].window)], truth)[0])
    assert np.mean(both) > np.mean(alone) + 0.02


def test_frames_that_only_some_have_are_left_out_and_both_are_named():
    _, (history, words) = seen(3)
    fewer = History(history.features[20:], history.frames[20:], id="cup", encoder="two")
    two = Vocabulary(words.states, words.features, "two")
    timeline = locate_together([(history, words), (fewer, two)])
    assert timeline.evidence.frames[0] == 20
    assert timeline.encoder == "one and two"
    assert "the evidence of one and two, averaged" in timeline.notes


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda h, v: [(h, v)], "pairs"),
        (lambda h, v: [(h, v), (h, v.with_examples(empty=3))], "examples"),
        (lambda h, v: [(h, v), (h, Vocabulary({"a": "x", "b": "y"}, v.features[:2]))], "states"),
        (lambda h, v: [(h, v), (History(h.features, h.frames + 5000), v)], "frames"),
    ],
)
def test_what_cannot_be_located_together_is_refused(make, field):
    _, (history, vocabulary) = seen(3)
    with refused(field=field):
        locate_together(make(history, vocabulary))


def test_other_readouts_read_one_encoder():
    _, pair = seen(3)
    with refused(field="readout", value="scan"):
        locate_together([pair, pair], readout="published")
