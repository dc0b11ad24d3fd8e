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
