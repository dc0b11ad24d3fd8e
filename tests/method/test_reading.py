"""The reading: every occurrence of every state, disjoint, and none where nothing holds."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from msgspec import structs

from dejacue import History, InputError, Vocabulary, locate
from dejacue.method import Reading, timeline
from dejacue.method._labelling import best_path, levels_of, nodes_for, with_none
from dejacue.method.kernel import compiled, engine
from dejacue.method.known_frames import leads
from dejacue.method.localization import analyse
from dejacue.method.questions import next_question
from dejacue.method.states import contrast_norms
from dejacue.method.timeline import stretches
from dejacue.records import Window
from dejacue.records.vocabulary import examples_of
from dejacue_paper.data.synthetic import generate

ENGINES = (*compiled(), "numpy")
AXES = np.eye(2, dtype=np.float32)
RETURNS = [0] * 20 + [1] * 20 + [0] * 20


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


@pytest.mark.parametrize("name", ENGINES)
def test_of_equal_labellings_the_one_that_stays_and_of_equal_states_the_first_wins(name):
    rules = nodes_for(3, None, False), 0.0, 1, 1
    equal = np.zeros((3, 4))
    assert engine(name).label(equal, *rules)[0].tolist() == [0, 0, 0, 0]
    then = np.array([[1.0, 1, 1, 0], [1.0, 1, 1, 0], [0.0, 0, 0, 1]])
    assert engine(name).label(then, *rules)[0].tolist() == [0, 0, 0, 2]


def test_leads_compare_a_state_with_its_strongest_sibling():
    rows = np.array([[1.0, 5.0], [2.0, 0.0], [4.0, 3.0]])
    assert leads(rows, exhaustive=True).tolist() == [[-3.0, 2.0], [-2.0, -5.0], [2.0, -2.0]]


def test_levels_lie_half_way_between_inside_and_outside():
    rows = np.array([[4.0, 2.0, 0.0, -2.0], [1.0, 1.0, 5.0, 5.0], [9.0, 9.0, 9.0, 9.0]])
    assert levels_of(rows, np.array([0, 0, 1, 1])).tolist() == [1.0, 3.0, 0.0]
    assert levels_of(rows, np.array([0, 0, 0, 0])).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ENGINES)
def test_each_visit_of_a_state_that_returns_is_an_occurrence_in_time(name):
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, AXES)
    timeline = locate(History(AXES[RETURNS]), vocabulary, readout=Reading(width=0), kernel=name)
    found = [(interval.state, tuple(interval.window)) for interval in timeline]
    assert found == [("a", (0, 19)), ("b", (20, 39)), ("a", (40, 59))]
    first, second = timeline["a"]
    assert first.score == second.score
    assert timeline.best("a") is first


@pytest.mark.parametrize("seed", range(4))
def test_an_occurrence_is_the_window_of_its_stretch_that_differs_most_from_the_rest(seed):
    scene = generate(seed, states=("a", "b", "c"), frames=60, signal=0.7)
    timeline = analyse(scene.history, scene.vocabulary)
    evidence, names = timeline.evidence, list(timeline.states)
    firsts = [scene.vocabulary.state_names.index(name) for name in names]
    norms = contrast_norms(len(scene.history))
    expected = []
    for state, first, end in stretches(evidence.labels, np.array([0, len(scene.history)])):
        row = evidence.responses[firsts[state]]
        windows = [
            (row[a : b + 1].sum() / norms[b - a + 1], -a, -b)
            for a in range(first, end)
            for b in range(a, end)
        ]
        _, a, b = max(windows)
        expected.append((names[state], (-a, -b)))
    assert [(i.state, tuple(i.window)) for i in timeline] == expected


def test_no_frame_is_in_two_states_and_labels_are_whole_stretches():
    scene = generate(3, recurrences=4, frames=400)
    timeline = analyse(scene.history, scene.vocabulary)
    inside = np.concatenate([np.arange(i.start, i.end + 1) for i in timeline])
    assert len(set(inside.tolist())) == len(inside)
    labels = timeline.labels
    assert len(labels) == len(scene.history)
    assert all(labels[f] == i.state for i in timeline for f in range(i.start, i.end + 1))
    for state, windows in scene.references.items():
        found = [interval.window for interval in timeline[state]]
        assert len(found) == len(windows)
        assert all(a.iou(b) > 0.5 for a, b in zip(found, windows, strict=True))


def test_words_give_every_frame_to_a_state_and_say_so():
    scene = generate(1)
    timeline = analyse(scene.history, scene.vocabulary)
    assert None not in timeline.labels
    assert sum("words give every frame to a state" in note for note in timeline.notes) == 1
    exhaustive = replace(scene.vocabulary, exhaustive=True)
    assert not any("every frame" in n for n in analyse(scene.history, exhaustive).notes)


def test_where_every_frame_shows_a_state_occurrences_are_whole_stretches():
    scene = generate(3, recurrences=4, frames=400, signal=0.5)
    exhaustive = replace(scene.vocabulary, exhaustive=True)
    timeline = analyse(scene.history, exhaustive)
    assert timeline.labels == analyse(scene.history, scene.vocabulary).labels
    spans = [range(i.start, i.end + 1) for i in timeline]
    assert [frame for span in spans for frame in span] == list(range(400))
    assert list(locate(scene.history, exhaustive)) == [
        structs.replace(interval, confidence=None) for interval in timeline
    ]
    response = timeline.evidence.responses[0]
    for interval in timeline[scene.vocabulary.state_names[0]]:
        inside = response[interval.start : interval.end + 1]
        length = len(inside)
        score = inside.sum() / np.sqrt(length * (1 - length / 400))
        assert interval.score == pytest.approx(score)


def test_a_state_that_holds_once_holds_on_while_the_object_is_away():
    path = np.repeat([0, 1], 30)
    seen = np.r_[0:10, 25:60]  # away within the first state
    history = History(AXES[path[seen]], seen)
    vocabulary = Vocabulary({"a": ["x"], "b": ["y"]}, AXES)
    assert len(locate(history, vocabulary)["a"]) == 2
    for order in (None, ("a", "b")):
        once = locate(history, vocabulary, readout=Reading(order=order, irreversible=True))
        assert [(i.state, i.start, i.end) for i in once] == [("a", 0, 29), ("b", 30, 59)]


def test_along_an_order_that_is_gone_through_once_switches_are_free():
    rng = np.random.default_rng(5)
    looks = np.repeat(AXES, [117, 3], axis=0) + rng.normal(0, 0.6, (120, 2))
    vocabulary = Vocabulary({"a": ["x"], "b": ["y"]}, AXES)
    dear, once = Reading(switch=99), Reading(switch=99, order=("a", "b"), irreversible=True)
    assert len(set(analyse(History(looks), vocabulary, readout=dear).labels)) == 1
    (last,) = locate(History(looks), vocabulary, readout=once)["b"]
    assert last.window.iou(Window(112, 119)) > 0.5


def test_beside_examples_a_frame_that_looks_like_none_of_them_is_in_none():
    looks = np.eye(3, dtype=np.float32)
    history = History(looks[[0] * 20 + [2] * 20 + [1] * 20 + [0] * 20])
    vocabulary = Vocabulary.from_dict({"a": {"examples": 5}, "b": {"examples": 45}})
    timeline = analyse(history, vocabulary)
    assert [(i.state, i.confirmed) for i in timeline] == [("a", True), ("b", True), ("a", False)]
    assert timeline.labels == ["a"] * 20 + [None] * 20 + ["b"] * 20 + ["a"] * 20
    assert all(timeline.labels[f] == i.state for i in timeline for f in (i.start, i.end))
    assert timeline.at(frame=30) is None
    everywhere = analyse(history, replace(vocabulary, exhaustive=True))
    assert None not in everywhere.labels


def test_the_best_occurrence_holds_a_frame_that_a_person_named():
    history = History(AXES[RETURNS])
    vocabulary = Vocabulary.from_dict({"a": {"examples": 50}, "b": {"examples": 30}})
    timeline = locate(history, vocabulary)
    assert [i.confirmed for i in timeline["a"]] == [False, True]
    assert timeline.best("a") is timeline["a"][1]
    assert 50 in timeline.best("a")


def test_one_state_is_found_by_an_example_alone():
    history = History(AXES[RETURNS])
    timeline = analyse(history, Vocabulary.from_dict({"visible": {"examples": 5}}))
    assert [i.confirmed for i in timeline["visible"]] == [True, False]
    assert timeline.labels == ["visible" if row == 0 else None for row in RETURNS]


def test_one_state_in_words_asks_what_it_looks_like_otherwise():
    with pytest.raises(InputError, match="looks like otherwise"):
        Vocabulary({"visible": ["ball"]}, AXES[:1])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_exact_rows_are_read_whole_however_much_a_state_fills(share):
    count = round(200 * share)
    rows = [0] * (100 - count // 2) + [1] * count + [0] * (100 - count + count // 2)
    vocabulary = Vocabulary.from_dict({"on": {"examples": 100}, "off": {"examples": 3}})
    labels = analyse(History(AXES[rows]), vocabulary).labels
    right = np.mean(
        [label == ("on" if row else "off") for label, row in zip(labels, rows, strict=True)]
    )
    assert right >= 0.98


def test_occurrences_lead_back_to_the_file_and_to_seconds():
    frames = np.arange(60)
    history = History(AXES[RETURNS], frames, times_s=frames / 2, source_frames=5 + frames)
    vocabulary = Vocabulary({"a": ["a"], "b": ["b"]}, AXES)
    first, second = locate(history, vocabulary, readout=Reading(width=0))["a"]
    assert (first.times_s, second.times_s) == ((0.0, 10.0), (20.0, 30.0))
    assert (tuple(first.source), tuple(second.source)) == ((5, 24), (45, 64))


def test_a_state_that_does_not_occur_has_no_interval_and_is_named():
    rng = np.random.default_rng(0)
    axes = np.eye(8, dtype=np.float32)
    features = axes[[0] * 60 + [1] * 60] + 0.05 * rng.normal(size=(120, 8)).astype(np.float32)
    vocabulary = Vocabulary({"one": ["1"], "two": ["2"], "none": ["0"]}, axes[:3] + axes[7])
    timeline = analyse(History(features), vocabulary, readout=Reading(switch=4.0))
    assert timeline["none"] == []
    assert timeline.best("none") is None
    assert timeline.windows()["none", "0"] is None
    assert tuple(timeline["two"][0].window) == (60, 119)
    assert any('not found: "none"' in note for note in timeline.notes)


def test_a_rare_state_is_found_once_and_claims_no_noise():
    hits = 0
    for seed in range(12):
        scene = generate(seed, episodes=[("empty", 150), ("filled", 15), ("empty", 135)])
        intervals = locate(scene.history, scene.vocabulary)["filled"]
        truth = scene.references["filled"][0]
        hits += len(intervals) == 1 and intervals[0].window.iou(truth) > 0.5
    assert hits >= 10


def test_a_known_order_and_an_irreversible_change_are_kept():
    scene = generate(8, recurrences=3, frames=300, signal=0.8)
    once = locate(scene.history, scene.vocabulary, readout=Reading(irreversible=True))
    assert all(len(once[state]) <= 1 for state in once.states)
    order = Reading(order=("filled", "empty"), irreversible=True)
    timeline = locate(scene.history, scene.vocabulary, readout=order)
    assert timeline["filled"][0].end < timeline["empty"][0].start


def test_a_state_outside_of_a_given_order_has_no_interval():
    scene = generate(4, states=("empty", "half", "full"), frames=300)
    timeline = locate(scene.history, scene.vocabulary, readout=Reading(order=("empty", "half")))
    assert timeline["empty"]
    assert not timeline["full"]


def test_an_irreversible_change_among_many_states_needs_their_order():
    words = Vocabulary({f"s{at}": [f"text {at}"] for at in range(8)}, np.eye(8))
    history = History(np.eye(8))
    with pytest.raises(InputError, match="needs their order"):
        locate(history, words, readout=Reading(irreversible=True))
    locate(history, words, readout=Reading(irreversible=True, order=tuple(words.states)))


@pytest.mark.parametrize(
    "readout",
    [Reading(order=("a", "b"), irreversible=True), Reading(stay=25)],
    ids=["order", "stay"],
)
def test_named_frames_that_no_timeline_can_have_are_refused(readout):
    named = {"a": {"examples": [30]}, "b": {"examples": [5, 45]}}
    with pytest.raises(InputError, match="no timeline has all frames and changes"):
        locate(History(AXES[RETURNS]), Vocabulary.from_dict(named), readout=readout)


def test_a_stay_longer_than_every_stretch_is_refused_beside_examples_too():
    vocabulary = Vocabulary.from_dict({"a": {"examples": 5}, "b": {"examples": 30}})
    with pytest.raises(InputError, match="a stay of 70 frames"):
        locate(History(AXES[RETURNS]), vocabulary, readout=Reading(stay=70))


def taught_elsewhere(*states):
    """Return states without words, taught by a history in which each has its axis."""
    teacher = History(AXES[[0] * 30 + [1] * 30], id="teacher")
    frames = {"a": (teacher, 5), "b": (teacher, 45)}
    shown = examples_of({state: frames[state] for state in states})
    return Vocabulary(dict.fromkeys(states, ()), examples=shown)


def test_one_state_that_another_video_shows_is_read_with_its_changes_and_asked_about():
    history, taught = History(AXES[RETURNS]), taught_elsewhere("a")
    exact = Reading(width=0)
    assert analyse(history, taught, readout=exact).labels == [
        None if row else "a" for row in RETURNS
    ]
    with_change = taught.with_examples(changes=[22])
    timeline = analyse(history, with_change, readout=exact)
    assert (timeline.labels[21], timeline.labels[22]) == ("a", None)
    assert [i.end for i in timeline["a"]] == [19, 59]  # what does not look like it is trimmed off
    (question,) = next_question(history, taught)
    assert question.frame in range(60)


def test_it_is_said_who_gives_every_frame_to_a_state():
    notes = analyse(History(AXES[RETURNS]), taught_elsewhere("a", "b")).notes
    assert any(note.startswith("the examples give every frame to a state") for note in notes)


def test_wrong_settings_get_one_sentence():
    scene = generate(1)
    with pytest.raises(InputError, match='"full"'):
        locate(scene.history, scene.vocabulary, readout=Reading(order=("empty", "full")))
    with pytest.raises(InputError, match="a stay of 500 frames"):
        locate(scene.history, scene.vocabulary, readout=Reading(stay=500))
    for setting in ({"pooling": 0.5}, {"stay": 0}, {"switch": -1.0}, {"order": ("a",)}):
        with pytest.raises(InputError):
            Reading(**setting)


def test_the_confidence_ranks_what_stands_out_above_noise():
    sure = analyse(*_scene(7, signal=2.0)).intervals
    unsure = analyse(*_scene(7, signal=0.2)).intervals
    assert all(0 <= i.confidence <= 1 for i in (*sure, *unsure))
    assert np.mean([i.confidence for i in sure]) > np.mean([i.confidence for i in unsure])
    assert {i.trust for i in sure} <= {"a guess", "unsure", "more likely right"}


def test_states_that_look_like_the_others_are_named_as_doubtful():
    rng = np.random.default_rng(2)
    count, axes = 120, np.eye(16)
    for clear in (True, False):
        shown = axes[np.repeat([0, 1, 0, 1], 30)] if clear else axes[np.arange(count) // 6 % 4 + 4]
        rows = 2 * axes[15] + shown + 0.05 * rng.normal(size=(count, 16))
        words = Vocabulary({"on": ("on",), "off": ("off",)}, axes[:2])
        notes = analyse(History(rows), words).notes
        doubts = [note for note in notes if "looks much like the other states" in note]
        if clear:
            assert not doubts
        else:
            (doubt,) = doubts
            assert doubt.severity == "doubtful"
            assert doubt.startswith('what is found for "on" and "off" looks')
        both = words.with_examples(on=10, off=40)  # what a person says is not doubted
        assert not [n for n in analyse(History(rows), both).notes if "looks much like" in n]


def test_how_far_looks_lie_apart_is_computed_once(monkeypatch):
    calls, separation = [], timeline.separation
    monkeypatch.setattr(
        timeline, "separation", lambda *given: calls.append(given) or separation(*given)
    )
    scene = generate(3)
    analyse(scene.history, scene.vocabulary)
    assert len(calls) == 1


def _scene(seed, signal):
    scene = generate(seed, recurrences=2, frames=200, signal=signal)
    return scene.history, scene.vocabulary


def test_frames_named_as_none_say_what_a_state_does_not_look_like():
    looks = np.array([[1, 0, 0], [0.9, 0.44, 0], [0, 0, 1]], np.float32)
    rows = [0] * 20 + [1] * 20 + [2] * 20 + [1] * 20
    words = {"states": {"a": {"examples": 5}, "b": {"examples": 45}}}
    history = History(looks[rows])
    without = analyse(history, Vocabulary.from_dict(words)).labels
    shown = analyse(history, Vocabulary.from_dict({**words, "none": 30})).labels
    assert shown[:20] == without[:20] == ["a"] * 20
    assert shown[65:] == [None] * 15  # as the frames that were named look


def test_a_state_that_is_described_but_not_shown_takes_what_others_leave():
    scene = generate(2, states=("raw", "fried", "burnt"), frames=240, signal=1.5)
    middle = {s: (w[0].start + w[0].end) // 2 for s, w in scene.references.items()}
    shown = {state: middle[state] for state in ("raw", "fried")}
    timeline = analyse(scene.history, scene.vocabulary.with_examples(shown))
    assert timeline.best("burnt").window.iou(scene.references["burnt"][0]) > 0.5
    inside = np.concatenate([np.arange(i.start, i.end + 1) for i in timeline])
    assert len(set(inside.tolist())) == len(inside)
