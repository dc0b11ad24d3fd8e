"""Passes from and to other tools: what was marked there is a label for every frame here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.errors import refused
from helpers.peers import PEER, need
from hypothesis import given
from hypothesis import strategies as st

from dejacue import History, Reference
from dejacue.files import write_history, write_references
from dejacue.files.formats.registry import FORMATS
from dejacue.method import Window
from dejacue_paper.data.annotation import (
    Pass,
    filled,
    marks_of,
    read_pass,
    states_in,
    template,
    write_pass,
)

TIMES = [0.0, 0.04, 0.08, 0.12, 0.2, 0.24, 0.28, 0.32, 0.36, 0.4]  # frame 4 is not seen
SEEN = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
MARKS = {"empty": [(0, 2)], "full": [(6, 10)]}
KINDS = [
    *(pytest.param(kind, marks=PEER if FORMATS[kind].needs else ()) for kind in FORMATS),
    "csv",
    "json",
    "parquet",
]
LABELS = ["empty"] * 3 + ["none", "unobserved", "none"] + ["full"] * 5


@pytest.fixture
def cup(tmp_path) -> Path:
    history = History(np.ones((10, 2)), SEEN, "cup", times_s=TIMES)
    write_history(tmp_path / "cup.history.npz", history)
    return tmp_path / "cup.history.npz"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_goes_to_every_tool_and_comes_back(kind, cup, tmp_path, dejacue) -> None:
    if kind in FORMATS and FORMATS[kind].needs:
        need("rerun")
    suffix = FORMATS[kind].suffix if kind in FORMATS else f".{kind}"
    pass_ = Pass("cup", "Anna", Window(0, 10), tuple(LABELS), ("empty", "full"))
    write_pass(tmp_path / "anna.json", pass_)
    file = tmp_path / f"marks{suffix}"
    # no mark for frame 4: times of a frame that is not observed are not known
    write_references(file, [Reference("cup", MARKS)], times=cup)
    again = tmp_path / "again.json"
    ran = dejacue("annotate", "start", cup, "--from", file, "-a", "Anna", "-o", again)
    assert ran.code == 0, ran.err
    assert read_pass(again) == pass_
    if kind not in FORMATS or not FORMATS[kind].timed:
        ran = dejacue("annotate", "export", tmp_path / "anna.json", file, "--force")
        assert ran.code == 0, ran.err
        out = tmp_path / "third.json"
        words = ("-a", "Anna", "--frames", "0:10", "--id", "cup", "-o", out)
        ran = dejacue("annotate", "start", "--from", file, *words)
        assert ran.code == 0, ran.err
        assert read_pass(out) == pass_


@given(st.lists(st.sampled_from(["empty", "full", "none", "unobserved"]), min_size=1, max_size=30))
def test_marks_of_a_pass_fill_it_again(labels) -> None:
    pass_ = Pass("cup", "Anna", Window(3, 2 + len(labels)), tuple(labels), ("empty", "full"))
    blank = template("cup", range(3, 3 + len(labels)), "Anna", ("empty", "full"))
    if set(labels) == {"none"}:
        with refused("history cup: no frame has a label"):
            marks_of(pass_)
        return
    assert filled(blank, marks_of(pass_).states) == (pass_, 0)


def test_what_is_not_seen_stays_unobserved_and_frames_beyond_are_counted() -> None:
    blank = template("cup", SEEN, "Anna", ("empty", "full"))
    result, outside = filled(blank, {"empty": [Window(2, 6)], "full": [Window(9, 14)]})
    assert result.labels[2:7] == ("empty", "empty", "unobserved", "empty", "empty")
    assert outside == 4


def test_labels_of_the_protocol_make_a_pass_of_it_and_leave_the_rest_open(
    cup, tmp_path, dejacue
) -> None:
    file, out = tmp_path / "marks.csv", tmp_path / "anna.json"
    marks = {"pre": [(0, 2)], "post": [(6, 10)]}
    write_references(file, [Reference("cup", marks)])
    words = ("annotate", "start", cup, "--from", file, "-a", "Anna", "-o", out)
    ran = dejacue(*words)
    assert ran.code == 0, ran.err
    assert "note: 2 frames not labelled yet; mark them, or set their label with --rest" in ran.err
    assert json.loads(out.read_text())["schema"] == "dejacue.annotation/1"
    ran = dejacue(*words, "--rest", "transition", "--force")
    assert ran.code == 0, ran.err
    assert read_pass(out).labels.count("transition") == 2
    assert states_in(["pre", "unobserved"]) is None
    assert states_in(["full", "none", "empty"]) == ("empty", "full")


def test_two_annotators_of_elan_have_a_consensus(tmp_path, dejacue) -> None:
    elan = pytest.importorskip("pympi.Elan", reason="pympi-ling is not installed")
    write_history(
        tmp_path / "cup.history.npz",
        History(np.ones((50, 2)), range(50), "cup", times_s=0.1 * np.arange(50)),
    )
    for name, edge in (("anna", 2000), ("ben", 2300)):
        document = elan.Eaf(author=name)
        document.add_tier("cup")  # a tier for the object, its values are the states
        document.add_annotation("cup", 0, edge, "empty")
        document.add_annotation("cup", edge, 5000, "full")
        document.to_file(str(tmp_path / f"{name}.eaf"))
        words = ("--from", tmp_path / f"{name}.eaf", tmp_path / "cup.history.npz", "-a", name)
        ran = dejacue("annotate", "start", *words, "-o", tmp_path / f"{name}.json")
        assert ran.code == 0, ran.err
    both = (tmp_path / "anna.json", tmp_path / "ben.json")
    ran = dejacue("annotate", "consensus", *both, "-o", tmp_path / "decide.json")
    assert ran.code == 0, ran.err
    (row,) = json.loads((tmp_path / "decide.json").read_text())["decisions"]
    assert (row["start"], row["end"], row["first"], row["second"]) == (20, 22, "full", "empty")


@pytest.mark.parametrize(
    ("marks", "words", "sentence"),
    [
        ({"empty": [(0, 4)], "full": [(4, 9)]}, (), 'frame 4 is marked both "empty" and "full"'),
        (MARKS, ("--states", "empty,filled"), 'unknown state "full"; '),
        (MARKS, ("--rest", "gone"), 'unknown label "gone"'),
        (
            MARKS,
            ("--id", "jug"),
            'has no marks for "jug", only for cup; choose one of them with --id',
        ),
        (MARKS, ("-a", "consensus"), "is reserved for what two annotators agree on"),
        (MARKS, ("--frames", "0:3"), "give either a history file or --frames"),
    ],
)
def test_what_cannot_be_a_pass_is_refused(cup, tmp_path, dejacue, marks, words, sentence) -> None:
    file, out = tmp_path / "marks.csv", tmp_path / "anna.json"
    write_references(file, [Reference("cup", marks)])
    ran = dejacue("annotate", "start", cup, "--from", file, "-a", "Anna", "-o", out, *words)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
    assert not out.exists()


def test_an_export_names_its_format_and_replaces_nothing(tmp_path, dejacue) -> None:
    pass_ = Pass("cup", "Anna", Window(0, 10), tuple(LABELS), ("empty", "full"))
    path = write_pass(tmp_path / "anna.json", pass_)
    ran = dejacue("annotate", "export", path, tmp_path / "anna.doc")
    assert (ran.code, "the suffix is not a format" in ran.err) == (2, True)
    (tmp_path / "anna.csv").write_text("kept")
    ran = dejacue("annotate", "export", path, tmp_path / "anna.csv")
    assert (ran.code, "already exists" in ran.err) == (2, True)
    assert (tmp_path / "anna.csv").read_text() == "kept"
    ran = dejacue("annotate", "export", path, tmp_path / "anna.eaf")
    assert (ran.code, "as times" in ran.err) == (2, True)
