"""The notebooks of the documentation run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import dejacue

pytestmark = pytest.mark.long

FOLDER = Path(__file__).resolve().parent.parent / "docs/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three_notebooks() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs"), cell["id"]
        assert cell.get("execution_count") is None, cell["id"]


@pytest.mark.filterwarnings("ignore:Proactor event loop:RuntimeWarning")  # on Windows
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch) -> None:
    try:
        import nbformat
        from nbclient import NotebookClient
    except ImportError:
        missing = "nbclient is not installed; pip install 'dejacue[docs]'"
        if os.environ.get("DEJACUE_REQUIRE_DOCS"):
            pytest.fail(missing)
        pytest.skip(missing)
    # its kernel starts in another folder, where a relative path would lead nowhere
    monkeypatch.setenv("PYTHONPATH", str(Path(dejacue.__file__).resolve().parents[1]))
    book = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=600, kernel_name="python3", resources=resources).execute()
    errors = [out for cell in book.cells for out in cell.get("outputs", ()) if "stderr" in str(out)]
    assert not errors
    nbformat.write(book, tmp_path / path.name)
