"""Kill every command at every file operation, run it again, and compare with a run left alone.

    python tests/crash/crash.py [--jobs 2] [--points 1,5,-1] [name of a scenario ...]

A scenario is a command line. It is run once to the end in a folder of its own, and its file
operations there are counted: files opened to be written, every write, renames, removals, new
folders, statements to the index of a store. Then, for each of them, in a fresh folder: the command
is killed just before it (in the middle of it, where it is a write), the same command is run again,
and everything in the folder must be there byte by byte as after the run that was left alone, with
nothing beside it. Of a store its histories must be there, each whole, and no file but its own.

Each run is a fork of this process, which has imported the library and nothing else: threads and
model sessions are made in the child only.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import io
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

KILLED = 137
OPERATIONS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink")
BUFFER = 1 << 22
Tree = dict[str, bytes | None]  # None: a folder


@dataclass(frozen=True)
class Scenario:
    """A command line to kill.

    before   commands that have been run to the end in the same folder
    done     what the command says where it was killed after all was done
    """

    name: str
    command: str
    before: tuple[str, ...] = ()
    done: str | None = None


LOADED = (
    "av",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "onnxruntime",
    "pycocotools.mask",
    "rich.progress",
    "rich.table",
    "yaml",
    *(f"PIL.{name}" for name in ("Image", "ImageDraw", "ImageFont", "PngImagePlugin")),
    "dejacue.cli.app",
    "dejacue.cli.readouts",
    "dejacue.pipeline.ingest",
    *(f"dejacue.report.{name}" for name in ("page", "plots", "exports", "clips")),
    "dejacue.sources.encoders.mini",
    "dejacue.sources.tracks.propagate",
)
VIDEO = "../scene/scene.mp4"  # 70 frames: more than a batch of crops
SOME = f"{VIDEO} --end 39"
FEW = f"{VIDEO} --stride 7"  # where each frame is a file
MASKS = "--masks ../scene/Annotations"
MINI = "--encoder mini"
WORDS = f"-v ../scene/vocabulary.yaml {MINI}"
BOX, TWO = "--tracker still --box {target}", "--box 2:{other}"
OTHER = "--tracker still --box {other}"
STORED = ("store add s", "store add s ../x.npz")
SCENARIOS = (
    Scenario("encode", f"encode {VIDEO} {MASKS} --object 1 {MINI} -o x.npz"),
    Scenario(
        "encode, replacing",
        f"encode {VIDEO} {MASKS} --object 1 {MINI} -o x.npz",
        (f"encode {VIDEO} {MASKS} --object 2 {MINI} -o x.npz",),
    ),
    Scenario("encode, two objects", f"encode {VIDEO} {MASKS} --objects all {MINI} -o out"),
    Scenario("track", f"track {FEW} {BOX} -o masks"),
    Scenario("track, both ways", f"track {VIDEO} {BOX}@30 -o masks"),
    Scenario("track, replacing", f"track {FEW} {OTHER} -o masks", (f"track {FEW} {BOX} -o masks",)),
    Scenario(
        "track, adding", f"track {FEW} --add {{other}} -o masks", (f"track {FEW} {BOX} -o masks",)
    ),
    Scenario("track .npz", f"track {VIDEO} {BOX} {TWO} -o masks.npz"),
    Scenario(
        "track .npz, replacing",
        f"track {VIDEO} {OTHER} -o masks.npz",
        (f"track {VIDEO} {BOX} -o masks.npz",),
    ),
    Scenario(
        "track .npz, adding",
        f"track {VIDEO} --add {{other}} -o masks.npz",
        (f"track {VIDEO} {BOX} -o masks.npz",),
    ),
    Scenario("track .json", f"track {VIDEO} {BOX} -o masks.json"),
    Scenario("find, masks", f"find {SOME} {MASKS} --object 1 {WORDS} -o out --cut"),
    Scenario("find, two objects", f"find {SOME} {MASKS} --objects all {WORDS} -o out.json"),
    Scenario("find, box", f"find {FEW} {BOX} {WORDS} -o out"),
    Scenario(
        "find, history",
        f"find ../x.npz {WORDS} --readout published -o out --plot x.png",
        (f"find ../x.npz {WORDS} -o out",),
    ),
    Scenario("find, history to a file", f"find ../x.npz {WORDS} -o out.json"),
    Scenario("store add, new", "store add s", done="is already a store"),
    Scenario("store add, new with a history", "store add s ../x.npz", done="has a history"),
    Scenario("store add", "store add s ../x.npz", ("store add s",), "has a history"),
    Scenario("store add, replacing", "store add s ../x.npz --replace", STORED),
    Scenario("store rm", "store rm s {id}", STORED, "has no history"),
    Scenario("store compact", "store compact s", (*STORED, "store add s ../x.npz --replace")),
)


class Interrupted:
    """Count the file operations of this process in a folder, and kill it at one of them.

    at   which one, from 1; 0: none
    """

    def __init__(self, folder: Path, at: int) -> None:
        self.count, self.at = 0, at
        self._inside, self._opening = f"{folder}{os.sep}", False
        real = builtins.open

        def opened(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if "b" in mode and set(mode) & set("wax+") and self._is_inside(file):
                self.operation()
                self._opening = True  # not to be counted again
                try:
                    raw = _CountedFile(file, mode.replace("b", ""), self, options.get("opener"))
                finally:
                    self._opening = False
                return (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, BUFFER)
            return real(file, mode, *rest, **options)

        connect = sqlite3.connect

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **options)
            if arguments[0] != ":memory:":
                connection.set_trace_callback(lambda _: self.operation())
            return connection

        builtins.open = io.open = opened  # type: ignore[assignment]
        sqlite3.connect = connected  # type: ignore[assignment]
        sys.addaudithook(self._hear)

    def operation(self, half: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.at:
            half()
            os._exit(KILLED)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and not self._opening and self._is_inside(path):
                self.operation()
        elif event in OPERATIONS and any(map(self._is_inside, arguments)):
            self.operation()

    def _is_inside(self, path: object) -> bool:
        if isinstance(path, str | bytes | os.PathLike):
            return os.path.abspath(os.fsdecode(path)).startswith(self._inside)
        return False


class _CountedFile(io.FileIO):
    def __init__(self, file: Any, mode: str, counter: Interrupted, opener: Any) -> None:
        super().__init__(file, mode, opener=opener)
        self._counter = counter
        self._left = sys.maxsize if os.fspath(file).endswith(".partial") else 1

    def write(self, data: Any, /) -> int:
        written = super().write
        if self._left:
            self._left -= 1
            self._counter.operation(lambda: written(memoryview(data)[: len(data) // 2]))
        return written(data)


class Ran(NamedTuple):
    code: int
    operations: int
    output: str


def run(folder: Path, command: str, at: int = 0) -> Ran:
    """Run the command in a child of this process, which is killed at an operation."""
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as counted:
        child = os.fork()
        if not child:
            _work(folder, command, at, log.fileno(), counted.fileno())
        _, status = os.waitpid(child, 0)
        for stream in (log, counted):
            stream.seek(0)
        output = log.read().decode(errors="replace")
        return Ran(os.waitstatus_to_exitcode(status), int(counted.read() or 0), output)


def _work(folder: Path, command: str, at: int, log: int, counted: int) -> NoReturn:
    from dejacue.cli import main

    code: Any = 0
    try:
        os.chdir(folder)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = (open(end, "w", closefd=False) for end in (1, 2))  # noqa: SIM115
        sys.argv = ["dejacue", *command.split()]
        counter = Interrupted(folder, at)
        try:
            main()
        except SystemExit as end:
            code = end.code
        os.write(counted, str(counter.count).encode())
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(log, traceback.format_exc().encode())
        code = 70
    os._exit(code if isinstance(code, int) else 0)


def tree(folder: Path) -> Tree:
    """Return everything in a folder; of a store, what it contains."""
    stores = [path.parent for path in folder.rglob("index.sqlite")]
    files: Tree = {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not any(path.is_relative_to(store) for store in stores)
    }
    return files | {f"{s.name}/{key}": text for s in stores for key, text in store_contents(s)}


def store_contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what a store contains, whatever its files are called, and files it does not use."""
    from dejacue import Store
    from dejacue.store import _index

    with Store.open(path) as store:
        yield "problems", repr(store.verify()).encode()
        for row in store.rows():
            yield row.id, repr(row).encode() + store[row.id].features.tobytes()
        with _index.snapshot(path) as now:
            segments = {f"{number:06d}" for number, _, _ in _index.sizes(now)}
    for file in path.rglob("*"):
        used = file.parent.name == "segments" and file.name.partition(".")[0] in segments
        if not used and file.name != "segments" and not file.name.startswith(_index.NAME):
            yield file.name, b"nobody's"


