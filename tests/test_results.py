"""References and retrievals on disk: what is written comes back, what is broken is named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import History, InputError, Moment, Retrieval, Vocabulary, Window, locate
from dejacue.records.reference import Reference
from dejacue.report.exports import as_csv
from dejacue.sources.results import (
    read_references,
    read_retrievals,
    write_references,
    write_retrievals,
)
from dejacue_paper import generate

CUP = Reference(
    "cup",
    {"empty": (Window(0, 58), Window(200, 210)), "filled": (Window(80, 199),)},
    "kitchen-01",
    Window(0, 299),
    {"empty": ("empty cup", "cup with nothing in it")},
)
DOOR = Reference("door", {"open": (Window(3, 3),)})


def refused(path: Path, message: str):
    """The error is an InputError that starts with the file's name."""
    return pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{message}")


def save(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def plain(retrievals) -> list[dict]:
    return [json.loads(retrieval.to_json()) for retrieval in retrievals]


@pytest.fixture(scope="module")
def located() -> list[Retrieval]:
    """Retrievals of generated histories, with alternatives."""
    made = [generate(seed) for seed in (1, 2, 3)]
    return [locate(m.history, m.vocabulary, readout="scan", top=3) for m in made]


# The record


def test_a_reference_is_its_own_component_unless_told() -> None:
    assert DOOR.component == "door"
    assert CUP.component == "kitchen-01"


def test_pairs_of_frames_become_windows() -> None:
    given = Reference("cup", {"empty": [(0, 58)]}, frames=(np.int64(0), 99))  # type: ignore
    assert given.states == {"empty": (Window(0, 58),)}
    assert given.frames == Window(0, 99)


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
def test_references_come_back_from_json_and_csv_as_they_were(tmp_path_factory, given_ones) -> None:
    folder = tmp_path_factory.mktemp("references")
    assert read_references(write_references(folder / "r.json", given_ones)) == given_ones
    assert read_references(write_references(folder / "r.csv", given_ones)) == given_ones


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
    found = read_references(save(tmp_path / "r.csv", text))
    assert found == [Reference("cup", CUP.states, "k"), DOOR]


def test_a_csv_has_no_place_for_frames_and_nothing_is_written(tmp_path) -> None:
    path = tmp_path / "r.csv"
    with refused(path, 'cannot hold the frames and descriptions of history "cup"'):
        write_references(path, [CUP])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["found.json", "found.jsonl"])
def test_retrievals_come_back_as_they_were(tmp_path, located, name) -> None:
    path = write_retrievals(tmp_path / name, located)
    assert plain(read_retrievals(path)) == plain(located)
    assert any(moment.alternatives for moment in read_retrievals(path)[0])


def test_json_lines_hold_one_retrieval_each(tmp_path, located) -> None:
    lines = write_retrievals(tmp_path / "found.jsonl", located).read_text("utf-8").splitlines()
    assert [json.loads(line)["history"] for line in lines] == [r.history_id for r in located]


def test_a_list_is_one_json_document(tmp_path, located) -> None:
    documents = json.loads(write_retrievals(tmp_path / "found.json", located).read_bytes())
    assert documents == plain(located)
    assert json.loads(write_retrievals(tmp_path / "none.json", []).read_bytes()) == []


def test_every_form_of_json_gives_the_same_retrievals(tmp_path, located) -> None:
    documents = plain(located)
    path = tmp_path / "found.json"
    for content in (documents, {"retrievals": documents}, "\n".join(map(json.dumps, documents))):
        assert plain(read_retrievals(save(path, content))) == documents
    assert plain(read_retrievals(save(path, located[0].to_json()))) == documents[:1]
    assert read_retrievals(save(path, [])) == []


def test_times_notes_and_levels_come_back(tmp_path) -> None:
    moment = Moment("empty", "empty cup", Window(0, 3), 1.5, "state", (0.0, 0.25))
    given = Retrieval((moment,), {"top": 1}, "cup", "siglip", ("runs are long",))
    (back,) = read_retrievals(write_retrievals(tmp_path / "found.json", [given]))
    assert back.moments == (moment,)
    assert (back.settings, back.encoder, back.notes) == ({"top": 1}, "siglip", ("runs are long",))


