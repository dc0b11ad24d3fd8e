"""The scene: what a timeline draws of a finding, true to the records and small."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import (
    Contrast,
    Evidence,
    Finding,
    History,
    InputError,
    Moment,
    Reading,
    Retrieval,
    Window,
    evidence,
    locate,
)
from dejacue.report.scene import Scene, packed, scene, unpacked
from dejacue_paper import generate

JPEG = b"\xff\xd8\xff\xe0 a picture"


def checked(made: dict) -> dict:
    """As a browser gets it: through JSON, and with the fields that are promised."""
    text = json.dumps(made, allow_nan=False)
    msgspec.convert(json.loads(text), Scene, strict=True)
    return json.loads(text)


def read(made, readout="contrast", **more) -> Reading:
    return Reading(
        locate(made.history, made.vocabulary, readout=readout, **more),
        evidence(made.history, made.vocabulary, readout=readout),
    )


def by_hand(settings=None, **columns) -> tuple[History, Reading]:
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
    history = History(np.ones((10, 4)), frames, "cup", "mini", **columns)
    responses = np.array([[1, 2, 1, 0, -1, -1, -1, 0, 0, -1], [-1, 0, 0, 0, 1, 2, 3, 2, 1, 0.0]])
    seen = Evidence(responses.astype(np.float32), np.zeros(2), np.ones(2), responses, frames)
    first = Moment("empty", "empty cup", Window(0, 2), 2.5, alternatives=((Window(9, 10), 0.25),))
    second = Moment(
        "filled",
        "full cup",
        Window(6, 9),
        float("inf"),
        p_value=0.9,
        absent=True,
        times_s=(0.5, float("nan")),
    )
    return history, Reading(Retrieval((first, second), settings or {}, "cup", None, ("a",)), seen)


def test_a_finding_becomes_a_scene_with_the_fields_that_are_promised() -> None:
    made = generate(3, states=("a", "b", "c"), frames=240, gaps=((70, 14),))
    finding = Finding(
        made.history,
        made.vocabulary,
        read(made),
        thumbnails={9: JPEG, 3: JPEG},
        doubts=((Window(20, 30), "is it hidden?"), (Window(900, 950), "far away")),
        warnings=("mind the gap",),
    ).correct({"a": 5, None: Window(100, 103)}, changes=[60])
    own = checked(finding.scene(references=made.references, segments=True, questions=2))
    assert own["schema"] == "dejacue.scene/1"
    assert own["axis"] == {"first": 0, "last": 239}
    assert own["observed"] == [[0, 69], [84, 239]]
    assert [state["name"] for state in own["states"]] == ["a", "b", "c"]
    assert [state["colour"] for state in own["states"]] == ["#0072B2", "#D55E00", "#009E73"]
    assert [(row["state"], row["description"]) for row in own["rows"]] == [
        ("a", None),
        ("b", None),
        ("c", None),
    ]
    for row, moment in zip(own["rows"], finding.retrieval[::2], strict=True):
        window = row["windows"][0]
        assert (window["start"], window["end"]) == tuple(moment.window)
        assert window["score"] == moment.score
        assert window["rank"] == 1
    curve = unpacked(own["rows"][1]["evidence"])
    assert curve.astype(np.float32).tolist() == pytest.approx(
        finding.reading.evidence.responses[2].tolist()
    )
    assert own["doubts"] == [{"start": 20, "end": 30, "text": "is it hidden?"}]
    assert own["references"] == {s: [[*w] for w in ws] for s, ws in made.references.items()}
    assert own["named"] == [
        {"state": "a", "start": 5, "end": 5},
        {"state": None, "start": 100, "end": 103},
    ]
    assert own["changes"] == [60]
    assert own["segments"] == [[*window] for window in finding.segments()]
    asked = finding.ask_next(2)
    assert [(q["frame"], q["gain"]) for q in own["questions"]] == [(q.frame, q.gain) for q in asked]
    assert [q["expects"] for q in own["questions"]] == [
        [[state, share] for state, share in q.expects.items()] for q in asked
    ]
    assert [picture["frame"] for picture in own["thumbnails"]] == [3, 9]
    assert own["thumbnails"][0]["url"].startswith("data:image/jpeg;base64,")
    assert own["notes"][0] == "mind the gap"
    assert own["settings"]["readout"]["name"] == "contrast"


def test_pictures_become_text_only_where_no_addresses_are_given() -> None:
    made = generate(3, states=("a", "b"), frames=60)
    finding = Finding(made.history, made.vocabulary, read(made), thumbnails={3: b"no picture"})
    with pytest.raises(InputError, match="neither JPEG nor PNG"):
        finding.scene()
    drawn = checked(finding.scene(thumbnails=[(3, "/3.jpg", None)]))
    assert [own["url"] for own in drawn["thumbnails"]] == ["/3.jpg"]


def test_what_was_not_asked_for_is_null() -> None:
    own = checked(scene(*by_hand()))
    unknown = (
        "object",
        "video",
        "times",
        "source",
        "presence",
        "references",
        "segments",
        "questions",
    )
    assert [name for name in own if own[name] is None] == list(unknown)
    assert own["notes"] == ["a"]


def test_alternatives_are_apart_and_occurrences_are_claimed() -> None:
    empty, filled = scene(*by_hand())["rows"]
    assert [(w["start"], w["end"], w["rank"]) for w in empty["windows"]] == [(0, 2, 1)]
    assert [(w["start"], w["end"], w["rank"]) for w in empty["alternatives"]] == [(9, 10, 2)]
    (best,) = filled["windows"]
    assert best["absent"]
    assert best["p"] == 0.9
    assert best["score"] is None  # JSON has no infinity
    assert best["times"] is None
    empty, _ = scene(*by_hand({"further_windows": "occurrences"}))["rows"]
    assert [window["rank"] for window in empty["windows"]] == [1, 2]
    assert empty["alternatives"] == []


def test_descriptions_that_answer_alone_have_rows_of_their_own() -> None:
    made = generate(3)
    alone = scene(made.history, read(made, "scan"))["rows"]
    assert [row["description"] for row in alone] == [
        text for texts in made.vocabulary.states.values() for text in texts
    ]
    shared = scene(made.history, read(made, Contrast()))["rows"]
    assert [row["description"] for row in shared] == [None, None]


def test_seconds_and_frames_of_the_file_are_interpolated_from_knots() -> None:
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
    times = np.where(frames < 7, frames * 0.5, 3.5 + (frames - 7) * 0.25) + 10
    history, reading = by_hand(
        times_s=times,
        source_frames=5 * frames + 2,
        made_with={"frames": "20"},
        presence=np.linspace(0, 1, 10),
    )
    references, doubts = {"empty": [Window(2, 12), Window(900, 901)]}, [(Window(32, 42), "dark")]
    own = checked(scene(history, reading, references=references, doubts=doubts))
    knots = own["times"]
    assert unpacked(knots["frames"]).tolist() == [0, 7, 11, 19]
    assert np.interp(frames, unpacked(knots["frames"]), unpacked(knots["values"])) == (
        pytest.approx(times)
    )
    knots = own["source"]
    assert unpacked(knots["frames"]).tolist() == [0, 11]
    assert unpacked(knots["values"]).tolist() == [2, 57]
    assert own["rows"][0]["windows"][0]["source"] == [2, 12]
    assert own["references"] == {"empty": [[0, 2]]}
    assert own["doubts"] == [{"start": 6, "end": 8, "text": "dark"}]
    assert own["axis"] == {"first": 0, "last": 19}
    assert unpacked(own["presence"]).tolist() == pytest.approx(np.linspace(0, 1, 10).tolist())


def test_times_and_source_frames_that_do_not_grow_are_left_out() -> None:
    history, reading = by_hand(times_s=np.zeros(10), source_frames=np.zeros(10, int))
    own = scene(history, reading)
    assert own["times"] is None
    assert own["source"] is None


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=200),
    st.integers(2, 60),
    st.integers(0, 2**32 - 1),
)
def test_a_thinned_curve_has_the_extremes_of_equal_parts_of_the_axis(steps, most, seed) -> None:
    frames = np.cumsum(steps)
    values = np.random.default_rng(seed).normal(size=(1, len(frames)))
    seen = Evidence(values.astype(np.float32), np.zeros(1), np.ones(1), values, frames)
    history = History(np.ones((len(frames), 2)), frames)
    moment = Moment("a", "an a", Window(int(frames[0]), int(frames[0])), 1.0)
    own = checked(scene(history, Reading(Retrieval((moment,), {}), seen), most=2 * most))
    curve = own["rows"][0]["evidence"]
    if len(frames) <= most:
        assert unpacked(curve).tolist() == values[0].astype(np.float32).tolist()
        return
    low, high = unpacked(curve["low"]), unpacked(curve["high"])
    assert len(low) == len(high) == most // 2
    first, span = frames[0], frames[-1] - frames[0] + 1
    for number in range(most // 2):
        inside = np.floor((frames - first) * (most // 2 / span)) == number
        if not inside.any():
            assert np.isnan(low[number])
            assert np.isnan(high[number])
        else:
            assert low[number] == values[0][inside].astype(np.float32).min()
            assert high[number] == values[0][inside].astype(np.float32).max()


def test_a_hundred_thousand_frames_fit_where_they_are_thinned() -> None:
    count = 108_000
    frames = np.arange(count)
    values = np.random.default_rng(0).normal(size=(6, count))
    seen = Evidence(np.zeros((6, 1), np.float32), np.zeros(6), np.ones(6), values, frames)
    times = np.round(frames / 29.97, 3)  # as containers round them: no two steps are alike
    history = History(np.ones((count, 2)), frames, times_s=times)
    moments = tuple(Moment(f"s{n}", f"s{n}", Window(n, n + 9), 1.0) for n in range(6))
    reading = Reading(Retrieval(moments, {}), seen)
    assert len(json.dumps(scene(history, reading, most=120_000))) < 700_000
    whole = scene(history, reading)
    assert unpacked(whole["times"]["values"]) == pytest.approx(
        np.interp(unpacked(whole["times"]["frames"]), frames, times)
    )
    assert len(unpacked(whole["rows"][5]["evidence"])) == count


def test_settings_that_json_has_no_word_for_are_written_as_text() -> None:
    history, reading = by_hand()
    odd = {"bad": float("nan"), "deep": {"more": [float("inf"), 1.5]}, "own": Window(1, 2)}
    reading = replace(reading, retrieval=replace(reading.retrieval, settings=odd))
    assert checked(scene(history, reading))["settings"]["deep"] == {"more": [None, 1.5]}


def test_a_reading_of_nothing_is_drawn_as_well() -> None:
    history = History(np.ones((3, 2)))
    none = Evidence(np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros((0, 3)), history.frames)
    for most in (None, 2):
        assert checked(scene(history, Reading(Retrieval((), {}), none), most=most))["rows"] == []


def test_packing_keeps_bits() -> None:
    for kind, values in (("f32", [0.1, -2e30]), ("f64", [0.1, 2.0**53]), ("i32", [-5, 2**31 - 1])):
        found = unpacked(packed(np.array(values), kind))
        assert found.tolist() == np.array(values).astype(found.dtype).tolist()
