"""Kill what writes at its file operations, and run it on disks that are full or read-only.

    python tests/test_crash.py [--points 2,-1] [--disks SIZES] [name of a scenario ...]

A scenario is a command line, or a save in the studio. In a run to the end its file operations are
counted: files opened to be written, every write, renames, removals, new folders, statements to the
file of a store. Then, in a fresh folder for each, it is killed just before it (in the middle of
it, where it is a write): what is there by then is whole. The same is run again: then everything is
there byte by byte as after the run that was left alone, with nothing beside it.

On a disk (tmpfs) that is too small it must end with one sentence, leave nothing half-written, and
come to the same result on a larger one. On one that is read-only it must say so and change nothing.
Disks are mounted in a namespace of their own (unshare), which most systems allow without root.

Each run is a fork of a process that has imported the library and nothing else: threads and model
sessions are made in the child only. So the tests run this file in a process of its own.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shutil import disk_usage
from typing import Any, NamedTuple, NoReturn

import pytest

KILLED = 137
OPERATIONS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink")
BUFFER = 1 << 22
LARGE, PAGE = 64 << 20, 4096  # bytes of a disk, and of what it is measured in
PRIVATE = "DEJACUE_CRASH_NAMESPACE"
Tree = dict[str, bytes | None]  # None: a folder


class Scenario(NamedTuple):
    name: str
    command: str
    before: tuple[str, ...] = ()  # commands that have been run to the end in the same folder
    done: str | None = None  # what the command says where it was killed after all was done
    files: str | None = None  # a folder that is there before


LOADED = (
    *("av", "onnxruntime", "pycocotools.mask", "rich.progress", "rich.table", "yaml"),
    *("matplotlib.figure", "PIL.ImageDraw", "PIL.ImageFont", "helpers.studio_client"),
    *("dejacue.cli.app", "dejacue.cli.readouts", "dejacue.corpus.ingest", "dejacue.report.clips"),
    *("dejacue.report.page", "dejacue.report.plots", "dejacue.report.exports"),
    *("dejacue.models.encoders.mini", "dejacue.models.trackers.propagate"),
)
VIDEO = "../scene/scene.mp4"  # 70 frames: more than a batch of crops
MASKS = "--masks ../scene/Annotations"
WORDS = "-v ../scene/vocabulary.yaml --encoder mini"
BOX = "--tracker still --box 41,19,77,58"
FIND = f"find ../x.npz {WORDS} -o out"
ADD = "store add s ../x.npz"
SAVE = "save "  # in the studio; what follows is the name of the object
SCENARIOS = (
    Scenario("find", f"find {VIDEO} --end 39 {MASKS} --object 1 {WORDS} -o out --cut"),
    Scenario("find, several", f"find {VIDEO} {MASKS} --objects all {WORDS} -o out.json"),
    Scenario("find, box", f"find {VIDEO} --stride 7 {BOX}@35 {WORDS} -o out"),
    Scenario("find, replacing", f"{FIND} --readout published --plot x.png", (FIND,)),
    Scenario("ingest", "ingest ../manifest.csv --store s --encoder mini"),
    Scenario("store add, new", ADD, done="has a history"),
    Scenario("store add", ADD, ("store add s",), "has a history"),
    Scenario("store add, replacing", f"{ADD} --replace", (ADD,)),
    Scenario("store rm", "store rm s scene", (ADD,), "has no history"),
    Scenario("store compact", "store compact s", (ADD, f"{ADD} --replace")),
    Scenario("save", f"{SAVE}another cup", files="workspace"),
)
READ_ONLY = (
    *(f"{ADD} --replace", "store rm s scene", "store compact s", "store add t"),
    "ingest ../manifest.csv --store s --encoder mini",
    FIND,
)


class Interrupted:
    """Count the file operations of this process in a folder; kill it at one of them (0: none)."""

    def __init__(self, folder: Path, at: int) -> None:
        self.count, self.at, self._inside = 0, at, f"{folder}{os.sep}"
        real = builtins.open

        def opened(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if "b" in mode and set(mode) & set("wax+") and self._is_inside(file):
                raw = _CountedFile(file, mode.replace("b", ""), opener=options.get("opener"))
                raw.counter = self
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
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self._is_inside(path):
                self.operation()
        elif event in OPERATIONS and any(map(self._is_inside, arguments)):
            self.operation()

    def _is_inside(self, path: object) -> bool:
        if isinstance(path, str | bytes | os.PathLike):
            return os.path.abspath(os.fsdecode(path)).startswith(self._inside)
        return False


class _CountedFile(io.FileIO):
    counter: Interrupted

    def write(self, data: Any, /) -> int:
        written = super().write
        self.counter.operation(lambda: written(memoryview(data)[: len(data) // 2]))
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
        counter = Interrupted(folder, at)
        try:
            if command.startswith(SAVE):
                _save(folder, command.removeprefix(SAVE))
            else:
                sys.argv = ["dejacue", *command.split()]
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


def _save(root: Path, name: str) -> None:
    """Save a finding in the studio, as a command would: with a sentence where it is refused."""
    from helpers.studio_client import client_of, studio_of

    answer = client_of(studio_of(root)).put("/api/findings/cup", json={"object": name})
    if answer.status_code == 503:
        print(f"dejacue: {answer.text}")
        sys.exit(2)
    assert answer.is_success, answer.text


def to_the_end(folder: Path, command: str) -> Ran:
    ran = run(folder, command)
    assert ran.code == 0, f"{command}: ended with {ran.code}: {ran.output}"
    return ran


def is_store(path: Path) -> bool:
    return path.name in ("s", "t") and path.is_file() and path.stat().st_size > 0


def tree(folder: Path) -> Tree:
    """Return everything in a folder; of a store, what it contains."""
    files: Tree = {}
    for path in sorted(folder.rglob("*")):
        if is_store(path):
            files |= {f"{path.name}/{key}": text for key, text in store_contents(path)}
        else:
            name = str(path.relative_to(folder))
            files[name] = None if path.is_dir() else path.read_bytes()
    return files


def store_contents(path: Path) -> Iterator[tuple[str, bytes]]:
    from dejacue import Store

    with Store.open(path) as store:
        yield "problems", repr(store.verify()).encode()
        for row in store.rows():
            yield row.id, repr(row).encode() + store[row.id].features.tobytes()


def differences(files: Tree, expected: Tree) -> list[str]:
    lines = [f"left over: {name}" for name in files if name not in expected]
    lines += [f"missing: {name}" for name in expected if name not in files]
    return lines + [f"differs: {n}" for n in files if n in expected and files[n] != expected[n]]


def broken(folder: Path, earlier: Tree, expected: Tree) -> list[str]:
    """Return what is neither as before nor as it will be: of histories in stores, and findings."""
    from dejacue import Finding

    for document in folder.glob("*/finding.json"):
        Finding.read(document.parent)
    return [
        f"neither old nor new: {name}"
        for store in filter(is_store, folder.iterdir())
        for key, text in store_contents(store)
        for name in [f"{store.name}/{key}"]
        if text not in (earlier.get(name), expected.get(name))
    ]


class Workshop:
    """The files that commands read, and a folder for each run."""

    def __init__(self, work: Path) -> None:
        self.work, self.folder = work, work / "run"
        for name in LOADED:  # what commands import, so that their processes need not
            importlib.import_module(name)
        importlib.import_module("helpers.still_tracker").register()
        from helpers.studio_client import make_workspace

        from dejacue_paper.data.rendered import render, write_scene

        scene = render(3, family="cup", frames=70, size=(72, 96), distractors=1)
        write_scene(work / "scene", scene)
        make_workspace(work / "made")
        shutil.copytree(work / "made" / "cup", work / "workspace" / "cup")
        (work / "workspace" / ".dejacue-studio").mkdir()  # which the studio makes when it starts
        listed = [f"{id},scene/scene.mp4,scene/Annotations,{id}\n" for id in (1, 2)]
        (work / "manifest.csv").write_text("id,video,masks,objects\n" + "".join(listed))
        encode = f"encode {VIDEO} {MASKS} --object 1 --encoder mini -o ../x.npz"
        to_the_end(work / "scene", encode)

    def begin(self, scenario: Scenario) -> Tree:
        """Make what is there before; return it."""
        if scenario.files:
            shutil.copytree(self.work / scenario.files, self.folder, dirs_exist_ok=True)
        for earlier in scenario.before:
            to_the_end(self.folder, earlier)
        return tree(self.folder)

    def go_on(self, scenario: Scenario, expected: Tree) -> list[str]:
        again = run(self.folder, scenario.command)
        if again.code and (scenario.done is None or scenario.done not in again.output):
            return [f"does not go on ({again.code}): {again.output}"]
        return differences(tree(self.folder), expected)

    def kill(self, scenario: Scenario, points: list[int] | None) -> Iterator[list[str]]:
        """Yield what was wrong after each point: from 1, from the end where negative; None: all."""
        start = self.work / "start"
        self.folder.mkdir()
        earlier = self.begin(scenario)
        shutil.copytree(self.folder, start, symlinks=True)
        operations = to_the_end(self.folder, scenario.command).operations
        expected = tree(self.folder)
        numbers = range(1, operations + 1)
        for at in numbers if points is None else sorted({numbers[p - (p > 0)] for p in points}):
            shutil.rmtree(self.folder)
            shutil.copytree(start, self.folder, symlinks=True)  # with times
            killed = run(self.folder, scenario.command, at)
            if killed.code == KILLED:
                problems = broken(self.folder, earlier, expected)
                problems += self.go_on(scenario, expected)
            else:  # threads may take an operation less
                problems = [killed.output] * bool(killed.code)
                problems += differences(tree(self.folder), expected)
            yield [f"killed at {at}: {problem}" for problem in problems]
        for folder in (start, self.folder):
            shutil.rmtree(folder)

    @contextlib.contextmanager
    def disk(self) -> Iterator[None]:
        self.folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LARGE}", "tmpfs", self.folder])
        try:
            yield
        finally:
            subprocess.run(["umount", self.folder], check=False)
            self.folder.rmdir()

    def remount(self, option: str) -> bool:
        command = ["mount", "-o", f"remount,{option}", self.folder]
        return not subprocess.run(command, capture_output=True, check=False).returncode

    def full(self, scenario: Scenario, sizes: int) -> Iterator[list[str]]:
        """Yield what went wrong on each of the disks."""
        from dejacue.atomic import is_temporary

        with self.disk():
            self.begin(scenario)
            before = disk_usage(self.folder).used
            to_the_end(self.folder, scenario.command)
            expected, needed = tree(self.folder), disk_usage(self.folder).used - before
        for part in range(sizes):
            with self.disk():
                self.begin(scenario)
                there = set(self.folder.rglob("*"))
                pages = (disk_usage(self.folder).used + max(0, needed) * part // sizes) // PAGE
                # the kernel's count of used pages may be a few pages higher
                assert any(self.remount(f"size={(pages + k) * PAGE}") for k in range(1, 64))
                ran, problems = run(self.folder, scenario.command), []
                sentence = ran.output.strip().splitlines()[-1:] or [""]
                if ran.code and (ran.code > 2 or not sentence[0].startswith("dejacue: ")):
                    problems.append(f"ended with {ran.code}: {ran.output[-600:]}")
                if "damaged" in ran.output or "Traceback" in ran.output:
                    problems.append(ran.output[-600:])
                new = set(self.folder.rglob("*")) - there if ran.code else set()
                left = [p for p in new if is_temporary(p) or (p.is_dir() and not any(p.iterdir()))]
                self.remount(f"size={LARGE}")
                if ran.code:
                    problems += self.go_on(scenario, expected)
                yield [*problems, *(f"left over: {path.name}" for path in left)]

    def read_only(self, command: str) -> list[str]:
        with self.disk():
            self.begin(Scenario("", "", (ADD, f"{ADD} --replace")))
            self.remount("ro")
            before, ran = tree(self.folder), run(self.folder, command)
            refused = "read-only" in ran.output or "not writable" in ran.output
            same = before == tree(self.folder)
            if ran.code == 2 and refused and "damaged" not in ran.output and same:
                return []
        return [f"ended with {ran.code}: {ran.output}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="scenarios (default: all)")
    parser.add_argument("--points", help="such as 1,5,-1; negative: from the end (default: all)")
    parser.add_argument("--disks", type=int, help="do not kill; so many disks are too small")
    given = parser.parse_args()
    points = given.points and [int(point) for point in given.points.split(",")]
    if given.disks and PRIVATE not in os.environ:
        command = ["unshare", "--mount"] + ["--map-root-user"] * (os.geteuid() != 0)
        if not shutil.which("unshare") or subprocess.run([*command, "true"]).returncode:
            sys.exit("skipped: disks cannot be mounted here")
        os.execvpe("unshare", [*command, sys.executable, *sys.argv], {**os.environ, PRIVATE: "1"})
    count = wrong = 0

    def tell(what: str, outcomes: Iterable[list[str]]) -> None:
        nonlocal count, wrong
        for problems in outcomes:
            count, wrong = count + 1, wrong + bool(problems)
            print(*(f"  {what}: {problem}\n" for problem in problems), sep="", end="", flush=True)
        print(f"{what}: done", flush=True)

    with tempfile.TemporaryDirectory(prefix="dejacue-crash-") as place:
        shop = Workshop(Path(place).resolve())
        for each in SCENARIOS:
            if not given.names or each.name in given.names:
                tried = shop.full(each, given.disks) if given.disks else shop.kill(each, points)
                tell(each.name, tried)
        for command in READ_ONLY if given.disks else ():
            tell(f"read-only: {command}", [shop.read_only(command)])
    print(f"{count - wrong} of {count} ended as they should")
    sys.exit(bool(wrong))


def run_this_file(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are forks")
def test_what_is_killed_is_whole_and_goes_on_to_the_same_files() -> None:
    ran = run_this_file("--points=3,-1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "22 of 22 ended" in ran.stdout


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="mounts disks")
def test_disks_that_are_full_or_read_only_are_named_and_nothing_is_half_written() -> None:
    ran = run_this_file("--disks=2", "find", "ingest", "store add", "save")
    if "cannot be mounted" in ran.stderr:
        pytest.skip(ran.stderr)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "14 of 14 ended" in ran.stdout


if __name__ == "__main__":
    main()
