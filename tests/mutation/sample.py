"""Run a fixed sample of cosmic-ray's mutants against the tests that execute the changed line.

    python tests/mutation/sample.py [--each 2] [--seconds 15] [--keep-map] [part of a name ...]

Everything happens in copies of the repository below out/mutants, so an interrupted run leaves the
sources as they were. First the test suite runs once with coverage, which tells the lines and the
seconds of each test. In the end the tests that have failed run without a mutant, and must pass.
The sample holds, for each module, the mutants with the lowest hashes, so it stays the same where
the source does; those listed in equivalent.txt (a mutant, then the reason on an indented line) are
left out. The results stay in out/mutants/session.sqlite, which cr-report and cr-html read.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "out" / "mutants"
COVERAGE, TIMES, SESSION = FOLDER / "coverage", FOLDER / "times.xml", FOLDER / "session.sqlite"
WORKERS = 2
MIN_SHARE = 0.9
IMPORT_S = 0.2  # a test file takes to import, longer than most of its tests
MAX_CPU_S = 120  # for one mutant, which may loop forever; its tests take --seconds
PACKAGES = ("records", "method", "evaluation", "sources")
# models of torch, too slow to run once per mutant; a format whose tests need the extra peers
EXCLUDED = ("tracks/sam2", "torch_models", "formats/recording")
# tests that read whole corpora, or run the package in processes that coverage does not see
OTHER_TESTS = """
    annotation benchmarks beyond docs experiments fuzz layers notebooks public ray*
    release rendered* studio_api synthetic
"""
# what runs in other processes only, and the tests that start these
WEIGHTS = "tests/sources/encoders/test_weights.py"
FETCHES = (f"{WEIGHTS}::test_a_fetch", f"{WEIGHTS}::test_a_download")
RUN_ELSEWHERE = {"_download.py": FETCHES}
# one replacement per operator: most others fail at once, or do the same (`is None`, `== None`)
BINARY = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitAnd_BitOr BitOr_BitAnd"
COMPARISONS = "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
OPERATORS = [
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in BINARY.split()),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in COMPARISONS.split()),
    *("core/ReplaceUnaryOperator_Delete_Not", "core/ReplaceUnaryOperator_USub_UAdd"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/AddNot"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/NumberReplacer"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"),
    *("core/ExceptionReplacer", "core/RemoveDecorator", "core/ZeroIterationForLoop"),
]
PYTEST = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
PYTEST += ["--hypothesis-profile=first-failure"]
PRELOADED = ("numpy", "av", "onnxruntime", "torch", "pycocotools.mask", "typer")


class Mutant(NamedTuple):
    name: str
    item: WorkItem
    lines: range  # of the statement, up to the change; empty where it runs on import


def unnoticed(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that are not mutated: they never run, or only word a message."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr():
                yield node
            case (
                ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation)
            ):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield annotation
            case ast.keyword(arg="strict" | "slots", value=value):  # guard or save memory
                yield value
            case ast.If(test=ast.Name(id="TYPE_CHECKING") as test):
                yield test


def mutants(path: Path, each: int) -> list[Mutant]:
    """Return the mutants of one module that have the lowest hashes."""
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines(keepends=True)
    tree, nodes = ast.parse(text), list(ast_nodes(get_ast(text)))
    name = path.relative_to(ROOT / "src" / "dejacue").as_posix()
    spans = [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in unnoticed(tree)
    ]
    hashed: list[tuple[str, str, int, tuple[int, int], tuple[int, int]]] = []
    for operator_name in OPERATORS:
        operator = get_operator(operator_name)()
        positions = (span for node in nodes for span in operator.mutation_positions(node))
        for occurrence, ((row, column), end) in enumerate(positions):
            bytes_before = len(rows[row - 1][:column].encode())
            if any(first <= (row, bytes_before) < last for first, last in spans):
                continue
            before = ("".join(rows[: row - 1]) + rows[row - 1][:column]).rstrip()[-1:]
            after = (rows[end[0] - 1][end[1] :] + "".join(rows[end[0] :])).lstrip()[:1]
            if "Binary" in operator_name and (before in tuple("([{,") or after in tuple(",)")):
                continue  # the star of f(*, a) and the stars of {**a}
            index = occurrence % 2 if "Number" in operator_name else 0  # one more, one less
            key = f"{name} {operator_name} {index} {column} {rows[row - 1]}"
            key = hashlib.sha256(key.encode()).hexdigest()
            hashed.append((key, operator_name, occurrence, (row, column), end))
    sample: dict[str, Mutant] = {}
    for _, operator_name, occurrence, start, end in sorted(hashed):
        if len(sample) == each:
            break
        changed = mutate_code(text, get_operator(operator_name)(), occurrence)
        diff = [*unified_diff(text.splitlines(), changed.splitlines(), n=0, lineterm="")][3:]
        sides = (" ".join(row[1:].strip() for row in diff if row[0] == sign) for sign in "-+")
        wording = "  ->  ".join(sides)
        lines, function = place(tree, start[0], end[0])
        spec = MutationSpec(path.relative_to(ROOT), operator_name, occurrence, start, end)
        title = f"{name} {function or '-'}: {wording}".strip()
        item = WorkItem.single(hashlib.sha256(title.encode()).hexdigest()[:16], spec)
        sample.setdefault(title, Mutant(title, item, lines if function else range(0)))
    return list(sample.values())


def place(tree: ast.AST, first: int, last: int) -> tuple[range, str]:
    """Return the lines from the statement's start to the change, and the function around them."""
    start, function = first, ""
    for node in ast.walk(tree):  # outer nodes come before inner ones
        if isinstance(node, ast.stmt) and node.lineno <= first <= (node.end_lineno or 0):
            start = node.lineno
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and first >= node.body[0].lineno:
                function = node.name
    return range(start, last + 1), function