def test_what_locate_writes_as_csv_comes_back(tmp_path) -> None:
    made = generate(4)
    times = np.arange(len(made.history)) / 8
    history = History(made.history.features, made.history.frames, "cup", times_s=times)
    retrieval = locate(history, made.vocabulary, top=3, diagnostics=True)
    (back,) = read_retrievals(save(tmp_path / "found.csv", as_csv(retrieval)))
    expected = plain([retrieval])[0]["moments"]
    for moment in expected:
        del moment["diagnostics"]
    assert plain([back])[0]["moments"] == expected
    assert back.history_id == "cup"


@pytest.mark.parametrize("name", ["found.json", "found.csv"])
def test_the_frames_of_the_source_come_back(tmp_path, name) -> None:
    moments = (
        Moment(
            "a", "x", Window(1, 4), 2.0, source=Window(13, 22), alternatives=((Window(6, 6), 1.0),)
        ),
        Moment("b", "y", Window(0, 0), 1.0, source=Window(10, 10)),
    )
    given = Retrieval(moments, {}, "cup")
    text = as_csv(given) if name.endswith("csv") else given.to_json()
    (back,) = read_retrievals(save(tmp_path / name, text))
    assert back.moments == moments


def test_half_a_window_of_the_source_is_refused(tmp_path) -> None:
    row = {"state": "a", "description": "x", "start": 0, "end": 1, "source_start": 7}
    path = save(tmp_path / "f.json", json.dumps({"history": "cup", "moments": [row]}))
    with pytest.raises(InputError, match="only one of source_start and source_end"):
        read_retrievals(path)
    row["source_end"] = 3
    path = save(tmp_path / "f.json", json.dumps({"history": "cup", "moments": [row]}))
    with pytest.raises(InputError, match=r"window \[7, 3\] ends before it starts"):
        read_retrievals(path)


def test_the_rows_of_several_histories_may_be_mixed(tmp_path) -> None:
    text = (
        "history,state,description,start,end\ncup,empty,empty cup,0,9\n"
        'door,open,"open door, wide",4,5\ncup,filled,full cup,10,19\n'
    )
    cup, door = read_retrievals(save(tmp_path / "found.csv", text))
    assert [m.window for m in cup] == [Window(0, 9), Window(10, 19)]
    assert door["open door, wide"] == Moment("open", "open door, wide", Window(4, 5), 0.0)


def test_retrievals_are_written_one_at_a_time(tmp_path) -> None:
    path = tmp_path / "found.json"
    sizes = []

    def stream():
        for at in range(40):
            moment = Moment("empty", "x" * 1000, Window(0, at), 1.0)
            yield Retrieval((moment,), {}, f"h{at}")
            sizes.append(sum(p.stat().st_size for p in tmp_path.iterdir()))

    write_retrievals(path, stream())
    assert 0 < sizes[20] < path.stat().st_size  # the file grows while the generator runs
    assert len(read_retrievals(path)) == 40


def test_a_failure_while_writing_leaves_what_was_there(tmp_path, located) -> None:
    path = save(tmp_path / "found.json", "old")
    with pytest.raises(InputError, match='history "generated-1" is given twice'):
        write_retrievals(path, [located[0], located[0]])
    broken = Retrieval((Moment("a", "b", Window(0, 1), float("nan")),), {}, "cup")
    with pytest.raises(InputError, match='history "cup": cannot be written as JSON'):
        write_retrievals(path, [broken])
    with refused(tmp_path / "found.csv", "retrievals are written as JSON"):
        write_retrievals(tmp_path / "found.csv", located)
    assert [p.name for p in tmp_path.iterdir()] == ["found.json"]
    assert path.read_text() == "old"


# Broken files


