"""Errors: their one line, and the form of every message in the source."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
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

OF_OTHER_PROGRAMS = ("--head", "--local-dir", "--revision", "--upgrade")  # Ray, hf, pip
PROPER_NAMES = ("Ray ", "Holm's ", "GPUs ", "YAML ", "JPEG ", "Host ")


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


def messages() -> Iterator[tuple[Path, int, str]]:
    """Yield the place and the text of all messages written in the source, {} for what is put in."""
    kinds = {kind.__name__ for kind in subclasses(DejaCueError)}
    for source in (ROOT / "src", ROOT / "paper" / "src"):
        for path in source.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for part in said_by(node, kinds):
                    if text := re.sub(r"^({}: |line {}: )+", "", "".join(pieces(part))):
                        yield path.relative_to(ROOT), node.lineno, text


def said_by(node: ast.AST, kinds: set[str]) -> Iterator[ast.AST]:
    """Yield the text of an error, also of a part that is assigned to ``problem`` or ``remedy``."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) in kinds:
        yield from node.args[:1]
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        names, values = node.targets[0], node.value
        pairs = [(names, values)]
        if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple):
            pairs = list(zip(names.elts, values.elts, strict=True))
        for name, value in pairs:
            if getattr(name, "id", None) in ("problem", "remedy"):
                yield value


def subclasses(kind: type) -> Iterator[type]:
    yield kind
    for child in kind.__subclasses__():
        yield from subclasses(child)


def pieces(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from pieces(part) if isinstance(part, ast.Constant) else "{}"


def test_every_message_is_one_sentence_that_goes_on_after_a_file() -> None:
    sentences = list(messages())
    assert len(sentences) > 500
    wrong = [
        (path, line, text)
        for path, line, text in sentences
        if "\n" in text
        or ". " in text
        or text.endswith((".", "!"))
        or (text[0].isupper() and not text.startswith(PROPER_NAMES))
        or len(text) > MAX_LETTERS // 2
    ]
    assert not wrong


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a source file that are no docstrings, {} for what is put in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr)
    }
    skipped |= {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if node not in skipped and (text := "".join(pieces(node))):
            yield node.lineno, text


def test_only_the_command_line_speaks_in_options() -> None:
    """Elsewhere a message names the thing in words that fit Python, too; an option after the name
    of a command is part of a command that one can type."""
    package = ROOT / "src" / "dejacue"
    wrong = [
        (path.relative_to(package), line, text)
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "cli"
        for line, text in sentences(path)
        for option in re.finditer(r"(?<![\w-])--[a-z][a-z-]*", text)
        if option[0] not in (*OF_OTHER_PROGRAMS, text)  # a text of its own: of a list of words
        and not re.search(r"\bdejacue [a-z]+ ", text[: option.start()])
    ]
    assert not wrong


def test_no_message_names_an_argument_as_python_writes_it() -> None:
    """A setting is written key=value everywhere; a call of Python is typed as it stands."""
    wrong = [
        (path, line, text)
        for path, line, text in messages()
        for argument in re.finditer(r"(?<![\w-])[a-z_]+=", text)
        if path.parts[2] != "cli"
        and "the setting " not in text[: argument.start()]
        and not re.search(r"\w\([^)]*$", text[: argument.start()])
    ]
    assert not wrong


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