def differences(files: Tree, expected: Tree) -> list[str]:
    lines = [f"left over: {name}" for name in files if name not in expected]
    lines += [f"missing: {name}" for name in expected if name not in files]
    return [*lines, *(f"differs: {n}" for n in files if n in expected and files[n] != expected[n])]


def load() -> None:
    """Import all that commands import, so that their processes need not."""
    for name in LOADED:
        importlib.import_module(name)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # helpers
    importlib.import_module("helpers.still_tracker").register()


def prepare(work: Path) -> dict[str, str]:
    """Write what the commands read to ``work``; return boxes of two objects, and a history's id."""
    import numpy as np

    from dejacue import Reference
    from dejacue.files import read_history, write_references
    from dejacue_paper.data.rendered import render, write_scene

    scene = render(3, family="cup", frames=70, size=(72, 96), distractors=1)
    write_scene(work / "scene", scene)
    boxes = {}
    for name, label in (("target", 1), ("other", 2)):
        rows, columns = np.nonzero(scene.labels(0) == label)
        edges = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        boxes[name] = ",".join(str(int(edge)) for edge in edges)
    _to_the_end(work / "scene", f"encode {VIDEO} {MASKS} --object 1 --encoder mini -o ../x.npz")
    boxes["id"] = read_history(work / "x.npz").id
    write_references(work / "truth.json", [Reference("cup", {"pre": [(0, 7)], "post": [(10, 17)]})])
    return boxes


