"""Errors are one line, which is short enough to read."""

from __future__ import annotations

import pickle
from importlib import metadata

import numpy as np
import pytest
from helpers.errors import refused

import dejacue
from dejacue import DejaCueError, History, InputError
from dejacue.errors import (
    MAX_LETTERS,
    Cancelled,
    MissingData,
    MissingExtra,
    extra,
    in_file,
    named,
    need,
    unknown,
)
from dejacue.files import read_history, read_references, read_timelines, write_history


@pytest.mark.parametrize("kind", [DejaCueError, InputError, MissingData, MissingExtra, Cancelled])
def test_an_error_is_one_line_also_after_pickling(kind) -> None:
    error = kind("a.csv: line 7: end -3\nis negative; give 0")
    for copy in (error, pickle.loads(pickle.dumps(error))):
        assert type(copy) is kind
        assert str(copy) == "a.csv: line 7: end -3 is negative; give 0"


def test_a_file_and_a_place_are_added_on_the_way_out() -> None:
    with pytest.raises(InputError) as caught, in_file("b.json", line=2), named("intervals[3]"):
        raise InputError("end before start")
    assert str(caught.value) == "b.json: line 2: intervals[3]: end before start"
    with pytest.raises(InputError) as caught, in_file("outer.json"), in_file("inner.npz"):
        raise InputError("is empty")
    assert str(caught.value) == "outer.json: inner.npz: is empty"
    with pytest.raises(InputError) as caught, in_file("b.json"):
        raise InputError("b.json: is empty")
    assert str(caught.value) == "b.json: is empty"


def test_an_unknown_name_and_a_missing_package_name_the_remedy() -> None:
    error = unknown("state", "ful", ["empty", "full"])
    assert str(error) == 'unknown state "ful"; did you mean "full"? known: empty, full'
    with refused("no_such_package is not installed; pip install it", kind=MissingExtra):
        need("no_such_package", "pip install it")


def test_a_message_is_never_longer_than_one_can_read() -> None:
    error = InputError(f"a.json: {'x' * 5000}; give another")
    assert len(str(error)) <= MAX_LETTERS
    assert str(error).startswith("a.json: x")
    assert str(error).endswith("; give another")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'dejacue[ray]'"),
        (
            '{"url": "file:///my%20code/dejacue", "dir_info": {}}',
            "pip install '/my code/dejacue[ray]'",
        ),
        (
            '{"url": "file:///code", "dir_info": {"editable": true}}',
            "pip install -e '/code[ray]'",
        ),
        ("not JSON", "pip install 'dejacue[ray]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(origin, command, monkeypatch) -> None:
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: origin)
    assert extra.__wrapped__("ray") == command


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_a_path_that_no_file_can_have_is_refused(name, tmp_path) -> None:
    history = History(np.eye(2, dtype=np.float32), np.arange(2), id="h")
    calls = {
        lambda path: dejacue.open_video(path): ".mp4",
        lambda path: dejacue.open_masks(path): ".json",
        lambda path: dejacue.check_words(path): ".yaml",
        lambda path: dejacue.ingest(path, tmp_path / "store"): ".csv",
        lambda path: dejacue.ingest([{"video": path, "masks": "m"}], tmp_path / "store"): "",
        lambda path: dejacue.Store.create(path, encoder="e"): "",
        lambda path: dejacue.Store.open(path): "",
        lambda path: dejacue.Finding.read(path): "",
        lambda path: read_references(path): ".csv",
        lambda path: read_timelines(path): ".json",
        lambda path: read_history(path): ".npz",
        lambda path: write_history(path, history): ".npz",
    }
    for call, suffix in calls.items():
        with pytest.raises(InputError):
            call(f"{name}{suffix}")
