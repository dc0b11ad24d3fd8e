"""Annotation passes: files, disagreements, consensus, events, and the commands around them."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from hypothesis import given
from hypothesis import strategies as st

from dejacue import History, InputError, Reference
from dejacue.errors import DejaCueError
from dejacue.files import read_references, write_history
from dejacue.method import Window
from dejacue_paper.cli import annotate as annotating
from dejacue_paper.data.annotation import (
    Decisions,
    Disagreement,
    Event,
    Pass,
    StateChange,
    changes,
    consensus,
    disagreements,
    events,
    nearest_miss,
    observed,
    open_decisions,
    other_runs,
    read_decisions,
    read_pass,
    reference,
    stable_reference,
    template,
    write_decisions,
    write_pass,
)

SHORT = {"p": "pre", "t": "transition", "q": "post", "u": "unobserved", ".": None}
LETTERS = st.text("ptqu", min_size=1, max_size=40)


def labelled(text: str, annotator: str = "A", start: int = 0, history: str = "H001") -> Pass:
    """Return a pass from one letter a frame: pre, transition, q = post, unobserved."""
    labels = tuple(SHORT[letter] for letter in text)
    return Pass(history, annotator, Window(start, start + len(text) - 1), labels)


def letters(pass_: Pass) -> str:
    names = {label: letter for letter, label in SHORT.items()}
    return "".join(names[label] for label in pass_.labels)


def decided(a: Pass, b: Pass, *labels: str | None) -> Decisions:
    rows = zip(open_decisions(a, b).rows, labels, strict=True)
    done = tuple(Disagreement(r.window, r.first, r.second, label) for r, label in rows)
    return Decisions(a.history, (a.annotator, b.annotator), done)


# Passes


def test_the_template_is_unobserved_where_frames_are_missing() -> None:
    result = template("H001", [3, 4, 7, 8, 9, 12], "A")
    assert result.frames == Window(3, 12)
    assert letters(result) == "..uu...uu."


def test_the_template_takes_the_frames_of_a_history() -> None:
    history = History(np.ones((3, 2)), frames=[0, 1, 4], id="cup")
    assert letters(template(history.id, history.frames, "A")) == "..uu."


@pytest.mark.parametrize(
    ("frames", "fact"),
    [
        ([], "history H001: no observed frame"),
        ([2, 1], "followed by 1"),
        ([1, 1], "followed by 1"),
        ([-1, 0], "no frame -1"),
        ([0, 10**12], 10**12 + 1),
    ],
)
def test_a_template_of_frames_that_cannot_be_is_refused(frames, fact) -> None:
    with refused(fact):
        template("H001", frames, "A")


def test_a_template_has_whole_frames() -> None:
    with pytest.raises(InputError, match="whole number"):
        template("H001", [0.5], "A")


@pytest.mark.parametrize(
    ("annotator", "fact"), [("  ", "'  '"), ("A\nB", r"'A\nB'"), (" Consensus", "Consensus")]
)
def test_a_template_is_for_a_person(annotator, fact) -> None:
    with refused(fact):
        template("H001", [0], annotator)


def test_a_pass_needs_one_known_label_per_frame() -> None:
    with refused("labels"):
        Pass("H001", "A", Window(0, 1), ("pre",))
    with refused("label", "pres"):
        Pass("H001", "A", Window(0, 0), ("pres",))
    with refused("history"):
        Pass("", "A", Window(0, 0), ("pre",))


@given(LETTERS, st.integers(0, 1000))
def test_runs_are_maximal_and_give_the_labels_back(text, start) -> None:
    pass_ = labelled(text, start=start)
    runs = pass_.runs()
    assert [label for w, label in runs for _ in range(w.length)] == list(pass_.labels)
    assert all(a[1] != b[1] for a, b in pairwise(runs))
    assert (runs[0][0].start, runs[-1][0].end) == tuple(pass_.frames)


@given(text=LETTERS, start=st.integers(0, 1000), name=st.sampled_from(["A", "Zoë", 'a "b"']))
def test_a_pass_comes_back_from_its_file(tmp_path_factory, text, start, name) -> None:
    path = tmp_path_factory.getbasetemp() / "round.json"
    pass_ = labelled(text, name, start, history="Tässchen")
    assert read_pass(write_pass(path, pass_)) == pass_


def test_the_file_has_one_run_a_line(tmp_path: Path) -> None:
    path = write_pass(tmp_path / "a.json", labelled("pptq.", start=4))
    assert path.read_text(encoding="utf-8") == (
        "{\n"
        '  "schema": "dejacue.annotation/1",\n'
        '  "history": "H001",\n'
        '  "annotator": "A",\n'
        '  "runs": [\n'
        '    {"start": 4, "end": 5, "label": "pre"},\n'
        '    {"start": 6, "end": 6, "label": "transition"},\n'
        '    {"start": 7, "end": 7, "label": "post"},\n'
        '    {"start": 8, "end": 8, "label": null}\n'
        "  ]\n"
        "}\n"
    )


def test_neighbouring_runs_of_one_label_are_one_run(tmp_path: Path) -> None:
    path = document(tmp_path, runs=[run(0, 1, "pre"), run(2, 4, "pre")])
    assert read_pass(path).runs() == [(Window(0, 4), "pre")]


def run(start: object, end: object, label: object) -> dict[str, object]:
    return {"start": start, "end": end, "label": label}


def document(tmp_path: Path, **changes: object) -> Path:
    whole = {
        "schema": "dejacue.annotation/1",
        "history": "H001",
        "annotator": "A",
        "runs": [run(0, 4, "pre")],
    }
    path = tmp_path / "pass.json"
    content = {key: value for key, value in (whole | changes).items() if value is not ...}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"schema": ...}, "schema"),
        ({"schema": "dejacue.history/1"}, "dejacue.history/1"),
        ({"annotator": ...}, "annotator"),
        ({"anotator": "A"}, "anotator"),
        ({"annotator": " "}, "annotator"),
        ({"annotator": None}, "annotator None"),
        ({"history": 7}, "history 7"),
        ({"history": "\ud800"}, r"\ud800"),
        ({"runs": {}}, "runs {}"),
        ({"runs": []}, "no runs"),
        ({"runs": [[0, 4, "pre"]]}, "runs[0] [0, 4, 'pre']"),
        ({"runs": [{"start": 0, "end": 4}]}, 'runs[0]: has no "label"'),
        ({"runs": [run(0, 4, "pre") | {"lable": "pre"}]}, 'runs[0]: unknown key "lable"'),
        ({"runs": [run(0, 4, "trans")]}, 'runs[0]: unknown label "trans"'),
        ({"runs": [run(0, 4, ["pre"])]}, "runs[0].label ['pre']"),
        ({"runs": [run(5, 4, "pre")]}, "runs[0]: window [5, 4]"),
        ({"runs": [run(-1, 4, "pre")]}, "runs[0].start -1"),
        ({"runs": [run(0, 4.0, "pre")]}, "runs[0].end 4.0"),
        ({"runs": [run(0, True, "pre")]}, "runs[0].end True"),
        ({"runs": [run("0", 4, "pre")]}, "runs[0].start '0'"),
        ({"runs": [run(0, 10**15, "pre")]}, "at most 1000000"),
        ({"runs": [run(0, 4, "pre"), run(4, 9, "post")]}, "runs[1] starts at frame 4"),
        ({"runs": [run(5, 9, "pre"), run(0, 4, "post")]}, "runs[1] starts at frame 0"),
        ({"runs": [run(0, 4, "pre"), run(7, 9, "post")]}, "frames [5, 6]"),
        ({"runs": [run(0, 4, "pre"), run(6, 9, "post")]}, "frames [5, 5]"),
        ({"runs": [run(2, 4, "pre"), run(5, 9, None)]}, "frame 5"),
    ],
)
def test_a_pass_with_a_slip_is_refused_with_its_place(tmp_path, changes, place) -> None:
    path = document(tmp_path, **changes)
    with refused(path, place) as caught:
        read_pass(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"runs: pre",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"schema": "dejacue.annotation/1", "history": "a", "history": "b"}',
        b'{"runs": [{"label": "pre", "label": "post"}]}',
    ],
)
def test_a_file_that_is_no_document_is_refused(tmp_path, raw) -> None:
    path = tmp_path / "pass.json"
    path.write_bytes(raw)
    with refused(path):
        read_pass(path)


def test_every_truncation_of_a_file_is_refused(tmp_path: Path) -> None:
    path = write_pass(tmp_path / "a.json", labelled("pptq"))
    whole = path.read_bytes()
    for length in range(1, len(whole) - 1):  # only the line's end may be missing
        path.write_bytes(whole[:length])
        with refused(path):
            read_pass(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with refused(path):
            read_pass(path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = document(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert letters(read_pass(path)) == "ppppp"


# Two passes


def test_disagreements_are_maximal_runs_with_both_labels() -> None:
    a = labelled("pppptttqqq", "A", start=10)
    b = labelled("ppttttqqqu", "B", start=10)
    assert disagreements(a, b) == [
        Disagreement(Window(12, 13), "pre", "transition"),
        Disagreement(Window(16, 16), "transition", "post"),
        Disagreement(Window(19, 19), "post", "unobserved"),
    ]


def test_a_run_of_disagreement_ends_where_either_label_changes() -> None:
    rows = disagreements(labelled("pptt", "A"), labelled("tqqp", "B"))
    assert [tuple(row.window) for row in rows] == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_frame_is_observed_if_one_pass_says_so() -> None:
    a, b = labelled("uupptuq", "A"), labelled("upputuq", "B")
    assert observed(a, b) == (
        ["unobserved", "pre", "pre", "transition", "post"],
        ["pre", "pre", "unobserved", "transition", "post"],
    )
    assert observed(labelled("uu"), labelled("uu", "B")) == ([], [])


@given(st.lists(st.tuples(*[st.sampled_from("ptqu")] * 2), min_size=1, max_size=40))
def test_disagreements_cover_exactly_the_frames_that_differ(pairs) -> None:
    first, second = ("".join(side) for side in zip(*pairs, strict=True))
    rows = disagreements(labelled(first), labelled(second, "B"))
    covered = [frame for row in rows for frame in range(row.window.start, row.window.end + 1)]
    assert covered == [at for at, (a, b) in enumerate(pairs) if a != b]


@pytest.mark.parametrize(
    ("second", "fact"),
    [
        (labelled("ppp", "B", history="H002"), "history"),
        (labelled("pppp", "B"), "frames"),
        (labelled("ppp", "B", start=1), "frames"),
        (labelled("ppp", " a "), 'history H001: both passes are by "A"'),
        (labelled("p.p", "B"), "frame 1"),
        (labelled("ppp", "consensus"), "consensus"),
    ],
)
def test_passes_that_cannot_be_compared_are_refused(second, fact) -> None:
    with refused(fact):
        disagreements(labelled("ppp", "A"), second)


def test_the_consensus_takes_the_decisions_where_the_passes_differ() -> None:
    a, b = labelled("ppppttqq", "A", start=3), labelled("pptttqqq", "B", start=3)
    result = consensus(a, b, decided(a, b, "transition", "unobserved"))
    assert letters(result) == "ppttt" + "u" + "qq"
    assert (result.annotator, result.history, result.frames) == ("consensus", "H001", Window(3, 10))


def test_a_run_may_be_decided_in_parts_and_in_any_order() -> None:
    a, b = labelled("pppp", "A"), labelled("tttt", "B")
    parts = (
        Disagreement(Window(2, 3), "pre", "transition", "transition"),
        Disagreement(Window(0, 1), "pre", "transition", "pre"),
    )
    assert letters(consensus(a, b, Decisions("H001", (" a", "B"), parts))) == "pptt"


def test_passes_that_agree_need_no_decisions() -> None:
    a, b = labelled("ptq", "A"), labelled("ptq", "B")
    assert letters(consensus(a, b)) == letters(consensus(a, b, decided(a, b))) == "ptq"


@given(st.lists(st.tuples(*[st.sampled_from("ptqu")] * 3), min_size=1, max_size=40))
def test_the_consensus_never_changes_an_agreed_frame(triples) -> None:
    first, second, _ = ("".join(side) for side in zip(*triples, strict=True))
    a, b = labelled(first), labelled(second, "B")
    rows = tuple(
        Disagreement(Window(at, at), SHORT[x], SHORT[y], SHORT[z])
        for at, (x, y, z) in enumerate(triples)
        if x != y
    )
    result = letters(consensus(a, b, Decisions("H001", ("A", "B"), rows)))
    assert result == "".join(x if x == y else z for x, y, z in triples)


def row(start: int, end: int, first: str, second: str, label: str | None) -> Disagreement:
    return Disagreement(Window(start, end), SHORT[first], SHORT[second], label)


@pytest.mark.parametrize(
    ("rows", "frames"),
    [
        ([], 1),
        ([row(1, 2, "p", "t", "pre")], 5),
        ([row(1, 1, "p", "t", "pre"), row(5, 5, "t", "q", "post")], 2),
        ([row(1, 2, "p", "t", None), row(5, 5, "t", "q", "post")], 1),
        ([row(0, 2, "p", "t", "pre"), row(5, 5, "t", "q", "post")], Window(0, 0)),
        ([row(1, 2, "p", "t", "pre"), row(5, 7, "t", "q", "post")], Window(6, 7)),
        ([row(3, 4, "p", "t", None)], Window(3, 4)),
        ([row(1, 2, "p", "t", "pre"), row(5, 10**12, "t", "q", "post")], Window(5, 10**12)),
        ([row(1, 2, "p", "q", "pre")], Window(1, 2)),
        ([row(1, 2, "p", "t", "pre"), row(2, 2, "p", "t", "post")], 2),
    ],
)
def test_decisions_must_cover_exactly_the_disagreements(rows, frames) -> None:
    a, b = labelled("ppptttqq", "A"), labelled("pttttqqq", "B")
    with refused("frame" if isinstance(frames, int) else "frames", frames):
        consensus(a, b, Decisions("H001", ("A", "B"), tuple(rows)))


def test_decisions_belong_to_their_passes() -> None:
    a, b = labelled("p", "A"), labelled("t", "B")
    result = decided(a, b, "pre")
    with refused("history"):
        consensus(a, b, Decisions("H002", result.annotators, result.rows))
    with refused("the decisions are between A and B"):
        consensus(b, a, result)


def test_without_decisions_a_disagreement_is_named() -> None:
    with refused("frame", 0):
        consensus(labelled("p", "A"), labelled("t", "B"))


def test_decisions_come_back_from_their_file(tmp_path: Path) -> None:
    a, b = labelled("pppttqq", "A"), labelled("ppttqqq", "B")
    path = tmp_path / "decisions.json"
    for result in (open_decisions(a, b), decided(a, b, "pre", "post")):
        assert read_decisions(write_decisions(path, result)) == result
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "schema": "dejacue.decisions/1",
        "history": "H001",
        "annotators": ["A", "B"],
        "decisions": [
            {"start": 2, "end": 2, "first": "pre", "second": "transition", "label": "pre"},
            {"start": 4, "end": 4, "first": "transition", "second": "post", "label": "post"},
        ],
    }


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("dejacue.decisions/1", "dejacue.annotation/1", "dejacue.annotation/1"),
        ('"A", "B"', '"A"', "annotators ['A']"),
        ('"A", "B"', '"A", ""', "annotator"),
        ('["A", "B"]', "7", "annotators 7"),
        ('"H001"', "null", "history None"),
        ('"start": 0', '"start": 1', "decisions[0]: window [1, 0]"),
        ('"label": null', '"label": "prost"', 'decisions[0]: unknown label "prost"'),
        ('"first": "pre"', '"first": "transition"', "both transition"),
        ('"first": "pre"', '"first": null', "decisions[0].first None"),
        ('"first": "pre"', '"first": "prae"', 'decisions[0]: unknown label "prae"'),
        (', "label": null', "", 'decisions[0]: has no "label"'),
    ],
)
def test_decisions_with_a_slip_are_refused(tmp_path, old, new, place) -> None:
    path = write_decisions(
        tmp_path / "d.json", open_decisions(labelled("p", "A"), labelled("t", "B"))
    )
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    with refused(path, place):
        read_decisions(path)


# Events


def test_an_event_is_pre_transition_post_without_anything_between() -> None:
    pass_ = labelled("ppppp" + "tt" + "qqqqqq", start=100)
    assert events(pass_) == [Event(Window(100, 104), Window(105, 106), Window(107, 112))]


@pytest.mark.parametrize(
    "text",
    [
        "pppp" + "t" + "qqqqq",  # the first side is short
        "ppppp" + "t" + "qqqq",  # the second side is short
        "ppppp" + "qqqqq",  # no transition
        "ppppp" + "u" + "t" + "qqqqq",
        "ppppp" + "t" + "u" + "qqqqq",
        "ppppp" + "t" + "u" + "t" + "qqqqq",
        "qqqqq" + "t" + "ppppp",
        "ppp" + "u" + "ppp" + "t" + "qqqqq",  # 6 frames, but not in one run
        "ppppp" + "t",
        "p",
    ],
)
def test_what_is_not_an_event(text) -> None:
    assert events(labelled(text)) == []


def test_several_events_come_in_order() -> None:
    pass_ = labelled("pppppp" + "t" + "qqqqq" + "t" + "ppppp" + "tt" + "qqqqq")
    assert events(pass_) == [
        Event(Window(0, 5), Window(6, 6), Window(7, 11)),
        Event(Window(13, 17), Window(18, 19), Window(20, 24)),
    ]
    assert events(pass_, minimum=6) == []


@given(st.text("ptqu", min_size=1, max_size=60), st.integers(1, 4))
def test_events_are_those_that_a_pattern_finds(text, minimum) -> None:
    pattern = rf"(?<!p)(?=(p{{{minimum},}})(t+)(q{{{minimum},}}))"
    expected = [
        Event(*(Window(m.start(g), m.end(g) - 1) for g in (1, 2, 3)))
        for m in re.finditer(pattern, text)
    ]
    assert events(labelled(text), minimum) == expected


def test_events_need_a_complete_pass_and_a_minimum() -> None:
    with refused("frame", 2):
        events(labelled("pp."))
    for minimum in (0, -1, 2.5):
        with refused("minimum", minimum):
            events(labelled("p"), minimum)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pppp" + "qqqqq", "no frame is labelled transition"),
        (
            "pppp" + "tt" + "qqqqq",
            "before the transition [14, 15], the pre run [10, 13] has 4 frames, but 5 are needed",
        ),
        (
            "ppppp" + "t" + "q",
            "after the transition [15, 15], the post run [16, 16] has 1 frame, but 5 are needed",
        ),
        (
            "pp" + "t" + "qqq",
            "before the transition [12, 12], the pre run [10, 11] has 2 frames, but 5 are needed; "
            "after the transition [12, 12], the post run [13, 15] has 3 frames, but 5 are needed",
        ),
        (
            "ppppp" + "t" + "u" + "qqqqq",
            "the transition [15, 15] is followed by unobserved, not by post",
        ),
        (
            "ppppp" + "u" + "t" + "qqqqq",
            "the transition [16, 16] is preceded by unobserved, not by pre",
        ),
        ("ppppp" + "t", "the transition [15, 15] is followed by nothing, not by post"),
        ("t" + "qqqqq", "the transition [10, 10] is preceded by nothing, not by pre"),
        (
            "qqqqq" + "t" + "ppppp",
            "the transition [15, 15] leads from post to pre, not from pre to post; "
            "the earlier state is pre",
        ),
    ],
)
def test_a_pass_without_an_event_is_told_why(text, why) -> None:
    assert nearest_miss(labelled(text, start=10)) == why


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("qqqqq" + "t" + "ppppp" + "t" + "u", "the transition [11, 11] is followed by unobserved"),
        (
            "ppppp" + "t" + "u" + "ppp" + "t" + "qqqqq",
            "before the transition [10, 10], the pre run",
        ),
        ("p" + "t" + "qqqqq" + "u" + "pppp" + "t" + "qqqqq", "before the transition [12, 12]"),
        ("pppp" + "t" + "qqqqq" + "u" + "pppp" + "t" + "qqqqq", "before the transition [4, 4]"),
        ("ppp" + "t" + "qqq" + "u" + "pp" + "t" + "qqqqq", "before the transition [10, 10]"),
    ],
)
def test_the_nearest_miss_has_its_neighbours_first_then_most_frames(text, near) -> None:
    assert nearest_miss(labelled(text)).startswith(near)


@given(st.text("ptqu", min_size=1, max_size=40), st.integers(1, 4))
def test_there_is_a_miss_exactly_where_there_is_no_event(text, minimum) -> None:
    pass_ = labelled(text)
    assert (nearest_miss(pass_, minimum) == "") == bool(events(pass_, minimum))


def test_stable_runs_outside_the_event_are_found() -> None:
    pass_ = labelled("ppppp" + "u" + "pppppp" + "t" + "qqqqq" + "u" + "qqqq" + "t" + "ppppp")
    (event,) = events(pass_)
    assert event.pre == Window(6, 11)
    assert other_runs(pass_, event) == {"pre": [Window(0, 4), Window(24, 28)], "post": []}
    assert other_runs(pass_, event, 4)["post"] == [Window(19, 22)]


def test_the_reference_has_the_stable_sides() -> None:
    pass_ = labelled("u" + "ppppp" + "t" + "qqqqq", start=9)
    sides = {"pre": (Window(10, 14),), "post": (Window(16, 20),)}
    assert reference(pass_, events(pass_)[0]) == Reference("H001", sides, frames=Window(9, 20))


def test_the_reference_takes_the_names_of_the_vocabulary() -> None:
    pass_ = labelled("ppppp" + "t" + "qqqqq")
    event = events(pass_)[0]
    named = reference(pass_, event, "empty", "filled", component="kitchen-01")
    sides = {"empty": (Window(0, 4),), "filled": (Window(6, 10),)}
    assert named == Reference("H001", sides, "kitchen-01", Window(0, 10))
    with refused("post", "cup"):
        reference(pass_, event, "cup", "cup")
    for names in (("", "filled"), ("empty", "a\nb"), ("empty", "filled", " ")):
        with refused("state" if len(names) == 2 else "component"):
            reference(pass_, event, *names)


# The commands


@pytest.fixture
def wide(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def passes(tmp_path: Path) -> tuple[Path, Path]:
    a, b = labelled("pppppttqqqqq", "Ann"), labelled("ppppptqqqqqq", "[b]Bob")
    return write_pass(tmp_path / "a.json", a), write_pass(tmp_path / "b.json", b)


def test_a_history_of_more_frames_of_the_file_than_can_be_labelled_is_refused(tmp_path) -> None:
    path = tmp_path / "h.npz"
    write_history(path, History(np.ones((2, 3)), source_frames=[0, 2**50]))
    with refused("frames", 2**50 + 1):
        annotating.start("A", tmp_path / "pass.json", path)


def test_start_command_reads_a_history(wide, tmp_path, capsys) -> None:
    history = History(np.ones((3, 2)), frames=[2, 3, 6], id="cup")
    path, output = tmp_path / "cup.history.npz", tmp_path / "a.json"
    write_history(path, history)
    annotating.start("A", output, path)
    assert json.loads(output.read_text())["runs"] == [
        run(2, 3, None),
        run(4, 5, "unobserved"),
        run(6, 6, None),
    ]
    assert "5 frames of cup for A" in capsys.readouterr().out
    annotating.start("A", tmp_path / "other.json", path, id="H007")
    assert json.loads((tmp_path / "other.json").read_text())["history"] == "H007"


def test_start_command_counts_the_frames_of_the_file_where_some_were_sampled(wide, tmp_path):
    history = History(np.ones((4, 2)), [0, 1, 3, 4], "cup", source_frames=[10, 15, 25, 30])
    write_history(tmp_path / "cup.npz", history)
    annotating.start("A", tmp_path / "a.json", tmp_path / "cup.npz")
    assert json.loads((tmp_path / "a.json").read_text())["runs"] == [
        run(10, 15, None),
        run(16, 24, "unobserved"),
        run(25, 30, None),
    ]


def test_start_command_works_without_a_file(wide, tmp_path) -> None:
    output = tmp_path / "a.json"
    annotating.start("A", output, frames="5:9", id="cup")
    written = json.loads(output.read_text())
    assert (written["history"], written["runs"]) == ("cup", [run(5, 9, None)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either a history file or --frames"),
        ({"history": Path("x.npz"), "frames": "0:9"}, "either a history file or --frames"),
        ({"frames": "0:9"}, "give it with --id"),
        ({"frames": "9", "id": "cup"}, '"9" is not FIRST:LAST'),
        ({"frames": "-3:9", "id": "cup"}, "is not FIRST:LAST"),
        ({"frames": "9:0", "id": "cup"}, "--frames 9:0: .* ends before it starts"),
        ({"frames": "0:999999999", "id": "cup"}, "at most 1000000"),
        ({"history": Path("not-there.npz")}, "not-there.npz: no such file"),
    ],
)
def test_start_command_refuses_what_it_cannot_read(tmp_path, options, message) -> None:
    output = tmp_path / "a.json"
    with pytest.raises(InputError, match=message):
        annotating.start(**{"history": None, "annotator": "A", "output": output} | options)
    assert not output.exists()


def test_filled_in_files_are_not_written_over(wide, tmp_path, passes) -> None:
    first, second = passes
    before = first.read_bytes()
    with pytest.raises(InputError, match=r"a\.json: already exists; .* --force"):
        annotating.start("A", first, frames="0:9", id="cup")
    with pytest.raises(InputError, match=r"b\.json: is read by this command"):
        annotating.consensus(first, second, second, force=True)
    with pytest.raises(InputError, match=r"a\.json: is read by this command"):
        annotating.events([second, first], first, force=True)
    decisions = tmp_path / "d.json"
    annotating.consensus(first, second, decisions)
    with pytest.raises(InputError, match=r"d\.json: already exists"):
        annotating.consensus(first, second, decisions)
    assert first.read_bytes() == before
    annotating.start("A", first, frames="0:9", id="cup", force=True)
    assert json.loads(first.read_text())["history"] == "cup"


def test_consensus_command_asks_for_decisions_then_takes_them(wide, tmp_path, passes, capsys):
    first, second = passes
    decisions, output = tmp_path / "d.json", tmp_path / "c.json"
    annotating.consensus(first, second, decisions)
    printed = capsys.readouterr().out
    assert "--decisions" in printed
    assert "[b]Bob" in printed
    # 11 of 12 agree; chance = (5·5 + 2·1 + 5·6)/144
    chance = 57 / 144
    rates = (11 / 12, chance, (11 / 12 - chance) / (1 - chance))
    for scope in ("all frames", "observed frames"):
        assert cells(printed, scope) == ["12", "11", *(f"{rate:.3f}" for rate in rates)]
    assert re.search(r"6 – 6 +\W+ transition +\W+ post", printed)
    with refused("frame", 6):
        annotating.consensus(first, second, output, decisions)
    assert not output.exists()
    decisions.write_text(decisions.read_text().replace("null", '"post"'))
    annotating.consensus(first, second, output, decisions)
    result = read_pass(output)
    assert (letters(result), result.annotator) == ("ppppptqqqqqq", "consensus")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"{output}: the consensus on H001; continue with: dejacue annotate events {output}"
    )


def cells(printed: str, name: str) -> list[str]:
    """Return the cells of the row of a table that has this name."""
    (line,) = (line for line in printed.splitlines() if re.match(rf"│ {re.escape(name)} ", line))
    return [cell.strip() for cell in line.strip("│").split("│")][1:]


def test_consensus_command_needs_no_decisions_where_all_agree(wide, tmp_path, capsys) -> None:
    paths = [write_pass(tmp_path / f"{n}.json", labelled("ptq", n)) for n in "ab"]
    output = tmp_path / "c.json"
    annotating.consensus(*paths, output)
    assert letters(read_pass(output)) == "ptq"
    printed = capsys.readouterr().out
    assert cells(printed, "all frames") == ["3", "3", "1.000", "0.333", "1.000"]
    assert "disagreements" not in printed
    assert printed.splitlines()[-1] == (
        f"the passes agree on every frame; {output} is the consensus, "
        f"continue with: dejacue annotate events {output}"
    )


@pytest.mark.parametrize(
    ("first", "second", "everything", "seen"),
    [
        # chance over all frames: (6·5 + 2·3 + 2·2)/100; over the observed ones (1·0 + 2·3 + 2·2)/25
        (
            "uuuuuuppqq",
            "uuuuupppqq",
            ["10", "9", "0.900", "0.400", "0.833"],
            ["5", "4", "0.800", "0.400", "0.667"],
        ),
        ("uupp", "uupp", ["4", "4", "1.000", "0.500", "1.000"], ["2", "2", "1.000", "1.000", "–"]),
        ("uu", "uu", ["2", "2", "1.000", "1.000", "–"], ["0", "0", "–", "–", "–"]),
    ],
)
def test_agreement_is_shown_over_all_and_over_observed_frames(
    wide, tmp_path, capsys, first, second, everything, seen
) -> None:
    paths = [
        write_pass(tmp_path / f"{name}.json", labelled(text, name))
        for name, text in (("a", first), ("b", second))
    ]
    annotating.consensus(*paths, tmp_path / "c.json")
    printed = capsys.readouterr().out
    assert (cells(printed, "all frames"), cells(printed, "observed frames")) == (everything, seen)


def test_consensus_command_refuses_a_decision_on_what_is_agreed(wide, tmp_path, passes) -> None:
    result = decided(*map(read_pass, passes), "post")
    rows = (*result.rows, row(8, 10, "t", "q", "post"))
    path = write_decisions(tmp_path / "d.json", Decisions("H001", result.annotators, rows))
    with refused("frames", Window(8, 10)):
        annotating.consensus(*passes, tmp_path / "c.json", path)
    assert not (tmp_path / "c.json").exists()


def test_consensus_command_names_both_files_that_do_not_belong_together(tmp_path, passes) -> None:
    other = write_pass(tmp_path / "x.json", labelled("ptq", "B", history="H002"))
    with refused("history") as caught:
        annotating.consensus(passes[0], other, tmp_path / "c.json")
    assert str(caught.value).startswith(f"{passes[0]} and {other}: ")


ONE_EVENT = "ppppp" + "t" + "qqqqq"


def agreed(path: Path, text: str = ONE_EVENT, history: str = "H001") -> Path:
    """Write the file of a consensus."""
    return write_pass(path, labelled(text, "consensus", history=history))


def test_events_command_marks_the_earliest_and_writes_it(wide, tmp_path, capsys) -> None:
    text = "ppppp" + "t" + "qqqqq" + "t" + "ppppp" + "t" + "qqqqq"
    path, output = agreed(tmp_path / "c.json", text), tmp_path / "references.json"
    annotating.events([path], output)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    (marked,) = (line for line in lines if "│ earliest" in line)
    assert "0 – 4" in marked
    assert any("12 – 16" in line for line in lines)
    sides = {"pre": (Window(0, 4),), "post": (Window(6, 10),)}
    assert read_references(output) == [Reference("H001", sides, frames=Window(0, 22))]
    why = "not in the references (only the earliest event counts)"
    assert lines[-1] == f"{output}: the references of H001, states pre and post"
    assert printed.err.splitlines() == [
        f"note: {path}: pre also holds in [12, 16]: {why}",
        f"note: {path}: post also holds in [18, 22]: {why}",
    ]


def test_events_command_has_no_notes_where_everything_counts(wide, tmp_path, capsys) -> None:
    annotating.events([agreed(tmp_path / "c.json", "pppp" + "u" + ONE_EVENT)])
    printed = capsys.readouterr().out
    assert "note:" not in printed
    assert "nothing was written" in printed


def test_events_command_takes_many_files_and_the_names_of_the_states(wide, tmp_path, capsys):
    first = agreed(tmp_path / "a.json", "ppppppp" + "u" + ONE_EVENT, "cup")
    second = agreed(tmp_path / "b.json", history="pan")
    output = tmp_path / "truth.json"
    annotating.events([first, second], output, pre="[b]", post="full", component="kitchen")
    assert read_references(output) == [
        Reference("cup", {"[b]": [(8, 12)], "full": [(14, 18)]}, "kitchen", Window(0, 18)),
        Reference("pan", {"[b]": [(0, 4)], "full": [(6, 10)]}, "kitchen", Window(0, 10)),
    ]
    printed, notes = capsys.readouterr()
    assert f"note: {first}: [b] also holds in [0, 6]: not in the references" in notes
    assert f"{output}: the references of 2 histories, states [b] and full" in printed
    assert [cells(printed, name)[0] for name in ("cup", "pan")] == ["1", "1"]


def test_events_command_refuses_a_history_that_comes_twice(tmp_path) -> None:
    paths = [agreed(tmp_path / name) for name in ("a.json", "b.json")]
    output = tmp_path / "truth.json"
    with pytest.raises(
        InputError, match=r"a\.json and .*b\.json: both belong to history H001; give"
    ):
        annotating.events(paths, output)
    with pytest.raises(InputError, match="give each history once"):
        annotating.events(paths[:1] * 2, output)
    assert not output.exists()


def test_events_command_replaces_references_only_when_forced(wide, tmp_path) -> None:
    path, output = agreed(tmp_path / "a.json"), tmp_path / "truth.json"
    output.write_text("mine")
    with pytest.raises(InputError, match=r"truth\.json: already exists; .* --force"):
        annotating.events([path], output)
    assert output.read_text() == "mine"
    annotating.events([path], output, force=True)
    assert read_references(output)[0].history_id == "H001"


def test_events_command_writes_csv_with_the_frames(tmp_path, passes) -> None:
    for name in ("references.csv", "references.json"):
        annotating.events([passes[0]], tmp_path / name)
    (reference,) = read_references(tmp_path / "references.csv")
    assert reference.frames is not None
    assert [reference] == read_references(tmp_path / "references.json")


def test_events_command_says_when_a_pass_is_no_consensus(wide, passes, capsys) -> None:
    annotating.events([passes[0]])
    assert "a.json: is the pass of Ann only, not a consensus" in capsys.readouterr().err


def test_events_command_without_an_event_says_why_and_writes_nothing(wide, tmp_path) -> None:
    path, output = agreed(tmp_path / "c.json", "ppptqqqqq"), tmp_path / "references.json"
    why = r"c\.json: no event qualifies: before .* run \[0, 2\] has 3 frames, but 5 are needed$"
    for skip in (False, True):
        with pytest.raises(DejaCueError, match=why) as caught:
            annotating.events([path], output, skip=skip)
        assert not isinstance(caught.value, InputError)  # exit code 1: the file itself is fine
    assert not output.exists()
    annotating.events([path], output, minimum=3)
    assert output.exists()


def test_events_command_names_every_file_without_an_event(wide, tmp_path, capsys) -> None:
    good = agreed(tmp_path / "a.json", history="cup")
    bad = [agreed(tmp_path / "b.json", "pq", "pan"), agreed(tmp_path / "c.json", "pt", "pot")]
    output = tmp_path / "truth.json"
    with pytest.raises(DejaCueError, match=r"in 2 of 3 files; nothing was written; --skip leaves"):
        annotating.events([good, *bad], output)
    assert capsys.readouterr().err.splitlines() == [
        f"{bad[0]}: no event qualifies: no frame is labelled transition",
        f"{bad[1]}: no event qualifies: before the transition [1, 1], the pre run [0, 0] has "
        "1 frame, but 5 are needed; the transition [1, 1] is followed by nothing, not by post",
    ]
    assert not output.exists()
    with pytest.raises(DejaCueError, match=r"in 2 of 2 files; nothing was written$"):
        annotating.events(bad, output, skip=True)
    assert not output.exists()
    capsys.readouterr()
    annotating.events([good, *bad], output, skip=True)
    assert [reference.history_id for reference in read_references(output)] == ["cup"]
    left = capsys.readouterr().err.splitlines()
    assert [line.split(": no event")[0] for line in left] == [
        f"note: left out: {path}" for path in bad
    ]


# Any number of states

CUP = ("empty", "half full", "full")
CUP_LETTERS = {"e": "empty", "h": "half full", "f": "full", "n": "none", "u": "unobserved"}


def cup(text: str, annotator: str = "A", states: tuple[str, ...] = CUP) -> Pass:
    labels = tuple(CUP_LETTERS.get(letter) for letter in text)
    return Pass("H001", annotator, Window(0, len(text) - 1), labels, states)


@given(st.text("ehfnu", min_size=1, max_size=40))
def test_a_pass_of_named_states_is_read_back(tmp_path_factory, text) -> None:
    path = write_pass(tmp_path_factory.mktemp("passes") / "a.json", cup(text))
    assert json.loads(path.read_text())["schema"] == "dejacue.annotation/2"
    assert read_pass(path) == cup(text)


def test_a_pass_of_the_protocol_keeps_its_format(tmp_path) -> None:
    path = write_pass(tmp_path / "a.json", labelled("pptq"))
    document = json.loads(path.read_text())
    assert document["schema"] == "dejacue.annotation/1"
    assert "states" not in document


@pytest.mark.parametrize(
    ("states", "fact"),
    [
        ((), "states"),
        (("empty", "none"), "none"),
        (("unobserved",), "unobserved"),
        (("empty", "empty"), "empty"),
        (("empty", " "), " "),
    ],
)
def test_states_that_cannot_be_labels_are_refused(states, fact) -> None:
    with refused(fact):
        Pass("H001", "A", Window(0, 0), (None,), states)


def test_a_label_that_is_no_state_of_the_pass_is_refused(tmp_path) -> None:
    path = write_pass(tmp_path / "a.json", cup("eef"))
    path.write_text(path.read_text().replace('"label": "full"', '"label": "pre"'))
    with refused(path, "label", "pre"):
        read_pass(path)


def test_an_open_pass_is_read_where_it_need_not_be_complete(tmp_path) -> None:
    path = write_pass(tmp_path / "a.json", cup("ee.f"))
    assert read_pass(path, complete=False).labels == ("empty", "empty", None, "full")
    with refused(path, "frame", 2):
        read_pass(path)


def test_passes_of_other_states_have_no_consensus() -> None:
    with refused("states"):
        disagreements(cup("ee"), cup("ee", "B", ("empty", "full")))


def test_the_consensus_of_named_states_has_them(tmp_path) -> None:
    a, b = cup("eeehhff"), cup("eeenhff", "B")
    to_decide = open_decisions(a, b)
    assert to_decide.states == CUP
    path = write_decisions(tmp_path / "d.json", to_decide)
    assert read_decisions(path) == to_decide
    path.write_text(path.read_text().replace('"label": null', '"label": "none"'))
    agreed = consensus(a, b, read_decisions(path))
    assert (agreed.states, agreed.labels[3]) == (CUP, "none")
    path.write_text(path.read_text().replace('"label": "none"', '"label": "pre"'))
    with refused(path, "label", "pre"):
        read_decisions(path)


def test_changes_lead_from_one_stable_state_to_another() -> None:
    assert changes(cup("eeeeennhhhhhfffffnfffffuueeeeehhe")) == [
        StateChange("empty", Window(0, 4), Window(5, 6), "half full", Window(7, 11)),
        StateChange("half full", Window(7, 11), None, "full", Window(12, 16)),
    ]
    assert len(changes(cup("eeeeehhe"), minimum=1)) == 2
    with refused("states"):
        events(cup("eeeee"))


def test_every_stable_run_of_a_state_is_a_reference() -> None:
    states = {"empty": [(0, 4), (12, 16)], "full": [(6, 11)]}
    expected = Reference("H001", states, frames=Window(0, 19))
    assert stable_reference(cup("eeeeenffffffeeeeehhn")) == expected
    with refused("minimum", 9):
        stable_reference(cup("eeeeenff"), 9)


def test_the_commands_know_named_states(dejacue, tmp_path) -> None:
    for name in "AB":
        words = f"annotate start -a {name} --frames 0:9 --id cup --states".split()
        done = dejacue(*words, "empty, full", "-o", tmp_path / f"{name}.json")
        assert done.code == 0
        assert "replace every null with one of empty, full, none, unobserved" in done.out
        text = "eeeeefffff" if name == "A" else "eeeeenffff"
        labels = tuple(CUP_LETTERS[letter] for letter in text)
        write_pass(
            tmp_path / f"{name}.json", Pass("cup", name, Window(0, 9), labels, ("empty", "full"))
        )
    places = [tmp_path / name for name in ("A.json", "B.json", "d.json", "c.json", "t.json")]
    assert dejacue("annotate", "consensus", *places[:2], "-o", places[2]).code == 0
    places[2].write_text(places[2].read_text().replace("null", '"full"'))
    assert dejacue("annotate", "consensus", *places[:2], "-d", places[2], "-o", places[3]).code == 0
    done = dejacue("annotate", "events", places[3], "-o", places[4])
    assert done.code == 0
    assert re.search(r"cup .* empty .* 0 – 4 .* full .* 5 – 9", done.out)
    (truth,) = read_references(places[4])
    assert truth.states == {"empty": (Window(0, 4),), "full": (Window(5, 9),)}
    done = dejacue("annotate", "events", places[3], "--pre", "empty")
    assert done.code == 2
    assert "cannot be combined with passes that name their states" in done.err
