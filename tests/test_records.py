"""The records: what they hold, what they refuse, and that they do not change afterwards."""

from __future__ import annotations

import json
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import (
    Diagnostics,
    Evidence,
    History,
    InputError,
    MissingExtra,
    Moment,
    Reference,
    Retrieval,
    Vocabulary,
    Window,
    generate,
    locate,
)
from dejacue import records as all_records
from dejacue.method.locate import read
from dejacue.records.retrieval import from_source, to_source

frames = st.integers(-50, 50)
windows = st.tuples(frames, frames).map(lambda pair: Window(min(pair), max(pair)))
ROWS = np.eye(4, 6, dtype=np.float32)
STATES = {"empty": ["empty cup", "cup with nothing in it"], "filled": ["cup with coffee"]}


def held(window: Window) -> set[int]:
    return set(range(window.start, window.end + 1))


@pytest.mark.parametrize("record", [own for own in vars(all_records).values() if is_dataclass(own)])
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


def test_a_window_of_one_frame_may_be_given_in_numpys_numbers() -> None:
    assert Window(np.int64(3), np.int64(3)) == Window(3, 3)
    with pytest.raises(InputError, match=r"window \[4, 3\] ends before it starts"):
        Window(np.int64(4), np.int64(3))


@pytest.mark.parametrize("name", ["", "  ", 3])
def test_a_reference_names_its_states(name) -> None:
    with pytest.raises(InputError, match="must be non-empty text"):
        Reference("cup", {name: [(0, 3)]})


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


def test_window_cannot_be_changed():
    window = Window(1, 2)
    with pytest.raises(AttributeError):
        window.start = 0  # type: ignore[misc]
    assert window == Window(1, 2)


def test_windows_that_only_touch_neighbouring_frames_are_disjoint():
    assert Window(0, 4) & Window(5, 9) is None
    assert Window(0, 5) & Window(5, 9) == Window(5, 5)


def test_hull_spans_what_lies_between_disjoint_windows():
    assert Window(0, 2) | Window(8, 9) == Window(0, 9)


def test_overlap_has_the_values_counted_by_hand():
    assert Window(0, 9).iou(Window(0, 9)) == 1.0
    assert Window(0, 9).iou(Window(5, 14)) == 5 / 15
    assert Window(0, 9).iou(Window(3, 3)) == 1 / 10
    assert Window(0, 4).iou(Window(5, 9)) == 0.0
    assert Window(0, 4).iou(Window(50, 90)) == 0.0


@given(windows, windows)
def test_window_algebra_is_that_of_sets_of_frames(a, b):
    common, either = held(a) & held(b), held(a) | held(b)
    assert (held(a & b) if a & b else set()) == common
    assert (a | b) == Window(min(either), max(either))
    assert a.iou(b) == b.iou(a) == len(common) / len(either)
    assert a.length == len(held(a))


def test_window_made_of_numpy_integers_holds_plain_ones():
    window = Window(np.int64(3), np.uint8(5))
    assert window == Window(3, 5)
    assert [type(frame) for frame in window] == [int, int]


def test_window_never_holds_a_truth_value():
    assert [type(frame) for frame in Window(False, True)] == [int, int]


def test_window_refuses_to_end_before_it_starts():
    with pytest.raises(InputError, match=r"window \[5, 4\] ends before it starts"):
        Window(5, 4)


@pytest.mark.parametrize("bad", [1.0, "1", None, np.float32(1), float("nan")])
def test_window_refuses_what_is_not_a_whole_number(bad):
    with pytest.raises(InputError, match=r"window start .* is not a whole number"):
        Window(bad, 5)
    with pytest.raises(InputError, match=r"window end .* is not a whole number"):
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
    assert set().union(*map(held, runs)) == observed
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
    with pytest.raises(InputError, match="history cup: no observed frame"):
        History(np.empty((0, 5)), id="cup")


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 2, 1, 3], r"frames are not sorted \(2 is followed by 1\)"),
        ([0, 1, 1, 3], r"frames are repeated \(1 is followed by 1\)"),
        ([0, 1, 2], "4 feature rows but 3 frames; give one frame index per row"),
        ([0.0, 1.0, 2.0, 3.0], "frames must be a single list of whole numbers, not float64"),
        (["0", "1", "2", "3"], "frames must be a single list of whole numbers"),
        ([True, False, True, False], "frames must be a single list of whole numbers, not bool"),
        ([[0, 1, 2, 3]], r"frames must be a single list .* shape \(1, 4\)"),
        ([[0], [1, 2]], "frames must have rows of equal length"),
        (7, r"frames must be a single list .* shape \(\)"),
    ],
)
def test_bad_frames_are_refused(indices, message):
    with pytest.raises(InputError, match=f"history cup: {message}"):
        History(ROWS, indices, "cup")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_value_that_is_not_finite_is_named_by_row_and_dimension(value, dtype):
    rows = np.ones((5000, 3), dtype)
    rows[4999, 1] = value
    with pytest.raises(InputError, match=f"row 4999 contains {value} at dimension 1"):
        History(rows)


