"""The records: what they hold, what they refuse, and that they do not change afterwards."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue import History, InputError, Reference, Vocabulary, locate
from dejacue import records as all_records
from dejacue.errors import MissingExtra
from dejacue.method import Diagnostics, Evidence, Window
from dejacue.method.localization import analyse, locate_many
from dejacue.records import Interval, Timeline
from dejacue_paper import generate

frames = st.integers(-50, 50)
windows = st.tuples(frames, frames).map(lambda pair: Window(min(pair), max(pair)))
ROWS = np.eye(4, 6, dtype=np.float32)
STATES = {"empty": ["empty cup", "cup with nothing in it"], "filled": ["cup with coffee"]}


def frames_of(window: Window) -> set[int]:
    return set(range(window.start, window.end + 1))


@pytest.mark.parametrize(
    "record", [kind for kind in vars(all_records).values() if is_dataclass(kind)]
)
def test_the_fields_of_a_record_cannot_be_set(record) -> None:
    name = fields(record)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(record), name, None)


# Window


@pytest.mark.parametrize(
    ("frames", "times", "interval"),
    [
        ([0, 1, 2, 3], [0.0, 0.1, 0.2, 0.9], 0.1),
        ([0, 2, 4], [0.0, 1.0, 2.0], 0.5),  # half a second to each of the frames between
        ([0, 1], [3.0, 3.25], 0.25),
        ([0], [3.0], None),
        ([0, 1, 2], [1.0, 1.0, 1.0], None),  # a clock that stands still
        ([0, 1, 2], None, None),
    ],
)
def test_the_interval_of_frames_is_the_median_over_neighbours(frames, times, interval) -> None:
    history = History(np.ones((len(frames), 2)), frames, times_s=times)
    assert history.frame_interval_s == (None if interval is None else pytest.approx(interval))


def test_window_is_inclusive_on_both_ends():
    window = Window(3, 5)
    assert window.length == 3
    assert [frame for frame in range(8) if frame in window] == [3, 4, 5]
    assert Window(4, 4).length == 1


def test_window_unpacks_into_start_and_end():
    start, end = Window(3, 5)
    assert (start, end) == (3, 5)
    assert str(Window(3, 5)) == "[3, 5]"


def test_windows_are_ordered_by_start_then_end_and_can_be_keys():
    shuffled = [Window(4, 5), Window(1, 9), Window(1, 2)]
    assert sorted(shuffled) == [Window(1, 2), Window(1, 9), Window(4, 5)]
    assert len({Window(1, 2), Window(1, 2), Window(1, 3)}) == 2


def test_overlap_has_the_values_counted_by_hand():
    assert Window(0, 9).iou(Window(0, 9)) == 1.0
    assert Window(0, 9).iou(Window(5, 14)) == 5 / 15
    assert Window(0, 9).iou(Window(3, 3)) == 1 / 10
    assert Window(0, 4).iou(Window(5, 9)) == 0.0
    assert Window(0, 4).iou(Window(50, 90)) == 0.0


@given(windows, windows)
def test_window_algebra_is_that_of_sets_of_frames(a, b):
    common, either = frames_of(a) & frames_of(b), frames_of(a) | frames_of(b)
    assert (frames_of(a & b) if a & b else set()) == common
    assert (a | b) == Window(min(either), max(either))
    assert a.iou(b) == b.iou(a) == len(common) / len(either)
    assert a.length == len(frames_of(a))


@pytest.mark.parametrize("pair", [(np.int64(3), np.uint8(5)), (np.int64(3),) * 2, (False, True)])
def test_a_window_holds_plain_numbers_whatever_it_was_made_of(pair):
    window = Window(*pair)
    assert tuple(window) == pair
    assert [type(frame) for frame in window] == [int, int]


@pytest.mark.parametrize("number", [int, np.int64])
def test_window_refuses_to_end_before_it_starts(number):
    with refused("window [5, 4] ends before it starts"):
        Window(number(5), number(4))


@pytest.mark.parametrize("bad", [1.0, "1", None, np.float32(1), float("nan")])
def test_window_refuses_what_is_not_a_whole_number(bad):
    with refused("start", bad):
        Window(bad, 5)
    with refused("end", bad):
        Window(0, bad)


# History


def test_history_without_frames_counts_from_zero():
    history = History(ROWS)
    assert history.frames.tolist() == [0, 1, 2, 3]
    assert (history.id, history.encoder, len(history), history.dimension) == (
        "unnamed",
        None,
        4,
        6,
    )
    assert history.times_s is history.source_frames is history.presence is None


def test_runs_are_the_stretches_between_missing_frames():
    history = History(np.ones((6, 2)), [2, 3, 4, 7, 9, 10])
    assert history.runs() == [Window(2, 4), Window(7, 7), Window(9, 10)]
    assert history.run_offsets.tolist() == [0, 3, 4, 6]
    assert history.longest_run == 3


@given(st.sets(frames, min_size=1))
def test_runs_hold_exactly_the_observed_frames(observed):
    history = History(np.ones((len(observed), 2)), sorted(observed))
    runs = history.runs()
    assert set().union(*map(frames_of, runs)) == observed
    assert all(b.start > a.end + 1 for a, b in pairwise(runs))
    assert history.longest_run == max(run.length for run in runs)


def test_history_arrays_are_read_only():
    history = History(
        ROWS.copy(),
        np.arange(4),
        times_s=np.arange(4.0),
        source_frames=np.arange(4),
        presence=np.ones(4),
    )
    for name in ("features", "frames", "times_s", "source_frames", "presence", "run_offsets"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(history, name)[0] = 7


def test_history_does_not_lock_the_array_it_was_given():
    rows = ROWS.copy()
    History(rows)
    rows[0, 0] = 2
    assert rows[0, 0] == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_history_does_not_copy_arrays_of_the_right_type(dtype):
    rows, indices, times = ROWS.astype(dtype), np.arange(4, dtype=np.int64), np.arange(4.0)
    history = History(rows, indices, times_s=times)
    assert history.features.dtype == dtype
    assert np.shares_memory(history.features, rows)
    assert np.shares_memory(history.frames, indices)
    assert np.shares_memory(history.times_s, times)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8, ">f4", np.longdouble])
def test_other_numbers_become_float32(dtype):
    history = History((2 * ROWS).astype(dtype))
    assert history.features.dtype == np.float32
    assert np.array_equal(history.features, 2 * ROWS)


def test_rows_that_are_not_contiguous_are_made_so():
    history = History(np.asfortranarray(ROWS))
    assert history.features.flags.c_contiguous
    assert np.array_equal(history.features, ROWS)


def test_optional_columns_are_kept_in_their_own_types():
    history = History(ROWS, times_s=[0, 1, 2, 3], source_frames=[0, 5, 10, 15], presence=[1] * 4)
    assert history.times_s.dtype == np.float64
    assert history.times_s.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert history.source_frames.dtype == np.int64
    assert history.source_frames.tolist() == [0, 5, 10, 15]
    assert history.presence.dtype == np.float64


def test_history_says_what_it_is():
    text = repr(History(np.ones((3, 2)), [0, 1, 5], "cup", "siglip"))
    assert text == "<History cup: 3 observed frames in 2 runs, 2-d float32, encoder siglip>"


def test_history_without_an_observed_frame_is_refused():
    with refused("history cup: no observed frame"):
        History(np.empty((0, 5)), id="cup")


@pytest.mark.parametrize(
    ("indices", "detail"),
    [
        ([0, 2, 1, 3], "2 is followed by 1"),
        ([0, 1, 1, 3], "1 is followed by 1"),
        ([0, 1, 2], "frames has shape (3,), but there are 4 observed frames"),
        ([0.0, 1.0, 2.0, 3.0], "float64"),
        (["0", "1", "2", "3"], "whole numbers"),
        ([True, False, True, False], "bool"),
        ([[0, 1, 2, 3]], "(1, 4)"),
        ([[0], [1, 2]], "equal length"),
        (7, "()"),
    ],
)
def test_bad_frames_are_refused(indices, detail):
    with refused("frames", detail):
        History(ROWS, indices, "cup")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_value_that_is_not_finite_is_named_by_row_and_dimension(value, dtype):
    rows = np.ones((5000, 3), dtype)
    rows[4999, 1] = value
    with refused("features", 4999, f"{value} at dimension 1"):
        History(rows)


def test_a_zero_vector_has_no_direction():
    with refused("features", 2, "remove it"):
        History([[1, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize("length", [1e16, 1e20, 1e100])
def test_an_absurd_length_is_refused(length):
    with refused("features", 1, "rescale it to about 1"):
        History([[1.0, 0.0], [length, 0.0]])


@pytest.mark.parametrize("length", [1e-20, 1e-300])
def test_a_vanishing_length_counts_as_zero(length):
    with refused("features", 0, "remove it"):
        History([[length, 0.0]])


def test_lengths_are_refused_from_their_bounds_on():
    for length in (2e-15, 9e14):  # a squared length of float32 holds
        History([[length, 0.0]])
    with refused("features", "remove it"):
        History([[0.9e-15, 0.0]])
    with refused("features", "rescale it to about 1"):
        History([[1.1e15, 0.0]])


@pytest.mark.parametrize(
    "rows",
    [
        np.ones(4),
        np.ones((2, 2, 2)),
        np.ones((3, 0)),
        np.float32(1),
        np.array([["a", "b"]]),
        np.ones((2, 2), complex),
        np.ones((2, 2), bool),
        None,
    ],
)
def test_features_that_are_no_table_of_numbers_are_refused(rows):
    with refused("features", np.shape(rows)):
        History(rows)


def test_rows_of_different_length_are_refused():
    with refused("features"):
        History([[1, 2], [3]], id="cup")


@pytest.mark.parametrize(
    ("column", "values", "detail"),
    [
        ("times_s", [0.0, 1.0], "(2,)"),
        ("times_s", [[0.0, 1.0, 2.0, 3.0]], "(1, 4)"),
        ("times_s", [0.0, 1.0, np.nan, 3.0], "non-finite"),
        ("presence", [0.0, 1.0, np.inf, 3.0], "non-finite"),
        ("times_s", ["0", "1", "2", "3"], "<U1"),
        ("times_s", np.ones(4, complex), "complex128"),
        ("times_s", [None, 1, 2, 3], "object"),
        ("source_frames", [0.5, 1.5, 2.5, 3.5], "float64"),
        ("source_frames", [0, 1, np.nan, 3], "float64"),
    ],
)
def test_bad_optional_columns_are_refused(column, values, detail):
    with refused(column, detail):
        History(ROWS, id="cup", **{column: values})


def test_names_of_a_history_are_text():
    for field in ("id", "encoder"):
        with refused(field, 5):
            History(ROWS, **{field: 5})


# Vocabulary


def test_descriptions_follow_the_order_of_the_states():
    vocabulary = Vocabulary(STATES, np.eye(3, 6), "siglip", "cup")
    assert vocabulary.descriptions == ("empty cup", "cup with nothing in it", "cup with coffee")
    assert vocabulary.state_names == ("empty", "empty", "filled")
    assert vocabulary.labels.tolist() == [0, 0, 1]
    assert len(vocabulary) == 3
    assert repr(vocabulary) == "<Vocabulary empty (2); filled (1): 6-d, encoder siglip>"


def test_vocabulary_has_no_features_until_it_is_given_some():
    vocabulary = Vocabulary(STATES)
    assert vocabulary.features is None
    assert repr(vocabulary) == "<Vocabulary empty (2); filled (1): no features, encoder unnamed>"


def test_a_string_is_a_single_description():
    assert Vocabulary({"on": "lamp on", "off": "lamp off"}).descriptions == ("lamp on", "lamp off")


def test_vocabulary_can_come_from_a_plain_dict_or_a_document_with_an_object():
    plain = Vocabulary.from_dict(STATES)
    document = Vocabulary.from_dict({"object": "cup", "states": STATES})
    assert plain.states == document.states
    assert (plain.object, document.object) == (None, "cup")


@pytest.mark.parametrize(
    "document",
    [
        {"object": "cup", "empty": "empty cup", "full": "full cup"},
        {"object": "cup", "states": {"a": "x", "b": "y"}, "encoder": "clip"},
        {"states": {"a": "x", "b": "y"}, "c": "z"},
    ],
)
def test_a_document_with_other_keys_is_refused_not_guessed_at(document):
    with refused("states"):
        Vocabulary.from_dict(document)


def test_weights_sum_to_one_and_every_state_weighs_the_same():
    states = {"a": ["1"], "b": ["2", "3", "4"], "c": ["5", "6"]}
    vocabulary = Vocabulary(states)
    assert vocabulary.weights.sum() == pytest.approx(1, abs=1e-15)
    assert np.bincount(vocabulary.labels, vocabulary.weights) == pytest.approx([1 / 3] * 3)
    assert vocabulary.weights[1] == vocabulary.weights[3]


def test_vocabulary_arrays_are_read_only():
    vocabulary = Vocabulary(STATES, np.eye(3))
    for name in ("features", "labels", "weights"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(vocabulary, name)[0] = 7


def test_a_description_may_be_repeated_within_its_state():
    vocabulary = Vocabulary({"empty": ["empty cup", "empty cup"], "filled": "full cup"}, np.eye(3))
    assert vocabulary.weights.tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize(
    ("states", "fact"),
    [
        ({}, "0 state"),
        ({"empty": "empty cup"}, "1 state"),
        ({"empty": [], "filled": "x"}, "empty"),
        ({"empty": None, "filled": "x"}, "empty"),
        ({"empty": "x", "filled": ["y", "x"]}, "x"),
        ({"empty": [" "], "filled": "x"}, "empty"),
        ({"empty": "", "filled": "x"}, "empty"),
        ({"empty": ["y", 3], "filled": "x"}, "empty"),
        ({"empty": 5, "filled": "x"}, "not 5"),
        ({"empty": {"a": "b"}, "filled": "x"}, {"a": "b"}),
        ({True: "lamp on", "off": "lamp off"}, "vocabulary: state name True is not text"),
        ({1: "one", "2": "two"}, "state name 1"),
        ({"": "x", "filled": "y"}, "vocabulary: state name '' is not text"),
        (["empty", "filled"], "states"),
    ],
)
def test_bad_states_are_refused(states, fact):
    with refused(fact):
        Vocabulary(states)


@pytest.mark.parametrize(
    ("document", "fact"),
    [
        (["empty", "empty"], "empty"),
        (None, "states"),
        ({"object": "cup", "states": ["empty", 5]}, "5 is"),
        ({"object": "cup", "states": None}, "states"),
        ({"object": 5, "states": STATES}, "not 5"),
    ],
)
def test_bad_vocabulary_documents_are_refused(document, fact):
    with refused(fact):
        Vocabulary.from_dict(document)


def test_there_must_be_one_feature_row_per_description():
    with refused("descriptions but 2"):
        Vocabulary(STATES, np.eye(2))


def test_bad_text_features_are_refused():
    with refused("features", 1, "remove it"):
        Vocabulary(STATES, [[1, 0], [0, 0], [0, 1]])


# Evidence, Interval, Timeline


def test_evidence_is_read_only():
    arrays = [np.ones((2, 3), np.float32), np.ones(2), np.ones(2), np.ones((2, 3)), np.arange(3)]
    evidence = Evidence(*arrays)
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(evidence, name)[0] = 7


def test_an_interval_refuses_frames_that_are_none():
    with refused("window [5, 4] ends before it starts"):
        Interval("empty", 5, 4)
    with refused("start", 0.5):
        Interval("empty", 0.5, 4)


def test_an_interval_holds_its_last_frame_and_has_seconds_where_both_are_known():
    interval = Interval("empty", 3, 5, start_s=0.3, end_s=0.6)
    assert [frame for frame in range(8) if frame in interval] == [3, 4, 5]
    assert interval.times_s == (0.3, 0.6)
    assert Interval("empty", 3, 5, start_s=0.3).times_s is None
    assert interval.source == interval.window == Window(3, 5)


WHY = Diagnostics(0.5, False, 0.1, 0.02, False, Window(0, 99), True)
SHARED = [  # one answer for all descriptions of a state
    Interval("filled", 20, 29, 1.5, 0.8, 1.2, diagnostics=WHY),
    Interval("filled", 40, 44, 0.75, 1.6, 1.8, confidence=0.4, confirmed=True),
    Interval("empty", 0, 9, 2.5, 0.0, 0.4),
]
EACH = [  # an answer for each description
    Interval("empty", 2, 9, 1.0, description="cup with nothing in it"),
    Interval("empty", 0, 9, 2.5, description="empty cup"),
    Interval("filled", 20, 29, 1.5, description="cup with coffee"),
]


def timeline_of(intervals, states=STATES, **options) -> Timeline:
    return Timeline.of(intervals, states, **({"history_id": "cup"} | options))


@pytest.fixture
def timeline() -> Timeline:
    settings = {"coordinates": "vocabulary", "readout": {"name": "contrast"}}
    return timeline_of(SHARED, encoder="siglip", settings=settings, notes=["a note"])


def test_intervals_come_in_the_order_of_time(timeline):
    assert len(timeline) == 3
    assert list(timeline) == [SHARED[2], *SHARED[:2]]
    assert [i.description for i in timeline_of(EACH)] == [
        "empty cup",
        "cup with nothing in it",
        "cup with coffee",
    ]


def test_the_best_is_the_one_that_was_confirmed_then_the_one_with_the_best_score(timeline):
    assert timeline.best("filled") is timeline[2]
    plain = timeline_of([Interval("filled", 0, 1, 0.5), Interval("filled", 4, 5, 0.7)])
    assert plain.best("filled") is plain[1]
    assert plain.best("empty") is None
    with pytest.raises(KeyError, match="unknown state"):
        plain.best("half")


def test_trust_is_a_word_that_ranks():
    words = [Interval("a", 0, 1, confidence=share).trust for share in (0.1, 0.4, 0.9, None)]
    assert words == ["a guess", "unsure", "more likely right", None]
    assert Interval("a", 0, 1, confidence=0.1, confirmed=True).trust == "confirmed"


def test_labels_need_the_evidence_of_a_reading(timeline):
    with pytest.raises(InputError, match="no labels"):
        _ = timeline.labels
    frames = np.array([0, 9, 10, 25])
    rows = np.zeros((2, 4))
    seen = Evidence(rows.astype(np.float32), np.zeros(2), np.ones(2), rows, frames)
    assert timeline.replace(evidence=seen).labels == ["empty", "empty", None, "filled"]
    whole = replace(seen, labels=np.array([0, 0, -1, 1]))
    assert timeline.replace(evidence=whole).labels == ["empty", "empty", None, "filled"]


def test_a_timeline_is_indexed_by_number_or_state(timeline):
    first, second, third = timeline
    assert timeline[0] is first
    assert timeline[-1] is third
    assert timeline[np.int64(1)] is second
    assert timeline["empty"] == [first]
    assert timeline["filled"] == [second, third]
    with pytest.raises(IndexError):
        timeline[3]


def test_an_unknown_state_gets_the_nearest_one_suggested(timeline):
    with pytest.raises(KeyError, match=r'unknown state "fillde"; did you mean "filled"'):
        timeline["fillde"]
    with refused("state", "fillde"):
        timeline_of([Interval("fillde", 0, 1)])
    with refused("description", "x", "known: cup with coffee"):
        timeline_of([Interval("filled", 0, 1, description="x")])


def test_states_and_intervals_are_in_a_timeline(timeline):
    assert "empty" in timeline
    assert timeline[0] in timeline
    assert "half full" not in timeline
    assert Interval("empty", 0, 8) not in timeline


def test_a_state_without_an_interval_was_not_found():
    timeline = timeline_of(SHARED[:1])
    assert timeline["empty"] == []
    assert "empty" in timeline
    assert list(timeline.states) == ["empty", "filled"]
    assert timeline.windows() == {
        ("empty", "empty cup"): None,
        ("empty", "cup with nothing in it"): None,
        ("filled", "cup with coffee"): Window(20, 29),
    }
    assert "not found" in repr(timeline)
    assert "not found" in timeline._repr_html_()


def test_windows_are_those_of_each_description_in_frames_of_the_file(timeline):
    assert timeline.windows() == {
        ("empty", "empty cup"): Window(0, 9),
        ("empty", "cup with nothing in it"): Window(0, 9),
        ("filled", "cup with coffee"): Window(40, 44),  # confirmed
    }
    assert timeline_of(EACH).windows()["empty", "cup with nothing in it"] == Window(2, 9)
    sampled = timeline_of([Interval("filled", 1, 4, source_start=13, source_end=22)])
    assert sampled.windows()["filled", "cup with coffee"] == Window(13, 22)
    wordless = timeline_of([Interval("b", 1, 4)], {"a": (), "b": ()})
    assert wordless.windows() == {("a", "a"): None, ("b", "b"): Window(1, 4)}


def test_at_is_the_state_that_holds_there(timeline):
    assert timeline.at(0.0) == timeline.at(frame=0) == "empty"
    assert timeline.at(0.39) == "empty"
    assert timeline.at(0.4) is None  # the end is the first instant that no longer belongs to it
    assert timeline.at(frame=9) == "empty"
    assert timeline.at(frame=10) is None
    both = Interval("empty", 42, 44, 0.5, 1.7, 1.8)
    shared = timeline_of([*SHARED[:2], both])
    assert shared.at(1.6) == shared.at(1.7) == "filled"  # the better of the two


def test_at_takes_either_a_time_or_a_frame(timeline):
    for arguments in ({}, {"time_s": 1.0, "frame": 3}):
        with refused("a time in seconds, or a frame"):
            timeline.at(**arguments)
    with refused("times", "give at(frame=…)"):
        timeline_of(EACH).at(1.0)


def test_json_says_its_schema_and_comes_back_as_it_was(timeline):
    document = json.loads(timeline.to_json())
    assert document == timeline.to_dict()
    first, second, third = document.pop("intervals")
    assert document == {
        "schema": "dejacue.timeline/2",
        "history": "cup",
        "encoder": "siglip",
        "settings": {"coordinates": "vocabulary", "readout": {"name": "contrast"}},
        "notes": [{"severity": "information", "text": "a note"}],
        "states": STATES,
    }
    assert first == {
        "state": "empty",
        "start": 0,
        "end": 9,
        "start_s": 0.0,
        "end_s": 0.4,
        "score": 2.5,
    }
    assert second["diagnostics"]["run"] == [0, 99]
    assert second["diagnostics"]["touches_run_edge"] is True
    assert (third["start"], third["end"], third["score"]) == (40, 44, 0.75)
    assert (third["confidence"], third["confirmed"]) == (0.4, True)
    assert timeline_of(EACH).to_dict()["intervals"][0]["description"] == "empty cup"


def test_json_of_a_located_history_comes_back_as_it_was():
    scene = generate(3, gaps=((50, 10),))
    timeline = locate(scene.history, scene.vocabulary, diagnostics=True)
    assert json.loads(timeline.to_json(indent=None)) == timeline.to_dict()


def test_changing_a_dict_changes_neither_the_timeline_nor_the_next_one():
    scene = generate(3)
    timeline = locate(scene.history, scene.vocabulary)
    before = timeline.to_json()
    timeline.to_dict()["settings"]["readout"]["norm"] = "changed"
    timeline.to_dict()["states"].clear()
    assert timeline.to_json() == before
    assert locate(scene.history, scene.vocabulary).to_json() == before


def test_json_keeps_letters_of_every_alphabet():
    timeline = timeline_of([Interval("leer", 0, 1)], {"leer": ["Gefäß, leer 空"]})
    assert "Gefäß, leer 空" in timeline.to_json()


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_timeline_that_json_has_no_word_for_is_refused(score):
    with refused("timeline", "cup"):
        timeline_of([Interval("empty", 0, 1, score)]).to_json()
    with refused("timeline", "cup"):
        timeline_of([], settings={"level": score, "of": object()}).to_json()


def test_rows_are_flat_and_name_their_history(timeline):
    rows = timeline.to_rows()
    assert [row["history"] for row in rows] == ["cup"] * 3
    assert [row["confidence"] for row in rows] == [None, None, 0.4]
    assert [row["confirmed"] for row in rows] == [False, False, True]
    assert list(rows[0])[:9] == [
        "history",
        "state",
        "start",
        "end",
        "start_s",
        "end_s",
        "score",
        "confidence",
        "confirmed",
    ]
    assert list(rows[0])[-1] == "notes"
    assert [row["notes"] for row in rows] == ["a note", None, None]
    assert {"residual_norm", "run_start", "run_end"} <= set(rows[1])
    assert (rows[1]["run_start"], rows[1]["run_end"]) == (0, 99)
    assert (rows[2]["start"], rows[2]["end"], rows[2]["score"]) == (40, 44, 0.75)
    assert rows[2]["residual_norm"] is None
    assert not any(isinstance(value, dict | list | tuple) for row in rows for value in row.values())


def test_rows_name_descriptions_where_each_is_answered_and_miss_seconds_that_are_not_known():
    rows = timeline_of(EACH).to_rows()
    assert [row["description"] for row in rows] == [
        "empty cup",
        "cup with nothing in it",
        "cup with coffee",
    ]
    assert {row["start_s"] for row in rows} == {row["end_s"] for row in rows} == {None}
    assert not {"notes", "source_start"} & set(rows[0])


@pytest.mark.parametrize("library", [None, "pandas"])
def test_dataframe_has_one_row_per_interval(timeline, library):
    table = timeline.to_dataframe(library)
    assert type(table).__module__.startswith("pandas")
    assert table["state"].tolist() == ["empty", "filled", "filled"]
    assert table["end_s"].tolist() == [0.4, 1.2, 1.8]
    assert table["start"].tolist() == [0, 20, 40]


def test_an_unknown_data_frame_library_is_refused(timeline):
    with refused("library", "json"):
        timeline.to_dataframe("json")


def test_a_library_that_is_not_installed_is_named_with_the_remedy(timeline, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"polars is not installed; pip install"):
        timeline.to_dataframe("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pandas is not installed; pip install pandas, or"):
        timeline.to_dataframe()


def test_a_timeline_shows_its_occurrences_in_the_order_of_time(timeline):
    assert repr(timeline).splitlines() == [
        "<Timeline cup: 3 intervals>",
        "  empty     0 – 9  0.00 – 0.40 s",
        "  filled  20 – 29  0.80 – 1.20 s",
        "  filled  40 – 44  1.60 – 1.80 s  confirmed",
    ]
    assert repr(timeline_of(EACH[2:])).splitlines() == [
        "<Timeline cup: 1 interval>",
        "  filled    20 – 29  cup with coffee",
        "  empty   not found",
    ]
    several = timeline_of([Interval("empty", 2 * n, 2 * n, confidence=0.1) for n in range(44)])
    lines = repr(several).splitlines()
    assert lines[1] == "  empty       0 – 0  a guess"
    assert lines[-2:] == ["  … and 24 more", "  filled  not found"]
    assert repr(timeline_of([], {})) == "<Timeline cup: 0 intervals>"


def test_replace_changes_what_is_named_and_nothing_else(timeline):
    again = timeline.replace(notes=("another",), encoder="clip")
    assert (again.notes, again.encoder) == (("another",), "clip")
    assert (timeline.notes, timeline.encoder) == (("a note",), "siglip")
    assert again.intervals == timeline.intervals
    assert timeline.replace(settings={"top": 1}).settings == {"top": 1}


# Timelines of many histories


def test_timelines_of_many_histories_are_joined_and_split_as_they_were():
    cup, door = timeline_of(SHARED, notes=["a note"]), timeline_of(EACH, history_id="door")
    empty = timeline_of([], history_id="none")
    joined = Timeline.joined([cup, empty, door])
    assert [subject.id for subject in joined.subjects] == ["cup", "none", "door"]
    assert joined.notes == ("a note",)
    assert joined.intervals == [*cup, *door]
    assert [part.to_dict() for part in joined.split()] == [
        part.to_dict() for part in (cup, empty, door)
    ]
    assert [row["history"] for row in joined.to_rows()] == ["cup"] * 3 + ["door"] * 3
    assert [row["notes"] for row in joined.to_rows()] == ["a note"] + [None] * 5
    assert "2 histories" in repr(Timeline.joined([cup, door]))
    with refused("timeline holds 3"):
        joined.states  # noqa: B018


def test_rows_of_many_histories_count_the_frames_of_the_file_where_one_is_sampled():
    sampled = timeline_of([Interval("filled", 1, 4, source_start=13, source_end=22)])
    whole = timeline_of([Interval("filled", 5, 6)], history_id="door")
    rows = Timeline.joined([sampled, whole]).to_rows()
    assert [(row["source_start"], row["source_end"]) for row in rows] == [(13, 22), (5, 6)]


def test_timelines_are_read_once():
    scene = generate(3)
    timelines = locate_many([scene.history], scene.vocabulary)
    (timeline,) = timelines
    assert timeline.to_json() == locate(scene.history, scene.vocabulary).to_json()
    with refused("timelines"):
        timelines.joined()


def test_indices_that_do_not_fit_are_refused_not_wrapped():
    with refused("history unnamed: frames ranges from 9223372036854775808"):
        History(np.ones((1, 2)), np.array([2**63], np.uint64))
    with refused("source_frames"):
        History(np.ones((2, 2)), source_frames=np.array([0, 2**63], np.uint64))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_frames_are_counted_up_to_two_to_the_53rd(dtype):
    assert History(np.ones((2, 2)), np.array([0, 2**53], dtype)).frames[-1] == 2**53
    for beyond in (np.array([0, 2**53 + 1], dtype), [-(2**53) - 1, 0]):
        with refused("history unnamed"):
            History(np.ones((2, 2)), beyond)


@pytest.mark.parametrize("column", ["times_s", "source_frames"])
def test_times_and_frames_of_the_file_are_as_large_as_frames(column):
    largest = History(np.ones((2, 2)), **{column: [-(2**53), 2**53]})
    assert getattr(largest, column).tolist() == [-(2**53), 2**53]
    for beyond in ([0, 2**53 + 2], [-(2**60), 0]):
        with refused(column):
            History(np.ones((2, 2)), **{column: beyond})


def test_an_unaligned_array_is_copied_into_place():
    raw = np.zeros(1 + 4 * 6, np.uint8)
    crooked = raw[1:].view(np.float32).reshape(2, 3)
    crooked[...] = 1
    assert not crooked.flags.aligned
    assert History(crooked).features.flags.aligned


def test_the_span_counts_gaps():
    assert History(np.ones((2, 2)), [-(2**53), 2**53]).span == 2**54 + 1


# Sampled histories: frames count what was taken, the source counts its own


def sampled_history() -> History:
    """Return every third frame from 10 on; the one at 19 was not observed."""
    frames = np.array([0, 1, 2, 4, 5])
    return History(np.eye(5), frames, "cup", source_frames=10 + 3 * frames)


def test_a_window_of_samples_leads_back_to_the_file_and_a_window_of_the_file_to_samples():
    history = sampled_history()
    assert history.sampled
    assert history.to_source(Window(1, 4)) == Window(13, 22)
    assert history.from_source(Window(13, 22)) == Window(1, 4)
    assert history.from_source(Window(11, 21)) == Window(1, 2)  # what was taken in it
    assert history.from_source(Window(17, 21)) is None
    with refused("window", Window(1, 3)):
        history.to_source(Window(1, 3))


def test_a_history_of_all_frames_is_not_sampled():
    whole = History(np.eye(3), [2, 3, 5], source_frames=[2, 3, 5])
    for history in (whole, History(np.eye(3), [2, 3, 5])):
        assert not history.sampled
        assert history.to_source(Window(2, 5)) == Window(2, 5)
        assert history.from_source(Window(0, 9)) == Window(0, 9)


def test_intervals_carry_the_frames_of_the_source():
    history, vocabulary = sampled_history(), Vocabulary({"a": "x", "b": "y"}, np.eye(2, 5))
    for readout in ("contrast", "published"):
        for interval in locate(history, vocabulary, readout=readout):
            assert interval.source == history.to_source(interval.window)
            assert "source_start" in interval.to_dict()
    whole = History(history.features, history.frames, source_frames=history.frames)
    (first, _) = locate(whole, vocabulary)
    assert first.source == first.window
    assert "source_start" not in first.to_dict()


# Seconds: half-open, by the timestamps


@pytest.mark.parametrize(
    ("frames", "times", "ends"),
    [
        ([0, 1, 2, 3], [0.0, 1.0, 3.0, 4.0], [1.0, 3.0, 4.0, 5.0]),  # until the next is shown
        ([0, 1, 4, 5], [0.0, 1.0, 4.0, 5.0], [1.0, 2.0, 5.0, 6.0]),  # its share of a gap
        ([0, 2, 4], [0.0, 1.0, 2.0], [0.5, 1.5, 2.5]),
    ],
)
def test_a_frame_ends_when_the_next_one_is_shown(frames, times, ends):
    history = History(np.ones((len(frames), 2)), frames, times_s=times)
    assert history.ends_s.tolist() == pytest.approx(ends)


def test_the_end_of_a_frame_is_not_known_without_times_or_from_a_single_one():
    assert History(np.ones((3, 2))).ends_s is None
    assert History(np.ones((1, 2)), times_s=[3.0]).ends_s is None


def test_an_interval_ends_when_its_last_frame_ends():
    scene = generate(3)
    times = np.arange(len(scene.history)) / 8
    history = History(scene.history.features, scene.history.frames, times_s=times)
    for readout in ("contrast", "timeline", "scan"):
        for interval in locate(history, scene.vocabulary, readout=readout):
            first, last = history.rows_of(interval.window)
            assert interval.times_s == (times[first], history.ends_s[last])
    single = History(scene.history.features[:1], times_s=[3.0])
    assert {(i.start_s, i.end_s) for i in locate(single, scene.vocabulary)} == {(3.0, None)}


def test_no_record_can_be_changed_and_each_is_equal_to_itself_alone() -> None:
    scene = generate(1)
    timeline = analyse(scene.history, scene.vocabulary, diagnostics=True)
    interval = timeline[0]
    again = analyse(scene.history, scene.vocabulary, diagnostics=True)
    reference = Reference("cup", {"empty": [(0, 3)]})
    for record in (
        scene.history,
        scene.vocabulary,
        timeline.evidence,
        interval,
        interval.window,
        interval.diagnostics,
        reference,
    ):
        names = getattr(record, "__struct_fields__", None) or [f.name for f in fields(record)]
        for name in names:
            with pytest.raises(AttributeError):
                setattr(record, name, getattr(record, name))
    for name in ("subjects", "settings", "evidence", "notes", "states"):
        with pytest.raises(AttributeError):
            setattr(timeline, name, getattr(timeline, name))
    of_arrays = {scene.history, scene.vocabulary, timeline, timeline.evidence}
    assert len(of_arrays | {again, again.evidence}) == 6
    assert interval == again[0]
    assert reference == Reference("cup", {"empty": [(0, 3)]})


def test_a_timeline_survives_pickling() -> None:
    scene = generate(3)
    timeline = analyse(scene.history, scene.vocabulary)
    again = pickle.loads(pickle.dumps(timeline))
    assert again.to_dict() == timeline.to_dict()
    assert np.array_equal(again.evidence.responses, timeline.evidence.responses)


def test_the_ends_of_some_rows_are_those_among_all() -> None:
    history = History(np.eye(5), [0, 1, 4, 5, 6], times_s=[0.0, 1.0, 2.5, 3.0, 3.4])
    assert history.ends_s.tolist() == pytest.approx([1.0, 1.5, 3.0, 3.4, 3.9])
    for rows in ([1], [4], [2, 4, 0]):
        assert np.array_equal(history.ends_of(np.array(rows)), history.ends_s[rows])


def test_a_number_too_large_for_a_column_is_refused_with_its_name() -> None:
    with refused("an interval has a number too large"):
        Timeline.of([Interval("a", 0, 1 << 63, 1.0)], {"a": ["a 1"]}, history_id="h")


def test_times_of_a_damaged_store_are_no_overflow() -> None:
    columns = {**vars(History(np.eye(3))), "times_s": np.array([0.0, 1e300, 1.5e300])}
    assert History.trusted(**columns).ends_of(np.array([1])).tolist() == [1.5e300]
