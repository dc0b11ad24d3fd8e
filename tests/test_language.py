"""Names say what a thing is, and docstrings of functions open with a verb (docs/glossary.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "paper/src").rglob("*.py")])
EMPTY_NAMES = {"own", "found", "shown", "said", "told", "one", "every", "more", "given", "other"}
NO_VERBS = {"A", "An", "And", "How", "Its", "Of", "One", "The", "These", "Those", "What", "Whether"}


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_bytes()) for path in FILES}


def names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node declares; ``other`` of a method is Python's second operand."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        arguments += filter(None, (node.args.vararg, node.args.kwarg))
        words = [argument.arg for argument in arguments]
        yield from words[2:] if words[:2] == ["self", "other"] else words


def test_no_name_leaves_open_what_it_names(trees):
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        for name in names(node)
        if name.strip("_").lower() in EMPTY_NAMES
    ] == []


def test_a_class_name_is_used_once(trees):
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: lines for name, lines in places.items() if len(lines) > 1} == {}


def test_docstrings_of_functions_open_with_a_verb(trees):
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (text := ast.get_docstring(node)) and text.split()[0].strip(",:") in NO_VERBS
    ] == []