def test_a_zero_vector_has_no_direction():
    with pytest.raises(
        InputError, match="features: row 2 is a zero vector, which has no direction"
    ):
        History([[1, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize("length", [1e16, 1e20, 1e100])
def test_an_absurd_length_is_refused(length):
    with pytest.raises(InputError, match=r"row 1 has length 1e\+\d+; rescale it to about 1"):
        History([[1.0, 0.0], [length, 0.0]])


@pytest.mark.parametrize("length", [1e-20, 1e-300])
def test_a_vanishing_length_counts_as_zero(length):
    with pytest.raises(InputError, match="row 0 is a zero vector"):
        History([[length, 0.0]])


def test_lengths_are_refused_from_their_bounds_on():
    for length in (2e-15, 9e14):  # a squared length of float32 holds
        History([[length, 0.0]])
    with pytest.raises(InputError, match="row 0 is a zero vector"):
        History([[0.9e-15, 0.0]])
    with pytest.raises(InputError, match=r"row 0 has length 1.1e\+15; rescale it"):
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
    with pytest.raises(InputError, match="features must be a non-empty table of numbers"):
        History(rows)


def test_rows_of_different_length_are_refused():
    with pytest.raises(InputError, match="history cup: features must have rows of equal length"):
        History([[1, 2], [3]], id="cup")


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("times_s", [0.0, 1.0], r"has shape \(2,\), but there are 4 observed frames"),
        ("times_s", [[0.0, 1.0, 2.0, 3.0]], r"has shape \(1, 4\)"),
        ("times_s", [0.0, 1.0, np.nan, 3.0], "contains a non-finite value"),
        ("presence", [0.0, 1.0, np.inf, 3.0], "contains a non-finite value"),
        ("times_s", ["0", "1", "2", "3"], "must contain numbers, not <U1"),
        ("times_s", np.ones(4, complex), "must contain numbers, not complex128"),
        ("times_s", [None, 1, 2, 3], "must contain numbers, not object"),
        ("source_frames", [0.5, 1.5, 2.5, 3.5], "must contain whole numbers, not float64"),
        ("source_frames", [0, 1, np.nan, 3], "must contain whole numbers, not float64"),
    ],
)
def test_bad_optional_columns_are_refused(column, values, message):
    with pytest.raises(InputError, match=f"history cup: {column} {message}"):
        History(ROWS, id="cup", **{column: values})


def test_names_of_a_history_are_text():
    with pytest.raises(InputError, match="history: id must be text, not 5"):
        History(ROWS, id=5)
    with pytest.raises(InputError, match="history: encoder must be text, not 5"):
        History(ROWS, encoder=5)


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
    with pytest.raises(InputError, match='lists all states under "states" and may add'):
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
    ("states", "message"),
    [
        ({}, "0 state given; at least two alternatives are needed"),
        ({"empty": "empty cup"}, "1 state given; at least two alternatives are needed"),
        ({"empty": [], "filled": "x"}, 'state "empty" has no description; add at least one'),
        ({"empty": None, "filled": "x"}, 'state "empty" has no description; add at least one'),
        ({"empty": "x", "filled": ["y", "x"]}, '"x" describes both "empty" and "filled"'),
        ({"empty": [" "], "filled": "x"}, 'state "empty" has an empty or non-text description'),
        ({"empty": "", "filled": "x"}, 'state "empty" has an empty or non-text description'),
        ({"empty": ["y", 3], "filled": "x"}, 'state "empty" has an empty or non-text description'),
        ({"empty": 5, "filled": "x"}, 'state "empty" must list its descriptions as text, not 5'),
        ({"empty": {"a": "b"}, "filled": "x"}, 'state "empty" must list its descriptions as text'),
        ({True: "lamp on", "off": "lamp off"}, "state name True is not text; put it in quotes"),
        ({1: "one", "2": "two"}, "state name 1 is not text; put it in quotes"),
        ({"": "x", "filled": "y"}, "state name '' is not text"),
        (["empty", "filled"], "states must map each state to its descriptions"),
    ],
)
def test_bad_states_are_refused(states, message):
    with pytest.raises(InputError, match=f"vocabulary: {message}"):
        Vocabulary(states)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (["empty", "filled"], "expected states and their descriptions"),
        (None, "expected states and their descriptions"),
        ({"object": "cup", "states": ["empty", "filled"]}, "states must map each state"),
        ({"object": "cup", "states": None}, "states must map each state"),
        ({"object": 5, "states": STATES}, "object must be text, not 5"),
    ],
)
def test_bad_vocabulary_documents_are_refused(document, message):
    with pytest.raises(InputError, match=f"vocabulary: {message}"):
        Vocabulary.from_dict(document)


