"""The notebooks of the documentation are stored with the outputs that ``make notebooks`` writes."""

from __future__ import annotations

import json
import os
import re
import runpy
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

RUNNER = Path(__file__).resolve().parent.parent / "docs/run_notebooks.py"
runner = SimpleNamespace(**runpy.run_path(str(RUNNER)))


def outputs(book: Any) -> list[str]:
    """Return what each cell shows, as text; neither Pillow's version nor the last digits count."""
    texts = []
    for cell in book["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text": output.get("text", "")})
            text = " ".join("".join(data[kind]) for kind in sorted(data))
            text = re.sub(r"base64,[^\"]*", "", text).replace("WindowsPath", "PosixPath")
            texts.append(re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", text))
    return texts


def test_there_are_three_notebooks() -> None:
    assert len(runner.NOTEBOOKS) == 3


@pytest.mark.parametrize("path", runner.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_outputs_of_its_cells(path) -> None:
    book = json.loads(path.read_text(encoding="utf-8"))
    assert book["metadata"]["sources"] == runner.sources_hash(book), "run make notebooks"
    assert len(outputs(book)) >= 3
    words = re.sub(r"base64,[^\"]*", "", path.read_text(encoding="utf-8"))
    assert not re.search(r"/(home|root|tmp|work|Users|dev)/|stderr", words)
    assert len(words) < 30_000


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Proactor event loop:RuntimeWarning")  # on Windows
@pytest.mark.parametrize("path", runner.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_stored_outputs(path) -> None:
    if not all(map(find_spec, ("nbformat", "nbclient"))):
        missing = "nbclient is not installed; pip install 'dejacue[docs]'"
        if os.environ.get("DEJACUE_REQUIRE_DOCS"):
            pytest.fail(missing)
        pytest.skip(missing)
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert outputs(runner.executed(path)) == outputs(stored), "run make notebooks"
