"""Joint labelling, occurrences, and whether a state occurs at all."""

from itertools import pairwise, product

import numpy as np
import pytest
from helpers.errors import refused
from helpers.timelines import occurrences

from dejacue import History, Vocabulary, locate
from dejacue.method._labelling import (
    best_path,
    leads,
    levels_of,
    nodes_for,
    stretches,
    with_none,
)
from dejacue.method.joint import Joint
from dejacue.method.kernel import Labelling, compiled, engine
from dejacue.method.localization import analyse
from dejacue_paper.data.synthetic import generate
from dejacue_paper.evaluation.occurrences import match

ENGINES = (*compiled(), "numpy")


def paths(states, count):
    return (np.array(path) for path in product(range(states), repeat=count))


def visits(path):
    ends = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    return [(int(path[a]), b - a) for a, b in pairwise(ends)]


def allowed(path, stay, order, irreversible):
    visited = visits(path)
    if any(length < stay for _, length in visited):
        return False
    states = [state for state, _ in visited]
    if irreversible and len(set(states)) < len(states):
        return False
    if order is not None:
        at = [order.index(state) if state in order else None for state in states]
        if None in at:
            return False
        return all((a + 1) % len(order) == b for a, b in pairwise(at)) and not (
            irreversible and any(b < a for a, b in pairwise(at))
        )
    return True


@pytest.mark.parametrize("stay", [1, 2, 3])
@pytest.mark.parametrize("order", [None, (2, 0, 1), (0, 1)])
@pytest.mark.parametrize("irreversible", [False, True])
def test_the_labelling_is_the_best_of_all_that_are_allowed(stay, order, irreversible):
    rng = np.random.default_rng(stay)
    for _ in range(4):
        responses, cost = rng.normal(size=(3, 7)), float(rng.uniform(0, 1.5))

        def worth(path, responses=responses, cost=cost):
            return responses[path, np.arange(7)].sum() - cost * (len(visits(path)) - 1)

        best = max(worth(path) for path in paths(3, 7) if allowed(path, stay, order, irreversible))
        labels = best_path(responses, nodes_for(3, order, irreversible), cost, stay)
        assert allowed(labels, stay, order, irreversible)
        assert worth(labels) == pytest.approx(best)


@pytest.mark.parametrize("name", ENGINES)
def test_of_equal_labellings_the_one_that_stays_and_of_equal_states_the_first_wins(name):
    nodes = nodes_for(3, None, False)
    rules = Labelling([nodes], np.zeros(1), 1, 1)
    cuts = np.array([0, 4])
    equal = np.zeros((3, 4))
    assert engine(name).label_responses(equal, cuts, rules)[0].tolist() == [0, 0, 0, 0]
    then = np.array([[1.0, 1, 1, 0], [1.0, 1, 1, 0], [0.0, 0, 0, 1]])
    assert engine(name).label_responses(then, cuts, rules)[0].tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("name", ENGINES)
def test_of_stretches_with_equal_scores_the_earliest_comes_first(name):
    axes = np.eye(2, dtype=np.float32)
    history = History(axes[[0] * 20 + [1] * 20 + [0] * 20])
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, axes)
    first, second = locate(history, vocabulary, readout=Joint(width=0), top=9, kernel=name)["a"]
    assert (tuple(first.window), tuple(second.window)) == ((0, 19), (40, 59))
    assert first.score == second.score
    assert (first.kind, second.kind) == ("answer", "occurrence")
    responses = np.array([[1.0, 1, -1, -1, 1, 1], [-1.0, -1, 1, 1, -1, -1]])
    by_state = stretches(responses, np.array([0, 0, 1, 1, 0, 0]), np.array([0, 6]))
    assert by_state[0] == [(0, 1, 4.0), (4, 5, 4.0)]


def test_no_two_states_share_a_frame_and_scores_add_up():
    scene = generate(3, recurrences=4, frames=400)
    by_state = occurrences(scene.history, scene.vocabulary)
    claimed = np.concatenate(
        [
            np.arange(m.window.start, m.window.end + 1)
            for intervals in by_state.values()
            for m in intervals
        ]
    )
    assert len(set(claimed.tolist())) == len(claimed) == len(scene.history)
    for state, intervals in by_state.items():
        assert [m.score for m in intervals] == sorted((m.score for m in intervals), reverse=True)
        references = [tuple(w) for w in scene.references[state]]
        windows, scores = [tuple(m.window) for m in intervals], [m.score for m in intervals]
        assert match(windows, scores, references, 0.5).sum() == len(references) == len(intervals)


def test_leads_compare_a_state_with_its_strongest_sibling():
    rows = np.array([[1.0, 5.0], [2.0, 0.0], [4.0, 3.0]])
    assert leads(rows).tolist() == [[-3.0, 2.0], [-2.0, -5.0], [2.0, -2.0]]


def test_levels_lie_half_way_between_inside_and_outside():
    rows = np.array([[4.0, 2.0, 0.0, -2.0], [1.0, 1.0, 5.0, 5.0], [9.0, 9.0, 9.0, 9.0]])
    assert levels_of(rows, np.array([0, 0, 1, 1])).tolist() == [1.0, 3.0, 0.0]
    assert levels_of(rows, np.array([0, 0, 0, 0])).tolist() == [0.0, 0.0, 0.0]