def _to_the_end(folder: Path, command: str, at: int = 0) -> Ran:
    ran = run(folder, command, at)
    if ran.code:
        raise AssertionError(f"{command}: ended with {ran.code}: {ran.output}")
    return ran


def check(
    scenario: Scenario,
    work: Path,
    boxes: dict[str, str],
    points: Sequence[int] | None = None,
    jobs: int = 1,
) -> tuple[int, dict[int, list[str]]]:
    """Return how many points were tried, and what was wrong after each.

    points   which, from 1 (from the end where they are negative); None: all
    """
    command = scenario.command.format(**boxes)
    start, whole = work / "start", work / "whole"
    shutil.rmtree(start, ignore_errors=True)
    start.mkdir()
    for earlier in scenario.before:
        _to_the_end(start, earlier.format(**boxes))
    _copy(start, whole)
    operations = _to_the_end(whole, command).operations
    expected = tree(whole)
    shutil.rmtree(whole)
    numbers = range(1, operations + 1)
    chosen = numbers if points is None else sorted({numbers[p - (p > 0)] for p in points})
    with contextlib.ExitStack() as stack:
        workers = []
        for job in range(jobs):
            answer = stack.enter_context(tempfile.TemporaryFile())
            workers.append((os.fork(), chosen[job::jobs], answer))
            if not workers[-1][0]:
                _try(start, command, scenario.done, expected, *workers[-1][1:])
        failed: dict[int, list[str]] = {}
        for child, part, answer in workers:
            os.waitpid(child, 0)
            answer.seek(0)
            problems = json.loads(answer.read() or b"{}")
            failed |= {at: problems.get(str(at), ["this script failed"]) for at in part}
    return len(chosen), {at: lines for at, lines in sorted(failed.items()) if lines}


def _try(
    start: Path,
    command: str,
    done: str | None,
    expected: Tree,
    points: Sequence[int],
    answer: IO[bytes],
) -> NoReturn:
    """Try some of the points in a process of their own."""
    try:
        problems = {at: _resumed(start, command, done, at, expected) for at in points}
        answer.write(json.dumps(problems).encode())
        answer.flush()
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _resumed(start: Path, command: str, done: str | None, at: int, expected: Tree) -> list[str]:
    folder = start.with_name(f"point-{at}")
    _copy(start, folder)
    try:
        killed = run(folder, command, at)
        if killed.code != KILLED:
            return [f"was not killed, but ended with {killed.code}: {killed.output}"]
        again = run(folder, command)
        if again.code and (done is None or done not in again.output):
            return [f"does not go on ({again.code}): {again.output}"]
        return differences(tree(folder), expected)
    finally:
        shutil.rmtree(folder)


def _copy(start: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(start, folder, symlinks=True)  # with times


@contextlib.contextmanager
def workshop() -> Iterator[tuple[Path, dict[str, str]]]:
    with tempfile.TemporaryDirectory(prefix="dejacue-crash-") as place:
        work = Path(place).resolve()
        load()
        yield work, prepare(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="scenarios (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--points", help="such as 1,5,-1; negative: from the end (default: all)")
    arguments = parser.parse_args()
    chosen = arguments.points and [int(point) for point in arguments.points.split(",")]
    points = wrong = 0
    if unknown := set(arguments.names) - {scenario.name for scenario in SCENARIOS}:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    with workshop() as (work, boxes):
        for scenario in SCENARIOS:
            if arguments.names and scenario.name not in arguments.names:
                continue
            count, failed = check(scenario, work, boxes, chosen, arguments.jobs)
            points, wrong = points + count, wrong + len(failed)
            print(f"{scenario.name}: {count - len(failed)} of {count}", flush=True)
            for at, lines in failed.items():
                print(f"  {at}: {'; '.join(lines)}", flush=True)
    print(f"{points - wrong} of {points} points resumed to the result of an undisturbed run")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
