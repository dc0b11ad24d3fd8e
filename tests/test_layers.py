"""The source tree: imports point one way and in no circle, modules and functions are short; tests
import helpers, not each other."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "dejacue"
PAPER = ROOT / "paper" / "src" / "dejacue_paper"
FOLDERS = (TESTS, ROOT / "paper" / "tests")
LEVEL = {
    "_version": 0,
    "_lazy": 0,
    "errors": 0,
    "progress": 1,
    "plugins": 1,
    "atomic": 1,
    "records": 1,
    "method": 2,
    "evaluation": 2,
    "video": 3,
    "files": 4,
    "demo": 4,
    "masks": 5,
    "models": 6,
    "report": 7,
    "finding": 8,
    "corpus": 9,
    "studio": 10,
    "cli": 11,
    "__main__": 12,
}
PAPER_LEVEL = {"method": 0, "evaluation": 0, "data": 1, "learn": 2, "experiments": 3, "cli": 4}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> set[str]:
    """Return the modules that a file imports from, anywhere in it."""
    modules = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


@pytest.mark.parametrize(("source", "level"), [(SOURCE, LEVEL), (PAPER, PAPER_LEVEL)])
def test_imports_point_one_way(source, level) -> None:
    paths = [p for p in source.rglob("*.py") if p.name != "__init__.py" or p.parent != source]
    assert len(paths) > 20
    for path in paths:
        package = path.relative_to(source).parts[0].removesuffix(".py")
        for name in imported_modules(path):
            if not name.startswith(f"{source.name}."):
                continue
            other = name.split(".")[1]
            if other != package:
                assert level[other] < level[package], f"{path} imports {name}"


def test_the_product_never_imports_the_paper() -> None:
    for path in SOURCE.rglob("*.py"):
        for name in imported_modules(path):
            assert name.split(".")[0] != "dejacue_paper", f"{path} imports {name}"


def test_the_studio_is_no_business_of_the_paper() -> None:
    for path in PAPER.rglob("*.py"):
        for name in imported_modules(path):
            assert not name.startswith("dejacue.studio"), f"{path} imports {name}"


def test_method_and_evaluation_touch_no_files() -> None:
    for package in ("method", "evaluation", "records"):
        for path in (SOURCE / package).glob("*.py"):
            text = path.read_text(encoding="utf-8")
            for word in ("open(", "pathlib", "import os"):
                assert word not in text, f"{path} touches files: {word}"


def imported_tests(path: Path) -> set[str]:
    """Return the test modules that a file imports, anywhere in it."""
    if names_of_tests().isdisjoint(re.findall(r"\w+", path.read_text(encoding="utf-8"))):
        return set()  # to parse it would take longer
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if names_of_tests() & set(name.split("."))}


@functools.cache
def names_of_tests() -> set[str]:
    return {test.stem for folder in FOLDERS for test in folder.rglob("test_*.py")}


def test_no_test_is_imported() -> None:
    paths = [path for folder in FOLDERS for path in folder.rglob("*.py")]
    assert len(paths) > 100
    assert {path.name: imported for path in paths if (imported := imported_tests(path))} == {}


@pytest.mark.parametrize(
    "line",
    ["import test_layers", "from test_layers import parsed", "from tests import test_layers"],
)
def test_an_imported_test_is_found_in_a_function_too(tmp_path, line) -> None:
    path = tmp_path / "new.py"
    path.write_text(f"def use():\n    {line}\n", encoding="utf-8")
    assert imported_tests(path) == {"test_layers"}


def modules(source: Path) -> dict[str, Path]:
    """Dotted name → file; a package is its __init__.py."""
    names = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def import_graph(source: Path) -> dict[str, set[str]]:
    """Module → modules that it imports, anywhere but under TYPE_CHECKING.

    ``from package import name`` is an import of the module ``package.name`` where there is one:
    that the package's __init__ runs as well makes no circle.
    """
    known = modules(source)
    graph = {}
    for module, path in known.items():
        names = set()
        for node in _runtime_nodes(parsed(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                names |= {full if full in known else node.module for full in inner.values()}
        graph[module] = (names & known.keys()) - {module}
    return graph


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from (other, *_runtime_nodes(other))
            continue
        yield child
        yield from _runtime_nodes(child)


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other, sorted."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reach = {module: reachable(module) for module in graph}
    groups = {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in graph
        if module in reach[module]
    }
    return sorted(sorted(group) for group in groups)


@pytest.mark.parametrize("source", [SOURCE, PAPER])
def test_no_modules_import_each_other_in_a_circle(source) -> None:
    assert cycles(import_graph(source)) == []


def test_a_circle_is_found_through_functions_but_not_through_types(tmp_path) -> None:
    source = tmp_path / "made"
    source.mkdir()
    files = {
        "__init__": "from made.a import one",
        "a": "def one():\n    from made import b",
        "b": "import made.c",
        "c": "from made.a import one",
        "d": "if TYPE_CHECKING:\n    from made.e import two",
        "e": "from made.d import three",
    }
    for name, text in files.items():
        (source / f"{name}.py").write_text(text, encoding="utf-8")
    assert cycles(import_graph(source)) == [["made.a", "made.b", "made.c"]]