@pytest.mark.parametrize("read", [read_references, read_retrievals])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b"", "is empty"),
        ("a.csv", b" \n\n", "is empty"),
        ("a.json", b"\xff\xfe{", "is not UTF-8"),
        ("a.csv", b"history,\xe9tat", "is not UTF-8"),
        ("a.json", b'{"histories": [', "not valid JSON, or cut short .*line 1 column 16"),
        ("a.json", b"history,state,start,end", "not valid JSON, .* give a name that ends in .csv"),
        ("a.json", b'{"x": 1, "y": 2, "x": 3}', '"x" is given twice in one object'),
        ("a.json", b'{"start":\n-Infinity}', "line 2: -Infinity is not a JSON number"),
        ("a.json", b"[" * 100_000, "not valid JSON, .*nested too deep"),
        ("a.json", b'["\\ud800"]', r"\\ud800 is half of a surrogate pair"),
        ("a.csv", b"history,state\ncup,empty", "no column .*start, end; the first line"),
        ("a.csv", b"history;state;description;start;end", "no column .* separated by commas"),
    ],
)
def test_a_file_that_is_neither_is_named(tmp_path, read, name, content, message) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with refused(path, message):
        read(path)


@pytest.mark.parametrize(
    ("read", "message"),
    [(read_references, "is a folder; give the file inside"), (read_retrievals, "cannot be read")],
)
def test_a_missing_file_and_a_folder_are_named(tmp_path, read, message) -> None:
    with refused(tmp_path / "none.json", "no such file"):
        read(tmp_path / "none.json")
    with refused(tmp_path, message):
        read(tmp_path)


GOOD = {"history": "cup", "states": {"empty": [[0, 5]]}}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([GOOD], 'a JSON object with the key "histories"'),
        (3, 'a JSON object with the key "histories"'),
        ({"schema": "dejacue.references/1"}, 'has no "histories"; add it'),
        ({"schema": None, "histories": []}, '"schema" is missing or not text'),
        ({"schema": "dejacue.retrieval/1"}, 'is "dejacue.retrieval/1", not "dejacue.references/1"'),
        ({"histories": {"cup": GOOD}}, "histories .*: expected a list"),
        ({"histories": [], "version": 2}, 'unknown key "version"'),
        ({"histories": ["cup"]}, "history 1: must be an object .* descriptions, not 'cup'"),
        ({"histories": [GOOD, {"states": {}}]}, 'history 2: has no "history"; add it'),
        ({"histories": [GOOD, GOOD]}, 'history "cup" is given twice'),
        ({"histories": [GOOD | {"componet": "k"}]}, 'history "cup": .*did you mean "component"'),
        ({"histories": [GOOD | {"component": 3}]}, 'history "cup": component 3: expected text'),
        ({"histories": [GOOD | {"states": {}}]}, "reference cup: states must map"),
        (
            {"histories": [GOOD | {"states": [0, 5]}]},
            r'history "cup": states \[0, 5\]: expected an object',
        ),
        ({"histories": [GOOD | {"states": {"empty": []}}]}, 'state "empty" has no window'),
        (
            {"histories": [GOOD | {"states": {"empty": [0, 5]}}]},
            r'state "empty", windows: \[0\] 0: expected',
        ),
        ({"histories": [GOOD | {"frames": [0, 4]}]}, "not inside the frames"),
        ({"histories": [GOOD | {"frames": 300}]}, 'history "cup": frames 300: expected a list'),
        (
            {"histories": [GOOD | {"descriptions": {"empty": "a"}}]},
            "descriptions.*: expected a list",
        ),
        ({"histories": [GOOD | {"descriptions": {"full": ["a"]}}]}, 'descriptions of "full"'),
    ],
)
def test_broken_references_are_named(tmp_path, document, message) -> None:
    path = save(tmp_path / "r.json", document)
    with refused(path, message):
        read_references(path)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ([5, 3], r"window \[5, 3\] ends before it starts"),
        ([-1, 3], "-1: expected a whole number >= 0"),
        ([0, 3.5], "3.5: expected a whole number"),
        ([0, 3.0], "3.0: expected a whole number"),
        ([True, 3], "True: expected a whole number"),
        (["0", 3], "'0': expected a whole number"),
        ([None, 3], "None: expected a whole number"),
        ([0, 10**300], "1000.*: expected a whole number <= 9007199254740992"),
    ],
)
def test_frames_are_whole_numbers_in_order(tmp_path, pair, message) -> None:
    path = save(tmp_path / "r.json", {"histories": [GOOD | {"states": {"empty": [pair]}}]})
    with refused(path, f'cup.*: state "empty".*: .*{message}'):
        read_references(path)
    moment = {"state": "empty", "description": "a", "start": pair[0], "end": pair[1]}
    path = save(tmp_path / "found.json", {"history": "cup", "moments": [moment]})
    with refused(path, rf'history "cup": moments\[0\].*{message}'):
        read_retrievals(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("cup,empty,0,", 'line 3: has no "end"; add it'),
        ("cup,empty,0,3.5", "line 3: end '3.5': expected a whole number"),
        ("cup,empty,nan,3", "line 3: start 'nan': expected a whole number"),
        ("cup,empty,-1,3", "line 3: start '-1': expected a whole number >= 0"),
        ("cup,empty,4,3", r"line 3: window \[4, 3\] ends before it starts"),
        ("cup,,0,3", 'line 3: has no "state"; add it'),
        (",empty,0,3", 'line 3: has no "history"; add it'),
        ("cup,empty,0", "line 3: 3 cells for 4 columns"),
        ("cup,empty,0,3,4", "line 3: 5 cells for 4 columns"),
        ('cup,"empty,0,3', r"line 3: not CSV \(unexpected end of data\)"),
    ],
)
def test_broken_rows_of_references_are_named(tmp_path, row, message) -> None:
    path = save(tmp_path / "r.csv", f"history,state,start,end\ncup,empty,0,1\n{row}\n")
    with refused(path, message):
        read_references(path)


