"""A short slice of ``make fuzz``; and that its inputs are valid before something is changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parent / "fuzz"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs run in forks")


def run(script: str, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that forks in a process of its own: the threads of this one may hold locks."""
    command = [sys.executable, HOME / script, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.long
def test_changed_inputs_become_records_or_sentences(tmp_path) -> None:
    ran = run("fuzz.py", "--inputs", 1000, "--seed", 1, cwd=tmp_path)
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
    for target in fuzz.readers.TARGETS:
        valid, folder = tmp_path / target.name / "valid", tmp_path / target.name / "input"
        valid.mkdir(parents=True)
        folder.mkdir()
        target.make(valid)
        target.run(random.Random(0), valid, folder)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("traceback", "KeyError: 'x'"),
        ("death", "the process died: Killed"),
        ("leftover", "left behind: .x.json.dejacue-tmp"),
        ("hang", "took more than 0.3 s"),
    ],
)
def test_what_breaks_the_rule_is_printed_with_its_input(tmp_path, kind, message) -> None:
    output = run("bad_targets.py", kind, cwd=tmp_path).stdout
    assert f"{kind}:1: {message}" in output
    assert f"fuzz.py --seed 5 --replay {kind}:1" in output
    assert f"failed: {{'{kind}': 2}}" in output
    assert (tmp_path / "out" / "fuzz" / f"{kind}-5-1" / "problem.txt").is_file()


@pytest.mark.long
def test_an_input_that_waits_for_a_processor_is_not_called_slow(tmp_path) -> None:
    assert run("bad_targets.py", "starved", cwd=tmp_path).stdout == "failed: {}\n"


@pytest.mark.long
def test_files_of_a_megabyte_are_read_within_seconds_and_300_mb(tmp_path) -> None:
    readers = ["size-annotation", "size-finding"]  # make fuzz tries the others, too
    ran = run("fuzz.py", "--sizes", *readers, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "; 0 over" in ran.stdout
