"""Imports point one way: errors → records → method, evaluation → sources → data → … → cli."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "dejacue"
LEVEL = {
    "_version": 0, "errors": 0, "progress": 1, "records": 1, "method": 2, "evaluation": 2,
    "sources": 3, "data": 4, "report": 5, "store": 5, "learn": 5, "pipeline": 6,
    "experiments": 7, "serve": 8, "cli": 8, "__main__": 9,
}  # fmt: skip


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {n.split(".")[1] for n in names if n.startswith("dejacue.")}
    return found


def test_imports_point_one_way() -> None:
    paths = [p for p in SOURCE.rglob("*.py") if p.name != "__init__.py" or p.parent != SOURCE]
    assert len(paths) > 20
    for path in paths:
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for other in imported_rooms(path):
            if other != room:
                assert LEVEL[other] < LEVEL[room], f"{path} imports dejacue.{other}"


def test_no_module_imports_itself_through_others() -> None:
    """Lazy imports count; what is imported for types only does not."""
    modules = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("dejacue", *path.relative_to(SOURCE).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = path
    del modules["dejacue"]  # the public names
    graph = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    while leaves := [name for name, others in graph.items() if not others & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert not graph, f"these import each other: {sorted(graph)}"


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in modules else node.module)
    return found & modules.keys()


def test_method_and_evaluation_touch_no_files() -> None:
    for room in ("method", "evaluation", "records"):
        for path in (SOURCE / room).glob("*.py"):
            text = path.read_text(encoding="utf-8")
            for word in ("open(", "pathlib", "import os"):
                assert word not in text, f"{path} touches files: {word}"