def test_occurrences_lead_back_to_the_file_and_to_seconds():
    axes = np.eye(2, dtype=np.float32)
    frames = np.arange(60)
    sampled = History(
        axes[[0] * 20 + [1] * 20 + [0] * 20], frames, times_s=frames / 2, source_frames=5 * frames
    )
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, axes)
    first, second = occurrences(sampled, vocabulary, readout=Joint(width=0))["a"]
    assert (first.times_s, second.times_s) == ((0.0, 10.0), (20.0, 30.0))
    assert (tuple(first.source), tuple(second.source)) == ((0, 95), (200, 295))
    unsampled = History(sampled.features, frames, source_frames=frames)
    assert occurrences(unsampled, vocabulary, readout=Joint(width=0))["a"][0].source_start is None


def test_a_state_that_the_labelling_leaves_out_has_no_interval():
    rng = np.random.default_rng(0)
    axes = np.eye(8, dtype=np.float32)
    features = axes[[0] * 60 + [1] * 60] + 0.05 * rng.normal(size=(120, 8)).astype(np.float32)
    vocabulary = Vocabulary({"one": ["1"], "two": ["2"], "none": ["0"]}, axes[:3] + axes[7])
    history = History(features)
    by_state = occurrences(history, vocabulary, readout=Joint(switch=4.0))
    assert not by_state["none"]
    assert by_state["one"]
    assert by_state["two"]
    timeline = locate(history, vocabulary, readout=Joint(switch=4.0))
    assert timeline["none"] == []
    assert timeline.windows()["none", "0"] is None
    assert timeline["one"][0].score > 0
    assert tuple(timeline["two"][0].window) == (60, 119)
    (note,) = (
        n for n in analyse(history, vocabulary, readout=Joint(switch=4.0)).notes if "not f" in n
    )
    assert '"none"' in note


def test_a_rare_state_is_found_once_and_claims_no_noise():
    hits = 0
    for seed in range(12):
        scene = generate(seed, episodes=[("empty", 150), ("filled", 15), ("empty", 135)])
        intervals = occurrences(scene.history, scene.vocabulary)["filled"]
        truth = scene.references["filled"][0]
        hits += len(intervals) == 1 and intervals[0].window.iou(truth) > 0.5
    assert hits >= 10


def test_a_state_outside_of_a_given_order_has_no_interval():
    scene = generate(4, states=("empty", "half", "full"), frames=300)
    order = Joint(order=("empty", "half"))
    for top in (1, None):
        timeline = locate(scene.history, scene.vocabulary, readout=order, top=top)
        assert timeline["empty"]
        assert not timeline["full"]


def test_an_irreversible_change_among_many_states_needs_their_order():
    for count in (7, 8):
        words = Vocabulary({f"s{at}": [f"text {at}"] for at in range(count)}, np.eye(count))
        history = History(np.eye(count))
        if count == 7:
            assert len(occurrences(history, words, readout=Joint(irreversible=True)))
        else:
            with refused(field="order", value=8):
                locate(history, words, readout=Joint(irreversible=True))
            locate(history, words, readout=Joint(irreversible=True, order=tuple(words.states)))


def test_a_known_order_and_an_irreversible_change_are_kept():
    scene = generate(8, recurrences=3, frames=300, signal=0.8)
    once = occurrences(scene.history, scene.vocabulary, readout=Joint(irreversible=True))
    assert all(len(intervals) <= 1 for intervals in once.values())
    order = Joint(order=("filled", "empty"), irreversible=True)
    by_state = occurrences(scene.history, scene.vocabulary, readout=order)
    assert by_state["filled"][0].window.end < by_state["empty"][0].window.start


def test_wrong_joint_settings_get_one_sentence():
    scene = generate(1)
    with refused(field="state in the order", value="full"):
        locate(scene.history, scene.vocabulary, readout=Joint(order=("empty", "full")))
    with refused(field="stay", value=500):
        locate(scene.history, scene.vocabulary, readout=Joint(stay=500))
    for field, value in {"pooling": 0.5, "stay": 0, "switch": -1.0, "order": ("a",)}.items():
        with refused(field=field, value=value):
            Joint(**{field: value})


@pytest.mark.parametrize("order", [(2, 0, 1), (0, 1), None])
@pytest.mark.parametrize("irreversible", [False, True])
def test_with_none_the_labelling_is_the_best_of_all_that_are_allowed(order, irreversible):
    rng = np.random.default_rng(5)
    nodes = with_none(nodes_for(3, order, irreversible), 3, not irreversible)

    def fits(path):
        """Whether the states alone are allowed; one may come back after none of them."""
        states = [state for state, _ in visits(path) if state != 3]
        back = any(a == b for a, b in pairwise(states))
        once = np.array([a for a, b in pairwise([*states, -1]) if a != b])
        return not (back and irreversible) and (
            not len(once) or allowed(once, 1, order, irreversible)
        )

    for _ in range(4):
        responses, cost = rng.normal(size=(4, 6)), float(rng.uniform(0, 1.5))
        responses[3] = 0.3

        def worth(path, responses=responses, cost=cost):
            return responses[path, np.arange(6)].sum() - cost * (len(visits(path)) - 1)

        best = max(worth(path) for path in paths(4, 6) if fits(path))
        labels = best_path(responses, nodes, cost, 1)
        assert fits(labels)
        assert worth(labels) == pytest.approx(best)
