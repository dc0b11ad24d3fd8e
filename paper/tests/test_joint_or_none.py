"""A labelling in which a frame may be in none of the states."""

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, InputError, Vocabulary, locate
from dejacue.method import LiveReading, evidence, locate_many
from dejacue.method._labelling import (
    leads,
)
from dejacue.method.joint import Joint
from dejacue.method.kernel import compiled
from dejacue.method.plan import Plan
from dejacue_paper.method.joint_or_none import JointOrNone

ENGINES = (*compiled(), "numpy")


def occurrences(history, vocabulary, readout="joint", **options):
    timeline = locate(history, vocabulary, readout=readout, top=None, **options)
    return {state: timeline[state] for state in timeline.states}


def between():
    """Return 60 frames of one state, 40 of something else, 60 of the other state."""
    rng = np.random.default_rng(0)
    axes = np.eye(16, dtype=np.float32)
    features = axes[[0] * 60 + [5] * 40 + [1] * 60] + 0.02 * rng.normal(size=(160, 16))
    return History(features.astype(np.float32)), Vocabulary({"a": ["a"], "b": ["b"]}, axes[:2])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("options", [{}, {"order": ("a", "b")}, {"irreversible": True}])
def test_frames_between_two_states_may_be_in_none_of_them(name, options):
    history, vocabulary = between()
    readout = JointOrNone(width=0, **options)
    intervals = occurrences(history, vocabulary, readout=readout, kernel=name)
    assert {s: [tuple(m.window) for m in windows] for s, windows in intervals.items()} == {
        "a": [(0, 59)],
        "b": [(100, 159)],
    }
    labelled = occurrences(history, vocabulary, readout=Joint(width=0, **options), kernel=name)
    assert sum(m.window.length for intervals in labelled.values() for m in intervals) == 160
    (first, two) = locate(history, vocabulary, readout=readout, top=3, kernel=name)
    assert (tuple(first.window), tuple(two.window)) == ((0, 59), (100, 159))
    assert (first.score, two.score) == (intervals["a"][0].score, intervals["b"][0].score)
    many = list(locate_many([history, history], vocabulary, readout=readout, kernel=name))
    assert [[m.window for m in timeline] for timeline in many] == 2 * [[first.window, two.window]]


def test_none_adds_up_and_leaves_the_evidence_as_it_is():
    history, vocabulary = between()
    readout = JointOrNone(width=1.0, none=0.7)
    seen, same = (
        evidence(history, vocabulary, readout=method).responses
        for method in (readout, Joint(width=1.0))
    )
    assert np.array_equal(seen, same)
    view = Plan.of(None, readout, None, 1, False, "auto").view(history, vocabulary)
    levels = Joint(width=1.0).seen(view)[1].levels[0]
    rows = np.concatenate([seen - levels[:, None] - 0.7, np.zeros((1, 160))])
    for state, ((first, last, score),) in enumerate(readout.occurrences(view)):
        assert score == pytest.approx(leads(rows)[state, first : last + 1].sum())


def test_a_state_that_never_reaches_the_level_has_no_interval():
    history, vocabulary = between()
    readout = JointOrNone(width=1.0, none=5.0)
    assert not any(occurrences(history, vocabulary, readout=readout).values())
    for options in ({}, {"diagnostics": True}, {"top": 3}):
        timeline = locate(history, vocabulary, readout=readout, **options)
        assert list(timeline) == []
        assert list(timeline.states) == ["a", "b"]
    several = locate_many([history, history], vocabulary, readout=readout)
    assert [len(timeline) for timeline in several] == [0, 0]


def test_none_beside_known_frames_and_changes():
    history, vocabulary = between()
    order = JointOrNone(width=1.0, order=("a", "b"))
    named = vocabulary.with_examples(a=[5, 30], b=[110, 140], none=[70, 90])
    intervals = occurrences(history, named, readout=order)
    claimed = {
        f
        for spans in intervals.values()
        for m in spans
        for f in range(m.window.start, m.window.end)
    }
    assert not claimed & {70, 90}
    assert {5, 30, 110, 140} <= claimed
    changed = vocabulary.with_examples(changes=[30])
    (first, *rest) = sorted(
        tuple(m.window)
        for intervals in occurrences(history, changed, readout=JointOrNone()).values()
        for m in intervals
    )
    assert all(not window[0] < 30 <= window[1] for window in (first, *rest))


def test_the_level_is_a_number_of_deviations():
    assert JointOrNone() == JointOrNone(none=0.4)
    assert JointOrNone(none=np.float32(0.5)).none == 0.5
    for wrong in (-0.1, "yes", float("nan")):
        with refused(field="none", value=wrong):
            JointOrNone(none=wrong)
    history, vocabulary = between()
    by_name = locate(history, vocabulary, readout="joint-or-none")
    assert by_name.to_dict() == locate(history, vocabulary, readout=JointOrNone()).to_dict()
    assert by_name.settings["readout"]["none"] == 0.4
    assert "none" not in locate(history, vocabulary, readout="joint").settings["readout"]


def test_states_are_not_found_where_they_are_not_whatever_is_read_beside():
    history, vocabulary = between()
    pairs = [
        (history, vocabulary.with_examples(a=5, b=110)),
        (history, vocabulary.with_examples(none="0-159")),
    ]
    for order in (pairs, pairs[::-1]):
        timelines = locate_many([h for h, _ in order], [v for _, v in order], readout=JointOrNone())
        for pair, timeline in zip(order, timelines, strict=True):
            assert (len(timeline) == 0) == (pair is pairs[1])


def test_a_live_reading_refuses_it():
    with pytest.raises(InputError, match="nor a label for none"):
        LiveReading(between()[1], readout=JointOrNone())
