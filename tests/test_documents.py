"""What the documents share: where in a text it fails, and what is written comes back."""

from __future__ import annotations

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import InputError, Window
from dejacue.sources.documents import (
    Finite,
    FrameNumber,
    Name,
    as_json,
    declared,
    named,
    parse_documents,
    read_json,
    read_text,
    write_document,
)


class Span(msgspec.Struct, forbid_unknown_fields=True):
    start: FrameNumber
    end: FrameNumber
    score: Finite | None = None

    def __post_init__(self) -> None:
        Window(self.start, self.end)


class Document(msgspec.Struct, forbid_unknown_fields=True):
    schema: str
    rows: list[Span]
    name: Name = "cup"
    by_state: dict[str, list[Span]] = {}
    pair: tuple[int, int] = (0, 0)


words = st.text() | st.sampled_from(["NaN", '"Infinity', "\\", "\U0001f375"])
values = st.recursive(
    st.none() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values), st.sampled_from([None, 2]), st.booleans())
def test_documents_one_after_the_other_are_those_that_were_written(given_, indent, ascii) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii) for value in given_]
    assert parse_documents("\n".join(texts)) == given_


@given(values, st.sampled_from(["NaN", "Infinity", "-Infinity"]))
def test_a_constant_is_named_with_its_line_whatever_the_text_before_it_says(before, word) -> None:
    text = json.dumps([before], indent=1)
    line = text.count("\n") + 2
    with pytest.raises(InputError, match=f"^line {line}: {word} is not a JSON number"):
        parse_documents(f"{text}\n[{word}, NaN]\n[NaN]")


def test_a_file_is_read_up_to_its_limit(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x" * (1 << 20))
    assert len(read_text(path, 1 << 20)) == 1 << 20
    path.write_text("x" * (1 << 20) + "x")
    with pytest.raises(InputError, match=r"a\.txt: larger than 1 MB; split it$"):
        read_text(path, 1 << 20, "split it")


def test_a_name_is_put_in_front_once() -> None:
    refused = pytest.raises(InputError, match=r'^a\.json: run 1: has no "end"; add it$')
    with refused, named("a.json"), named("a.json"), named("run 1"):
        declared({"start": 1}, Span)


GOOD = {"schema": "kind/1", "rows": [{"start": 0, "end": 1}]}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rows": ...}, 'has no "rows"; add it'),
        ({"row": []}, 'unknown key "row"; did you mean "rows"? known: schema, rows, name'),
        ({"rows": 3}, "rows 3: expected a list"),
        ({"rows": [{"start": 0, "end": 1}, "x"]}, "rows[1] 'x': expected an object"),
        ({"rows": [{"start": 0}]}, 'rows[0]: has no "end"; add it'),
        ({"rows": [{"start": 0, "ends": 1}]}, 'rows[0]: unknown key "ends"; remove it'),
        ({"rows": [{"start": "a", "end": 1}]}, "rows[0].start 'a': expected a whole number"),
        ({"rows": [{"start": True, "end": 1}]}, "rows[0].start True: expected a whole number"),
        ({"rows": [{"start": 0, "end": 1.0}]}, "rows[0].end 1.0: expected a whole number"),
        ({"rows": [{"start": -1, "end": 1}]}, "rows[0].start -1: expected a whole number >= 0"),
        ({"rows": [{"start": 5, "end": 3}]}, "rows[0]: window [5, 3] ends before it starts"),
        (
            {"rows": [{"start": 0, "end": (1 << 53) + 1}]},
            "rows[0].end 9007199254740993: expected a whole number <= 9007199254740992",
        ),
        (
            {"rows": [{"start": 0, "end": 1, "score": float("inf")}]},
            "rows[0].score inf: expected a finite number",
        ),
        (
            {"rows": [{"start": 0, "end": 1, "score": "1"}]},
            "rows[0].score '1': expected a number or null",
        ),
        ({"name": " "}, "name ' ': expected text that is not empty"),
        ({"pair": [1, 2, 3]}, "pair [1, 2, 3]: expected a list of length 2, got 3"),
        ({"by_state": {"empty": [3]}}, "by_state[...][0]: expected an object"),
        ({"schema": "other/1", "lines": []}, 'is "other/1", not "kind/1"'),
        ({"schema": ...}, '"schema" is missing or not text; it must be "kind/1"'),
    ],
)
def test_what_is_not_as_declared_is_one_sentence_with_its_place(changes, sentence) -> None:
    kept = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}"):
        declared(kept, Document, schema="kind/1")


def test_only_where_it_is_not_strict_a_text_may_spell_a_number() -> None:
    row = {"start": "3", "end": "4", "score": "0.5"}
    assert declared(row, Span, strict=False) == Span(3, 4, 0.5)
    with pytest.raises(InputError, match=r"^start '3': expected a whole number$"):
        declared(row, Span)
    with pytest.raises(
        InputError, match=r"^must be an object with the keys start, end, score, not"
    ):
        declared([], Span)


def test_frames_end_where_json_numbers_are_no_longer_exact() -> None:
    assert declared({"start": 0, "end": 1 << 53}, Span).end == 1 << 53


@given(st.lists(values, max_size=4), values)
def test_a_document_has_one_row_a_line_and_comes_back(tmp_path_factory, rows, value) -> None:
    path = tmp_path_factory.getbasetemp() / "document.json"
    write_document(path, {"schema": "kind/1", "other": value}, "rows", map(as_json, rows))
    assert read_json(path) == {"schema": "kind/1", "other": value, "rows": rows}
    assert path.read_bytes().count(b"\n") == 6 + max(len(rows), 1)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), "\ud800", {1, 2}])
def test_what_json_cannot_hold_is_not_written(value) -> None:
    with pytest.raises(InputError, match="cannot be written as JSON"):
        as_json({"a": [value]})