def test_columns_of_references_are_checked(tmp_path) -> None:
    path = save(tmp_path / "r.csv", "history,state,start,end,componet\n")
    with refused(path, 'line 1: unknown key "componet"; did you mean "component"'):
        read_references(path)
    save(path, "history,state,start,end,end\n")
    with refused(path, "two columns have the same name"):
        read_references(path)
    save(path, "history,state,start,end,component\ncup,a,0,1,x\ncup,b,2,3,y\n")
    with refused(path, 'line 3: history "cup" has the component "y" here, but "x" above'):
        read_references(path)


MOMENT = {"state": "empty", "description": "empty cup", "start": 0, "end": 5, "score": 1.0}
FOUND = {"schema": "dejacue.retrieval/1", "history": "cup", "moments": [MOMENT]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (3, "retrieval 1: is not a retrieval"),
        ([FOUND, 3], "retrieval 2: is not a retrieval"),
        ({"retrievals": FOUND}, '"retrievals" must be a list'),
        ({"histories": []}, "no list of moments but holds references; give references last"),
        ({"main": {}}, 'retrieval 1: has no "history"; add it'),
        ([FOUND | {"schema": "retrieval/9"}], 'history "cup": is "retrieval/9", not "dejacue.ret'),
        (FOUND | {"history": None}, "retrieval 1: history None: expected text"),
        ([FOUND, FOUND], 'history "cup" is given twice'),
        (FOUND | {"moments": [MOMENT, MOMENT]}, r'moments\[1\]: state "empty", .* is given twice'),
        (FOUND | {"moments": [[0, 5]]}, r"moments\[0\] \[0, 5\]: expected an object"),
        (
            FOUND | {"moments": [MOMENT | {"state": ""}]},
            r"moments\[0\].state '': expected text that is not empty",
        ),
        (
            FOUND | {"moments": [MOMENT | {"description": 3}]},
            r"moments\[0\].description 3: expected text",
        ),
        (FOUND | {"moments": [MOMENT | {"score": True}]}, "score True: expected a number"),
        (FOUND | {"moments": [MOMENT | {"score": "1"}]}, "score '1': expected a number"),
        (
            FOUND | {"moments": [MOMENT | {"score": 10**400}]},
            "line 1: 1000.* too large",
        ),
        (
            FOUND | {"moments": [MOMENT | {"level": "frame"}]},
            'unknown level "frame"; known: description, state',
        ),
        (FOUND | {"moments": [MOMENT | {"start_s": 0.1}]}, "only one of start_s and end_s"),
        (FOUND | {"moments": [MOMENT | {"alternatives": 3}]}, "alternatives 3: expected a list"),
        (
            FOUND | {"moments": [MOMENT | {"alternatives": [{}]}]},
            r'moments\[0\].alternatives\[0\]: has no "start"; add it',
        ),
        (FOUND | {"settings": []}, r'history "cup": settings \[\]: expected an object'),
        (FOUND | {"notes": [3]}, r'history "cup": notes\[0\] 3: expected text'),
        (FOUND | {"encoder": False}, 'history "cup": encoder False: expected text'),
    ],
)
def test_broken_retrievals_are_named(tmp_path, document, message) -> None:
    path = save(tmp_path / "found.json", document)
    with refused(path, message):
        read_retrievals(path)


