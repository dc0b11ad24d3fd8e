"""Fixtures: the public release where it is on this machine, and the command line in-process.

They are shared by tests/ and paper/tests/.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from dejacue.cli import main

if TYPE_CHECKING:
    from dejacue_paper.data.release import Release

pytest.register_assert_rewrite("helpers")

ROOT = Path(__file__).resolve().parent
settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room: most writing is synced to disk."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4e9:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(optionalhook=True)  # pytest may run without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are processors: tests in the browser mostly wait."""
    return (os.cpu_count() or 1) + 1


def folder_named_by(variable: str, file: str, what: str) -> Path:
    """Return the folder that an environment variable names; without it, or where it has no such
    file, skip (or fail where the data must be here)."""
    folder = Path(os.environ.get(variable) or "nowhere")
    if not (folder / file).exists():
        message = f"{what} not here; set {variable} to the folder"
        if os.environ.get("DEJACUE_REQUIRE_DATA"):
            pytest.fail(message)
        pytest.skip(message)
    return folder.resolve()


@pytest.fixture(scope="session")
def release() -> Release:
    """The public release of frozen features."""
    from dejacue_paper import load_release

    what = "the release of frozen features (dejacue data fetch) is"
    return load_release(folder_named_by("DEJACUE_DATA", "data/benchmark.json", what))


@pytest.fixture(scope="session")
def footage() -> Path:
    """Real video and masks in VOST's layout, and clips."""
    return folder_named_by("DEJACUE_FOOTAGE", "Annotations", "sequences of VOST with masks are")


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def dejacue(monkeypatch, capsys):
    """Runs the entry point as the shell does, in this process."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    # a busy machine prints no lines of progress beside what the tests look at
    monkeypatch.setattr("dejacue.cli.tables.LINE_S", math.inf)

    def run(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["dejacue", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        out, err = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())
        return Ran(code, out, err)

    return run


@pytest.fixture(scope="session")
def scene(tmp_path_factory) -> Path:
    """A rendered video of two cups, with masks and words; no test writes to its folder."""
    from dejacue_paper.data.rendered import render, write_scene

    folder = tmp_path_factory.mktemp("scene") / "cup"
    write_scene(folder, render(11, family="cup", topology="binary", frames=60, distractors=1))
    return folder


@pytest.fixture(scope="session")
def made_workspace(tmp_path_factory) -> Path:
    """A workspace that no test writes to."""
    from helpers.studio_client import make_workspace

    return make_workspace(tmp_path_factory.mktemp("studio") / "made")


@pytest.fixture
def studio(made_workspace, tmp_path):
    """A studio over a workspace of its own."""
    from helpers.studio_client import copied, studio_of

    found = studio_of(copied(made_workspace, tmp_path / "workspace"))
    yield found
    found.close()


@pytest.fixture
def client(studio):
    """A script with the token of the owner."""
    from helpers.studio_client import client_of

    return client_of(studio)


@pytest.fixture
def statements(monkeypatch) -> list[str]:
    """List the SQL statements that the file of a store is asked."""
    import sqlite3

    from dejacue.corpus import _file

    seen: list[str] = []
    real = _file.connect

    def traced(*given: object, **more: object) -> sqlite3.Connection:
        made = real(*given, **more)  # type: ignore[arg-type]
        made.set_trace_callback(seen.append)
        return made

    monkeypatch.setattr(_file, "connect", traced)
    return seen


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> None:
    """Keep what is cached apart from other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def uneven_video(tmp_path_factory) -> Path:
    """Write ten frames that are shown for uneven times."""
    from dejacue.video.video import write_video

    path = tmp_path_factory.mktemp("video") / "cup.mp4"
    times = [0.0, 0.04, 0.1, 0.14, 0.3, 0.34, 0.5, 0.9, 0.94, 1.0]
    pictures = (np.full((48, 64, 3), 20 * n, np.uint8) for n in range(10))
    return write_video(path, pictures, 25, times_s=times)


@pytest.fixture(scope="session")
def small(tmp_path_factory) -> Path:
    """The files of siglip2, of a small model; whoever changes them puts them back."""
    from helpers.published_model import save_published

    return save_published(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def offline(small, monkeypatch, tmp_path):
    """The small files stand where the published ones would; their hashes are those expected."""
    import hashlib

    from dejacue.models.encoders import siglip
    from dejacue.models.weights import Weights

    monkeypatch.setenv("DEJACUE_WEIGHTS", str(small))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = {
        name: hashlib.sha256((small / siglip.REPOSITORY / name).read_bytes()).hexdigest()
        for name in siglip.TORCH_FILES
    }
    monkeypatch.setattr(siglip, "TORCH_FILES", own)
    tokenizer = Weights(
        siglip.REPOSITORY, siglip.REVISION, {"tokenizer.json": own["tokenizer.json"]}
    )
    monkeypatch.setattr(siglip, "TOKENIZER", tokenizer)
    return small


@pytest.fixture
def one_thread():
    """Small models are faster on one thread than on many that wait for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