def environment(folder: Path) -> dict[str, str]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COVERAGE_FILE": str(COVERAGE)}
    sources = os.pathsep.join((str(folder / "src"), str(folder / "paper" / "src")))
    return {**os.environ, **one_thread, **plugins, "PYTHONPATH": sources}


def copy_repository(source: Path, folder: Path) -> Path:
    ignored = shutil.ignore_patterns("out", ".*", "build", "dist")
    return Path(shutil.copytree(source, folder, ignore=ignored, dirs_exist_ok=True))


def map_lines(folder: Path) -> None:
    """Run the suite with coverage: which test executes which line, and how long does it take?"""
    options = ["-p", "xdist", "-n", str(WORKERS), "--dist", "loadfile", "-m", "not long"]
    options += ["--ignore=tests/browser", "-o", "junit_family=xunit1", f"--junitxml={TIMES}"]
    options += [f"--ignore-glob=*/test_{name}.py" for name in OTHER_TESTS.split()]
    options += ["-p", "pytest_cov", "--cov-context=test", "--cov-report="]
    options += [f"--cov=src/dejacue/{package}" for package in PACKAGES]
    command = [sys.executable, "-m", "pytest", *PYTEST, *options]
    subprocess.run(command, cwd=folder, env=environment(folder), check=False)


class Tests:
    """The passing tests, their seconds and the lines that each executes."""

    def __init__(self) -> None:
        self.seconds = {
            f"{case.get('file')}::{case.get('name')}": float(case.get("time", 0))
            for case in ElementTree.parse(TIMES).iter("testcase")
            if not len(case) or {part.tag for part in case} <= {"system-out", "properties"}
        }
        self.data = CoverageData(str(COVERAGE))
        self.data.read()
        measured = {file.split("/src/")[-1]: file for file in self.data.measured_files()}
        self.files = {f"src/{name}": file for name, file in measured.items()}

    def of(self, mutant: Mutant, seconds: float) -> list[str]:
        """Return the fastest tests that execute the place of a mutant, at most a few seconds."""
        path = mutant.item.mutations[0].module_path
        by_line = self.data.contexts_by_lineno(self.files.get(path.as_posix(), ""))
        contexts = {name for line in mutant.lines for name in by_line.get(line, ())} - {""}
        if not contexts:  # it runs on import: whatever executes the module may notice it
            contexts = {name for names in by_line.values() for name in names}
            namesakes = tuple(f"/test_{word}.py::" for word in (path.stem, path.parts[2]))
            contexts |= {name for name in self.seconds if any(map(name.__contains__, namesakes))}
            elsewhere = RUN_ELSEWHERE.get(path.name, ())
            contexts |= {name for name in self.seconds if name.startswith(elsewhere)}
        names = {context.partition("|")[0] for context in contexts} & self.seconds.keys()
        chosen: dict[str, list[str]] = defaultdict(list)
        left = seconds
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            file = name.split("::")[0]
            left -= self.seconds[name] + (0 if file in chosen else IMPORT_S)
            if left < 0 and chosen:
                break
            chosen[file].append(name)
        return [name for own in chosen.values() for name in own]


def enter(folders: multiprocessing.Queue[Path]) -> None:
    folder = folders.get()
    os.chdir(folder)
    os.environ.update(environment(folder))
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    for package in PRELOADED:
        importlib.import_module(package)


