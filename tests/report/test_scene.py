"""The scene: what a timeline draws of a finding, true to the records and small."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dejacue import Finding, History, Interval, Reference, Timeline, locate
from dejacue.method import Contrast, Evidence, Window
from dejacue.method.localization import analyse
from dejacue.records.note import Severity
from dejacue.report.scene import packed, scene, unpacked
from dejacue_paper import generate

JPEG = b"\xff\xd8\xff\xe0 a picture"
Packed = dict[str, str]
Run = tuple[int, int]


class Range(msgspec.Struct, forbid_unknown_fields=True):
    first: int
    last: int


class Knots(msgspec.Struct, forbid_unknown_fields=True):
    """Frames and their values, to interpolate between; both grow."""

    frames: Packed
    values: Packed


class Curve(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A packed value for each observed frame or, thinned, the least and the greatest one in each
    of equal parts of the axis; NaN: none observed."""

    f32: str | None = None
    low: Packed | None = None
    high: Packed | None = None


class State(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    colour: str
    descriptions: list[str]


class SceneSpan(msgspec.Struct, forbid_unknown_fields=True):
    """An occurrence. confidence, trust: None where they are not told; times: [start_s, end_s),
    source: frames of the file, where they are known."""

    start: int
    end: int
    score: float | None
    confidence: float | None
    trust: str | None
    confirmed: bool
    times: tuple[float, float] | None = None
    source: Run | None = None


class SceneRow(msgspec.Struct, forbid_unknown_fields=True):
    """A state. description: None where it stands for all descriptions of its state; windows: its
    occurrences in time, empty where it was not found; evidence: a value for each observed frame,
    or thinned; None: without a curve."""

    state: str
    description: str | None
    windows: list[SceneSpan]
    evidence: Curve | None


class SceneDoubt(msgspec.Struct, forbid_unknown_fields=True):
    start: int
    end: int
    text: str


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """Frames of which a person says that they show a state; None: none of the states."""

    state: str | None
    start: int
    end: int


class SceneQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """A frame worth an answer; expects: (state or None, its share), likeliest first."""

    frame: int
    expects: list[tuple[str | None, float]]
    gain: float
    source: int | None = None
    time: float | None = None


class Thumbnail(msgspec.Struct, forbid_unknown_fields=True):
    frame: int
    url: str
    crop: str | None = None  # of the object alone


class SceneNote(msgspec.Struct, forbid_unknown_fields=True):
    severity: Severity
    text: str


class Comparison(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    missed: dict[str, list[Run]]
    superfluous: dict[str, list[Run]]


class SceneDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A timeline for drawing, as docs/timeline.md describes it field by field."""

    schema: str
    id: str
    object: str | None
    video: str | None
    axis: Range
    observed: list[Run]
    times: Knots | None
    source: Knots | None
    zero: str
    states: list[State]
    rows: list[SceneRow]
    presence: Curve | None
    doubts: list[SceneDoubt]
    references: dict[str, list[Run]] | None
    comparison: Comparison | None
    named: list[Named]
    changes: list[int]
    segments: list[Run] | None
    questions: list[SceneQuestion] | None
    thumbnails: list[Thumbnail]
    notes: list[SceneNote]
    settings: dict[str, Any]


def checked(document: dict) -> dict:
    """Check that a scene has the promised fields; return it as a browser gets it, through JSON."""
    text = json.dumps(document, allow_nan=False)
    msgspec.convert(json.loads(text), SceneDocument, strict=True)
    return json.loads(text)


STATES = {"empty": ["empty cup"], "filled": ["full cup"]}


def by_hand(settings=None, **columns) -> tuple[History, Timeline]:
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
    history = History(np.ones((10, 4)), frames, "cup", "mini", **columns)
    responses = np.array([[1, 2, 1, 0, -1, -1, -1, 0, 0, -1], [-1, 0, 0, 0, 1, 2, 3, 2, 1, 0.0]])
    intervals = [
        Interval("empty", 0, 2, float("inf"), 0.5, float("nan"), source_start=2, source_end=12),
        Interval("empty", 9, 10, 0.25, 4.5, 5.5, 0.4),
    ]
    return history, Timeline.of(
        intervals,
        STATES,
        history_id="cup",
        notes=["a"],
        settings=settings or {},
        evidence=seen(responses, frames),
    )


def seen(responses, frames) -> Evidence:
    count = len(responses)
    return Evidence(
        responses.astype(np.float32), np.zeros(count), np.ones(count), responses, frames
    )


def test_a_finding_becomes_a_scene_with_the_fields_that_are_promised() -> None:
    generated = generate(3, states=("a", "b", "c"), frames=240, gaps=((70, 14),))
    finding = Finding(
        generated.history,
        generated.vocabulary,
        analyse(generated.history, generated.vocabulary),
        thumbnails={9: JPEG, 3: JPEG},
        doubts=((Window(20, 30), "is it hidden?"), (Window(900, 950), "far away")),
        warnings=("mind the gap",),
    ).correct({"a": 5, None: Window(100, 103)}, changes=[60])
    drawn = checked(finding.scene(references=generated.references, segments=True, questions=2))
    assert drawn["schema"] == "dejacue.scene/1"
    assert drawn["axis"] == {"first": 0, "last": 239}
    assert drawn["observed"] == [[0, 69], [84, 239]]
    assert [state["name"] for state in drawn["states"]] == ["a", "b", "c"]
    assert [state["colour"] for state in drawn["states"]] == ["#0072B2", "#D55E00", "#009E73"]
    assert [(row["state"], row["description"]) for row in drawn["rows"]] == [
        ("a", None),
        ("b", None),
        ("c", None),
    ]
    for row in drawn["rows"]:
        for window, interval in zip(row["windows"], finding[row["state"]], strict=True):
            assert (window["start"], window["end"]) == tuple(interval.window)
            assert (window["score"], window["trust"]) == (interval.score, interval.trust)
    assert {window["trust"] for window in drawn["rows"][0]["windows"]} == {"confirmed"}
    curve = unpacked(drawn["rows"][1]["evidence"])
    assert curve.astype(np.float32).tolist() == pytest.approx(
        finding.timeline.evidence.responses[2].tolist()
    )
    assert drawn["doubts"] == [{"start": 20, "end": 30, "text": "is it hidden?"}]
    assert drawn["references"] == {s: [[*w] for w in ws] for s, ws in generated.references.items()}
    assert drawn["named"] == [
        {"state": "a", "start": 5, "end": 5},
        {"state": None, "start": 100, "end": 103},
    ]
    assert drawn["changes"] == [60]
    assert drawn["segments"] == [[*window] for window in finding.segments()]
    questions = finding.next_question(2)
    assert [(q["frame"], q["gain"]) for q in drawn["questions"]] == [
        (q.frame, q.gain) for q in questions
    ]
    assert [q["expects"] for q in drawn["questions"]] == [
        [[state, share] for state, share in q.expects.items()] for q in questions
    ]
    assert [picture["frame"] for picture in drawn["thumbnails"]] == [3, 9]
    assert drawn["thumbnails"][0]["url"].startswith("data:image/jpeg;base64,")
    assert {"severity": "information", "text": "mind the gap"} in drawn["notes"]
    assert drawn["settings"]["readout"]["name"] == "timeline"


def test_pictures_become_text_only_where_no_addresses_are_given() -> None:
    generated = generate(3, states=("a", "b"), frames=60)
    finding = Finding(
        generated.history,
        generated.vocabulary,
        analyse(generated.history, generated.vocabulary),
        thumbnails={3: b"no picture"},
    )
    with refused("of frame 3"):
        finding.scene()
    drawn = checked(finding.scene(thumbnails=[(3, "/3.jpg", None)]))
    assert [picture["url"] for picture in drawn["thumbnails"]] == ["/3.jpg"]


def test_what_was_not_chosen_is_null() -> None:
    drawn = checked(scene(*by_hand()))
    unknown = (
        "object",
        "video",
        "times",
        "source",
        "presence",
        "references",
        "comparison",
        "segments",
        "questions",
    )
    assert [name for name in drawn if drawn[name] is None] == list(unknown)
    assert drawn["notes"] == [{"severity": "information", "text": "a"}]


def test_a_complete_reference_tells_what_was_missed_and_what_is_superfluous() -> None:
    history, timeline = by_hand()
    true = {"empty": [Window(40, 44)], "filled": [Window(5, 8)]}
    reference = Reference("cup", true, frames=(0, 60), complete=True)
    drawn = checked(scene(history, timeline, references=reference))
    assert drawn["references"] == {"empty": [], "filled": [[5, 8]]}  # the axis ends with frame 11
    assert drawn["comparison"]["missed"] == {"empty": [], "filled": [[5, 8]]}
    assert drawn["comparison"]["superfluous"] == {"empty": [[2, 11]], "filled": []}
    assert drawn["comparison"]["text"].startswith("0 of 2 true occurrences found")
    partly = structs.replace(reference, complete=False)
    assert checked(scene(history, timeline, references=partly))["comparison"] is None
    unknown = structs.replace(reference, states={"ajar": [Window(2, 14)]})
    assert checked(scene(history, timeline, references=unknown))["comparison"] is None


def test_a_row_has_the_occurrences_of_its_state_in_time() -> None:
    empty, filled = scene(*by_hand())["rows"]
    first, second = empty["windows"]
    assert first == {
        "start": 0,
        "end": 2,
        "score": None,  # JSON has no infinity
        "confidence": None,
        "trust": None,
        "confirmed": False,
        "times": None,  # nor NaN
        "source": (2, 12),
    }
    assert (second["start"], second["end"]) == (9, 10)
    assert (second["confidence"], second["trust"]) == (0.4, "unsure")
    assert (second["times"], second["source"]) == ((4.5, 5.5), None)
    assert filled["windows"] == []  # it was not found
    assert filled["evidence"] is not None


def test_without_evidence_there_are_rows_without_curves() -> None:
    generated = generate(3)
    rows = checked(scene(generated.history, locate(generated.history, generated.vocabulary)))[
        "rows"
    ]
    assert [(row["description"], row["evidence"], len(row["windows"])) for row in rows] == [
        (None, None, 1),
        (None, None, 1),
    ]


def test_evidence_of_another_history_is_refused() -> None:
    _, timeline = by_hand()
    with refused("history"):
        scene(History(np.ones((9, 4)), id="other"), timeline)


def test_descriptions_that_answer_alone_have_rows_of_their_own() -> None:
    generated = generate(3)
    alone = scene(
        generated.history, analyse(generated.history, generated.vocabulary, readout="scan")
    )["rows"]
    assert [row["description"] for row in alone] == [
        text for texts in generated.vocabulary.states.values() for text in texts
    ]
    shared = scene(
        generated.history, analyse(generated.history, generated.vocabulary, readout=Contrast())
    )["rows"]
    assert [row["description"] for row in shared] == [None, None]
    apart = scene(
        generated.history, analyse(generated.history, generated.vocabulary, readout="non-overlap")
    )["rows"]
    assert len(apart) == 4  # descriptions share the window of their state, not their evidence
    assert apart[0]["windows"] == apart[1]["windows"]


def test_seconds_and_frames_of_the_file_are_interpolated_from_knots() -> None:
    frames = np.array([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])
    times = np.where(frames < 7, frames * 0.5, 3.5 + (frames - 7) * 0.25) + 10
    history, timeline = by_hand(
        times_s=times,
        source_frames=5 * frames + 2,
        made_with={"frames": "20"},
        presence=np.linspace(0, 1, 10),
    )
    references, doubts = {"empty": [Window(2, 12), Window(900, 901)]}, [(Window(32, 42), "dark")]
    drawn = checked(scene(history, timeline, references=references, doubts=doubts))
    knots = drawn["times"]
    assert unpacked(knots["frames"]).tolist() == [0, 7, 11, 19]
    assert np.interp(frames, unpacked(knots["frames"]), unpacked(knots["values"])) == (
        pytest.approx(times)
    )
    knots = drawn["source"]
    assert unpacked(knots["frames"]).tolist() == [0, 11]
    assert unpacked(knots["values"]).tolist() == [2, 57]
    assert drawn["rows"][0]["windows"][0]["source"] == [2, 12]
    assert drawn["references"] == {"empty": [[0, 2]]}
    assert drawn["doubts"] == [{"start": 6, "end": 8, "text": "dark"}]
    assert drawn["axis"] == {"first": 0, "last": 19}
    assert unpacked(drawn["presence"]).tolist() == pytest.approx(np.linspace(0, 1, 10).tolist())


def test_times_and_source_frames_that_do_not_grow_are_left_out() -> None:
    drawn = scene(*by_hand(times_s=np.zeros(10), source_frames=np.zeros(10, int)))
    assert drawn["times"] is None
    assert drawn["source"] is None


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=200),
    st.integers(2, 60),
    st.integers(0, 2**32 - 1),
)
def test_a_thinned_curve_has_the_extremes_of_equal_parts_of_the_axis(steps, most, seed) -> None:
    frames = np.cumsum(steps)
    values = np.random.default_rng(seed).normal(size=(1, len(frames)))
    history = History(np.ones((len(frames), 2)), frames)
    first = Interval("a", int(frames[0]), int(frames[0]), 1.0)
    timeline = Timeline.of([first], {"a": ["an a"]}, evidence=seen(values, frames))
    drawn = checked(scene(history, timeline, most=2 * most))
    curve = drawn["rows"][0]["evidence"]
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
    times = np.round(frames / 29.97, 3)  # as containers round them: no two steps are alike
    history = History(np.ones((count, 2)), frames, times_s=times)
    rows = [Interval(f"s{n}", n, n + 9, 1.0) for n in range(6)]
    states = {row.state: [row.state] for row in rows}
    timeline = Timeline.of(rows, states, evidence=seen(values, frames))
    assert len(json.dumps(scene(history, timeline, most=120_000))) < 700_000
    whole = scene(history, timeline)
    assert unpacked(whole["times"]["values"]) == pytest.approx(
        np.interp(unpacked(whole["times"]["frames"]), frames, times)
    )
    assert len(unpacked(whole["rows"][5]["evidence"])) == count


def test_settings_that_json_has_no_word_for_are_written_as_text() -> None:
    odd = {"bad": float("nan"), "deep": {"more": [float("inf"), 1.5]}, "window": Window(1, 2)}
    document = checked(scene(*by_hand(settings=odd)))
    assert document["settings"]["deep"] == {"more": [None, 1.5]}


def test_a_timeline_of_nothing_is_drawn_as_well() -> None:
    history = History(np.ones((3, 2)))
    nothing = Timeline.of([], {}, evidence=seen(np.zeros((0, 3)), history.frames))
    for most in (None, 2):
        assert checked(scene(history, nothing, most=most))["rows"] == []


def test_packing_keeps_bits() -> None:
    for kind, values in (("f32", [0.1, -2e30]), ("f64", [0.1, 2.0**53]), ("i32", [-5, 2**31 - 1])):
        back = unpacked(packed(np.array(values), kind))
        assert back.tolist() == np.array(values).astype(back.dtype).tolist()
