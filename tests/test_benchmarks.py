"""Every benchmark shows the same help, and starts."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = sorted((ROOT / "benchmarks").glob("[!_]*.py"))
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

each = pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)


def run(path: Path, option: str, folder: Path) -> str:
    """Return what the benchmark prints, run in this folder on one thread."""
    ran = subprocess.run(
        [sys.executable, str(path), option],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran.stdout


def git_status() -> str:
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(ROOT), "status", "--porcelain"]
    return subprocess.run(command, capture_output=True, text=True).stdout


@each
def test_help_is_the_docstring_and_names_smoke(path, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", {**os.environ})  # they set a number of threads
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) in printed
    assert "--smoke" in printed


@pytest.mark.long
@each
def test_smoke_runs_to_the_end_and_writes_nothing_into_the_repository(path, tmp_path):
    if "playwright" in path.read_text(encoding="utf-8") and not any(map(shutil.which, CHROMIUM)):
        message = "no Chromium on this machine; apt-get install chromium"
        if os.environ.get("DEJACUE_REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    before = git_status()
    assert run(path, "--smoke", tmp_path).strip()
    assert git_status() == before
    assert list(tmp_path.iterdir()) == []


def test_smoke_refuses_to_write_into_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- made by benchmarks/store.py -->\n<!-- end -->\n")
    command = [sys.executable, str(ROOT / "benchmarks" / "store.py"), "--smoke", "--write", page]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 2
    assert "--write" in ran.stderr
    assert page.read_text() == "<!-- made by benchmarks/store.py -->\n<!-- end -->\n"


def test_files_name_only_benchmarks_that_exist():
    pages = [*ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "benchmarks").glob("*.py")]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "paper" / "docs").glob("*.md")]
    pages += (ROOT / "src" / "dejacue").rglob("*.py")
    texts = {path: path.read_text(encoding="utf-8") for path in pages if path.is_file()}
    named = {
        (path.name, name)
        for path, text in texts.items()
        for name in re.findall(r"\bbenchmarks/(\w+\.py)", text)
    }
    assert ("speed.md", "run.py") in named
    assert [pair for pair in named if not (ROOT / "benchmarks" / pair[1]).is_file()] == []
