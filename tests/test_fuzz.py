"""A short slice of ``make fuzz``; and that its inputs are valid before something is changed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dejacue.errors import DejaCueError

HOME = Path(__file__).parent / "fuzz"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs run in forks")


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, HOME / "fuzz.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.long
def test_changed_inputs_become_records_or_sentences(tmp_path) -> None:
    ran = run("--inputs", 1000, "--seed", 1, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "): 0 break the rule" in ran.stdout


@pytest.fixture
def fuzz(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HOME))
    monkeypatch.syspath_prepend(str(HOME.parent))
    monkeypatch.chdir(tmp_path)
    import fuzz

    return fuzz


def test_the_inputs_are_valid_before_they_are_changed(fuzz, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("mutate.tree", lambda rng, folder: None)
    monkeypatch.setattr("mutate.data", lambda rng, content, times=0: content)
    monkeypatch.setattr(
        random.Random, "choice", lambda rng, choices: choices[0]
    )  # the usual options
    for target in (*fuzz.readers.TARGETS, *fuzz.layouts.TARGETS):
        valid, folder = tmp_path / target.name / "valid", tmp_path / target.name / "input"
        valid.mkdir(parents=True)
        folder.mkdir()
        target.make(valid)
        target.run(random.Random(0), valid, folder)


class Bad:
    """Targets that break the rule, each in another way."""

    def __getattr__(self, kind):
        def act(rng, valid, folder):
            if kind == "traceback":
                raise KeyError("x")
            if kind == "death":
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "leftover":
                (folder / ".x.json.dejacue-tmp").write_bytes(b"half")
            if kind == "hang":
                time.sleep(60)

        return act


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("traceback", "KeyError: 'x'"),
        ("death", "the process died: Killed"),
        ("leftover", "left behind: .x.json.dejacue-tmp"),
        ("hang", "took more than 0.3 s"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_breaks_the_rule_is_printed_with_its_input(
    fuzz, monkeypatch, tmp_path, capsys, kind, message
) -> None:
    target = fuzz.Target(kind, 1, lambda folder: None, getattr(Bad(), kind))
    monkeypatch.setattr(fuzz, "TARGETS", {kind: target})
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.3 if kind == "hang" else 600)
    monkeypatch.setattr(fuzz, "FAILED_INPUTS", tmp_path / "failed")
    failed = fuzz.run([(kind, 0), (kind, 1)], 5, 1, tmp_path / "scratch")
    assert failed == {kind: 2}
    output = capsys.readouterr().out
    assert f"{kind}:1: {message}" in output
    assert f"fuzz.py --seed 5 --replay {kind}:1" in output
    assert (tmp_path / "failed" / f"{kind}-5-1" / "problem.txt").is_file()


def test_every_argument_of_every_public_name_is_refused_by_its_name(fuzz, tmp_path) -> None:
    fuzz.arguments.prepared(tmp_path)
    called = 0
    for name, changes in fuzz.arguments.all_calls(tmp_path):
        if called % 7 == 0:  # make fuzz tries all
            fuzz.arguments.call(name, changes, tmp_path)
        called += 1
    assert called > 5000


def fork(run) -> str:
    """Run something in a fork; return what it raised."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        message = ""
        try:
            run()
        except DejaCueError:
            pass
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"[:500]
        os.write(writing, message.encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as stream:
        return stream.read() or ("" if status == 0 else f"died: {status}")


@pytest.mark.parametrize("what", ["annotation", "finding"])  # make fuzz tries the others, too
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_files_of_a_megabyte_are_read_within_seconds_and_300_mb(fuzz, tmp_path, what) -> None:
    read, shapes = fuzz.sizes.READERS[what]
    problems = []
    for at, (name, make) in enumerate(shapes):
        path = tmp_path / str(at) / name
        path.parent.mkdir()
        path.write_bytes(make(fuzz.sizes.FILE_BYTES))

        def bounded(path: Path = path) -> None:
            with fuzz.sizes.bounded():
                read(path)

        message = fork(bounded)
        problems += [f"{what} {at} ({name}): {message}"] if message else []
    assert not problems
