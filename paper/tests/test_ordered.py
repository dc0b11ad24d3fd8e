"""The ordered readout: states that follow each other once, by evidence, visual change and order."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from helpers.errors import refused

from dejacue import History, Vocabulary, find, locate
from dejacue.method import Window, evidence
from dejacue.method.segmentation import reduced
from dejacue_paper.data.synthetic import generate
from dejacue_paper.method import ordered as module
from dejacue_paper.method.ordered import EqualParts, Ordered, equal_parts

ORDER = ("empty", "half", "filled")


def scene(seed=0, lengths=(30, 20, 40), signal=1.0, order=ORDER, **more):
    episodes = list(zip(order, lengths, strict=True))
    return generate(seed, states=ORDER, episodes=episodes, signal=signal, **more)


def windows(timeline):
    return {interval.state: interval.window for interval in timeline}


def test_states_follow_each_other_without_a_gap():
    sample = scene()
    answer = windows(locate(sample.history, sample.vocabulary, readout="ordered"))
    assert list(answer) == list(ORDER)
    assert answer["empty"].start == 0
    assert answer["filled"].end == 89
    assert all(a.end + 1 == b.start for a, b in pairwise(answer.values()))
    assert all(sample.references[state][0].iou(window) > 0.8 for state, window in answer.items())


def test_the_order_may_differ_from_that_of_the_vocabulary():
    order = ("filled", "empty", "half")
    sample = scene(order=order)
    answer = windows(locate(sample.history, sample.vocabulary, readout=Ordered(order=order)))
    assert [answer[state].start for state in order] == sorted(w.start for w in answer.values())
    assert all(sample.references[state][0].iou(window) > 0.8 for state, window in answer.items())


def score(rows, looks, edges, change, place):
    """Return the score of parts as the docstring defines it."""
    count, parts = rows.shape[1], len(rows)
    spans = list(pairwise(edges))
    response = sum(rows[k, a:b].sum() for k, (a, b) in enumerate(spans)) / count
    total = (looks**2).sum()
    inside = sum(((looks[a:b] - looks[a:b].mean(axis=0)) ** 2).sum() for a, b in spans)
    placed = np.mean([np.log((b - a) * parts / count) for a, b in spans])
    return response + change * (1 - inside / total) + place * placed


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("change", "place"), [(1.0, 0.2), (0.0, 0.0), (3.0, 1.0)])
def test_no_other_parts_have_a_higher_score(seed, change, place):
    sample = scene(seed, lengths=(8, 6, 10), signal=0.3)
    history, words = sample.history, sample.vocabulary
    seen = evidence(history, words, readout="contrast").responses
    rows = seen[[words.state_names.index(state) for state in ORDER]]
    looks = reduced(history)
    best = max(
        combinations(range(1, len(history)), 2),
        key=lambda cut: score(rows, looks, (0, *cut, len(history)), change, place),
    )
    answer = windows(locate(history, words, readout=Ordered(change=change, place=place)))
    assert (answer["half"].start, answer["filled"].start) == best


def test_long_histories_are_cut_at_the_best_frame_not_at_the_nearest_place(monkeypatch):
    sample = scene(2, lengths=(130, 90, 140))
    exact = windows(locate(sample.history, sample.vocabulary, readout="ordered"))
    monkeypatch.setattr(module, "MAX_BOUNDARIES", 24)
    again = History(sample.history.features, sample.history.frames)
    assert windows(locate(again, sample.vocabulary, readout="ordered")) == exact


def test_long_histories_keep_named_frames_and_changes(monkeypatch):
    sample = scene(2, lengths=(130, 90, 140))
    monkeypatch.setattr(module, "MAX_BOUNDARIES", 10)
    named = sample.vocabulary.with_examples(empty=[100], half=[101], changes=[333])
    answer = windows(locate(sample.history, named, readout="ordered"))
    assert (answer["half"].start, answer["filled"].start) == (101, 333)


def test_visual_change_places_a_boundary_that_evidence_does_not_see():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((90, 16)) * 0.2 + 3 * np.eye(16)[0]
    rows[25:] += np.eye(16)[1]  # a change of looks about which words know nothing
    words = Vocabulary({"a": "a", "b": "b"}, np.eye(16)[[2, 3]])
    history = History(rows.astype(np.float32))
    answer = windows(locate(history, words, readout=Ordered(change=5.0)))
    assert abs(answer["b"].start - 25) <= 1


def test_a_part_crosses_an_absence():
    sample = scene(lengths=(60, 40, 80), gaps=((20, 15),))
    answer = windows(locate(sample.history, sample.vocabulary, readout="ordered"))
    assert answer["empty"].iou(Window(0, 59)) > 0.8


def test_a_named_frame_and_a_change_hold():
    sample = scene(signal=0.2)
    named = sample.vocabulary.with_examples(half=[70], changes=[75])
    answer = windows(locate(sample.history, named, readout="ordered"))
    assert 70 in answer["half"]
    assert answer["filled"].start == 75


def test_what_was_named_against_the_order_is_refused():
    sample = scene()
    for named in ({"empty": 80, "filled": 5}, {None: 40}):
        with refused("order"):
            locate(sample.history, sample.vocabulary.with_examples(named), readout="ordered")
    with refused("order"):
        changes = sample.vocabulary.with_examples(changes=[10, 20, 30])
        locate(sample.history, changes, readout="ordered")


def test_a_state_that_is_not_in_the_order_has_no_interval():
    sample = scene()
    finding = find(sample.history, sample.vocabulary, readout=Ordered(order=("empty", "filled")))
    assert set(windows(finding)) == {"empty", "filled"}
    assert any("half" in note for note in finding.timeline.notes)


def test_an_answer_says_what_the_order_alone_would_give():
    sample = scene()
    finding = find(sample.history, sample.vocabulary, readout="ordered")
    assert any(
        "equal parts" in note and "half frames 30 – 59" in note for note in finding.timeline.notes
    )


@pytest.mark.parametrize("readout", [Ordered, EqualParts])
def test_orders_that_are_none_are_refused(readout):
    for order in (("empty",), ("empty", "empty")):
        with refused("order"):
            readout(order=order)
    sample = scene()
    with refused("state in the order", "ful"):
        locate(sample.history, sample.vocabulary, readout=readout(order=("empty", "ful")))
    short = History(sample.history.features[:2])
    with refused("order", 2):
        locate(short, sample.vocabulary, readout=readout())


@pytest.mark.parametrize("setting", [{"change": -1}, {"place": float("nan")}, {"pooling": 0.5}])
def test_settings_out_of_range_are_refused(setting):
    with refused(next(iter(setting))):
        Ordered(**setting)


def test_equal_parts_look_at_no_frame():
    sample = scene()
    answer = windows(locate(sample.history, sample.vocabulary, readout="equal-parts"))
    assert answer == {"empty": Window(0, 29), "half": Window(30, 59), "filled": Window(60, 89)}
    taught = sample.vocabulary.with_examples(half=3)
    assert windows(locate(sample.history, taught, readout="equal-parts")) == answer
    assert equal_parts(10, 3).tolist() == [0, 3, 7, 10]


def test_an_order_is_set_on_the_command_line(tmp_path, dejacue):
    from dejacue.files import write_history, write_vocabulary

    sample = scene()
    source = write_history(tmp_path / "a.history.npz", sample.history)
    words = write_vocabulary(tmp_path / "a.npz", sample.vocabulary)
    order = ("-r", "ordered", "--set", "order=half,filled,empty", "--set", "change=0.5")
    code, out, _ = dejacue("find", source, "-v", words, *order, "-f", "csv")
    assert code == 0
    assert [line.split(",")[1] for line in out.splitlines()[1:]] == ["half", "filled", "empty"]
