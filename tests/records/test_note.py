"""Notes: their order, their forms, and that the documentation lists all of them."""

from __future__ import annotations

import ast
import copy
import pickle
import re

import pytest
from helpers import ROOT

from dejacue.records import Note, Timeline
from dejacue.records.note import SEVERITIES, in_order

ROW = re.compile(r"^\| (meaningless|doubtful|information) \| (.*) \|$", re.MULTILINE)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_note_is_text_with_a_severity_that_it_keeps(severity) -> None:
    note = Note("mind: the gap", severity)
    for same in (note, Note(note), pickle.loads(pickle.dumps(note)), copy.deepcopy(note)):
        assert (same, same.severity) == ("mind: the gap", severity)
    again = Note.from_line(note.line)
    assert (again, again.severity) == (note, severity)


def test_each_note_is_given_once_and_the_most_severe_first() -> None:
    notes = in_order(["b", Note("a", "doubtful"), "a", Note("c", "meaningless"), "b"])
    assert [(note, note.severity) for note in notes] == list(zip("cab", SEVERITIES, strict=True))


def test_histories_of_one_timeline_are_meaningless_apart() -> None:
    from dejacue import Interval

    both = [
        Timeline.of([Interval("on", 0, 3)], {"on": ()}, history_id=id, notes=notes)
        for id, notes in (("a", [Note("still", "meaningless")]), ("b", ["fine"]))
    ]
    joined = Timeline.joined(both)
    assert [len(part) for part in joined.split()] == [0, 1]
    assert joined.columns()["history"] == ["b"]


def _made() -> list[tuple[str, str, str]]:
    """Return severity, longest literal part of the text, and place of each note in the product."""
    notes = []
    for path in ROOT.glob("src/**/*.py"):
        source = path.read_text("utf-8")
        if "Note(" not in source:
            continue
        tree = ast.parse(source)
        scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Note"):
                continue
            if len(call.args) < 2 or not isinstance(call.args[1], ast.Constant):
                continue  # the severity of another note
            text: ast.AST = call.args[0]
            if isinstance(text, ast.Name):  # the last value before
                inside = [s for s in scopes if s.lineno <= call.lineno <= (s.end_lineno or 0)]
                values = [
                    n.value
                    for n in ast.walk(inside[-1])
                    if isinstance(n, ast.Assign)
                    and n.lineno < call.lineno
                    and [getattr(t, "id", "") for t in n.targets] == [text.id]
                ]
                text = values[-1] if values else text
            parts = [n.value for n in ast.walk(text) if isinstance(n, ast.Constant)]
            literal = max((p for p in parts if isinstance(p, str)), key=len, default="")
            notes.append((call.args[1].value, literal.strip(" :;,"), f"{path.name}:{call.lineno}"))
    return notes


def test_the_documentation_lists_every_note_with_its_severity() -> None:
    rows = ROW.findall((ROOT / "docs" / "files.md").read_text("utf-8"))
    assert [severity for severity, _ in rows] == sorted(
        (severity for severity, _ in rows), key=SEVERITIES.index
    )
    literals = [(severity, text, place) for severity, text, place in _made() if len(text) > 12]
    assert len(literals) > 20
    for severity, text, place in literals:
        assert any(severity == other and text in row for other, row in rows), (place, text)
    from dejacue.models.encoders import UNKNOWN_WORDS
    from dejacue.models.encoders.base import UNKNOWN_PICTURES

    known = [
        *literals,
        ("meaningless", UNKNOWN_PICTURES, ""),
        ("doubtful", UNKNOWN_WORDS, ""),
        ("doubtful", "taught by the whole picture of", ""),
        ("information", ": looked at", ""),  # ObjectSearch.summary
    ]
    of_files = "what was wrong with the video, the masks or the tracking"
    for severity, row in rows:
        made = any(severity == other and text in row for other, text, _ in known)
        assert made or row.startswith(of_files), row
