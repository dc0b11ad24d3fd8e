"""References and timelines on disk: what is written comes back, what is broken is named."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dejacue import History, InputError, Vocabulary, locate
from dejacue.files.formats.tables import table_bytes
from dejacue.files.results import (
    read_references,
    read_timelines,
    write_references,
    write_timelines,
)
from dejacue.method import Window
from dejacue.method.localization import analyse
from dejacue.records import Interval, Timeline
from dejacue.records.reference import Reference
from dejacue.report.exports import as_csv
from dejacue_paper import generate

CUP = Reference(
    "cup",
    {"empty": (Window(0, 58), Window(200, 210)), "filled": (Window(80, 199),)},
    "kitchen-01",
    Window(0, 299),
    {"empty": ("empty cup", "cup with nothing in it")},
)
DOOR = Reference("door", {"open": (Window(3, 3),)})


def save(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def plain(timelines) -> list[dict]:
    return [json.loads(timeline.to_json()) for timeline in timelines]


@pytest.fixture(scope="module")
def located() -> list[Timeline]:
    """Return timelines of generated histories, an interval a description."""
    scenes = [generate(seed) for seed in (1, 2, 3)]
    return [locate(each.history, each.vocabulary, readout="scan") for each in scenes]


# The record


def test_a_reference_is_its_own_component_unless_it_names_another() -> None:
    assert DOOR.component == "door"
    assert CUP.component == "kitchen-01"


def test_pairs_of_frames_become_windows() -> None:
    reference = Reference("cup", {"empty": [(0, 58)]}, frames=(np.int64(0), 99))  # type: ignore
    assert reference.states == {"empty": (Window(0, 58),)}
    assert reference.frames == Window(0, 99)


def test_a_reference_does_not_follow_the_mapping_it_was_made_from() -> None:
    states = {"empty": [Window(0, 58)]}
    reference = Reference("cup", states)  # type: ignore[arg-type]
    states["filled"] = [Window(60, 70)]
    assert list(reference.states) == ["empty"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": {}}, "reference cup: states must map"),
        ({"states": [Window(0, 1)]}, "reference cup: states must map"),
        ({"states": {"empty": ()}}, 'state "empty" has no window'),
        ({"states": {"empty": Window(0, 1)}}, 'state "empty" must list its windows'),
        ({"states": {"empty": 3}}, 'state "empty" must list its windows'),
        ({"states": {"empty": [3]}}, 'state "empty": 3 is not a pair'),
        ({"states": {"empty": [(5, 3)]}}, r'state "empty": window \[5, 3\] ends before'),
        ({"states": {"empty": [(0.5, 3)]}}, 'state "empty": window start 0.5 is not a whole'),
        ({"states": {" ": [(0, 1)]}}, "state name ' ' must be non-empty text"),
        ({"states": {3: [(0, 1)]}}, "state name 3 must be non-empty text"),
        ({"history_id": ""}, "history name '' must be non-empty text"),
        ({"component": ""}, "component name '' must be non-empty text"),
        ({"frames": Window(0, 57)}, r'\[0, 58\] of state "empty" is not inside .*\[0, 57\]'),
        ({"frames": Window(1, 99)}, r'\[0, 58\] of state "empty" is not inside'),
        (
            {"descriptions": {"full": ("full cup",)}},
            'descriptions of "full", which is a state without',
        ),
        ({"descriptions": {"empty": ()}}, '"empty" has an empty or non-text description'),
        ({"descriptions": {"empty": ("a", "a")}}, '"empty" lists a description twice'),
        ({"descriptions": ["a"]}, "descriptions must map"),
        ({"complete": True}, "is complete but does not say of which frames"),
        (
            {
                "states": {"empty": [(0, 58)], "full": [(70, 80), (58, 60)]},
                "frames": (0, 99),
                "complete": True,
            },
            r'window \[0, 58\] of state "empty" and window \[58, 60\] of state "full" share frames',
        ),
        (
            {"states": {"empty": [(0, 58), (50, 60)]}, "frames": (0, 99), "complete": True},
            "share frames",
        ),
        ({"frames": (0, 1 << 50), "complete": True}, "can be labelled completely"),
        ({"states": {"empty": ()}, "frames": (0, 99), "complete": True}, "no state has a window"),
    ],
)
def test_a_reference_that_makes_no_sense_is_refused(arguments, message) -> None:
    usual = {"history_id": "cup", "states": {"empty": (Window(0, 58),)}}
    with pytest.raises(InputError, match=message):
        Reference(**(usual | arguments))


# Round trips

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(str.strip)
windows = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda w: Window(w[0], sum(w)))
references = st.builds(
    Reference,
    names,
    st.dictionaries(names, st.lists(windows, min_size=1, max_size=3).map(tuple), min_size=1),
    names,
)


@given(st.lists(references, max_size=3, unique_by=lambda r: r.history_id))
def test_references_come_back_from_json_and_csv_as_they_were(tmp_path_factory, records) -> None:
    folder = tmp_path_factory.mktemp("references")
    assert read_references(write_references(folder / "r.json", records)) == records
    assert read_references(write_references(folder / "r.csv", records)) == records


COMPLETE = Reference(
    "cap", {"on": [(0, 9), (20, 29)], "off": [(10, 12)]}, None, (0, 39), None, True
)


@pytest.mark.parametrize("name", ["r.json", "r.csv", "r.parquet", "r.arrow"])
def test_complete_references_come_back_as_they_were(tmp_path, name) -> None:
    records = [COMPLETE, Reference("lid", {"on": [(0, 9)], "off": [(5, 12)]})]
    assert read_references(write_references(tmp_path / name, records)) == records


def test_a_state_that_never_occurs_comes_back_from_json_and_no_table_can_hold_it(tmp_path) -> None:
    never = replace(COMPLETE, states={"on": [(0, 9)], "off": []})
    assert read_references(write_references(tmp_path / "r.json", [never])) == [never]
    with refused(tmp_path / "r.csv", "cap"):
        write_references(tmp_path / "r.csv", [never])


def test_windows_of_a_complete_reference_may_touch() -> None:
    touching = replace(COMPLETE, states={"on": [(0, 9), (10, 12)], "off": [(13, 20)]})
    assert touching.complete


def test_frames_and_descriptions_come_back_from_json(tmp_path) -> None:
    assert read_references(write_references(tmp_path / "r.json", iter([CUP, DOOR]))) == [CUP, DOOR]


def test_references_are_read_as_documented(tmp_path) -> None:
    row = {
        "history": "cup",
        "component": "kitchen-01",
        "frames": [0, 299],
        "states": {"empty": [[0, 58], [200, 210]], "filled": [[80, 199]]},
        "descriptions": {"empty": ["empty cup", "cup with nothing in it"]},
    }
    document = {"schema": "dejacue.references/1", "histories": [row]}
    assert read_references(save(tmp_path / "r.json", document)) == [CUP]
    assert read_references(save(tmp_path / "r.json", {"histories": [row]})) == [CUP]


def test_rows_of_a_csv_may_come_in_any_order_and_with_a_byte_order_mark(tmp_path) -> None:
    text = (
        "\ufeffstate, end,start,history,component\r\nempty,58,0,cup,k\r\nopen,3,3,door,\r\n"
        "\r\nempty,210,200,cup,k\r\nfilled,199,80,cup,\r\n"
    )
    records = read_references(save(tmp_path / "r.csv", text))
    assert records == [Reference("cup", CUP.states, "k"), DOOR]


def test_a_csv_has_no_place_for_frames_and_nothing_is_written(tmp_path) -> None:
    path = tmp_path / "r.csv"
    with refused(path, "cup"):
        write_references(path, [CUP])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["found.json", "found.jsonl"])
def test_timelines_come_back_as_they_were(tmp_path, located, name) -> None:
    path = write_timelines(tmp_path / name, located)
    assert plain(read_timelines(path)) == plain(located)


def test_json_lines_hold_one_timeline_each(tmp_path, located) -> None:
    lines = write_timelines(tmp_path / "found.jsonl", located).read_text("utf-8").splitlines()
    assert [json.loads(line)["history"] for line in lines] == [r.history_id for r in located]


def test_a_list_is_one_json_document(tmp_path, located) -> None:
    documents = json.loads(write_timelines(tmp_path / "found.json", located).read_bytes())
    assert documents == plain(located)
    assert json.loads(write_timelines(tmp_path / "none.json", []).read_bytes()) == []


def test_every_form_of_json_gives_the_same_timelines(tmp_path, located) -> None:
    documents = plain(located)
    path = tmp_path / "found.json"
    for content in (documents, {"timelines": documents}, "\n".join(map(json.dumps, documents))):
        assert plain(read_timelines(save(path, content))) == documents
    assert plain(read_timelines(save(path, located[0].to_json()))) == documents[:1]
    assert read_timelines(save(path, [])) == []


def test_times_notes_trust_and_states_come_back(tmp_path) -> None:
    intervals = [
        Interval("empty", 0, 3, 1.5, 0.0, 0.25, confidence=0.5),
        Interval("full", 5, 6, 0.5, 0.5),  # a history of one frame does not know its end
        Interval("empty", 8, 9, 1.0, 0.8, 1.0, confidence=0.1, confirmed=True),
    ]
    states = {"empty": ("empty cup", "cup with nothing in it"), "full": ("a",), "half": ()}
    timeline = Timeline.of(
        intervals,
        states,
        history_id="cup",
        encoder="siglip",
        settings={"smoothing": 1},
        notes=("runs are long",),
    )
    (back,) = read_timelines(write_timelines(tmp_path / "found.json", [timeline]))
    assert back.intervals == intervals
    assert back.states == states
    assert (back.settings, back.encoder, back.notes) == (
        {"smoothing": 1},
        "siglip",
        ("runs are long",),
    )


def test_a_document_may_leave_out_what_follows_from_its_intervals(tmp_path) -> None:
    rows = [
        {"state": "empty", "start": 0, "end": 9},
        {"state": "full", "start": 10, "end": 19, "description": "full cup"},
        {"state": "full", "start": 12, "end": 19, "description": "cup of coffee"},
        {"state": "full", "start": 30, "end": 39, "description": "cup of coffee"},
    ]
    (back,) = read_timelines(save(tmp_path / "f.json", {"history": "cup", "intervals": rows}))
    assert back.states == {"empty": (), "full": ("full cup", "cup of coffee")}
    assert [(i.start, i.trust, i.confirmed) for i in back] == [
        (start, None, False) for start in (0, 10, 12, 30)
    ]
    assert back["empty"] == [Interval("empty", 0, 9)]


def without_diagnostics(timeline: Timeline) -> list[dict]:
    rows = plain([timeline])[0]["intervals"]
    for row in rows:
        row.pop("diagnostics", None)
    return rows


@pytest.mark.parametrize("readout", ["timeline", "contrast", "scan"])
def test_what_locate_writes_as_csv_comes_back(tmp_path, readout) -> None:
    scene = generate(4)
    times = np.arange(len(scene.history)) / 8
    history = History(scene.history.features, scene.history.frames, "cup", times_s=times)
    vocabulary = scene.vocabulary
    if readout == "timeline":
        vocabulary = vocabulary.with_examples({scene.vocabulary.state_names[0]: 3})
    timeline = analyse(history, vocabulary, readout=readout, diagnostics=True)
    assert {bool(i.trust) for i in timeline} == {readout == "timeline"}
    assert any(i.confirmed for i in timeline) is (readout == "timeline")
    (back,) = read_timelines(save(tmp_path / "found.csv", as_csv(timeline)))
    assert without_diagnostics(back) == without_diagnostics(timeline)
    assert back.history_id == "cup"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("timed", [True, False])
def test_what_a_table_of_many_histories_holds_comes_back(tmp_path, suffix, timed) -> None:
    pytest.importorskip("pyarrow")
    parts = []
    for seed in (1, 2):
        scene = generate(seed)
        frames, count = scene.history.frames, len(scene.history)
        times = np.arange(count) / 8 if timed and seed == 1 else None
        source = 3 * frames if seed == 1 else frames
        history = History(
            scene.history.features, frames, str(seed), times_s=times, source_frames=source
        )
        parts.append(analyse(history, scene.vocabulary))
    path = tmp_path / f"found{suffix}"
    path.write_bytes(table_bytes(Timeline.joined(parts).columns(), suffix))
    for back, part in zip(read_timelines(path), parts, strict=True):
        assert [(i.window, i.source, i.times_s, i.score, i.confidence) for i in back] == [
            (i.window, i.source, i.times_s, i.score, i.confidence) for i in part
        ]


@pytest.mark.parametrize("name", ["found.json", "found.csv"])
def test_the_frames_of_the_source_come_back(tmp_path, name) -> None:
    intervals = [
        Interval("b", 0, 0, 1.0, source_start=10, source_end=10),
        Interval("a", 1, 4, 2.0, source_start=13, source_end=22),
        Interval("a", 6, 6, 1.0, source_start=28, source_end=28),
    ]
    timeline = Timeline.of(intervals, {"a": (), "b": ()}, history_id="cup")
    text = as_csv(timeline) if name.endswith("csv") else timeline.to_json()
    (back,) = read_timelines(save(tmp_path / name, text))
    assert back.intervals == intervals


def test_half_a_window_of_the_source_is_refused(tmp_path) -> None:
    row = {"state": "a", "start": 0, "end": 1, "source_start": 7}
    path = save(tmp_path / "f.json", json.dumps({"history": "cup", "intervals": [row]}))
    with refused(path, "source_start"):
        read_timelines(path)
    row["source_end"] = 3
    path = save(tmp_path / "f.json", json.dumps({"history": "cup", "intervals": [row]}))
    with refused(path) as caught:
        read_timelines(path)
    caught.match(r"\[7, 3\]")


def test_the_rows_of_several_histories_may_be_mixed(tmp_path) -> None:
    text = (
        "history,state,description,start,end\ncup,empty,empty cup,0,9\n"
        'door,open,"open door, wide",4,5\ncup,filled,full cup,10,19\n'
    )
    cup, door = read_timelines(save(tmp_path / "found.csv", text))
    assert [interval.window for interval in cup] == [Window(0, 9), Window(10, 19)]
    assert list(door) == [Interval("open", 4, 5, description="open door, wide")]


def test_timelines_are_written_one_at_a_time(tmp_path) -> None:
    path = tmp_path / "found.json"
    sizes = []

    def stream():
        for at in range(40):
            yield Timeline.of(
                [Interval("empty", 0, at)], {"empty": ["x" * 1000]}, history_id=f"h{at}"
            )
            sizes.append(sum(p.stat().st_size for p in tmp_path.iterdir()))

    write_timelines(path, stream())
    assert 0 < sizes[20] < path.stat().st_size  # the file grows while the generator runs
    assert len(read_timelines(path)) == 40


def test_a_timeline_of_many_histories_is_written_history_by_history(tmp_path, located) -> None:
    path = write_timelines(tmp_path / "found.json", [Timeline.joined(located)])
    assert plain(read_timelines(path)) == plain(located)


def test_a_failure_while_writing_leaves_what_was_there(tmp_path, located) -> None:
    path = save(tmp_path / "found.json", "old")
    with refused("history", "generated-1"):
        write_timelines(path, [located[0], located[0]])
    broken = Timeline.of([Interval("a", 0, 1, float("nan"))], {"a": ()}, history_id="cup")
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_timelines(path, [broken])
    with refused(tmp_path / "found.csv"):
        write_timelines(tmp_path / "found.csv", located)
    assert [p.name for p in tmp_path.iterdir()] == ["found.json"]
    assert path.read_text() == "old"


# Broken files


@pytest.mark.parametrize("read", [read_references, read_timelines])
@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.json", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.json", b"\xff\xfe{", "save it as UTF-8"),
        ("a.csv", b"history,\xe9tat", "save it as UTF-8"),
        ("a.json", b'{"histories": [', "line 1 column 16"),
        ("a.json", b"history,state,start,end", "line 1 column 1"),
        ("a.json", b'{"x": 1, "y": 2, "x": 3}', '"x"'),
        ("a.json", b'{"start":\n-Infinity}', "line 2: -Infinity"),
        ("a.json", b"[" * 100_000, "nested too deeply"),
        ("a.json", b'["\\ud800"]', r"\ud800"),
        ("a.csv", b"history,state\ncup,empty", "no column start, end"),
        ("a.csv", b"history;state;description;start;end", "no column history"),
    ],
)
def test_a_file_that_is_neither_is_named(tmp_path, read, name, content, fact) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with refused(path, fact):
        read(path)


@pytest.mark.parametrize("read", [read_references, read_timelines])
def test_a_missing_file_and_a_folder_are_named(tmp_path, read) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with refused(path):
            read(path)


GOOD = {"history": "cup", "states": {"empty": [[0, 5]]}}


@pytest.mark.parametrize(
    ("document", "facts"),
    [
        ([GOOD], ("histories",)),
        (3, ("histories",)),
        ({"schema": "dejacue.references/1"}, ("histories",)),
        ({"schema": None, "histories": []}, ("schema",)),
        ({"schema": "dejacue.timeline/2"}, ("dejacue.timeline/2",)),
        (
            {"schema": "dejacue.references/2", "histories": []},
            ("dejacue.references/2", "make it again"),
        ),
        ({"histories": {"cup": GOOD}}, ("histories",)),
        ({"histories": [], "version": 2}, ("key", "version")),
        ({"histories": ["cup"]}, ("cup",)),
        ({"histories": [GOOD, {"states": {}}]}, ("history",)),
        ({"histories": [GOOD, GOOD]}, ("history", "cup")),
        ({"histories": [GOOD | {"componet": "k"}]}, ("key", "componet")),
        ({"histories": [GOOD | {"component": 3}]}, ("component", 3)),
        ({"histories": [GOOD | {"states": {}}]}, ("reference cup: states must map each state",)),
        ({"histories": [GOOD | {"states": [0, 5]}]}, ("states", [0, 5])),
        (
            {"histories": [GOOD | {"states": {"empty": []}}]},
            ('reference cup: state "empty" has no window',),
        ),
        ({"histories": [GOOD | {"states": {"empty": [0, 5]}}]}, ("[0]", 0)),
        ({"histories": [GOOD | {"frames": [0, 4]}]}, ("reference cup: window [0",)),
        ({"histories": [GOOD | {"frames": 300}]}, ("frames", 300)),
        (
            {"histories": [GOOD | {"descriptions": {"empty": "a"}}]},
            ('descriptions["empty"]',),
        ),
        (
            {"histories": [GOOD | {"descriptions": {"full": ["a"]}}]},
            ('reference cup: descriptions of "full"',),
        ),
    ],
)
def test_broken_references_are_named(tmp_path, document, facts) -> None:
    path = save(tmp_path / "r.json", document)
    with refused(path, *facts):
        read_references(path)


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ([-1, 3], -1),
        ([0, 3.5], 3.5),
        ([0, 3.0], 3.0),
        ([True, 3], True),
        (["0", 3], "0"),
        ([None, 3], None),
        ([0, 10**300], 10**300),
    ],
)
def test_frames_are_whole_numbers(tmp_path, pair, value) -> None:
    path = save(tmp_path / "r.json", {"histories": [GOOD | {"states": {"empty": [pair]}}]})
    place = pair.index(value)
    with refused(path, f"[0][{place}]"):
        read_references(path)
    row = {"state": "empty", "description": "a", "start": pair[0], "end": pair[1]}
    path = save(tmp_path / "found.json", {"history": "cup", "intervals": [row]})
    with refused(path, f"intervals[0].{('start', 'end')[place]}"):
        read_timelines(path)


def test_a_window_that_ends_before_it_starts_is_refused(tmp_path) -> None:
    path = save(tmp_path / "r.json", {"histories": [GOOD | {"states": {"empty": [[5, 3]]}}]})
    with refused(path):
        read_references(path)
    row = {"state": "empty", "description": "a", "start": 5, "end": 3}
    path = save(tmp_path / "found.json", {"history": "cup", "intervals": [row]})
    with refused(path, "intervals[0]"):
        read_timelines(path)


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ("cup,empty,0,", ("end",)),
        ("cup,empty,0,3.5", ("end", "3.5")),
        ("cup,empty,nan,3", ("start", "nan")),
        ("cup,empty,-1,3", ("start", "-1")),
        ("cup,empty,4,3", ("line 3: window [4, 3] ends before it starts",)),
        ("cup,,0,3", ("state",)),
        (",empty,0,3", ("history",)),
        ("cup,empty,0", ("line 3: 3 cells for 4 columns",)),
        ("cup,empty,0,3,4", ("line 3: 5 cells for 4 columns",)),
        ('cup,"empty,0,3', ("line 3: not CSV",)),
    ],
)
def test_broken_rows_of_references_are_named(tmp_path, row, facts) -> None:
    path = save(tmp_path / "r.csv", f"history,state,start,end\ncup,empty,0,1\n{row}\n")
    with refused(path, "line 3", *facts):
        read_references(path)


def test_columns_of_references_are_checked(tmp_path) -> None:
    path = save(tmp_path / "r.csv", "history,state,start,end,componet\n")
    with refused(path, "line 1", "key", "componet"):
        read_references(path)
    save(path, "history,state,start,end,end\n")
    with refused(path, "two columns have the same name"):
        read_references(path)
    save(path, "history,state,start,end,component\ncup,a,0,1,x\ncup,b,2,3,y\n")
    with refused(path, "line 3", "component", "y"):
        read_references(path)
    save(path, "history,state,start,end,first,last\ncup,a,0,1,0,9\ncup,b,2,3,0,8\n")
    with refused(path, "line 3", "last", 8):
        read_references(path)
    save(path, "history,state,start,end,first\ncup,a,0,1,0\n")
    with refused(path, "line 2", "first"):
        read_references(path)
    save(path, "history,state,start,end,complete\ncup,a,0,1,perhaps\n")
    with refused(path, "line 2", "complete", "perhaps"):
        read_references(path)


ROW = {"state": "empty", "start": 0, "end": 5, "score": 1.0}
TIMELINE = {"schema": "dejacue.timeline/2", "history": "cup", "intervals": [ROW]}


def timeline(**row: object) -> dict:
    return TIMELINE | {"intervals": [ROW | row]}


@pytest.mark.parametrize(
    ("document", "facts"),
    [
        (3, ("timeline 1: is not a timeline with a history",)),
        ([TIMELINE, 3], ("timeline 2: is not a timeline with a history",)),
        ({"timelines": TIMELINE}, ("timelines",)),
        ({"histories": []}, ("intervals",)),
        ({"main": {}}, ("history",)),
        ([TIMELINE | {"schema": "timeline/9"}], ("timeline/9",)),
        (
            [TIMELINE | {"schema": "dejacue.timeline/9"}],
            ("dejacue.timeline/9", "make it again"),
        ),
        (TIMELINE | {"schema": None}, ("schema",)),
        (TIMELINE | {"history": None}, ("history", None)),
        ([TIMELINE, TIMELINE], ("history", "cup")),
        (TIMELINE | {"intervals": [[0, 5]]}, ("intervals[0]", [0, 5])),
        (timeline(state=""), ("intervals[0].state",)),
        (timeline(description=3), ("intervals[0].description", 3)),
        (timeline(score=True), ("intervals[0].score", True)),
        (timeline(score="1"), ("intervals[0].score", "1")),
        (timeline(score=10**400), ("line 1",)),
        (timeline(confidence=1.5), ("intervals[0].confidence", 1.5)),
        (timeline(confirmed="yes"), ("intervals[0].confirmed", "yes")),
        (timeline(end_s=0.1), ("start_s",)),
        (timeline(start_s=4.0, end_s=3.0), ("3",)),
        (TIMELINE | {"states": {"empty": "a"}}, ('states["empty"]',)),
        (TIMELINE | {"states": {"full": []}}, ("state", "empty")),
        (
            timeline(description="a") | {"states": {"empty": ["b"]}},
            ("description", "a"),
        ),
        (TIMELINE | {"settings": []}, ("settings", [])),
        (TIMELINE | {"notes": [3]}, ("notes[0]", 3)),
        (TIMELINE | {"notes": ["a note"]}, ("notes[0]", "a note")),
        (TIMELINE | {"encoder": False}, ("encoder", False)),
    ],
)
def test_broken_timelines_are_named(tmp_path, document, facts) -> None:
    path = save(tmp_path / "found.json", document)
    with refused(path, *facts):
        read_timelines(path)


KEYS = [
    "schema",
    "histories",
    "history",
    "states",
    "frames",
    "component",
    "descriptions",
    "timelines",
    "intervals",
    "confidence",
    "confirmed",
    "state",
    "description",
    "start",
    "end",
    "score",
    "start_s",
    "end_s",
    "settings",
    "notes",
    "encoder",
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.sampled_from(["", "cup"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=25,
)


@given(
    anything,
    st.sampled_from([GOOD, TIMELINE, ROW, None]),
    st.sampled_from(KEYS),
)
def test_any_document_gives_records_or_one_sentence(tmp_path_factory, value, around, key) -> None:
    row = value if around is None else around | {key: value}
    path = tmp_path_factory.mktemp("any") / "a.json"
    for document in (
        row,
        {"histories": [row]},
        TIMELINE | {"intervals": [row]},
    ):
        save(path, document)
        for read, record in ((read_references, Reference), (read_timelines, Timeline)):
            try:
                assert all(isinstance(row, record) for row in read(path))
            except InputError as error:
                assert str(error).startswith(str(path))  # noqa: PT017


def test_json_lines_that_break_off_are_named_with_their_line(tmp_path) -> None:
    path = save(tmp_path / "found.jsonl", f"{json.dumps(TIMELINE)}\n" + '{"history": "door", "in')
    with refused(path) as caught:
        read_timelines(path)
    caught.match("line 2")


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ("cup,empty,a,0,3,1,2", ("line 2", "confidence", "2")),
        ("cup,empty,a,0,3,1,0.5\ncup,empty,a,4,5,1,-1", ("line 3", "confidence")),
        ("cup,empty,a,0,3,inf,1", ("line 2", "score", "inf")),
        ("cup,empty,a,0,3,high,1", ("line 2", "score", "high")),
        ("cup,empty,a,9,3,1,1", ("line 2",)),
    ],
)
def test_broken_rows_of_timelines_are_named(tmp_path, rows, facts) -> None:
    header = "history,state,description,start,end,score,confidence"
    path = save(tmp_path / "found.csv", f"{header}\n{rows}\n")
    with refused(path, *facts):
        read_timelines(path)


@pytest.mark.parametrize("readout", ["timeline", "published"])
def test_a_vocabulary_that_repeats_a_sentence_is_read_back(tmp_path, readout) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    vocabulary = Vocabulary({"empty": ["a cup", "a cup"], "filled": ["full"]}, rows)
    history = History(np.random.default_rng(1).normal(size=(30, 8)), id="c")
    timeline = locate(history, vocabulary, readout=readout)
    path = write_timelines(tmp_path / "found.json", [timeline])
    assert plain(read_timelines(path)) == plain([timeline])


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".parquet", ".arrow"])
def test_one_timeline_is_written_with_its_notes_and_read_again(tmp_path, ending) -> None:
    scene = generate(3)
    timeline = analyse(scene.history, scene.vocabulary).replace(notes=("one", "two"))
    (again,) = read_timelines(write_timelines(tmp_path / f"one{ending}", timeline))
    assert (again.intervals, again.notes) == (timeline.intervals, timeline.notes)


def test_a_timeline_is_not_written_as_something_else(tmp_path) -> None:
    scene = generate(3)
    for name in ("one.csv", "one.vtt", "one.eaf"):
        with refused(tmp_path / name):
            write_timelines(tmp_path / name, locate(scene.history, scene.vocabulary))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", ["=1+1", "+49", "-1", "@SUM(A1)", "\tx", "'=x", "''-x", "a\rb", "'s"]
)
def test_no_cell_of_a_csv_is_a_formula_and_its_text_comes_back(tmp_path, text) -> None:
    intervals = [Interval(text, 0, 3, -1.5, description=text), Interval(text, 5, 6, 2.0)]
    timeline = Timeline.of(intervals, {text: (text,)}, history_id=text, notes=(text,))
    path = save(tmp_path / "found.csv", as_csv(timeline))
    with open(path, encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert not any(
        cell[:1] in "=+@\t\r" for row in (first, second) for cell in row.values() if cell
    )
    assert [name for name, cell in first.items() if cell.startswith("-")] == ["score"]
    assert (bool(first["notes"]), second["notes"]) == (True, "")
    (back,) = read_timelines(path)
    assert (back.intervals, back.history_id, back.notes) == (timeline.intervals, text, (text,))
    truth = [Reference(text, {text: (Window(0, 3),)}, text)]
    assert read_references(write_references(tmp_path / "truth.csv", truth)) == truth