def test_there_must_be_one_feature_row_per_description():
    with pytest.raises(InputError, match="vocabulary: 3 descriptions but 2 feature rows"):
        Vocabulary(STATES, np.eye(2))


def test_bad_text_features_are_refused():
    with pytest.raises(InputError, match="vocabulary: features: row 1 is a zero vector"):
        Vocabulary(STATES, [[1, 0], [0, 0], [0, 1]])


# Evidence, Moment, Retrieval


def moment(state: str, description: str, start: int, end: int, **more: object) -> Moment:
    return Moment(state, description, Window(start, end), 1.5, **more)  # type: ignore[arg-type]


@pytest.fixture
def retrieval() -> Retrieval:
    why = Diagnostics(0.5, False, 0.1, 0.02, False, Window(0, 99), True)
    return Retrieval(
        (
            moment("empty", "empty cup", 0, 9, times_s=(0.0, 0.36)),
            moment("empty", "cup with nothing in it", 2, 9, times_s=(0.08, 0.36)),
            moment(
                "filled",
                "cup with coffee",
                20,
                29,
                times_s=(0.8, 1.16),
                alternatives=((Window(40, 44), 0.75),),
                diagnostics=why,
            ),
        ),
        {"coordinates": "vocabulary", "readout": {"name": "scan"}},
        "cup",
        "siglip",
        ("a note",),
    )


