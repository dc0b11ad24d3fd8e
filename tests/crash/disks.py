"""Create one store several times at once; run the commands of crash.py where they cannot write.

    python tests/crash/disks.py [--rounds 60] [--sizes 6] [name of a scenario ...]

*At once*: processes create one store at the same moment and add a history each. All must find
theirs in it, whoever created it.

*Full*: a command runs on a disk (tmpfs) that is too small by more or less. It must end with one
sentence that names a file and leave nothing half-written; on a larger disk it must then come to the
result of a run left alone.

*Read-only*: commands that write must say that they cannot, and change nothing.

Disks are mounted in a namespace of their own (unshare), which most systems allow without root.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crash import (
    FEW,
    MASKS,
    SCENARIOS,
    STORED,
    WORDS,
    Scenario,
    differences,
    run,
    tree,
    workshop,
)

PROCESSES = 4
LARGE = 64 << 20
PAGE = 4096
PRIVATE = "DEJACUE_CRASH_NAMESPACE"
READ_ONLY = (
    "store add s ../x.npz --replace",
    "store rm s {id}",
    "store compact s",
    "store add t",
    "encode ../scene/scene.mp4 --masks ../scene/Annotations --object 1 --encoder mini --store s",
    "ingest ../manifest.csv --store s --encoder mini",
    "find ../x.npz -v ../scene/vocabulary.yaml --encoder mini -o out",
    "convert ../truth.json new.json",
)
WRITERS = (  # beside those that crash.py kills
    Scenario("find, strip", f"find {FEW} {MASKS} --object 1 {WORDS} --strip -o out"),
    *(
        Scenario(f"find, {suffix}", f"find ../x.npz {WORDS} -o new/out{suffix}")
        for suffix in (".csv", ".eaf", ".otio", ".parquet", ".vtt")
    ),
    Scenario("ingest", "ingest ../manifest.csv --store s --encoder mini", done="already"),
    Scenario("store export", "store export s -o out", STORED),
    Scenario("store export, table", "store export s -o new/out.parquet", STORED),
    Scenario("convert", "convert ../truth.json new/truth.json"),
)


def create(folder: Path, id: str, start: Any, answers: Any) -> None:
    """Create the store when the others do, and add a history to whichever is there."""
    import numpy as np

    from dejacue import History
    from dejacue.pipeline.ingest import open_store
    from dejacue.store import Busy

    encoder: Any = SimpleNamespace(identity="e", dimension=4)
    start.wait()
    try:
        with open_store(folder, encoder) as store:
            added = 0
            while not added:
                with contextlib.suppress(Busy):
                    added = store.add(History(np.eye(4), id=id, encoder="e"))
        answers.put(None)
    except BaseException as error:
        answers.put(f"{type(error).__name__}: {error}")


def created_at_once(folder: Path) -> list[str]:
    """Return what went wrong."""
    from dejacue import Store

    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(PROCESSES), context.Queue()
    ids = [str(number) for number in range(PROCESSES)]
    running = [context.Process(target=create, args=(folder, id, start, answers)) for id in ids]
    for process in running:
        process.start()
    problems = [error for _ in running if (error := answers.get()) is not None]
    for process in running:
        process.join()
    with Store.open(folder) as store:
        if sorted(store.ids()) != ids:
            problems.append(f"the store holds {store.ids()}")
        problems += map(str, store.verify())
    left = {path.name for path in folder.iterdir()} - {"index.sqlite", "segments"}
    return problems + [f"left over: {name}" for name in left]


@contextlib.contextmanager
def disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        yield folder
    finally:
        subprocess.run(["umount", folder], check=False)
        folder.rmdir()


def remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", folder], check=True)


def shrink(folder: Path, size: int) -> None:
    """Make a disk about as small: the kernel's count of used pages may be a few pages higher."""
    for pages in range(1, 64):  # a size of 0 would be without limit
        option = f"remount,size={(size // PAGE + pages) * PAGE}"
        if not subprocess.run(["mount", "-o", option, folder], capture_output=True).returncode:
            return
    raise OSError(f"{folder} cannot be made smaller")


def used(folder: Path) -> int:
    state = os.statvfs(folder)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def began(folder: Path, scenario: Scenario, names: dict[str, str]) -> None:
    for earlier in scenario.before:
        ran = run(folder, earlier.format(**names))
        assert ran.code == 0, ran.output


