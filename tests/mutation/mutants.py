"""The mutants of a module, one changed expression or statement each, their code and their tests."""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[2] / "src" / "dejacue"
SWAPS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "any": "all", "minimum": "maximum", "argmin": "argmax", "floor": "ceil"}
NAMES |= {other: name for name, other in NAMES.items()}
SLOW_S = 8.0  # a slower test is not run against mutants
UNSEEN = ("strict", "slots", "copy")  # arguments that guard or save, and change no answer


class Mutant(NamedTuple):
    path: str  # below src/dejacue
    lines: range  # from the start of the statement to the end of the change
    function: str  # of the module, or Class.method; empty outside of functions
    text: str  # the whole module, changed
    change: str

    @property
    def name(self) -> str:
        return f"{self.path} {self.function or '-'}: {self.change}"


def other(node: ast.AST) -> str | None:
    """What stands in the place of an expression or statement, if anything."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            new: ast.AST = ast.Compare(node.left, [SWAPS[type(op)]()], node.comparators)
        case ast.BinOp(op=ast.Div(), right=ast.JoinedStr() | ast.Constant(value=str())):
            return None  # a path
        case ast.BinOp(right=right) if type(node.op) in SWAPS:
            new = ast.BinOp(node.left, SWAPS[type(node.op)](), right)
        case ast.BoolOp():
            new = ast.BoolOp(SWAPS[type(node.op)](), node.values)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            new = node.operand
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value)):
            return str(value + 1)
        case ast.Constant(value=float(value)):
            return repr(value * 2 if value else 1.0)
        case ast.Name(id=name) if name in NAMES:
            return NAMES[name]
        case ast.Attribute(value=value, attr=name) if name in NAMES:
            return ast.unparse(ast.Attribute(value, NAMES[name]))
        case ast.Return(value=ast.expr() as value):
            return None if ast.unparse(value) == "None" else "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            return "pass"
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            return "pass"
        case ast.Continue():
            return "break"
        case ast.Break():
            return "continue"
        case _:
            return None
    return f"({ast.unparse(new)})"


def mutants(path: Path) -> list[Mutant]:
    """Every mutant of one module, in the order of their hashes."""
    text = path.read_text()
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row.encode()))
    found: dict[str, Mutant] = {}

    def put(node: ast.AST, new: str, where: str, first: int) -> None:
        old = text.encode()
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        changed = (old[:begin] + new.encode() + old[end:]).decode()
        before = text.splitlines()[node.lineno - 1].strip()
        after = changed.splitlines()[node.lineno - 1].strip()
        name = str(path.relative_to(SOURCE))
        lines = range(min(first, node.lineno), node.end_lineno + 1)  # decorators stand before
        mutant = Mutant(name, lines, where, changed, f"{before}  ->  {after}")
        found.setdefault(mutant.name, mutant)

    def walk(node: ast.AST, where: str, owner: str, first: int) -> None:
        if isinstance(node, ast.JoinedStr) or getattr(node, "arg", None) in UNSEEN:
            return
        first = node.lineno if isinstance(node, ast.stmt) else first
        if (new := other(node)) is not None:
            put(node, new, where, first)
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            if ast.unparse(node.test) == "TYPE_CHECKING":
                return
            put(node.test, f"(not ({ast.unparse(node.test)}))", where, first)
        for field, value in ast.iter_fields(node):
            inside, scope = where, owner
            if isinstance(node, ast.FunctionDef) and field == "body":
                inside = where or f"{owner}{node.name}"
            elif isinstance(node, ast.ClassDef):
                scope = f"{owner}{node.name}."
            if field not in ("annotation", "returns"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        walk(child, inside, scope, first)

    walk(ast.parse(text), "", "", 1)
    return sorted(found.values(), key=lambda one: hashlib.sha1(one.name.encode()).digest())


def code_of(text: str, mutant: Mutant) -> CodeType | None:
    """The code of the mutant's function in this text of its module; None if two have its name."""
    found, waiting = [], [compile(text, str(SOURCE / mutant.path), "exec")]
    while waiting:
        inner = [one for one in waiting.pop().co_consts if isinstance(one, CodeType)]
        found += [one for one in inner if one.co_qualname == mutant.function]
        waiting += inner
    return found[0] if len(found) == 1 else None


def exchangeable(mutant: Mutant, run_lines: set[str]) -> bool:
    """Whether the function can be exchanged, and is run by tests, not while modules load only."""
    old = code_of((SOURCE / mutant.path).read_text(), mutant)
    new = code_of(mutant.text, mutant)
    run_by_tests = any(f"{mutant.path}:{line}" in run_lines for line in mutant.lines)
    return bool(old and new and old.co_freevars == new.co_freevars and run_by_tests)


def known_functions(chosen: list[Mutant]) -> dict[tuple[str, str], list[FunctionType]]:
    """The functions of the package in this process, wherever they are, by file and name."""
    for path in {mutant.path for mutant in chosen}:
        importlib.import_module("dejacue." + path.removesuffix(".py").replace("/", "."))
    found = defaultdict(list)
    for one in gc.get_objects():
        if type(one) is FunctionType:  # isinstance() asks objects that warn when they are asked
            found[one.__code__.co_filename, one.__code__.co_qualname].append(one)
    gc.freeze()  # nothing of this is copied into the children
    return found


def tests_of(mutant: Mutant, tests: dict, seconds: float) -> list[str]:
    """The fastest tests that run the line, in their usual order. Outside of functions: those of
    the files that are named after it or run it most, since these are collected anew."""
    places = {f"{mutant.path}:{line}" for line in mutant.lines}

    def runs(lines: list[str]) -> bool:
        if mutant.function:
            return not places.isdisjoint(lines)
        return any(one.startswith(f"{mutant.path}:") for one in lines)

    found = [
        (taken, name) for name, (taken, lines) in tests.items() if taken < SLOW_S and runs(lines)
    ]
    if not found and mutant.function:  # run while a module is imported, or kept by a cache
        return tests_of(mutant._replace(function=""), tests, seconds)
    if not mutant.function:
        path = Path(mutant.path)
        named = {f"tests/test_{path.stem}.py", f"tests/test_{path.parts[0]}.py"}
        files = Counter(name.split("::")[0] for _, name in found).most_common(2)
        named |= {file for file, _ in files}
        found = [(row[0], name) for name, row in tests.items() if name.split("::")[0] in named]
        found = [row for row in found if row[0] < SLOW_S]
    ends = accumulate(taken for taken, _ in sorted(found))
    fast = {
        name
        for (taken, name), end in zip(sorted(found), ends, strict=True)
        if end <= seconds + taken
    }
    return [name for _, name in found if name in fast]
