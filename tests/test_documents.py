"""What the documents share: where in a text it fails, and what is written comes back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dejacue import InputError, Window
from dejacue.sources.documents import (
    as_json,
    check_document,
    check_keys,
    named,
    parse_documents,
    read_json,
    read_text,
    window_of,
    write_document,
)

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
        check_keys({"start": 1}, ("start", "end"), complete=True)


def test_only_a_complete_document_needs_its_schema_and_keys() -> None:
    check_document({}, "kind/1", ("rows",))
    with pytest.raises(InputError, match=r'^"schema" is missing or not text; it must be "kind/1"$'):
        check_document({"rows": []}, "kind/1", ("rows",), complete=True)
    with pytest.raises(InputError, match=r'^has no "rows"; add it$'):
        check_document({"schema": "kind/1"}, "kind/1", ("rows",), complete=True)
    with pytest.raises(InputError, match=r'^unknown key "row"; did you mean "rows"'):
        check_document({"row": []}, "kind/1", ("rows",))


def test_a_document_of_another_kind_is_told_by_its_schema_before_its_keys() -> None:
    with pytest.raises(InputError, match=r'^is "other/1", not "kind/1"$'):
        check_document({"schema": "other/1", "lines": []}, "kind/1", ("rows",), complete=True)


def test_frames_end_where_json_numbers_are_no_longer_exact() -> None:
    assert window_of({"start": 0, "end": 1 << 53}) == Window(0, 1 << 53)
    with pytest.raises(InputError, match=r"^end 9007199254740993 is not a whole number"):
        window_of({"start": 0, "end": (1 << 53) + 1})


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