def full(scenario: Scenario, work: Path, names: dict[str, str], sizes: int) -> Iterator[list[str]]:
    """Yield what went wrong on each of the disks."""
    from dejacue.sources.atomic import is_temporary

    command = scenario.command.format(**names)
    with disk(work / "disk", LARGE) as folder:
        began(folder, scenario, names)
        before = used(folder)
        ran = run(folder, command)
        assert ran.code == 0, ran.output
        expected, needed = tree(folder), used(folder) - before
    for part in range(sizes):
        with disk(work / "disk", LARGE) as folder:
            began(folder, scenario, names)
            there = set(folder.rglob("*"))
            shrink(folder, used(folder) + needed * part // sizes)
            ran, problems = run(folder, command), []
            sentence = ran.output.strip().splitlines()[-1:] or [""]
            if ran.code and (ran.code > 2 or not sentence[0].startswith("dejacue: ")):
                problems.append(f"ended with {ran.code}: {ran.output[-600:]}")
            if "damaged" in ran.output or "Traceback" in ran.output:
                problems.append(ran.output[-600:])
            left = [path.name for path in folder.rglob("*") if is_temporary(path)]
            problems += [f"left over: {name}" for name in left]
            new = set(folder.rglob("*")) - there if ran.code else ()
            problems += [f"empty: {p.name}" for p in new if p.is_dir() and not any(p.iterdir())]
            remount(folder, f"size={LARGE}")
            again = run(folder, command) if ran.code else ran
            if again.code and (scenario.done is None or scenario.done not in again.output):
                problems.append(f"does not go on ({again.code}): {again.output}")
            yield problems + differences(tree(folder), expected)


def read_only(command: str, work: Path, names: dict[str, str]) -> list[str]:
    """Return what went wrong."""
    with disk(work / "disk", LARGE) as folder:
        began(folder, Scenario("", "", (*STORED, "store add s ../x.npz --replace")), names)
        remount(folder, "ro")
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        ran = run(folder, command.format(**names))
        after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        refused = "read-only" in ran.output or "not writable" in ran.output
        if ran.code != 2 or not refused or "damaged" in ran.output or before != after:
            return [f"ended with {ran.code}: {ran.output}"]
    return []


def saves(work: Path) -> Iterator[list[str]]:
    """Yield what goes wrong where the studio saves, or a hash is cached, on a full disk."""
    from helpers.studio_client import client_of, make_workspace, studio_of

    from dejacue.sources.encoders.weights import sha256

    made = make_workspace(work / "workspace")
    words = {"states": {"a": ["a full cup"], "b": ["an empty cup"]}}
    requests = (
        ("vocabularies/new/cup.yaml", words),
        ("findings/cup", {**words, "folder": "new/cup"}),
        ("findings/cup", {"examples": []}),
    )
    for path, body in requests:
        with disk(work / "disk", LARGE) as folder:
            shutil.copytree(made, folder, dirs_exist_ok=True)
            document = folder / "cup" / "finding.json"
            document.write_text(document.read_text().replace(str(made), str(folder)))
            studio = studio_of(folder)
            client = client_of(studio)
            before = tree(folder)
            (folder / "filled").write_bytes(bytes(PAGE))
            shrink(folder, used(folder))
            with contextlib.suppress(OSError), (folder / "filled").open("ab") as stream:
                while stream.write(bytes(PAGE)):  # to the last page
                    stream.flush()
            answer = client.put(f"/api/{path}", json=body)
            named = answer.status_code == 503 and "No space left" in answer.text
            problems = [] if named else [f"{path}: {answer.text}"]
            (folder / "filled").unlink()
            problems += differences(tree(folder), before)
            remount(folder, f"size={LARGE}")
            again = client.put(f"/api/{path}", json=body)
            yield problems + ([] if again.is_success else [f"{path}: {again.text}"])
    os.environ["XDG_CACHE_HOME"] = str(work / "disk")
    with disk(work / "disk", PAGE) as folder:
        (folder / "filled").write_bytes(bytes(PAGE))
        assert sha256(made / "cup" / "finding.json")  # without the cache
        yield [f"left over: {path}" for path in folder.rglob("*") if path.name != "filled"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="scenarios (default: all)")
    parser.add_argument("--rounds", type=int, default=60, help="in which one store is created")
    parser.add_argument("--sizes", type=int, default=6, help="disks that are too small")
    arguments = parser.parse_args()
    if PRIVATE not in os.environ:
        command = ["unshare", "--mount"] + ["--map-root-user"] * (os.geteuid() != 0)
        if not shutil.which("unshare") or subprocess.run([*command, "true"]).returncode:
            sys.exit("skipped: disks cannot be mounted here")
        os.execvpe("unshare", [*command, sys.executable, *sys.argv], {**os.environ, PRIVATE: "1"})
    count = wrong = 0

    def tell(what: str, problems: list[str]) -> None:
        nonlocal count, wrong
        count, wrong = count + 1, wrong + bool(problems)
        for problem in problems:
            print(f"  {what}: {problem}", flush=True)

    with workshop() as (work, names):
        (work / "manifest.csv").write_text(
            "id,video,masks,objects\na,scene/scene.mp4,scene/Annotations,1\n"
        )
        for turn in range(arguments.rounds):
            folder = work / "created"
            if turn % 2:
                folder.mkdir()  # half of the folders are new, half are empty
            tell("at once", created_at_once(folder))
            shutil.rmtree(folder)
        print(f"at once: {count - wrong} of {count}", flush=True)
        for command in READ_ONLY:
            tell(f"read-only: {command}", read_only(command, work, names))
        for scenario in (*SCENARIOS, *WRITERS):
            if not arguments.names or scenario.name in arguments.names:
                for problems in full(scenario, work, names, arguments.sizes):
                    tell(f"full: {scenario.name}", problems)
                print(f"{scenario.name}: done", flush=True)
        if not arguments.names or "saves" in arguments.names:
            for problems in saves(work):
                tell("full: saves", problems)
    print(f"{count - wrong} of {count} ended as they should")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