def examine(mutant: Mutant, tests: list[str]) -> tuple[Mutant, WorkResult]:
    """Apply a mutant in this worker's copy and run the tests in a fork until one fails."""
    spec = mutant.item.mutations[0]
    operator = get_operator(spec.operator_name)()
    with use_mutation(spec.module_path, operator, spec.occurrence), TemporaryFile() as output:
        if tests and not (child := os.fork()):
            code = 1
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
                sys.dont_write_bytecode = True  # else the next mutant may be taken for this one
                code = pytest.main([*PYTEST, "-x", "-rfE", "--tb=short", *tests])
            finally:
                os._exit(code)
        failed = bool(tests) and os.waitpid(child, 0)[1] != 0
        output.seek(0)
        text = output.read().decode(errors="replace") if tests else "no test executes it"
    outcome = TestOutcome.KILLED if failed else TestOutcome.SURVIVED
    return mutant, WorkResult(WorkerOutcome.NORMAL, text, outcome)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help="only mutants whose name holds one of these")
    parser.add_argument("--each", type=int, default=2, help="mutants of each module")
    parser.add_argument("--seconds", type=float, default=15, help="of tests for one mutant")
    parser.add_argument("--keep-map", action="store_true", help="use the last run's coverage")
    options = parser.parse_args()

    paths = [p for name in PACKAGES for p in sorted((ROOT / "src/dejacue" / name).rglob("*.py"))]
    paths = [path for path in paths if not any(part in str(path) for part in EXCLUDED)]
    sample = [mutant for path in paths for mutant in mutants(path, options.each)]
    if options.parts:
        sample = [mutant for mutant in sample if any(p in mutant.name for p in options.parts)]
    listed = (Path(__file__).parent / "equivalent.txt").read_text(encoding="utf-8").splitlines()
    equivalent = [mutant for mutant in sample if mutant.name in listed]
    sample = [mutant for mutant in sample if mutant.name not in listed]
    sample.sort(key=lambda mutant: mutant.item.job_id)  # cut short, the run is a sample, too
    print(f"{len(sample)} mutants of {len(paths)} modules; {len(equivalent)} equivalent left out")

    if not options.keep_map:
        shutil.rmtree(FOLDER, ignore_errors=True)
    folders = [copy_repository(ROOT, FOLDER / "copy0")]
    if not options.keep_map:
        map_lines(folders[0])
    for number in range(1, WORKERS):  # with the byte code that the first has by now
        folders.append(copy_repository(folders[0], FOLDER / f"copy{number}"))
    tests = Tests()
    chosen = {mutant.name: tests.of(mutant, options.seconds) for mutant in sample}
    queue: multiprocessing.Queue[Path] = multiprocessing.Queue()
    for folder in folders:
        queue.put(folder)
    SESSION.unlink(missing_ok=True)
    outcomes: dict[bool, list[str]] = {True: [], False: []}
    failing, sound = defaultdict(list), True
    with (
        use_db(SESSION, WorkDB.Mode.create) as session,
        multiprocessing.Pool(WORKERS, enter, (queue,)) as pool,
    ):
        no_change = MutationSpec(paths[0].relative_to(ROOT), "core/NoOp", 0, (1, 0), (1, 1))
        nothing = Mutant("nothing", WorkItem.single("nothing", no_change), range(0))
        _, result = pool.apply(examine, (nothing, sorted(tests.seconds)[:1]))
        if result.is_killed:
            sys.exit(f"a test fails although nothing was changed:\n{result.output}")
        session.add_work_items(mutant.item for mutant in sample)
        for job in [pool.apply_async(examine, (one, chosen[one.name])) for one in sample]:
            mutant, result = job.get()
            session.set_result(mutant.item.job_id, result)
            outcomes[result.is_killed].append(mutant.name)
            print("killed  " if result.is_killed else "SURVIVED", mutant.name, flush=True)
            for name in chosen[mutant.name]:
                if re.search(rf"^(FAILED|ERROR) {re.escape(name)}( - |$)", result.output, re.M):
                    failing[name.split("::")[0]].append(name)
        unchanged = [Mutant(file, WorkItem.single(file, no_change), range(0)) for file in failing]
        for job in [pool.apply_async(examine, (one, failing[one.name])) for one in unchanged]:
            mutant, result = job.get()
            if result.is_killed:
                sound = False
                print(f"tests fail without a mutant, too, so they kill none:\n{result.output}")
    killed, share = len(outcomes[True]), len(outcomes[True]) / max(len(sample), 1)
    print("\n".join(["", "Survivors:", *outcomes[False], ""]))
    print(f"{killed} of {len(sample)} killed ({share:.1%})".replace("%", " %"))
    return int(share < MIN_SHARE or not sound)


if __name__ == "__main__":
    sys.exit(main())
