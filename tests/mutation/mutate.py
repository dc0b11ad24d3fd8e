"""Small changes of the source that the tests must notice (`make mutants`).

Neither mutmut nor cosmic-ray is a dependency of the developers; this small driver collects the
tests once and forks. In one child it traces which test runs which line. Then each mutant gets a
child in which the code of the changed function is exchanged and the tests that run the changed
line are run, as many as fit into a few seconds, until one fails. What stands outside of functions
(constants, defaults) is changed in a child that has not imported the package yet.

The sample is fixed: of each module the mutants whose text has the lowest hash, so that it stays
the same where the source does. f-strings, annotations and docstrings are left alone. Every module
is run without a change first, and must survive: a test that fails anyway kills nothing. Survivors
listed in `equivalent.txt` (a mutant, then a reason on an indented line) are counted apart.

    python tests/mutation/mutate.py [--each 4] [--seconds 6] [--map FILE] [part of a path ...]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import threading
import time
from itertools import groupby
from pathlib import Path

import pytest
from mutants import (
    SOURCE,
    Mutant,
    code_of,
    exchangeable,
    known_functions,
    mutants,
    tests_of,
)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ("records", "method", "evaluation", "sources")
# these read whole corpora or run in processes of their own, where no mutant is
APART = {"experiments", "rendered", "rendered_experiments", "beyond", "release", "synthetic"}
APART |= {"annotation", "docs", "crash", "public", "layers"}
UNCHANGED = "unchanged"
MODELS = ("tracks/sam2/", "siglip_torch", "_clip")  # slow with torch: tried where they are named


def in_child(work, limit_s: float, quiet: bool = True) -> str:
    """What `work` says in a fork of this process: its exit code, or "time"."""
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2) if quiet else ():
                os.dup2(null, stream)
            os._exit(work())
        except BaseException:
            os._exit(3)  # not the doing of a test
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "time"


def run(session, items) -> int:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def trace(session, target: Path) -> int:
    """Writes for each test its seconds and the lines of the package that it runs."""
    inside = tuple(f"{SOURCE}/{part}/" for part in PARTS)
    lines: set[tuple[str, int]] = set()

    def local(frame, event, _):
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def tracer(frame, event, _):
        return local if frame.f_code.co_filename.startswith(inside) else None

    threading.settrace(tracer)
    items = session.items
    files = {item.nodeid.split("::")[0] for item in items}
    rows = json.loads(target.read_text()) if target.is_file() else {}
    rows = {name: row for name, row in rows.items() if name.split("::")[0] not in files}
    for item, following in zip(items, [*items[1:], None], strict=True):
        lines.clear()
        before, begin = session.testsfailed, time.process_time()
        sys.settrace(tracer)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.settrace(None)
        taken = time.process_time() - begin
        if session.testsfailed == before:
            own = [f"{Path(path).relative_to(SOURCE)}:{line}" for path, line in sorted(lines)]
            rows[item.nodeid] = [round(taken, 3), own]
    target.write_text(json.dumps(rows))
    return 0


class Plugin:
    """Hands the collected tests to `work` in place of a run."""

    def __init__(self, work=None) -> None:
        self.work = work

    def pytest_collection_modifyitems(self, items) -> None:
        from hypothesis import Phase, settings  # pytest wants to import it first

        for item in items:  # one failure is enough, its smallest example is not asked for
            if given := getattr(item.obj, "_hypothesis_internal_use_settings", None):
                item.obj._hypothesis_internal_use_settings = settings(
                    given, phases=(Phase.explicit, Phase.generate), report_multiple_bugs=False
                )

    def pytest_runtestloop(self, session) -> bool | None:
        return None if self.work is None else bool(self.work(session)) or True


def anew(mutant: Mutant, names: list[str], options: list[str]) -> int:
    """Runs the tests in a process that imports the changed module."""
    path, load = str(SOURCE / mutant.path), importlib.machinery.SourceFileLoader.get_code

    def get_code(self, name):
        return compile(mutant.text, path, "exec") if self.path == path else load(self, name)

    importlib.machinery.SourceFileLoader.get_code = get_code
    return int(pytest.main([*options, "-x", *names], plugins=[Plugin()]))


def try_all(chosen: list[Mutant], folder: Path, map_file: Path, seconds: float) -> dict[str, bool]:
    """Each mutant's fate: whether it survived; and of each module, that it survives unchanged."""
    options = ["-s", "-p", "no:cacheprovider", f"--basetemp={folder}/tests", "--no-summary"]
    files = [str(p) for p in sorted(ROOT.glob("tests/test_*.py")) if p.stem[5:] not in APART]
    since = map_file.stat().st_mtime if map_file.is_file() else 0
    if new := [file for file in files if os.stat(file).st_mtime > since]:
        plugin = Plugin(lambda session: trace(session, map_file))
        in_child(lambda: pytest.main([*options, *new], plugins=[plugin]), 3600)
    tests = json.loads(map_file.read_text())
    run_lines = {line for _, lines in tests.values() for line in lines}
    exchanged: dict[bool, list[Mutant]] = {True: [], False: []}
    for path, own in groupby(chosen, key=lambda one: one.path):
        text = (SOURCE / path).read_text()
        for mutant in own:
            rest = exchanged[exchangeable(mutant, run_lines)]
            if not rest or rest[-1].path != path:
                rest.append(mutant._replace(text=text, change=UNCHANGED))
            rest.append(mutant)
    fates = folder / "fates"

    def fate(mutant: Mutant, work) -> None:
        names, code = tests_of(mutant, tests, 0.5), "0"
        if names:  # most are killed by a few tests, the rest deserve more of them
            code = in_child(lambda: work(mutant, names), 30)
        more = [name for name in tests_of(mutant, tests, seconds) if name not in names]
        if more and code == "0" and mutant.change != UNCHANGED:
            code = in_child(lambda: work(mutant, more), 30 + 5 * seconds)
        told = {"0": "SURVIVED" if names else "NOT RUN", "3": "BROKEN"}.get(code, "killed")
        if mutant.change == UNCHANGED and told in ("killed", "BROKEN"):
            raise SystemExit(f"{mutant.path}: its tests fail without a change")
        if mutant.change == UNCHANGED:
            return
        print(f"{told:9} {mutant.lines[-1]:4} {mutant.name}", flush=True)
        with fates.open("a") as file:
            print(json.dumps([mutant.name, told != "killed"]), file=file)

    def exchange(session) -> None:
        items = {item.nodeid: item for item in session.items}
        functions = known_functions(chosen)

        def work(mutant: Mutant, names: list[str]) -> int:
            new = code_of(mutant.text, mutant)
            for one in (own := functions[new.co_filename, new.co_qualname]):
                one.__code__ = new
            return run(session, [items[name] for name in names]) if own else 3

        for mutant in exchanged[True]:
            fate(mutant, work)

    plugin = Plugin(exchange)
    if in_child(lambda: pytest.main([*options, *files], plugins=[plugin]), 7200, False) == "3":
        raise SystemExit("the driver failed; what it says stands above")
    for mutant in exchanged[False]:
        fate(mutant, lambda one, names: anew(one, names, options))
    return dict(json.loads(row) for row in fates.read_text().splitlines())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help="only modules whose path holds one of these")
    parser.add_argument("--each", type=int, default=4, help="mutants of each module")
    parser.add_argument("--seconds", type=float, default=6.0, help="of tests for one mutant")
    parser.add_argument("--map", type=Path, help="keep the traced lines here, or take them")
    given = parser.parse_args()
    os.nice(15)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    for heavy in ("numpy", "torch", "av", "onnxruntime", "pycocotools.mask", "matplotlib.pyplot"):
        importlib.import_module(heavy)  # once, not in every child
    paths = [path for part in PARTS for path in sorted((SOURCE / part).rglob("*.py"))]
    named = [path for path in paths if any(part in str(path) for part in given.parts or MODELS)]
    paths = named if given.parts else [path for path in paths if path not in named]
    chosen = [one for path in paths for one in mutants(path)[: given.each]]
    with tempfile.TemporaryDirectory() as folder:
        map_file = given.map.resolve() if given.map else Path(folder) / "lines.json"
        fates = try_all(chosen, Path(folder), map_file, given.seconds)
    rows = (HERE / "equivalent.txt").read_text().splitlines()
    equivalent = {row for row in rows if row and not row.startswith((" ", "#"))}
    survived = [name for name, lives in fates.items() if lives]
    new = [name for name in survived if name not in equivalent]
    print(f"{len(fates) - len(survived)} of {len(fates)} mutants killed", end="")
    print(f" ({1 - len(survived) / max(len(fates), 1):.1%}); of the survivors {len(new)} are new:")
    print("\n".join(new))
    return bool(new)


if __name__ == "__main__":
    sys.exit(main())