KEYS = [
    "schema",
    "histories",
    "history",
    "states",
    "frames",
    "component",
    "descriptions",
    "retrievals",
    "moments",
    "state",
    "description",
    "start",
    "end",
    "score",
    "level",
    "alternatives",
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


@given(anything, st.sampled_from([GOOD, FOUND, MOMENT, None]), st.sampled_from(KEYS))
def test_any_document_gives_records_or_one_sentence(tmp_path_factory, value, around, key) -> None:
    row = value if around is None else around | {key: value}
    path = tmp_path_factory.mktemp("any") / "a.json"
    for document in (row, {"histories": [row]}, FOUND | {"moments": [row]}):
        save(path, document)
        for read, record in ((read_references, Reference), (read_retrievals, Retrieval)):
            try:
                assert all(isinstance(found, record) for found in read(path))
            except InputError as error:
                assert str(error).startswith(f"{path}: ")  # noqa: PT017


def test_json_lines_that_break_off_are_named_with_their_line(tmp_path) -> None:
    path = save(tmp_path / "found.jsonl", f"{json.dumps(FOUND)}\n" + '{"history": "door", "mo')
    with refused(path, "cut short .*line 2"):
        read_retrievals(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("cup,empty,a,0,3,1,1\ncup,empty,a,4,5,1,1", 'line 3: state "empty", .* is given twice'),
        ("cup,empty,a,0,3,1,2", "line 2: rank 2 does not follow rank 1"),
        ("cup,empty,a,0,3,1,1\ncup,empty,a,4,5,1,3", "line 3: rank 3 does not follow rank 2"),
        ("cup,empty,a,0,3,1,0", "line 2: rank 0 does not follow"),
        ("cup,empty,a,0,3,inf,1", "line 2: score 'inf': expected a finite number"),
        ("cup,empty,a,0,3,high,1", "line 2: score 'high': expected a number"),
        ("cup,empty,,0,3,1,1", 'line 2: has no "description"; add it'),
        ("cup,empty,a,9,3,1,1", r"line 2: window \[9, 3\] ends before it starts"),
    ],
)
def test_broken_rows_of_retrievals_are_named(tmp_path, rows, message) -> None:
    header = "history,state,description,start,end,score,rank"
    path = save(tmp_path / "found.csv", f"{header}\n{rows}\n")
    with refused(path, message):
        read_retrievals(path)


def test_a_vocabulary_that_repeats_a_sentence_cannot_be_read_back(tmp_path) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    vocabulary = Vocabulary({"empty": ["a cup", "a cup"], "filled": ["full"]}, rows)
    retrieval = locate(History(np.random.default_rng(1).normal(size=(30, 8)), id="c"), vocabulary)
    path = write_retrievals(tmp_path / "found.json", [retrieval])
    with refused(
        path, r'history "c": moments\[1\]: state "empty", description "a cup" is given twice'
    ):
        read_retrievals(path)