def test_evidence_is_read_only():
    arrays = [np.ones((2, 3), np.float32), np.ones(2), np.ones(2), np.ones((2, 3)), np.arange(3)]
    evidence = Evidence(*arrays)
    for name in ("cosines", "centre", "scale", "responses", "frames"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(evidence, name)[0] = 7


def test_retrieval_goes_through_its_moments_in_order(retrieval):
    assert len(retrieval) == 3
    assert [m.description for m in retrieval] == [
        "empty cup",
        "cup with nothing in it",
        "cup with coffee",
    ]


def test_retrieval_is_indexed_by_number_state_or_description(retrieval):
    first, second, third = retrieval
    assert retrieval[0] is first
    assert retrieval[-1] is third
    assert retrieval[np.int64(1)] is second
    assert retrieval["empty"] == (first, second)
    assert retrieval["filled"] == (third,)
    assert retrieval["cup with coffee"] is third


def test_a_state_wins_over_a_description_of_the_same_name():
    retrieval = Retrieval((moment("a", "b", 0, 1), moment("b", "c", 2, 3)), {})
    assert retrieval["b"] == (retrieval[1],)
    assert retrieval.description("b") is retrieval[0]
    assert retrieval.state("c") == ()


def test_an_unknown_name_gets_the_nearest_one_suggested(retrieval):
    with pytest.raises(KeyError, match=r'unknown .* "fillde"; did you mean "filled"'):
        retrieval["fillde"]
    with pytest.raises(KeyError, match='did you mean "cup with coffee"'):
        retrieval.description("cup with cofee")
    with pytest.raises(IndexError):
        retrieval[3]


def test_json_says_its_schema_and_comes_back_as_it_was(retrieval):
    document = json.loads(retrieval.to_json())
    assert document["schema"] == "dejacue.retrieval/1"
    assert document == retrieval.to_dict()
    assert document["history"] == "cup"
    assert document["encoder"] == "siglip"
    assert document["notes"] == ["a note"]
    assert document["moments"][0] == {
        "state": "empty",
        "description": "empty cup",
        "start": 0,
        "end": 9,
        "score": 1.5,
        "level": "description",
        "start_s": 0.0,
        "end_s": 0.36,
    }
    last = document["moments"][2]
    assert last["alternatives"] == [{"start": 40, "end": 44, "score": 0.75}]
    assert last["diagnostics"]["run"] == {"start": 0, "end": 99}
    assert last["diagnostics"]["touches_run_edge"] is True


def test_json_of_a_located_history_comes_back_as_it_was():
    made = generate(3, gaps=((50, 10),))
    retrieval = locate(made.history, made.vocabulary, top=2, diagnostics=True)
    assert json.loads(retrieval.to_json(indent=None)) == retrieval.to_dict()


def test_changing_a_dict_changes_neither_the_retrieval_nor_the_next_one():
    made = generate(3)
    retrieval = locate(made.history, made.vocabulary)
    before = retrieval.to_json()
    retrieval.to_dict()["settings"]["readout"]["norm"] = "changed"
    assert retrieval.to_json() == before
    assert locate(made.history, made.vocabulary).to_json() == before


def test_json_keeps_letters_of_every_alphabet():
    retrieval = Retrieval((moment("leer", "Gefäß, leer 空", 0, 1),), {})
    assert "Gefäß, leer 空" in retrieval.to_json()


def test_a_score_that_is_not_finite_never_becomes_json():
    retrieval = Retrieval((Moment("a", "b", Window(0, 1), float("nan")),), {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        retrieval.to_json()


def test_rows_are_flat_and_name_their_history(retrieval):
    rows = retrieval.to_rows()
    assert [row["history"] for row in rows] == ["cup"] * 4
    assert [row["rank"] for row in rows] == [1, 1, 1, 2]
    assert list(rows[0]) == [
        "history",
        "state",
        "description",
        "start",
        "end",
        "score",
        "level",
        "start_s",
        "end_s",
        "rank",
        "notes",
    ]
    assert {row["notes"] for row in rows} == {"a note"}
    assert {"residual_norm", "run_start", "run_end"} <= set(rows[2])
    assert (rows[3]["start"], rows[3]["end"], rows[3]["score"]) == (40, 44, 0.75)
    assert "start_s" not in rows[3]
    assert not any(isinstance(value, dict | list | tuple) for row in rows for value in row.values())


@pytest.mark.parametrize("library", [None, "pandas"])
def test_dataframe_has_one_row_per_window(retrieval, library):
    table = retrieval.to_dataframe(library)
    assert type(table).__module__.startswith("pandas")
    first = table[table["rank"] == 1]
    assert first["description"].tolist() == [m.description for m in retrieval]
    assert first["start"].tolist() == [0, 2, 20]
    assert first["end_s"].tolist() == [0.36, 0.36, 1.16]
    assert table["start"].tolist() == [0, 2, 20, 40]


def test_an_unknown_data_frame_library_is_refused(retrieval):
    with pytest.raises(InputError, match="known: pandas, polars"):
        retrieval.to_dataframe("json")


def test_names_are_in_a_retrieval(retrieval):
    assert "empty" in retrieval
    assert "cup with coffee" in retrieval
    assert retrieval[0] in retrieval
    assert "half full" not in retrieval


def test_a_library_that_is_not_installed_is_named_with_the_remedy(retrieval, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtra, match=r"polars is not installed; pip install"):
        retrieval.to_dataframe("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pandas is not installed; pip install pandas, or"):
        retrieval.to_dataframe()


def test_retrieval_shows_its_windows(retrieval):
    lines = repr(retrieval).splitlines()
    assert lines[0] == "<Retrieval cup: 3 moments>"
    assert lines[3].split() == ["filled", "[20,", "29]", "1.500", "cup", "with", "coffee"]


def test_indices_that_do_not_fit_are_refused_not_wrapped():
    with pytest.raises(InputError, match="too large for an index"):
        History(np.ones((1, 2)), np.array([2**63], np.uint64))
    with pytest.raises(InputError, match="too large for an index"):
        History(np.ones((2, 2)), source_frames=np.array([0, 2**63], np.uint64))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_frames_are_counted_up_to_two_to_the_53rd(dtype):
    assert History(np.ones((2, 2)), np.array([0, 2**53], dtype)).frames[-1] == 2**53
    with pytest.raises(InputError, match=r"too large for an index|must be within ±2\^53"):
        History(np.ones((2, 2)), np.array([0, 2**53 + 1], dtype))


def test_frames_are_counted_down_to_minus_two_to_the_53rd():
    with pytest.raises(InputError, match=r"frames range from -9007199254740993 to 0, but must be"):
        History(np.ones((2, 2)), [-(2**53) - 1, 0])


@pytest.mark.parametrize("column", ["times_s", "source_frames"])
def test_times_and_frames_of_the_file_are_as_large_as_frames(column):
    largest = History(np.ones((2, 2)), **{column: [-(2**53), 2**53]})
    assert getattr(largest, column).tolist() == [-(2**53), 2**53]
    for beyond in ([0, 2**53 + 2], [-(2**60), 0]):
        with pytest.raises(InputError, match=rf"unnamed: {column} ranges from .* within ±2\^53"):
            History(np.ones((2, 2)), **{column: beyond})


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_retrieval_that_json_has_no_word_for_is_refused(score):
    with pytest.raises(InputError, match="retrieval of cup: cannot be written as JSON"):
        Retrieval((Moment("a", "x", Window(0, 1), score),), {}, "cup").to_json()
    with pytest.raises(InputError, match="retrieval of cup: cannot be written as JSON"):
        Retrieval((), {"level": score, "of": object()}, "cup").to_json()


def test_an_unaligned_array_is_copied_into_place():
    raw = np.zeros(1 + 4 * 6, np.uint8)
    crooked = raw[1:].view(np.float32).reshape(2, 3)
    crooked[...] = 1
    assert not crooked.flags.aligned
    assert History(crooked).features.flags.aligned


def test_the_span_counts_gaps():
    assert History(np.ones((2, 2)), [-(2**53), 2**53]).span == 2**54 + 1


# Sampled histories: frames count what was taken, the source counts its own


def taken() -> History:
    """Every third frame from 10 on; the one at 19 was not observed."""
    frames = np.array([0, 1, 2, 4, 5])
    return History(np.eye(5), frames, "cup", source_frames=10 + 3 * frames)


def test_a_window_of_samples_leads_back_to_the_file_and_a_window_of_the_file_to_samples():
    history = taken()
    assert history.sampled
    assert to_source(history, Window(1, 4)) == Window(13, 22)
    assert from_source(history, Window(13, 22)) == Window(1, 4)
    assert from_source(history, Window(11, 21)) == Window(1, 2)  # what was taken in it
    assert from_source(history, Window(17, 21)) is None
    with pytest.raises(InputError, match="does not observe both ends of the window"):
        to_source(history, Window(1, 3))


def test_a_history_of_all_frames_is_not_sampled():
    whole = History(np.eye(3), [2, 3, 5], source_frames=[2, 3, 5])
    for history in (whole, History(np.eye(3), [2, 3, 5])):
        assert not history.sampled
        assert to_source(history, Window(2, 5)) == Window(2, 5)
        assert from_source(history, Window(0, 9)) == Window(0, 9)
        assert Retrieval((), {}).with_source(history).moments == ()


def test_moments_carry_the_frames_of_the_source():
    moment = Moment("a", "x", Window(1, 4), 2.0, alternatives=((Window(0, 0), 1.0),))
    assert moment.in_source == Window(1, 4)
    assert "source_start" not in moment.to_dict()
    found = Retrieval((moment,), {}, "cup").with_source(taken())
    assert found[0].source == found[0].in_source == Window(13, 22)
    assert found[0].window == Window(1, 4)
    row, other = found.to_rows()
    assert (row["start"], row["end"], row["source_start"], row["source_end"]) == (1, 4, 13, 22)
    assert (other["source_start"], other["source_end"]) == (10, 10)


def test_no_record_can_be_changed_and_each_is_equal_to_itself_alone() -> None:
    made = generate(1)
    reading = read(made.history, made.vocabulary, diagnostics=True)
    moment = reading.retrieval[0]
    again = read(made.history, made.vocabulary, diagnostics=True)
    reference = Reference("cup", {"empty": [(0, 3)]})
    for record in (
        made.history,
        made.vocabulary,
        reading,
        reading.retrieval,
        reading.evidence,
        moment,
        moment.window,
        moment.diagnostics,
        reference,
    ):
        for name in fields(record):
            with pytest.raises(AttributeError):  # FrozenInstanceError
                setattr(record, name.name, getattr(record, name.name))
    of_arrays = {made.history, made.vocabulary, reading, reading.retrieval, reading.evidence}
    assert len(of_arrays | {again, again.retrieval, again.evidence}) == 8
    assert moment == again.retrieval[0]
    assert reference == Reference("cup", {"empty": [(0, 3)]})
