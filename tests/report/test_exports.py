"""Exports: each format against what was worked out by hand."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys

import numpy as np
import pytest
from helpers.errors import refused
from helpers.peers import PEER, need
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from dejacue import Finding, History, InputError, Interval, Timeline, Vocabulary
from dejacue.cli.tables import timeline_table
from dejacue.errors import MissingExtra
from dejacue.method import Evidence, Window
from dejacue.records import Note
from dejacue.report.exports import (
    EXPORTS,
    as_csv,
    as_json,
    frame_ends_s,
    marks_of,
)


def to_webvtt(*arguments, **options) -> str:
    return EXPORTS["vtt"](*arguments, **options).decode()


def to_label_studio(*arguments, **options) -> str:
    return EXPORTS["label-studio"](*arguments, **options).decode()


def cup(**options) -> History:
    """Return frames 0 … 3 and 6 … 8, half a second each."""
    frames = np.array([0, 1, 2, 3, 6, 7, 8])
    return History(np.ones((7, 2)), frames, "cup", **{"times_s": frames * 0.5, **options})


STATES = {"empty": ["empty cup"], "filled": ["cup filled with tea"]}
# state, start, end, score, start_s, end_s, confidence, confirmed
INTERVALS = (
    ("empty", 0, 1, 0.75, 0.0, 1.0, 0.3),
    ("filled", 2, 3, 4.0, 1.0, 2.0, 0.9),
    ("empty", 6, 7, 2.5, 3.0, 4.0, None),
    ("empty", 8, 8, 0.5, 4.0, 4.5, 0.2, True),
)


def timeline(id: str = "cup", notes=(), timed: bool = False) -> Timeline:
    """Return occurrences in frames alone, or with the seconds that they have in ``cup``."""
    rows = [
        Interval(*row) if timed else Interval(*row[:4], None, None, *row[6:]) for row in INTERVALS
    ]
    return Timeline.of(rows, STATES, history_id=id, notes=notes)


def of(*intervals: Interval, **states) -> Timeline:
    """Return a timeline of the cup; by default a state is its only description."""
    names = dict.fromkeys(interval.state for interval in intervals)
    texts = {state: [state] for state in names} | states
    return Timeline.of(intervals, texts, history_id="cup")


def test_a_frame_ends_where_the_next_one_begins() -> None:
    assert frame_ends_s(cup()).tolist() == [0.5, 1.0, 1.5, 2.0, 3.5, 4.0, 4.5]


@pytest.mark.parametrize("rate", [2.5, 10.0, 25.0])
def test_no_second_has_the_noise_of_its_last_bits(rate, tmp_path) -> None:
    frames = np.flatnonzero(np.arange(90) % 5 < 3)  # before a gap, the end of a frame is a sum
    history = History(np.ones((54, 2)), frames, "cup", times_s=(frames / rate).round(9))
    ends = history.ends_s
    assert ends is not None
    spans = zip(frames[::3], frames[2::3], history.times_s[::3], ends[2::3], strict=True)
    intervals = [Interval("on", int(a), int(b), 1.0, s, e) for a, b, s, e in spans]
    timeline = of(*intervals, off=["off"]).replace(evidence=seen(history, None))
    finding = Finding(history, Vocabulary({"on": "on", "off": "off"}), timeline)
    for kind, export in EXPORTS.items():
        with contextlib.suppress(MissingExtra):
            finding.export(tmp_path / f"timeline{export.suffix}", kind)
    finding.report(tmp_path / "report.html")
    table = io.StringIO()
    Console(file=table, width=200).print(timeline_table(finding.timeline))
    texts = {
        p.name: p.read_bytes()
        for p in tmp_path.iterdir()
        if p.suffix not in (".npz", ".parquet", ".arrow")
    }
    texts |= {"table": table.getvalue().encode(), "repr": repr(finding).encode()}
    assert len(texts) >= 12
    for name, text in texts.items():
        assert not re.findall(rb"\d\.\d*?(?:0{7,}|9{7,})\d+", text), name


def test_frames_of_varying_length_end_as_documented() -> None:
    # frames 0 1 2 | 5 | 9 10: before a gap a frame has its share of it, the last one the median
    history = History(np.ones((6, 2)), [0, 1, 2, 5, 9, 10], times_s=[0.0, 0.1, 0.3, 0.9, 2.9, 3.0])
    assert frame_ends_s(history) == pytest.approx([0.1, 0.3, 0.5, 1.4, 3.0, 3.1])


def test_the_last_frame_of_lonely_frames_lasts_like_the_median_of_the_others() -> None:
    history = History(np.ones((3, 2)), [0, 2, 6], times_s=[0.0, 1.0, 5.0])
    assert frame_ends_s(history) == pytest.approx([0.5, 2.0, 5.75])


@given(
    st.lists(st.tuples(st.integers(1, 5), st.floats(0.001, 10)), min_size=1, max_size=30),
    st.floats(-5, 5),
)
def test_every_frame_ends_after_it_begins_and_before_the_next_observed_one(steps, start) -> None:
    frames = np.cumsum([0, *(frame for frame, _ in steps)])
    times = start + np.cumsum([0.0, *(second for _, second in steps)])
    ends = frame_ends_s(History(np.ones((len(frames), 2)), frames, times_s=times))
    assert (ends > times).all()
    assert (ends[:-1] <= times[1:] + 1e-9).all()


def test_a_window_that_descriptions_share_names_all_of_them() -> None:
    for scores in ((1.0, 3.0), (3.0, 1.0), (3.0, 0.0), (0.0, 3.0)):
        rows = []
        for n, score in enumerate(scores):
            text = f"empty {n}"
            rows += [
                Interval("empty", 0, 3, score, description=text),
                Interval("empty", 6, 7, -2.0, description=text),
            ]
        shared = of(*rows, empty=["empty 0", "empty 1"])
        spans = marks_of(shared, cup()).spans
        texts = ("empty 0", "empty 1")
        assert [span.descriptions for span in spans] == [texts, texts]


def test_notes_of_several_objects_say_whose_they_are_unless_all_share_them() -> None:
    plate = History(np.ones((9, 2)), range(9), "plate", times_s=np.arange(9) * 2.0)
    first = timeline(notes=("a -->\n\nb", "mine"))
    second = timeline("plate", notes=("a -->\n\nb",))
    text = to_webvtt([first, second], [plate, cup()])
    assert text.startswith("WEBVTT\n\nNOTE a --&gt; b\n\nNOTE cup: mine\n\n1\n")
    (task,) = json.loads(to_label_studio([first, second], videos={"cup": "v", "plate": "v"}))
    assert task["data"]["notes"] == "a -->\n\nb\ncup: mine"


def test_a_task_of_label_studio_is_there_when_nothing_was_found() -> None:
    gone = Timeline.of([], STATES, history_id="cup", notes=("not found",))
    (task,) = json.loads(to_label_studio(gone))
    assert task["data"] == {"video": "cup", "notes": "not found"}
    assert task["predictions"][0]["result"] == []


def test_descriptions_that_share_an_answer_are_one_cue() -> None:
    texts = ["empty cup", "cup with nothing in it"]
    shared = of(Interval("empty", 0, 1, 3.0), empty=texts)
    assert to_webvtt(shared, cup()) == (
        "WEBVTT\n\n1\n00:00:00.000 --> 00:00:01.000\nempty: empty cup / cup with nothing in it\n"
    )
    both = [Interval("empty", 0, 1, 1.0, description=text) for text in texts]
    assert to_webvtt(of(*both, empty=texts), cup()) == to_webvtt(shared, cup())


def test_webvtt_has_a_cue_per_occurrence_in_the_order_of_time() -> None:
    states = dict(reversed(STATES.items()))
    backwards = Timeline.of(reversed(timeline().intervals), states, history_id="cup")
    assert to_webvtt(backwards, cup()) == (
        "WEBVTT\n\n"
        "1\n00:00:00.000 --> 00:00:01.000\nempty: empty cup\n\n"
        "2\n00:00:01.000 --> 00:00:02.000\nfilled: cup filled with tea\n\n"
        "3\n00:00:03.000 --> 00:00:04.000\nempty: empty cup\n\n"
        "4\n00:00:04.000 --> 00:00:04.500\nempty: empty cup\n"
    )


def test_webvtt_timestamps_have_hours_and_are_never_negative_or_empty() -> None:
    times = [-1.0, -0.9999, 3661.0015, 360_000.0]
    history = History(np.ones((4, 2)), range(4), "cup", times_s=times)
    text = to_webvtt(of(*(Interval(f"s{n}", n, n, 1.0) for n in range(3))), history)
    assert re.findall(r"(\S+) --> (\S+)", text) == [
        ("00:00:00.000", "00:00:00.001"),
        ("00:00:00.000", "01:01:01.002"),
        ("01:01:01.002", "100:00:00.000"),
    ]


def test_webvtt_text_cannot_end_its_cue_or_carry_marks() -> None:
    words = "a\n\n00:00 --> 00:01 <b>&amp;</b>\r\nSTYLE\x00\ud800"
    text = to_webvtt(of(Interval("x<y", 0, 0, 1.0), **{"x<y": [words]}), cup())
    assert text == (
        "WEBVTT\n\n1\n00:00:00.000 --> 00:00:00.500\n"
        "x&lt;y: a 00:00 --&gt; 00:01 &lt;b&gt;&amp;amp;&lt;/b&gt; STYLE\ufffd?\n"
    )
    text.encode()


def test_webvtt_of_several_objects_names_them_and_of_several_videos_is_refused() -> None:
    timelines = [timeline("cup"), timeline("plate")]
    histories = [cup(), History(np.ones((9, 2)), range(9), "plate", times_s=np.arange(9.0))]
    text = to_webvtt(timelines, histories, videos={"cup": "kitchen", "plate": "kitchen"})
    assert "cup · empty: empty cup" in text
    assert "plate · filled: cup filled with tea" in text
    with refused("subtitles belong to one video"):
        to_webvtt(timelines, histories, videos={"cup": "kitchen", "plate": "hall"})


def test_label_studio_counts_from_one_and_in_frames_of_the_source() -> None:
    def ranges(text: str) -> list:
        (task,) = json.loads(text)
        return [region["value"]["ranges"] for region in task["predictions"][0]["result"]]

    assert ranges(to_label_studio(timeline())) == [
        [{"start": 1, "end": 2}],
        [{"start": 3, "end": 4}],
        [{"start": 7, "end": 8}],
        [{"start": 9, "end": 9}],
    ]
    source = cup(source_frames=np.array([10, 15, 20, 25, 40, 45, 50]))
    assert ranges(to_label_studio(timeline(), source)) == [
        [{"start": 11, "end": 16}],
        [{"start": 21, "end": 26}],
        [{"start": 41, "end": 46}],
        [{"start": 51, "end": 51}],
    ]
    assert ranges(to_label_studio(timeline(), cup())) == ranges(to_label_studio(timeline()))


def test_label_studio_regions_are_predictions_of_a_task() -> None:
    (task,) = json.loads(to_label_studio(timeline(), videos={"cup": "kitchen.mp4"}))
    assert task["data"] == {"video": "kitchen.mp4"}
    regions = task["predictions"][0]["result"]
    assert regions[1] == {
        "id": "dejacue-2",
        "type": "timelinelabels",
        "from_name": "states",
        "to_name": "video",
        "value": {"ranges": [{"start": 3, "end": 4}], "timelinelabels": ["filled"]},
        "score": 0.9,
        "meta": {"text": ["cup filled with tea"]},
    }
    assert [region.get("score") for region in regions] == [0.3, 0.9, None, 0.2]


def test_fiftyone_carries_the_confidence_where_it_is_known() -> None:
    rows = json.loads(EXPORTS["fiftyone"](timeline()))["labels"]["cup"]
    assert [row.get("confidence", "none") for row in rows] == [0.3, 0.9, "none", 0.2]


def seen(history: History, labels: list[int] | None) -> Evidence:
    rows, flat = np.zeros((2, len(history))), np.zeros(2)
    numbers = None if labels is None else np.array(labels)
    return Evidence(
        rows.astype(np.float32), flat, flat + 1, rows, history.frames, "half", labels=numbers
    )


def test_labels_have_a_row_for_every_observed_frame_and_nothing_where_no_state_holds() -> None:
    labelled = timeline().replace(evidence=seen(cup(), [0, 0, 1, 1, -1, 0, 0]))
    assert EXPORTS["labels"](labelled, cup()).decode() == (
        "frame,time,state\n0,0.0,empty\n1,0.5,empty\n2,1.0,filled\n3,1.5,filled\n"
        "6,3.0,\n7,3.5,empty\n8,4.0,empty\n"
    )
    untimed = EXPORTS["labels"](labelled, cup(times_s=None)).decode()
    assert untimed.splitlines()[:2] == ["frame,time,state", "0,,empty"]
    read = list(csv.DictReader(io.StringIO(untimed)))
    assert [row["state"] or None for row in read] == labelled.labels


def test_labels_of_a_readout_of_windows_alone_are_those_of_its_windows() -> None:
    window = of(Interval("on", 1, 6, 1.0), off=["off"]).replace(evidence=seen(cup(), None))
    rows = EXPORTS["labels"](window, cup()).decode().splitlines()[1:]
    states = [row.split(",")[2] for row in rows]
    assert states == ["", "on", "on", "on", "on", "", ""]


def test_labels_of_several_objects_say_whose_they_are_and_of_no_answer_are_none() -> None:
    evidence = seen(cup(), [0] * 7)
    two = [timeline(id).replace(evidence=evidence) for id in ("cup", "plate")]
    rows = EXPORTS["labels"](two, cup()).decode().splitlines()
    assert rows[0] == "history,frame,time,state"
    assert (rows[1], rows[8], len(rows)) == ("cup,0,0.0,empty", "plate,0,,empty", 15)
    nothing = two[0].replace(notes=[Note("all frames look the same", "meaningless")])
    assert EXPORTS["labels"](nothing).decode().splitlines()[1] == "0,,"


def test_labels_need_the_evidence_that_find_keeps() -> None:
    with pytest.raises(InputError, match="no labels; read it with find"):
        EXPORTS["labels"](timeline(), cup())


@pytest.mark.parametrize("name", [name for name, export in EXPORTS.items() if export.timed])
def test_formats_in_seconds_refuse_a_history_without_times(name) -> None:
    export = EXPORTS[name]
    with refused("times"):
        export(timeline(), cup(times_s=None))
    with refused('timeline of "cup" has no times'):
        export(timeline())


@pytest.mark.parametrize(
    "name",  # a recording of rerun has an id of its own
    [name for name, export in EXPORTS.items() if export.timed and name != "rerun"],
)
def test_intervals_with_seconds_need_no_history_and_say_the_same(name) -> None:
    assert EXPORTS[name](timeline(timed=True)) == EXPORTS[name](timeline(), cup())


def test_json_is_one_document_for_one_timeline_and_a_list_for_several() -> None:
    assert json.loads(as_json(timeline())) == timeline().to_dict()
    assert EXPORTS["json"](timeline()).decode() == as_json(timeline())
    two = [timeline(), timeline("plate")]
    assert json.loads(EXPORTS["json"](two)) == [each.to_dict() for each in two]
    assert EXPORTS["json"](Timeline.joined(two)) == EXPORTS["json"](two)


def test_csv_has_the_rows_of_all_timelines_under_one_head() -> None:
    text = 'a "full" jug, hot'
    jug = Timeline.of(
        [Interval("full", 2, 4, 1.0, description=text)], {"full": [text]}, history_id="jug"
    )
    table = as_csv(timeline(), jug)
    assert EXPORTS["csv"]([timeline(), jug]).decode() == table
    head, *rows = csv.reader(io.StringIO(table))
    assert ",".join(head) == (
        "history,state,description,start,end,start_s,end_s,score,confidence,confirmed"
    )
    assert rows[-3:] == [
        ["cup", "empty", "", "6", "7", "", "", "2.5", "", "False"],
        ["cup", "empty", "", "8", "8", "", "", "0.5", "0.2", "True"],
        ["jug", "full", text, "2", "4", "", "", "1.0", "", "False"],
    ]


def test_a_state_that_was_not_found_is_left_out_where_a_format_cannot_say_so() -> None:
    partly = Timeline.of(timeline()["empty"], STATES, history_id="cup")
    for name in ("json", "csv", "vtt", "label-studio"):
        data = EXPORTS[name](partly, cup())
        assert b"empty" in data
        assert (b"filled" in data) is (name == "json"), name


def test_of_nothing_found_tables_have_a_head_and_no_row() -> None:
    nothing = Timeline.of([], STATES, history_id="cup")
    assert as_csv(nothing) == "history,state,start,end,start_s,end_s,score\n"
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(EXPORTS["parquet"](nothing)))
    assert (table.num_rows, table.schema.names[:3]) == (0, ["history", "state", "start"])


def test_times_that_do_not_grow_and_a_single_frame_are_refused() -> None:
    with refused("times", 2):
        frame_ends_s(History(np.ones((3, 2)), times_s=[0.0, 1.0, 1.0]))
    with refused('history "unnamed" has a single frame of unknown'):
        frame_ends_s(History(np.ones((1, 2)), times_s=[0.0]))


@pytest.mark.parametrize("window", [Window(0, 4), Window(4, 7), Window(6, 12), Window(20, 22)])
def test_a_window_of_another_history_is_refused(window) -> None:
    beyond = of(Interval("a", *window, 1.0))
    with pytest.raises(InputError, match="does not observe both ends"):
        to_webvtt(beyond, cup())


def test_nothing_to_export_is_refused() -> None:
    for export in EXPORTS.values():
        with refused("there is no timeline to export"):
            export([])


def test_parquet_without_its_packages_names_the_remedy(monkeypatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="pip install pyarrow"):
        EXPORTS["parquet"](timeline())


ROWS = {
    "history": ["cup"] * 4 + ["jug"],
    "state": ["empty", "filled", "empty", "empty", "full"],
    "start": [0, 2, 6, 8, 2],
    "end": [1, 3, 7, 8, 4],
    "start_s": [0.0, 1.0, 3.0, 4.0, None],
    "end_s": [1.0, 2.0, 4.0, 4.5, None],
    "score": [0.75, 4.0, 2.5, 0.5, 1.0],
    "confidence": [0.3, 0.9, None, 0.2, None],
    "confirmed": [False, False, False, True, False],
}


@pytest.mark.parametrize("library", ["pyarrow", pytest.param("polars", marks=PEER)])
def test_parquet_holds_the_rows_of_all_timelines(library) -> None:
    module = need("polars") if library == "polars" else pytest.importorskip(library)
    jug = Timeline.of([Interval("full", 2, 4, 1.0)], {"full": ["full jug"]}, history_id="jug")
    data = EXPORTS["parquet"]([timeline(timed=True), jug])
    assert data[:4] == data[-4:] == b"PAR1"
    if library == "pyarrow":
        table = pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(data)).to_pydict()
    else:
        table = module.read_parquet(io.BytesIO(data)).to_dict(as_series=False)
    assert table == ROWS
